//! The painter: what is written, and what a terminal makes of it.

use hermes_tui::{ScreenFrame, ScreenInput};

use crate::terminal::TestTerminal;

#[test]
fn a_key_writes_little() {
    let mut terminal = TestTerminal::new(80, 24);
    terminal.keys("hello");
    terminal.bytes = 0;
    terminal.keys("x");
    assert!(terminal.bytes < 80, "{} bytes", terminal.bytes);
    terminal.bytes = 0;
    terminal.input(ScreenInput::Tick);
    assert_eq!(terminal.bytes, 0, "nothing changed");
}

#[test]
fn a_smaller_block_leaves_nothing_behind() {
    let mut terminal = TestTerminal::new(80, 24);
    let before = terminal.screen();
    terminal.keys("/h");
    terminal.keys("<C-u>");
    assert_eq!(terminal.screen(), before);
    terminal.keys("one<C-j>two<C-j>three<C-u><BS><C-u><BS><C-u>");
    assert_eq!(terminal.screen(), before);
}

#[test]
fn resizing_leaves_one_block() {
    let mut terminal = TestTerminal::new(80, 24);
    for line in 0..40 {
        terminal.input(ScreenInput::Print(format!("line {line}")));
    }
    terminal.keys("some text that is being typed");
    for (width, height) in [(44, 15), (20, 6), (200, 60), (80, 24), (30, 24), (80, 3), (1, 1), (80, 24)] {
        terminal.resize(width, height);
        if width >= 20 && height >= 6 {
            let screen = terminal.screen();
            assert_eq!(screen.matches("⚕ claude").count(), 1, "{width}x{height}\n{screen}");
            assert_eq!(screen.matches("❯ some").count(), 1, "{width}x{height}\n{screen}");
        }
    }
}

#[test]
fn a_reflowed_block_is_found_again() {
    // What a terminal that reflows does with a block of three rows of 10, 30 and 10 columns at a width of 10.
    let mut painter = hermes_tui::Painter::new(Vec::new(), 40, 20, hermes_tui::ResizeBehavior::Reflows);
    let row = |text: String| hermes_tui::StyledLine::from(text);
    let frame = ScreenFrame {
        rows: vec![row("a".repeat(10)), row("b".repeat(30)), row("c".repeat(10))],
        cursor: Some((2, 3)),
    };
    painter.paint(&[], &frame).unwrap();
    painter.output_mut().clear();
    painter.resize(10, 20);
    painter.paint(&[], &ScreenFrame { rows: vec![row("x".into())], cursor: Some((0, 0)) }).unwrap();
    let written = String::from_utf8(painter.output_mut().clone()).unwrap();
    assert!(written.contains("\u{1b}[4A\r\u{1b}[J"), "{written:?}");
}

#[test]
fn a_character_of_disputed_width_leaves_nothing_behind() {
    let mut terminal = TestTerminal::new(40, 12);
    let before = terminal.screen();
    terminal.keys("👩\u{200d}👩a<BS><BS>");
    assert_eq!(terminal.screen(), before);
    terminal.keys("👩\u{200d}👩<Left>x");
    terminal.keys("<C-a><C-k>");
    assert_eq!(terminal.screen(), before);
}

#[test]
fn wide_characters_keep_their_places() {
    let mut terminal = TestTerminal::new(20, 12);
    terminal.keys("日本語日本語日本語日本語x");
    let screen = terminal.screen();
    assert!(screen.contains("❯ 日本語日本語日本語\n  日本語x"), "{screen}");
    terminal.keys("<C-a><Del>");
    assert!(terminal.screen().contains("❯ 本語日本語日本語日\n  本語x"), "{}", terminal.screen());
}

#[test]
fn a_row_made_for_a_wider_terminal_is_not_cut() {
    let mut state = hermes_tui::ScreenState::new(crate::terminal::setup(80, 24));
    let text = "word ".repeat(15);
    state.update(ScreenInput::Print(text.clone()), std::time::Duration::ZERO);
    state.update(ScreenInput::Resize { width: 30, height: 24 }, std::time::Duration::ZERO);
    let rows = state.take_finished();
    let shown: String = rows.iter().flat_map(|row| &row.spans).map(|span| span.content.as_ref()).collect();
    assert_eq!(shown.matches("word").count(), 15, "{shown}");
}

