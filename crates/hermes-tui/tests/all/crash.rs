//! The terminal after the program around a screen has crashed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
fn a_panic_gives_the_terminal_back() {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let before = tcgetattr(&theirs).unwrap().local_modes;
    let demo = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join("demo");
    let mut child = Command::new(demo)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::from(theirs.try_clone().unwrap()))
        .stdout(Stdio::from(theirs.try_clone().unwrap()))
        .stderr(Stdio::from(theirs.try_clone().unwrap()))
        .spawn()
        .unwrap();
    let mut ours = File::from(ours);
    let (mut seen, mut answered, mut asked) = (String::new(), false, false);
    // A read returns what is there; the test's own limit ends one that never does.
    while !seen.contains("as you wish") {
        let mut buffer = [0; 4_096];
        let count = ours.read(&mut buffer).unwrap();
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        if !answered && seen.contains("\u{1b}[c") {
            answered = true;
            ours.write_all(b"\x1b[?62c").unwrap();
        }
        if !asked && seen.contains("Ask anything") {
            assert!(
                !tcgetattr(&theirs).unwrap().local_modes.contains(LocalModes::ICANON),
                "keys come singly"
            );
            asked = true;
            ours.write_all(b"/panic\r").unwrap();
        }
    }
    assert_ne!(child.wait().unwrap().code(), Some(0));
    assert_eq!(tcgetattr(&theirs).unwrap().local_modes, before, "the terminal's modes are what they were");
    let (_, after) = seen.rsplit_once("\u{1b}[?2004h").unwrap();
    let place = |sequence: &str| after.rfind(sequence).unwrap_or_else(|| panic!("{sequence:?} in {after:?}"));
    for sequence in ["\u{1b}[?25h", "\u{1b}[?7h", "\u{1b}[?2004l"] {
        assert!(place(sequence) < place("as you wish"), "{sequence:?} comes before the message: {after:?}");
    }
}
