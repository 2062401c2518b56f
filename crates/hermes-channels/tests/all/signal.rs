//! The Signal channel against an emulated daemon.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::signal::{ACCOUNT, ACCOUNT_UUID, FakeSignal};
use hermes_testkit::{PlatformFault, TestWebsite};
use hermes_types::{
    Attachment, AttachmentKind, Channel, ChannelError, ChatKind, ChatPart, Clock, ConnectionStatus,
    MessageStatus,
};
use serde_json::json;

use super::support::{
    ListeningChannel, MemoryHost, PNG, RecordingIntake, listen, open, options, picture, place, question,
    reply,
};

const ANN: &str = "+4915112345678";

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn settings(signal: &FakeSignal, more: &[(&str, &str)]) -> hermes_channels::Options {
    let url = signal.base_url();
    let mut variables = vec![("SIGNAL_HTTP_URL", url.as_str()), ("SIGNAL_ACCOUNT", ACCOUNT)];
    variables.extend(more);
    options(&variables, json!(null))
}

fn start_with(signal: &FakeSignal, more: &[(&str, &str)]) -> ListeningChannel {
    let inbox: Arc<RecordingIntake> = Arc::default();
    listen("signal", &settings(signal, more), &MemoryHost::new(), &inbox, &clock())
}

fn sender(signal: &FakeSignal, more: &[(&str, &str)], host: &Arc<MemoryHost>) -> Arc<dyn Channel> {
    open("signal", &settings(signal, more), host, &clock()).unwrap()
}

#[tokio::test]
async fn messages_groups_and_notes_to_self_come_in() {
    let signal = FakeSignal::start().unwrap();
    signal.group("g1=", "Home");
    signal.group("g2=", "Work");
    let running = start_with(&signal, &[("SIGNAL_GROUP_ALLOWED_USERS", "g1=")]);
    running.inbox.until_connections(1).await;
    let first = signal.says(ANN, "hello");
    signal.says_in_group(ANN, "g2=", "not for you");
    signal.says_in_group(ANN, "g1=", "for you");
    signal.notes("a note");
    signal.sends(ANN, json!({"message": null, "reaction": {"emoji": "👍"}}));
    signal.event(json!({"envelope": {"receiptMessage": {"isRead": true}, "source": ANN, "timestamp": 1}}));
    signal
        .sends(ANN, json!({"message": "yes", "quote": {"id": first, "authorNumber": ANN, "text": "hello"}}));
    let taken = running.inbox.until_taken(4).await;
    assert_eq!(running.inbox.texts(), ["hello", "for you", "a note", "yes"]);
    assert_eq!(taken[0].platform_key, format!("{first}|{ANN}"));
    assert_eq!((taken[0].place.kind, taken[0].place.chat_id.as_str()), (ChatKind::Dm, ANN));
    assert_eq!((taken[1].place.kind, taken[1].place.chat_id.as_str()), (ChatKind::Group, "group:g1="));
    assert_eq!(taken[1].place.chat_name.as_deref(), Some("Home"));
    assert_eq!(taken[2].sender.user_id.as_deref(), Some(ACCOUNT));
    assert_eq!(taken[3].reply_to_text.as_deref(), Some("hello"));
    // What the bot writes to the account itself comes back from the other devices.
    let to_self = reply("signal", &place(ChatKind::Dm, ACCOUNT, None), "done");
    running.channel.send(&to_self).await.unwrap();
    signal.echoes(&signal.sent(ACCOUNT)[0]);
    signal.says(ANN, "last");
    running.inbox.until_taken(5).await;
    assert_eq!(running.inbox.texts()[4], "last");
}

#[tokio::test]
async fn a_mention_by_the_other_id_counts_and_a_lost_registration_is_said() {
    let signal = FakeSignal::start().unwrap();
    signal.group("g1=", "Home");
    let wanted = [("SIGNAL_GROUP_ALLOWED_USERS", "*"), ("SIGNAL_REQUIRE_MENTION", "true")];
    let running = start_with(&signal, &wanted);
    running.inbox.until_connections(1).await;
    signal.says_in_group(ANN, "g1=", "among ourselves");
    let mentions = json!([{"start": 0, "length": 1, "uuid": ACCOUNT_UUID}]);
    let group = json!({"groupId": "g1=", "groupName": "Home"});
    signal.sends(ANN, json!({"message": "\u{FFFC} hello", "mentions": mentions, "groupInfo": group}));
    running.inbox.until_taken(1).await;
    assert_eq!(running.inbox.texts(), ["hello"]);
    signal.refuse("getUserStatus", -1, &format!("User {ACCOUNT} is not registered."));
    signal.drop_stream();
    let ended = running.ended().await.unwrap_err();
    assert!(matches!(&ended, ChannelError::Reauthorise(why) if why.contains("register")), "{ended:?}");
}

