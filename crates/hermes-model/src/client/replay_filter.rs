//! Tracks the part of an answer that the user has seen, so that a second attempt does not show it twice.

use hermes_types::{Delta, DeltaSink};

/// Filters deltas between the decoder and the consumer, for one request with all its attempts.
///
/// While a new attempt repeats what was shown, nothing is emitted. Where it differs, the consumer is told that the
/// answer restarts, and gets it from its beginning.
pub(super) struct ReplayFilter<'a> {
    sink: DeltaSink<'a>,
    /// The answer's text that the consumer has received.
    text: String,
    /// The length that the current attempt has repeated, while it still matches `text`.
    repeated: Option<usize>,
}

impl<'a> ReplayFilter<'a> {
    pub(super) fn new(sink: DeltaSink<'a>) -> Self {
        Self { sink, text: String::new(), repeated: None }
    }

    /// Tells whether the user has seen text of this answer.
    pub(super) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// Starts a new attempt.
    pub(super) fn begin_attempt(&mut self) {
        self.repeated = self.has_text().then_some(0);
    }

    pub(super) fn status(&mut self, text: impl Into<String>) {
        (self.sink)(Delta::Status(text.into()));
    }

    pub(super) fn pass(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => self.pass_text(text),
            // Reasoning was shown before; showing it again would confuse the user.
            Delta::Reasoning(_) if self.repeated.is_some() => {}
            other => (self.sink)(other),
        }
    }

    fn pass_text(&mut self, text: String) {
        let Some(at) = self.repeated else {
            self.text.push_str(&text);
            (self.sink)(Delta::Text(text));
            return;
        };
        let expected = self.text.get(at..).unwrap_or_default();
        if expected.starts_with(&text) {
            let reached = at + text.len();
            self.repeated = (reached < self.text.len()).then_some(reached);
            return;
        }
        self.repeated = None;
        if let Some(fresh) = text.strip_prefix(expected) {
            let fresh = fresh.to_owned();
            self.text.push_str(&fresh);
            (self.sink)(Delta::Text(fresh));
            return;
        }
        let anew = format!("{}{text}", self.text.get(..at).unwrap_or_default());
        (self.sink)(Delta::Restart);
        (self.sink)(Delta::Text(anew.clone()));
        self.text = anew;
    }

    /// Ends a successful attempt. If it is shorter than what was shown, the shown text is replaced.
    pub(super) fn end_attempt(&mut self) {
        if let Some(at) = self.repeated.take() {
            let anew = self.text.get(..at).unwrap_or_default().to_owned();
            (self.sink)(Delta::Restart);
            if !anew.is_empty() {
                (self.sink)(Delta::Text(anew.clone()));
            }
            self.text = anew;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of a consumer that honours `Restart`, and the number of restarts.
    fn consume(attempts: &[&[&str]]) -> (String, usize) {
        let mut held = String::new();
        let mut restarts = 0;
        let mut sink = |delta: Delta| match delta {
            Delta::Text(text) => held.push_str(&text),
            Delta::Restart => {
                held.clear();
                restarts += 1;
            }
            _ => {}
        };
        let mut shown = ReplayFilter::new(&mut sink);
        for attempt in attempts {
            shown.begin_attempt();
            for text in *attempt {
                shown.pass(Delta::Text((*text).to_owned()));
            }
        }
        shown.end_attempt();
        (held, restarts)
    }

    fn check(attempts: &[&[&str]], text: &str, restarts: usize) {
        assert_eq!(consume(attempts), (text.to_owned(), restarts), "{attempts:?}");
    }

    #[test]
    fn a_repeated_beginning_is_not_shown_twice() {
        check(&[&["Hel", "lo"], &["Hello wor", "ld"]], "Hello world", 0);
        check(&[&["Hello"], &["H", "ello", " world"]], "Hello world", 0);
        check(&[&["Héllo"], &["Hé", "llo", "!"]], "Héllo!", 0);
    }

    #[test]
    fn another_answer_replaces_the_first() {
        check(&[&["Hello"], &["Help", " me"]], "Help me", 1);
        check(&[&["Hello"], &["Bye"]], "Bye", 1);
        check(&[&["Hello there"], &["Hello"]], "Hello", 1);
        check(&[&["Hello"], &[]], "", 1);
    }

    #[test]
    fn several_cuts_are_fine() {
        check(&[&["a"], &["ab"], &["abc", "d"]], "abcd", 0);
    }
}
