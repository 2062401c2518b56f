//! The screen of a chat in a terminal: what a person types, and what the terminal shows then.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use hermes_testkit::{ModelScript, ModelServer, TempHome};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};

use super::attended::terminal;

const LOOK: Duration = Duration::from_millis(5);
const MOST_LOOKS: u32 = 6_000;

/// A terminal that shows the program, as an emulator sees it.
pub(super) struct EmulatedTerminal {
    pub(super) server: ModelServer,
    pub(super) home: TempHome,
    pub(super) folder: tempfile::TempDir,
    pub(super) child: Child,
    ours: File,
    /// Kept open so that the terminal's modes can be asked for after the program ended.
    theirs: std::os::fd::OwnedFd,
    parser: vt100::Parser,
    /// Everything that the program wrote.
    pub(super) written: Vec<u8>,
    /// What the terminal answers about its attributes.
    pub(super) attributes: &'static str,
}

impl EmulatedTerminal {
    pub(super) fn open(script: &str, more: &Value) -> Self {
        Self::open_with(script, more, &["chat"], (24, 80), "xterm-256color")
    }

    /// Opens a chat in a home that is changed first.
    pub(super) fn prepared(script: &str, more: &Value, prepare: impl FnOnce(&TempHome)) -> Self {
        Self::start(script, more, &["chat"], ((24, 80), "xterm-256color"), prepare)
    }

    pub(super) fn open_with(
        script: &str,
        more: &Value,
        arguments: &[&str],
        size: (u16, u16),
        term: &str,
    ) -> Self {
        Self::start(script, more, arguments, (size, term), |_| {})
    }

    fn start(
        script: &str,
        more: &Value,
        arguments: &[&str],
        (size, term): ((u16, u16), &str),
        prepare: impl FnOnce(&TempHome),
    ) -> Self {
        let server = ModelServer::start_blocking(ModelScript::from_yaml("screen", script).unwrap()).unwrap();
        let mut config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
        prepare(&home);
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = terminal();
        let (child, ours) = start(&home, &folder, arguments, (ours, &theirs), size, term);
        let parser = vt100::Parser::new(size.0, size.1, 10_000);
        let (written, attributes) = (Vec::new(), "\x1b[?62c");
        Self { server, home, folder, child, ours, theirs, parser, written, attributes }
    }

    /// Starts the program again in a new terminal with the same home.
    pub(super) fn start_again(&mut self, arguments: &[&str]) {
        let (ours, theirs) = terminal();
        let size = self.parser.screen().size();
        let (child, ours) =
            start(&self.home, &self.folder, arguments, (ours, &theirs), size, "xterm-256color");
        (self.child, self.ours, self.theirs) = (child, ours, theirs);
        self.parser = vt100::Parser::new(size.0, size.1, 10_000);
    }

    pub(super) fn look(&mut self) {
        let mut buffer = [0; 16_384];
        while let Ok(count) = self.ours.read(&mut buffer) {
            if count == 0 {
                break;
            }
            self.parser.process(&buffer[..count]);
            self.written.extend_from_slice(&buffer[..count]);
            // The terminal says what its background is, and which terminal it is.
            if buffer[..count].windows(4).any(|bytes| bytes == b"]11;") {
                let answer = format!("\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\{}", self.attributes);
                self.ours.write_all(answer.as_bytes()).unwrap();
            }
        }
    }

    /// Returns everything that was shown: the scrollback and the screen.
    pub(super) fn text(&mut self) -> String {
        self.look();
        let (_, columns) = self.parser.screen().size();
        let screen = self.parser.screen_mut();
        let mut shown = Vec::new();
        screen.set_scrollback(usize::MAX);
        let rows_above = screen.scrollback();
        for above in (1..=rows_above).rev() {
            screen.set_scrollback(above);
            shown.extend(screen.rows(0, columns).next());
        }
        screen.set_scrollback(0);
        shown.push(screen.contents());
        shown.join("\n")
    }

    /// Returns the visible part.
    pub(super) fn visible(&mut self) -> String {
        self.look();
        self.parser.screen().contents()
    }

