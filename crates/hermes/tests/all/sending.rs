//! Messages to chats from the shell, from terminal chats and from jobs, with and without a gateway; images in
//! answers.

use hermes_testkit::telegram::{FakeTelegram, FakeTelegramMessage, TelegramFault};
use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::{Value, json};

use super::life::{GatewayChild, hermes, start_gateway};
use super::support::until;

const TOKEN: &str = "42:secret-token";
pub(crate) const ANN: i64 = 7;

/// A home with Telegram configured, and the emulated Telegram.
pub(crate) struct TelegramHome {
    pub(crate) home: TempHome,
    pub(crate) server: ModelServer,
    pub(crate) telegram: FakeTelegram,
}

impl TelegramHome {
    pub(crate) fn new(replies: &Value) -> Self {
        let script = json!({"default": "echo", "replies": replies});
        let server =
            ModelServer::start_blocking(ModelScript::from_yaml("sending", &script.to_string()).unwrap())
                .unwrap();
        let telegram = FakeTelegram::start(TOKEN).unwrap();
        telegram.person(ANN, "Ann");
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
            "platforms": {"telegram": {"extra": {"base_url": telegram.base_url()}}},
            "terminal": {"sandbox": "off"},
        });
        let env = format!(
            "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS={ANN}\nTELEGRAM_HOME_CHANNEL={ANN}\n"
        );
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        Self { home, server, telegram }
    }

    /// Runs a command and returns its exit code and output.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = hermes(&self.home, arguments).output().unwrap();
        let said = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.code().unwrap(), String::from_utf8_lossy(&said).trim().to_owned())
    }

    /// Starts the gateway and waits until it has checked its jobs.
    pub(crate) fn start(&self) -> GatewayChild {
        let _ = std::fs::remove_file(self.home.join("cron/ticker_last_success"));
        let gateway = start_gateway(&self.home);
        until("the gateway is up", || self.home.join("cron/ticker_last_success").exists());
        gateway
    }

    pub(crate) fn said(&self) -> Vec<FakeTelegramMessage> {
        self.telegram.messages(ANN)
    }

    fn texts(&self) -> Vec<String> {
        self.said().into_iter().map(|posted| posted.text).collect()
    }
}

#[test]
fn from_the_shell_with_a_gateway_and_without_one() {
    let fixture = TelegramHome::new(&json!([]));
    let sent = (0, format!("✓ Sent to telegram:{ANN}"));
    assert_eq!(fixture.run(&["send", "telegram:7", "no", "gateway"]), sent);
    // Telegram's limit is known without a connection: 4096 code units, two for each of these characters.
    let long = "𝄞".repeat(4000);
    assert_eq!(fixture.run(&["send", "telegram:7", &long]), sent);
    let gateway = fixture.start();
    assert_eq!(fixture.run(&["send", "telegram:7", "with a gateway"]), sent);
    drop(gateway);
    let texts = fixture.texts();
    let lengths: Vec<usize> = texts.iter().map(|text| text.encode_utf16().count()).collect();
    assert_eq!((texts.len(), texts[0].as_str(), texts[3].as_str()), (4, "no gateway", "with a gateway"));
    assert!(lengths[1] > 4000 && lengths[1] <= 4096, "{lengths:?}");
    assert_eq!(texts[1].matches('𝄞').count() + texts[2].matches('𝄞').count(), 4000);

    let (code, words) = fixture.run(&["send", "slack:C1", "x"]);
    assert_eq!(code, 1);
    assert!(words.contains("slack is not set up, so nothing was sent"), "{words}");
}

#[test]
fn what_cannot_leave_waits_and_says_why() {
    let fixture = TelegramHome::new(&json!([]));
    fixture.telegram.fails("sendMessage", TelegramFault::refuse(401, "Unauthorized"));
    let output = hermes(&fixture.home, &["send", "telegram:7", "patience"]).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(said[0].starts_with("Queued for telegram:7; it leaves when a gateway runs"), "{said:?}");
    assert!(said[1].contains("Telegram rejected the token"), "{said:?}");
    // A postponed message is retried at once by the next sender, a command or a gateway.
    assert_eq!(fixture.run(&["send", "telegram:7", "and more"]).0, 0);
    assert_eq!(fixture.texts(), ["patience", "and more"]);
    fixture.telegram.fails("sendMessage", TelegramFault::refuse(401, "Unauthorized"));
    assert!(fixture.run(&["send", "telegram:7", "at last"]).1.starts_with("Queued"));
    let _gateway = fixture.start();
    until("the gateway has sent it", || fixture.texts().len() == 3);
}

