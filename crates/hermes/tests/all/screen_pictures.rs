//! Pictures of answers on the screen, in terminals that can show them and in one that cannot.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hermes_testkit::TempHome;
use serde_json::{Value, json};

use super::screen::EmulatedTerminal;

/// Writes a picture of 40 by 40 red pixels. Its format is found by its content, not by its name.
fn write_picture(path: &Path) {
    let (side, row) = (40_u32, 120_u32);
    let mut bytes = b"BM".to_vec();
    for number in [54 + row * side, 0, 54, 40, side, side] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([1, 0, 24, 0]);
    bytes.extend([0; 24]);
    bytes.extend([0, 0, 255].repeat((side * side) as usize));
    std::fs::write(path, bytes).unwrap();
}

fn write_tmux(home: &TempHome, answer: &str) {
    let program = home.path().join("user/bin/tmux");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let text = format!(
        "#!/bin/sh\n[ \"$1 $2\" = 'display-message -p' ] && [ \"$TMUX\" = socket ] && echo '{answer}'\n"
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let env = home.path().join(".env");
    let text = std::fs::read_to_string(&env).unwrap_or_default();
    std::fs::write(&env, format!("{text}TMUX=socket\n")).unwrap();
}

/// Returns what the program wrote while it answered with the path of a picture.
fn written(term: &str, attributes: &'static str, display: &Value, sign: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("red.png");
    write_picture(&path);
    let script = format!(
        "replies:\n  - {{when: {{user_contains: draw}}, text: 'Here it is: {}'}}\ndefault: {{reply: {{text: a title}}}}\n",
        path.display()
    );
    let more = json!({"display": display});
    // Inside tmux, a stand-in for it says what it passes on.
    let mut terminal = match term.strip_prefix("tmux ") {
        Some(answer) => EmulatedTerminal::prepared(&script, &more, |home| write_tmux(home, answer)),
        None => EmulatedTerminal::open_with(&script, &more, &["chat"], (24, 80), term),
    };
    terminal.attributes = attributes;
    terminal.until_ready();
    terminal.say("draw");
    terminal.until_shown("Here it is");
    terminal.until_ready();
    if !sign.is_empty() {
        terminal.until_written(sign);
    }
    terminal.say("/quit");
    let _ = terminal.child.wait().unwrap();
    let shown = terminal.text();
    assert!(shown.contains("Here it is"), "{shown}");
    String::from_utf8_lossy(&terminal.written).into_owned()
}

#[test]
fn a_picture_is_drawn_in_the_way_of_the_terminal() {
    for (term, attributes, display, sign) in [
        ("xterm-kitty", "\x1b[?62c", json!({}), "\x1b_Ga=T,f=100,q=2,C=1,c=4,r=2,"),
        ("tmux 1 xterm-kitty", "\x1b[?62c", json!({}), "\x1bPtmux;\x1b\x1b_Ga=T,f=100,q=2,U=1,i="),
        ("foot", "\x1b[?62;4;22c", json!({}), "\x1bP0;1q\"1;1;40;40#"),
        (
            "xterm-256color",
            "\x1b[?62c",
            json!({"pictures": "iterm"}),
            "width=4;height=2;preserveAspectRatio=1:",
        ),
    ] {
        let written = written(term, attributes, &display, sign);
        assert_eq!(written.matches(sign).count(), 1, "{term}: {written:?}");
    }
}

#[test]
fn a_terminal_that_shows_no_pictures_gets_none() {
    for (term, attributes, display) in [
        ("xterm-256color", "\x1b[?62;22c", json!({})),
        ("xterm-kitty", "\x1b[?62;4c", json!({"pictures": "off"})),
        ("tmux 0 xterm-kitty", "\x1b[?62c", json!({})),
        ("tmux 1 xterm-256color", "\x1b[?62c", json!({})),
    ] {
        let written = written(term, attributes, &display, "");
        for sign in ["\x1b_G", "\x1bP", "]1337;"] {
            assert!(!written.contains(sign), "{term}: {sign:?}");
        }
    }
}
