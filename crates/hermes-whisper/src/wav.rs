//! Samples of WAV files.

use crate::{SAMPLE_RATE, WhisperError};

const INTEGERS: u16 = 1;
const FLOATS: u16 = 3;
/// The kind is in the first bytes of the format's name, further behind.
const EXTENSIBLE: u16 = 0xfffe;

/// The format of the samples of a file.
struct SampleFormat {
    kind: u16,
    channels: usize,
    rate: u32,
    bits: u16,
}

/// Returns the samples of a WAV file with 16,000 samples per second, its channels mixed into one. A file that ends early has the
/// samples that it has.
pub fn wav_samples(file: &[u8]) -> Result<Vec<f32>, WhisperError> {
    let refuse = |reason: &str| WhisperError::Recording(reason.to_owned());
    if file.get(..4) != Some(b"RIFF") || file.get(8..12) != Some(b"WAVE") {
        return Err(refuse("it is no WAV file"));
    }
    let mut rest = file.get(12..).unwrap_or_default();
    let mut format = None;
    while let (Some(name), Some(length)) = (rest.get(..4), number(rest, 4, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let body = rest.get(8..).unwrap_or_default();
        let content = body.get(..length).unwrap_or(body);
        match name {
            b"fmt " => format = Some(read_format(content).ok_or_else(|| refuse("its format is cut off"))?),
            b"data" => {
                let format = format.ok_or_else(|| refuse("its samples come before their format"))?;
                return samples(&format, content);
            }
            _ => {}
        }
        rest = body.get(length.saturating_add(length % 2)..).unwrap_or_default();
    }
    Err(refuse("it has no samples"))
}

/// Returns an unsigned number of some bytes, the lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + length)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn read_format(bytes: &[u8]) -> Option<SampleFormat> {
    let short = |at| number(bytes, at, 2).and_then(|value| u16::try_from(value).ok());
    let mut kind = short(0)?;
    if kind == EXTENSIBLE {
        kind = short(24)?;
    }
    Some(SampleFormat {
        kind,
        channels: usize::from(short(2)?),
        rate: number(bytes, 4, 4)?,
        bits: short(14)?,
    })
}

fn samples(format: &SampleFormat, bytes: &[u8]) -> Result<Vec<f32>, WhisperError> {
    if format.rate != SAMPLE_RATE {
        let rate = format.rate;
        return Err(WhisperError::Recording(format!("it has {rate} samples per second, not {SAMPLE_RATE}")));
    }
    let read: fn(&[u8]) -> f32 = match (format.kind, format.bits) {
        (INTEGERS, 16) => {
            |bytes| bytes.try_into().map_or(0.0, |b| f32::from(i16::from_le_bytes(b)) / 32_768.0)
        }
        #[expect(clippy::cast_precision_loss, reason = "a model hears no more than 24 bits")]
        (INTEGERS, 32) => {
            |bytes| bytes.try_into().map_or(0.0, |b| i32::from_le_bytes(b) as f32 / 2_147_483_648.0)
        }
        (FLOATS, 32) => |bytes| {
            let sample = bytes.try_into().map_or(0.0, f32::from_le_bytes);
            if sample.is_finite() { sample.clamp(-1.0, 1.0) } else { 0.0 }
        },
        (kind, bits) => {
            let reason = format!("its samples have {bits} bits in format {kind}; 16 bits are read");
            return Err(WhisperError::Recording(reason));
        }
    };
    if format.channels == 0 || format.channels > 64 {
        return Err(WhisperError::Recording(format!("it has {} channels", format.channels)));
    }
    let size = usize::from(format.bits / 8);
    #[expect(clippy::cast_precision_loss, reason = "at most 64")]
    let share = 1.0 / format.channels as f32;
    let frames = bytes.chunks_exact(size * format.channels);
    Ok(frames.map(|frame| frame.chunks_exact(size).map(read).sum::<f32>() * share).collect())
}