#[test]
fn what_an_ended_process_left_is_sent_by_the_next_one() {
    let fixture = TelegramHome::new(&json!([]));
    fixture.telegram.fails("sendMessage", TelegramFault::Hang("never".to_owned()));
    let mut first = hermes(&fixture.home, &["send", "telegram:7", "first"]).spawn().unwrap();
    fixture.telegram.until_called_blocking("sendMessage", 1);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(fixture.run(&["send", "telegram:7", "second"]).0, 0);
    assert_eq!(fixture.texts(), ["first", "second"], "in order, and nothing is stuck");
}

#[test]
fn a_terminal_chat_writes_to_other_chats_while_a_gateway_runs() {
    let call = json!({"target": "telegram:7", "message": "dinner is **ready**"});
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "tell Ann", "tool_result": "call_send"}, "text": "told"},
        {"when": {"user_contains": "tell Ann"}, "tool": {"name": "send_message", "id": "call_send", "arguments": call}},
    ]));
    let offered = |fixture: &TelegramHome| {
        let asked = fixture.server.requests().pop().unwrap().json().clone();
        asked["tools"].to_string().contains("send_message")
    };
    fixture.run(&["chat", "-Q", "-q", "hello"]);
    assert!(!offered(&fixture), "without a gateway there is no such tool");
    let gateway = fixture.start();
    assert_eq!(fixture.run(&["chat", "-Q", "-q", "tell Ann"]), (0, "told".to_owned()));
    drop(gateway);
    assert!(offered(&fixture));
    assert_eq!(fixture.texts(), ["dinner is ready"]);
    let asked = fixture.server.requests().pop().unwrap().json().clone();
    let result = asked["messages"].as_array().unwrap().iter().rfind(|message| message["role"] == "tool");
    let result: Value = serde_json::from_str(result.unwrap()["content"].as_str().unwrap()).unwrap();
    let id = fixture.said()[0].id.to_string();
    let expected =
        json!({"success": true, "platform": "telegram", "chat_id": "7", "message_id": id, "mirrored": false});
    assert_eq!(result, expected);
}

#[test]
fn a_tick_without_a_gateway_runs_and_delivers_and_nothing_runs_twice() {
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "read the news"}, "repeat": "forever", "text": "Nothing new."},
    ]));
    let (code, made) = fixture.run(&[
        "cron",
        "create",
        "every 2h",
        "read the news",
        "--name",
        "News",
        "--deliver",
        "telegram:7",
    ]);
    assert_eq!(code, 0, "{made}");
    let id = made.lines().find_map(|line| line.strip_prefix("Created job: ")).unwrap().to_owned();
    fixture.run(&["cron", "run", &id]);
    assert_eq!(fixture.run(&["cron", "tick"]), (0, "1 job(s) run.".to_owned()));
    let texts = fixture.texts();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("News") && texts[0].contains("Nothing new."), "{texts:?}");
    assert_eq!(fixture.run(&["cron", "tick"]), (0, String::new()));
    let gateway = fixture.start();
    assert_eq!(
        (fixture.server.request_count(), fixture.said().len()),
        (1, 1),
        "the gateway does not run it again"
    );
    fixture.run(&["cron", "run", &id]);
    fixture.run(&["cron", "tick"]);
    until("the gateway has sent it", || fixture.said().len() == 2);
    // A killed gateway might not have stored that it sent the message.
    fixture.run(&["gateway", "stop"]);
    drop(gateway);
    drop(fixture.start());
    assert_eq!((fixture.server.request_count(), fixture.said().len()), (2, 2));
}

#[test]
fn pictures_of_an_answer_are_shown() {
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "a cat"}, "repeat": "forever",
         "text": "Look:\n\n![A cat](https://e.org/cat.png)\n\nand ![this](https://e.org/dance.gif?w=1), and `![](https://e.org/code.png)`"},
    ]));
    let gateway = fixture.start();
    fixture.telegram.person(ANN, "Ann").says(ANN, "show me a cat");
    until("both are there", || fixture.said().len() >= 3);
    drop(gateway);
    let seen: Vec<_> = fixture
        .said()
        .into_iter()
        .map(|posted| (posted.kind, posted.text, posted.file.map(|(name, _)| name)))
        .collect();
    let said = |kind: &str, text: &str, file: Option<&str>| {
        (kind.to_owned(), text.to_owned(), file.map(str::to_owned))
    };
    assert_eq!(
        seen,
        [
            said("text", "Look:\n\nand , and ![](https://e.org/code.png)", None),
            said("photo", "A cat", Some("https://e.org/cat.png")),
            said("animation", "this", Some("https://e.org/dance.gif?w=1")),
        ]
    );
}

