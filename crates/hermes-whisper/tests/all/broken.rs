//! Files that are broken or do not belong together.

use hermes_testkit::SmallWhisperModel;
use hermes_whisper::{SpokenLanguage, WhisperError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{SECOND, read, read_with, tone};

fn error_of(model: &SmallWhisperModel) -> String {
    read(model).map(drop).unwrap_err().to_string()
}

#[test]
fn a_config_that_fits_no_model_is_refused() {
    for (name, value, wanted) in [
        ("d_model", json!(0), "d_model is 0"),
        ("d_model", json!(1_000_000), "d_model is 1000000"),
        ("encoder_attention_heads", json!(3), "does not divide 8"),
        ("max_source_positions", json!(-1), "invalid value"),
        ("decoder_layers", json!(3), "it has no tensor model.decoder.layers.2"),
        ("vocab_size", json!(99), "model.decoder.embed_tokens.weight has the shape [17, 8]"),
        ("max_target_positions", json!(25), "embed_positions.weight has the shape [24, 8]"),
        ("num_mel_bins", Value::Null, "null"),
    ] {
        let mut model = SmallWhisperModel::new();
        model.config[name] = value;
        let error = error_of(&model);
        assert!(error.contains(wanted), "{name}: {error}");
    }
}

#[test]
fn a_tokenizer_without_what_is_needed_is_refused() {
    for missing in ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|transcribe|>"] {
        let mut model = SmallWhisperModel::new();
        model.tokenizer["added_tokens"].as_array_mut().unwrap().retain(|token| token["content"] != missing);
        let error = error_of(&model);
        assert!(error.contains(missing) && error.contains("tokenizer.json"), "{error}");
    }
    let mut model = SmallWhisperModel::new();
    model.tokenizer = json!([]);
    assert!(error_of(&model).contains("tokenizer.json"));
}

#[test]
fn weights_that_are_cut_off_or_lie_are_refused() {
    let model = SmallWhisperModel::new();
    let read = |weights: &[u8]| read_with(&model, weights).map(drop).unwrap_err().to_string();
    let whole = model.weights();
    for length in [0, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
        let error = read(&whole[..length]);
        assert!(error.contains("ends too early") || error.contains("its header"), "{length}: {error}");
    }
    assert!(read(&[0xff; 64]).contains("its header would have"));
    let header = |header: Value| {
        let header = header.to_string();
        let mut file = u64::try_from(header.len()).unwrap().to_le_bytes().to_vec();
        file.extend(header.bytes());
        read(&file)
    };
    let huge = u64::MAX;
    for (place, wanted) in [
        (json!({"dtype": "F32", "shape": [huge, huge], "data_offsets": [0, 4]}), "too large"),
        (json!({"dtype": "F32", "shape": [4], "data_offsets": [0, 4]}), "does not fit its 4 bytes"),
        (json!({"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}), "does not begin where"),
        (json!({"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}), "its numbers are I8"),
        (
            json!({"dtype": "F32", "shape": [1_000_000_000_000_u64], "data_offsets": [0, 4_000_000_000_000_u64]}),
            "ends too early",
        ),
        (json!({"dtype": "F32"}), "missing field"),
    ] {
        let error = header(json!({"a": place}));
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn weights_that_are_no_numbers_are_said() {
    let mut model = SmallWhisperModel::new();
    model.fill("model.decoder.embed_tokens.weight", |_| f32::NAN);
    let result = read(&model).unwrap().transcribe(&tone(SECOND), &SpokenLanguage::Detect, &|| false);
    assert!(matches!(result, Err(WhisperError::Weights(_) | WhisperError::Vocabulary(_))), "{result:?}");
    let english = SpokenLanguage::Code("en".to_owned());
    let result = read(&model).unwrap().transcribe(&tone(SECOND), &english, &|| false);
    assert!(result.unwrap_err().to_string().contains("lead to no numbers"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_weights_do_not_panic(place in 0_usize..20_000, byte: u8, length in 0_usize..20_000) {
        let model = SmallWhisperModel::new();
        let mut weights = model.weights();
        let place = place % weights.len();
        weights[place] = byte;
        let length = weights.len().min(length.max(place + 1));
        if let Ok(model) = read_with(&model, &weights[..length]) {
            let _ = model.transcribe(&tone(800), &SpokenLanguage::Detect, &|| false);
        }
    }
}
