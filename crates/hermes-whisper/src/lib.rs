//! Turns speech into text with a Whisper model, on the processor.
//!
//! Pure: bytes and samples in, text out; no files, no network, no clock. The files are those that are published with a model:
//! `config.json`, `tokenizer.json` and `model.safetensors`. Whatever they contain, nothing here panics, and what is allocated is
//! bounded by their size. Decoding is greedy and without timestamps, so the same recording always becomes the same text.

mod decode;
mod features;
mod layers;
mod model;
mod parallel;
mod shape;
mod vocabulary;
mod wav;
mod weights;

use std::io::Read;

use thiserror::Error;

use crate::decode::WindowDecoder;
use crate::features::MelFeatures;
use crate::model::WhisperNetwork;
use crate::shape::ModelShape;
use crate::vocabulary::Vocabulary;
use crate::weights::Weights;

pub use wav::wav_samples;

/// The samples per second that a model hears.
pub const SAMPLE_RATE: u32 = 16_000;

/// The reason why there is no text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WhisperError {
    #[error("config.json describes no Whisper model: {0}")]
    Config(String),
    #[error("tokenizer.json is not usable: {0}")]
    Vocabulary(String),
    #[error("model.safetensors is not usable: {0}")]
    Weights(String),
    #[error("the recording is not usable: {0}")]
    Recording(String),
    #[error("{0}")]
    Language(String),
    #[error("interrupted")]
    Cancelled,
}

/// The files of a model.
#[derive(Debug)]
pub struct WhisperFiles<'f, R> {
    /// `config.json`.
    pub config: &'f [u8],
    /// `tokenizer.json`.
    pub tokenizer: &'f [u8],
    /// `model.safetensors`, read once from its beginning to its end.
    pub weights: R,
}

/// What is spoken in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpokenLanguage {
    /// The model finds out.
    Detect,
    /// The code of a language, such as `en`.
    Code(String),
}

/// A model that turns recordings into text.
#[derive(Debug)]
pub struct WhisperModel {
    features: MelFeatures,
    network: WhisperNetwork,
    vocabulary: Vocabulary,
    shape: ModelShape,
}

impl WhisperModel {
    /// Reads a model.
    pub fn read<R: Read>(files: WhisperFiles<'_, R>) -> Result<Self, WhisperError> {
        let shape = ModelShape::parse(files.config)?;
        let vocabulary = Vocabulary::parse(files.tokenizer, &shape)?;
        let mut weights = Weights::read(files.weights)?;
        let network = WhisperNetwork::build(&shape, &mut weights)?;
        Ok(Self { features: MelFeatures::new(shape.mel_bands), network, vocabulary, shape })
    }

    /// Returns the words of a recording: samples of one channel between -1 and 1, [`SAMPLE_RATE`] of them per second. Without
    /// speech, the text is empty. `is_cancelled` is asked often.
    pub fn transcribe(
        &self,
        samples: &[f32],
        language: &SpokenLanguage,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<String, WhisperError> {
        let decoder = WindowDecoder::new(&self.network, &self.vocabulary, &self.shape, is_cancelled);
        let mut prompt = self.vocabulary.prompt(language)?;
        let length = self.shape.window_samples();
        let mut text = String::new();
        let mut rest = samples;
        while !rest.is_empty() {
            let (window, later) = rest.split_at(features::window_end(rest, length));
            rest = later;
            if features::is_silent(window) {
                continue;
            }
            let mel = self.features.of_window(window, length);
            let encoded = self.network.encode(&mel, is_cancelled)?;
            if prompt.needs_language() {
                prompt.set_language(decoder.detect_language(&encoded)?);
            }
            let words = decoder.decode(&encoded, &prompt)?;
            let words = words.trim();
            if !words.is_empty() {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(words);
            }
        }
        Ok(text)
    }
}
