//! Removes reasoning that a model put between tags inside its answer, and recalled memories that it repeats, while it
//! streams or afterwards.
//!
//! An opening tag starts a block only at the start of a line, so that prose which mentions a tag survives; a
//! complete pair is removed wherever it is. Deciding that for a tag in mid-line needs its closing tag, so text
//! after one is held back until that arrives or the answer ends. The result depends on the text alone, never on how
//! it was split.

use std::borrow::Cow;

/// The opening and closing form of each tag; they match in any case.
const TAGS: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<reasoning_scratchpad>", "</reasoning_scratchpad>"),
    ("<thought>", "</thought>"),
    ("<memory-context>", "</memory-context>"),
];

/// The place of the tag of recalled memories, which are no reasoning: what is between its forms is dropped.
const RECALLED: usize = 5;

/// Separates a streamed answer into shown text and reasoning. Use one per answer, or `reset` between them.
#[derive(Debug, Default)]
pub struct ThinkScrubber {
    state: State,
    /// Text whose kind is not known yet.
    held: String,
    in_mid_line: bool,
    has_thought: bool,
}

/// The shown text and the reasoning in a piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubbedText {
    pub visible: String,
    /// The reasoning; separate blocks are separated by a blank line.
    pub reasoning: String,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Text,
    /// After an opening tag (an index into [`TAGS`]) that counts.
    Inside(usize),
    /// `held` begins with an opening tag in mid-line; no closing tag begins before `searched` bytes.
    Undecided { tag: usize, searched: usize },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    MoreMayCome,
    Complete,
}

enum Piece<'a> {
    Visible(&'a str),
    BlockStart,
    Reasoning(&'a str),
}

impl ThinkScrubber {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn feed(&mut self, delta: &str) -> ScrubbedText {
        self.held.push_str(delta);
        self.sort_held(Input::MoreMayCome)
    }

    /// Ends the answer: returns what was held back and is ready for the next answer.
    pub fn finish(&mut self) -> ScrubbedText {
        let rest = self.sort_held(Input::Complete);
        self.reset();
        rest
    }

    /// Discards the answer so far.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn sort_held(&mut self, input: Input) -> ScrubbedText {
        let mut out = ScrubbedText::default();
        let mut has_thought = self.has_thought;
        self.run(input, &mut |piece| match piece {
            Piece::Visible(text) => out.visible.push_str(text),
            Piece::Reasoning(text) => {
                has_thought |= !text.is_empty();
                out.reasoning.push_str(text);
            }
            Piece::BlockStart if has_thought => out.reasoning.push_str("\n\n"),
            Piece::BlockStart => {}
        });
        self.has_thought = has_thought;
        out
    }

    /// Moves everything that is decided from `held` to the sink.
    fn run(&mut self, input: Input, sink: &mut dyn FnMut(Piece<'_>)) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        // Tags already known to have no closing tag in the rest of a complete answer, so that many stray opening
        // tags do not each search to its end.
        let mut unclosed = [false; TAGS.len()];
        loop {
            let (state, after) = match self.state {
                State::Text => match self.read_text(rest, input, sink) {
                    Some(step) => step,
                    None => break,
                },
                State::Inside(tag) => {
                    let (_, close) = TAGS[tag];
                    if let Some((inner, after)) = split_at_tag(rest, close, 0) {
                        if tag != RECALLED {
                            sink(Piece::Reasoning(inner));
                        }
                        (State::Text, after)
                    } else {
                        let keep = match input {
                            Input::MoreMayCome => tail_that_may_become(rest, close),
                            Input::Complete => 0,
                        };
                        let (inner, tail) = cut(rest, rest.len() - keep);
                        if tag != RECALLED {
                            sink(Piece::Reasoning(inner));
                        }
                        self.held = tail.to_owned();
                        return;
                    }
                }
                State::Undecided { tag, searched } => {
                    let (open, close) = TAGS[tag];
                    let pair = if unclosed[tag] { None } else { split_at_tag(rest, close, searched) };
                    if let Some((before, after)) = pair {
                        if tag != RECALLED {
                            sink(Piece::BlockStart);
                            sink(Piece::Reasoning(cut(before, open.len()).1));
                        }
                        (State::Text, after)
                    } else if input == Input::MoreMayCome {
                        let searched = rest.len() - tail_that_may_become(rest, close);
                        self.state = State::Undecided { tag, searched };
                        self.held = if rest.len() == held.len() { held } else { rest.to_owned() };
                        return;
                    } else {
                        unclosed[tag] = true;
                        let (literal, after) = cut(rest, open.len());
                        sink(Piece::Visible(literal));
                        (State::Text, after)
                    }
                }
            };
            self.state = state;
            rest = after;
        }
    }

    /// Takes one step through plain text; returns the state after it and the rest, or `None` when the rest is shown
    /// or held.
    fn read_text<'a>(
        &mut self,
        rest: &'a str,
        input: Input,
        sink: &mut dyn FnMut(Piece<'_>),
    ) -> Option<(State, &'a str)> {
        let mut shown = 0;
        let mut from = 0;
        while let Some(at) = cut(rest, from).1.find('<').map(|at| at + from) {
            let (before, candidate) = cut(rest, at);
            self.note_line(cut(before, shown).1);
            sink(Piece::Visible(cut(before, shown).1));
            shown = at;
            if let Some(tag) = TAGS.iter().position(|(open, _)| starts_with(candidate, open)) {
                if self.in_mid_line {
                    return Some((State::Undecided { tag, searched: 0 }, candidate));
                }
                if tag != RECALLED {
                    sink(Piece::BlockStart);
                }
                return Some((State::Inside(tag), cut(candidate, TAGS[tag].0.len()).1));
            }
            let may_become = TAGS.iter().any(|(open, _)| starts_with(open, candidate));
            if may_become && input == Input::MoreMayCome {
                candidate.clone_into(&mut self.held);
                return None;
            }
            from = at + 1;
        }
        let last = cut(rest, shown).1;
        self.note_line(last);
        sink(Piece::Visible(last));
        None
    }

    fn note_line(&mut self, shown: &str) {
        let (line, so_far) = match shown.rsplit_once('\n') {
            Some((_, line)) => (line, false),
            None => (shown, self.in_mid_line),
        };
        self.in_mid_line = so_far || !line.trim().is_empty();
    }
}

/// Returns the text without its reasoning blocks, everything else unchanged.
pub fn strip_think(text: &str) -> Cow<'_, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut scrubber = ThinkScrubber { held: text.to_owned(), ..ThinkScrubber::default() };
    Cow::Owned(scrubber.finish().visible)
}

