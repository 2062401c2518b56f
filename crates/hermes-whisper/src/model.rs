//! The network: an encoder that hears a window, and a decoder that writes one token after the other.

use ndarray::{Array1, Array2, Axis, Zip};

use crate::WhisperError;
use crate::layers::{AttentionLayer, AttentionMemory, FeedForward, LinearLayer, NormLayer, gelu, neighbours};
use crate::shape::ModelShape;
use crate::weights::Weights;

/// Encoder and decoder.
#[derive(Debug)]
pub(crate) struct WhisperNetwork {
    first: LinearLayer,
    second: LinearLayer,
    heard_positions: Array2<f32>,
    encoder: Vec<EncoderBlock>,
    encoder_norm: NormLayer,
    tokens: Array2<f32>,
    written_positions: Array2<f32>,
    decoder: Vec<DecoderBlock>,
    decoder_norm: NormLayer,
}

#[derive(Debug)]
struct EncoderBlock {
    attention_norm: NormLayer,
    attention: AttentionLayer,
    forward_norm: NormLayer,
    forward: FeedForward,
}

#[derive(Debug)]
struct DecoderBlock {
    attention_norm: NormLayer,
    attention: AttentionLayer,
    listening_norm: NormLayer,
    listening: AttentionLayer,
    forward_norm: NormLayer,
    forward: FeedForward,
}

/// What was heard in a window, for every block of the decoder.
#[derive(Debug)]
pub(crate) struct EncodedWindow {
    heard: Vec<AttentionMemory>,
}

/// What the decoder has written so far.
#[derive(Debug)]
pub(crate) struct WrittenTokens<'w> {
    window: &'w EncodedWindow,
    written: Vec<AttentionMemory>,
    length: usize,
}

impl<'w> WrittenTokens<'w> {
    pub(crate) fn none(window: &'w EncodedWindow) -> Self {
        Self { window, written: Vec::new(), length: 0 }
    }
}

impl WhisperNetwork {
    pub(crate) fn build(shape: &ModelShape, weights: &mut Weights) -> Result<Self, WhisperError> {
        let width = shape.width;
        let heads = (shape.encoder_attention_heads, shape.decoder_attention_heads);
        let mut encoder = Vec::with_capacity(shape.encoder_layers);
        for number in 0..shape.encoder_layers {
            let name = format!("model.encoder.layers.{number}");
            encoder.push(EncoderBlock {
                attention_norm: NormLayer::read(weights, &format!("{name}.self_attn_layer_norm"), width)?,
                attention: AttentionLayer::read(weights, &format!("{name}.self_attn"), width, heads.0)?,
                forward_norm: NormLayer::read(weights, &format!("{name}.final_layer_norm"), width)?,
                forward: FeedForward::read(weights, &name, width, shape.encoder_inner)?,
            });
        }
        let mut decoder = Vec::with_capacity(shape.decoder_layers);
        for number in 0..shape.decoder_layers {
            let name = format!("model.decoder.layers.{number}");
            decoder.push(DecoderBlock {
                attention_norm: NormLayer::read(weights, &format!("{name}.self_attn_layer_norm"), width)?,
                attention: AttentionLayer::read(weights, &format!("{name}.self_attn"), width, heads.1)?,
                listening_norm: NormLayer::read(weights, &format!("{name}.encoder_attn_layer_norm"), width)?,
                listening: AttentionLayer::read(weights, &format!("{name}.encoder_attn"), width, heads.1)?,
                forward_norm: NormLayer::read(weights, &format!("{name}.final_layer_norm"), width)?,
                forward: FeedForward::read(weights, &name, width, shape.decoder_inner)?,
            });
        }
        let positions = |part| format!("model.{part}.embed_positions.weight");
        Ok(Self {
            first: LinearLayer::read_convolution(weights, "model.encoder.conv1", [width, shape.mel_bands])?,
            second: LinearLayer::read_convolution(weights, "model.encoder.conv2", [width, width])?,
            heard_positions: weights.matrix(&positions("encoder"), [shape.heard_positions, width])?,
            encoder,
            encoder_norm: NormLayer::read(weights, "model.encoder.layer_norm", width)?,
            tokens: weights.matrix("model.decoder.embed_tokens.weight", [shape.vocab_size, width])?,
            written_positions: weights.matrix(&positions("decoder"), [shape.written_positions, width])?,
            decoder,
            decoder_norm: NormLayer::read(weights, "model.decoder.layer_norm", width)?,
        })
    }

    /// Hears a window.
    pub(crate) fn encode(
        &self,
        mel: &Array2<f32>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<EncodedWindow, WhisperError> {
        let rows = self.first.apply(&neighbours(mel, 1), gelu);
        let mut rows = self.second.apply(&neighbours(&rows, 2), gelu);
        rows += &self.heard_positions;
        for block in &self.encoder {
            if is_cancelled() {
                return Err(WhisperError::Cancelled);
            }
            rows += &block.attention.among(&block.attention_norm.apply(&rows));
            rows += &block.forward.apply(&block.forward_norm.apply(&rows));
        }
        let rows = self.encoder_norm.apply(&rows);
        Ok(EncodedWindow {
            heard: self.decoder.iter().map(|block| block.listening.memory_of(&rows)).collect(),
        })
    }

    /// Writes a token and returns how well each token would follow, or nothing when all positions are written.
    pub(crate) fn write(&self, token: usize, text: &mut WrittenTokens<'_>) -> Option<Array1<f32>> {
        if token >= self.tokens.nrows() || text.length >= self.written_positions.nrows() {
            return None;
        }
        if text.written.is_empty() {
            let empty = || AttentionMemory::empty(self.written_positions.nrows(), self.tokens.ncols());
            text.written = self.decoder.iter().map(|_| empty()).collect();
        }
        let mut row = &self.tokens.index_axis(Axis(0), token)
            + &self.written_positions.index_axis(Axis(0), text.length);
        for ((block, heard), written) in self.decoder.iter().zip(&text.window.heard).zip(&mut text.written) {
            let normal = block.attention_norm.apply_to_row(&row);
            block.attention.remember(&normal, written);
            row += &block.attention.gather(&normal, written);
            row += &block.listening.gather(&block.listening_norm.apply_to_row(&row), heard);
            row += &block.forward.apply_to_row(&block.forward_norm.apply_to_row(&row));
        }
        text.length += 1;
        Some(self.tokens.dot(&self.decoder_norm.apply_to_row(&row)))
    }
}

/// Returns the logarithm of the probability of each token.
pub(crate) fn log_probabilities(fits: &Array1<f32>) -> Array1<f32> {
    let best = fits.fold(f32::MIN, |best, value| best.max(*value));
    let sum = fits.fold(0.0_f32, |sum, value| sum + (value - best).exp());
    let whole = best + sum.ln();
    Zip::from(fits).map_collect(|value| value - whole)
}
