//! Complete chats on the platforms that came later, events of a house, and messages to all of them from the shell.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use hermes_testkit::dingtalk::{self, FakeDingTalk};
use hermes_testkit::discord::FakeDiscord;
use hermes_testkit::homeassistant::{self, FakeHomeAssistant};
use hermes_testkit::mail::{self, FakeMail, SentMail};
use hermes_testkit::matrix::{self, FakeMatrix};
use hermes_testkit::mattermost::{self, FakeMattermost};
use hermes_testkit::signal::{self, FakeSignal};
use hermes_testkit::slack::FakeSlack;
use hermes_testkit::sms::{self, FakeTwilio};
use hermes_testkit::telegram::FakeTelegram;
use hermes_testkit::whatsapp::FakeWhatsAppBridge;
use hermes_testkit::whatsapp_cloud::{self, FakeWhatsAppCloud};
use hermes_testkit::{ModelScript, ModelServer, TempHome, fixture};
use serde_json::{Value, json};

use super::life::{
    DiscordDriver, PlatformDriver, SlackDriver, TELEGRAM_TOKEN, TelegramDriver, hermes, live, start_gateway,
};
use super::support::{until, until_found};

const ANN: &str = "+4915112345678";
const ANN_DIGITS: &str = "4915112345678";
const PUBLIC: &str = "https://hermes.example.org/webhooks/twilio";
const STAFF: &str = "staff1";
const DIRECT: &str = "cid-ann";

fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

struct SmsDriver {
    twilio: FakeTwilio,
    port: u16,
}

impl SmsDriver {
    /// Receives requests at the port that webhooks share.
    fn new() -> Self {
        let (twilio, port) = (FakeTwilio::start().unwrap(), free_port());
        twilio.set_webhook(&format!("http://127.0.0.1:{port}/webhooks/twilio"), PUBLIC);
        Self { twilio, port }
    }
}

impl PlatformDriver for SmsDriver {
    fn platform(&self) -> &'static str {
        "sms"
    }

    fn extra(&self) -> Value {
        json!({"base_url": self.twilio.base_url()})
    }

    fn env(&self) -> String {
        format!(
            "TWILIO_ACCOUNT_SID={}\nTWILIO_AUTH_TOKEN={}\nTWILIO_PHONE_NUMBER={}\nSMS_WEBHOOK_URL={PUBLIC}\nWEBHOOK_PORT={}\n",
            sms::ACCOUNT,
            sms::AUTH_TOKEN,
            sms::NUMBER,
            self.port
        )
    }

    fn says(&self, text: &str) {
        self.twilio.says(ANN, text);
    }

    fn sends(&self, _: &str, _: &str, _: &str, _: &[u8]) {
        panic!("SMS has no files");
    }

    fn presses(&self, label: &str) {
        assert_eq!(label, "Allow once");
        self.says("/approve");
    }

    fn said(&self) -> Vec<String> {
        self.twilio.sent(ANN).into_iter().map(|sms| sms.body).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }

    fn limit(&self) -> usize {
        1600
    }

    fn shows_tools(&self) -> bool {
        false
    }

    fn has_files(&self) -> bool {
        false
    }
}

struct WhatsAppCloudDriver {
    graph: FakeWhatsAppCloud,
    port: u16,
}

impl WhatsAppCloudDriver {
    fn new() -> Self {
        let (graph, port) = (FakeWhatsAppCloud::start().unwrap(), free_port());
        graph.set_webhook(&format!("http://127.0.0.1:{port}/whatsapp/webhook"));
        graph.retry_webhooks();
        Self { graph, port }
    }
}

