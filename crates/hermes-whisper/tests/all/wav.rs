//! WAV files become samples.

use hermes_whisper::wav_samples;
use proptest::prelude::*;

/// Returns a file with a format (kind, channels, rate, bits) and bytes of samples.
fn file(kind: u16, channels: u16, rate: u32, bits: u16, samples: &[u8]) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
    file.extend(kind.to_le_bytes());
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(channels) * u32::from(bits / 8)).to_le_bytes());
    file.extend((channels * (bits / 8)).to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend(b"data");
    file.extend(u32::try_from(samples.len()).unwrap().to_le_bytes());
    file.extend(samples);
    file
}

fn shorts(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

#[test]
fn integers_and_floats_are_read() {
    let samples = wav_samples(&file(1, 1, 16_000, 16, &shorts(&[0, 16_384, -32_768]))).unwrap();
    assert_eq!(samples, [0.0, 0.5, -1.0]);
    let floats: Vec<u8> = [0.25_f32, -2.0, f32::NAN].iter().flat_map(|sample| sample.to_le_bytes()).collect();
    assert_eq!(wav_samples(&file(3, 1, 16_000, 32, &floats)).unwrap(), [0.25, -1.0, 0.0]);
    let long: Vec<u8> = [1_i32 << 30].iter().flat_map(|sample| sample.to_le_bytes()).collect();
    assert_eq!(wav_samples(&file(1, 1, 16_000, 32, &long)).unwrap(), [0.5]);
}

#[test]
fn channels_are_mixed() {
    let samples = wav_samples(&file(1, 2, 16_000, 16, &shorts(&[16_384, 0, 16_384, 16_384]))).unwrap();
    assert_eq!(samples, [0.25, 0.5]);
}

#[test]
fn a_file_that_is_cut_off_has_what_it_has() {
    let whole = file(1, 1, 16_000, 16, &shorts(&[16_384; 8]));
    assert_eq!(wav_samples(&whole[..whole.len() - 5]).unwrap(), [0.5; 5]);
}

#[test]
fn other_files_are_refused() {
    for (file, wanted) in [
        (b"OggS".to_vec(), "no WAV file"),
        (file(1, 1, 44_100, 16, &[]), "44100 samples per second"),
        (file(1, 1, 16_000, 8, &[]), "8 bits"),
        (file(6, 1, 16_000, 16, &[]), "format 6"),
        (file(1, 0, 16_000, 16, &[]), "0 channels"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0".to_vec(), "before their format"),
        (b"RIFF\0\0\0\0WAVEfmt \x04\0\0\0\x01\0\x01\0".to_vec(), "cut off"),
        (b"RIFF\0\0\0\0WAVE".to_vec(), "no samples"),
    ] {
        let error = wav_samples(&file).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut file = b"RIFF\0\0\0\0WAVE".to_vec();
        file.extend(&bytes);
        let _ = wav_samples(&file);
        let _ = wav_samples(&bytes);
    }
}
