//! Turns on the screen: answers as they stream, tools, reasoning, subagents.

use hermes_tui::{ReasoningDisplay, ScreenInput, ScreenSetup, ToolFeedMode, TranscriptOptions};
use hermes_types::{Delta, OutcomeStatus, SessionId, TurnEvent, TurnNoticeKind};

use crate::terminal::{TestTerminal, display, setup};

const ANSWER: &str = "# Result\n\nThe *first* paragraph is **long enough** to be wrapped on a narrow terminal, with `code` and a \
[link](https://example.org/page).\n\n1. one\n2. two\n   - nested\n3. three\n\n> a quote\n\n| name | size | \
note |\n|---|---:|---|\n| alpha | 12 | the first |\n| beta | 3456 | the second, with more words |\n\n```rust\nfn main() \
{\n    println!(\"hi\"); // comment\n}\n```\n\nDone.\n";

fn conversation(terminal: &mut TestTerminal) {
    terminal.keys("What is in the file?<Enter>");
    terminal.begin_turn();
    terminal.tool("read_file", "src/very/long/path/to/some/module/main.rs", 120, r#"{"content":"x"}"#);
    terminal.tool_with(
        "terminal",
        "cargo test",
        2_300,
        r#"{"exit_code":101,"output":"boom"}"#,
        OutcomeStatus::Done,
    );
    let diff =
        "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,3 +1,3 @@\n fn main() {\n-    old();\n+    new();\n }\n";
    let result = serde_json::json!({ "success": true, "diff": diff }).to_string();
    terminal.tool("patch", "src/main.rs", 40, &result);
    for piece in ANSWER.split_inclusive(' ') {
        terminal.text(piece);
    }
    terminal.input(ScreenInput::TurnFinished(Some(ANSWER.into())));
}

#[test]
fn a_conversation() {
    for (width, height) in [(80, 24), (44, 15), (200, 60), (20, 12)] {
        let mut terminal = TestTerminal::new(width, height);
        conversation(&mut terminal);
        insta::assert_snapshot!(format!("conversation_{width}x{height}"), terminal.everything());
    }
}

#[test]
fn a_running_turn() {
    for (width, height) in [(80, 24), (44, 15)] {
        let mut terminal = TestTerminal::new(width, height);
        terminal.keys("Go<Enter>");
        terminal.begin_turn();
        terminal.text("I look into the matter.\n\nIt has two parts:\n\n- the fir");
        let child = |label: &str, event| TurnEvent::Child { label: label.into(), event: Box::new(event) };
        let started = |name: &str, preview: &str| TurnEvent::ToolStarted {
            id: hermes_types::CallId::new(preview),
            name: name.into(),
            preview: preview.into(),
            arguments: "{}".into(),
            display: display(name),
        };
        terminal.turn(started("delegate_task", "two parallel tasks"));
        terminal.turn(child("1/2", started("terminal", "make test")));
        terminal.turn(child("2/2", started("read_file", "Cargo.toml")));
        terminal.pass(1_500);
        insta::assert_snapshot!(format!("running_{width}x{height}"), terminal.screen());
        terminal.turn(child("1/2", TurnEvent::TurnEnded { session: SessionId::new("c") }));
        assert!(terminal.screen().contains("[1/2] done · 1 tool call"), "{}", terminal.screen());
    }
}

#[test]
fn an_answer_streams_once_whatever_the_pieces() {
    let mut whole = TestTerminal::new(80, 24);
    whole.begin_turn();
    whole.input(ScreenInput::TurnFinished(Some(ANSWER.into())));
    let expected = whole.everything();
    for size in [1, 2, 3, 7, 50, 1_000] {
        let mut terminal = TestTerminal::new(80, 24);
        terminal.begin_turn();
        let letters: Vec<char> = ANSWER.chars().collect();
        for piece in letters.chunks(size) {
            terminal.text(&piece.iter().collect::<String>());
        }
        terminal.turn(TurnEvent::SegmentEnded);
        terminal.input(ScreenInput::TurnFinished(Some(ANSWER.into())));
        assert_eq!(terminal.everything(), expected, "pieces of {size}");
    }
}

#[test]
fn a_finished_block_is_in_the_scrollback_before_the_answer_ends() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    terminal.text("```\n");
    for line in 0..100 {
        terminal.text(&format!("line {line}\n"));
    }
    let everything = terminal.everything();
    assert!(everything.contains("line 0\n") && everything.contains("line 99"), "{everything}");
    assert!(!terminal.screen().contains("line 50"));
}

#[test]
fn a_restarted_stream_shows_nothing_twice() {
    let first = "One paragraph.\n\nAnother paragraph.\n\nA thi";
    for (second, repeated) in [
        ("One paragraph.\n\nAnother paragraph.\n\nA third.\n", true),
        ("Something else.\n\nEntirely.\n", false),
    ] {
        let mut terminal = TestTerminal::new(80, 24);
        terminal.begin_turn();
        terminal.text(first);
        terminal.turn(TurnEvent::Delta(Delta::Restart));
        for piece in second.split_inclusive(' ') {
            terminal.text(piece);
        }
        terminal.input(ScreenInput::TurnFinished(Some(second.into())));
        let everything = terminal.everything();
        for line in ["One paragraph.", "Another paragraph.", second.trim().lines().last().unwrap()] {
            assert_eq!(everything.matches(line).count(), 1, "{line} in\n{everything}");
        }
        assert!(!everything.contains("A thi\n"), "{everything}");
        assert_eq!(everything.contains("the answer starts again"), !repeated, "{everything}");
    }
}