impl PlatformDriver for WhatsAppCloudDriver {
    fn platform(&self) -> &'static str {
        "whatsapp_cloud"
    }

    fn extra(&self) -> Value {
        json!({"base_url": self.graph.base_url()})
    }

    fn env(&self) -> String {
        format!(
            "WHATSAPP_CLOUD_PHONE_NUMBER_ID={}\nWHATSAPP_CLOUD_ACCESS_TOKEN={}\nWHATSAPP_CLOUD_APP_SECRET={}\nWEBHOOK_PORT={}\n",
            whatsapp_cloud::PHONE_NUMBER_ID,
            whatsapp_cloud::ACCESS_TOKEN,
            whatsapp_cloud::APP_SECRET,
            self.port
        )
    }

    fn says(&self, text: &str) {
        self.graph.says(ANN_DIGITS, text);
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        self.graph.sends_file(ANN_DIGITS, "document", (name, mime, bytes), Some(text));
    }

    fn presses(&self, label: &str) {
        let messages = self.graph.sent(ANN_DIGITS);
        let has = |message: &&whatsapp_cloud::FakeWhatsAppMessage| {
            message.choices().iter().any(|(_, title)| title == label)
        };
        self.graph.presses(ANN_DIGITS, messages.iter().rfind(has).unwrap(), label);
    }

    fn said(&self) -> Vec<String> {
        self.graph.sent(ANN_DIGITS).iter().map(whatsapp_cloud::FakeWhatsAppMessage::text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.graph.sent(ANN_DIGITS).into_iter().filter_map(|message| message.file).collect()
    }

    fn limit(&self) -> usize {
        4096
    }
}

struct SignalDriver(FakeSignal);

impl PlatformDriver for SignalDriver {
    fn platform(&self) -> &'static str {
        "signal"
    }

    fn extra(&self) -> Value {
        json!({})
    }

    fn env(&self) -> String {
        format!("SIGNAL_HTTP_URL={}\nSIGNAL_ACCOUNT={}\n", self.0.base_url(), signal::ACCOUNT)
    }

    fn says(&self, text: &str) {
        self.0.says(ANN, text);
    }

    fn sends(&self, text: &str, _: &str, mime: &str, bytes: &[u8]) {
        self.0.shares(ANN, text, mime, bytes);
    }

    fn presses(&self, label: &str) {
        assert_eq!(label, "Allow once");
        self.says("/approve");
    }

    fn said(&self) -> Vec<String> {
        self.0.sent(ANN).into_iter().map(|message| message.text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let files = self.0.sent(ANN).into_iter().flat_map(|message| message.files);
        files.map(|bytes| ("report.csv".to_owned(), bytes)).collect()
    }

    fn limit(&self) -> usize {
        8000
    }
}

struct MattermostDriver {
    server: FakeMattermost,
    ann: String,
    chat: String,
}

impl PlatformDriver for MattermostDriver {
    fn platform(&self) -> &'static str {
        "mattermost"
    }

    fn extra(&self) -> Value {
        json!({})
    }

    fn env(&self) -> String {
        format!("MATTERMOST_URL={}\nMATTERMOST_TOKEN={}\n", self.server.base_url(), mattermost::TOKEN)
    }

    fn says(&self, text: &str) {
        // The server takes what begins with a slash as a command of its own.
        let text = text.replacen('/', "!", usize::from(text.starts_with('/')));
        self.server.says(&self.ann, &self.chat, &text);
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        self.server.shares(&self.ann, &self.chat, text, (name, mime, bytes));
    }

    fn presses(&self, label: &str) {
        assert_eq!(label, "Allow once");
        self.says("/approve");
    }

    fn said(&self) -> Vec<String> {
        self.server.said(&self.chat).into_iter().map(|post| post.message).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.server.said(&self.chat).into_iter().flat_map(|post| post.files).collect()
    }

    fn limit(&self) -> usize {
        4000
    }
}

struct DingTalkDriver(FakeDingTalk);

impl PlatformDriver for DingTalkDriver {
    fn platform(&self) -> &'static str {
        "dingtalk"
    }

    fn extra(&self) -> Value {
        json!({"base_url": self.0.base_url()})
    }

    fn env(&self) -> String {
        format!(
            "DINGTALK_CLIENT_ID={}\nDINGTALK_CLIENT_SECRET={}\n",
            dingtalk::CLIENT_ID,
            dingtalk::CLIENT_SECRET
        )
    }

    fn says(&self, text: &str) {
        self.0.says(STAFF, DIRECT, None, text);
    }

    fn sends(&self, _: &str, name: &str, _: &str, bytes: &[u8]) {
        // A file comes without a text.
        let code = self.0.file(name, bytes);
        let fields = json!({"msgtype": "file", "content": {"downloadCode": code, "fileName": name}});
        self.0.sends(STAFF, DIRECT, None, &fields);
    }

    fn presses(&self, label: &str) {
        assert_eq!(label, "Allow once");
        self.says("/approve");
    }

    fn said(&self) -> Vec<String> {
        self.0.sent(DIRECT).into_iter().map(|message| message.text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.0.sent(STAFF).into_iter().filter_map(|message| message.file).collect()
    }

    fn limit(&self) -> usize {
        20_000
    }
}

