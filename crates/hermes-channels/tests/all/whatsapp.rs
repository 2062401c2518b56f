//! The WhatsApp channel against an emulated bridge.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::whatsapp::FakeWhatsAppBridge;
use hermes_testkit::{PlatformFault, TestWebsite};
use hermes_types::{
    Attachment, AttachmentKind, ChannelError, ChatAddress, ChatKind, ChatPart, Clock, ConnectionStatus,
    DeliveryCertainty, Timestamp,
};
use serde_json::json;

use super::support::{
    HelperScript, ListeningChannel, MemoryHost, PNG, RecordingIntake, listen, open, options, picture, place,
    question, reply,
};

const ANN: &str = "4915112345678";

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn settings(more: &[(&str, &str)]) -> hermes_channels::Options {
    let mut variables = vec![("WHATSAPP_ENABLED", "true"), ("WHATSAPP_MODE", "bot")];
    variables.extend(more);
    options(&variables, json!(null))
}

/// A bridge that starts, and its lines.
fn host_of(bridge: &FakeWhatsAppBridge) -> (Arc<MemoryHost>, HelperScript) {
    let host = MemoryHost::new();
    let script = HelperScript::default();
    host.set_helper(script.clone());
    script.say(&json!({"event": "starting"}));
    script.say(&json!({"event": "listening", "port": bridge.port()}));
    script.say(&json!({"event": "connected", "id": "49@s.whatsapp.net"}));
    (host, script)
}

async fn start(bridge: &FakeWhatsAppBridge) -> (ListeningChannel, HelperScript) {
    let (host, script) = host_of(bridge);
    let running = listen("whatsapp", &settings(&[]), &host, &Arc::<RecordingIntake>::default(), &clock());
    assert_eq!(running.inbox.until_connections(1).await, [ConnectionStatus::Up]);
    (running, script)
}

fn chat() -> ChatAddress {
    place(ChatKind::Dm, &format!("{ANN}@s.whatsapp.net"), None)
}

#[tokio::test]
async fn messages_are_acknowledged_after_they_were_taken() {
    let bridge = FakeWhatsAppBridge::start().unwrap();
    let (running, script) = start(&bridge).await;
    // The token that the bridge was given is the one that requests carry.
    let first: serde_json::Value = serde_json::from_str(&script.first_lines()[0]).unwrap();
    bridge.set_token(first["token"].as_str().unwrap());
    running.inbox.refuse_next();
    let id = bridge.says(ANN, "hello");
    let taken = running.inbox.until_taken(1).await;
    bridge.until_acknowledged(1).await;
    assert_eq!(taken[0].text(), "hello");
    assert_eq!(taken[0].platform_key, format!("{ANN}@s.whatsapp.net|{ANN}@s.whatsapp.net|{id}"));
    assert_eq!(
        (taken[0].place.kind, taken[0].sender.user_name.as_deref()),
        (ChatKind::Dm, Some("Name of 4915112345678"))
    );
    bridge.sends(ANN, &json!({"event": "reaction", "emoji": "x", "targetId": id}));
    bridge.until_acknowledged(2).await;
    assert_eq!(bridge.queued(), 0, "what is no message is acknowledged, too");
}

#[tokio::test]
async fn what_was_not_acknowledged_comes_again_and_is_known() {
    let bridge = FakeWhatsAppBridge::start().unwrap();
    let (running, _script) = start(&bridge).await;
    running.inbox.set_paused(true);
    bridge.says(ANN, "one");
    running.inbox.until_attempted(1).await;
    assert_eq!(bridge.queued(), 1);
    let (inbox, _) = running.kill().await;
    inbox.set_paused(false);
    let (host, _script) = host_of(&bridge);
    let running = listen("whatsapp", &settings(&[]), &host, &inbox, &clock());
    running.inbox.until_taken(1).await;
    bridge.until_acknowledged(1).await;
    // The bridge takes it and loses the answer to the acknowledgement: it comes again under another id of the queue.
    bridge.says(ANN, "two");
    bridge.repeat_last();
    running.inbox.until_duplicates(1).await;
    assert_eq!(running.inbox.texts(), ["one", "two"]);
}

