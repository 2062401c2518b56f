//! One long evening at the screen, and the screen inside a multiplexer that reflows.

use std::process::Command;
use std::time::Duration;

use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::json;

use super::screen::EmulatedTerminal;

const EVENING: &str = r#"
replies:
  - {when: {user_contains: greetword}, text: 'good **evening**'}
  - {when: {user_contains: pasteword}, text: all lines are there}
  - {when: {user_contains: fileword}, text: the file says hello}
  - {when: {user_contains: dangerword}, tool: {name: terminal, arguments: {command: "rm -rf ./made; echo gone"}}}
  - {when: {tool_result_contains: gone}, text: it is gone}
  - when: {user_contains: streamword}
    events:
      - {text: "first part\n\nsecond part of the text that streams "}
      - {wait: resized}
      - {text: "and the last words of it\n"}
  - when: {user_contains: stopword}
    events: [{text: "begins to talk\n\n"}, {wait: never}, {text: must not be seen}]
  - when: {user_contains: steerword}
    events: [{wait: steered}, {tool: {name: terminal, arguments: {command: "echo made"}}}]
  - {when: {user_contains: in blue}, text: blue it is}
  - {when: {user_contains: againword, body_contains: blue it is}, text: still the same talk}
default: {reply: {text: a title}}
"#;

#[test]
fn a_whole_evening() {
    let mut terminal = EmulatedTerminal::open(EVENING, &json!({}));
    std::fs::create_dir(terminal.folder.path().join("made")).unwrap();
    std::fs::write(terminal.folder.path().join("hello.txt"), "hello from the file\n").unwrap();
    terminal.until_ready();
    assert_block(&mut terminal, "❯ Ask anything");
    // Types, corrects, and is answered.
    terminal.press("greetwors\x7fd");
    terminal.until_shown("❯ greetword");
    terminal.press("\r");
    terminal.until_shown("good evening");
    terminal.until_ready();
    assert_block(&mut terminal, "❯ Ask anything");
    // Pastes five thousand lines.
    let lines: Vec<String> = (0..5_000).map(|at| format!("line {at}\r")).collect();
    terminal.press(&format!("\x1b[200~{}\x1b[201~", lines.concat()));
    terminal.until_shown("[Pasted text #1: 5000 lines]");
    terminal.say(" pasteword");
    terminal.until_shown("all lines are there");
    terminal.until_ready();
    assert!(was_sent(&terminal, &["pasteword", "line 0\\nline 1\\n", "line 4999"]));
    // Completes a command and a file.
    terminal.press("/stat");
    terminal.until_shown("/status");
    terminal.press("\t");
    terminal.until_shown("❯ /status");
    terminal.press("\x15fileword @hel");
    terminal.until_shown("❯ hello.txt");
    terminal.press("\t");
    terminal.until_shown("❯ fileword @file:hello.txt");
    terminal.press("\r");
    terminal.until_shown("the file says hello");
    terminal.until_ready();
    assert!(was_sent(&terminal, &["fileword", "hello from the file"]));
    // Approves.
    terminal.say("dangerword");
    terminal.until_shown("Dangerous Command");
    assert_block(&mut terminal, "⚠ ❯");
    terminal.press_until_shown("\r", "it is gone");
    assert!(!terminal.folder.path().join("made").exists());
    terminal.until_ready();
    // Resizes while an answer streams; what is typed meanwhile stays.
    terminal.say("streamword");
    terminal.server.wait_until_at_blocking("resized", 1);
    terminal.until_shown("second part");
    terminal.press("half a thought");
    for (rows, columns) in [(15, 44), (60, 200), (24, 80)] {
        terminal.resize(rows, columns);
        terminal.until_shown("❯ half a thought");
        assert_block(&mut terminal, "❯ half a thought");
    }
    terminal.press("\x15");
    terminal.server.release("resized");
    terminal.until_shown("and the last words of it");
    terminal.until_ready();
    assert_eq!(terminal.text().matches("and the last words").count(), 1, "{}", terminal.text());
    // Interrupts.
    terminal.say("stopword");
    terminal.server.wait_until_at_blocking("never", 1);
    terminal.until_shown("begins to talk");
    terminal.press("\x1b");
    terminal.until_ready();
    assert_block(&mut terminal, "❯ Ask anything");
    assert!(!terminal.text().contains("must not be seen"));
    // Steers.
    terminal.say("steerword");
    terminal.server.wait_until_at_blocking("steered", 1);
    terminal.say("/steer in blue please");
    terminal.until_shown("/steer in blue please");
    terminal.server.release("steered");
    terminal.until_shown("blue it is");
    terminal.until_ready();
    // Leaves, comes back, goes on.
    terminal.say("/quit");
    assert_eq!(terminal.end().code(), Some(0), "{}", terminal.text());
    terminal.assert_restored();
    assert!(terminal.text().contains("Resume this session with:"), "{}", terminal.text());
    terminal.start_again(&["-c"]);
    terminal.until_ready();
    let text = terminal.text();
    assert!(text.contains("Resumed session") && text.contains("● You: greetword\n"), "{text}");
    assert!(text.contains("● You: fileword\n"), "what was attached is not repeated: {text}");
    terminal.say("againword");
    terminal.until_shown("still the same talk");
    terminal.until_ready();
    terminal.press("\x04");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.assert_restored();
}