pub(crate) struct WhatsAppDriver {
    pub(crate) bridge: FakeWhatsAppBridge,
    folder: tempfile::TempDir,
}

impl WhatsAppDriver {
    /// In place of the bridge, a program that names the port of the emulated one.
    pub(crate) fn new() -> Self {
        let (bridge, folder) = (FakeWhatsAppBridge::start().unwrap(), tempfile::tempdir().unwrap());
        let script = format!(
            "#!/bin/sh\nread -r token\necho '{{\"event\":\"listening\",\"port\":{}}}'\necho '{{\"event\":\"connected\"}}'\n\
             echo complaint >&2\nwhile read -r line; do :; done\n",
            bridge.port()
        );
        let path = folder.path().join("bridge");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Self { bridge, folder }
    }
}

impl PlatformDriver for WhatsAppDriver {
    fn platform(&self) -> &'static str {
        "whatsapp"
    }

    fn extra(&self) -> Value {
        json!({"bridge_script": self.folder.path().join("bridge")})
    }

    fn env(&self) -> String {
        "WHATSAPP_ENABLED=true\nWHATSAPP_MODE=bot\n".to_owned()
    }

    fn says(&self, text: &str) {
        self.bridge.says(ANN_DIGITS, text);
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        let path = self.folder.path().join("received");
        std::fs::write(&path, bytes).unwrap();
        self.bridge.shares(ANN_DIGITS, text, "document", (name, mime, &path.to_string_lossy()));
    }

    fn presses(&self, label: &str) {
        assert_eq!(label, "Allow once");
        self.says("/approve");
    }

    fn said(&self) -> Vec<String> {
        self.bridge.sent(ANN_DIGITS).into_iter().map(|message| message.text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let files = self.bridge.sent(ANN_DIGITS).into_iter().filter_map(|message| message.file);
        files.map(|(_, name, bytes)| (name, bytes)).collect()
    }

    fn limit(&self) -> usize {
        4096
    }
}

#[test]
fn whatsapp() {
    live(&WhatsAppDriver::new());
}

#[test]
fn a_bridge_that_was_killed_is_started_again_and_ends_with_the_gateway() {
    let driver = WhatsAppDriver::new();
    let script = ModelScript::from_yaml("echo", "default: echo\nreplies: []\n").unwrap();
    let model = ModelServer::start_blocking(script).unwrap();
    let config = json!({
        "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"},
        "platforms": {"whatsapp": {"extra": driver.extra()}},
    });
    let env = format!("{}WHATSAPP_ALLOWED_USERS={ANN_DIGITS}\n", driver.env());
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    let pid_file = driver.folder.path().join("pid");
    let bridge = driver.folder.path().join("bridge");
    let text = std::fs::read_to_string(&bridge).unwrap();
    let text = text.replace("read -r token", &format!("read -r token\necho $$ >> {}", pid_file.display()));
    std::fs::write(&bridge, text).unwrap();
    let gateway = start_gateway(&home);
    driver.says("one");
    driver.until_said("one");
    let pids = || {
        std::fs::read_to_string(&pid_file).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let first = pids().remove(0);
    assert!(std::process::Command::new("/bin/kill").args(["-9", &first]).status().unwrap().success());
    until("another one runs", || pids().len() == 2);
    driver.says("two");
    driver.until_said("two");
    let second = pids().remove(1);
    drop(gateway);
    until("it ends with the gateway", || !Path::new(&format!("/proc/{second}")).exists());
    let log = std::fs::read_to_string(home.join("whatsapp/bridge.log")).unwrap();
    assert_eq!(log.matches("complaint").count(), 2);
}

