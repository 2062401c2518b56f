//! Whatever is typed, streamed and resized: nothing panics, and what changed on the screen is what a new drawing shows.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hermes_tui::{Editor, Painter, ResizeBehavior, ScreenInput};
use hermes_types::{Danger, Delta, TurnEvent, UserQuestion};
use proptest::prelude::*;

use crate::terminal::TestTerminal;

#[derive(Debug, Clone)]
enum Step {
    Key(KeyEvent),
    Paste(String),
    Text(String),
    Restart,
    Segment,
    Begin,
    Finish,
    Tool(String),
    Ask,
    Attach,
    Reasoning(String),
    Background(String),
    BackgroundEnd,
    ListAgents,
    Pass(u64),
    Resize(u16, u16),
}

fn key() -> impl Strategy<Value = KeyEvent> {
    let code = prop_oneof![
        6 => prop::sample::select(vec!['a', 'Z', ' ', '/', '@', '\\', '日', 'é', '\u{301}', '👩', '\u{200d}', 'ש']).prop_map(KeyCode::Char),
        3 => prop::sample::select(vec!['a', 'b', 'd', 'e', 'f', 'g', 'h', 'j', 'k', 'n', 'o', 'p', 'r', 't', 'u', 'w', 'x', 'y', '_']).prop_map(KeyCode::Char),
        4 => prop::sample::select(vec![
            KeyCode::Enter, KeyCode::Tab, KeyCode::Esc, KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right,
            KeyCode::Home, KeyCode::End, KeyCode::Backspace, KeyCode::Delete, KeyCode::PageUp, KeyCode::PageDown,
        ]),
    ];
    let modifiers = prop::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
        KeyModifiers::SHIFT,
    ]);
    (code, modifiers).prop_map(|(code, modifiers)| KeyEvent::new(code, modifiers))
}

fn step() -> impl Strategy<Value = Step> {
    let words = prop::sample::select(vec![
        "word ",
        "\n",
        "\n\n",
        "- item\n",
        "1. one\n",
        "```rust\n",
        "```\n",
        "| a | b |\n",
        "|---|---|\n",
        "> q\n",
        "**b",
        "`",
        "# h\n",
        "日本語",
        "\u{1b}[2J",
        "[x](y)",
        "    code\n",
        "---\n",
        "<div>\n",
        "very-long-word-without-any-blank-in-it-at-all ",
    ]);
    let text = prop::collection::vec(words, 1..6).prop_map(|words| words.concat());
    prop_oneof![
        10 => key().prop_map(Step::Key),
        1 => text.clone().prop_map(Step::Paste),
        8 => text.clone().prop_map(Step::Text),
        1 => Just(Step::Restart),
        1 => Just(Step::Segment),
        1 => Just(Step::Begin),
        1 => Just(Step::Finish),
        1 => text.prop_map(Step::Tool),
        1 => Just(Step::Ask),
        1 => Just(Step::Attach),
        1 => prop::sample::select(vec!["hm\n", "日本 ", "\u{1b}[2J"]).prop_map(|text| Step::Reasoning(text.to_owned())),
        1 => prop::sample::select(vec!["a", "b", "👩"]).prop_map(|label| Step::Background(label.to_owned())),
        1 => Just(Step::BackgroundEnd),
        1 => Just(Step::ListAgents),
        2 => (0..2_000_u64).prop_map(Step::Pass),
        2 => (2..120_u16, 1..40_u16).prop_map(|(width, height)| Step::Resize(width, height)),
    ]
}