#[test]
fn a_row_that_becomes_shorter_leaves_no_blanks_behind() {
    // tmux counts cells that were erased one by one when it reflows a row.
    let mut painter = hermes_tui::Painter::new(Vec::new(), 80, 24, hermes_tui::ResizeBehavior::Reflows);
    let row = |text: &str| hermes_tui::StyledLine::from(text.to_owned());
    let frame = |first: &str| ScreenFrame { rows: vec![row(first), row("last")], cursor: Some((1, 0)) };
    painter.paint(&[], &frame(&"x".repeat(80))).unwrap();
    for (finished, next) in [(None, "short"), (Some(row("done")), "other")] {
        painter.output_mut().clear();
        painter.paint(finished.as_slice(), &frame(next)).unwrap();
        let written = String::from_utf8(painter.output_mut().clone()).unwrap();
        assert!(!written.contains("\u{1b}[K"), "{written:?}");
        let is_erased = written.contains("\u{1b}[2K") || written.contains("\u{1b}[J");
        assert!(is_erased, "{written:?}");
        painter.paint(&[], &frame(&"x".repeat(80))).unwrap();
    }
}

#[test]
fn sizes_that_follow_each_other_count_once() {
    let row = |text: String| hermes_tui::StyledLine::from(text);
    let frame = ScreenFrame {
        rows: vec![row("a".repeat(10)), row("b".repeat(30)), row("c".repeat(10))],
        cursor: Some((2, 3)),
    };
    let mut painter = hermes_tui::Painter::new(Vec::new(), 40, 20, hermes_tui::ResizeBehavior::Reflows);
    painter.paint(&[], &frame).unwrap();
    painter.output_mut().clear();
    for (width, height) in [(20, 20), (12, 20), (12, 18), (10, 20)] {
        painter.resize(width, height);
    }
    painter.paint(&[], &ScreenFrame { rows: vec![row("x".into())], cursor: Some((0, 0)) }).unwrap();
    let written = String::from_utf8(painter.output_mut().clone()).unwrap();
    assert!(written.contains("\u{1b}[4A\r\u{1b}[J"), "{written:?}");
}

#[test]
fn a_picture_has_rows_of_its_own_between_the_text_and_the_block() {
    let mut painter = hermes_tui::Painter::new(Vec::new(), 40, 12, hermes_tui::ResizeBehavior::Reflows);
    let row = |text: &str| hermes_tui::StyledLine::from(text.to_owned());
    let block = ScreenFrame { rows: vec![row("block"), row("status")], cursor: Some((0, 2)) };
    let display = hermes_tui::PictureDisplay {
        protocol: hermes_tui::PictureProtocol::Kitty,
        cell: (10, 20),
        window: (40, 12),
    };
    let pixels = hermes_tui::PicturePixels { width: 60, height: 60, rgba: vec![255; 60 * 60 * 4] };
    let picture = display.prepare(&pixels, |_| Some(b"png".to_vec())).unwrap();
    painter.paint(&[row("above")], &block).unwrap();
    painter.paint_picture(&picture).unwrap();
    painter.paint(&[], &block).unwrap();
    painter.paint(&[row("below")], &block).unwrap();
    let written = painter.output_mut().clone();
    let mut parser = vt100::Parser::new(12, 40, 0);
    parser.process(&written);
    assert_eq!(parser.screen().contents(), "above\n\n\n\nbelow\nblock\nstatus");
    assert_eq!(parser.screen().cursor_position(), (5, 2));
    let text = String::from_utf8(written).unwrap();
    assert!(text.contains("\u{1b}_Ga=T,f=100,q=2,C=1,c=6,r=3,m=0;cG5n\u{1b}\\"), "{text:?}");
}