/// Waits until the block is there once, whole, with this input.
#[track_caller]
fn assert_block(terminal: &mut EmulatedTerminal, input: &str) {
    terminal.until(&format!("the block with {input:?} is not whole"), |visible| {
        let rows: Vec<&str> = visible.trim_end().lines().collect();
        let row = |at: Option<usize>| at.and_then(|at| rows.get(at)).copied().unwrap_or_default();
        let at = rows.iter().rposition(|row| row.contains(input));
        at.is_some_and(|at| at + 2 == rows.len())
            && row(at.map(|at| at + 1)).starts_with('─')
            && row(at.and_then(|at| at.checked_sub(1))).starts_with('─')
            && row(at.and_then(|at| at.checked_sub(2))).contains("⚕ test-model")
            && visible.matches("⚕ test-model").count() == 1
    });
}

/// Tells whether a request has all of these words. Besides the turns, the model is asked for a title.
fn was_sent(terminal: &EmulatedTerminal, words: &[&str]) -> bool {
    let requests = terminal.server.requests();
    requests.iter().any(|request| words.iter().all(|word| request.body_text().contains(word)))
}

/// A multiplexer with the program in it.
struct Multiplexer {
    socket: String,
    home: TempHome,
    folder: tempfile::TempDir,
    server: ModelServer,
}

impl Multiplexer {
    /// Starts the program in tmux; nothing where tmux is not installed.
    fn start(script: &str) -> Option<Self> {
        if !std::path::Path::new("/usr/bin/tmux").exists() {
            hermes_testkit::peer_is_missing("tmux is not installed");
            return None;
        }
        let server = ModelServer::start_blocking(ModelScript::from_yaml("tmux", script).unwrap()).unwrap();
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
        });
        let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("tmux").display().to_string();
        let this = Self { socket, home, folder, server };
        let command = format!(
            "env -i HERMES_HOME={home} HOME={home} PATH=/usr/bin:/bin TERM=screen-256color TZ=UTC {} chat",
            super::support::program(),
            home = this.home.path().display(),
        );
        let folder = this.folder.path().display().to_string();
        this.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "-c", &folder, &command]);
        Some(this)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output =
            Command::new("/usr/bin/tmux").args(["-S", &self.socket]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns everything tmux holds: the scrollback and the screen.
    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        for _ in 0..3_000 {
            if is_so(&self.tmux(&["capture-pane", "-p"])) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what}: {}", self.text());
    }
}

impl Drop for Multiplexer {
    fn drop(&mut self) {
        // It has ended if the program has.
        let _ = Command::new("/usr/bin/tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}

#[test]
fn peer_tmux_holds_one_block_however_it_is_resized() {
    let script = r#"
replies:
  - when: {user_contains: streamword}
    events:
      - {text: "A paragraph that is long enough for two rows of a window with eighty columns, and for three of a narrow one.\n\n"}
      - {text: "| file | lines |\n|---|---:|\n| src/main.rs | 120 |\n\nan unfinished paragraph "}
      - {wait: resized}
      - {text: "that ends here\n"}
default: {reply: {text: a title}}
"#;
    let Some(tmux) = Multiplexer::start(script) else { return };
    tmux.until("the screen is not there", |visible| visible.contains("Ask anything"));
    tmux.tmux(&["send-keys", "streamword", "Enter"]);
    tmux.server.wait_until_at_blocking("resized", 1);
    tmux.until("the answer does not stream", |visible| visible.contains("unfinished"));
    for (columns, rows) in
        [("60", "24"), ("44", "15"), ("30", "15"), ("120", "40"), ("44", "40"), ("80", "24")]
    {
        tmux.tmux(&["resize-window", "-x", columns, "-y", rows]);
        let rule = "─".repeat(columns.parse().unwrap());
        tmux.until("the block is not drawn anew", |visible| {
            visible.lines().filter(|row| **row == rule).count() == 2 && visible.contains("⚕ ❯ type to")
        });
        let text = tmux.text();
        assert_eq!(text.matches("writing…").count(), 1, "{columns}x{rows}\n{text}");
        assert_eq!(text.matches("⚕ test-model").count(), 1, "{columns}x{rows}\n{text}");
        assert_eq!(text.matches("an unfinished").count(), 1, "{columns}x{rows}\n{text}");
    }
    tmux.server.release("resized");
    tmux.until("the answer does not end", |visible| visible.contains("that ends here"));
    tmux.until("the prompt does not come back", |visible| visible.contains("Ask anything"));
    let text = tmux.text();
    for once in ["A paragraph that", "src/main.rs", "an unfinished", "that ends here", "● streamword"] {
        assert_eq!(text.matches(once).count(), 1, "{once}\n{text}");
    }
    tmux.tmux(&["send-keys", "/quit", "Enter"]);
}

#[test]
fn keys_that_come_in_one_go_all_arrive() {
    let mut terminal = EmulatedTerminal::open("default: {reply: {text: taken}}\n", &json!({}));
    terminal.until_ready();
    // More than the reader of keys takes at once, and a change of the size in the middle.
    let typed = (0..700).map(|at| format!("word{at} ")).collect::<Vec<_>>().concat();
    terminal.press(&typed);
    terminal.resize(30, 90);
    terminal.until_shown("word699");
    terminal.press("\r");
    terminal.until_shown("taken");
    assert!(was_sent(&terminal, &[typed.trim_end()]));
    for (rows, columns) in [(24, 80), (30, 90), (24, 80), (15, 44)] {
        terminal.until_ready();
        terminal.press("together");
        terminal.resize(rows, columns);
        terminal.until_shown("❯ together");
        terminal.press("\x15");
    }
}