/// Returns the text without the recalled memories that a model repeated in it, everything else unchanged.
pub fn strip_recalled(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<memory-context>";
    const CLOSE: &str = "</memory-context>";
    if !text.contains(OPEN) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        kept.push_str(before);
        rest = after.split_once(CLOSE).map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    Cow::Owned(kept.trim_end().to_owned())
}

/// Returns the content of the text's reasoning blocks, trimmed, without repetitions, joined by blank lines, or
/// `None` when there is none.
pub fn extract_inline_reasoning(text: &str) -> Option<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut scrubber = ThinkScrubber { held: text.to_owned(), ..ThinkScrubber::default() };
    scrubber.run(Input::Complete, &mut |piece| match piece {
        Piece::BlockStart => blocks.push(String::new()),
        Piece::Reasoning(text) => {
            if let Some(block) = blocks.last_mut() {
                block.push_str(text);
            }
        }
        Piece::Visible(_) => {}
    });
    let mut kept: Vec<&str> = Vec::new();
    for block in &blocks {
        let block = block.trim();
        if !block.is_empty() && !kept.contains(&block) {
            kept.push(block);
        }
    }
    (!kept.is_empty()).then(|| kept.join("\n\n"))
}

/// Splits at a position known to be between characters; at the end for any other.
fn cut(text: &str, at: usize) -> (&str, &str) {
    text.split_at_checked(at).unwrap_or((text, ""))
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Returns the text before and after the first `tag` that begins at or after `from`.
fn split_at_tag<'a>(text: &'a str, tag: &str, from: usize) -> Option<(&'a str, &'a str)> {
    let at = cut(text, from).1.match_indices('<').map(|(at, _)| at + from).find(|at| {
        let (_, candidate) = cut(text, *at);
        starts_with(candidate, tag)
    })?;
    let (before, rest) = cut(text, at);
    Some((before, cut(rest, tag.len()).1))
}

