//! Chats in a terminal: questions that are answered or not, and signals that end the chat.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use hermes_testkit::telegram::FakeTelegram;
use hermes_testkit::{ModelScript, ModelServer, RecordedRequest, TempHome};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::LocalModes;
use serde_json::{Value, json};

const LOOK: Duration = Duration::from_millis(10);
const MOST_LOOKS: u32 = 4_500;

/// A terminal window with a chat in it. Dropping it closes the window.
struct TerminalWindow {
    server: ModelServer,
    home: TempHome,
    folder: tempfile::TempDir,
    child: Child,
    screen: Option<File>,
    seen: String,
}

impl TerminalWindow {
    fn open(script: &str, more: &Value) -> Self {
        let server =
            ModelServer::start_blocking(ModelScript::from_yaml("attended", script).unwrap()).unwrap();
        let mut config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (child, screen) = Self::start(&home, &folder, &["chat"]);
        Self { server, home, folder, child, screen: Some(screen), seen: String::new() }
    }

    /// Ends the program in the window and starts another command there.
    fn run_instead(&mut self, arguments: &[&str]) {
        self.say("/quit");
        self.end();
        let (child, screen) = Self::start(&self.home, &self.folder, arguments);
        (self.child, self.screen) = (child, Some(screen));
        self.seen.clear();
    }

    /// Starts a new program in the same window.
    fn start_again(&mut self) {
        let (child, screen) = Self::start(&self.home, &self.folder, &["chat"]);
        (self.child, self.screen) = (child, Some(screen));
        self.seen.clear();
    }

