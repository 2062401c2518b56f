//! The DingTalk channel against an emulated open platform.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::PlatformFault;
use hermes_testkit::dingtalk::{CLIENT_ID, CLIENT_SECRET, FakeDingTalk};
use hermes_types::{
    Attachment, AttachmentKind, Channel, ChannelError, ChatKind, ChatPart, Clock, ConnectionStatus,
};
use serde_json::json;

use super::support::{
    ListeningChannel, MemoryHost, PNG, RecordingIntake, listen, open, options, picture, place, reply,
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn settings(platform: &FakeDingTalk, more: &[(&str, &str)]) -> hermes_channels::Options {
    let mut variables = vec![("DINGTALK_CLIENT_ID", CLIENT_ID), ("DINGTALK_CLIENT_SECRET", CLIENT_SECRET)];
    variables.extend(more);
    options(&variables, json!({"base_url": platform.base_url()}))
}

fn start_with(
    platform: &FakeDingTalk,
    host: &Arc<MemoryHost>,
    inbox: &Arc<RecordingIntake>,
) -> ListeningChannel {
    listen("dingtalk", &settings(platform, &[]), host, inbox, &clock())
}

fn sender(platform: &FakeDingTalk, host: &Arc<MemoryHost>) -> Arc<dyn Channel> {
    open("dingtalk", &settings(platform, &[]), host, &clock()).unwrap()
}

#[tokio::test]
async fn messages_come_in_and_are_acknowledged_once_they_are_taken() {
    let platform = FakeDingTalk::start().unwrap();
    let running = start_with(&platform, &MemoryHost::new(), &Arc::default());
    platform.until_opened(1).await;
    let first = platform.says("staff1", "cid-direct", None, "hello");
    platform.says("staff2", "cid-group", Some("Team"), "what?");
    let taken = running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["hello", "what?"]);
    assert_eq!(taken[0].platform_key, first);
    assert_eq!((taken[0].place.kind, taken[0].place.chat_id.as_str()), (ChatKind::Dm, "cid-direct"));
    assert_eq!((taken[1].place.kind, taken[1].place.chat_name.as_deref()), (ChatKind::Group, Some("Team")));
    assert_eq!(taken[0].sender.user_id.as_deref(), Some("$:LWCP_v1:$staff1"));
    assert_eq!(taken[0].sender.alt_id.as_deref(), Some("staff1"));
    platform.repeat_last();
    running.inbox.until_duplicates(1).await;
    let acks = platform.until_acknowledged(3).await;
    assert_eq!(acks[0]["data"], "{\"response\":\"OK\"}");
    running.inbox.set_paused(true);
    platform.says("staff1", "cid-direct", None, "wait");
    running.inbox.until_attempted(4).await;
    assert_eq!(platform.acknowledged().len(), 3);
    running.inbox.set_paused(false);
    platform.until_acknowledged(4).await;
}

#[tokio::test]
async fn what_a_killed_program_did_not_acknowledge_comes_again() {
    let platform = FakeDingTalk::start().unwrap();
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let running = start_with(&platform, &host, &inbox);
    platform.until_opened(1).await;
    inbox.set_paused(true);
    platform.says("staff1", "cid1", None, "do not lose me");
    inbox.until_attempted(1).await;
    running.kill().await;
    inbox.set_paused(false);
    let again = start_with(&platform, &host, &inbox);
    again.inbox.until_taken(1).await;
    platform.until_acknowledged(1).await;
    assert_eq!(inbox.texts(), ["do not lose me"]);
}

#[tokio::test]
async fn streams_are_renewed_and_pings_are_answered() {
    let platform = FakeDingTalk::start().unwrap();
    let running = start_with(&platform, &MemoryHost::new(), &Arc::default());
    platform.until_opened(1).await;
    platform.system("ping");
    let acks = platform.until_acknowledged(1).await;
    assert!(acks[0]["data"].as_str().unwrap().contains("o1"), "the data of a ping comes back");
    platform.system("disconnect");
    platform.until_opened(2).await;
    platform.says("staff1", "cid1", None, "after the renewal");
    running.inbox.until_taken(1).await;
    assert_eq!(running.inbox.connections(), [ConnectionStatus::Up, ConnectionStatus::Up]);
}

#[tokio::test]
async fn wrong_credentials_end_the_listening() {
    let platform = FakeDingTalk::start().unwrap();
    platform.change_secret("another");
    let ended = start_with(&platform, &MemoryHost::new(), &Arc::default()).ended().await.unwrap_err();
    assert!(
        matches!(&ended, ChannelError::Reauthorise(why) if why.contains("DINGTALK_CLIENT_SECRET")),
        "{ended:?}"
    );
    assert!(!ended.to_string().contains(CLIENT_SECRET));
}

