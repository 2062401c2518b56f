//! Pictures, folded reasoning, prompts in the background, times, and how answers are marked up.

use std::path::PathBuf;
use std::time::Duration;

use hermes_tui::{
    BusyInputMode, MarkdownDisplay, Operation, ScreenEffect, ScreenInput, ScreenSetup, TimeLabels,
    TranscriptOptions,
};
use hermes_types::{CallId, Delta, SessionId, TurnEvent};

use crate::terminal::{TestTerminal, display, setup};

fn started(name: &str, preview: &str) -> TurnEvent {
    TurnEvent::ToolStarted {
        id: CallId::new(preview),
        name: name.into(),
        preview: preview.into(),
        arguments: "{}".into(),
        display: display(name),
    }
}

fn child(label: &str, event: TurnEvent) -> TurnEvent {
    TurnEvent::Child { label: label.into(), event: Box::new(event) }
}

#[test]
fn a_picture_goes_with_the_message() {
    let mut terminal = TestTerminal::new(80, 24);
    let before = terminal.screen();
    terminal.input(ScreenInput::Attach(PathBuf::from("/tmp/a.png")));
    terminal.input(ScreenInput::Attach(PathBuf::from("/tmp/b.png")));
    assert!(terminal.screen().contains("[📎 Image #1] [📎 Image #2]"), "{}", terminal.screen());
    terminal.keys("<BS>");
    assert!(!terminal.screen().contains("Image #2"), "{}", terminal.screen());
    terminal.keys("see<Enter>");
    let sent = terminal.operations();
    let [Operation::Submit(text)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((text.text.as_str(), text.images.as_slice()), ("see", &[PathBuf::from("/tmp/a.png")][..]));
    assert!(terminal.everything().contains("● see\n  📎 1 image attached"), "{}", terminal.everything());
    // A picture alone is a message, and the next one has none.
    terminal.input(ScreenInput::Attach(PathBuf::from("/tmp/c.png")));
    terminal.keys("<Enter>");
    let sent = terminal.operations();
    assert!(matches!(sent.as_slice(), [Operation::Submit(text)] if text.images.len() == 1), "{sent:?}");
    terminal.keys("<Enter>");
    assert!(terminal.operations().is_empty());
    terminal.input(ScreenInput::Attach(PathBuf::from("/tmp/d.png")));
    terminal.keys("<C-c>");
    assert!(!terminal.screen().contains("Image #"), "{}", terminal.screen());
    assert!(terminal.screen().ends_with(before.lines().last().unwrap()), "{}", terminal.screen());
}

#[test]
fn a_pasted_path_may_be_a_picture() {
    let mut terminal = TestTerminal::new(80, 24);
    let path = "/tmp/a\\ shot.png";
    terminal.input(ScreenInput::Paste(path.into()));
    assert!(terminal.effects.contains(&ScreenEffect::FindImage(path.into())), "{:?}", terminal.effects);
    assert_eq!(terminal.typed(), "");
    terminal.input(ScreenInput::ImageFound { text: path.into(), image: None });
    assert_eq!(terminal.typed(), path, "a path of something else is text");
    terminal.effects.clear();
    terminal.input(ScreenInput::Paste(String::new()));
    terminal.keys("<C-v><A-v>");
    assert_eq!(terminal.effects, vec![ScreenEffect::PasteImage; 3]);
}

#[test]
fn a_picture_waits_in_every_mode() {
    for mode in [BusyInputMode::Queue, BusyInputMode::Steer] {
        let mut terminal = TestTerminal::with(ScreenSetup { busy_input: mode, ..setup(80, 24) });
        terminal.begin_turn();
        terminal.input(ScreenInput::Attach(PathBuf::from("/tmp/a.png")));
        terminal.keys("this<Enter>");
        let sent = terminal.operations();
        assert!(matches!(sent.as_slice(), [Operation::Queue(text)] if text.images.len() == 1), "{sent:?}");
    }
}

#[test]
fn hidden_reasoning_is_one_line_that_opens() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    terminal.turn(TurnEvent::Delta(Delta::Reasoning("I weigh it.\nThen I act.\n".into())));
    assert!(!terminal.screen().contains("I weigh it"), "{}", terminal.screen());
    terminal.pass(3_200);
    terminal.text("Answer.");
    assert!(terminal.everything().contains("┊ 💭 thought   3.2s"), "{}", terminal.everything());
    terminal.tool("terminal", "ls", 10, r#"{"output":"a file"}"#);
    terminal.keys("<C-o>");
    assert!(terminal.screen().contains("a file") && !terminal.screen().contains("I weigh it"));
    terminal.keys("<C-o>");
    assert!(terminal.screen().contains("I weigh it"), "{}", terminal.screen());
    terminal.keys("<Esc>");
    assert!(!terminal.screen().contains("I weigh it"), "{}", terminal.screen());
    assert!(!terminal.operations().contains(&Operation::Interrupt), "Esc only closed the output");
}

#[test]
fn arrows_scroll_an_open_output() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    let output: String = (0..50).map(|at| format!("row {at}\n")).collect::<Vec<_>>().concat();
    terminal.tool("terminal", "seq 50", 10, &serde_json::json!({ "output": output }).to_string());
    terminal.keys("<C-o><Down><Down><Up>");
    let screen = terminal.screen();
    assert!(!screen.contains("row 0\n") && screen.contains("row 1\n"), "{screen}");
}

