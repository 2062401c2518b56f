//! How large a model is, from its `config.json`.

use serde::Deserialize;

use crate::WhisperError;
use crate::features::HOP;

/// The first vocabulary of a model that knows several languages has this many tokens; those for English have one less.
const MULTILINGUAL_VOCABULARY: usize = 51_865;

/// The sizes of a model, and the tokens that it must not write.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ModelShape {
    #[serde(rename = "d_model")]
    pub(crate) width: usize,
    pub(crate) encoder_layers: usize,
    pub(crate) encoder_attention_heads: usize,
    pub(crate) decoder_layers: usize,
    pub(crate) decoder_attention_heads: usize,
    #[serde(rename = "encoder_ffn_dim")]
    pub(crate) encoder_inner: usize,
    #[serde(rename = "decoder_ffn_dim")]
    pub(crate) decoder_inner: usize,
    #[serde(rename = "num_mel_bins")]
    pub(crate) mel_bands: usize,
    #[serde(rename = "max_source_positions")]
    pub(crate) heard_positions: usize,
    #[serde(rename = "max_target_positions")]
    pub(crate) written_positions: usize,
    pub(crate) vocab_size: usize,
    #[serde(default)]
    pub(crate) suppress_tokens: Option<Vec<i64>>,
    #[serde(default)]
    pub(crate) begin_suppress_tokens: Option<Vec<i64>>,
    #[serde(default)]
    is_multilingual: Option<bool>,
}

impl ModelShape {
    pub(crate) fn parse(config: &[u8]) -> Result<Self, WhisperError> {
        let shape: Self =
            serde_json::from_slice(config).map_err(|error| WhisperError::Config(error.to_string()))?;
        for (name, value, most) in [
            ("d_model", shape.width, 4096),
            ("encoder_layers", shape.encoder_layers, 128),
            ("decoder_layers", shape.decoder_layers, 128),
            ("encoder_ffn_dim", shape.encoder_inner, 65_536),
            ("decoder_ffn_dim", shape.decoder_inner, 65_536),
            ("num_mel_bins", shape.mel_bands, 256),
            ("max_source_positions", shape.heard_positions, 3000),
            ("max_target_positions", shape.written_positions, 4096),
            ("vocab_size", shape.vocab_size, 1_000_000),
        ] {
            if value == 0 || value > most {
                return Err(WhisperError::Config(format!("{name} is {value}, not between 1 and {most}")));
            }
        }
        for (name, heads) in [
            ("encoder_attention_heads", shape.encoder_attention_heads),
            ("decoder_attention_heads", shape.decoder_attention_heads),
        ] {
            if heads == 0 || !shape.width.is_multiple_of(heads) {
                let width = shape.width;
                return Err(WhisperError::Config(format!(
                    "{name} is {heads}, which does not divide {width}"
                )));
            }
        }
        Ok(shape)
    }

    pub(crate) fn is_multilingual(&self) -> bool {
        self.is_multilingual.unwrap_or(self.vocab_size >= MULTILINGUAL_VOCABULARY)
    }

    /// Returns the samples that the model hears at a time.
    pub(crate) fn window_samples(&self) -> usize {
        self.heard_positions * 2 * HOP
    }

    /// Returns the most tokens that it writes for a window: half of its positions, as it was trained.
    pub(crate) fn longest_text(&self) -> usize {
        self.written_positions / 2
    }
}
