//! The tokens of a model, from its `tokenizer.json`: what each stands for, and those with a meaning of their own.
//!
//! A model is only listened to, so only the way from tokens to text is here; the letters of the file stand for bytes.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::shape::ModelShape;
use crate::{SpokenLanguage, WhisperError};

const BEGIN: &str = "<|startoftranscript|>";
const END: &str = "<|endoftext|>";
const TRANSLATE: &str = "<|translate|>";
const TRANSCRIBE: &str = "<|transcribe|>";
const NO_TIMESTAMPS: &str = "<|notimestamps|>";
/// The token for silence; older files have the second name.
const NO_SPEECH: [&str; 2] = ["<|nospeech|>", "<|nocaptions|>"];

#[derive(Debug, Deserialize)]
struct TokenizerJson {
    model: TokenizerVocabulary,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Debug, Deserialize)]
struct TokenizerVocabulary {
    vocab: BTreeMap<String, usize>,
}

#[derive(Debug, Deserialize)]
struct AddedToken {
    id: usize,
    content: String,
}

/// The tokens of a model.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// The bytes of each token; special ones have none.
    bytes: Vec<Option<Vec<u8>>>,
    special: BTreeMap<String, usize>,
    is_multilingual: bool,
    pub(crate) begin: usize,
    pub(crate) end: usize,
    pub(crate) no_speech: Option<usize>,
}

impl Vocabulary {
    pub(crate) fn parse(file: &[u8], shape: &ModelShape) -> Result<Self, WhisperError> {
        let refuse = WhisperError::Vocabulary;
        let file: TokenizerJson = serde_json::from_slice(file).map_err(|error| refuse(error.to_string()))?;
        let mut bytes = vec![None; shape.vocab_size];
        let mut special: BTreeMap<String, usize> =
            file.added_tokens.into_iter().map(|token| (token.content, token.id)).collect();
        for (token, id) in file.model.vocab {
            if token.starts_with("<|") && token.ends_with("|>") && token.len() > 4 {
                special.insert(token, id);
                continue;
            }
            if let Some(place) = bytes.get_mut(id) {
                *place = Some(bytes_of(&token));
            }
        }
        special.retain(|_, id| *id < shape.vocab_size);
        for id in special.values() {
            if let Some(place) = bytes.get_mut(*id) {
                *place = None;
            }
        }
        let required =
            |name: &str| special.get(name).copied().ok_or_else(|| refuse(format!("it has no token {name}")));
        let (begin, end) = (required(BEGIN)?, required(END)?);
        required(NO_TIMESTAMPS)?;
        let is_multilingual = shape.is_multilingual();
        if is_multilingual {
            required(TRANSCRIBE)?;
        }
        let no_speech = NO_SPEECH.iter().find_map(|name| special.get(*name).copied());
        Ok(Self { bytes, special, is_multilingual, begin, end, no_speech })
    }

    /// Tells whether a token is a part of a text.
    pub(crate) fn is_text(&self, token: usize) -> bool {
        self.bytes.get(token).is_some_and(Option::is_some)
    }

    /// Returns the text of tokens. Bytes that are no text become U+FFFD.
    pub(crate) fn text(&self, tokens: &[usize]) -> String {
        let bytes: Vec<u8> =
            tokens.iter().filter_map(|token| self.bytes.get(*token)?.as_ref()).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the tokens that stand for languages.
    pub(crate) fn languages(&self) -> Vec<usize> {
        let Some(after) = self.special.get(TRANSLATE).or_else(|| self.special.get(TRANSCRIBE)) else {
            return Vec::new();
        };
        self.special.values().copied().filter(|id| (self.begin + 1..*after).contains(id)).collect()
    }

    /// Returns what the model is given before it writes.
    pub(crate) fn prompt(&self, language: &SpokenLanguage) -> Result<DecoderPrompt, WhisperError> {
        let mut prompt = DecoderPrompt {
            language: None,
            task: self.special.get(TRANSCRIBE).copied().filter(|_| self.is_multilingual),
            no_timestamps: self.special.get(NO_TIMESTAMPS).copied(),
        };
        if let SpokenLanguage::Code(code) = language {
            if self.is_multilingual {
                let token = self.special.get(&format!("<|{code}|>")).copied();
                let known = token.filter(|token| self.languages().contains(token));
                let known = known
                    .ok_or_else(|| WhisperError::Language(format!("the model knows no language '{code}'")))?;
                prompt.language = Some(known);
            } else if code != "en" {
                return Err(WhisperError::Language(format!("the model knows only English, not '{code}'")));
            }
        }
        Ok(prompt)
    }
}

/// The tokens before the text, without the first.
#[derive(Debug)]
pub(crate) struct DecoderPrompt {
    language: Option<usize>,
    task: Option<usize>,
    no_timestamps: Option<usize>,
}

impl DecoderPrompt {
    /// Tells whether the language must be found out first.
    pub(crate) fn needs_language(&self) -> bool {
        self.task.is_some() && self.language.is_none()
    }

    pub(crate) fn set_language(&mut self, token: usize) {
        self.language = Some(token);
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = usize> {
        [self.language, self.task, self.no_timestamps].into_iter().flatten()
    }
}

/// Returns the bytes that a token of the file stands for. Bytes that are printable letters stand for themselves, the others, in
/// their order, for the letters from U+0100.
fn bytes_of(token: &str) -> Vec<u8> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let hidden = (0..=u8::MAX).filter(|byte| !is_printable(*byte));
    token
        .chars()
        .flat_map(|letter| {
            let byte = match u8::try_from(u32::from(letter)) {
                Ok(byte) if is_printable(byte) => Some(byte),
                Ok(_) => None,
                Err(_) => {
                    let place = usize::try_from(u32::from(letter) - 0x100).ok();
                    place.and_then(|place| hidden.clone().nth(place))
                }
            };
            // A letter that stands for no byte is text as it is.
            byte.map_or_else(|| letter.to_string().into_bytes(), |byte| vec![byte])
        })
        .collect()
}