#[test]
fn an_answer_that_was_not_streamed_is_shown_once() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    terminal.text("Before the tools.");
    terminal.turn(TurnEvent::SegmentEnded);
    terminal.tool("terminal", "ls", 10, "{}");
    terminal.input(ScreenInput::TurnFinished(Some("Before the tools.".into())));
    terminal.begin_turn();
    terminal.input(ScreenInput::TurnFinished(Some("Whole answer.".into())));
    let everything = terminal.everything();
    assert_eq!(everything.matches("Before the tools.").count(), 1, "{everything}");
    assert_eq!(everything.matches("Whole answer.").count(), 1, "{everything}");
}

#[test]
fn nothing_that_was_written_acts_on_the_terminal() {
    let evil = "\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[1;1H\r\u{8}\u{9b}31mred";
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    terminal.text(&format!(
        "{evil}\n\n- {evil}\n\n```sh\n{evil}\n```\n\n| {evil} |\n|---|\n| {evil} |\n\n[{evil}]({evil})\n"
    ));
    terminal.tool(evil, evil, 10, &format!("{evil}\n{evil}"));
    terminal.turn(TurnEvent::Notice { kind: TurnNoticeKind::Retry, text: evil.into() });
    terminal.turn(TurnEvent::Delta(Delta::Status(evil.into())));
    terminal.turn(TurnEvent::Child {
        label: evil.into(),
        event: Box::new(TurnEvent::Notice { kind: TurnNoticeKind::Retry, text: evil.into() }),
    });
    terminal.input(ScreenInput::Print(evil.into()));
    terminal.input(ScreenInput::Notice(evil.into()));
    terminal.input(ScreenInput::Lock(Some(evil.into())));
    terminal.input(ScreenInput::Lock(None));
    terminal.input(ScreenInput::Paste(evil.into()));
    terminal.keys("<C-o>");
    let screen = terminal.screen();
    assert!(screen.contains("\\u{1b}"), "{screen}");
    assert!(screen.contains("claude-sonnet"), "{screen}");
}

#[test]
fn no_written_sequence_reaches_the_terminal() {
    let evil = "a\u{1b}]52;c;eA==\u{7}\u{1b}[8mb";
    let mut state = hermes_tui::ScreenState::new(setup(80, 24));
    let mut painter = hermes_tui::Painter::new(Vec::new(), 80, 24, hermes_tui::ResizeBehavior::Reflows);
    for input in [
        ScreenInput::Turn(TurnEvent::Delta(Delta::Text(format!("{evil}\n\n`{evil}`\n\n")))),
        ScreenInput::Print(evil.into()),
        ScreenInput::Paste(evil.into()),
    ] {
        state.update(input, std::time::Duration::ZERO);
        let finished = state.take_finished();
        painter.paint(&finished, &state.view(std::time::Duration::ZERO)).unwrap();
    }
    let bytes = String::from_utf8(std::mem::take(painter.output_mut())).unwrap();
    assert!(
        !bytes.contains("\u{1b}]") && !bytes.contains("\u{1b}[8m") && !bytes.contains('\u{7}'),
        "{bytes:?}"
    );
}

#[test]
fn modes_of_the_tool_feed() {
    for (mode, lines) in [(ToolFeedMode::Off, 0), (ToolFeedMode::New, 2), (ToolFeedMode::All, 3)] {
        let base = setup(80, 24);
        let transcript = TranscriptOptions { tool_feed: mode, ..base.transcript };
        let mut terminal = TestTerminal::with(ScreenSetup { transcript, ..base });
        terminal.begin_turn();
        for name in ["terminal", "terminal", "read_file"] {
            terminal.tool(name, "x", 100, "{}");
        }
        assert_eq!(terminal.everything().matches("  ┊ ").count(), lines, "{mode:?}");
    }
}

#[test]
fn a_memory_that_is_full_says_so() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    let result = r#"{"success":false,"error":"MEMORY.md at 2,200/2,200 chars. Adding this entry (9 chars) would exceed the limit."}"#;
    terminal.tool_with("memory", "+memory", 100, result, OutcomeStatus::Failed);
    assert!(terminal.everything().contains("0.1s [full]"), "{}", terminal.everything());
}

#[test]
fn reasoning_is_shown_when_wanted() {
    let base = setup(80, 24);
    let transcript = TranscriptOptions { reasoning: ReasoningDisplay::Shown, ..base.transcript };
    let mut terminal = TestTerminal::with(ScreenSetup { transcript, ..base });
    terminal.begin_turn();
    let thoughts: String = (0..14).map(|at| format!("thought {at}\n")).collect::<Vec<_>>().concat();
    terminal.turn(TurnEvent::Delta(Delta::Reasoning(thoughts)));
    assert!(terminal.screen().contains("thought 13") && !terminal.screen().contains("thought 2"));
    terminal.text("Answer.");
    let everything = terminal.everything();
    assert!(everything.contains("│ thought 9\n│ ... (4 more lines)"), "{everything}");
}

#[test]
fn the_last_output_can_be_seen_whole() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    let output: String = (0..50).map(|at| format!("row {at}\n")).collect::<Vec<_>>().concat();
    terminal.tool("terminal", "seq 50", 10, &serde_json::json!({ "output": output }).to_string());
    terminal.keys("<C-o>");
    assert!(terminal.screen().contains("row 0\n"), "{}", terminal.screen());
    terminal.keys("<PageDown><PageDown><PageDown><PageDown><PageDown><PageDown>");
    assert!(terminal.screen().contains("row 49"), "{}", terminal.screen());
    terminal.keys("<C-o>");
    assert!(!terminal.screen().contains("row 49"), "{}", terminal.screen());
}
