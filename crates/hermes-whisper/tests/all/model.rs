//! What a model makes of samples.

use std::cell::Cell;

use hermes_testkit::SmallWhisperModel;
use hermes_whisper::{SpokenLanguage, WhisperError};
use serde_json::json;

use super::support::{SECOND, read, tone};

fn language(code: &str) -> SpokenLanguage {
    SpokenLanguage::Code(code.to_owned())
}

fn transcribe(
    model: &SmallWhisperModel,
    samples: &[f32],
    language: &SpokenLanguage,
) -> Result<String, WhisperError> {
    read(model)?.transcribe(samples, language, &|| false)
}

#[test]
fn the_same_recording_becomes_the_same_text() {
    let model = SmallWhisperModel::new();
    let texts: Vec<String> =
        (0..3).map(|_| transcribe(&model, &tone(SECOND), &language("en")).unwrap()).collect();
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert!(texts[0].chars().all(|c| !c.is_control()), "{texts:?}");
}

#[test]
fn a_text_has_a_longest_length() {
    // Twelve tokens fit. The same token again and again is noticed before.
    let model = SmallWhisperModel::new().always_writes("Ġship");
    let text = transcribe(&model, &tone(SECOND), &language("en")).unwrap();
    assert_eq!(text, "ship");
    for samples in [1, SECOND / 2, SECOND * 3] {
        let text = transcribe(&SmallWhisperModel::new(), &tone(samples), &language("en")).unwrap();
        assert!(text.len() <= 12 * 6 * 6, "{text}");
    }
}

#[test]
fn a_long_recording_is_heard_in_windows() {
    let model = SmallWhisperModel::new().always_writes("Ġsea");
    let text = transcribe(&model, &tone(SECOND * 5 / 2), &language("en")).unwrap();
    assert_eq!(text, "sea sea sea");
}

#[test]
fn tokens_become_text_by_their_bytes() {
    // Two tokens that are letters only together, and one that ends the text.
    let model = SmallWhisperModel::new().always_writes("!");
    assert_eq!(transcribe(&model, &tone(SECOND), &language("en")).unwrap(), "!");
    let half = SmallWhisperModel::new().always_writes("ä¸");
    assert_eq!(transcribe(&half, &tone(SECOND), &language("en")).unwrap(), "\u{fffd}");
    let blank = SmallWhisperModel::new().always_writes("Ġ");
    assert_eq!(transcribe(&blank, &tone(SECOND), &language("en")).unwrap(), "");
}

#[test]
fn nothing_is_written_when_the_model_says_the_end_or_silence() {
    for token in ["<|endoftext|>", "<|nospeech|>"] {
        let model = SmallWhisperModel::new().always_writes(token);
        assert_eq!(transcribe(&model, &tone(SECOND), &language("en")).unwrap(), "", "{token}");
    }
    assert_eq!(transcribe(&SmallWhisperModel::new(), &[], &language("en")).unwrap(), "");
}

#[test]
fn silence_has_no_words() {
    let model = SmallWhisperModel::new().always_writes("Ġsea");
    let mut samples = vec![0.0005; SECOND * 2];
    assert_eq!(transcribe(&model, &samples, &language("en")).unwrap(), "");
    samples.extend(tone(SECOND / 2));
    assert_eq!(transcribe(&model, &samples, &language("en")).unwrap(), "sea");
}

#[test]
fn excluded_tokens_are_not_written() {
    let mut model = SmallWhisperModel::new().always_writes("Ġship");
    model.config["suppress_tokens"] = json!([SmallWhisperModel::token("Ġship"), -1]);
    let text = transcribe(&model, &tone(SECOND), &language("en")).unwrap();
    assert!(!text.contains("ship"), "{text}");
    let mut model = SmallWhisperModel::new().always_writes("Ġship");
    model.config["begin_suppress_tokens"] = json!([SmallWhisperModel::token("Ġship")]);
    let text = transcribe(&model, &tone(SECOND), &language("en")).unwrap();
    assert!(!text.starts_with("ship") && text.ends_with("ship"), "{text}");
}

#[test]
fn timestamps_are_never_written() {
    let model = SmallWhisperModel::new().always_writes("<|0.00|>");
    let text = transcribe(&model, &tone(SECOND), &language("en")).unwrap();
    assert!(!text.contains("0.00"), "{text}");
}

#[test]
fn a_language_is_one_that_the_model_knows() {
    let model = SmallWhisperModel::new();
    let unknown = transcribe(&model, &tone(SECOND), &language("translate")).unwrap_err();
    assert_eq!(unknown.to_string(), "the model knows no language 'translate'");
    assert!(transcribe(&model, &tone(SECOND), &language("de")).is_ok());
    assert!(transcribe(&model, &tone(SECOND), &SpokenLanguage::Detect).is_ok());
    let mut english = SmallWhisperModel::new();
    english.config["is_multilingual"] = json!(false);
    let refused = transcribe(&english, &tone(SECOND), &language("de")).unwrap_err();
    assert_eq!(refused.to_string(), "the model knows only English, not 'de'");
    assert!(transcribe(&english, &tone(SECOND), &language("en")).is_ok());
}

#[test]
fn it_can_be_interrupted_everywhere() {
    let model = read(&SmallWhisperModel::new()).unwrap();
    let asked = Cell::new(0);
    let count = || {
        asked.set(asked.get() + 1);
        false
    };
    model.transcribe(&tone(SECOND), &language("en"), &count).unwrap();
    let questions = asked.get();
    assert!(questions > 3, "{questions}");
    for last in 0..questions {
        asked.set(0);
        let cancelled = || {
            asked.set(asked.get() + 1);
            asked.get() > last
        };
        let result = model.transcribe(&tone(SECOND), &language("en"), &cancelled);
        assert_eq!(result, Err(WhisperError::Cancelled), "after {last} of {questions}");
    }
}

#[test]
fn weights_of_sixteen_bits_are_read() {
    for format in ["F16", "BF16"] {
        let mut model = SmallWhisperModel::new().always_writes("Ġsails");
        model.format = format;
        assert_eq!(transcribe(&model, &tone(SECOND), &language("en")).unwrap(), "sails", "{format}");
    }
}
