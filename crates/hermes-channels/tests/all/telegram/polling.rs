//! Polling: no update is lost or duplicated, whatever fails.

use std::sync::Arc;
use std::time::Duration;

use hermes_testkit::telegram::{FakeTelegram, TelegramFault};
use hermes_types::{ChannelError, ConnectionStatus};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::{ALICE, GROUP, TOKEN, TelegramFixture, listen, patient_clock};
use crate::support::{MemoryHost, RecordingIntake};

#[tokio::test]
async fn what_waited_is_taken_and_confirmed() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    let alice = telegram.person(ALICE, "Alice");
    for text in ["one", "two", "three"] {
        alice.says(ALICE, text);
    }
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    bench.bot.inbox.until_taken(3).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["one", "two", "three"]);
    assert_eq!(bench.bot.inbox.connections().first(), Some(&ConnectionStatus::Up));
    let deleted = bench.telegram.calls("deleteWebhook");
    assert_eq!(deleted.first().and_then(|call| call.get("drop_pending_updates")), Some(&json!(false)));
}

#[tokio::test]
async fn nothing_is_confirmed_before_it_is_taken() {
    let bench = TelegramFixture::new(&[]);
    bench.telegram.until_called("getUpdates", 1).await;
    bench.bot.inbox.set_paused(true);
    let alice = bench.telegram.person(ALICE, "Alice");
    alice.says(ALICE, "first");
    alice.says(ALICE, "second");
    bench.bot.inbox.until_attempted(1).await;
    // The first poll returns at once and the second one waits, so one or both may have been made by now. A poll
    // with an offset confirms an update.
    let confirming = |call: &Map<String, Value>| call.contains_key("offset");
    assert!(!bench.telegram.calls("getUpdates").iter().any(confirming), "nothing is confirmed yet");
    let (inbox, host) = bench.bot.kill().await;
    assert_eq!(bench.telegram.pending(), 2, "a program that dies has confirmed nothing");
    inbox.set_paused(false);
    let _bot = listen(&bench.telegram, &[], json!({}), &host, &inbox, &bench.clock);
    inbox.until_taken(2).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(inbox.texts(), ["first", "second"]);
}

#[tokio::test]
async fn what_cannot_be_taken_now_is_taken_later() {
    let bench = TelegramFixture::new(&[]);
    let alice = bench.telegram.person(ALICE, "Alice");
    bench.bot.inbox.refuse_next();
    bench.bot.inbox.refuse_next();
    alice.says(ALICE, "first");
    alice.says(ALICE, "second");
    bench.bot.inbox.until_taken(2).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["first", "second"]);
    assert!(bench.clock.slept().contains(&Duration::from_secs(2)), "{:?}", bench.clock.slept());
}

#[tokio::test]
async fn a_message_is_recognised_under_another_number_and_order_is_kept() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    let alice = telegram.person(ALICE, "Alice");
    alice.says(ALICE, "one");
    alice.says(ALICE, "two");
    telegram.repeats_last();
    telegram.reverses_pending();
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    bench.bot.inbox.until_duplicates(1).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["one", "two"]);
}

#[tokio::test]
async fn an_answer_that_gets_lost_loses_no_message() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.person(ALICE, "Alice").says(ALICE, "hello");
    for fault in [TelegramFault::DropAfter, TelegramFault::Garbage, TelegramFault::refuse(502, "Bad Gateway")]
    {
        telegram.fails("getUpdates", fault);
    }
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    bench.bot.inbox.until_taken(1).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["hello"]);
    assert!(bench.bot.inbox.connections().iter().any(|state| matches!(state, ConnectionStatus::Down(_))));
}

