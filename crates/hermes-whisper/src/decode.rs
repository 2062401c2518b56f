//! The text of one window: always the token that fits best, among those that are text.

use ndarray::Array1;

use crate::WhisperError;
use crate::model::{EncodedWindow, WhisperNetwork, WrittenTokens, log_probabilities};
use crate::shape::ModelShape;
use crate::vocabulary::{DecoderPrompt, Vocabulary};

/// A window is silent if the model is this sure of it and of nothing it wrote, as the published program judges.
const SILENCE: f32 = 0.6;
const UNSURE: f32 = -1.0;
/// A model that writes the same again and again has lost its place: this many times in a row, of at most so many tokens.
const REPETITIONS: usize = 5;
const LONGEST_REPETITION: usize = 12;

/// Decodes windows.
pub(crate) struct WindowDecoder<'m> {
    network: &'m WhisperNetwork,
    vocabulary: &'m Vocabulary,
    /// The tokens that may be written: text and the end, without those that `config.json` excludes.
    allowed: Vec<bool>,
    /// What the first token must not be in addition.
    not_first: Vec<usize>,
    longest: usize,
    is_cancelled: &'m dyn Fn() -> bool,
}

impl<'m> WindowDecoder<'m> {
    pub(crate) fn new(
        network: &'m WhisperNetwork,
        vocabulary: &'m Vocabulary,
        shape: &ModelShape,
        is_cancelled: &'m dyn Fn() -> bool,
    ) -> Self {
        let ids = |list: &Option<Vec<i64>>| -> Vec<usize> {
            list.iter().flatten().filter_map(|id| usize::try_from(*id).ok()).collect()
        };
        let mut allowed: Vec<bool> = (0..shape.vocab_size).map(|token| vocabulary.is_text(token)).collect();
        for token in ids(&shape.suppress_tokens) {
            if let Some(allowed) = allowed.get_mut(token) {
                *allowed = false;
            }
        }
        if let Some(allowed) = allowed.get_mut(vocabulary.end) {
            *allowed = true;
        }
        let not_first = ids(&shape.begin_suppress_tokens);
        Self { network, vocabulary, allowed, not_first, longest: shape.longest_text(), is_cancelled }
    }

    /// Returns the token of the language that is spoken.
    pub(crate) fn detect_language(&self, window: &EncodedWindow) -> Result<usize, WhisperError> {
        let fits = self.begin(&mut WrittenTokens::none(window))?;
        let languages = self.vocabulary.languages();
        let best = best_of(&fits, languages.into_iter());
        best.ok_or_else(|| WhisperError::Vocabulary("it has no tokens for languages".to_owned()))
    }

    /// Returns the words of a window.
    pub(crate) fn decode(
        &self,
        window: &EncodedWindow,
        prompt: &DecoderPrompt,
    ) -> Result<String, WhisperError> {
        let mut written = WrittenTokens::none(window);
        let mut fits = self.begin(&mut written)?;
        let silence =
            self.vocabulary.no_speech.and_then(|token| log_probabilities(&fits).get(token).copied());
        for token in prompt.tokens() {
            fits = self.write(token, &mut written)?;
        }
        let mut tokens = Vec::new();
        let (mut sum, mut count) = (0.0, 0.0);
        while tokens.len() < self.longest {
            if (self.is_cancelled)() {
                return Err(WhisperError::Cancelled);
            }
            let is_first = tokens.is_empty();
            let candidates = (0..fits.len()).filter(|token| {
                self.allowed.get(*token) == Some(&true) && !(is_first && self.not_first.contains(token))
            });
            let best = best_of(&fits, candidates)
                .ok_or_else(|| WhisperError::Weights("they lead to no numbers".to_owned()))?;
            sum += log_probabilities(&fits).get(best).copied().unwrap_or(0.0);
            count += 1.0;
            if best == self.vocabulary.end {
                break;
            }
            tokens.push(best);
            if let Some(length) = repeated_end(&tokens) {
                tokens.truncate(tokens.len() - length * (REPETITIONS - 1));
                break;
            }
            match self.network.write(best, &mut written) {
                Some(next) => fits = next,
                None => break,
            }
        }
        if silence.is_some_and(|silence| silence.exp() > SILENCE) && sum / count < UNSURE {
            return Ok(String::new());
        }
        Ok(self.vocabulary.text(&tokens))
    }

    fn begin(&self, written: &mut WrittenTokens<'_>) -> Result<Array1<f32>, WhisperError> {
        self.write(self.vocabulary.begin, written)
    }

    fn write(&self, token: usize, written: &mut WrittenTokens<'_>) -> Result<Array1<f32>, WhisperError> {
        let fits = self.network.write(token, written);
        fits.ok_or_else(|| WhisperError::Config("max_target_positions has no place for a text".to_owned()))
    }
}

/// Returns the token that fits best. Values that are no numbers fit nowhere.
fn best_of(fits: &Array1<f32>, tokens: impl Iterator<Item = usize>) -> Option<usize> {
    let fit = |token: usize| fits.get(token).copied().filter(|fit| fit.is_finite());
    let rated = tokens.filter_map(|token| Some((token, fit(token)?)));
    let best = rated.max_by(|(one, fit), (other, other_fit)| fit.total_cmp(other_fit).then(other.cmp(one)));
    best.map(|(token, _)| token)
}

/// Returns how many tokens are repeated at the end, if they are repeated too often.
fn repeated_end(tokens: &[usize]) -> Option<usize> {
    (1..=LONGEST_REPETITION).find(|length| {
        let Some(begin) = tokens.len().checked_sub(length * REPETITIONS) else { return false };
        let end = tokens.get(begin..).unwrap_or_default();
        let (Some(first), Some(later)) = (end.get(..end.len() - length), end.get(*length..)) else {
            return false;
        };
        first == later
    })
}