#[test]
fn a_phone_is_linked_by_a_code_in_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let bridge = folder.path().join("bridge");
    let script = "#!/bin/sh\necho \"$@\" > \"$0.arguments\"\nread -r line\n\
                  echo '{\"event\":\"disconnected\",\"text\":\"lost\"}'\n\
                  echo '{\"event\":\"qr\",\"payload\":\"2@abc,def,ghi\"}'\necho '{\"event\":\"RESULT\",\"text\":\"refused it\"}'\n";
    let config = json!({"platforms": {"whatsapp": {"extra": {"bridge_script": bridge}}}});
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file("").build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    for (result, code) in [("linked", 0), ("refused", 1)] {
        std::fs::write(&bridge, script.replace("RESULT", result)).unwrap();
        std::fs::set_permissions(&bridge, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let arguments = ["whatsapp", "--mode", "bot", "--allow", "+4915112345678"];
        let output = hermes(&home, &arguments).output().unwrap();
        let (said, complained) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{said}{complained}");
        assert!(said.contains("Linked devices") && said.contains("██ ▄▄▄▄▄ █"), "{said}");
        assert!(complained.contains("lost"), "{complained}");
        assert_eq!(said.contains("✓ The phone is linked"), code == 0, "{said}");
        assert_eq!(complained.contains("refused it"), code == 1, "{complained}");
    }
    let arguments = std::fs::read_to_string(folder.path().join("bridge.arguments")).unwrap();
    assert!(arguments.contains("--pair-only") && arguments.contains("whatsapp/session"), "{arguments}");
    let env = std::fs::read_to_string(home.join(".env")).unwrap();
    for line in ["WHATSAPP_ENABLED=true", "WHATSAPP_MODE=bot", "WHATSAPP_ALLOWED_USERS=4915112345678"] {
        assert!(env.contains(line), "{env}");
    }
}

const ANN_MAIL: &str = "ann@example.org";

struct EmailDriver(FakeMail);

impl PlatformDriver for EmailDriver {
    fn platform(&self) -> &'static str {
        "email"
    }

    fn extra(&self) -> Value {
        json!({"imap_security": "plain", "smtp_security": "plain", "unauthorized_dm_behavior": "pair"})
    }

    fn env(&self) -> String {
        format!(
            "EMAIL_ADDRESS={}\nEMAIL_PASSWORD={}\nEMAIL_IMAP_HOST=127.0.0.1\nEMAIL_IMAP_PORT={}\n\
             EMAIL_SMTP_HOST=127.0.0.1\nEMAIL_SMTP_PORT={}\nEMAIL_AUTHSERV_ID={}\n",
            mail::ADDRESS,
            mail::PASSWORD,
            self.0.imap_port(),
            self.0.smtp_port(),
            mail::SERVER
        )
    }

    fn says(&self, text: &str) {
        self.0.says(ANN_MAIL, "", text);
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        self.0.shares(ANN_MAIL, "", text, (name, mime, bytes));
    }

    fn presses(&self, label: &str) {
        assert_eq!(label, "Allow once");
        self.says("/approve");
    }

    fn said(&self) -> Vec<String> {
        self.0.sent(ANN_MAIL).iter().map(SentMail::text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.0.sent(ANN_MAIL).iter().flat_map(SentMail::files).collect()
    }

    fn limit(&self) -> usize {
        50_000
    }

    fn shows_tools(&self) -> bool {
        false
    }
}

#[test]
fn email() {
    let server = FakeMail::start().unwrap();
    live(&EmailDriver(server));
}