    #[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
    fn start(home: &TempHome, folder: &tempfile::TempDir, arguments: &[&str]) -> (Child, File) {
        let (ours, theirs) = terminal();
        // The program leads a session whose terminal this is, so that it gets SIGHUP when the window is closed.
        let child = Command::new("/usr/bin/setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_hermes")])
            .args(arguments)
            .current_dir(folder.path())
            .env_clear()
            .env("HERMES_HOME", home.path())
            .env("HOME", home.path().join("user"))
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .stdin(Stdio::from(theirs.try_clone().unwrap()))
            .stdout(Stdio::from(theirs.try_clone().unwrap()))
            .stderr(Stdio::from(theirs))
            .spawn()
            .unwrap();
        (child, File::from(ours))
    }

    fn look(&mut self) -> &str {
        let mut buffer = [0; 4096];
        while let Some(count) = self.screen.as_mut().and_then(|screen| screen.read(&mut buffer).ok()) {
            if count == 0 {
                break;
            }
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        &self.seen
    }

    fn until_shown(&mut self, words: &str) {
        for _ in 0..MOST_LOOKS {
            if self.look().contains(words) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        panic!("{words:?} is not shown: {}", self.seen);
    }

    fn say(&mut self, words: &str) {
        self.screen.as_mut().unwrap().write_all(format!("{words}\n").as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        for _ in 0..MOST_LOOKS {
            self.look();
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(LOOK);
        }
        self.child.kill().unwrap();
        panic!("it does not end: {}", self.seen);
    }

    fn pid_in(&self, name: &str) -> u32 {
        let path: PathBuf = self.folder.path().join(name);
        for _ in 0..MOST_LOOKS {
            if let Some(pid) = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()) {
                return pid;
            }
            std::thread::sleep(LOOK);
        }
        panic!("{name} is not written: {}", self.seen);
    }

    /// Exports all sessions of the database.
    #[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
    fn sessions(&self) -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_hermes"))
            .args(["sessions", "export", "-"])
            .env_clear()
            .env("HERMES_HOME", self.home.path())
            .env("HOME", self.home.path().join("user"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for TerminalWindow {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let flags = rustix::fs::fcntl_getfl(&ours).unwrap();
    rustix::fs::fcntl_setfl(&ours, flags | OFlags::NONBLOCK).unwrap();
    let close_on_exec = rustix::io::FdFlags::CLOEXEC;
    for end in [&ours, &theirs] {
        rustix::io::fcntl_setfd(end, close_on_exec).unwrap();
    }
    (ours, theirs)
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn a_question_nobody_answers_ends_when_the_setting_says_and_the_model_hears_why() {
    let mut window = TerminalWindow::open(
        r#"
replies:
  - {tool: {name: terminal, arguments: {command: "rm -rf ./made"}}}
  - {text: understood}
default: {reply: {text: a title}}
"#,
        &json!({"approvals": {"timeout": 1}}),
    );
    window.say("begin");
    window.until_shown("Choice [o/s/a/D]:");
    window.until_shown("understood");
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
    let sessions = window.sessions();
    let messages = sessions[0]["messages"].as_array().unwrap();
    let result = messages.iter().find(|message| message["role"] == "tool").unwrap();
    let told = result["content"].as_str().unwrap();
    assert!(told.contains("no answer came in time") && !told.contains("denied"), "{told}");
}

const SERVER_AND_HANGING: &str = r#"
replies:
  - {tool: {name: terminal, arguments: {command: "echo $$ > server.pid; exec sleep 1000", background: true}}}
  - {text: it runs}
  - when: {user_contains: and now}
    events: [{text: thinking}, {wait: hanging}, {text: never}]
"#;

#[test]
fn a_signal_ends_the_chat_in_order() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut window = TerminalWindow::open(SERVER_AND_HANGING, &json!({}));
        window.say("begin");
        window.until_shown("it runs");
        window.say("and now?");
        window.server.wait_until_at_blocking("hanging", 1);
        let process = window.pid_in("server.pid");
        window.signal(signal);
        assert_eq!(window.end().code(), Some(code), "{}", window.seen);
        assert!(!lives(process), "{signal:?}: its background process ends with it");
        let sessions = window.sessions();
        assert!(!sessions[0]["ended_at"].is_null(), "{sessions:#?}");
        let messages = sessions[0]["messages"].as_array().unwrap();
        assert!(messages.iter().any(|message| message["content"] == "and now?"), "{messages:#?}");
    }
}

#[test]
fn a_window_that_is_closed_ends_the_chat_in_order() {
    let mut window = TerminalWindow::open(SERVER_AND_HANGING, &json!({}));
    window.say("begin");
    window.until_shown("it runs");
    let process = window.pid_in("server.pid");
    window.screen = None;
    window.end();
    assert!(!lives(process), "its background process ends with it");
    assert!(!window.sessions()[0]["ended_at"].is_null());
}

const TALK: &str = r"
replies:
  - {when: {user_contains: line}, text: one}
  - {when: {user_contains: hello}, text: one}
  - {when: {user_contains: hosts}, text: two}
  - {when: {user_contains: again}, text: two}
default: {reply: {text: a title}}
";

#[test]
fn pasted_lines_are_one_message_and_commands_wait() {
    let mut window = TerminalWindow::open(TALK, &json!({}));
    window.until_shown("❯ ");
    window.say("first line\nsecond line\nthird line");
    window.until_shown("one");
    let sent = window.server.request(0).last_user_text().unwrap_or_default();
    assert_eq!(sent, "first line\nsecond line\nthird line");
    // A path is a message, not a command.
    window.say("/etc/hosts is what?");
    window.until_shown("two");
    window.say("/yolo");
    window.until_shown("Dangerous commands run without asking");
    window.say("/yolo");
    window.until_shown("Dangerous commands are asked about again");
    window.say("/undo 2");
    window.until_shown("Undid 4 message(s)");
    window.say("/insights --days 7");
    window.until_shown("7 days");
    window.say("/quit --delete");
    window.until_shown("This conversation was deleted.");
}

#[test]
fn another_model_answers_the_next_turn() {
    let mut window = TerminalWindow::open(TALK, &json!({}));
    window.until_shown("❯ ");
    window.say("hello");
    window.until_shown("one");
    window.say("/model other-model");
    window.until_shown("Current model:   other-model");
    window.say("again");
    window.until_shown("two");
    let asked: Vec<String> = window
        .server
        .requests()
        .iter()
        .filter(|sent| sent.path().ends_with("/completions"))
        .map(|sent| sent.model().to_owned())
        .collect();
    assert_eq!(asked.first().map(String::as_str), Some("test-model"));
    assert!(asked.iter().any(|model| model == "other-model"), "{asked:?}");
}

#[test]
fn a_new_chat_tells_of_a_turn_that_was_cut_off() {
    let hanging = "replies:\n  - events: [headers, {wait: hanging}]\ndefault: {reply: {text: t}}\n";
    let mut window = TerminalWindow::open(hanging, &json!({}));
    window.until_shown("❯ ");
    window.say("begin");
    window.server.wait_until_at_blocking("hanging", 1);
    window.child.kill().unwrap();
    window.child.wait().unwrap();
    window.start_again();
    window.until_shown("was cut off before it ended; `hermes -c` goes on with it");
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
}

fn count(window: &mut TerminalWindow, words: &str) -> usize {
    window.look().matches(words).count()
}

#[test]
fn text_before_a_tool_call_is_shown_once_when_the_last_answer_is_empty() {
    let script = r#"
replies:
  - events: [{text: "The file is written."}, {tool: {name: write_file, arguments: {path: a.txt, content: x}}}]
  - {text: "", repeat: forever}
"#;
    let mut window = TerminalWindow::open(script, &json!({}));
    window.until_shown("❯ ");
    window.say("begin");
    window.until_shown("✍️");
    window.until_shown("\n❯ ");
    window.say("/quit");
    window.end();
    assert_eq!(count(&mut window, "The file is written."), 1, "{}", window.seen);
}

#[test]
fn an_answer_asked_for_again_after_the_line_broke_is_shown_once() {
    let script = r#"
replies:
  - events: [{text: "One two "}, {cut: rst}]
  - {text: "One two three."}
default: {reply: {text: a title}}
"#;
    let mut window = TerminalWindow::open(script, &json!({}));
    window.until_shown("❯ ");
    window.say("begin");
    window.until_shown("three.");
    window.say("/quit");
    window.end();
    assert_eq!(count(&mut window, "three."), 1, "{}", window.seen);
    assert_eq!(count(&mut window, "One two"), 1, "{}", window.seen);
}

const REASONED: &str = r#"
replies:
  - events: [{reasoning: "First, the disk."}, {tool: {name: read_file, arguments: {path: b.txt}}}]
  - events: [{reasoning: "Then the answer."}, {text: "All is well."}]
default: {reply: {text: a title}}
"#;

#[test]
fn reasoning_arguments_and_the_bell_follow_the_display_settings() {
    let display =
        json!({"display": {"show_reasoning": true, "bell_on_complete": true, "tool_progress": "verbose"}});
    let mut window = TerminalWindow::open(REASONED, &display);
    window.until_shown("❯ ");
    window.say("begin");
    window.until_shown("All is well.");
    window.until_shown("\u{7}");
    for words in [
        "┌─ Reasoning",
        "First, the disk.",
        "Then the answer.",
        "Tool 1: read_file(path)",
        "b.txt",
        "Result: ",
    ] {
        assert!(window.look().contains(words), "{words}: {}", window.seen);
    }
    let (reasoning, answer) = (window.seen.find("Then the").unwrap(), window.seen.find("All is").unwrap());
    assert!(reasoning < answer, "{}", window.seen);
    window.say("/verbose");
    window.until_shown("Tool progress: off");
    window.say("/reasoning hide");
    window.until_shown("Reasoning is hidden.");
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
    let config = fs::read_to_string(window.home.path().join("config.yaml")).unwrap();
    assert!(config.contains("off") && config.contains("false"), "{config}");
}

#[test]
fn by_default_neither_reasoning_nor_a_bell() {
    let mut window = TerminalWindow::open(REASONED, &json!({}));
    window.until_shown("❯ ");
    window.say("begin");
    window.until_shown("All is well.");
    window.say("/quit");
    window.end();
    assert!(!window.seen.contains("the disk") && !window.seen.contains('\u{7}'), "{}", window.seen);
}

#[test]
fn an_answer_tells_the_terminal_nothing() {
    let script = "replies:\n  - {text: \"a\\e]52;c;eA==\\ab\\e[2Jc\"}\ndefault: {reply: {text: a title}}\n";
    let mut window = TerminalWindow::open(script, &json!({}));
    window.until_shown("❯ ");
    window.say("begin");
    window.until_shown("\\u{1b}]52;c;eA==\\u{7}b\\u{1b}[2Jc");
    window.say("/quit");
    window.end();
    let shown = window.seen.replace("\u{1b}[?2004h", "").replace("\u{1b}[?2004l", "");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_password_for_sudo_is_not_shown_while_it_is_typed() {
    let script = r#"
replies:
  - {tool: {name: terminal, arguments: {command: "sudo true"}}}
  - {text: it was tried}
default: {reply: {text: a title}}
"#;
    let mut window =
        TerminalWindow::open(script, &json!({"approvals": {"mode": "off"}, "terminal": {"sandbox": "off"}}));
    window.until_shown("❯ ");
    window.say("begin");
    window.until_shown("Password for sudo");
    window.say("tell-nobody-22");
    window.until_shown("it was tried\r\n❯ ");
    window.say("and this is shown");
    window.until_shown("and this is shown");
    window.say("/quit");
    window.end();
    assert!(!window.seen.contains("tell-nobody"), "{}", window.seen);
    let sent: Vec<String> = window
        .server
        .requests()
        .iter()
        .map(|sent| String::from_utf8_lossy(sent.body()).into_owned())
        .collect();
    assert!(!sent.iter().any(|body| body.contains("tell-nobody")), "{sent:?}");
}

#[test]
fn a_long_line_and_a_paste_arrive_whole_and_the_terminal_is_put_back() {
    let script = "replies:\n  - {when: {user_contains: long}, text: one}\n  - {when: {user_contains: typed}, text: two}\ndefault: {reply: {text: a title}}\n";
    let mut window = TerminalWindow::open(script, &json!({}));
    window.until_shown("❯ ");
    let long = "long ".repeat(2_000);
    window.say(&long);
    window.until_shown("one\r\n");
    window.say("\u{1b}[200~first\rsecond\n/quit\u{1b}[201~ and typod\u{7f}\u{7f}ed");
    window.until_shown("two\r\n");
    let requests = window.server.requests();
    let sent: Vec<String> = requests.iter().filter_map(RecordedRequest::last_user_text).collect();
    for expected in [long.trim(), "first\nsecond\n/quit and typed"] {
        assert!(sent.iter().any(|sent| sent == expected), "{expected:?}: {sent:?}");
    }
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
    let modes = rustix::termios::tcgetattr(window.screen.as_ref().unwrap()).unwrap().local_modes;
    assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
    assert!(window.seen.contains("\u{1b}[?2004h") && window.seen.contains("\u{1b}[?2004l"));
}

#[test]
fn setup_offers_a_home_and_asks_who_gets_in() {
    const TOKEN: &str = "123456:a-token-of-some-length-that-is-enough";
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    let platforms = json!({"platforms": {"telegram": {"extra": {"base_url": telegram.base_url()}}}});
    let mut window = TerminalWindow::open("replies: []", &platforms);
    window.until_shown("❯");
    window.run_instead(&["gateway", "setup", "telegram"]);
    window.until_shown("(needed): ");
    window.say(TOKEN);
    window.until_shown("who may use it");
    window.say("4711, 4712");
    window.until_shown("Use 4711, the first allowed id, as home channel?");
    window.say("");
    window.until_shown("Install the gateway as a service");
    window.say("n");
    window.end();
    let env = window.home.read(".env");
    assert!(env.contains("TELEGRAM_HOME_CHANNEL=4711") && env.contains("TELEGRAM_ALLOWED_USERS="), "{env}");
    assert!(!window.seen.contains("open, pair or skip"), "somebody is named: {}", window.seen);

    let mut window = TerminalWindow::open("replies: []", &platforms);
    window.until_shown("❯");
    window.run_instead(&["gateway", "setup", "telegram"]);
    window.until_shown("(needed): ");
    window.say("123456:another-token");
    window.until_shown("who may use it");
    window.say("");
    window.until_shown("scheduled jobs write to");
    window.say("");
    window.until_shown("rejected the token");
    window.until_shown("Store it all the same?");
    window.say("y");
    window.until_shown("open, pair or skip [pair]:");
    window.say("perhaps");
    window.until_shown("`perhaps` is none of them");
    window.say("open");
    window.until_shown("Everybody may talk to the agent");
    window.until_shown("Install the gateway as a service");
    window.say("n");
    window.end();
    assert!(window.home.read(".env").contains("GATEWAY_ALLOW_ALL_USERS=true"));
}

#[test]
fn setup_tells_what_is_configured_in_part() {
    let mut window = TerminalWindow::open("replies: []", &json!({}));
    std::fs::write(window.home.path().join(".env"), "SLACK_APP_TOKEN=xapp-1\nWEBHOOK_ENABLED=true\n")
        .unwrap();
    window.until_shown("❯");
    window.run_instead(&["gateway", "setup"]);
    window.until_shown("Done");
    let row =
        |name: &str| window.seen.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    for (name, state) in [
        ("Slack", "[partially configured]"),
        ("Webhooks", "[partially configured]"),
        ("Discord", "[not configured]"),
    ] {
        assert!(row(name).contains(state), "{}", window.seen);
    }
    window.screen.as_mut().unwrap().write_all(b"q").unwrap();
    window.until_shown("Install the gateway as a service");
    window.say("n");
    window.end();
}

#[test]
fn a_method_worked_out_in_one_session_is_found_used_and_repaired_in_the_next() {
    let mut window = TerminalWindow::open(
        r#"
replies:
  - {when: {user_contains: deploy the site}, tool: {name: terminal, arguments: {command: "echo one"}}}
  - {when: {user_contains: deploy the site}, tool: {name: terminal, arguments: {command: "echo two"}}}
  - {when: {user_contains: deploy the site}, tool: {name: terminal, arguments: {command: "echo three"}}}
  - {when: {user_contains: deploy the site}, text: it is deployed}
  - when: {user_contains: "[System: Review the conversation above"}
    tool:
      name: skill_manage
      arguments:
        action: create
        name: deploy-site
        content: "---\nname: deploy-site\ndescription: Deploys the site\n---\n# Deploy\n\nRun `make deploy`.\n"
  - {when: {user_contains: "[System: Review the conversation above"}, text: Saved.}
  - when: {user_contains: once more, system_contains: "- deploy-site: Deploys the site"}
    tool: {name: skill_view, arguments: {name: deploy-site}}
  - when: {user_contains: once more, tool_result_contains: make deploy}
    tool:
      name: skill_manage
      arguments: {action: patch, name: deploy-site, old_string: make deploy, new_string: make release}
  - {when: {user_contains: once more}, text: deployed again}
default: {reply: {text: a title}}
"#,
        &json!({"skills": {"creation_nudge_interval": 2}}),
    );
    window.say("deploy the site");
    window.until_shown("it is deployed");
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
    let text = window.home.read("skills/deploy-site/SKILL.md");
    assert!(text.contains("make deploy"), "{text}");
    let messages = window.sessions()[0]["messages"].to_string();
    assert!(!messages.contains("Review the conversation"), "the review is not part of the session");

    window.start_again();
    window.say("deploy the site once more");
    window.until_shown("deployed again");
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
    let text = window.home.read("skills/deploy-site/SKILL.md");
    assert!(text.contains("make release"), "{text}");
    let usage: Value = serde_json::from_str(&window.home.read("skills/.usage.json")).unwrap();
    assert_eq!(usage["deploy-site"]["created_by"], "agent", "{usage}");
    assert_eq!(usage["deploy-site"]["success_count"], 1, "{usage}");
}

#[test]
fn what_a_review_stored_is_said() {
    let script = r#"
replies:
  - when: {user_contains: "Review the conversation above"}
    tool: {name: memory, id: call_keep, arguments: {action: add, target: user, content: "Likes tea"}}
  - {when: {user_contains: "Review the conversation above", tool_result: call_keep}, text: "Nothing more."}
  - {when: {user_contains: tea}, text: noted}
default: {reply: {text: a title}}
"#;
    let mut window = TerminalWindow::open(script, &json!({"memory": {"nudge_interval": 1}}));
    window.say("I like tea");
    window.until_shown("noted");
    window.until_shown("💾");
    assert!(window.home.read("memories/USER.md").contains("Likes tea"));
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
}

#[test]
fn bundles_the_curator_and_plugins_are_commands_of_the_chat() {
    let mut window = TerminalWindow::open(
        r#"
replies:
  - {when: {user_contains: 'bundle "release"'}, text: released}
  - {when: {user_contains: kept as a skill}, text: learned}
  - {when: {system_contains: "installed the skill tool: Does a thing"}, text: it is known}
  - {when: {user_contains: from the plugin}, text: heard}
default: {reply: {text: something else}}
"#,
        &json!({"plugins": {"enabled": ["hello"]}}),
    );
    window.say("/quit");
    window.end();
    let skill = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nThe text of {name}.\n");
    for name in ["review", "publish"] {
        fs::create_dir_all(window.home.join("skills").join(name)).unwrap();
        fs::write(window.home.join(format!("skills/{name}/SKILL.md")), skill(name)).unwrap();
    }
    let tool = window.home.join("elsewhere/tool");
    fs::create_dir_all(&tool).unwrap();
    fs::write(tool.join("SKILL.md"), "---\nname: tool\ndescription: Does a thing.\n---\nRead the file.\n")
        .unwrap();
    let plugin = window.home.join("plugins/hello");
    fs::create_dir_all(&plugin).unwrap();
    fs::write(plugin.join("plugin.yaml"), "version: 1.0\n").unwrap();
    let code = "def register(ctx):\n    ctx.register_command('hello', lambda text: 'Hello ' + text, aliases=['hi'])\n    ctx.register_command('speak', lambda text: ctx.inject_message('from the plugin') and 'said')\n    ctx.register_provider()\n";
    fs::write(plugin.join("__init__.py"), code).unwrap();
    window.start_again();
    window.say("/plugins");
    window.until_shown("hello 1.0: 0 tools, 0 hooks, 2 commands");
    window.until_shown("ctx.register_provider is not available");
    window.say("/hi there");
    window.until_shown("Hello there");
    window.say("/speak");
    window.until_shown("heard");
    window.say("/bundles create release --skills review,publish --instruction Both.");
    window.until_shown("call it with /release");
    window.say("/release now");
    window.until_shown("released");
    let asked = window.server.requests().into_iter().filter_map(|request| request.last_user_text());
    let asked = asked.filter(|text| text.contains("bundle")).last().unwrap();
    for part in ["The text of review.", "The text of publish.", "Both.", "The user said with it: now"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    window.say("/curator pin review");
    window.until_shown("Pinned: review");
    window.say("/learn the release");
    window.until_shown("learned");
    window.say(&format!("/skills install {} --now", tool.display()));
    window.until_shown("knows of it from the next message on");
    window.say("what do you have");
    window.until_shown("it is known");
    window.say("/quit");
    assert_eq!(window.end().code(), Some(0), "{}", window.seen);
}