#[test]
fn agents_are_a_tree() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    terminal.turn(child("1/2", started("terminal", "make")));
    terminal.turn(child("2/2", started("read_file", "a.rs")));
    terminal.turn(child("1/2", child("deep", started("terminal", "true"))));
    terminal.input(ScreenInput::Background { label: "bg #1".into(), event: started("terminal", "sleep") });
    terminal.pass(1_500);
    let tree = "  ├─ [1/2] 💻 $ make  1 tool call · 1.5s\n  │  └─ [deep] 💻 $ true  1 tool call · 1.5s\n  \
                └─ [2/2] 📖 read a.rs  1 tool call · 1.5s\n  └─ [bg #1] 💻 $ sleep  1 tool call · 1.5s";
    assert!(terminal.screen().contains(tree), "{}", terminal.screen());
    terminal.turn(TurnEvent::TurnEnded { session: SessionId::new("s") });
    assert!(!terminal.screen().contains("[1/2]") && terminal.screen().contains("[bg #1]"));
    terminal.input(ScreenInput::ListAgents);
    assert_eq!(terminal.everything().matches("[bg #1]").count(), 2, "{}", terminal.everything());
    let event = TurnEvent::TurnEnded { session: SessionId::new("b") };
    terminal.input(ScreenInput::Background { label: "bg #1".into(), event });
    terminal.input(ScreenInput::PrintAnswer { remark: "(background #1)".into(), text: "**done**".into() });
    let everything = terminal.everything();
    assert!(everything.contains("[bg #1] done · 1 tool call · 1.5s"), "{everything}");
    assert!(
        everything.contains("Hermes (background #1) ─") && everything.contains("\ndone\n"),
        "{everything}"
    );
}

#[test]
fn a_wide_tree_is_bounded() {
    let mut terminal = TestTerminal::new(80, 40);
    terminal.begin_turn();
    for at in 0..20 {
        terminal.turn(child(&format!("{at}/20"), started("terminal", "make")));
    }
    assert!(terminal.screen().contains("… 13 more, /agents lists them"), "{}", terminal.screen());
    terminal.input(ScreenInput::ListAgents);
    assert!(terminal.everything().contains("[19/20]"), "{}", terminal.everything());
}

#[test]
fn times_are_shown_when_wanted() {
    let label = |now: Duration| format!("at {}", now.as_secs());
    let mut terminal =
        TestTerminal::with(ScreenSetup { times: Some(TimeLabels::new(label)), ..setup(80, 24) });
    terminal.pass(7_000);
    terminal.keys("hello<Enter>");
    terminal.begin_turn();
    terminal.text("Answer.\n\n");
    terminal.pass(2_000);
    terminal.input(ScreenInput::TurnFinished(Some("Answer.".into())));
    let everything = terminal.everything();
    assert!(everything.contains("● hello  at 7") && everything.contains("Hermes · at 7 ─"), "{everything}");
    terminal.input(ScreenInput::Times(None));
    terminal.keys("again<Enter>");
    assert!(terminal.everything().contains("● again\n"), "{}", terminal.everything());
}

#[test]
fn answers_are_marked_up_as_wanted() {
    let answer = "# Title\n\n**bold** and `code`\n\n- item\n";
    for (markdown, shown, is_bold) in [
        (MarkdownDisplay::Rendered, "Title\n\nbold and code\n\n• item", true),
        (MarkdownDisplay::Stripped, "Title\n\nbold and code\n\n• item", false),
        (MarkdownDisplay::Raw, "# Title\n\n**bold** and `code`\n\n- item", false),
    ] {
        let base = setup(80, 24);
        let transcript = TranscriptOptions { markdown, ..base.transcript };
        let mut terminal = TestTerminal::with(ScreenSetup { transcript, ..base });
        terminal.begin_turn();
        for piece in answer.split_inclusive(' ') {
            terminal.text(piece);
        }
        terminal.input(ScreenInput::TurnFinished(Some(answer.into())));
        let everything = terminal.everything();
        assert!(everything.contains(shown), "{markdown:?}: {everything}");
        let screen = terminal.parser.screen();
        let row = (0..24).find(|row| screen.contents_between(*row, 0, *row, 80).contains("bold and"));
        let is_styled = row.is_some_and(|row| screen.cell(row, 0).unwrap().bold());
        assert_eq!(is_styled, is_bold, "{markdown:?}");
    }
}

#[test]
fn an_idle_screen_sleeps() {
    let mut terminal = TestTerminal::new(80, 24);
    let next = |terminal: &TestTerminal| terminal.state.next_tick(terminal.now);
    assert_eq!(next(&terminal), Duration::from_mins(1));
    terminal.pass(61_500);
    assert_eq!(next(&terminal), Duration::from_millis(58_500));
    terminal.begin_turn();
    assert_eq!(next(&terminal), Duration::from_millis(100));
}