#[tokio::test]
async fn calls_that_hang_are_given_up() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.fails("getUpdates", TelegramFault::Hang("poll".to_owned()));
    telegram.fails("sendMessage", TelegramFault::HangAfter("send".to_owned()));
    telegram.person(ALICE, "Alice").says(ALICE, "hello");
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    bench.telegram.until_at("poll").await;
    bench.clock.advance(Duration::from_secs(45));
    bench.bot.inbox.until_taken(1).await;
    let reply = super::saying(&super::dm(), "answer");
    let (sent, ()) = tokio::join!(bench.bot.channel.send(&reply), async {
        bench.telegram.until_at("send").await;
        bench.clock.advance(Duration::from_secs(30));
    });
    assert!(
        matches!(&sent, Err(ChannelError::DeliveryUnknown(reason)) if reason.contains("did not confirm")),
        "{sent:?}"
    );
}

#[tokio::test]
async fn a_server_that_goes_away_and_comes_back() {
    let bench = TelegramFixture::new(&[]);
    bench.bot.inbox.until_connections(1).await;
    bench.telegram.kill();
    // One success and four failures: the clock does not skip the fourth delay.
    bench.bot.inbox.until_connections(5).await;
    bench.telegram.person(ALICE, "Alice").says(ALICE, "said meanwhile");
    bench.telegram.restart().unwrap();
    pause_passes(&bench).await;
    bench.bot.inbox.until_taken(1).await;
    assert_eq!(bench.bot.inbox.texts(), ["said meanwhile"]);
    assert_eq!(bench.bot.inbox.connections().last(), Some(&ConnectionStatus::Up));
}

/// Ends a delay that is too long for the clock to skip.
async fn pause_passes(bench: &TelegramFixture) {
    bench.clock.wait_for_sleepers(1).await;
    bench.clock.advance(Duration::from_mins(1));
}

#[tokio::test]
async fn a_network_that_stays_away_is_the_supervisors_business() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    for _ in 0..11 {
        telegram.fails("getUpdates", TelegramFault::Garbage);
    }
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    for failures in 4..=10 {
        bench.bot.inbox.until_connections(failures).await;
        pause_passes(&bench).await;
    }
    let ended = bench.bot.ended().await;
    let Err(ChannelError::Retry { reason, .. }) = ended else { panic!("{ended:?}") };
    assert!(reason.contains("busy"), "{reason}");
    let pauses: Vec<u64> = bench
        .clock
        .slept()
        .iter()
        .map(Duration::as_secs)
        .filter(|span| [5, 10, 20, 40].contains(span))
        .collect();
    assert_eq!(pauses, [5, 10, 20, 40], "then a minute each");
}

#[tokio::test]
async fn another_program_with_the_same_bot() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    for _ in 0..4 {
        let words = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
        telegram.fails("getUpdates", TelegramFault::refuse(409, words));
    }
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    let ended = bench.bot.ended().await;
    let Err(ChannelError::Conflict(reason)) = ended else { panic!("{ended:?}") };
    assert!(reason.starts_with("another program uses the same bot"), "{reason}");
    let pauses = bench.clock.slept().iter().filter(|span| span.as_secs() == 10).count();
    assert_eq!(pauses, 3);
}

#[tokio::test]
async fn two_bots_with_one_token_notice() {
    let bench = TelegramFixture::new(&[]);
    let other = listen(&bench.telegram, &[], json!({}), &MemoryHost::new(), &Arc::default(), &bench.clock);
    let one = bench.bot.ended();
    let ended = tokio::select! {
        ended = one => ended,
        ended = other.ended() => ended,
    };
    assert!(matches!(ended, Err(ChannelError::Conflict(_))), "{ended:?}");
}

#[tokio::test]
async fn a_token_that_is_not_accepted_and_never_shown() {
    let telegram = FakeTelegram::start("43:another").unwrap();
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    let inbox = bench.bot.inbox.clone();
    let ended = bench.bot.ended().await;
    assert!(
        matches!(&ended, Err(ChannelError::Reauthorise(words)) if words.contains("TELEGRAM_BOT_TOKEN")),
        "{ended:?}"
    );
    assert!(!format!("{ended:?} {:?}", inbox.connections()).contains("secret-token"));
}

