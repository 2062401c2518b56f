//! A recording while it is made: how loud it is, and when it ends.
//!
//! Pure: time is counted in samples.

use std::time::Duration;

use hermes_config::settings::VoiceSettings;

/// The samples per second of recordings.
pub(super) const SAMPLE_RATE: u32 = 16_000;
/// The samples that are judged together: 50 ms.
const FRAME: usize = SAMPLE_RATE as usize / 20;
const FRAME_TIME: Duration = Duration::from_millis(50);
/// The loud time after which it is speech and not a noise.
const SHORTEST_SPEECH: Duration = Duration::from_millis(300);
/// A pause within a word; a longer one begins the count of the loud time again.
const SHORT_PAUSE: Duration = Duration::from_millis(300);
/// The time without speech after which nobody is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
const LOUDEST_LEVEL: u8 = 7;

/// The reason why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordingEnd {
    /// Speech was followed by silence.
    Silence,
    /// Nobody spoke.
    NoSpeech,
    /// It became too long.
    Longest,
}

/// The samples so far, and what was heard in them.
#[derive(Debug)]
pub(super) struct Recording {
    samples: Vec<i16>,
    /// The samples that were judged.
    judged: usize,
    threshold: f64,
    silence: Duration,
    longest: Duration,
    loud: Duration,
    quiet: Duration,
    has_speech: bool,
    level: u8,
}

impl Recording {
    pub(super) fn new(settings: &VoiceSettings) -> Self {
        Self {
            samples: Vec::new(),
            judged: 0,
            threshold: settings.silence_threshold,
            silence: settings.silence_duration,
            longest: settings.longest_recording,
            loud: Duration::ZERO,
            quiet: Duration::ZERO,
            has_speech: false,
            level: 0,
        }
    }

    /// Adds samples; says when the recording is over.
    pub(super) fn push(&mut self, samples: &[i16]) -> Option<RecordingEnd> {
        self.samples.extend_from_slice(samples);
        while let Some(frame) = self.samples.get(self.judged..self.judged + FRAME) {
            let loudness = loudness(frame);
            self.judged += FRAME;
            if let Some(end) = self.judge(loudness) {
                return Some(end);
            }
        }
        None
    }

    fn judge(&mut self, loudness: f64) -> Option<RecordingEnd> {
        self.level = level(loudness, self.threshold);
        if loudness > self.threshold {
            self.loud += FRAME_TIME;
            self.quiet = Duration::ZERO;
        } else {
            self.quiet += FRAME_TIME;
            if self.quiet > SHORT_PAUSE {
                self.loud = Duration::ZERO;
            }
        }
        self.has_speech |= self.loud >= SHORTEST_SPEECH;
        if self.has_speech && self.quiet >= self.silence {
            return Some(RecordingEnd::Silence);
        }
        if !self.has_speech && self.length() >= PATIENCE {
            return Some(RecordingEnd::NoSpeech);
        }
        (self.length() >= self.longest).then_some(RecordingEnd::Longest)
    }

    /// Tells whether somebody spoke.
    pub(super) fn has_speech(&self) -> bool {
        self.has_speech
    }

    /// Returns how loud it is now, from 0 to 7.
    pub(super) fn level(&self) -> u8 {
        self.level
    }

    fn length(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.judged).unwrap_or(u64::MAX) * 1000 / u64::from(SAMPLE_RATE))
    }

    /// Returns the recording as a WAV file.
    pub(super) fn to_wav(&self) -> Vec<u8> {
        wav(&self.samples)
    }
}

/// Returns samples of one channel as a WAV file.
pub(super) fn wav(samples: &[i16]) -> Vec<u8> {
    const HEADER: u32 = 36;
    let bytes = u32::try_from(samples.len() * 2).unwrap_or(u32::MAX - HEADER);
    let mut file = Vec::with_capacity(samples.len() * 2 + 44);
    file.extend(b"RIFF");
    file.extend((HEADER + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    // Uncompressed, one channel.
    file.extend([1, 0, 1, 0]);
    file.extend(SAMPLE_RATE.to_le_bytes());
    file.extend((SAMPLE_RATE * 2).to_le_bytes());
    file.extend([2, 0, 16, 0]);
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    file
}

/// Returns the root of the mean square.
fn loudness(frame: &[i16]) -> f64 {
    let sum: f64 = frame.iter().map(|sample| f64::from(*sample).powi(2)).sum();
    #[expect(clippy::cast_precision_loss, reason = "a frame has some hundred samples")]
    let count = frame.len().max(1) as f64;
    (sum / count).sqrt()
}

/// Returns the height of the meter: each step is twice as loud.
fn level(loudness: f64, threshold: f64) -> u8 {
    let doublings = (loudness / threshold.max(1.0)).max(1e-3).log2() + 2.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 7")]
    let level = doublings.clamp(0.0, f64::from(LOUDEST_LEVEL)) as u8;
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> VoiceSettings {
        VoiceSettings {
            record_key: String::new(),
            longest_recording: Duration::from_mins(1),
            silence_threshold: 200.0,
            silence_duration: Duration::from_secs(3),
            speaks_answers: false,
            beeps: false,
        }
    }

    fn tone(milliseconds: usize, height: i16) -> Vec<i16> {
        (0..milliseconds * 16).map(|at| if at % 16 < 8 { height } else { -height }).collect()
    }

    /// Returns how a recording of these pieces (milliseconds, loudness) ended, and after how many milliseconds.
    fn end_of(pieces: &[(usize, i16)]) -> (Option<RecordingEnd>, usize) {
        let mut recording = Recording::new(&settings());
        for (milliseconds, height) in pieces {
            for chunk in tone(*milliseconds, *height).chunks(333) {
                if let Some(end) = recording.push(chunk) {
                    return (Some(end), recording.judged / 16);
                }
            }
        }
        (None, recording.judged / 16)
    }

    #[test]
    fn speech_and_then_silence_end_it() {
        assert_eq!(end_of(&[(500, 10), (1000, 3000), (5000, 10)]), (Some(RecordingEnd::Silence), 4500));
    }

    #[test]
    fn a_pause_while_thinking_does_not_end_it() {
        assert_eq!(end_of(&[(1000, 3000), (2500, 10), (1000, 3000), (2900, 10)]).0, None);
    }

    #[test]
    fn a_click_is_no_speech() {
        let clicks: Vec<(usize, i16)> = (0..20).flat_map(|_| [(100, 9000), (900, 0)]).collect();
        assert_eq!(end_of(&clicks), (Some(RecordingEnd::NoSpeech), 15_000));
    }

    #[test]
    fn it_has_a_longest_time() {
        assert_eq!(end_of(&[(100_000, 3000)]), (Some(RecordingEnd::Longest), 60_000));
    }

    #[test]
    fn the_meter_follows_the_loudness() {
        for (loudness, expected) in [(0.0, 0), (100.0, 1), (200.0, 2), (1600.0, 5), (30_000.0, 7)] {
            assert_eq!(level(loudness, 200.0), expected, "{loudness}");
        }
    }

    #[test]
    fn a_wav_file_says_how_long_it_is() {
        let file = wav(&[1, -2, 3]);
        assert_eq!(file.len(), 50);
        assert_eq!(&file[..4], b"RIFF");
        assert_eq!(file[40..44], 6_u32.to_le_bytes());
        assert_eq!(file[44..], [1, 0, 0xfe, 0xff, 3, 0]);
    }
}