#[test]
fn an_unknown_sender_of_mail_gets_no_answer_and_an_answer_is_one_mail_with_its_files() {
    let driver = EmailDriver(FakeMail::start().unwrap());
    let script = json!({"default": "echo", "replies": [
        {"when": {"user_contains": "the report"}, "text": "Here it is. MEDIA:~/report.csv"},
    ]});
    let model =
        ModelServer::start_blocking(ModelScript::from_yaml("mail", &script.to_string()).unwrap()).unwrap();
    let config = json!({
        "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"},
        "platforms": {"email": {"extra": {"imap_security": "plain", "smtp_security": "plain"}}},
    });
    let env = format!("{}EMAIL_ALLOWED_USERS={ANN_MAIL}\n", driver.env());
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    std::fs::write(home.join("user/report.csv"), "a,b\n1,2\n").unwrap();
    let gateway = start_gateway(&home);
    until("it is connected", || {
        let text = std::fs::read_to_string(home.join("gateway_state.json")).unwrap_or_default();
        text.contains("\"connected\"")
    });
    driver.0.says("eve@example.org", "Hi", "are you there?");
    let asked = driver.0.says(ANN_MAIL, "Numbers", "send the report");
    let answer = driver.0.until_sent_blocking(ANN_MAIL, "Here it is.");
    assert_eq!(answer.files(), [("report.csv".to_owned(), b"a,b\n1,2\n".to_vec())]);
    assert_eq!(answer.subject(), "Re: Numbers");
    assert_eq!(answer.field("In-Reply-To"), Some(format!("<{asked}>")));
    driver.0.answers(ANN_MAIL, &answer, "thanks");
    driver.0.until_sent_blocking(ANN_MAIL, "thanks");
    assert_eq!(driver.0.sent("eve@example.org"), []);
    assert_eq!(driver.0.sent(ANN_MAIL).len(), 2, "one mail for each answer, and no others");
    drop(gateway);
}

#[test]
fn sms() {
    live(&SmsDriver::new());
}

#[test]
fn whatsapp_cloud() {
    live(&WhatsAppCloudDriver::new());
}

#[test]
fn signal() {
    live(&SignalDriver(FakeSignal::start().unwrap()));
}

#[test]
fn mattermost() {
    let server = FakeMattermost::start().unwrap();
    let (ann, chat) = (server.person("ann"), server.channel("ann__hermes", "D"));
    live(&MattermostDriver { server, ann, chat });
}

#[test]
fn dingtalk() {
    live(&DingTalkDriver(FakeDingTalk::start().unwrap()));
}

#[test]
fn an_event_of_the_house_becomes_a_turn_that_switches_a_light() {
    let house = FakeHomeAssistant::start().unwrap();
    house.entity("binary_sensor.door", "off", json!({"friendly_name": "Front door"}));
    house.entity("light.hall", "off", json!({"friendly_name": "Hall"}));
    let call = json!({"domain": "light", "service": "turn_on", "entity_id": "light.hall"});
    let replies = json!([
        {"when": {"user_contains": "Front door: triggered", "tool_result": "call_light"}, "text": "Welcome. The light is on."},
        {"when": {"user_contains": "Front door: triggered"}, "tool": {"name": "ha_call_service", "id": "call_light", "arguments": call}},
    ]);
    let script =
        ModelScript::from_yaml("house", &json!({"default": "echo", "replies": replies}).to_string()).unwrap();
    let model = ModelServer::start_blocking(script).unwrap();
    let config = json!({
        "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"},
        "platforms": {"homeassistant": {"extra": {"watch_domains": ["binary_sensor"], "cooldown_seconds": 0}}},
    });
    let env = format!("HASS_URL={}\nHASS_TOKEN={}\n", house.base_url(), homeassistant::TOKEN);
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    let gateway = start_gateway(&home);
    house.until_subscribed_blocking();
    house.changes("binary_sensor.door", "on");
    house.until_notified_blocking("The light is on.");
    assert_eq!(house.state("light.hall").as_deref(), Some("on"));
    let asked = model.requests();
    let offered = asked.first().unwrap().json()["tools"].to_string();
    assert!(offered.contains("ha_list_entities"), "its preset has the tools");
    drop(gateway);
    // Elsewhere the tools are offered only where their toolset is switched on.
    let ask = |more: &[&str]| {
        let arguments: Vec<&str> = ["chat", "-Q", "-q", "hello"].iter().chain(more).copied().collect();
        assert!(hermes(&home, &arguments).output().unwrap().status.success());
        model.requests().pop().unwrap().json()["tools"].to_string()
    };
    assert!(!ask(&[]).contains("ha_call_service"));
    assert!(ask(&["--toolsets", "homeassistant"]).contains("ha_call_service"));
}

