//! Real weights: what a person says is understood.

use std::path::PathBuf;

use hermes_testkit::peer_is_missing;
use hermes_whisper::{SpokenLanguage, WhisperFiles, WhisperModel, wav_samples};

/// Returns the folder of a real model, which `scripts/peers/whisper` makes, or the one that a variable names.
fn folder() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says where the peers are")]
    let named = std::env::var_os("HERMES_TEST_WHISPER").map(PathBuf::from);
    let found = named.filter(|folder| folder.join("model.safetensors").is_file());
    if found.is_none() {
        peer_is_missing("HERMES_TEST_WHISPER, the folder of a Whisper model with said.wav");
    }
    found
}

#[test]
fn peer_speech_is_understood() {
    let Some(folder) = folder() else { return };
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let model = WhisperModel::read(WhisperFiles {
        config: &read("config.json"),
        tokenizer: &read("tokenizer.json"),
        weights: std::fs::File::open(folder.join("model.safetensors")).unwrap(),
    })
    .unwrap();
    let english = SpokenLanguage::Code("en".to_owned());
    let samples = wav_samples(&read("said.wav")).unwrap();
    let text = model.transcribe(&samples, &english, &|| false).unwrap().to_lowercase();
    let wanted = String::from_utf8(read("said.txt")).unwrap();
    for word in wanted.split_whitespace() {
        assert!(text.contains(word), "{word} is missing in: {text}");
    }
    let silence = vec![0.0; samples.len()];
    assert_eq!(model.transcribe(&silence, &english, &|| false).unwrap(), "", "silence");
}
