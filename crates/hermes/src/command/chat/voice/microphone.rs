//! The microphone of this machine, without a program: samples come from a thread of the sound system.
//!
//! The stream lives on a thread of its own that ends with the recording. On Linux, ALSA's messages would be written over the screen;
//! they are kept and become a part of the error.

use std::sync::mpsc::{Sender as ThreadSender, channel as thread_channel};

use cpal::traits::{DeviceTrait as _, HostTrait as _, StreamTrait as _};
use cpal::{Data, Device, SampleFormat, Stream, SupportedStreamConfig};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::recording::SAMPLE_RATE;

/// The formats that are read, the best first.
const FORMATS: [SampleFormat; 3] = [SampleFormat::I16, SampleFormat::F32, SampleFormat::I32];

/// A piece of a recording, or why there is no next one.
type Piece = Result<Vec<i16>, String>;

/// An open microphone; it is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Microphone {
    pieces: UnboundedReceiver<Piece>,
    /// The thread that keeps the stream ends when this is gone.
    _end: ThreadSender<()>,
}

impl Microphone {
    /// Opens the microphone and waits until it records, or says why it does not.
    pub(super) async fn open() -> Result<Self, String> {
        let (pieces, received) = unbounded_channel();
        let (end, ended) = thread_channel::<()>();
        let (opened, mut is_open) = unbounded_channel();
        on_own_thread(move || match start(pieces) {
            Ok(stream) => {
                // Nobody may wait for it any more.
                let _ = opened.send(Ok(()));
                // Nothing is ever sent: this waits until the recording is over.
                let _ = ended.recv();
                drop(stream);
            }
            Err(reason) => drop(opened.send(Err(reason))),
        })?;
        is_open.recv().await.unwrap_or_else(|| Err("the sound system failed".to_owned()))?;
        Ok(Self { pieces: received, _end: end })
    }

    /// Says why nothing can be recorded. Opens the device and closes it again.
    pub(super) fn check() -> Result<(), String> {
        let (answer, answered) = thread_channel();
        on_own_thread(move || drop(answer.send(find().map(drop))))?;
        answered.recv().unwrap_or_else(|_| Err("the sound system failed".to_owned()))
    }

    /// Returns the next samples.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<i16>>, String> {
        self.pieces.recv().await.transpose()
    }
}

fn on_own_thread(work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().name("microphone".to_owned());
    thread.spawn(work).map(drop).map_err(|error| error.to_string())
}

/// Finds the device and how it records best.
fn find() -> Result<(Device, SupportedStreamConfig), String> {
    let messages = keep_messages();
    let host = cpal::default_host();
    let device = host.default_input_device().ok_or_else(|| "no microphone was found".to_owned())?;
    let supported = device.supported_input_configs().map_err(|error| {
        let more = messages();
        if more.is_empty() { error.to_string() } else { format!("{error}: {more}") }
    })?;
    let known = supported.filter_map(|range| {
        let format = FORMATS.iter().position(|format| *format == range.sample_format())?;
        let rate = SAMPLE_RATE.clamp(range.min_sample_rate(), range.max_sample_rate());
        Some(((rate.abs_diff(SAMPLE_RATE), format, range.channels()), range.with_sample_rate(rate)))
    });
    let best = known.min_by_key(|(distance, _)| *distance);
    let (_, config) = best.ok_or_else(|| "the microphone has no usable format".to_owned())?;
    Ok((device, config))
}

#[cfg(target_os = "linux")]
fn keep_messages() -> impl Fn() -> String {
    let kept = alsa::Output::local_error_handler();
    move || {
        let text = kept.as_ref().map(|kept| kept.borrow().to_string()).unwrap_or_default();
        text.lines().last().unwrap_or_default().trim().to_owned()
    }
}

#[cfg(not(target_os = "linux"))]
fn keep_messages() -> impl Fn() -> String {
    String::new
}

