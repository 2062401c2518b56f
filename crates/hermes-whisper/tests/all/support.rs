//! Reading the small model, and something to hear.

use hermes_testkit::SmallWhisperModel;
use hermes_whisper::{WhisperError, WhisperFiles, WhisperModel};

pub(crate) const SECOND: usize = 16_000;

pub(crate) fn read(model: &SmallWhisperModel) -> Result<WhisperModel, WhisperError> {
    read_with(model, &model.weights())
}

pub(crate) fn read_with(model: &SmallWhisperModel, weights: &[u8]) -> Result<WhisperModel, WhisperError> {
    let (config, tokenizer) = (model.config.to_string(), model.tokenizer.to_string());
    WhisperModel::read(WhisperFiles { config: config.as_bytes(), tokenizer: tokenizer.as_bytes(), weights })
}

/// Returns a tone of some samples.
pub(crate) fn tone(samples: usize) -> Vec<f32> {
    let wave = |at: usize| (f64::from(u32::try_from(at).unwrap()) * 0.07).sin() * 0.5;
    #[expect(clippy::cast_possible_truncation, reason = "samples have 32 bits")]
    (0..samples).map(|at| wave(at) as f32).collect()
}