/// Sends a request to a Home Assistant, and returns the status and body of the response.
fn ask_house(port: u16, token: &str, request: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head = format!(
        "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
}

/// Ends a peer, however the test ends.
struct PeerChild(std::process::Child);

impl Drop for PeerChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the peer is a program, found by an environment variable")]
fn peer_home_assistant_rings_and_its_lamp_is_switched_on() {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let python = peers.join("ha/bin/python");
    if !peers.join("ha/bin/hass").exists() {
        hermes_testkit::peer_is_missing(&format!("{} has no Home Assistant", python.display()));
        return;
    }
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/home_assistant.py");
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let server = std::process::Command::new(python)
        .arg(script)
        .arg(folder.path())
        .arg(port.to_string())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let _server = PeerChild(server);
    let read_token =
        || std::fs::read_to_string(folder.path().join("token")).ok().filter(|text| !text.is_empty());
    let token = until_found(|| "its token".to_owned(), read_token);
    let ask = |request: &str, body: &str| ask_house(port, &token, request, body);
    until("it runs", || ask("GET /api/config", "").is_some_and(|(_, text)| text.contains("RUNNING")));
    let call = json!({"domain": "input_boolean", "service": "turn_on", "entity_id": "input_boolean.lamp"});
    let look = json!({"area": "lamp"});
    let rings = "input_boolean.bell changed from 'off' to 'on'";
    let replies = json!([
        {"when": {"user_contains": rings, "tool_result": "call_lamp"}, "text": "The lamp is on."},
        {"when": {"user_contains": rings, "tool_result": "call_look"}, "tool": {"name": "ha_call_service", "id": "call_lamp", "arguments": call}},
        {"when": {"user_contains": rings}, "tool": {"name": "ha_list_entities", "id": "call_look", "arguments": look}},
    ]);
    let script =
        ModelScript::from_yaml("house", &json!({"default": "echo", "replies": replies}).to_string()).unwrap();
    let model = ModelServer::start_blocking(script).unwrap();
    let config = json!({
        "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"},
        "platforms": {"homeassistant": {"extra": {"watch_entities": ["input_boolean.bell"], "cooldown_seconds": 0}}},
    });
    let env = format!("HASS_URL=http://127.0.0.1:{port}\nHASS_TOKEN={token}\n");
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    let gateway = start_gateway(&home);
    until("it is connected", || {
        let text = std::fs::read_to_string(home.join("gateway_state.json")).unwrap_or_default();
        text.contains("\"connected\"")
    });
    ask("POST /api/services/input_boolean/turn_on", "{\"entity_id\": \"input_boolean.bell\"}").unwrap();
    until("the lamp is on", || {
        ask("GET /api/states/input_boolean.lamp", "")
            .is_some_and(|(_, text)| text.contains("\"state\":\"on\""))
    });
    let sent = "SELECT COUNT(*) FROM hx_outbox WHERE state = 'sent'";
    until("the notification is there", || fixture::texts(&home.join("state.db"), sent) == ["1"]);
    let listed = model.requests().iter().any(|request| request.body_text().contains("input_boolean.lamp"));
    assert!(listed, "the model has read of the lamp");
    drop(gateway);
}

