//! The gateway connection: lost, duplicated, late and invalid events.

use std::sync::Arc;
use std::time::Duration;

use hermes_testkit::TestClock;
use hermes_testkit::discord::{
    DiscordFault, DiscordSocketAction, FakeDiscord, SessionResumption, SessionRetention,
};
use hermes_types::{ChannelError, ConnectionStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::support::{self, MemoryHost, RecordingIntake};
use super::{DiscordFixture, until_up};

#[tokio::test]
async fn whatever_ends_the_connection_nothing_is_lost_or_doubled() {
    let stage = DiscordFixture::quick();
    let running = stage.up(&[]).await;
    let orders = [
        DiscordSocketAction::Drop,
        DiscordSocketAction::Reconnect,
        DiscordSocketAction::Close(4000),
        DiscordSocketAction::Close(1001),
        DiscordSocketAction::Invalidate(SessionResumption::Yes),
        DiscordSocketAction::Close(4008),
    ];
    for (at, order) in orders.iter().enumerate() {
        stage.discord.order(order);
        for part in ["a", "b"] {
            stage.discord.says(stage.ann, stage.dm, &format!("{at}{part}"));
        }
        stage.discord.until_sessions(1, at + 1).await;
        running.inbox.until_taken(2 * (at + 1)).await;
    }
    let expected: Vec<String> =
        (0..orders.len()).flat_map(|at| [format!("{at}a"), format!("{at}b")]).collect();
    assert_eq!(running.inbox.texts(), expected);
    assert_eq!(stage.discord.sessions(), (1, orders.len()), "one session all the time");
}

#[tokio::test]
async fn a_session_that_is_gone_is_caught_up_with() {
    for order in [
        DiscordSocketAction::Drop,
        DiscordSocketAction::Invalidate(SessionResumption::No),
        DiscordSocketAction::Close(4009),
        DiscordSocketAction::Close(4007),
    ] {
        let stage = DiscordFixture::quick();
        let running = stage.up(&[]).await;
        let asked = stage.discord.says(stage.ann, stage.channel, &stage.mention("hello"));
        running.inbox.until_taken(1).await;
        stage.discord.says(stage.ann, stage.dm, "direct");
        running.inbox.until_taken(2).await;
        // Written while the bot is offline and its session is lost.
        stage.discord.lose_sessions();
        stage.discord.says(stage.ann, asked, "in the thread");
        for number in 0..120 {
            stage.discord.says(stage.ann, stage.dm, &format!("direct {number}"));
        }
        stage.discord.order(&order);
        until_up(&running, 2).await;
        stage.discord.says(stage.ann, stage.dm, "direct 120");
        running.inbox.until_taken(2 + 122).await;
        let texts = running.inbox.texts();
        let direct: Vec<&String> = texts.iter().filter(|text| text.starts_with("direct ")).collect();
        let expected: Vec<String> = (0..=120).map(|number| format!("direct {number}")).collect();
        assert_eq!(direct, expected.iter().collect::<Vec<_>>(), "in order after {order:?}");
        assert!(texts.contains(&"in the thread".to_owned()));
        assert_eq!(stage.discord.sessions().0, 2, "{order:?}");
    }
}

#[tokio::test]
async fn a_killed_process_goes_on_with_what_was_not_committed() {
    let stage = DiscordFixture::new();
    let (host, inbox) = (MemoryHost::new(), Arc::<RecordingIntake>::default());
    let running = stage.start(&[], &host, &inbox);
    until_up(&running, 1).await;
    stage.discord.says(stage.ann, stage.dm, "one");
    inbox.until_taken(1).await;
    inbox.set_paused(true);
    stage.discord.says(stage.ann, stage.dm, "two");
    stage.discord.says(stage.ann, stage.channel, &stage.mention("three"));
    stage.discord.until_call("POST", "/threads", 1).await;
    running.kill().await;
    stage.discord.says(stage.ann, stage.dm, "four");
    inbox.set_paused(false);
    let running = stage.start(&[], &host, &inbox);
    running.inbox.until_taken(4).await;
    let mut texts = running.inbox.texts();
    texts.sort_unstable();
    assert_eq!(texts, ["four", "one", "three", "two"]);
    assert_eq!(stage.discord.sessions(), (1, 1));
    let (inbox, host) = running.stop().await;
    let document = host.document("discord_session.json").unwrap();
    assert_eq!(document["session_id"], "session-1");
    assert_eq!(document["seq"].as_u64().unwrap(), stage.discord.sequence() as u64, "everything is done");
    assert!(document["channels"].as_object().unwrap().len() >= 2, "{document}");

    // The session has expired and cannot be resumed, so missed messages are requested.
    stage.discord.lose_sessions();
    stage.discord.says(stage.ann, stage.dm, "five");
    let running = stage.start(&[], &host, &inbox);
    running.inbox.until_taken(5).await;
    assert_eq!(running.inbox.texts()[4], "five");
}

#[tokio::test]
async fn a_crash_while_catching_up_catches_up_again() {
    let stage = DiscordFixture::quick();
    let (host, inbox) = (MemoryHost::new(), Arc::<RecordingIntake>::default());
    let running = stage.start(&[], &host, &inbox);
    until_up(&running, 1).await;
    stage.discord.says(stage.ann, stage.dm, "one");
    inbox.until_taken(1).await;
    running.stop().await;
    stage.discord.lose_sessions();
    stage.discord.says(stage.ann, stage.dm, "two");
    stage.discord.fault("GET", "/messages", DiscordFault::WaitBefore("page".into()));
    let running = stage.start(&[], &host, &inbox);
    stage.discord.until_at("page").await;
    // Meanwhile another event is handled and saved too.
    stage.discord.says(stage.ann, stage.channel, &stage.mention("elsewhere"));
    inbox.until_taken(2).await;
    running.kill().await;
    assert_eq!(host.document("discord_session.json").unwrap().get("session_id"), None);
    let running = stage.start(&[], &host, &inbox);
    running.inbox.until_taken(3).await;
    let mut texts = running.inbox.texts();
    texts.sort_unstable();
    assert_eq!(texts, ["elsewhere", "one", "two"]);
}

#[tokio::test]
async fn what_is_caught_up_with_keeps_to_the_rules() {
    let stage = DiscordFixture::quick();
    let (host, inbox) = (MemoryHost::new(), Arc::<RecordingIntake>::default());
    let running = stage.start(&[], &host, &inbox);
    until_up(&running, 1).await;
    stage.discord.says(stage.ann, stage.channel, &stage.mention("one"));
    inbox.until_taken(1).await;
    running.stop().await;
    stage.discord.lose_sessions();
    stage.discord.says(stage.ann, stage.channel, "not for you");
    stage.discord.says(stage.ann, stage.channel, &stage.mention("two"));
    // Not even while requests about the channel fail.
    let path = format!("/channels/{}", stage.channel);
    stage.discord.fault("GET", &path, DiscordFault::Refuse { status: 503, code: 0, message: "later".into() });
    let running = stage.start(&[], &host, &inbox);
    inbox.until_taken(2).await;
    until_up(&running, 2).await;
    stage.discord.says(stage.ann, stage.dm, "end");
    inbox.until_taken(3).await;
    assert_eq!(running.inbox.texts(), ["one", "two", "end"]);
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back() {
    let mut stage = DiscordFixture::quick();
    let running = stage.up(&[]).await;
    stage.discord.says(stage.ann, stage.dm, "one");
    running.inbox.until_taken(1).await;
    for (at, sessions) in [SessionRetention::Kept, SessionRetention::Lost].into_iter().enumerate() {
        stage.discord.stop();
        stage.discord.says(stage.ann, stage.dm, &format!("while it was down {at}"));
        stage.discord.start_again(sessions).unwrap();
        running.inbox.until_taken(at + 2).await;
    }
    assert_eq!(running.inbox.texts(), ["one", "while it was down 0", "while it was down 1"]);
    assert!(
        running.inbox.connections().iter().any(|connection| matches!(connection, ConnectionStatus::Down(_)))
    );
    assert_eq!(running.inbox.duplicates(), 0);
}

#[tokio::test]
async fn duplicates_and_swapped_events() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let other = stage.discord.person("bob", None);
    let dm = stage.discord.dm(other);
    stage.discord.says(stage.ann, stage.dm, "one");
    running.inbox.until_taken(1).await;
    stage.discord.repeat_last();
    stage.discord.swap_next();
    stage.discord.says(stage.ann, stage.dm, "two");
    stage.discord.says(other, dm, "three");
    stage.discord.repeat_last();
    stage.discord.says(other, dm, "four");
    running.inbox.until_taken(4).await;
    assert_eq!(running.inbox.envelopes().len(), 4);
    assert_eq!(running.inbox.duplicates(), 0, "files would not be fetched twice either");
    let (_, host) = running.stop().await;
    assert_eq!(host.document("discord_session.json").unwrap()["seq"], stage.discord.sequence());
}

#[tokio::test]
async fn more_than_fits_into_memory_waits_at_discord() {
    let stage = DiscordFixture::quick();
    let running = stage.up(&[]).await;
    running.inbox.set_paused(true);
    for number in 0..2500 {
        stage.discord.says(stage.ann, stage.dm, &number.to_string());
    }
    let connections = running.inbox.until_connections(2).await;
    assert_eq!(connections[1], ConnectionStatus::Down("more messages wait than can be taken in".into()));
    running.inbox.set_paused(false);
    running.inbox.until_taken(2500).await;
    let expected: Vec<String> = (0..2500).map(|number| number.to_string()).collect();
    assert_eq!(running.inbox.texts(), expected);
    assert_eq!((running.inbox.duplicates(), stage.discord.sessions().0), (0, 1));
}

#[tokio::test]
async fn heartbeats_go_on_while_work_is_held_up_and_say_what_is_committed() {
    let clock = TestClock::new();
    let stage = DiscordFixture::with_clock(Arc::new(clock.clone()));
    let running = stage.up(&[]).await;
    stage.discord.says(stage.ann, stage.dm, "one");
    running.inbox.until_taken(1).await;
    let committed = stage.discord.sequence() as u64;
    running.inbox.set_paused(true);
    stage.discord.says(stage.ann, stage.dm, "two");
    for count in 1..4 {
        clock.advance(Duration::from_millis(41_250));
        stage.discord.until_heartbeats(count).await;
        // Whatever follows the heartbeat acknowledgement has been read, so the acknowledgement has too.
        let used = stage.discord.uses_command(stage.ann, stage.channel, "status", &[]);
        stage.discord.until_acknowledged(used).await;
    }
    assert!(
        stage.discord.heartbeats().iter().all(|said| *said == Some(committed)),
        "{:?}",
        stage.discord.heartbeats()
    );
    running.inbox.set_paused(false);
    running.inbox.until_taken(5).await;
    assert_eq!(stage.discord.sessions(), (1, 0), "the connection stood all the time");
}

#[tokio::test]
async fn an_unanswered_heartbeat_ends_the_connection() {
    let clock = TestClock::new();
    let discord =
        FakeDiscord::builder().clock(Arc::new(clock.clone())).heartbeat(Duration::from_secs(40)).start();
    let stage = DiscordFixture::on(discord.unwrap(), Arc::new(clock.clone()));
    let running = stage.up(&[]).await;
    stage.discord.ignore_heartbeats(true);
    clock.advance(Duration::from_secs(40));
    stage.discord.until_heartbeats(1).await;
    stage.discord.ignore_heartbeats(false);
    stage.discord.says(stage.ann, stage.dm, "meanwhile");
    running.inbox.until_taken(1).await;
    clock.advance(Duration::from_secs(40));
    stage.discord.until_sessions(1, 1).await;
    let connections = running.inbox.until_connections(2).await;
    assert_eq!(connections[1], ConnectionStatus::Down("Discord did not answer a heartbeat".into()));
}

#[tokio::test]
async fn only_a_person_can_help_with_these() {
    for (spoil, hint) in [
        ((|stage| stage.discord.change_token("other")) as fn(&DiscordFixture), "DISCORD_BOT_TOKEN"),
        (|stage| stage.discord.forbid_intents(32_768), "Message Content Intent"),
    ] {
        let stage = DiscordFixture::new();
        spoil(&stage);
        let running = stage.start(&[], &MemoryHost::new(), &Arc::default());
        let error = running.ended().await.unwrap_err();
        assert!(!matches!(error, ChannelError::Retry { .. }), "{error:?}");
        assert!(error.to_string().contains(hint), "{error}");
    }
    // The token is changed while the bot is connected.
    let stage = DiscordFixture::quick();
    let running = stage.up(&[]).await;
    stage.discord.change_token("other");
    stage.discord.order(&DiscordSocketAction::Drop);
    assert!(matches!(running.ended().await, Err(ChannelError::Reauthorise(_))));
}

#[tokio::test]
async fn trouble_on_the_way_in_is_waited_out() {
    let stage = DiscordFixture::quick();
    stage.discord.fault("GET", "/users/@me", DiscordFault::Cut);
    stage.discord.fault(
        "GET",
        "/users/@me",
        DiscordFault::Refuse { status: 503, code: 0, message: "later".into() },
    );
    stage.discord.fault(
        "GET",
        "/gateway/bot",
        DiscordFault::Refuse { status: 500, code: 0, message: "later".into() },
    );
    stage.discord.fault("GET", "/gateway/bot", DiscordFault::Garbage);
    stage.discord.fault(
        "GET",
        "/applications/@me",
        DiscordFault::Refuse { status: 404, code: 0, message: "no".into() },
    );
    let running = stage.start(&[], &MemoryHost::new(), &Arc::default());
    until_up(&running, 1).await;
    let down =
        running.inbox.connections().iter().filter(|one| matches!(one, ConnectionStatus::Down(_))).count();
    assert_eq!(down, 4);
}

#[tokio::test]
async fn every_form_of_the_address() {
    let stage = DiscordFixture::new();
    for path in ["", "/", "/api", "/api/v10"] {
        let extra = json!({"base_url": format!("{}{path}", stage.discord.base_url())});
        let options = support::options(&[("DISCORD_BOT_TOKEN", hermes_testkit::discord::TOKEN)], extra);
        let running = support::listen("discord", &options, &MemoryHost::new(), &Arc::default(), &stage.clock);
        until_up(&running, 1).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_document_that_makes_no_sense_does_no_harm() {
    for document in
        [json!(null), json!([1]), json!({"session_id": 3, "seq": "x", "channels": {"a": 1, "b": "y"}})]
    {
        let stage = DiscordFixture::new();
        let host = MemoryHost::new();
        hermes_channels::ChannelHost::save_document(&*host, "discord_session.json", &document);
        hermes_channels::ChannelHost::save_document(&*host, "discord_threads.json", &document);
        let running = stage.start(&[], &host, &Arc::default());
        until_up(&running, 1).await;
        stage.discord.says(stage.ann, stage.dm, "hello");
        running.inbox.until_taken(1).await;
    }
}

/// Generates any JSON, with Discord's field names among its keys.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[0-9]{1,20}".prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let keys = prop_oneof![
        Just("id"),
        Just("channel_id"),
        Just("guild_id"),
        Just("author"),
        Just("content"),
        Just("type"),
        Just("mentions"),
        Just("attachments"),
        Just("url"),
        Just("size"),
        Just("content_type"),
        Just("referenced_message"),
        Just("member"),
        Just("data"),
        Just("options"),
        Just("custom_id"),
        Just("token"),
        Just("application_id"),
        Just("message"),
        Just("message_snapshots"),
        Just("channels"),
        Just("threads"),
        Just("name"),
        Just("user"),
        Just("session_id"),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((keys.clone(), inner), 0..8)
                .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

#[test]
fn nothing_discord_says_can_end_the_bot() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stage = DiscordFixture::quick();
    let running = runtime.block_on(stage.up(&[]));
    let names = prop_oneof![
        Just("MESSAGE_CREATE"),
        Just("INTERACTION_CREATE"),
        Just("GUILD_CREATE"),
        Just("CHANNEL_UPDATE"),
        Just("THREAD_LIST_SYNC"),
        Just("CHANNEL_DELETE"),
        Just("RESUMED"),
        Just("ANYTHING"),
    ];
    let op = prop_oneof![
        Just(json!(0)),
        Just(json!(1)),
        Just(json!(3)),
        Just(json!(10)),
        Just(json!(11)),
        Just(json!("x"))
    ];
    let frame = (op, names, anything(), proptest::option::of(1_000..u64::MAX));
    let mut said = 0;
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&frame, |(op, name, data, sequence)| {
            stage
                .discord
                .order(&DiscordSocketAction::Send(json!({"op": op, "t": name, "d": data, "s": sequence})));
            stage.discord.order(&DiscordSocketAction::SendText(data.to_string()));
            Ok(())
        })
        .unwrap();
    // The channel still works.
    said += 1;
    stage.discord.says(stage.ann, stage.dm, &format!("still there? {said}"));
    runtime.block_on(async {
        let mut count = 1;
        while !running.inbox.texts().iter().any(|text| text.starts_with("still there?")) {
            count = running.inbox.until_taken(count).await.len() + 1;
        }
    });
    let connections = running.inbox.connections();
    assert_eq!(
        connections.iter().filter(|one| matches!(one, ConnectionStatus::Down(_))).count(),
        0,
        "{connections:?}"
    );
}