#[tokio::test]
async fn an_unreachable_server_names_no_token() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.kill();
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    let ended = bench.bot.ended().await;
    assert!(matches!(ended, Err(ChannelError::Retry { .. })), "{ended:?}");
    assert!(!format!("{ended:?}").contains("secret-token"));
}

#[tokio::test]
async fn a_server_that_knows_less() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    for method in [
        "deleteWebhook",
        "setMyCommands",
        "sendChatAction",
        "setMessageReaction",
        "getFile",
        "createForumTopic",
    ] {
        telegram.forgets(method);
    }
    let bench = TelegramFixture::with(
        telegram,
        &[("TELEGRAM_REACTIONS", "true")],
        json!({}),
        &MemoryHost::new(),
        &Arc::default(),
    );
    let alice = bench.telegram.person(ALICE, "Alice");
    alice.sends_photo(ALICE, b"\xFF\xD8\xFFjpeg", Some("look"));
    let taken = bench.bot.inbox.until_taken(1).await;
    assert!(
        taken[0].text().contains("look") && taken[0].text().contains("could not be fetched"),
        "{}",
        taken[0].text()
    );
    bench.bot.channel.show_typing(&super::dm()).await;
    bench.bot.channel.show_message_status(&super::dm(), "101", hermes_types::MessageStatus::Processing).await;
    bench.bot.channel.send(&super::saying(&super::dm(), "still here")).await.unwrap();
    assert_eq!(bench.telegram.messages(ALICE).len(), 1);
}

#[tokio::test]
async fn the_menu_of_commands() {
    let bench = TelegramFixture::new(&[]);
    let commands = bench.telegram.until_menu().await;
    assert_eq!(commands.pointer("/0"), Some(&json!({"command": "new", "description": "what new does"})));
}

#[tokio::test]
async fn updates_nobody_can_read_are_passed_over() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.announces("message", json!("not a message"));
    telegram.announces("message", json!({"message_id": "five", "chat": null}));
    telegram.announces("callback_query", json!({"id": 5}));
    telegram.announces("something_new", json!({"a": 1}));
    telegram.person(ALICE, "Alice").says(ALICE, "after them");
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    bench.bot.inbox.until_taken(1).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["after them"]);
}

/// Generates any JSON, with Telegram's field names in it.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("@hermes_bot")),
        Just(json!({"id": 7, "type": "private"})),
        Just(json!([{"type": "mention", "offset": 3, "length": 900}])),
    ];
    let names = prop::sample::select(vec![
        "message_id",
        "chat",
        "from",
        "text",
        "caption",
        "entities",
        "photo",
        "voice",
        "document",
        "sticker",
        "location",
        "venue",
        "reply_to_message",
        "message_thread_id",
        "id",
        "type",
        "data",
        "message",
        "file_id",
        "forum_topic_created",
        "is_topic_message",
        "date",
        "audio",
        "video",
        "sender_chat",
        "migrate_to_chat_id",
        "poll",
    ]);
    leaf.prop_recursive(4, 48, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..8).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

#[tokio::test]
async fn nothing_in_an_update_stops_the_bot() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.group(GROUP, "Team");
    let mut runner = TestRunner::deterministic();
    for at in 0..400 {
        let kind = ["message", "callback_query", "channel_post"][at % 3];
        let mut document = documents().new_tree(&mut runner).unwrap().current();
        if let Value::Object(fields) = &mut document {
            // Half of them pass the first check.
            fields.entry("message_id").or_insert(json!(at));
            fields.entry("chat").or_insert(json!({"id": 7, "type": "private"}));
        }
        telegram.announces(kind, document);
    }
    telegram.person(ALICE, "Alice").says(ALICE, "the end");
    telegram.forgets("getFile");
    let inbox: Arc<RecordingIntake> = Arc::default();
    let bot = listen(&telegram, &[], json!({}), &MemoryHost::new(), &inbox, &patient_clock());
    telegram.until_confirmed().await;
    assert_eq!(inbox.texts().last().map(String::as_str), Some("the end"));
    bot.stop().await;
}
