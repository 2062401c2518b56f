//! Splits a stream into the client's messages, the command's output, and the way it ended.
//!
//! Accepts the stream in pieces of any size. A mark never becomes part of the output; text that only
//! resembles the beginning of a mark does.

use super::script::FrameMarks;
use crate::capture::{OutputBounds, OutputCapture};

/// Limits how many bytes are kept of the client's own messages.
const MOST_BEFORE: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct FrameParser {
    marks: FrameMarks,
    stage: FrameStage,
    /// The bytes that may still turn out to be part of a mark.
    undecided: Vec<u8>,
    before: Vec<u8>,
    group: Option<u32>,
    output: OutputCapture,
    end: Option<ShellExit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameStage {
    Before,
    Running,
    Ended,
}

/// The end of the command as the shell reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShellExit {
    pub(crate) code: i32,
    pub(crate) directory: String,
}

/// A stream that has ended.
#[derive(Debug)]
pub(crate) struct FramedOutput {
    /// The client's messages before the shell started, or all of them if it did not.
    pub(crate) before: String,
    pub(crate) began: bool,
    pub(crate) output: String,
    pub(crate) end: Option<ShellExit>,
}

impl FrameParser {
    pub(crate) fn new(marks: FrameMarks, bounds: OutputBounds) -> Self {
        Self {
            marks,
            stage: FrameStage::Before,
            undecided: Vec::new(),
            before: Vec::new(),
            group: None,
            output: OutputCapture::new(bounds),
            end: None,
        }
    }

    /// Returns the process group of the shell, once the shell has started.
    pub(crate) fn group(&self) -> Option<u32> {
        self.group
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.stage == FrameStage::Ended
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.undecided.extend_from_slice(bytes);
        if self.stage == FrameStage::Before
            && let Some(inner) = self.take_frame(&self.marks.begin.clone())
        {
            self.stage = FrameStage::Running;
            // A signal to group 1 would reach every process of the environment.
            self.group = inner.trim().parse().ok().filter(|group| *group > 1);
        }
        if self.stage == FrameStage::Running
            && let Some(inner) = self.take_frame(&self.marks.end.clone())
        {
            let (code, directory) = inner.split_once(':').unwrap_or((&inner, ""));
            self.end = Some(ShellExit { code: code.parse().unwrap_or(-1), directory: directory.to_owned() });
            self.stage = FrameStage::Ended;
        }
        if self.stage == FrameStage::Ended {
            let rest = std::mem::take(&mut self.undecided);
            self.output.push(&rest);
        }
    }

    /// Passes on the text before the mark and returns the text inside it; `None` while the mark is not
    /// complete.
    fn take_frame(&mut self, mark: &str) -> Option<String> {
        let opening = format!("\n{mark}");
        let closing = format!("{mark}\n");
        let Some(start) = find(&self.undecided, opening.as_bytes()) else {
            // The last bytes may be the beginning of a mark.
            let sure = self.undecided.len().saturating_sub(opening.len() - 1);
            self.consume(sure);
            return None;
        };
        self.consume(start);
        let inner = self.undecided.get(opening.len()..).unwrap_or_default();
        let length = find(inner, closing.as_bytes())?;
        let text = String::from_utf8_lossy(inner.get(..length).unwrap_or_default()).into_owned();
        self.undecided.drain(..opening.len() + length + closing.len());
        Some(text)
    }

    fn consume(&mut self, count: usize) {
        let bytes: Vec<u8> = self.undecided.drain(..count).collect();
        if self.stage == FrameStage::Before {
            let room = MOST_BEFORE.saturating_sub(self.before.len());
            self.before.extend(bytes.into_iter().take(room));
        } else {
            self.output.push(&bytes);
        }
    }

    pub(crate) fn finish(mut self) -> FramedOutput {
        self.consume(self.undecided.len());
        FramedOutput {
            before: String::from_utf8_lossy(&self.before).trim().to_owned(),
            began: self.stage != FrameStage::Before,
            output: self.output.finish().text(),
            end: self.end,
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framed(pieces: &[&[u8]]) -> FramedOutput {
        let mut frames = FrameParser::new(FrameMarks::new("1"), OutputBounds::default());
        for piece in pieces {
            frames.push(piece);
        }
        frames.finish()
    }

    const WHOLE: &str = "banner\n__HERMES_RUN_1__42__HERMES_RUN_1__\na\n__HERMES_CWD\nb\n__HERMES_CWD_1__3:/x:y__HERMES_CWD_1__\nlate";

    #[test]
    fn the_parts_are_told_apart() {
        let FramedOutput { before, began, output, end } = framed(&[WHOLE.as_bytes()]);
        assert_eq!((before.as_str(), began, output.as_str()), ("banner", true, "a\n__HERMES_CWD\nblate"));
        assert_eq!(end, Some(ShellExit { code: 3, directory: "/x:y".to_owned() }));
        let FramedOutput { before, began, output, end } = framed(&[b"Error: no such container\n"]);
        assert_eq!(
            (before.as_str(), began, output.as_str(), end),
            ("Error: no such container", false, "", None)
        );
        let cut = framed(&[b"\n__HERMES_RUN_1__42__HERMES_RUN_1__\nhalf\n__HERMES_CWD_1__0:/x"]);
        assert_eq!((cut.output.as_str(), cut.end), ("half\n__HERMES_CWD_1__0:/x", None));
    }

    #[test]
    fn the_group_is_known_as_soon_as_it_is_said() {
        let mut frames = FrameParser::new(FrameMarks::new("1"), OutputBounds::default());
        frames.push(b"\n__HERMES_RUN_1__42__HERMES_RUN_1__\n");
        assert_eq!(frames.group(), Some(42));
        let mut frames = FrameParser::new(FrameMarks::new("1"), OutputBounds::default());
        frames.push(b"\n__HERMES_RUN_1__1__HERMES_RUN_1__\n");
        assert_eq!(frames.group(), None);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(size in 1usize..40) {
            let pieces: Vec<&[u8]> = WHOLE.as_bytes().chunks(size).collect();
            let parts = framed(&pieces);
            prop_assert_eq!(parts.before.as_str(), "banner");
            prop_assert_eq!(parts.output.as_str(), "a\n__HERMES_CWD\nblate");
            prop_assert_eq!(parts.end.map(|end| end.code), Some(3));
        }
    }
}