fn start(pieces: UnboundedSender<Piece>) -> Result<Stream, String> {
    let (device, config) = find()?;
    let mut converter = SampleConverter::new(config.sample_rate(), config.channels());
    let failures = pieces.clone();
    let stream = device.build_input_stream_raw(
        config.config(),
        config.sample_format(),
        move |data: &Data, _| {
            let samples = converter.convert(data);
            if !samples.is_empty() {
                // The recording may have ended a moment ago.
                let _ = pieces.send(Ok(samples));
            }
        },
        move |error| drop(failures.send(Err(format!("the microphone failed: {error}")))),
        None,
    );
    let stream = stream.map_err(|error| error.to_string())?;
    stream.play().map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Makes samples of one channel at the rate of recordings from what a device gives.
#[derive(Debug)]
struct SampleConverter {
    rate: u32,
    channels: usize,
    /// What was not given out yet: how much of a sample it is, and the sum and count of the samples in it.
    phase: u32,
    sum: f32,
    count: f32,
}

impl SampleConverter {
    fn new(rate: u32, channels: u16) -> Self {
        Self { rate: rate.max(1), channels: usize::from(channels.max(1)), phase: 0, sum: 0.0, count: 0.0 }
    }

    fn convert(&mut self, data: &Data) -> Vec<i16> {
        match data.sample_format() {
            SampleFormat::I16 => self.frames(data.as_slice::<i16>(), f32::from),
            SampleFormat::F32 => self.frames(data.as_slice::<f32>(), |sample| sample * 32_767.0),
            #[expect(clippy::cast_precision_loss, reason = "sixteen bits are kept")]
            SampleFormat::I32 => self.frames(data.as_slice::<i32>(), |sample| sample as f32 / 65_536.0),
            _ => Vec::new(),
        }
    }

    /// Mixes channels, and averages the samples that fall into one of a lower rate.
    fn frames<T: Copy>(&mut self, samples: Option<&[T]>, value: impl Fn(T) -> f32) -> Vec<i16> {
        let mut converted = Vec::new();
        #[expect(clippy::cast_precision_loss, reason = "a device has some channels")]
        let share = 1.0 / self.channels as f32;
        for frame in samples.unwrap_or_default().chunks_exact(self.channels) {
            self.sum += frame.iter().map(|sample| value(*sample)).sum::<f32>() * share;
            self.count += 1.0;
            self.phase += SAMPLE_RATE;
            let mean = self.sum / self.count;
            if self.phase >= self.rate {
                (self.sum, self.count) = (0.0, 0.0);
            }
            while self.phase >= self.rate {
                self.phase -= self.rate;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a conversion of this kind stays within bounds"
                )]
                converted.push(mean as i16);
            }
        }
        converted
    }
}

#[cfg(test)]
mod tests {
    use super::SampleConverter;

    #[test]
    fn channels_and_rates_are_converted() {
        let convert = |rate, channels, samples: &[i16]| {
            SampleConverter::new(rate, channels).frames(Some(samples), f32::from)
        };
        assert_eq!(convert(16_000, 1, &[1, -2, 3]), [1, -2, 3]);
        assert_eq!(convert(16_000, 2, &[10, 20, -10, -30]), [15, -20]);
        assert_eq!(convert(48_000, 1, &[1, 2, 3, 4, 5, 6, 7]), [2, 5]);
        assert_eq!(convert(8_000, 1, &[7, 9]), [7, 7, 9, 9]);
        let second = convert(44_100, 2, &vec![500; 88_200]);
        assert_eq!((second.len(), second.iter().all(|sample| *sample == 500)), (16_000, true));
    }

    #[test]
    fn pieces_are_joined_and_loud_samples_are_cut() {
        let mut converter = SampleConverter::new(48_000, 1);
        let mut all = converter.frames(Some(&[3_i16, 3][..]), f32::from);
        all.extend(converter.frames(Some(&[3_i16, 6, 6][..]), f32::from));
        all.extend(converter.frames(Some(&[6_i16][..]), f32::from));
        assert_eq!(all, [3, 6]);
        let loud =
            SampleConverter::new(16_000, 1).frames(Some(&[2.0_f32, -2.0][..]), |sample| sample * 32_767.0);
        assert_eq!(loud, [i16::MAX, i16::MIN]);
    }
}