fn apply(terminal: &mut TestTerminal, step: Step) {
    match step {
        Step::Key(key) => terminal.input(ScreenInput::Key(key)),
        Step::Paste(text) => terminal.input(ScreenInput::Paste(text)),
        Step::Text(text) => terminal.text(&text),
        Step::Restart => terminal.turn(TurnEvent::Delta(Delta::Restart)),
        Step::Segment => terminal.turn(TurnEvent::SegmentEnded),
        Step::Begin => terminal.begin_turn(),
        Step::Finish => terminal.input(ScreenInput::TurnFinished(Some("The end.".into()))),
        Step::Tool(text) => terminal.tool("terminal", &text, 10, &text),
        Step::Ask => {
            let danger = Danger { key: "k".into(), reason: "a reason".into() };
            let question = UserQuestion::Approve { command: "rm -rf x".into(), danger };
            terminal.input(ScreenInput::Ask { id: 1, question, time_limit: None });
        }
        Step::Attach => terminal.input(ScreenInput::Attach("/tmp/a.png".into())),
        Step::Reasoning(text) => terminal.turn(TurnEvent::Delta(Delta::Reasoning(text))),
        Step::Background(label) => {
            let event =
                TurnEvent::Child { label, event: Box::new(TurnEvent::Delta(Delta::Text("x".into()))) };
            terminal.input(ScreenInput::Background { label: "bg".into(), event });
        }
        Step::BackgroundEnd => {
            let event = TurnEvent::TurnEnded { session: hermes_types::SessionId::new("b") };
            terminal.input(ScreenInput::Background { label: "bg".into(), event });
        }
        Step::ListAgents => terminal.input(ScreenInput::ListAgents),
        Step::Pass(time) => terminal.pass(time),
        Step::Resize(width, height) => terminal.resize(width, height),
    }
}

/// Draws the block alone on an empty terminal.
fn redrawn(terminal: &TestTerminal) -> Vec<String> {
    let (height, width) = terminal.parser.screen().size();
    let mut painter = Painter::new(Vec::new(), width, height, ResizeBehavior::Cuts);
    painter.paint(&[], &terminal.state.view(terminal.now)).unwrap();
    let mut parser = vt100::Parser::new(height, width, 0);
    parser.process(painter.output_mut());
    let rows: Vec<String> = parser
        .screen()
        .rows_formatted(0, width)
        .map(|row| String::from_utf8_lossy(&row).into_owned())
        .collect();
    let count = terminal.state.view(terminal.now).rows.len();
    rows.into_iter().take(count).collect()
}

/// Returns the rows of the terminal that the block takes, by the place of the cursor in it.
fn shown(terminal: &TestTerminal) -> Option<Vec<String>> {
    let view = terminal.state.view(terminal.now);
    let cursor = view.cursor?;
    let screen = terminal.parser.screen();
    let (_, width) = screen.size();
    let from = usize::from(screen.cursor_position().0).checked_sub(cursor.0)?;
    let rows = screen.rows_formatted(0, width).map(|row| String::from_utf8_lossy(&row).into_owned());
    Some(rows.skip(from).take(view.rows.len()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_is_shown_is_what_a_new_drawing_shows(steps in prop::collection::vec(step(), 1..60)) {
        let mut terminal = TestTerminal::new(80, 24);
        for step in steps {
            apply(&mut terminal, step.clone());
            let view = terminal.state.view(terminal.now);
            let (height, width) = terminal.parser.screen().size();
            prop_assert!(view.rows.len() <= usize::from(height));
            if let Some(shown) = shown(&terminal).filter(|_| width > 1) {
                prop_assert_eq!(shown, redrawn(&terminal), "after {:?}", step);
            }
        }
    }

    #[test]
    fn text_and_cursor_stay_whole(keys in prop::collection::vec(key(), 1..80)) {
        let mut editor = Editor::default();
        for key in keys {
            let before = editor.buffer().text().to_owned();
            editor.key(key);
            let buffer = editor.buffer();
            prop_assert_eq!(format!("{}{}", buffer.before(), buffer.after()), buffer.text());
            // Typing inserts what was typed, and nothing else.
            if let (KeyCode::Char(c), true) = (key.code, key.modifiers.is_empty()) {
                prop_assert_eq!(buffer.text().len(), before.len() + c.len_utf8());
            }
        }
    }

    #[test]
    fn a_model_of_typing_and_erasing(keys in prop::collection::vec(prop_oneof![
        4 => prop::sample::select(vec!['a', 'b', ' ', '日']).prop_map(Some), 1 => Just(None)], 0..60)) {
        let (mut editor, mut model) = (Editor::default(), String::new());
        for key in keys {
            let code = key.map_or(KeyCode::Backspace, KeyCode::Char);
            editor.key(KeyEvent::new(code, KeyModifiers::NONE));
            if key.is_none() { model.pop(); }
            model.extend(key);
            prop_assert_eq!(editor.buffer().text(), &model);
        }
    }
}
