//! A complete chat on each platform, through the built program and an emulated platform.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hermes_testkit::discord::{self, FakeDiscord, FakeDiscordId, FakeUserMessage};
use hermes_testkit::slack::{self, FakeSlack};
use hermes_testkit::telegram::FakeTelegram;
use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::{Value, json};

use super::support::{program, until, until_found};

/// A platform with one user and their direct chat with the bot.
pub(crate) trait PlatformDriver {
    fn platform(&self) -> &'static str;
    /// Returns `platforms.<platform>.extra`.
    fn extra(&self) -> Value;
    fn env(&self) -> String;
    fn says(&self, text: &str);
    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]);
    /// Presses a button of the newest message that has it.
    fn presses(&self, label: &str);
    /// Returns the texts of the bot's messages, oldest first, as users see them.
    fn said(&self) -> Vec<String>;
    /// Returns the files the bot sent.
    fn files(&self) -> Vec<(String, Vec<u8>)>;
    /// Returns the length limit of a message.
    fn limit(&self) -> usize;

    /// Tells whether the platform shows which tools run.
    fn shows_tools(&self) -> bool {
        true
    }

    /// Tells whether the platform has files.
    fn has_files(&self) -> bool {
        true
    }

    fn until_said(&self, part: &str) -> String {
        let short = |text: String| text.chars().take(200).collect::<String>();
        let all = || self.said().into_iter().map(short).collect::<Vec<_>>();
        let what = || format!("{part} on {}; there is {:#?}", self.platform(), all());
        until_found(what, || self.said().into_iter().rfind(|text| text.contains(part)))
    }
}

pub(crate) struct SlackDriver(pub(crate) FakeSlack);

impl PlatformDriver for SlackDriver {
    fn platform(&self) -> &'static str {
        "slack"
    }

    fn extra(&self) -> Value {
        json!({"base_url": self.0.base_url()})
    }

    fn env(&self) -> String {
        format!("SLACK_BOT_TOKEN={}\nSLACK_APP_TOKEN={}\n", slack::BOT_TOKEN, slack::APP_TOKEN)
    }

    fn says(&self, text: &str) {
        // Slack's client treats text that begins with a slash as its own command.
        self.0.says("U1", "D1", &text.replacen('/', "!", usize::from(text.starts_with('/'))));
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        self.0.shares("U1", "D1", text, (name, mime, bytes));
    }

    fn presses(&self, label: &str) {
        let messages = self.0.said("D1");
        let message = messages.iter().rfind(|message| message.buttons().iter().any(|button| button == label));
        self.0.presses("U1", "D1", message.unwrap(), label);
    }

    fn said(&self) -> Vec<String> {
        self.0.said("D1").into_iter().map(|message| message.text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.0.said("D1").into_iter().flat_map(|message| message.files).collect()
    }

    fn limit(&self) -> usize {
        39_000
    }
}

pub(crate) struct TelegramDriver(pub(crate) FakeTelegram);

pub(crate) const TELEGRAM_TOKEN: &str = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw";
const ANN: i64 = 7;

impl PlatformDriver for TelegramDriver {
    fn platform(&self) -> &'static str {
        "telegram"
    }

    fn extra(&self) -> Value {
        json!({"base_url": self.0.base_url()})
    }

    fn env(&self) -> String {
        format!("TELEGRAM_BOT_TOKEN={TELEGRAM_TOKEN}\n")
    }

    fn says(&self, text: &str) {
        self.0.person(ANN, "Ann").says(ANN, text);
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        let mut document = self.0.file(&format!("documents/{name}"), bytes);
        document["file_name"] = json!(name);
        document["mime_type"] = json!(mime);
        self.0.person(ANN, "Ann").sends(ANN, json!({"document": document, "caption": text}));
    }

    fn presses(&self, label: &str) {
        self.0.person(ANN, "Ann").presses(ANN, label);
    }

    fn said(&self) -> Vec<String> {
        self.0.messages(ANN).into_iter().map(|posted| posted.text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.0.messages(ANN).into_iter().filter_map(|posted| posted.file).collect()
    }

    fn limit(&self) -> usize {
        4096
    }
}

pub(crate) struct DiscordDriver {
    pub(crate) discord: FakeDiscord,
    pub(crate) ann: FakeDiscordId,
    pub(crate) chat: FakeDiscordId,
}

