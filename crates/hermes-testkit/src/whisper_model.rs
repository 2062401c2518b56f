//! The files of a speech model that is as small as one can be, with weights from a fixed sequence.
#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "small numbers")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

const WIDTH: usize = 8;
const BANDS: usize = 10;
const INNER: usize = 12;
/// A window of one second.
const HEARD: usize = 50;
const WRITTEN: usize = 24;

/// The tokens for text, then those with a meaning of their own.
const TEXTS: [&str; 8] = ["Ġship", "Ġsails", "Ġsea", "Ġthe", "ä¸", "ŃæĸĩĠ", "!", "Ġ"];
const SPECIAL: [&str; 9] = [
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|de|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|nospeech|>",
    "<|notimestamps|>",
    "<|0.00|>",
];

/// A tensor: its shape and numbers.
type Tensor = (Vec<usize>, Vec<f32>);

/// A Whisper model with two layers of eight numbers each, which knows eight tokens and hears one second at a time.
#[derive(Debug, Clone)]
pub struct SmallWhisperModel {
    /// `config.json`.
    pub config: Value,
    /// `tokenizer.json`.
    pub tokenizer: Value,
    /// What the weights are stored as: F32, F16 or BF16.
    pub format: &'static str,
    tensors: BTreeMap<String, Tensor>,
}

impl Default for SmallWhisperModel {
    fn default() -> Self {
        Self::new()
    }
}

impl SmallWhisperModel {
    pub fn new() -> Self {
        let vocab_size = TEXTS.len() + SPECIAL.len();
        let config = json!({
            "d_model": WIDTH, "encoder_layers": 2, "encoder_attention_heads": 2, "decoder_layers": 2,
            "decoder_attention_heads": 2, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "num_mel_bins": BANDS,
            "max_source_positions": HEARD, "max_target_positions": WRITTEN, "vocab_size": vocab_size,
            "is_multilingual": true, "torch_dtype": "float32",
        });
        let vocab: BTreeMap<&str, usize> = TEXTS.iter().enumerate().map(|(id, text)| (*text, id)).collect();
        let added: Vec<Value> = SPECIAL
            .iter()
            .enumerate()
            .map(|(number, content)| json!({"id": TEXTS.len() + number, "content": content, "special": true}))
            .collect();
        let tokenizer =
            json!({"model": {"type": "BPE", "vocab": vocab, "merges": []}, "added_tokens": added});
        Self { config, tokenizer, format: "F32", tensors: tensors(vocab_size) }
    }

    /// Returns the token of a text; an unknown text has the first token behind all others.
    pub fn token(text: &str) -> usize {
        let all = TEXTS.iter().chain(&SPECIAL);
        all.clone().position(|token| *token == text).unwrap_or(all.count())
    }

    /// Makes the decoder write one token, whatever it hears: its last layer always gives the same row.
    #[must_use]
    pub fn always_writes(mut self, token: &str) -> Self {
        let row = Self::token(token);
        self.fill("model.decoder.layer_norm.weight", |_| 0.0);
        self.fill("model.decoder.layer_norm.bias", |place| if place == 0 { 1.0 } else { 0.0 });
        let others = self.tensors.get("model.decoder.embed_tokens.weight").cloned().unwrap_or_default().1;
        self.fill("model.decoder.embed_tokens.weight", |place| match (place % WIDTH, place / WIDTH == row) {
            (0, true) => 20.0,
            (0, false) => 0.0,
            _ => others.get(place).copied().unwrap_or_default(),
        });
        self
    }

    /// Replaces the numbers of a tensor.
    pub fn fill(&mut self, name: &str, number: impl Fn(usize) -> f32) {
        if let Some((_, numbers)) = self.tensors.get_mut(name) {
            for (place, value) in numbers.iter_mut().enumerate() {
                *value = number(place);
            }
        }
    }

    /// Writes the three files into a folder.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("config.json"), self.config.to_string())?;
        std::fs::write(folder.join("tokenizer.json"), self.tokenizer.to_string())?;
        std::fs::write(folder.join("model.safetensors"), self.weights())
    }

    /// Returns `model.safetensors`.
    pub fn weights(&self) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
        for (name, (shape, numbers)) in &self.tensors {
            let begin = data.len();
            for number in numbers {
                match self.format {
                    "F16" => data.extend(half(*number).to_le_bytes()),
                    "BF16" => data.extend(((number.to_bits() >> 16) as u16).to_le_bytes()),
                    _ => data.extend(number.to_le_bytes()),
                }
            }
            let place = json!({"dtype": self.format, "shape": shape, "data_offsets": [begin, data.len()]});
            header.insert(name.clone(), place);
        }
        let header = Value::Object(header).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.extend(data);
        file
    }
}

/// Returns a number as one of 16 bits; numbers of tests are neither tiny nor huge.
fn half(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    match (bits >> 23 & 0xff).checked_sub(112) {
        Some(exponent @ 1..=30) => sign | (exponent << 10) as u16 | (bits >> 13 & 0x3ff) as u16,
        _ => sign,
    }
}

fn tensors(vocab_size: usize) -> BTreeMap<String, Tensor> {
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("model.encoder.conv1.weight".to_owned(), vec![WIDTH, BANDS, 3]),
        ("model.encoder.conv1.bias".to_owned(), vec![WIDTH]),
        ("model.encoder.conv2.weight".to_owned(), vec![WIDTH, WIDTH, 3]),
        ("model.encoder.conv2.bias".to_owned(), vec![WIDTH]),
        ("model.encoder.embed_positions.weight".to_owned(), vec![HEARD, WIDTH]),
        ("model.decoder.embed_tokens.weight".to_owned(), vec![vocab_size, WIDTH]),
        ("model.decoder.embed_positions.weight".to_owned(), vec![WRITTEN, WIDTH]),
    ];
    let mut layer = |name: &str, shape: Vec<usize>, bias: bool| {
        let outputs = shape[0];
        shapes.push((format!("{name}.weight"), shape));
        if bias {
            shapes.push((format!("{name}.bias"), vec![outputs]));
        }
    };
    for part in ["encoder", "decoder"] {
        layer(&format!("model.{part}.layer_norm"), vec![WIDTH], true);
        for number in 0..2 {
            let name = format!("model.{part}.layers.{number}");
            let attentions: &[&str] =
                if part == "encoder" { &["self_attn"] } else { &["self_attn", "encoder_attn"] };
            for attention in attentions {
                for (projection, bias) in
                    [("q_proj", true), ("k_proj", false), ("v_proj", true), ("out_proj", true)]
                {
                    layer(&format!("{name}.{attention}.{projection}"), vec![WIDTH, WIDTH], bias);
                }
                layer(&format!("{name}.{attention}_layer_norm"), vec![WIDTH], true);
            }
            layer(&format!("{name}.fc1"), vec![INNER, WIDTH], true);
            layer(&format!("{name}.fc2"), vec![WIDTH, INNER], true);
            layer(&format!("{name}.final_layer_norm"), vec![WIDTH], true);
        }
    }
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / 16_777_216.0 - 0.5) * 2.0
    };
    shapes
        .into_iter()
        .map(|(name, shape)| {
            let numbers = (0..shape.iter().product()).map(|_| next()).collect();
            (name, (shape, numbers))
        })
        .collect()
}