#[tokio::test]
async fn a_reaction_to_a_question_is_its_answer() {
    let bridge = FakeWhatsAppBridge::start().unwrap();
    let (running, _script) = start(&bridge).await;
    let asked = running.channel.send(&question("whatsapp", &chat())).await.unwrap().message_ids.remove(0);
    let done =
        running.channel.send(&reply("whatsapp", &chat(), "Done.")).await.unwrap().message_ids.remove(0);
    let sent = bridge.sent(ANN);
    assert_eq!(sent[0].text, "May I?\n\nOr react with ✅ Allow once · ❌ Deny");
    assert_eq!(sent[1].text, "Done.");
    let reacts = |emoji: &str, target: &str| {
        bridge.sends(
            ANN,
            &json!({"event": "reaction", "emoji": emoji, "targetId": target, "targetFromMe": true}),
        )
    };
    reacts("✅", &done);
    reacts("👍", &asked);
    reacts("", &asked);
    // Nobody answers the question of another chat.
    let stolen = json!({"event": "reaction", "emoji": "✅", "targetId": asked, "targetFromMe": true});
    bridge.sends("4915100000000", &stolen);
    running.inbox.refuse_next();
    let id = reacts("✅", &asked);
    bridge.says(ANN, "last");
    let taken = running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["/approve #7", "last"]);
    assert_eq!(taken[0].sender.user_id.as_deref(), Some("4915112345678@s.whatsapp.net"));
    assert_eq!((&taken[0].place, taken[0].reply_to.as_ref()), (&chat(), Some(&asked)));
    assert!(taken[0].platform_key.ends_with(&id), "{}", taken[0].platform_key);
    bridge.until_acknowledged(6).await;
}

#[tokio::test]
async fn a_bridge_that_ends_is_started_again() {
    let bridge = FakeWhatsAppBridge::start().unwrap();
    let (running, script) = start(&bridge).await;
    script.end();
    running.inbox.until_connections(2).await;
    bridge.says(ANN, "meanwhile");
    script.say(&json!({"event": "listening", "port": bridge.port()}));
    script.say(&json!({"event": "disconnected", "code": 428, "text": "lost", "retryMs": 3000}));
    script.say(&json!({"event": "connected"}));
    assert_eq!(running.inbox.until_taken(1).await[0].text(), "meanwhile");
    let connections = running.inbox.until_connections(4).await;
    assert!(matches!(&connections[1], ConnectionStatus::Down(why) if why.contains("whatsapp_bridge_exited")));
    assert!(
        matches!(&connections[2], ConnectionStatus::Down(why) if why.contains("lost")),
        "{connections:?}"
    );
    assert_eq!(script.first_lines().len(), 2);
    running.stop().await;
    assert_eq!(script.stops(), 2, "it ends with the channel");
}

#[tokio::test]
async fn ends_that_no_start_mends_are_told() {
    for (event, part) in [
        ("logged_out", "hermes whatsapp"),
        ("unlinked", "hermes whatsapp"),
        ("refused", "refuses"),
        ("session_in_use", "another bridge"),
    ] {
        let bridge = FakeWhatsAppBridge::start().unwrap();
        let (running, script) = start(&bridge).await;
        script.say(&json!({"event": event, "text": "x"}));
        script.say(&json!({"event": "exit", "code": 4}));
        script.end();
        let ended = running.ended().await.unwrap_err();
        assert!(
            !matches!(ended, ChannelError::Retry { .. }) && ended.to_string().contains(part),
            "{event}: {ended}"
        );
    }
    // Without Node, nothing is tried again.
    let inbox = Arc::<RecordingIntake>::default();
    let ended = listen("whatsapp", &settings(&[]), &MemoryHost::new(), &inbox, &clock()).ended().await;
    assert!(matches!(ended.unwrap_err(), ChannelError::Refused(_)));
}