impl PlatformDriver for DiscordDriver {
    fn platform(&self) -> &'static str {
        "discord"
    }

    fn extra(&self) -> Value {
        json!({"base_url": self.discord.base_url()})
    }

    fn env(&self) -> String {
        format!("DISCORD_BOT_TOKEN={}\n", discord::TOKEN)
    }

    fn says(&self, text: &str) {
        self.discord.says(self.ann, self.chat, text);
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        self.discord.writes(self.ann, self.chat, FakeUserMessage::new(text).file(name, mime, bytes));
    }

    fn presses(&self, label: &str) {
        let messages = self.discord.said(self.chat);
        let message = messages.iter().rfind(|message| message.buttons().contains(&label));
        self.discord.presses(self.ann, message.unwrap(), label);
    }

    fn said(&self) -> Vec<String> {
        self.discord.said(self.chat).into_iter().map(|message| message.content).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let messages = self.discord.said(self.chat);
        let attachments = messages.iter().flat_map(|message| &message.attachments);
        let name = |file: &Value| file["filename"].as_str().unwrap().to_owned();
        attachments.map(|file| (name(file), fetch(file["url"].as_str().unwrap()))).collect()
    }

    fn limit(&self) -> usize {
        2000
    }
}

/// Downloads a file from an emulator.
fn fetch(url: &str) -> Vec<u8> {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    answer.split_off(at + 4)
}

/// The program with its own home, connected to an emulated platform.
pub(crate) struct GatewayUnderTest {
    pub(crate) home: TempHome,
    server: ModelServer,
}

/// A running gateway; it is killed when dropped.
pub(crate) struct GatewayChild(Child);

impl GatewayChild {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for GatewayChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl GatewayUnderTest {
    fn new(stage: &dyn PlatformDriver) -> Self {
        let server = ModelServer::start_blocking(script(stage.limit())).unwrap();
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
            "platforms": {stage.platform(): {"extra": stage.extra()}},
            "terminal": {"sandbox": "off"},
        });
        let env = format!("{}GATEWAY_HOME=1\n", stage.env());
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir_all(home.join("user/danger")).unwrap();
        std::fs::write(home.join("user/report.csv"), "a,b\n1,2\n").unwrap();
        // A secret that only the sandbox's list of unreadable files names.
        std::fs::create_dir_all(home.join("user/.config/op")).unwrap();
        std::fs::write(home.join("user/.config/op/vault.csv"), "a,b\n1,2\n").unwrap();
        Self { home, server }
    }

    fn user(&self) -> PathBuf {
        self.home.join("user")
    }

    fn hermes(&self, arguments: &[&str]) -> Command {
        hermes(&self.home, arguments)
    }

    /// Starts the gateway and waits until it is connected to the platform.
    fn start(&self, platform: &str) -> GatewayChild {
        let gateway = start_gateway(&self.home);
        until("the platform is connected", || {
            let text = std::fs::read_to_string(self.home.join("gateway_state.json")).unwrap_or_default();
            let state: Value = serde_json::from_str(&text).unwrap_or_default();
            state["pid"] == gateway.0.id() && state["platforms"][platform]["state"] == "connected"
        });
        gateway
    }
}

/// Returns a command for the program in that home, which is also the user's home.
pub(crate) fn hermes(home: &TempHome, arguments: &[&str]) -> Command {
    command_of(&program(), home, arguments)
}

pub(crate) fn command_of(program: &str, home: &TempHome, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(home.join("user"))
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", home.join("user"))
        .env("PATH", "/usr/bin:/bin")
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    command
}

pub(crate) fn start_gateway(home: &TempHome) -> GatewayChild {
    start_gateway_of(&program(), home)
}

/// Starts the gateway from another binary.
pub(crate) fn start_gateway_of(program: &str, home: &TempHome) -> GatewayChild {
    let log = std::fs::File::options().create(true).append(true).open(home.join("gateway.out")).unwrap();
    GatewayChild(
        command_of(program, home, &["gateway", "run"]).stdout(Stdio::null()).stderr(log).spawn().unwrap(),
    )
}