#[tokio::test]
async fn the_stream_is_opened_again_and_waiting_messages_arrive() {
    let mut signal = FakeSignal::start().unwrap();
    let running = start_with(&signal, &[]);
    running.inbox.until_connections(1).await;
    signal.stop();
    running.inbox.until_connections(2).await;
    signal.says(ANN, "while you were away");
    signal.start_again().unwrap();
    assert_eq!(running.inbox.until_taken(1).await[0].text(), "while you were away");
    let connections = running.inbox.connections();
    assert!(matches!(connections[1], ConnectionStatus::Down(_)) && connections[2] == ConnectionStatus::Up);
}

#[tokio::test]
async fn an_event_is_taken_before_the_next_one_is_read() {
    let signal = FakeSignal::start().unwrap();
    let running = start_with(&signal, &[]);
    running.inbox.until_connections(1).await;
    running.inbox.refuse_next();
    signal.says(ANN, "one");
    signal.says(ANN, "two");
    running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["one", "two"], "what was refused is handed in again, in order");
}

#[tokio::test]
async fn files_are_fetched_and_recognised() {
    let signal = FakeSignal::start().unwrap();
    let running = start_with(&signal, &[]);
    running.inbox.until_connections(1).await;
    signal.shares(ANN, "look", "image/png", PNG);
    signal.shares(ANN, "", "audio/aac", b"sound");
    signal.shares(ANN, "", "application/octet-stream", b"%PDF-1.7");
    signal.sends(ANN, json!({"attachments": [{"id": "gone", "contentType": "image/png"}]}));
    let taken = running.inbox.until_taken(4).await;
    let kinds: Vec<_> = taken.iter().flat_map(|envelope| envelope.files().map(|file| file.kind)).collect();
    assert_eq!(kinds, [AttachmentKind::Image, AttachmentKind::Voice, AttachmentKind::Document]);
    assert_eq!(std::fs::read(&taken[0].files().next().unwrap().path).unwrap(), PNG);
    assert!(taken[3].text().contains("could not be fetched"), "{}", taken[3].text());
}

#[tokio::test]
async fn answers_have_styles_quotes_and_files() {
    let signal = FakeSignal::start().unwrap();
    signal.group("g1=", "Home");
    let site = TestWebsite::start().unwrap();
    let host = MemoryHost::new();
    let channel = sender(&signal, &[("SIGNAL_GROUP_ALLOWED_USERS", "*")], &host);
    let group = place(ChatKind::Group, "group:g1=", None);
    let mut answer = reply("signal", &group, "**Yes**, `x`");
    answer.reply_to = Some(format!("7|{ANN}"));
    let file = Attachment {
        kind: AttachmentKind::Document,
        path: host.file("report.pdf", b"%PDF"),
        name: None,
        mime: None,
    };
    answer.pieces.push(ChatPart::File(file));
    answer.pieces.push(picture(&site.put("/cat.png", "image/png", PNG), "A *cat*"));
    let receipt = channel.send(&answer).await.unwrap();
    let sent = signal.sent("group:g1=");
    assert_eq!(
        (sent[0].text.as_str(), sent[0].styles.as_slice()),
        ("Yes, x", &["0:3:BOLD".to_owned(), "5:1:MONOSPACE".to_owned()][..])
    );
    assert_eq!(sent[0].quote, Some((7, ANN.to_owned())));
    assert_eq!(sent[1].files, [b"%PDF".to_vec()]);
    assert_eq!((sent[2].text.as_str(), sent[2].files[0].as_slice()), ("A cat", PNG));
    assert_eq!(receipt.message_ids[0], format!("{}|{ACCOUNT}", sent[0].timestamp));
    let mut direct = reply("signal", &place(ChatKind::Dm, ANN, None), "hi");
    direct.reply_to = Some(format!("7|{ANN}"));
    channel.send(&direct).await.unwrap();
    assert_eq!(signal.sent(ANN)[0].quote, None);
    let chats = channel.chats().await;
    assert_eq!((chats[0].chat_id.as_str(), chats[0].chat_name.as_deref()), ("group:g1=", Some("Home")));
}