/// Checks that the chat that started a process hears of its end after the gateway was killed: of one that ends later,
/// and of one that ended while no gateway ran.
#[test]
fn the_end_of_a_process_is_told_after_a_restart() {
    let start = |id: &str, file: &str| {
        let shell = format!("until [ -e {file} ]; do sleep 0.05; done; : > {file}.done");
        let arguments = json!({"command": shell, "background": true, "notify_on_complete": true});
        json!({"when": {"user_contains": file}, "tool": {"name": "terminal", "id": id, "arguments": arguments}})
    };
    let started = |id: &str, file: &str| json!({"when": {"user_contains": file, "tool_result": id}, "text": format!("{file} is watched")});
    let fixture = TelegramHome::new(&json!([
        started("call_a", "early"),
        start("call_a", "early"),
        started("call_b", "late"),
        start("call_b", "late"),
    ]));
    let (gateway, ann) = (fixture.start(), fixture.telegram.person(ANN, "Ann"));
    for file in ["early", "late"] {
        ann.says(ANN, file);
        fixture.telegram.until_said_blocking(ANN, &format!("{file} is watched"));
    }
    drop(gateway);
    let user = fixture.home.join("user");
    std::fs::write(user.join("early"), "").unwrap();
    until("the first has ended", || user.join("early.done").exists());
    let gateway = fixture.start();
    let missed = fixture.telegram.until_said_blocking(ANN, "ended while Hermes was not running");
    assert!(missed.text.contains("early"), "{}", missed.text);
    std::fs::write(user.join("late"), "").unwrap();
    let seen = fixture.telegram.until_said_blocking(ANN, "Hermes was restarted while it ran");
    assert!(seen.text.contains("late"), "{}", seen.text);
    drop(gateway);
}

#[test]
fn a_question_in_a_chat_waits_as_long_as_configured() {
    let arguments = json!({"question": "Which colour?", "choices": ["red", "blue"]});
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "paint", "tool_result": "call_ask"}, "text": "then I choose"},
        {"when": {"user_contains": "paint"}, "tool": {"name": "clarify", "id": "call_ask", "arguments": arguments}},
    ]));
    assert_eq!(fixture.run(&["config", "set", "agent.clarify_timeout", "1"]).0, 0);
    let gateway = fixture.start();
    fixture.telegram.person(ANN, "Ann").says(ANN, "paint the door");
    fixture.telegram.until_said_blocking(ANN, "Which colour?");
    fixture.telegram.until_said_blocking(ANN, "then I choose");
    drop(gateway);
    let is_told = |request: &hermes_testkit::RecordedRequest| request.body_text().contains("No answer came");
    assert!(fixture.server.requests().iter().any(is_told), "the model is told that nobody answered");
}

#[test]
fn commands_are_told_which_chat_or_job_they_work_for() {
    let chat = "echo \"$HERMES_SESSION_PLATFORM/$HERMES_SESSION_CHAT_ID/$HERMES_SESSION_KEY\"";
    let job =
        "echo \"$HERMES_CRON_AUTO_DELIVER_PLATFORM/$HERMES_CRON_AUTO_DELIVER_CHAT_ID/$HERMES_SESSION_KEY.\"";
    let call = |when: &str, id: &str, command: &str| json!({"when": {"user_contains": when}, "tool": {"name": "terminal", "id": id, "arguments": {"command": command}}});
    let end = |when: &str, id: &str| json!({"when": {"user_contains": when, "tool_result": id}, "text": format!("{when} is done")});
    let fixture = TelegramHome::new(&json!([
        end("the chat", "call_chat"),
        call("the chat", "call_chat", chat),
        end("the job", "call_job"),
        call("the job", "call_job", job),
    ]));
    let gateway = fixture.start();
    fixture.telegram.person(ANN, "Ann").says(ANN, "the chat");
    fixture.telegram.until_said_blocking(ANN, "the chat is done");
    drop(gateway);
    let create = ["cron", "create", "every 2h", "the job", "--name", "J", "--deliver", "telegram:7"];
    let (code, made) = fixture.run(&create);
    assert_eq!(code, 0, "{made}");
    let id = made.lines().find_map(|line| line.strip_prefix("Created job: ")).unwrap().to_owned();
    fixture.run(&["cron", "run", &id]);
    assert_eq!(fixture.run(&["cron", "tick"]), (0, "1 job(s) run.".to_owned()));
    let requests = fixture.server.requests();
    let told = |words: &str| requests.iter().any(|request| request.body_text().contains(words));
    assert!(told("telegram/7/agent:main:telegram:dm:7"), "the chat's command knows its chat");
    assert!(told("telegram/7/."), "the job's command knows where its answer goes, and no chat's key");
}
