//! The emulated Bot API over plain HTTP.

use std::net::SocketAddr;

use hermes_testkit::telegram::{FakeTelegram, TelegramFault};
use hermes_testkit::{HttpReply, http_get, http_post};
use serde_json::{Value, json};

fn address(telegram: &FakeTelegram) -> SocketAddr {
    telegram.base_url().strip_prefix("http://").unwrap().parse().unwrap()
}

fn call(telegram: &FakeTelegram, method: &str, body: &Value) -> HttpReply {
    http_post(address(telegram), &format!("/bot1:x/{method}"), body).unwrap()
}

fn description(reply: &HttpReply) -> (u16, String) {
    let said = reply.json();
    assert_eq!(said["ok"], json!(reply.status == 200));
    (reply.status, said["description"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn it_refuses_as_telegram_does() {
    let telegram = FakeTelegram::start("1:x").unwrap();
    telegram.person(7, "Alice");
    let long = "x".repeat(4097);
    for (method, body, code, words) in [
        (
            "sendMessage",
            json!({"chat_id": 7, "text": "a.b", "parse_mode": "MarkdownV2"}),
            400,
            "can't parse entities: Character '.'",
        ),
        ("sendMessage", json!({"chat_id": 7, "text": long}), 400, "message is too long"),
        ("sendMessage", json!({"chat_id": 7, "text": " "}), 400, "message text is empty"),
        ("sendMessage", json!({"chat_id": 8, "text": "x"}), 400, "chat not found"),
        (
            "sendMessage",
            json!({"chat_id": 7, "text": "x", "message_thread_id": 5}),
            400,
            "message thread not found",
        ),
        (
            "sendMessage",
            json!({"chat_id": 7, "text": "x", "reply_to_message_id": 5}),
            400,
            "message to be replied not found",
        ),
        ("sendMessage", json!({"chat_id": 7, "text": "x", "txet": "y"}), 400, "unknown parameter \"txet\""),
        ("sendMesage", json!({}), 404, "Not Found"),
        (
            "setMyCommands",
            json!({"commands": [{"command": "A-b", "description": "x"}]}),
            400,
            "BOT_COMMAND_INVALID",
        ),
        ("answerCallbackQuery", json!({"callback_query_id": "9"}), 400, "query is too old"),
    ] {
        let (status, said) = description(&call(&telegram, method, &body));
        assert!(status == code && said.contains(words), "{method} {body}: {status} {said}");
    }
    let wrong = http_post(address(&telegram), "/bot1:y/getMe", &json!({})).unwrap();
    assert_eq!(description(&wrong), (401, "Unauthorized".to_owned()));
}

#[test]
fn updates_stay_until_they_are_confirmed() {
    let telegram = FakeTelegram::start("1:x").unwrap();
    let alice = telegram.person(7, "Alice");
    alice.says(7, "one");
    alice.says(7, "two");
    let ask = |offset: i64| {
        let updates =
            call(&telegram, "getUpdates", &json!({"offset": offset, "timeout": 0})).json()["result"].clone();
        let text = |update: &Value| update["message"]["text"].as_str().unwrap().to_owned();
        let first = updates[0]["update_id"].as_i64();
        (updates.as_array().unwrap().iter().map(text).collect::<Vec<_>>(), first)
    };
    let (texts, first) = ask(0);
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(ask(0).0, ["one", "two"], "nothing was confirmed");
    assert_eq!(ask(first.unwrap() + 1).0, ["two"]);
    assert_eq!(ask(0).0, ["two"]);
    telegram.kill();
    assert!(http_get(address(&telegram), "/").is_err());
    telegram.restart().unwrap();
    assert_eq!(ask(0).0, ["two"], "it remembers");
}

#[test]
fn a_second_poll_ends_the_first() {
    let telegram = FakeTelegram::start("1:x").unwrap();
    telegram.fails("getUpdates", TelegramFault::Hang("gate".to_owned()));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| call(&telegram, "getUpdates", &json!({"timeout": 50})));
        telegram.until_called_blocking("getUpdates", 1);
        telegram.release("gate");
        // Polls until the first one has ended: it is counted as called before it waits.
        while !first.is_finished() {
            call(&telegram, "getUpdates", &json!({"timeout": 0}));
        }
        let (status, words) = description(&first.join().unwrap());
        assert!(status == 409 && words.contains("terminated by other getUpdates request"), "{words}");
    });
}

#[test]
fn files_and_forms() {
    let telegram = FakeTelegram::start("1:x").unwrap();
    telegram.person(7, "Alice");
    let file = telegram.file("docs/a.txt", b"some bytes");
    let found = call(&telegram, "getFile", &json!({"file_id": file["file_id"]})).json();
    let path = found["result"]["file_path"].as_str().unwrap().to_owned();
    assert_eq!(http_get(address(&telegram), &format!("/file/bot1:x/{path}")).unwrap().body, b"some bytes");
    assert_eq!(http_get(address(&telegram), &format!("/file/bot1:y/{path}")).unwrap().status, 404);
}

#[test]
fn a_person_at_the_page() {
    let telegram = FakeTelegram::start("1:x").unwrap();
    let at = address(&telegram);
    assert!(http_get(at, "/").unwrap().text().contains("<title>"));
    http_post(at, "/say", &json!({"person": 3, "text": "hello"})).unwrap();
    let markup = json!({"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]});
    call(&telegram, "sendMessage", &json!({"chat_id": 3, "text": "hi", "reply_markup": markup}));
    let lines = http_get(at, "/chat.json?person=3").unwrap().json();
    assert_eq!((lines[0]["text"].clone(), lines[1]["buttons"].clone()), (json!("hello"), json!(["Yes"])));
    http_post(at, "/say", &json!({"person": 3, "press": "Yes"})).unwrap();
    assert_eq!(telegram.pending(), 2);
}
