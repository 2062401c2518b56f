//! The Mattermost channel against an emulated server.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::mattermost::{FakeMattermost, TOKEN};
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

fn settings(server: &FakeMattermost, more: &[(&str, &str)]) -> hermes_channels::Options {
    let url = server.base_url();
    let mut variables = vec![("MATTERMOST_URL", url.as_str()), ("MATTERMOST_TOKEN", TOKEN)];
    variables.extend(more);
    options(&variables, json!(null))
}

fn start_with(
    server: &FakeMattermost,
    more: &[(&str, &str)],
    host: &Arc<MemoryHost>,
    inbox: &Arc<RecordingIntake>,
) -> ListeningChannel {
    listen("mattermost", &settings(server, more), host, inbox, &clock())
}

fn start(server: &FakeMattermost) -> ListeningChannel {
    start_with(server, &[], &MemoryHost::new(), &Arc::default())
}

fn sender(server: &FakeMattermost, host: &Arc<MemoryHost>) -> Arc<dyn Channel> {
    open("mattermost", &settings(server, &[]), host, &clock()).unwrap()
}

#[tokio::test]
async fn direct_messages_and_mentions_come_in() {
    let server = FakeMattermost::start().unwrap();
    let (ann, dm, town) =
        (server.person("ann"), server.channel("dm", "D"), server.channel("Town Square", "O"));
    let running = start(&server);
    server.until_opened(1).await;
    running.inbox.until_connections(1).await;
    let first = server.says(&ann, &dm, "hello");
    server.says(&ann, &town, "not for you");
    let second = server.says(&ann, &town, "@Hermes what is this?");
    server.announces(&ann, &town, "ann joined, @hermes");
    let third = server.replies(&ann, &town, &second, "@hermes and this?");
    server.repeat_last();
    running.inbox.until_duplicates(1).await;
    let taken = running.inbox.envelopes();
    assert_eq!(running.inbox.texts(), ["hello", "what is this?", "and this?"]);
    let ids: Vec<_> = taken.iter().map(|envelope| envelope.platform_key.clone()).collect();
    assert_eq!(ids, [first, second.clone(), third]);
    assert_eq!(taken[0].place.kind, ChatKind::Dm);
    assert_eq!(
        (taken[1].place.kind, taken[1].place.chat_name.as_deref()),
        (ChatKind::Channel, Some("Town Square"))
    );
    assert_eq!((taken[1].place.thread_id.clone(), taken[2].place.thread_id.clone()), (None, Some(second)));
    assert_eq!(taken[0].sender.user_id.as_deref(), Some(ann.as_str()));
    assert_eq!(taken[0].sender.handle.as_deref(), Some("ann"));
}

#[tokio::test]
async fn in_thread_mode_each_question_has_a_thread() {
    let server = FakeMattermost::start().unwrap();
    let (ann, town) = (server.person("ann"), server.channel("Town", "P"));
    let thread = [("MATTERMOST_REPLY_MODE", "thread"), ("MATTERMOST_REQUIRE_MENTION", "false")];
    let running = start_with(&server, &thread, &MemoryHost::new(), &Arc::default());
    running.inbox.until_connections(1).await;
    let question = server.says(&ann, &town, "what?");
    let within = server.replies(&ann, &town, &question, "and?");
    let taken = running.inbox.until_taken(2).await;
    for (envelope, message) in taken.iter().zip([&question, &within]) {
        assert_eq!(envelope.place.thread_id.as_ref(), Some(&question));
        assert_eq!(envelope.message_id.as_ref(), Some(message));
    }
    // The root of a post in a thread is the root of the thread.
    running.channel.send(&reply("mattermost", &taken[1].place, "that")).await.unwrap();
    assert_eq!(server.said(&town)[0].root, question);
}

#[tokio::test]
async fn what_was_written_meanwhile_is_found() {
    let server = FakeMattermost::start().unwrap();
    let (ann, dm) = (server.person("ann"), server.channel("dm", "D"));
    server.says(&ann, &dm, "from long ago, before the first start");
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let running = start_with(&server, &[], &host, &inbox);
    inbox.until_connections(1).await;
    server.says(&ann, &dm, "first");
    inbox.until_taken(1).await;
    running.kill().await;
    server.says(&ann, &dm, "second");
    server.says(&ann, &dm, "third");
    let again = start_with(&server, &[], &host, &inbox);
    inbox.until_connections(2).await;
    let texts = inbox.texts();
    // Of the time before the first start, only the last minute is read.
    assert!(texts.ends_with(&["first", "second", "third"].map(str::to_owned)), "{texts:?}");
    server.drop_sockets();
    server.says(&ann, &dm, "while it reconnects");
    inbox.until_texts(|texts| texts.iter().any(|text| text == "while it reconnects")).await;
    assert!(matches!(inbox.connections()[2], ConnectionStatus::Down(_)));
    drop(again);
}