#[tokio::test]
async fn typing_and_reactions() {
    let signal = FakeSignal::start().unwrap();
    let channel = sender(&signal, &[("SIGNAL_REACTIONS", "true")], &MemoryHost::new());
    let there = place(ChatKind::Dm, ANN, None);
    channel.show_typing(&there).await;
    assert_eq!(signal.typing(), [ANN]);
    channel.show_message_status(&there, &format!("7|{ANN}"), MessageStatus::Answered).await;
    assert_eq!(signal.reactions(), [(7, ANN.to_owned(), "✅".to_owned())]);
}

#[tokio::test]
async fn a_reaction_to_a_question_is_its_answer() {
    let signal = FakeSignal::start().unwrap();
    let (host, inbox) = (MemoryHost::new(), Arc::<RecordingIntake>::default());
    let running = listen("signal", &settings(&signal, &[]), &host, &inbox, &clock());
    inbox.until_connections(1).await;
    let question = question("signal", &place(ChatKind::Dm, ANN, None));
    running.channel.send(&question).await.unwrap();
    let other = reply("signal", &place(ChatKind::Dm, ANN, None), "Done.");
    running.channel.send(&other).await.unwrap();
    let sent = signal.sent(ANN);
    assert_eq!(sent[0].text, "May I?\n\nOr react with ✅ Allow once · ❌ Deny");
    assert_eq!(sent[1].text, "Done.");
    running.stop().await;
    // What the reactions stand for is known after a restart, too.
    let _running = listen("signal", &settings(&signal, &[]), &host, &inbox, &clock());
    inbox.until_connections(2).await;
    signal.reacts(ANN, sent[1].timestamp, "✅");
    signal.reacts(ANN, sent[0].timestamp, "👍");
    let taken_back = json!({
        "emoji": "✅", "targetAuthorNumber": ACCOUNT, "targetSentTimestamp": sent[0].timestamp, "isRemove": true,
    });
    signal.sends(ANN, json!({"message": null, "reaction": taken_back}));
    // Nobody answers the question of another chat.
    signal.reacts("+4915100000000", sent[0].timestamp, "✅");
    let at = signal.reacts(ANN, sent[0].timestamp, "❌");
    signal.says(ANN, "last");
    let taken = inbox.until_taken(2).await;
    assert_eq!(inbox.texts(), ["/deny #7", "last"]);
    assert_eq!(taken[0].sender.user_id.as_deref(), Some(ANN));
    assert_eq!(
        (&taken[0].place, taken[0].platform_key.as_str()),
        (&question.place, format!("{at}|{ANN}").as_str())
    );
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let signal = FakeSignal::start().unwrap();
    let channel = sender(&signal, &[], &MemoryHost::new());
    let hello = reply("signal", &place(ChatKind::Dm, ANN, None), "hello");
    signal.refuse("send", -5, "Rate limit exceeded");
    assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::Retry { .. }));
    signal.refuse("send", -4, "Untrusted identity");
    let refused = channel.send(&hello).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("safety number")), "{refused:?}");
    signal.refuse("send", -1, &format!("User {ACCOUNT} is not registered."));
    let gone = channel.send(&hello).await.unwrap_err();
    assert!(matches!(&gone, ChannelError::Reauthorise(_)) && !gone.to_string().contains(ACCOUNT), "{gone:?}");
    for fault in [PlatformFault::Refuse(500, json!({})), PlatformFault::Garbage, PlatformFault::Cut] {
        signal.fault("POST", "/rpc", fault.clone());
        let error = channel.send(&hello).await.unwrap_err();
        assert!(matches!(error, ChannelError::DeliveryUnknown(_)), "{fault:?}: {error:?}");
    }
    let nowhere = reply("signal", &place(ChatKind::Group, "group:none", None), "hello");
    assert!(matches!(channel.send(&nowhere).await.unwrap_err(), ChannelError::Refused(_)));
    assert!(signal.sent(ANN).is_empty());
}
