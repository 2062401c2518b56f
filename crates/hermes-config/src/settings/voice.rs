//! The settings of voice mode in the terminal.

use std::time::Duration;

use crate::Config;

/// The `voice` section.
#[derive(Debug, Clone, PartialEq)]
pub struct VoiceSettings {
    /// The key that starts and ends a recording, such as `ctrl+b`.
    pub record_key: String,
    pub longest_recording: Duration,
    /// The loudness below which it counts as silence: the root of the mean square of 16-bit samples.
    pub silence_threshold: f64,
    /// The silence that ends a recording.
    pub silence_duration: Duration,
    pub speaks_answers: bool,
    pub beeps: bool,
}

impl VoiceSettings {
    pub fn from_config(config: &Config) -> Self {
        Self {
            record_key: config.text("voice.record_key"),
            longest_recording: config.seconds("voice.max_recording_seconds"),
            silence_threshold: config
                .number_where("voice.silence_threshold", |value| (0.0..32_768.0).contains(&value)),
            silence_duration: config.seconds("voice.silence_duration"),
            speaks_answers: config.flag("voice.auto_tts"),
            beeps: config.flag("voice.beep_enabled"),
        }
    }
}