    #[track_caller]
    pub(super) fn until(&mut self, what: &str, mut is_so: impl FnMut(&str) -> bool) {
        for _ in 0..MOST_LOOKS {
            let visible = self.visible();
            if is_so(&visible) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        panic!("{what}: {}", self.text());
    }

    /// Waits until the program has written this, whatever the terminal makes of it.
    #[track_caller]
    pub(super) fn until_written(&mut self, sign: &str) {
        for _ in 0..MOST_LOOKS {
            self.look();
            if self.written.windows(sign.len()).any(|bytes| bytes == sign.as_bytes()) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        panic!("{sign:?} was not written");
    }

    #[track_caller]
    pub(super) fn until_shown(&mut self, words: &str) {
        self.until(&format!("{words:?} is not shown"), |visible| visible.contains(words));
    }

    #[track_caller]
    pub(super) fn until_ready(&mut self) {
        self.until_shown("Ask anything");
    }

    pub(super) fn press(&mut self, keys: &str) {
        let mut bytes = keys.as_bytes();
        while !bytes.is_empty() {
            match self.ours.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.look();
                    std::thread::sleep(LOOK);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Presses keys until something is shown: a dialog takes no key in its first moment.
    #[track_caller]
    pub(super) fn press_until_shown(&mut self, keys: &str, words: &str) {
        for _ in 0..MOST_LOOKS / 40 {
            self.press(keys);
            for _ in 0..40 {
                if self.visible().contains(words) {
                    return;
                }
                std::thread::sleep(LOOK);
            }
        }
        panic!("{words:?} is not shown: {}", self.text());
    }

    pub(super) fn say(&mut self, text: &str) {
        self.press(text);
        self.press("\r");
    }

    pub(super) fn resize(&mut self, rows: u16, columns: u16) {
        self.parser.screen_mut().set_size(rows, columns);
        set_size(&self.ours, rows, columns);
        kill_process(Pid::from_child(&self.child), Signal::WINCH).unwrap();
    }

    #[track_caller]
    pub(super) fn end(&mut self) -> ExitStatus {
        for _ in 0..MOST_LOOKS {
            self.look();
            if let Some(status) = self.child.try_wait().unwrap() {
                self.look();
                return status;
            }
            std::thread::sleep(LOOK);
        }
        panic!("it does not end: {}", self.text());
    }

    /// Checks that the terminal is as it was before the program.
    #[track_caller]
    pub(super) fn assert_restored(&self) {
        let modes = tcgetattr(&self.theirs).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        assert!(!self.parser.screen().hide_cursor(), "the cursor is hidden");
        assert!(!self.parser.screen().bracketed_paste(), "pastes are still marked");
    }
}

impl Drop for EmulatedTerminal {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
fn start(
    home: &TempHome,
    folder: &tempfile::TempDir,
    arguments: &[&str],
    (ours, theirs): (std::os::fd::OwnedFd, &std::os::fd::OwnedFd),
    (rows, columns): (u16, u16),
    term: &str,
) -> (Child, File) {
    let ours = File::from(ours);
    set_size(&ours, rows, columns);
    let child = Command::new("/usr/bin/setsid")
        .args(["--ctty", env!("CARGO_BIN_EXE_hermes")])
        .args(arguments)
        .current_dir(folder.path())
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", home.path().join("user"))
        // Stand-ins for programs come first.
        .env("PATH", format!("{}:/usr/bin:/bin", home.path().join("user/bin").display()))
        .env("TERM", term)
        .env("TZ", "UTC")
        .stdin(Stdio::from(theirs.try_clone().unwrap()))
        .stdout(Stdio::from(theirs.try_clone().unwrap()))
        .stderr(Stdio::from(theirs.try_clone().unwrap()))
        .spawn()
        .unwrap();
    (child, ours)
}

fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

const TALK: &str = r"
replies:
  - {when: {user_contains: hello}, text: '**good** day'}
  - {when: {user_contains: again}, text: 'once more'}
default: {reply: {text: a title}}
";

#[test]
fn a_person_types_completes_and_leaves() {
    let mut terminal = EmulatedTerminal::open(TALK, &json!({}));
    terminal.until_ready();
    terminal.press("/sta");
    terminal.until_shown("show this session");
    terminal.press("\t");
    terminal.until_shown("/status");
    terminal.press("\x15");
    terminal.until_ready();
    terminal.say("hello there");
    terminal.until_shown("good day");
    terminal.until_ready();
    terminal.say("/status");
    terminal.until_shown("Session:");
    terminal.until_ready();
    // The last input comes back with the arrow, also one of an earlier run.
    terminal.press("\x1b[A\x1b[A");
    terminal.until_shown("❯ hello there");
    terminal.press("\x15");
    terminal.until_ready();
    terminal.say("/quit");
    assert_eq!(terminal.end().code(), Some(0), "{}", terminal.text());
    terminal.assert_restored();
    let text = terminal.text();
    assert!(text.contains("● hello there") && text.contains("Resume this session with:"), "{text}");
    assert!(!text.contains("Ask anything"), "the block is gone: {text}");
    assert!(terminal.home.read(".hermes_history").contains("\n+hello there\n"));

    terminal.start_again(&["-c"]);
    terminal.until_shown("Resumed session");
    terminal.until_ready();
    terminal.press("\x1b[A\x1b[A\x1b[A");
    terminal.until_shown("❯ hello there");
    terminal.press("\x15\x04");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.assert_restored();
}

#[test]
fn a_long_paste_is_folded_and_sent_whole() {
    let script = "replies:\n  - {text: all of it}\ndefault: {reply: {text: a title}}\n";
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    terminal.until_ready();
    let lines: Vec<String> = (0..5_000).map(|at| format!("line {at} of the paste\n")).collect();
    let pasted = lines.concat();
    terminal.press("look: ");
    terminal.press(&format!("\x1b[200~{}\x1b[201~", pasted.replace('\n', "\r")));
    terminal.until_shown("[Pasted text");
    terminal.press("\r");
    terminal.until_shown("all of it");
    let sent = terminal.server.request(0).last_user_text().unwrap();
    assert!(sent.starts_with("look: line 0 of the paste\n") && sent.contains("line 4999 of the paste"));
    assert!(!terminal.text().contains("line 2500"), "the paste is not shown");
}

#[test]
fn approvals_are_asked_on_the_screen() {
    let script = r#"
replies:
  - {tool: {name: terminal, arguments: {command: "rm -rf ./made; echo gone"}}}
  - {text: it is gone}
  - when: {user_contains: and now}
    tool: {name: clarify, arguments: {question: Which one?, choices: [red, blue]}}
  - {when: {tool_result_contains: blue}, text: then blue}
default: {reply: {text: a title}}
"#;
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    std::fs::create_dir(terminal.folder.path().join("made")).unwrap();
    terminal.until_ready();
    terminal.say("begin");
    terminal.until_shown("Dangerous Command");
    assert!(terminal.visible().contains("rm -rf ./made"));
    terminal.press_until_shown("\r", "it is gone");
    assert!(!terminal.folder.path().join("made").exists());
    terminal.until_ready();
    terminal.say("and now");
    terminal.until_shown("Which one?");
    terminal.press_until_shown("\x1b[B", "❯ [2]");
    terminal.press_until_shown("\r", "then blue");
}

const STREAM: &str = r#"
replies:
  - events: [{text: "first part\n"}, {wait: middle}, {text: "second part\n\nand the end"}]
  - {text: another answer}
default: {reply: {text: a title}}
"#;

#[test]
fn the_size_may_change_while_an_answer_streams() {
    let mut terminal = EmulatedTerminal::open(STREAM, &json!({}));
    terminal.until_ready();
    terminal.say("begin");
    terminal.server.wait_until_at_blocking("middle", 1);
    terminal.until_shown("first part");
    for (rows, columns) in [(15, 44), (60, 200), (10, 20), (24, 80)] {
        terminal.resize(rows, columns);
        terminal.until_shown("❯");
    }
    terminal.server.release("middle");
    terminal.until_shown("and the end");
    terminal.until_ready();
    let text = terminal.text();
    assert_eq!(text.matches("second part").count(), 1, "{text}");
}

#[test]
fn a_message_typed_meanwhile_interrupts_and_is_next() {
    let mut terminal = EmulatedTerminal::open(STREAM, &json!({}));
    terminal.until_ready();
    terminal.say("begin");
    terminal.server.wait_until_at_blocking("middle", 1);
    terminal.say("rather this");
    terminal.until_shown("another answer");
    let sent = terminal.server.request(1).last_user_text().unwrap();
    assert!(sent.contains("rather this"), "{sent}");
}

#[test]
fn a_remark_reaches_the_running_turn() {
    let script = r#"
replies:
  - events: [{wait: before}, {tool: {name: terminal, arguments: {command: "echo made"}}}]
  - {when: {user_contains: in blue}, text: blue it is}
default: {reply: {text: a title}}
"#;
    for (mode, words) in [("steer", "in blue please"), ("interrupt", "/steer in blue please")] {
        let mut terminal = EmulatedTerminal::open(script, &json!({"display": {"busy_input_mode": mode}}));
        terminal.until_ready();
        terminal.say("paint it");
        terminal.server.wait_until_at_blocking("before", 1);
        terminal.say(words);
        terminal.until("the input is not empty", |visible| !visible.contains("❯ in blue"));
        terminal.server.release("before");
        terminal.until_shown("blue it is");
        let sent = terminal.server.request(1).body_text().into_owned();
        assert!(sent.contains("in blue please") && sent.contains("made"), "{sent}");
    }
}

#[test]
fn ctrl_c_stops_the_turn_and_then_the_program() {
    let mut terminal = EmulatedTerminal::open(STREAM, &json!({}));
    terminal.until_ready();
    terminal.say("begin");
    terminal.until_shown("first part");
    terminal.press("\x03");
    terminal.until_ready();
    terminal.press("\x03");
    terminal.until_shown("again to quit");
    terminal.press("\x03");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.assert_restored();
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut terminal = EmulatedTerminal::open(STREAM, &json!({}));
        terminal.until_ready();
        terminal.say("begin");
        terminal.server.wait_until_at_blocking("middle", 1);
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        assert_eq!(terminal.end().code(), Some(code), "{}", terminal.text());
        terminal.assert_restored();
    }
}

#[test]
fn a_kill_gives_the_terminal_back() {
    let mut terminal = EmulatedTerminal::open(STREAM, &json!({}));
    terminal.until_ready();
    terminal.say("begin");
    terminal.server.wait_until_at_blocking("middle", 1);
    assert!(terminal.parser.screen().bracketed_paste());
    kill_process(Pid::from_child(&terminal.child), Signal::KILL).unwrap();
    terminal.end();
    for _ in 0..MOST_LOOKS {
        terminal.look();
        if !terminal.parser.screen().bracketed_paste() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    terminal.assert_restored();
}

const GOAL: &str = r"
replies:
  - {when: {user_contains: End of the last answer}, text: 'CONTINUE: one room is missing'}
  - {when: {user_contains: End of the last answer}, text: 'DONE: every room is counted'}
  - {when: {user_contains: one room is missing}, text: 'the fourth room'}
  - {when: {user_contains: count the rooms}, text: 'three rooms'}
default: {reply: {text: a title}}
";

#[test]
fn a_goal_is_worked_on_turn_after_turn() {
    let mut terminal = EmulatedTerminal::open(GOAL, &json!({}));
    terminal.until_ready();
    terminal.say("/goal");
    terminal.until_shown("This conversation has no goal.");
    terminal.until_ready();
    terminal.say("/goal count the rooms");
    terminal.until_shown("Turn 1 of 20 for the goal");
    terminal.until_shown("three rooms");
    terminal.until_shown("Turn 2 of 20 for the goal");
    terminal.until_shown("the fourth room");
    terminal.until_shown("Goal reached: every room is counted");
    terminal.until_ready();
    terminal.say("/quit");
    terminal.end();
    terminal.assert_restored();
}

#[test]
fn commands_of_the_screen_change_it() {
    let mut terminal = EmulatedTerminal::open(TALK, &json!({}));
    terminal.until_ready();
    terminal.say("/skin ares");
    terminal.until_shown("Skin: ares");
    terminal.until_shown("⚔ ❯");
    assert!(terminal.home.read("config.yaml").contains("skin: ares"));
    terminal.say("/skin no-such-skin");
    terminal.until_shown("There is no skin 'no-such-skin'");
    terminal.say("/statusbar");
    terminal.until("the status bar is shown", |visible| !visible.contains("⚕ test-model"));
    terminal.say("/sb");
    terminal.until_shown("⚕ test-model");
    terminal.say("hello");
    terminal.until_shown("good day");
    terminal.say("/background say it again");
    terminal.until_shown("Background task #1 complete");
    terminal.until_shown("once more");
    terminal.say("/new");
    terminal.until_shown("New session started");
    terminal.say("/resume");
    terminal.until_shown("Sessions");
    terminal.press_until_shown("\x1b", "Ask anything");
    terminal.say("/clear");
    terminal.until("the screen is not cleared", |visible| !visible.contains("good day"));
}

#[test]
fn a_plain_terminal_and_the_flag_have_lines() {
    for (term, arguments) in [("dumb", &["chat"][..]), ("xterm", &["chat", "--cli"])] {
        let mut terminal = EmulatedTerminal::open_with(TALK, &json!({}), arguments, (24, 80), term);
        terminal.until_shown("❯");
        terminal.say("hello");
        terminal.until_shown("**good** day");
        assert!(!terminal.text().contains("ctx --"), "there is no status bar");
        terminal.say("/quit");
        assert_eq!(terminal.end().code(), Some(0));
        terminal.assert_restored();
    }
}

#[test]
fn setup_ends_in_a_first_answer() {
    let script = "replies:\n  - {when: {user_contains: hello}, text: set up and ready}\ndefault: {reply: {text: a title}}\n";
    let mut terminal =
        EmulatedTerminal::open_with(script, &json!({}), &["setup"], (60, 100), "xterm-256color");
    std::fs::remove_file(terminal.home.config_yaml()).unwrap();
    terminal.child.kill().unwrap();
    terminal.child.wait().unwrap();
    terminal.start_again(&["setup"]);
    terminal.until_shown("Who serves the model?");
    terminal.press_until_shown("\x1b[B", "❯ An endpoint of your own");
    terminal.press("\r");
    terminal.until_shown("Key of");
    terminal.say("sk-typed-and-never-shown");
    terminal.until_shown("Address of the endpoint");
    let url = terminal.server.base_url();
    terminal.say(&url);
    terminal.until("no model is asked for", |visible| {
        visible.contains("Which model?") || visible.contains("Model: ") || visible.contains("Model [")
    });
    if terminal.visible().contains("Which model?") {
        terminal.press("\r");
    } else {
        terminal.say("test-model");
    }
    terminal.until_shown("Where do commands run?");
    terminal.press("\r");
    terminal.until_shown("Model calls per turn at most");
    terminal.say("");
    terminal.until_shown("What is shown of tool calls?");
    terminal.press("\r");
    terminal.until_shown("When does a chat begin a new session?");
    terminal.press("\r");
    terminal.until_shown("Set up chats");
    terminal.say("n");
    terminal.until_shown("Start a chat now?");
    terminal.say("");
    terminal.until_ready();
    terminal.say("hello");
    terminal.until_shown("set up and ready");
    assert!(!terminal.text().contains("never-shown"), "the key is on the screen");
    assert!(terminal.home.read(".env").contains("OPENAI_API_KEY=sk-typed-and-never-shown"));
    terminal.say("/quit");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.assert_restored();
}

#[test]
fn setup_that_is_left_half_way_writes_nothing() {
    let mut terminal =
        EmulatedTerminal::open_with(TALK, &json!({}), &["setup", "model"], (60, 100), "xterm-256color");
    let before = terminal.home.read("config.yaml");
    terminal.until_shown("Who serves the model?");
    terminal.press_until_shown("\x1b[B", "❯ OpenAI\n");
    terminal.press("\r");
    terminal.until_shown("Key of");
    terminal.press("sk-half\x03");
    assert_eq!(terminal.end().code(), Some(1), "{}", terminal.text());
    terminal.assert_restored();
    assert_eq!(terminal.home.read("config.yaml"), before);
    assert!(!terminal.home.env_file().exists() || !terminal.home.read(".env").contains("sk-half"));
}

#[test]
fn a_session_is_picked_and_resumed() {
    let mut terminal = EmulatedTerminal::open(TALK, &json!({}));
    terminal.until_ready();
    terminal.say("hello");
    terminal.until_shown("good day");
    terminal.until_ready();
    terminal.say("/quit");
    terminal.end();
    terminal.start_again(&["sessions", "browse"]);
    terminal.until_shown("Sessions");
    terminal.press_until_shown("\r", "Resumed session");
    terminal.until_ready();
}
