//! The editor: keys in, text out.

use hermes_tui::{BusyInputMode, CompletionItem, Operation, ScreenEffect, ScreenInput};

use crate::terminal::{TestTerminal, setup};

fn check(keys: &str, text: &str) {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.keys(keys);
    assert_eq!(terminal.typed(), text, "{keys}");
}

#[test]
fn keys_edit_the_text() {
    for (keys, text) in [
        ("hello", "hello"),
        ("hello<C-a>X", "Xhello"),
        ("hello<Home>X<End>Y", "XhelloY"),
        ("one two<C-w>", "one "),
        ("one-two<A-BS>", "one-"),
        ("one two<A-b><A-b><A-d>", " two"),
        ("one two<C-u>", ""),
        ("one two<C-a><C-k>x<C-y>", "xone two"),
        ("one two three<C-w><C-w><C-y>", "one two three"),
        ("one<C-u>two<C-u><C-y><A-y>", "one"),
        ("ab<C-t>", "ba"),
        ("abc<Left><C-t>", "acb"),
        ("abc<C-b><C-b>X<C-f>Y", "aXbYc"),
        ("abc<BS><BS>", "a"),
        ("abc<C-a><Del><C-d>", "c"),
        ("one<A-Enter>two", "one\ntwo"),
        ("one<C-j>two<Up>X<Down>Y", "oneX\ntwoY"),
        ("one<S-Enter>two", "one\ntwo"),
        ("one\\<Enter>two", "one\ntwo"),
        ("one<C-j>two<C-a><C-k><C-k>", "one\n"),
        ("one two<C-_>", "one "),
        ("one two<C-_><C-_><A-_>", "one "),
        ("👩‍👩‍👧x<BS><BS>y", "y"),
        ("日本<Left>x", "日x本"),
        ("e\u{301}<BS>", ""),
        ("שלום<C-a>x", "xשלום"),
        ("<Up>", "another question"),
        ("<Up><Up>", "earlier question"),
        ("draft<Up><Down>", "draft"),
        ("<C-r>earl<Enter>", "earlier question"),
        ("<C-r>question<C-r><Enter>!", "earlier question!"),
        ("x<C-r>earl<Esc>", "x"),
        ("ear<Tab>", "earlier question"),
        ("ear<Right>", "earlier question"),
        ("text<C-c>", ""),
    ] {
        check(keys, text);
    }
}

#[test]
fn what_is_sent_is_what_was_typed() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.keys("hello<Enter>");
    let operations = terminal.operations();
    assert!(matches!(&operations[..], [Operation::Submit(text)] if text.text == "hello"), "{operations:?}");
    terminal.keys("/skin mono<Enter>   <Enter>");
    assert_eq!(terminal.operations(), [Operation::Command("/skin mono".into())]);
    terminal.keys("/etc/passwd is what?<Enter>");
    assert!(matches!(&terminal.operations()[..], [Operation::Submit(_)]), "a path is no command");
}

#[test]
fn a_long_paste_is_one_label_and_is_sent_whole() {
    let mut terminal = TestTerminal::new(80, 24);
    let paste = "one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix";
    terminal.keys("look: ");
    terminal.input(ScreenInput::Paste(paste.into()));
    terminal.keys(" ok");
    assert!(terminal.screen().contains("look: [Pasted text #1: 6 lines] ok"), "{}", terminal.screen());
    terminal.keys("<BS><BS><BS><BS>");
    assert_eq!(terminal.typed(), "look: ", "the label is removed whole");
    terminal.input(ScreenInput::Paste(paste.into()));
    terminal.keys("<Enter>");
    let operations = terminal.operations();
    let [Operation::Submit(text)] = &operations[..] else { panic!("{operations:?}") };
    assert_eq!(text.text, "look: one\ntwo\nthree\nfour\nfive\nsix");
    assert_eq!(text.pastes.len(), 1);
}

#[test]
fn a_pasted_line_break_does_not_send() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.input(ScreenInput::Paste("one\ntwo\n".into()));
    assert_eq!(terminal.operations(), []);
    assert_eq!(terminal.typed(), "one\ntwo\n");
}

#[test]
fn the_menu_completes_commands_and_references() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.keys("/h");
    insta::assert_snapshot!("menu_of_commands", terminal.screen());
    terminal.keys("<Down><Tab>");
    assert_eq!(terminal.typed(), "/history ");
    terminal.keys("<C-u>/skin m<Tab>");
    assert_eq!(terminal.typed(), "/skin mono");
    terminal.keys("<C-u>see @ma");
    assert!(terminal.effects.contains(&ScreenEffect::Complete("@ma".into())));
    let item = |path: &str| CompletionItem {
        insert: format!("@file:{path}"),
        label: path.into(),
        detail: "1.2K".into(),
    };
    let items = vec![item("docs/image.png"), item("src/main.rs"), item("LICENSE")];
    terminal.input(ScreenInput::Candidates { word: "@ma".into(), items });
    insta::assert_snapshot!("menu_of_files", terminal.screen());
    terminal.keys("<Tab>");
    assert_eq!(terminal.typed(), "see @file:src/main.rs");
}

#[test]
fn interrupting_and_leaving() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.keys("<C-c>");
    assert_eq!(terminal.operations(), []);
    terminal.keys("<C-c>");
    assert_eq!(terminal.operations(), [Operation::Quit]);
    terminal.keys("<C-d>");
    assert_eq!(terminal.operations(), [Operation::Quit]);
    terminal.begin_turn();
    terminal.keys("<Esc>");
    assert_eq!(terminal.operations(), [Operation::Interrupt]);
    terminal.keys("<C-c>");
    assert_eq!(terminal.operations(), [Operation::ForceQuit]);
    terminal.pass(3_000);
    terminal.keys("<C-c>");
    assert_eq!(terminal.operations(), [Operation::Interrupt]);
}

#[test]
fn typing_while_a_turn_runs() {
    for (mode, expected) in [
        (BusyInputMode::Interrupt, vec!["Queue", "Interrupt"]),
        (BusyInputMode::Queue, vec!["Queue"]),
        (BusyInputMode::Steer, vec!["Steer"]),
    ] {
        let mut terminal = TestTerminal::with(hermes_tui::ScreenSetup { busy_input: mode, ..setup(80, 24) });
        terminal.begin_turn();
        terminal.keys("and this<Enter>");
        let names: Vec<&str> = terminal
            .operations()
            .iter()
            .map(|operation| match operation {
                Operation::Queue(_) => "Queue",
                Operation::Steer(_) => "Steer",
                Operation::Interrupt => "Interrupt",
                _ => "other",
            })
            .collect();
        assert_eq!(names, expected, "{mode:?}");
        terminal.keys("/help<Enter>");
        assert_eq!(terminal.operations(), [Operation::Command("/help".into())]);
    }
}

#[test]
fn a_queued_message_is_shown_once_its_turn_begins() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.begin_turn();
    terminal.keys("and this<Enter>");
    assert!(terminal.screen().contains("📨 Queued: and this"), "{}", terminal.screen());
    terminal.input(ScreenInput::TurnFinished(None));
    terminal.begin_turn();
    let screen = terminal.screen();
    assert!(screen.contains("● and this") && !screen.contains("Queued"), "{screen}");
}

#[test]
fn an_external_editor_gets_the_text_and_gives_it_back() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.keys("draft<C-x><C-e>");
    assert!(terminal.effects.contains(&ScreenEffect::Edit("draft".into())));
    terminal.input(ScreenInput::Edited(Some("better\n".into())));
    assert_eq!(terminal.typed(), "better");
}
