//! Pictures, commands and background work on the screen of a chat.

use serde_json::json;

use super::screen::EmulatedTerminal;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n a picture";
/// The picture as a model gets it.
const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgogYSBwaWN0dXJl";

#[test]
fn a_dropped_picture_reaches_the_model() {
    let script = r"
replies:
  - {when: {user_contains: what is this}, text: I see a picture}
  - {when: {user_contains: What do you see}, text: and another}
default: {reply: {text: a title}}
";
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    let path = terminal.folder.path().join("a shot.png");
    std::fs::write(&path, PNG).unwrap();
    terminal.until_ready();
    // A terminal pastes the path of a dropped file and escapes what a shell would read otherwise.
    let escaped = path.display().to_string().replace(' ', "\\ ");
    terminal.press(&format!("\x1b[200~{escaped}\x1b[201~"));
    terminal.until_shown("[📎 Image #1]");
    terminal.say("what is this?");
    terminal.until_shown("I see a picture");
    assert!(terminal.text().contains("📎 1 image attached"));
    let sent = terminal.server.request(0).body_text().into_owned();
    assert!(sent.contains(PNG_URL) && sent.contains("what is this?"), "{sent}");
    terminal.until_ready();
    // A path that leads to no picture is text.
    terminal.press("\x1b[200~/no/such.png\x1b[201~");
    terminal.until_shown("❯ /no/such.png");
    terminal.press("\x15");
    terminal.say("/image a shot.png");
    terminal.until_shown("[📎 Image #1]");
    terminal.press("\r");
    terminal.until_shown("and another");
    let requests = terminal.server.requests();
    let sent = requests.iter().rev().find(|request| request.body_text().contains("What do you see")).unwrap();
    let sent = sent.body_text().into_owned();
    assert_eq!(sent.matches(PNG_URL).count(), 2, "{sent}");
    assert!(sent.contains("What do you see in this image?"), "{sent}");
    terminal.until_ready();
    terminal.say("/image no-such.png");
    terminal.until_shown("no such file");
    terminal.say("/paste");
    terminal.until_shown("clipboard cannot be read");
    terminal.say("/quit");
    terminal.end();
    terminal.start_again(&["-c"]);
    terminal.until_shown("[image] what is this?");
}

#[test]
fn a_model_that_sees_nothing_answers_without_the_picture() {
    let script = r"
replies:
  - {when: {user_contains: look}, fail: {status: 400, message: 'image input is not supported by this model'}}
  - {when: {user_contains: look}, text: I only read the words}
  - when: {body_contains: data:image}
    fail: {status: 500, message: 'pictures were sent again'}
  - {when: {user_contains: and now}, text: still here}
default: {reply: {text: a title}}
";
    let mut terminal = EmulatedTerminal::open_with(script, &json!({}), &["--version"], (24, 80), "xterm");
    std::fs::write(terminal.folder.path().join("a.png"), PNG).unwrap();
    terminal.end();
    terminal.start_again(&["chat", "--image", "a.png"]);
    terminal.until_shown("[📎 Image #1]");
    terminal.say("look");
    terminal.until_shown("I only read the words");
    assert!(terminal.text().contains("cannot see the picture"), "{}", terminal.text());
    let sent = terminal.server.request(1).body_text().into_owned();
    assert!(!sent.contains("data:image") && sent.contains("this model cannot see pictures"), "{sent}");
    terminal.until_ready();
    terminal.say("and now");
    terminal.until_shown("still here");
}

#[test]
fn a_question_takes_pictures() {
    let script = "replies:\n  - {text: a picture indeed}\ndefault: {reply: {text: a title}}\n";
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    terminal.until_ready();
    std::fs::write(terminal.folder.path().join("a.png"), PNG).unwrap();
    terminal.press("\x04");
    terminal.end();
    terminal.start_again(&["-Q", "-q", "what is it?", "--image", "a.png"]);
    assert_eq!(terminal.end().code(), Some(0), "{}", terminal.text());
    assert!(terminal.server.request(0).body_text().contains(PNG_URL));
    terminal.start_again(&["-Q", "-q", "what is it?", "--image", "b.png"]);
    assert_eq!(terminal.end().code(), Some(1));
    assert!(terminal.text().contains("b.png: no such file"), "{}", terminal.text());
}

