//! The Matrix channel against an emulated homeserver, without encryption.

use std::sync::Arc;
use std::time::Duration;

use hermes_task::SystemClock;
use hermes_testkit::matrix::{BOT, FakeMatrix, PASSWORD, TOKEN};
use hermes_testkit::{PlatformFault, TestWebsite};
use hermes_types::{
    Attachment, AttachmentKind, Channel, ChannelError, ChatKind, ChatPart, Clock, ConnectionStatus,
    DeliveryCertainty, MessageStatus,
};
use serde_json::json;

use super::support::{
    ListeningChannel, MemoryHost, PNG, RecordingIntake, listen, open, options, picture, place, question,
    reply,
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn settings(server: &FakeMatrix, more: &[(&str, &str)]) -> hermes_channels::Options {
    let url = server.base_url();
    let mut variables = vec![("MATRIX_HOMESERVER", url.as_str())];
    if !more.iter().any(|(name, _)| *name == "MATRIX_PASSWORD") {
        variables.push(("MATRIX_ACCESS_TOKEN", TOKEN));
    }
    variables.extend(more);
    options(&variables, json!(null))
}

fn start_with(
    server: &FakeMatrix,
    more: &[(&str, &str)],
    host: &Arc<MemoryHost>,
    inbox: &Arc<RecordingIntake>,
) -> ListeningChannel {
    listen("matrix", &settings(server, more), host, inbox, &clock())
}

fn start(server: &FakeMatrix) -> ListeningChannel {
    start_with(server, &[], &MemoryHost::new(), &Arc::default())
}

fn sender(server: &FakeMatrix, more: &[(&str, &str)]) -> Arc<dyn Channel> {
    open("matrix", &settings(server, more), &MemoryHost::new(), &clock()).unwrap()
}

#[tokio::test]
async fn direct_messages_and_mentions_come_in() {
    let server = FakeMatrix::start().unwrap();
    let (ann, bob) = (server.person("Ann"), server.person("Bob"));
    let (dm, town) = (server.room("", &[&ann]), server.room("Town", &[&ann, &bob]));
    let running = start(&server);
    running.inbox.until_connections(1).await;
    let first = server.says(&ann, &dm, "hello");
    server.says(&ann, &town, "not for you");
    let second = server.says(&bob, &town, "@hermes:example.org what is this?");
    server.sends(
        &bob,
        &town,
        "m.room.message",
        json!({"msgtype": "m.notice", "body": "@hermes:example.org beep"}),
    );
    let edit = json!({
        "msgtype": "m.text", "body": "* hello!", "m.new_content": {"msgtype": "m.text", "body": "hello!"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": first},
    });
    server.sends(&ann, &dm, "m.room.message", edit);
    let within = json!({
        "msgtype": "m.text", "body": "and this?", "m.mentions": {"user_ids": [BOT]},
        "m.relates_to": {"rel_type": "m.thread", "event_id": second, "is_falling_back": true, "m.in_reply_to": {"event_id": second}},
    });
    let third = server.sends(&bob, &town, "m.room.message", within);
    let location = json!({"msgtype": "m.location", "body": "Home", "geo_uri": "geo:51.5,-0.1"});
    server.sends(&ann, &dm, "m.room.message", location);
    let fourth = server.says(&ann, &dm, "!new");
    let mut taken = running.inbox.until_taken(5).await;
    // A sync says everything of one room, then of the next; within a room the order is kept.
    taken.sort_by_key(|envelope| envelope.platform_key.trim_start_matches("$event").parse::<u64>().unwrap());
    let texts: Vec<String> = taken.iter().map(hermes_types::Envelope::text).collect();
    assert_eq!(texts[..3], ["hello", "what is this?", "and this?"]);
    assert!(texts[3].contains("Latitude: 51.5"), "{texts:?}");
    assert_eq!(texts[4], "/new");
    let ids: Vec<_> = [0, 1, 2, 4].map(|at: usize| taken[at].platform_key.clone()).to_vec();
    assert_eq!(ids, [first, second.clone(), third, fourth]);
    assert_eq!(taken[0].place.kind, ChatKind::Dm);
    assert_eq!((taken[1].place.kind, taken[1].place.chat_name.as_deref()), (ChatKind::Group, Some("Town")));
    assert_eq!((taken[1].place.thread_id.clone(), taken[2].place.thread_id.clone()), (None, Some(second)));
    assert_eq!((taken[2].reply_to.clone(), taken[0].sender.user_id.clone()), (None, Some(ann)));
    assert_eq!(taken[1].sender.user_name.as_deref(), Some("Bob"));
}

#[tokio::test]
async fn rooms_by_the_settings() {
    let server = FakeMatrix::start().unwrap();
    let (ann, bob) = (server.person("Ann"), server.person("Bob"));
    let (free, other) = (server.room("Free", &[&ann, &bob]), server.room("Other", &[&ann, &bob]));
    let direct = server.room("Direct", &[&ann, &bob]);
    server.call_direct(&direct);
    let more = [("MATRIX_FREE_RESPONSE_ROOMS", free.as_str()), ("MATRIX_AUTO_THREAD", "true")];
    let running = start_with(&server, &more, &MemoryHost::new(), &Arc::default());
    running.inbox.until_connections(1).await;
    server.says(&ann, &other, "unasked");
    let question = server.says(&ann, &free, "free");
    server.says(&bob, &direct, "direct");
    let mut taken = running.inbox.until_taken(2).await;
    taken.sort_by_key(|envelope| std::cmp::Reverse(envelope.text()));
    assert_eq!([taken[0].text(), taken[1].text()], ["free", "direct"]);
    assert_eq!(
        (taken[0].place.thread_id.as_ref(), taken[1].place.thread_id.as_ref()),
        (Some(&question), None)
    );
    assert_eq!(taken[1].place.kind, ChatKind::Dm);
}

#[tokio::test]
async fn what_was_written_meanwhile_is_found_once() {
    let mut server = FakeMatrix::start().unwrap();
    let ann = server.person("Ann");
    let dm = server.room("", &[&ann]);
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let running = start_with(&server, &[], &host, &inbox);
    inbox.until_connections(1).await;
    server.says(&ann, &dm, "first");
    inbox.until_taken(1).await;
    // Nothing counts as read before the intake has accepted it.
    inbox.set_paused(true);
    server.says(&ann, &dm, "second");
    inbox.until_attempted(2).await;
    running.kill().await;
    inbox.set_paused(false);
    for number in 0..120 {
        server.says(&ann, &dm, &format!("away {number}"));
    }
    // A sync shows only the newest; the rest is read from the room.
    server.limit_timeline(10);
    let again = start_with(&server, &[], &host, &inbox);
    inbox.until_taken(122).await;
    let texts = inbox.texts();
    assert_eq!(texts[..2], ["first", "second"]);
    assert!((0..120).all(|number| texts[number + 2] == format!("away {number}")), "{texts:?}");
    server.stop();
    server.says(&ann, &dm, "while it was gone");
    server.start_again().unwrap();
    inbox.until_texts(|texts| texts.iter().any(|text| text == "while it was gone")).await;
    // The same events, shown again.
    server.repeat(5);
    server.says(&ann, &dm, "last");
    inbox.until_texts(|texts| texts.iter().any(|text| text == "last")).await;
    inbox.until_duplicates(1).await;
    let mut texts = inbox.texts();
    let count = texts.len();
    texts.sort();
    texts.dedup();
    assert_eq!((count, texts.len()), (124, 124));
    drop(again);
}

#[tokio::test]
async fn invitations_by_the_intake() {
    let server = FakeMatrix::start().unwrap();
    let (ann, mallory) = (server.person("Ann"), server.person("Mallory"));
    let running = start(&server);
    running.inbox.until_connections(1).await;
    running.inbox.welcome(&ann);
    let (stranger, friend) = (server.invite(&mallory, true), server.invite(&ann, false));
    server.until_answered(&stranger).await;
    server.until_answered(&friend).await;
    assert_eq!((server.is_in(&stranger), server.is_in(&friend)), (Some(false), Some(true)));
    server.says(&ann, &friend, "here I am");
    running.inbox.until_taken(1).await;
}

#[tokio::test]
async fn files_come_in_and_go_out() {
    let server = FakeMatrix::start().unwrap();
    let ann = server.person("Ann");
    let dm = server.room("", &[&ann]);
    let host = MemoryHost::new();
    let running = start_with(&server, &[], &host, &Arc::default());
    running.inbox.until_connections(1).await;
    server.shares(&ann, &dm, "look", ("cat.png", "image/png", PNG));
    server.shares(&ann, &dm, "", ("a.exe", "application/x-dosexec", b"MZ"));
    server.shares(&ann, &dm, "", ("voice.ogg", "audio/ogg", b"OggS"));
    let taken = running.inbox.until_taken(3).await;
    let file = taken[0].files().next().unwrap();
    assert_eq!((file.kind, std::fs::read(&file.path).unwrap().as_slice()), (AttachmentKind::Image, PNG));
    assert_eq!(taken[0].text(), "look");
    assert!(taken[1].text().contains("a.exe"));
    assert_eq!(taken[2].files().next().unwrap().kind, AttachmentKind::Audio);
    let site = TestWebsite::start().unwrap();
    let mut answer = reply("matrix", &place(ChatKind::Dm, &dm, None), "here");
    let file = Attachment {
        kind: AttachmentKind::Document,
        path: host.file("report.pdf", b"%PDF"),
        name: Some("report.pdf".to_owned()),
        mime: None,
    };
    answer.pieces.push(ChatPart::File(file));
    answer.pieces.push(picture(&site.put("/cat.png", "image/png", PNG), "A cat"));
    running.channel.send(&answer).await.unwrap();
    let said = server.said(&dm);
    assert_eq!(said[0].text, "here");
    assert_eq!(said[1].file, Some(("report.pdf".to_owned(), "m.file".to_owned(), b"%PDF".to_vec())));
    assert_eq!(said[2].text, "A cat");
    assert_eq!(said[2].file, Some(("image.png".to_owned(), "m.image".to_owned(), PNG.to_vec())));
}

#[tokio::test]
async fn threads_replies_edits_reactions_typing_and_rooms() {
    let server = FakeMatrix::start().unwrap();
    let (ann, bob) = (server.person("Ann"), server.person("Bob"));
    let (dm, town) = (server.room("", &[&ann]), server.room("Town", &[&ann, &bob]));
    let channel = sender(&server, &[("MATRIX_REACTIONS", "true")]);
    let there = place(ChatKind::Dm, &dm, None);
    let id = channel.post(&there, "one").await.unwrap();
    for text in ["two", "**three**"] {
        channel.edit(&there, &id, text).await.unwrap();
    }
    let said = &server.said(&dm)[0];
    assert_eq!((said.text.as_str(), said.markup.as_deref()), ("**three**", Some("<b>three</b>")));
    assert_eq!(said.earlier, ["one", "two"]);
    let asked = server.says(&ann, &dm, "hi");
    channel.show_message_status(&there, &asked, MessageStatus::Processing).await;
    server.until_reacted(&asked, "👀").await;
    channel.show_message_status(&there, &asked, MessageStatus::Answered).await;
    server.until_reacted(&asked, "✅").await;
    let eyes = server.events(&dm).into_iter().filter(|event| event.kind == "m.reaction").collect::<Vec<_>>();
    assert_eq!(eyes.iter().map(|event| event.redacted).collect::<Vec<_>>(), [true, false]);
    channel.show_typing(&there).await;
    assert_eq!(server.typing(), std::slice::from_ref(&dm));
    let question = server.says(&ann, &town, "question");
    let mut answer = reply("matrix", &place(ChatKind::Group, &town, Some(&question)), "answer");
    channel.send(&answer).await.unwrap();
    answer.place.thread_id = None;
    (answer.reply_to, answer.idempotency_key) = (Some(question.clone()), "another".to_owned());
    channel.send(&answer).await.unwrap();
    let said = server.said(&town);
    assert_eq!((said[0].thread.as_ref(), said[1].thread.as_ref()), (Some(&question), None));
    assert_eq!(said[1].reply_to.as_ref(), Some(&question));
    let chats = channel.chats().await;
    assert_eq!(chats.len(), 1);
    assert_eq!((chats[0].chat_id.as_str(), chats[0].chat_name.as_deref()), (town.as_str(), Some("Town")));
}

#[tokio::test]
async fn a_choice_is_made_by_a_reaction() {
    let server = FakeMatrix::start().unwrap();
    let ann = server.person("Ann");
    let dm = server.room("", &[&ann]);
    let running = start(&server);
    running.inbox.until_connections(1).await;
    let question = question("matrix", &place(ChatKind::Dm, &dm, None));
    let sent = running.channel.send(&question).await.unwrap().message_ids.remove(0);
    let shown = server.said(&dm).remove(0);
    assert_eq!(shown.text, "May I?\n\n✅ Allow once · ❌ Deny");
    assert_eq!(shown.reactions, [("✅".to_owned(), BOT.to_owned()), ("❌".to_owned(), BOT.to_owned())]);
    let other = server.says(&ann, &dm, "hm");
    server.reacts(&ann, &dm, &other, "✅");
    server.reacts(&ann, &dm, &sent, "👍");
    server.reacts(&ann, &dm, &sent, "✅");
    let taken = running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["hm", "/approve #7"]);
    assert_eq!((taken[1].reply_to.as_ref(), taken[1].sender.user_id.as_ref()), (Some(&sent), Some(&ann)));
}

#[tokio::test]
async fn a_revoked_token_ends_the_listening() {
    let server = FakeMatrix::start().unwrap();
    let running = start(&server);
    server.until_held(1).await;
    server.change_token("another");
    let inbox = running.inbox.clone();
    let ended = running.ended().await.unwrap_err();
    assert!(
        matches!(&ended, ChannelError::Reauthorise(why) if why.contains("MATRIX_ACCESS_TOKEN")),
        "{ended:?}"
    );
    assert_eq!(inbox.connections(), [ConnectionStatus::Up]);
}

#[tokio::test]
async fn a_session_made_with_the_password_is_kept_and_renewed_for_the_same_device() {
    let server = FakeMatrix::start().unwrap();
    let ann = server.person("Ann");
    let dm = server.room("", &[&ann]);
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let password = [("MATRIX_USER_ID", BOT), ("MATRIX_PASSWORD", PASSWORD)];
    let running = start_with(&server, &password, &host, &inbox);
    inbox.until_connections(1).await;
    running.stop().await;
    let device = host.document("matrix_session.json").unwrap()["device_id"].clone();
    let running = start_with(&server, &password, &host, &inbox);
    inbox.until_connections(2).await;
    assert_eq!(server.calls("/login").len(), 1, "the session is kept");
    server.change_token("ended elsewhere");
    inbox.until_connections(4).await;
    assert_eq!(server.calls("/login").len(), 2);
    let stored = host.document("matrix_session.json").unwrap();
    assert_eq!((stored["device_id"].clone(), stored["access_token"] == "ended elsewhere"), (device, false));
    server.says(&ann, &dm, "still here?");
    inbox.until_taken(1).await;
    running.stop().await;
    let wrong = [("MATRIX_USER_ID", BOT), ("MATRIX_PASSWORD", "wrong")];
    let ended = start_with(&server, &wrong, &MemoryHost::new(), &Arc::default()).ended().await.unwrap_err();
    assert!(matches!(&ended, ChannelError::Reauthorise(why) if why.contains("MATRIX_PASSWORD")), "{ended:?}");
}

#[tokio::test]
async fn a_reply_whose_answer_was_lost_is_not_sent_twice() {
    let server = FakeMatrix::start().unwrap();
    let ann = server.person("Ann");
    let dm = server.room("", &[&ann]);
    let channel = sender(&server, &[]);
    let hello = reply("matrix", &place(ChatKind::Dm, &dm, None), "hello");
    let since = clock().now();
    server.fault("PUT", "/send/", PlatformFault::DoAndCut);
    assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::DeliveryUnknown(_)));
    let receipt = channel.send_again(&hello, since).await.unwrap();
    assert_eq!((server.said(&dm).len(), receipt.certainty), (1, DeliveryCertainty::Once));
    // After a while the server has forgotten the request; then the room is looked through.
    server.forget_transactions();
    let again = channel.send_again(&hello, since.minus(Duration::from_hours(2))).await.unwrap();
    assert_eq!((server.said(&dm).len(), again.message_ids), (1, receipt.message_ids));
    server.limit("PUT", "/send/", 2500);
    let other = reply("matrix", &place(ChatKind::Dm, &dm, None), "more");
    let limited = channel.send(&other).await.unwrap_err();
    assert!(
        matches!(limited, ChannelError::Retry { after: Some(after), .. } if after == Duration::from_millis(2500)),
        "{limited:?}"
    );
    let nowhere = reply("matrix", &place(ChatKind::Dm, "!nowhere:example.org", None), "x");
    let refused = channel.send(&nowhere).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("member")), "{refused:?}");
}

#[tokio::test]
async fn faults_of_the_server_are_waited_out() {
    let server = FakeMatrix::start().unwrap();
    let ann = server.person("Ann");
    let dm = server.room("", &[&ann]);
    let running = start(&server);
    server.until_held(1).await;
    server.fault("GET", "/sync", PlatformFault::Garbage);
    server.fault("GET", "/sync", PlatformFault::Refuse(502, json!(null)));
    server.says(&ann, &dm, "one");
    running.inbox.until_taken(1).await;
    server.says(&ann, &dm, "two");
    running.inbox.until_taken(2).await;
    let connections = running.inbox.until_connections(3).await;
    assert!(connections.iter().any(|connection| matches!(connection, ConnectionStatus::Down(_))));
    assert_eq!(running.inbox.texts(), ["one", "two"]);
}
