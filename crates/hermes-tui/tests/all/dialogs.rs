//! Questions and pickers.

use std::time::Duration;

use hermes_tui::{PickerItem, PickerSpec, ScreenEffect, ScreenInput};
use hermes_types::{ApprovalDecision, Danger, Secret, UserAnswer, UserQuestion};

use crate::terminal::TestTerminal;

fn approval(command: &str) -> UserQuestion {
    let danger = Danger { key: "rm".into(), reason: "removes files recursively".into() };
    UserQuestion::Approve { command: command.into(), danger }
}

fn ask(terminal: &mut TestTerminal, question: UserQuestion) {
    terminal.input(ScreenInput::Ask { id: 7, question, time_limit: Some(Duration::from_mins(1)) });
}

fn answer(terminal: &mut TestTerminal) -> Option<UserAnswer> {
    std::mem::take(&mut terminal.effects).into_iter().find_map(|effect| match effect {
        ScreenEffect::Answer { id: 7, answer } => Some(answer),
        _ => None,
    })
}

#[test]
fn an_approval_shows_the_command_and_takes_one_decision() {
    for (width, height) in [(80, 24), (44, 15)] {
        let mut terminal = TestTerminal::new(width, height);
        ask(
            &mut terminal,
            approval(
                "rm -rf build/\u{1b}[2K\u{202e} && echo a command that is longer than one row of the panel",
            ),
        );
        insta::assert_snapshot!(format!("approval_{width}x{height}"), terminal.screen());
    }
    for (keys, decision) in [
        ("<Enter>", ApprovalDecision::Once),
        ("<Down><Enter>", ApprovalDecision::Session),
        ("a", ApprovalDecision::Always),
        ("<Up><Enter>", ApprovalDecision::Deny),
        ("d", ApprovalDecision::Deny),
        ("<Esc>", ApprovalDecision::Deny),
        ("<C-c>", ApprovalDecision::Deny),
    ] {
        let mut terminal = TestTerminal::new(80, 24);
        ask(&mut terminal, approval("rm -rf build"));
        terminal.pass(301);
        terminal.keys(keys);
        assert_eq!(answer(&mut terminal), Some(UserAnswer::Approval(decision)), "{keys}");
        assert!(!terminal.screen().contains("Dangerous"), "{keys}");
    }
}

#[test]
fn typing_ahead_is_no_answer() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.keys("I was typi");
    ask(&mut terminal, approval("rm -rf build"));
    terminal.keys("ng so<Enter>");
    terminal.pass(299);
    terminal.keys("o<Enter>");
    assert_eq!(answer(&mut terminal), None);
    terminal.pass(1);
    terminal.keys("o");
    assert_eq!(answer(&mut terminal), Some(UserAnswer::Approval(ApprovalDecision::Once)));
    assert_eq!(terminal.typed(), "I was typi", "the input is as it was");
}

#[test]
fn a_second_dialog_has_its_own_first_moment() {
    let mut terminal = TestTerminal::new(80, 24);
    ask(&mut terminal, approval("first"));
    terminal.input(ScreenInput::Ask { id: 8, question: approval("second"), time_limit: None });
    terminal.pass(400);
    terminal.keys("<Enter><Enter>");
    let answers =
        terminal.effects.iter().filter(|effect| matches!(effect, ScreenEffect::Answer { .. })).count();
    assert_eq!(answers, 1);
}

#[test]
fn nobody_answers() {
    let mut terminal = TestTerminal::new(80, 24);
    ask(&mut terminal, approval("rm -rf build"));
    terminal.pass(59_000);
    assert_eq!(answer(&mut terminal), None);
    terminal.pass(1_000);
    assert_eq!(answer(&mut terminal), Some(UserAnswer::TimedOut));
    assert!(terminal.screen().contains("⏱ Timeout — denying command"), "{}", terminal.screen());
}

#[test]
fn a_long_command_can_be_read_to_its_end() {
    let mut terminal = TestTerminal::new(80, 24);
    let command: String = (0..60).map(|at| format!("echo line {at}\n")).collect::<Vec<_>>().concat();
    ask(&mut terminal, approval(&command));
    terminal.pass(400);
    assert!(terminal.screen().contains("echo line 0") && !terminal.screen().contains("echo line 59"));
    assert!(terminal.screen().contains("Deny"), "{}", terminal.screen());
    terminal.keys(&"<PageDown>".repeat(14));
    assert!(terminal.screen().contains("echo line 59"), "{}", terminal.screen());
}

#[test]
fn clarifying() {
    let question = |choices: &[&str]| UserQuestion::Clarify {
        question: "Which one?".into(),
        choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
    };
    for (choices, keys, text) in [
        (&["red", "blue"][..], "<Down><Enter>", "blue"),
        (&["red", "blue"], "2<Enter>", "blue"),
        (&["red", "blue"], "<Up><Enter>green<Enter>", "green"),
        (&[], "whatever fits<Enter>", "whatever fits"),
    ] {
        let mut terminal = TestTerminal::new(80, 24);
        ask(&mut terminal, question(choices));
        terminal.pass(400);
        terminal.keys(keys);
        assert_eq!(answer(&mut terminal), Some(UserAnswer::Text(text.into())), "{keys}");
    }
    let mut terminal = TestTerminal::new(80, 24);
    ask(&mut terminal, question(&["red", "blue"]));
    insta::assert_snapshot!("clarify_80x24", terminal.screen());
}

#[test]
fn a_secret_is_never_shown_nor_remembered() {
    let mut terminal = TestTerminal::new(80, 24);
    ask(&mut terminal, UserQuestion::Secret { name: "API_KEY".into(), prompt: "Key for the service".into() });
    terminal.pass(400);
    terminal.keys("hunter2");
    assert!(terminal.screen().contains("•••••••"), "{}", terminal.screen());
    assert!(!terminal.everything().contains("hunter"));
    terminal.keys("<Enter>");
    assert_eq!(answer(&mut terminal), Some(UserAnswer::Secret(Secret::new("hunter2"))));
    terminal.keys("<C-y><Up>");
    assert!(!terminal.typed().contains("hunter"));
}

#[test]
fn picking() {
    let item = |label: &str, preview: &str| PickerItem {
        label: label.into(),
        detail: "3h ago".into(),
        preview: preview.into(),
    };
    let spec = PickerSpec {
        title: "Sessions".into(),
        items: vec![
            item("Fix the build", "● You: it fails"),
            item("Plan a trip", "● You: where to?"),
            item("Notes", ""),
        ],
        selected: 0,
    };
    let mut terminal = TestTerminal::new(80, 24);
    terminal.input(ScreenInput::Pick { id: 3, spec });
    insta::assert_snapshot!("picker_80x24", terminal.screen());
    terminal.pass(400);
    terminal.keys("trip<Enter>");
    assert!(terminal.effects.contains(&ScreenEffect::Picked { id: 3, index: Some(1) }));
}