#[tokio::test]
async fn files_are_fetched() {
    let platform = FakeDingTalk::start().unwrap();
    let running = start_with(&platform, &MemoryHost::new(), &Arc::default());
    platform.until_opened(1).await;
    let (cat, notes) = (platform.file("", PNG), platform.file("notes.txt", b"some notes"));
    let rich = json!({"msgtype": "richText", "content": {"richText": [{"text": "look"}, {"type": "picture", "downloadCode": cat}]}});
    platform.sends("staff1", "cid1", None, &rich);
    let file = json!({"msgtype": "file", "content": {"downloadCode": notes, "fileName": "notes.txt"}});
    platform.sends("staff1", "cid1", None, &file);
    platform.sends(
        "staff1",
        "cid1",
        None,
        &json!({"msgtype": "picture", "content": {"downloadCode": "gone"}}),
    );
    let taken = running.inbox.until_taken(3).await;
    assert_eq!(taken[0].text(), "look");
    assert_eq!(std::fs::read(&taken[0].files().next().unwrap().path).unwrap(), PNG);
    assert_eq!(taken[1].files().next().unwrap().kind, AttachmentKind::Document);
    assert!(taken[2].text().contains("could not be fetched"), "{}", taken[2].text());
    assert_eq!(platform.tokens(), 1, "one access token serves them all");
}

#[tokio::test]
async fn answers_leave_through_the_webhook_and_files_through_the_robot() {
    let platform = FakeDingTalk::start().unwrap();
    let host = MemoryHost::new();
    let running = start_with(&platform, &host, &Arc::default());
    platform.until_opened(1).await;
    platform.says("staff1", "cid1", None, "hello");
    let taken = running.inbox.until_taken(1).await;
    let mut answer = reply("dingtalk", &taken[0].place, "**hi**");
    let file = |kind, name: &str, bytes: &[u8]| {
        ChatPart::File(Attachment {
            kind,
            path: host.file(name, bytes),
            name: Some(name.to_owned()),
            mime: None,
        })
    };
    answer.pieces.push(file(AttachmentKind::Document, "report.pdf", b"%PDF"));
    answer.pieces.push(file(AttachmentKind::Image, "cat.png", PNG));
    answer.pieces.push(picture("https://e.org/a.png", "A cat"));
    running.channel.send(&answer).await.unwrap();
    let sent = platform.sent("cid1");
    assert_eq!((sent[0].way, sent[0].text.as_str()), ("session", "**hi**"));
    assert_eq!(sent[1].text, "A cat\n\n![](https://e.org/a.png)");
    let files = platform.sent("staff1");
    assert_eq!(
        (files[0].kind.as_str(), files[0].file.clone().unwrap().0.as_str()),
        ("sampleFile", "report.pdf")
    );
    assert_eq!(
        (files[1].kind.as_str(), files[1].file.clone().unwrap().1.as_slice()),
        ("sampleImageMsg", PNG)
    );
    // When the webhook has ended, the robot reaches the person all the same, also in another process.
    platform.end_webhook("cid1");
    running.stop().await;
    let later = sender(&platform, &host);
    later.send(&reply("dingtalk", &taken[0].place, "later")).await.unwrap();
    assert_eq!(platform.sent("staff1").last().unwrap().text, "later");
}

#[tokio::test]
async fn messages_that_answer_nothing_reach_people_and_groups() {
    let platform = FakeDingTalk::start().unwrap();
    let channel = sender(&platform, &MemoryHost::new());
    let to = |chat: &str, kind| reply("dingtalk", &place(kind, chat, None), "news");
    channel.send(&to("cid-team", ChatKind::Group)).await.unwrap();
    channel.send(&to("staff9", ChatKind::Dm)).await.unwrap();
    assert_eq!(platform.sent("cid-team")[0].way, "robot");
    assert_eq!(platform.sent("staff9")[0].text, "news");
    let refused = channel.send(&to("nobody", ChatKind::Dm)).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("staff id")), "{refused:?}");
    platform.fault(
        "POST",
        "/v1.0/robot",
        PlatformFault::Refuse(401, json!({"code": "InvalidAuthentication"})),
    );
    channel.send(&to("staff9", ChatKind::Dm)).await.unwrap();
    assert_eq!(platform.tokens(), 2, "a token that is not taken any more is renewed");
    let denied = json!({"code": "Forbidden.AccessDenied.AccessTokenPermissionDenied", "message": "no"});
    platform.fault("POST", "/v1.0/robot", PlatformFault::Refuse(403, denied));
    let refused = channel.send(&to("staff9", ChatKind::Dm)).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("permission")), "{refused:?}");
    platform.fault("POST", "/v1.0/robot", PlatformFault::Limit(8));
    let limited = channel.send(&to("staff9", ChatKind::Dm)).await.unwrap_err();
    assert!(
        matches!(limited, ChannelError::Retry { after: Some(after), .. } if after.as_secs() == 8),
        "{limited:?}"
    );
    platform.fault("POST", "/v1.0/robot", PlatformFault::DoAndCut);
    assert!(matches!(
        channel.send(&to("staff9", ChatKind::Dm)).await.unwrap_err(),
        ChannelError::DeliveryUnknown(_)
    ));
}