#[test]
fn the_users_own_commands_run() {
    let script = "default: {reply: {text: an answer}}\n";
    let quick = json!({"quick_commands": {
        "up": {"type": "exec", "command": "echo it is $((40 + 2))"},
        "quiet": {"type": "exec", "command": "true"},
        "fail": {"type": "exec", "command": "exit 3"},
        "st": {"type": "alias", "target": "/status"},
        "odd": {"type": "dance"},
    }});
    let mut terminal = EmulatedTerminal::open(script, &quick);
    terminal.until_ready();
    for (typed, shown) in [
        ("/up", "it is 42"),
        ("/quiet", "Command returned no output"),
        ("/fail", "/fail ended with 3"),
        ("/st", "Session:"),
        ("/odd", "has the type `dance`"),
        ("/UP", "it is 42"),
    ] {
        terminal.say(typed);
        terminal.until_shown(shown);
        terminal.until_ready();
    }
}

#[test]
fn a_branch_goes_on_beside_its_original() {
    let script = r"
replies:
  - {when: {user_contains: alphaword}, text: one}
  - {when: {user_contains: betaword}, text: two}
  - {when: {user_contains: gammaword}, text: three}
default: {reply: {text: a title}}
";
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    terminal.until_ready();
    terminal.say("/branch");
    terminal.until_shown("nothing to branch from");
    terminal.say("alphaword");
    terminal.until_shown("one");
    terminal.until_ready();
    terminal.say("/branch another way");
    terminal.until_shown("Branched: this is session");
    terminal.until_ready();
    terminal.say("betaword");
    terminal.until_shown("two");
    let requests = terminal.server.requests();
    let sent = requests.iter().rev().find(|request| request.body_text().contains("betaword")).unwrap();
    let sent = sent.body_text().into_owned();
    assert!(sent.contains("alphaword") && sent.contains("betaword"), "{sent}");
    terminal.until_ready();
    let text = terminal.text().split_whitespace().collect::<Vec<_>>().join(" ");
    let original = text.split("`/resume ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    terminal.say(&format!("/resume {original}"));
    terminal.until_shown("Resumed session");
    terminal.until_ready();
    terminal.say("gammaword");
    terminal.until_shown("three");
    let requests = terminal.server.requests();
    let sent = requests.iter().rev().find(|request| request.body_text().contains("gammaword")).unwrap();
    assert!(sent.body_text().contains("alphaword") && !sent.body_text().contains("betaword"));
}

#[test]
fn a_model_is_picked() {
    let script = r"
models: [{id: test-model}, {id: other-model}]
default: {reply: {text: an answer}}
";
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    terminal.until_ready();
    terminal.say("/model");
    terminal.until_shown("Models");
    assert!(terminal.visible().contains("← in use"), "{}", terminal.visible());
    terminal.press_until_shown("other", "⌕ ❯ other");
    terminal.until_shown("❯ other-model");
    terminal.press("\r");
    terminal.until_shown("⚕ other-model");
    terminal.until_ready();
    terminal.say("hello");
    terminal.until_shown("an answer");
    let asked = |request: &hermes_testkit::RecordedRequest| request.body_text().contains("\"other-model\"");
    assert!(terminal.server.requests().iter().any(asked));
    terminal.say("/quit");
    terminal.end();
    assert!(terminal.home.read("config.yaml").contains("other-model"));
    // The same picker without a chat.
    terminal.start_again(&["model"]);
    terminal.until_shown("Models");
    terminal.press_until_shown("test-m", "⌕ ❯ test-m");
    terminal.press("\r");
    assert_eq!(terminal.end().code(), Some(0), "{}", terminal.text());
    assert!(terminal.text().contains("Current model:   test-model"), "{}", terminal.text());
    terminal.assert_restored();
}

#[test]
fn background_work_is_a_tree_and_a_list() {
    let script = r#"
replies:
  - when: {user_contains: side work}
    events: [{tool: {name: terminal, arguments: {command: "echo side"}}}]
  - when: {tool_result_contains: side}
    events: [{wait: side}, {text: '**side** is done'}]
  - when: {user_contains: main}
    events: [{text: "main begins\n\n"}, {wait: main}, {text: main ends}]
default: {reply: {text: a title}}
"#;
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    terminal.until_ready();
    terminal.say("/agents");
    terminal.until_shown("Nothing runs in the background");
    terminal.say("/background side work");
    terminal.until_shown("[bg #1]");
    terminal.server.wait_until_at_blocking("side", 1);
    terminal.say("main question");
    terminal.server.wait_until_at_blocking("main", 1);
    terminal.say("/tasks");
    terminal.until_shown("🔄 #1 · ");
    terminal.server.release("main");
    terminal.until_shown("main ends");
    terminal.until_ready();
    terminal.server.release("side");
    terminal.until_shown("Background task #1 complete");
    terminal.until_shown("(background #1)");
    terminal.until("the tree is still shown", |visible| !visible.contains("  └─ [bg #1] 💻"));
    assert!(terminal.text().contains("\nside is done"), "{}", terminal.text());
}

#[test]
fn commands_of_the_program_answer_on_the_screen() {
    let script = "replies:\n  - {text: an answer}\ndefault: {reply: {text: a title}}\n";
    let mut terminal = EmulatedTerminal::open_with(
        script,
        &json!({"display": {"timestamp_format": "at %H o'clock"}}),
        &["chat"],
        (40, 100),
        "xterm-256color",
    );
    terminal.until_ready();
    for (typed, shown) in [
        ("/whoami", "Session: "),
        ("/profile", "Home:    "),
        ("/platforms", "Gateway: not running"),
        ("/voice on", "cannot be turned on"),
        ("/update", "was not installed by install.sh"),
        ("/reload-skills", "skill"),
        ("/reload", "take effect as they are now"),
        ("/compress --preview", "at least 4 messages"),
        ("/debug", "Secrets are masked"),
        ("/fast", "ask for the provider's priority tier"),
        ("/fast status", "Service tier: priority"),
        ("/timestamps on", "Times are shown"),
    ] {
        terminal.say(typed);
        terminal.until_shown(shown);
        terminal.until_ready();
    }
    terminal.say("hello");
    terminal.until_shown("an answer");
    terminal.until_shown("● hello  at ");
    let asks_for_priority = |request: &hermes_testkit::RecordedRequest| {
        request.body_text().replace(' ', "").contains(r#""service_tier":"priority""#)
    };
    assert!(terminal.server.requests().iter().any(asks_for_priority));
    assert!(terminal.text().contains(" o'clock ─"), "{}", terminal.text());
    let logs = std::fs::read_dir(terminal.home.join("logs")).unwrap().flatten();
    let report = logs.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "md"));
    assert!(std::fs::read_to_string(report.unwrap()).unwrap().contains("## Checks"));
    assert!(terminal.home.read("config.yaml").contains("timestamps"));
}

#[test]
fn settings_are_taken_up_without_a_restart() {
    let script = "default: {reply: {text: '**an** answer'}}\n";
    let mut terminal = EmulatedTerminal::open(script, &json!({}));
    terminal.until_ready();
    let path = terminal.home.config_yaml();
    let mut config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["model"]["default"] = "new-model".into();
    config["display"] = json!({"skin": "ares", "final_response_markdown": "raw"});
    std::fs::write(&path, config.to_string()).unwrap();
    terminal.say("/reload");
    terminal.until_shown("⚔ ❯");
    terminal.until_shown("⚕ new-model");
    terminal.say("hello");
    terminal.until_shown("**an** answer");
}