/// Returns the number of bytes at the end that could be the beginning of `tag`.
fn tail_that_may_become(text: &str, tag: &str) -> usize {
    let Some(at) = text.rfind('<') else { return 0 };
    let (_, tail) = cut(text, at);
    if starts_with(tag, tail) { tail.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn recalled_notes_are_removed() {
        for (text, kept) in [
            ("a <b> c", "a <b> c"),
            ("so <memory-context>x</memory-context> it is", "so  it is"),
            ("answer\n\n<memory-context>\nx", "answer"),
        ] {
            assert_eq!(super::strip_recalled(text), kept);
        }
    }

    use proptest::prelude::*;

    use super::*;

    fn scrub<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut scrubber = ThinkScrubber::new();
        let (mut visible, mut reasoning) = (String::new(), String::new());
        let mut take = |scrubbed: ScrubbedText| {
            visible += &scrubbed.visible;
            reasoning += &scrubbed.reasoning;
        };
        for piece in pieces {
            take(scrubber.feed(piece));
        }
        take(scrubber.finish());
        (visible, reasoning)
    }

    #[track_caller]
    fn check(text: &str, visible: &str, reasoning: &str) {
        let whole = scrub([text]);
        assert_eq!((whole.0.as_str(), whole.1.as_str()), (visible, reasoning), "{text:?}");
        assert_eq!(strip_think(text), visible);
    }

    #[test]
    fn takes_blocks_out() {
        check("plain", "plain", "");
        check("<think>why</think>so", "so", "why");
        check("<THINK>a\nb</Think>\n\nso", "\n\nso", "a\nb");
        check("one\n <thinking>x</thinking>\ntwo", "one\n \ntwo", "x");
        check("<REASONING_SCRATCHPAD>x</REASONING_SCRATCHPAD>a", "a", "x");
        check("<reasoning>x</reasoning><thought>y</thought>a", "a", "x\n\ny");
        check("<think>x</thinking>y</think>a", "a", "x</thinking>y");
    }

    #[test]
    fn an_open_end_hides_the_rest_only_at_a_line_start() {
        check("a\n<think>x", "a\n", "x");
        check("<think>x</thin", "", "x</thin");
        check("a <think> is a tag", "a <think> is a tag", "");
        check("a <think> b\n<thought>c", "a <think> b\n", "c");
        check("a <think> b <thinking>c</thinking> d", "a <think> b  d", "c");
    }

    #[test]
    fn a_complete_pair_goes_wherever_it_stands() {
        check("a <think>x</think> b", "a  b", "x");
        check("a <think>x\n<thought>y</think> b", "a  b", "x\n<thought>y");
    }

    #[test]
    fn what_only_looks_like_a_tag_stays() {
        for text in ["<", "<thin", "a < b <t> <thinks> </think> <think >", "<<think", "x<th\n<"] {
            check(text, text, "");
        }
        check("<<think>x</think>", "<", "x");
    }

    #[test]
    fn streams_what_is_certain_at_once() {
        let mut scrubber = ThinkScrubber::new();
        assert_eq!(scrubber.feed("Hello <th").visible, "Hello ");
        assert_eq!(scrubber.feed("ere\n<thi").visible, "<there\n");
        assert_eq!(scrubber.feed("nk>wh").reasoning, "wh");
        assert_eq!(scrubber.feed("y</th").reasoning, "y");
        assert_eq!(scrubber.feed("ink>so").visible, "so");
        scrubber.reset();
        assert_eq!(scrubber.feed("<think>x").reasoning, "x");
    }

    #[test]
    fn extracts_blocks_once_each() {
        let text = "<think> a </think>\n<think>b</think>\n<thought>a</thought><think></think>end";
        assert_eq!(extract_inline_reasoning(text).as_deref(), Some("a\n\nb"));
        assert_eq!(extract_inline_reasoning("no <think> here"), None);
    }

    /// Runs for minutes unless scrubbing takes linear time.
    #[test]
    fn hostile_text_is_read_once() {
        for piece in
            ["<", "a<think>", "<think>", "x</think>", "<think", "a<think></thin", "\n<thought>x</thought>"]
        {
            let text = piece.repeat(200_000 / piece.len());
            let _ = scrub([text.as_str()]);
            let _ = scrub(std::iter::repeat_n(piece, 20_000));
        }
    }

    fn answer() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            Just("<think>"),
            Just("</think>"),
            Just("<Thinking>"),
            Just("</thinking>"),
            Just("<thought>"),
            Just("<reasoning"),
            Just("_scratchpad>"),
            Just("</reasoning_scratchpad>"),
            Just("<"),
            Just("</th"),
            Just("ink>"),
            Just("\n"),
            Just(" "),
            Just("é"),
            Just("word"),
        ];
        prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(text in answer(), sizes in prop::collection::vec(1_usize..6, 1..12)) {
            let chars: Vec<char> = text.chars().collect();
            let mut pieces: Vec<String> = Vec::new();
            let mut rest = chars.as_slice();
            for size in sizes.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece.iter().collect());
                rest = after;
            }
            let streamed = scrub(pieces.iter().map(String::as_str));
            prop_assert_eq!(&streamed, &scrub([text.as_str()]));
            prop_assert_eq!(&streamed.0, &strip_think(&text));
        }

        #[test]
        fn text_without_tags_is_untouched(text in "[a-z \n<>/é]{0,40}") {
            prop_assume!(!TAGS.iter().any(|(open, _)| text.contains(open)));
            prop_assert_eq!(&strip_think(&text), &text);
        }
    }
}
