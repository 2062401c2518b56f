//! The emulated Discord over plain HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use hermes_testkit::TestClock;
use hermes_testkit::discord::{FakeDiscord, FakeDiscordId, TOKEN};
use serde_json::{Value, json};

struct Client {
    port: String,
    authorization: String,
}

impl Client {
    fn of(discord: &FakeDiscord) -> Self {
        let port = discord.base_url().rsplit(':').next().unwrap().to_owned();
        Self { port, authorization: format!("Bot {TOKEN}") }
    }

    /// Returns the status, Discord's code if it refused, and the whole body.
    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, u64, Value) {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        let body = body.to_string();
        let head = format!(
            "{method} /api/v10{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nuser-agent: DiscordBot (x, 1)\r\n\
             authorization: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.authorization,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let value: Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or(Value::Null);
        (status, value["code"].as_u64().unwrap_or(0), value)
    }

    fn refused(&self, method: &str, path: &str, body: &Value) -> (u16, u64) {
        let (status, code, _) = self.call(method, path, body);
        (status, code)
    }
}

fn stage() -> (FakeDiscord, FakeDiscordId, Client) {
    let discord = FakeDiscord::start().unwrap();
    let guild = discord.guild("Home");
    let channel = discord.channel(guild, "general");
    let client = Client::of(&discord);
    (discord, channel, client)
}

#[test]
fn what_it_refuses() {
    let (discord, channel, client) = stage();
    let messages = format!("/channels/{channel}/messages");
    let button = |id: &str| json!({"type": 2, "style": 1, "label": "x", "custom_id": id});
    let rows = |buttons: Vec<Value>| json!([{"type": 1, "components": buttons}]);
    for (expected, body) in [
        ((400, 50006), json!({"content": "  "})),
        ((400, 50035), json!({"content": "x".repeat(2001)})),
        ((400, 50035), json!({"content": "x", "contents": "y"})),
        ((400, 50035), json!({"content": "x", "nonce": "n".repeat(26)})),
        ((400, 50035), json!({"content": "x", "message_reference": {"message_id": "5"}})),
        ((400, 50035), json!({"content": "x", "components": rows(vec![button("a"), button("a")])})),
        ((400, 50035), json!({"content": "x", "components": rows(vec![button(&"a".repeat(101))])})),
        (
            (400, 50035),
            json!({"content": "x", "components": rows((0..6).map(|n| button(&n.to_string())).collect())}),
        ),
        ((400, 50035), json!({"content": "x", "allowed_mentions": {"parse": ["all"]}})),
        ((400, 50161), json!({"content": "x", "flags": 8192})),
        ((200, 0), json!({"content": "é".repeat(2000)})),
    ] {
        assert_eq!(client.refused("POST", &messages, &body), expected, "{body}");
    }
    let command =
        |name: &str, options: Value| json!([{"name": name, "description": "d", "options": options}]);
    let option = |name: &str, required: bool| json!({"name": name, "description": "d", "type": 3, "required": required});
    let commands = format!("/applications/{}/commands", 1_000_000_000_000_000_002_u64);
    for (expected, body) in [
        ((400, 50035), command("Upper", json!([]))),
        ((400, 50035), json!([{"name": "x", "description": ""}])),
        ((400, 50035), command("x", json!([option("a", false), option("b", true)]))),
        ((400, 50035), command("x", (0..26).map(|n| option(&format!("o{n}"), false)).collect())),
        ((200, 0), command("x-y_z1", json!([option("a", true), option("b", false)]))),
    ] {
        assert_eq!(client.refused("PUT", &commands, &body), expected, "{body}");
    }
    assert_eq!(client.refused("GET", "/channels/5", &json!({})), (404, 10003));
    discord.hide(channel);
    assert_eq!(client.refused("GET", &format!("/channels/{channel}"), &json!({})), (403, 50001));
    let stranger = Client { authorization: TOKEN.to_owned(), ..client };
    assert_eq!(stranger.refused("GET", "/users/@me", &json!({})), (401, 0));
}

#[test]
fn a_nonce_makes_one_message_and_a_message_one_thread() {
    let (discord, channel, client) = stage();
    let messages = format!("/channels/{channel}/messages");
    let body = json!({"content": "once", "nonce": "n", "enforce_nonce": true});
    let first = client.call("POST", &messages, &body).2;
    let second = client.call("POST", &messages, &body).2;
    assert_eq!((first["id"].clone(), discord.said(channel).len()), (second["id"].clone(), 1));
    let threads = format!("{messages}/{}/threads", first["id"].as_str().unwrap());
    let thread = client.call("POST", &threads, &json!({"name": "t"}));
    assert_eq!((thread.0, &thread.2["id"]), (201, &first["id"]));
    assert_eq!(client.refused("POST", &threads, &json!({"name": "t"})), (400, 160_004));
    let listed = client.call("GET", &format!("{messages}?after=0&limit=10"), &json!({})).2;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(client.refused("GET", &format!("{messages}?limit=101"), &json!({})), (400, 50035));
}

#[test]
fn an_interaction_waits_three_seconds_and_is_answered_once() {
    let clock = TestClock::new();
    let discord = FakeDiscord::builder().clock(Arc::new(clock.clone())).start().unwrap();
    let client = Client::of(&discord);
    let ann = discord.person("ann", None);
    let dm = discord.dm(ann);
    let callback = |id: FakeDiscordId| format!("/interactions/{id}/interaction-token-{id}/callback");
    let used = discord.uses_command(ann, dm, "stop", &[]);
    assert_eq!(client.refused("POST", &callback(used), &json!({"type": 5})).0, 204);
    assert_eq!(client.refused("POST", &callback(used), &json!({"type": 5})), (400, 40060));
    let late = discord.uses_command(ann, dm, "stop", &[]);
    clock.advance(Duration::from_secs(4));
    assert_eq!(client.refused("POST", &callback(late), &json!({"type": 5})), (404, 10062));
}

#[test]
fn a_bucket_that_is_empty_says_when_it_is_full_again() {
    let clock = TestClock::new();
    let discord = FakeDiscord::builder().clock(Arc::new(clock.clone())).start().unwrap();
    let client = Client::of(&discord);
    discord.limit_rate(1, Duration::from_secs(2));
    assert_eq!(client.refused("GET", "/users/@me", &json!({})).0, 200);
    let (status, _, body) = client.call("GET", "/users/@me", &json!({}));
    assert_eq!((status, &body["retry_after"], &body["global"]), (429, &json!(2.0), &json!(false)));
    clock.advance(Duration::from_secs(2));
    assert_eq!(client.refused("GET", "/users/@me", &json!({})).0, 200);
}