#[test]
fn a_gateway_whose_only_platform_cannot_work_ends_with_the_reason() {
    let twilio = FakeTwilio::start().unwrap();
    let config = json!({"platforms": {"sms": {"extra": {"base_url": twilio.base_url()}}}});
    // Without the address that Twilio signs, nobody can tell who sent a message. The shared server alone is no use.
    let env = format!(
        "TWILIO_ACCOUNT_SID={}\nTWILIO_AUTH_TOKEN={}\nTWILIO_PHONE_NUMBER={}\nWEBHOOK_PORT={}\n",
        sms::ACCOUNT,
        sms::AUTH_TOKEN,
        sms::NUMBER,
        free_port()
    );
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    let output = hermes(&home, &["gateway", "run"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert_eq!(said.matches("platform=sms reason=SMS_WEBHOOK_URL is not set").count(), 1, "{said}");
    assert!(said.contains("error: no platform can be reached; correct what is said above"), "{said}");
}

/// A home in which all of them are set up, each with a home channel.
struct AllPlatforms {
    home: TempHome,
    _model: ModelServer,
    sms: SmsDriver,
    whatsapp: WhatsAppCloudDriver,
    signal: SignalDriver,
    matrix: FakeMatrix,
    room: String,
    mattermost: MattermostDriver,
    dingtalk: DingTalkDriver,
    email: EmailDriver,
    phone: WhatsAppDriver,
    house: FakeHomeAssistant,
}

impl AllPlatforms {
    fn new() -> Self {
        let script = ModelScript::from_yaml("echo", "default: echo\nreplies: []\n").unwrap();
        let model = ModelServer::start_blocking(script).unwrap();
        let sms = SmsDriver::new();
        // Both share one server.
        let whatsapp = WhatsAppCloudDriver { port: sms.port, ..WhatsAppCloudDriver::new() };
        whatsapp.graph.set_webhook(&format!("http://127.0.0.1:{}/whatsapp/webhook", sms.port));
        let signal = SignalDriver(FakeSignal::start().unwrap());
        let server = FakeMattermost::start().unwrap();
        let (ann, chat) = (server.person("ann"), server.channel("town", "O"));
        let mattermost = MattermostDriver { server, ann, chat };
        let matrix = FakeMatrix::start().unwrap();
        let room = matrix.room("Town", &[&matrix.person("Ann"), &matrix.person("Bob")]);
        let dingtalk = DingTalkDriver(FakeDingTalk::start().unwrap());
        let house = FakeHomeAssistant::start().unwrap();
        let email = EmailDriver(FakeMail::start().unwrap());
        let phone = WhatsAppDriver::new();
        let drivers: [&dyn PlatformDriver; 7] =
            [&sms, &whatsapp, &signal, &mattermost, &dingtalk, &email, &phone];
        let platforms: serde_json::Map<String, Value> = drivers
            .iter()
            .map(|driver| (driver.platform().to_owned(), json!({"extra": driver.extra()})))
            .collect();
        let config = json!({
            "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"}, "platforms": platforms,
        });
        let mut env: Vec<String> = drivers.iter().map(|driver| driver.env()).collect();
        env.push(format!(
            "MATRIX_HOMESERVER={}\nMATRIX_ACCESS_TOKEN={}\nMATRIX_HOME_ROOM={room}\n",
            matrix.base_url(),
            matrix::TOKEN
        ));
        env.push(format!("HASS_URL={}\nHASS_TOKEN={}\n", house.base_url(), homeassistant::TOKEN));
        env.push(format!(
            "GATEWAY_ALLOW_ALL_USERS=1\nSMS_HOME_CHANNEL={ANN}\nWHATSAPP_CLOUD_HOME_CHANNEL={ANN_DIGITS}\n\
             SIGNAL_HOME_CHANNEL={ANN}\nMATTERMOST_HOME_CHANNEL={}\nDINGTALK_HOME_CHANNEL={STAFF}\n\
             HOMEASSISTANT_HOME_CHANNEL=ha_events\nEMAIL_HOME_ADDRESS={ANN_MAIL}\n\
             WHATSAPP_HOME_CHANNEL={ANN_DIGITS}\n",
            mattermost.chat
        ));
        let env = env.concat();
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        Self {
            home,
            _model: model,
            sms,
            whatsapp,
            signal,
            matrix,
            room,
            mattermost,
            dingtalk,
            email,
            phone,
            house,
        }
    }

    /// Returns the texts that reached each platform.
    fn heard(&self) -> Vec<(&'static str, Vec<String>)> {
        let of_dingtalk = self.dingtalk.0.sent(STAFF).into_iter().map(|message| message.text).collect();
        vec![
            ("sms", self.sms.said()),
            ("whatsapp_cloud", self.whatsapp.said()),
            ("signal", self.signal.said()),
            ("matrix", self.matrix.said(&self.room).into_iter().map(|message| message.text).collect()),
            ("mattermost", self.mattermost.said()),
            ("dingtalk", of_dingtalk),
            ("email", self.email.said()),
            ("whatsapp", self.phone.said()),
            ("homeassistant", self.house.notifications()),
        ]
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = hermes(&self.home, arguments).output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    }
}

/// Runs by hand: `HERMES_PROGRAM=… cargo nextest run -p hermes idle_memory --run-ignored all --no-capture`.
#[test]
#[ignore = "a measurement; by hand"]
fn idle_memory_with_and_without_them() {
    let measure = |home: &TempHome, connected: usize| {
        let gateway = start_gateway(home);
        until("it is connected", || {
            let text = std::fs::read_to_string(home.join("gateway_state.json")).unwrap_or_default();
            text.contains("\"running\"") && text.matches("\"connected\"").count() == connected
        });
        // The gateway releases memory every ten seconds.
        std::thread::sleep(std::time::Duration::from_secs(25));
        let text = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        println!("{connected} connected: {line}");
    };
    let alone = TempHome::builder().config_yaml("model: {provider: offline}").build().unwrap();
    std::fs::create_dir_all(alone.join("user")).unwrap();
    measure(&alone, 0);
    let all = AllPlatforms::new();
    let config = all.home.read("config.yaml");
    measure(&all.home, 9);
    // And the first three.
    let discord = FakeDiscord::start().unwrap();
    let ann = discord.person("ann", Some("Ann"));
    let chat = discord.dm(ann);
    let slack = FakeSlack::start().unwrap();
    slack.person("U1", "Ann");
    slack.direct("D1");
    let first: [Box<dyn PlatformDriver>; 3] = [
        Box::new(TelegramDriver(FakeTelegram::start(TELEGRAM_TOKEN).unwrap())),
        Box::new(DiscordDriver { discord, ann, chat }),
        Box::new(SlackDriver(slack)),
    ];
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let mut env = all.home.read(".env");
    for driver in &first {
        config["platforms"][driver.platform()] = json!({"extra": driver.extra()});
        env.push_str(&driver.env());
    }
    std::fs::write(all.home.join("config.yaml"), config.to_string()).unwrap();
    std::fs::write(all.home.env_file(), env).unwrap();
    measure(&all.home, 12);
}

#[test]
fn messages_and_jobs_reach_each_of_them_with_and_without_a_gateway() {
    let all = AllPlatforms::new();
    let names: Vec<&str> = all.heard().into_iter().map(|(name, _)| name).collect();
    for name in &names {
        all.run(&["send", name, &format!("to {name} without a gateway")]);
    }
    let gateway = start_gateway(&all.home);
    until("all are connected", || {
        let text = std::fs::read_to_string(all.home.join("gateway_state.json")).unwrap_or_default();
        text.matches("\"connected\"").count() == names.len()
    });
    for name in &names {
        all.run(&["send", name, &format!("to {name} with a gateway")]);
        all.run(&[
            "cron",
            "create",
            "every 2h",
            &format!("job for {name}"),
            "--name",
            name,
            "--deliver",
            name,
        ]);
    }
    for line in all.run(&["cron", "list"]).lines() {
        if let Some(id) = line.split_whitespace().next().filter(|word| word.len() == 12) {
            all.run(&["cron", "run", id]);
        }
    }
    all.run(&["cron", "tick"]);
    for (name, _) in all.heard() {
        let heard = || all.heard().into_iter().find(|(known, _)| *known == name).unwrap().1;
        until(name, || {
            let texts = heard();
            ["without a gateway", "with a gateway", "job for"].iter().all(|part| {
                texts
                    .iter()
                    .filter(|text| {
                        text.contains(&format!("{name} {part}")) || text.contains(&format!("{part} {name}"))
                    })
                    .count()
                    == 1
            })
        });
    }
    let status = all.run(&["gateway", "status"]);
    for name in &names {
        assert!(status.contains(&format!("{name}: connected")), "{name}: {status}");
    }
    all.sms.says("hello by SMS");
    all.whatsapp.says("hello by WhatsApp");
    all.sms.until_said("hello by SMS");
    all.whatsapp.until_said("hello by WhatsApp");
    let log = std::fs::read_to_string(all.home.join("logs/gateway.log")).unwrap_or_default();
    let secrets = [
        sms::AUTH_TOKEN,
        whatsapp_cloud::ACCESS_TOKEN,
        matrix::TOKEN,
        mattermost::TOKEN,
        dingtalk::CLIENT_SECRET,
        homeassistant::TOKEN,
        mail::PASSWORD,
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "a secret is in the log");
    }
    drop(gateway);
}
