//! What the feed shows in one line and the user can look at whole: outputs of tool calls, hidden reasoning.
//!
//! Invariant: bounded in number and in bytes; the oldest go first.

use std::collections::VecDeque;

const MAX_OUTPUTS: usize = 50;
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// A text that can be shown whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallOutput {
    pub(crate) title: String,
    pub(crate) text: String,
}

/// The outputs that are kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptOutputs {
    /// The newest first.
    outputs: VecDeque<CallOutput>,
    bytes: usize,
}

impl KeptOutputs {
    pub(crate) fn push(&mut self, output: CallOutput) {
        self.bytes += output.text.len();
        self.outputs.push_front(output);
        while self.outputs.len() > MAX_OUTPUTS || (self.bytes > MAX_BYTES && self.outputs.len() > 1) {
            self.bytes -= self.outputs.pop_back().map_or(0, |output| output.text.len());
        }
    }

    /// Returns an output, counted from the newest.
    pub(crate) fn get(&self, age: usize) -> Option<&CallOutput> {
        self.outputs.get(age)
    }

    pub(crate) fn len(&self) -> usize {
        self.outputs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let mut kept = KeptOutputs::default();
        for at in 0..60 {
            kept.push(CallOutput { title: at.to_string(), text: "x".repeat(100_000) });
        }
        assert_eq!((kept.len(), kept.get(0).unwrap().title.as_str()), (20, "59"));
        assert!(kept.bytes <= MAX_BYTES && kept.get(20).is_none());
    }
}