/// Returns the replies of the model.
fn script(limit: usize) -> ModelScript {
    let long: String =
        (0..).map(|line| format!("line {line} of a **long** answer\n")).take(limit / 12).collect();
    let replies = json!([
        {"when": {"user_contains": "use a tool"},
         "tool": {"name": "terminal", "id": "call_tool", "arguments": {"command": "echo tool-ran"}}},
        {"when": {"user_contains": "a long answer"}, "repeat": "forever", "text": format!("```text\nfirst\n```\n{long}the end")},
        {"when": {"user_contains": "the word is plum"}, "repeat": "forever", "text": "I read about the plum"},
        {"when": {"user_contains": "the report"}, "repeat": "forever", "text": "Here it is. MEDIA:~/report.csv MEDIA:~/.config/op/vault.csv"},
        {"when": {"user_contains": "hang about"}, "repeat": "forever", "events": ["headers", "stall"]},
        {"when": {"user_contains": "be quick"}, "repeat": "forever", "text": "quick as can be"},
        {"when": {"user_contains": "remove the folder"},
         "tool": {"name": "terminal", "id": "call_danger", "arguments": {"command": "rm -rf danger"}}},
        {"when": {"user_contains": "remove the folder", "tool_result": "call_danger"}, "text": "the folder is gone"},
        {"when": {"user_contains": "use a tool", "tool_result": "call_tool"}, "text": "the tool is done"},
        {"when": {"user_contains": "think slowly"}, "repeat": "forever", "events": [{"wait": "slow"}, {"text": "slow and steady"}]},
    ]);
    let script = json!({"default": "echo", "replies": replies});
    ModelScript::from_yaml("life", &script.to_string()).unwrap()
}

/// Covers an unknown user, pairing, tools, long answers, files, interrupt, approval, reset and restart.
pub(crate) fn live(stage: &dyn PlatformDriver) {
    let house = GatewayUnderTest::new(stage);
    let gateway = house.start(stage.platform());

    stage.says("hello");
    let told = stage.until_said("pairing code");
    let words = format!("hermes pairing approve {} ", stage.platform());
    let code: String =
        told.split(&words).nth(1).unwrap().chars().take_while(char::is_ascii_alphanumeric).collect();
    assert_eq!(house.server.request_count(), 0, "a stranger reaches no model");
    assert!(
        house.hermes(&["pairing", "approve", stage.platform(), &code]).output().unwrap().status.success()
    );

    stage.says("please use a tool");
    stage.until_said("the tool is done");
    if stage.shows_tools() {
        stage.until_said("terminal");
    }

    stage.says("give me a long answer");
    stage.until_said("the end");
    let parts: Vec<String> = stage.said().into_iter().filter(|text| text.contains("of a ")).collect();
    assert!(parts.len() > 1, "{} parts", parts.len());
    let whole = parts.join("\n");
    for line in 0..stage.limit() / 12 {
        assert!(whole.contains(&format!("line {line} of")), "line {line} is lost");
    }

    if stage.has_files() {
        stage.sends("what does it say?", "note.txt", "text/plain", b"the word is plum");
        stage.until_said("I read about the plum");
    }
    stage.says("send the report");
    stage.until_said("Here it is.");
    if stage.has_files() {
        until("the file is there", || {
            stage.files().iter().any(|(name, bytes)| name == "report.csv" && bytes == b"a,b\n1,2\n")
        });
    } else {
        stage.until_said("report.csv");
    }
    stage.until_said("File: ~/.config/op/vault.csv");
    assert!(!stage.files().iter().any(|(name, _)| name == "vault.csv"), "a secret was sent");

    stage.says("hang about");
    until("it hangs", || {
        house
            .server
            .requests()
            .iter()
            .any(|request| request.last_user_text().is_some_and(|text| text.contains("hang about")))
    });
    stage.says("be quick");
    stage.until_said("quick as can be");

    stage.says("remove the folder");
    stage.until_said("requires approval");
    assert!(house.user().join("danger").exists());
    stage.presses("Allow once");
    stage.until_said("the folder is gone");
    assert!(!house.user().join("danger").exists());

    stage.says("/new");
    stage.until_said("Session reset");

    stage.says("think slowly");
    house.server.wait_until_at_blocking("slow", 1);
    drop(gateway);
    let again = house.start(stage.platform());
    house.server.wait_until_at_blocking("slow", 1);
    house.server.open("slow");
    stage.until_said("slow and steady");
    stage.says("and now?");
    stage.until_said("and now?");
    let asked = house.server.requests();
    let last = asked
        .iter()
        .rfind(|request| request.last_user_text().is_some_and(|text| text == "and now?"))
        .unwrap();
    assert!(last.json().to_string().contains("slow and steady"), "the conversation goes on");
    let answers = stage.said().iter().filter(|text| text.contains("slow and steady")).count();
    assert_eq!(answers, 1, "{:?}", stage.said());
    drop(again);
}