#[tokio::test]
async fn files_come_in_and_go_out() {
    let server = FakeMattermost::start().unwrap();
    let (ann, dm) = (server.person("ann"), server.channel("dm", "D"));
    let host = MemoryHost::new();
    let running = start_with(&server, &[], &host, &Arc::default());
    running.inbox.until_connections(1).await;
    server.shares(&ann, &dm, "look", ("cat.png", "image/png", PNG));
    server.shares(&ann, &dm, "", ("a.exe", "application/x-dosexec", b"MZ"));
    let taken = running.inbox.until_taken(2).await;
    let file = taken[0].files().next().unwrap();
    assert_eq!((file.kind, std::fs::read(&file.path).unwrap().as_slice()), (AttachmentKind::Image, PNG));
    assert!(taken[1].text().contains("a.exe"));
    let site = TestWebsite::start().unwrap();
    let mut answer = reply("mattermost", &place(ChatKind::Dm, &dm, None), "here");
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
    assert_eq!(said[0].message, "here");
    assert_eq!(said[1].files, [("report.pdf".to_owned(), b"%PDF".to_vec())]);
    assert_eq!((said[2].message.as_str(), said[2].files[0].0.as_str()), ("A cat", "image.png"));
}

#[tokio::test]
async fn edits_reactions_typing_and_channels() {
    let server = FakeMattermost::start().unwrap();
    let (ann, dm, town) = (server.person("ann"), server.channel("dm", "D"), server.channel("Town", "O"));
    let channel = sender(&server, &MemoryHost::new());
    let there = place(ChatKind::Dm, &dm, None);
    let id = channel.post(&there, "one").await.unwrap();
    channel.edit(&there, &id, "two").await.unwrap();
    assert_eq!(
        (server.said(&dm)[0].message.as_str(), server.said(&dm)[0].earlier.as_slice()),
        ("two", &["one".to_owned()][..])
    );
    let asked = server.says(&ann, &dm, "hi");
    channel.show_message_status(&there, &asked, MessageStatus::Processing).await;
    assert_eq!(server.post(&asked).unwrap().reactions, ["eyes"]);
    channel.show_message_status(&there, &asked, MessageStatus::Answered).await;
    assert_eq!(server.post(&asked).unwrap().reactions, ["white_check_mark"]);
    channel.show_typing(&there).await;
    assert_eq!(server.typing(), [dm]);
    let chats = channel.chats().await;
    assert_eq!(chats.len(), 1);
    assert_eq!((chats[0].chat_id.as_str(), chats[0].chat_name.as_deref()), (town.as_str(), Some("Town")));
}

#[tokio::test]
async fn a_reaction_to_a_question_is_its_answer() {
    let server = FakeMattermost::start().unwrap();
    let (ann, town) = (server.person("ann"), server.channel("Town", "O"));
    let running = start(&server);
    running.inbox.until_connections(1).await;
    let root = server.says(&ann, &town, "@hermes tidy up");
    running.inbox.until_taken(1).await;
    let there = place(ChatKind::Channel, &town, Some(&root));
    let asked = running.channel.send(&question("mattermost", &there)).await.unwrap().message_ids.remove(0);
    let shown = server.post(&asked).unwrap();
    assert_eq!(shown.message, "May I?\n\n✅ Allow once · ❌ Deny");
    assert_eq!(shown.reactions, ["white_check_mark", "x"]);
    let bot = server.post(&asked).unwrap().user;
    server.reacts(&bot, &asked, "x");
    server.reacts(&ann, &root, "x");
    server.reacts(&ann, &asked, "thumbsup");
    server.reacts(&ann, &asked, "white_check_mark");
    let taken = running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts()[1], "/approve #7");
    assert_eq!(taken[1].place, there);
    assert_eq!(
        (taken[1].sender.user_id.as_ref(), taken[1].sender.handle.as_deref()),
        (Some(&ann), Some("ann"))
    );
}

#[tokio::test]
async fn a_revoked_token_ends_the_listening() {
    let server = FakeMattermost::start().unwrap();
    let running = start(&server);
    running.inbox.until_connections(1).await;
    server.change_token("another");
    server.drop_sockets();
    let inbox = running.inbox.clone();
    let ended = running.ended().await.unwrap_err();
    assert!(
        matches!(&ended, ChannelError::Reauthorise(why) if why.contains("MATTERMOST_TOKEN")),
        "{ended:?}"
    );
    assert_eq!(inbox.connections().len(), 2, "connected, then lost");
}

#[tokio::test]
async fn a_reply_whose_answer_was_lost_is_not_posted_twice() {
    let server = FakeMattermost::start().unwrap();
    let dm = server.channel("dm", "D");
    let channel = sender(&server, &MemoryHost::new());
    let hello = reply("mattermost", &place(ChatKind::Dm, &dm, None), "hello");
    let since = clock().now();
    server.fault("POST", "/posts", PlatformFault::DoAndCut);
    assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::DeliveryUnknown(_)));
    let receipt = channel.send_again(&hello, since).await.unwrap();
    assert_eq!((server.said(&dm).len(), receipt.certainty), (1, DeliveryCertainty::Once));
    assert_eq!(receipt.message_ids, [server.said(&dm)[0].id.clone()]);
    server.fault("POST", "/posts", PlatformFault::Limit(3));
    let limited = channel.send(&hello).await.unwrap_err();
    assert!(
        matches!(limited, ChannelError::Retry { after: Some(after), .. } if after.as_secs() == 3),
        "{limited:?}"
    );
    let refused =
        channel.send(&reply("mattermost", &place(ChatKind::Dm, "nowhere", None), "x")).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("permissions")), "{refused:?}");
}