#[tokio::test]
async fn files_come_in_and_leave_the_folder_of_the_bridge() {
    let bridge = FakeWhatsAppBridge::start().unwrap();
    let (running, _script) = start(&bridge).await;
    let photo = running.host.file("1.png", PNG);
    let note = running.host.file("2.ogg", b"OggS");
    bridge.shares(ANN, "look", "image", ("", "image/png", &photo));
    bridge.shares(ANN, "", "ptt", ("", "audio/ogg; codecs=opus", &note));
    bridge.sends(ANN, &json!({"body": "[video received]", "hasMedia": true, "mediaType": "video", "mediaError": "too large"}));
    let taken = running.inbox.until_taken(3).await;
    bridge.until_acknowledged(3).await;
    let files: Vec<_> = taken.iter().flat_map(|envelope| envelope.files().cloned()).collect();
    assert_eq!(
        files.iter().map(|file| file.kind).collect::<Vec<_>>(),
        [AttachmentKind::Image, AttachmentKind::Voice]
    );
    assert_eq!(std::fs::read(&files[0].path).unwrap(), PNG);
    assert_eq!((taken[0].text().as_str(), taken[1].text().as_str()), ("look", ""));
    assert_eq!(taken[2].text(), "[video received]");
    bridge.says(ANN, "done");
    running.inbox.until_taken(4).await;
    assert!(!std::path::Path::new(&photo).exists() && !std::path::Path::new(&note).exists());
}

#[tokio::test]
async fn answers_have_marks_files_and_quotes_and_are_sent_once() {
    let bridge = FakeWhatsAppBridge::start().unwrap();
    let (host, script) = host_of(&bridge);
    let site = TestWebsite::start().unwrap();
    // Nobody listens: the first message starts a bridge.
    let channel = open("whatsapp", &settings(&[]), &host, &clock()).unwrap();
    let mut answer = reply("whatsapp", &chat(), "**Yes**, [here](https://e.org)");
    let file = Attachment {
        kind: AttachmentKind::Document,
        path: host.file("report.csv", b"a,b\n"),
        name: None,
        mime: None,
    };
    answer.pieces.push(ChatPart::File(file));
    answer.pieces.push(picture(&site.put("/cat.png", "image/png", PNG), "A *cat*"));
    bridge.fault("POST", "/send", PlatformFault::DoAndCut);
    assert!(matches!(channel.send(&answer).await.unwrap_err(), ChannelError::DeliveryUnknown(_)));
    let receipt = channel.send_again(&answer, Timestamp(0.0)).await.unwrap();
    assert_eq!(receipt.certainty, DeliveryCertainty::Once);
    let sent = bridge.sent(ANN);
    let ids: Vec<&str> = sent.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, receipt.message_ids);
    assert!(ids.iter().all(|id| id.len() == 22 && id.starts_with("3EB0")), "{ids:?}");
    assert_eq!(sent[0].text, "*Yes*, here (https://e.org)");
    assert_eq!(sent[1].file, Some(("document".to_owned(), "report.csv".to_owned(), b"a,b\n".to_vec())));
    assert_eq!((sent[2].text.as_str(), sent[2].file.as_ref().unwrap().2.as_slice()), ("A _cat_", PNG));
    let mut in_group = reply("whatsapp", &place(ChatKind::Group, "1@g.us", None), "hi");
    in_group.reply_to = Some("3A1".to_owned());
    channel.send(&in_group).await.unwrap();
    assert_eq!(bridge.sent("1@g.us")[0].quoted.as_deref(), Some("3A1"));
    let posted = channel.post(&chat(), "working").await.unwrap();
    channel.edit(&chat(), &posted, "**done**").await.unwrap();
    assert_eq!(bridge.edits(&posted), 1);
    channel.show_typing(&chat()).await;
    assert_eq!(bridge.typing(), [chat().chat_id]);
    assert_eq!(script.first_lines().len(), 1, "one bridge for all of them");
    bridge.set_away(true);
    assert!(matches!(channel.send(&in_group).await.unwrap_err(), ChannelError::Retry { .. }));
}