#[test]
fn slack() {
    let slack = FakeSlack::start().unwrap();
    slack.person("U1", "Ann");
    slack.direct("D1");
    live(&SlackDriver(slack));
}

#[test]
fn telegram() {
    live(&TelegramDriver(FakeTelegram::start(TELEGRAM_TOKEN).unwrap()));
}

#[test]
fn discord() {
    let discord = FakeDiscord::start().unwrap();
    let ann = discord.person("ann", Some("Ann"));
    let chat = discord.dm(ann);
    live(&DiscordDriver { discord, ann, chat });
}

/// A picture of one pixel.
const DOT: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0,
    1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 10, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63, 0x68, 0,
    0, 0, 0x82, 0, 0x81, 0x77, 0xcd, 0x72, 0xb6, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// The wires, and how each carries a picture.
pub(crate) const PICTURE_WIRES: [(&str, &str); 4] = [
    ("chat_completions", r#""type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo"#),
    ("codex_responses", r#""type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo"#),
    ("anthropic_messages", r#""type":"base64","media_type":"image/png","data":"iVBORw0KGgo"#),
    ("bedrock_converse", r#"{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo"#),
];

/// Credentials with which requests to Bedrock are signed.
pub(crate) const AWS_KEYS: &str =
    "AWS_ACCESS_KEY_ID=AKIATEST\nAWS_SECRET_ACCESS_KEY=secret\nAWS_REGION=us-east-1\n";

/// Returns the provider and the model that sees pictures on a wire.
pub(crate) fn picture_model(mode: &str) -> (&'static str, &'static str) {
    if mode == "bedrock_converse" { ("bedrock", "amazon.nova-pro-v1:0") } else { ("custom", "gpt-4o") }
}

/// Sends a picture through the gateway to models of every wire.
fn show_pictures(stage: impl Fn() -> Box<dyn PlatformDriver>) {
    for (mode, carried) in PICTURE_WIRES {
        let stage = stage();
        let script = json!({"replies": [
            {"when": {"user_contains": "what is this"}, "text": "A grey dot.", "repeat": "forever"},
        ], "default": "echo"});
        let server =
            ModelServer::start_blocking(ModelScript::from_yaml("dot", &script.to_string()).unwrap()).unwrap();
        let (provider, model) = picture_model(mode);
        let config = json!({
            "model": {
                "provider": provider, "base_url": server.base_url(), "default": model, "api_mode": mode,
            },
            "platforms": {stage.platform(): {"extra": stage.extra()}},
            "agent": {"image_input_mode": "native"},
        });
        let env = format!("{}GATEWAY_ALLOW_ALL_USERS=true\n{AWS_KEYS}", stage.env());
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        let under_test = GatewayUnderTest { home, server };
        let gateway = under_test.start(stage.platform());
        stage.sends("what is this", "dot.png", "image/png", DOT);
        stage.until_said("A grey dot.");
        let bodies: Vec<String> =
            under_test.server.requests().iter().map(|request| request.body_text().into_owned()).collect();
        assert!(
            bodies.iter().any(|body| body.contains(carried)),
            "{mode} on {}: {bodies:#?}",
            stage.platform()
        );
        drop(gateway);
    }
}

#[test]
fn pictures_of_telegram_reach_models_of_every_wire() {
    show_pictures(|| Box::new(TelegramDriver(FakeTelegram::start(TELEGRAM_TOKEN).unwrap())));
}

#[test]
fn pictures_of_discord_reach_models_of_every_wire() {
    show_pictures(|| {
        let discord = FakeDiscord::start().unwrap();
        let ann = discord.person("ann", Some("Ann"));
        let chat = discord.dm(ann);
        Box::new(DiscordDriver { discord, ann, chat })
    });
}

#[test]
fn pictures_of_slack_reach_models_of_every_wire() {
    show_pictures(|| {
        let slack = FakeSlack::start().unwrap();
        slack.person("U1", "Ann");
        slack.direct("D1");
        Box::new(SlackDriver(slack))
    });
}
