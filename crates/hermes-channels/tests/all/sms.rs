//! The SMS channel against an emulated Twilio.

use std::sync::Arc;

use hermes_net::PrivateAddresses;
use hermes_task::SystemClock;
use hermes_testkit::sms::{ACCOUNT, AUTH_TOKEN, FakeTwilio, NUMBER};
use hermes_testkit::{PlatformFault, TestWebsite, http_get};
use hermes_types::{
    Attachment, AttachmentKind, ChannelError, ChatAddress, ChatKind, ChatPart, Clock, ConnectionStatus,
    DeliveryCertainty, Timestamp,
};
use serde_json::json;

use super::support::{
    ListeningChannel, MemoryHost, PNG, RecordingIntake, free_port, listen, open, options, picture, place,
    reply,
};

const PUBLIC: &str = "https://hermes.example.org/webhooks/twilio";
const ANN: &str = "+15550002222";

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn variables(port: &str) -> Vec<(&'static str, String)> {
    vec![
        ("TWILIO_ACCOUNT_SID", ACCOUNT.to_owned()),
        ("TWILIO_AUTH_TOKEN", AUTH_TOKEN.to_owned()),
        ("TWILIO_PHONE_NUMBER", NUMBER.to_owned()),
        ("SMS_WEBHOOK_URL", PUBLIC.to_owned()),
        ("SMS_WEBHOOK_PORT", port.to_owned()),
        ("SMS_WEBHOOK_HOST", "127.0.0.1".to_owned()),
    ]
}

fn settings(twilio: &FakeTwilio, port: u16) -> hermes_channels::Options {
    let variables = variables(&port.to_string());
    let pairs: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    options(&pairs, json!({"base_url": twilio.base_url()}))
}

async fn start(twilio: &FakeTwilio) -> ListeningChannel {
    start_with(twilio, &MemoryHost::new(), &Arc::default()).await
}

async fn start_with(
    twilio: &FakeTwilio,
    host: &Arc<MemoryHost>,
    inbox: &Arc<RecordingIntake>,
) -> ListeningChannel {
    let port = free_port();
    let before = inbox.connections().len();
    let running = listen("sms", &settings(twilio, port), host, inbox, &clock());
    assert_eq!(inbox.until_connections(before + 1).await[before], ConnectionStatus::Up);
    twilio.set_webhook(&format!("http://127.0.0.1:{port}/webhooks/twilio"), PUBLIC);
    running
}

fn chat() -> ChatAddress {
    place(ChatKind::Dm, ANN, None)
}

#[tokio::test]
async fn messages_come_in_and_a_repeated_one_is_recognised() {
    let twilio = FakeTwilio::start().unwrap();
    let running = start(&twilio).await;
    let sid = twilio.says(ANN, "hello & goodbye + 1 = ü");
    let taken = running.inbox.until_taken(1).await;
    assert_eq!(taken[0].text(), "hello & goodbye + 1 = ü");
    assert_eq!((taken[0].platform_key.as_str(), taken[0].place.chat_id.as_str()), (sid.as_str(), ANN));
    assert_eq!(taken[0].sender.user_id.as_deref(), Some(ANN));
    twilio.repeat_last();
    running.inbox.until_duplicates(1).await;
    let answers = twilio.until_answered(2).await;
    assert!(
        answers.iter().all(|(status, body)| *status == 200 && body.ends_with("<Response></Response>")),
        "{answers:?}"
    );
    twilio.says(NUMBER, "an echo");
    assert_eq!(twilio.until_answered(3).await[2].0, 200);
    assert_eq!(running.inbox.texts().len(), 1);
}

#[tokio::test]
async fn files_of_an_mms_are_fetched_from_twilio_only() {
    let (twilio, store) = (FakeTwilio::start().unwrap(), TestWebsite::start().unwrap());
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let running = start_with(&twilio, &host, &inbox).await;
    let kept_at = store.put("/kept.png", "image/png", PNG);
    twilio.shares(ANN, "look", "image/png", &kept_at);
    let page = store.put("/page", "image/png", b"<html>");
    twilio.shares(ANN, "", "image/png", &page);
    let elsewhere = store.put("/secret", "image/png", PNG);
    let more = [("NumMedia", "1"), ("MediaUrl0", elsewhere.as_str()), ("MediaContentType0", "image/png")];
    twilio.sends(ANN, &more);
    twilio.shares(ANN, "", "text/x-vcard", &kept_at);
    let taken = inbox.until_taken(4).await;
    let files: Vec<_> = taken[0].files().collect();
    assert_eq!((taken[0].text().as_str(), files.len(), files[0].kind), ("look", 1, AttachmentKind::Image));
    assert_eq!(std::fs::read(&files[0].path).unwrap(), PNG);
    for envelope in &taken[1..3] {
        assert!(envelope.text().contains("could not be fetched"), "{}", envelope.text());
    }
    assert!(taken[3].text().contains("not taken here"), "{}", taken[3].text());
    assert_eq!(store.visits(), ["/kept.png", "/page"]);
    assert!(store.headers("authorization").is_empty(), "the token stays with Twilio");
    host.until_document("sms_seen.json").await;
    running.kill().await;
    // Nobody answers this one; Twilio's list has no addresses of files.
    twilio.shares(ANN, "again", "image/png", &kept_at);
    twilio.until_answered(5).await;
    let _again = start_with(&twilio, &host, &inbox).await;
    let taken = inbox.until_taken(5).await;
    assert_eq!((taken[4].text().as_str(), taken[4].files().count()), ("again", 1));
}

#[tokio::test]
async fn a_file_of_an_mms_at_a_private_address_is_not_fetched() {
    let (twilio, store) = (FakeTwilio::start().unwrap(), TestWebsite::start().unwrap());
    // Another spelling of this machine, where Twilio's emulator is not.
    let kept_at = store.put("/kept.png", "image/png", PNG).replace("127.0.0.1", "localhost");
    let (host, inbox) = (MemoryHost::reaching(PrivateAddresses::Refuse), Arc::default());
    let _running = start_with(&twilio, &host, &inbox).await;
    twilio.shares(ANN, "look", "image/png", &kept_at);
    assert!(inbox.until_taken(1).await[0].text().contains("could not be fetched"));
    assert!(store.visits().is_empty());
}

#[tokio::test]
async fn files_of_answers_are_offered_to_twilio_when_mms_is_on() {
    let twilio = FakeTwilio::start().unwrap();
    let (host, port) = (MemoryHost::new(), free_port());
    let variables = variables(&port.to_string());
    let mut pairs: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    pairs.push(("SMS_MMS", "true"));
    let set = options(&pairs, json!({"base_url": twilio.base_url()}));
    let file = |path: String| {
        ChatPart::File(Attachment { kind: AttachmentKind::Image, path, name: None, mime: None })
    };
    let mut answer = reply("sms", &chat(), "here");
    answer.pieces.push(file(host.file("cat.png", PNG)));
    answer.pieces.push(file(host.file("large.png", &vec![0; 5 * 1024 * 1024 + 1])));
    // Without a gateway nobody could fetch it.
    open("sms", &set, &host, &clock()).unwrap().send(&answer).await.unwrap();
    assert!(twilio.sent(ANN)[1].body.contains("only the gateway can send files"), "{:?}", twilio.sent(ANN));
    let running = listen("sms", &set, &host, &Arc::default(), &clock());
    running.inbox.until_connections(1).await;
    running.channel.send(&answer).await.unwrap();
    let sent = twilio.sent(ANN).split_off(3);
    assert_eq!((sent[0].body.as_str(), sent[0].media_url.as_ref()), ("here", None));
    assert_eq!(sent[1].body, "cat.png");
    assert!(sent[2].body.contains("large.png (it is larger than the 5 MB"), "{}", sent[2].body);
    let url = sent[1].media_url.clone().unwrap();
    let name = url.strip_prefix(PUBLIC).unwrap();
    let fetch = |query: &str| {
        let path = format!("/webhooks/twilio{query}");
        let address = ([127, 0, 0, 1], port).into();
        tokio::task::spawn_blocking(move || http_get(address, &path).unwrap())
    };
    let fetched = fetch(name).await.unwrap();
    assert_eq!((fetched.status, fetched.header("content-type")), (200, Some("image/png")));
    assert_eq!(fetched.body, PNG);
    assert_eq!(fetch("?media=0").await.unwrap().status, 404);
    assert_eq!(fetch("").await.unwrap().status, 405);
    // The lost answer of a message with a file is found by its text.
    let again = running.channel.send_again(&answer, Timestamp(0.0)).await.unwrap();
    assert_eq!(again.message_ids[1], sent[1].sid);
}

#[tokio::test]
async fn what_twilio_could_not_pass_on_is_read_from_its_list() {
    let twilio = FakeTwilio::start().unwrap();
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let running = start_with(&twilio, &host, &inbox).await;
    twilio.says(ANN, "first");
    inbox.until_taken(1).await;
    host.until_document("sms_seen.json").await;
    running.kill().await;
    // Nobody answers these two, and they do not come again.
    twilio.says(ANN, "second");
    twilio.says(ANN, "third");
    twilio.until_answered(3).await;
    let again = start_with(&twilio, &host, &inbox).await;
    inbox.until_taken(3).await;
    assert_eq!(inbox.texts(), ["first", "second", "third"]);
    drop(again);
}

#[tokio::test]
async fn twilio_is_answered_after_the_message_is_taken() {
    let twilio = FakeTwilio::start().unwrap();
    let running = start(&twilio).await;
    running.inbox.set_paused(true);
    twilio.says(ANN, "wait for me");
    running.inbox.until_attempted(1).await;
    assert!(twilio.answers().is_empty());
    running.inbox.set_paused(false);
    assert_eq!(twilio.until_answered(1).await[0].0, 200);
    running.inbox.refuse_next();
    twilio.says(ANN, "the disk is full");
    assert_eq!(twilio.until_answered(2).await[1].0, 503);
}

#[tokio::test]
async fn what_twilio_did_not_sign_is_refused() {
    let twilio = FakeTwilio::start().unwrap();
    let running = start(&twilio).await;
    twilio.forge_next();
    twilio.says(ANN, "I am somebody else");
    assert_eq!(twilio.until_answered(1).await[0].0, 403);
    twilio.says(ANN, "I am Ann");
    assert_eq!(twilio.until_answered(2).await[1].0, 200);
    assert_eq!(running.inbox.texts(), ["I am Ann"]);
}

#[tokio::test]
async fn without_the_signed_address_it_does_not_listen() {
    let twilio = FakeTwilio::start().unwrap();
    let inbox: Arc<RecordingIntake> = Arc::default();
    let wanted: Vec<_> =
        variables("1").into_iter().filter(|(name, _)| !name.starts_with("SMS_WEBHOOK_URL")).collect();
    let pairs: Vec<(&str, &str)> = wanted.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let set = options(&pairs, json!({"base_url": twilio.base_url()}));
    let ended = listen("sms", &set, &MemoryHost::new(), &inbox, &clock()).ended().await.unwrap_err();
    assert!(matches!(&ended, ChannelError::Refused(why) if why.contains("SMS_WEBHOOK_URL")), "{ended:?}");
}

#[tokio::test]
async fn wrong_credentials_end_the_listening() {
    let twilio = FakeTwilio::start().unwrap();
    twilio.change_token("another");
    let inbox: Arc<RecordingIntake> = Arc::default();
    let running = listen("sms", &settings(&twilio, free_port()), &MemoryHost::new(), &inbox, &clock());
    let ended = running.ended().await.unwrap_err();
    assert!(
        matches!(&ended, ChannelError::Reauthorise(why) if why.contains("TWILIO_AUTH_TOKEN")),
        "{ended:?}"
    );
    assert!(!ended.to_string().contains(AUTH_TOKEN));
}

#[tokio::test]
async fn answers_are_plain_and_files_are_named() {
    let twilio = FakeTwilio::start().unwrap();
    let channel = open("sms", &settings(&twilio, 1), &MemoryHost::new(), &clock()).unwrap();
    let mut answer = reply("sms", &chat(), "**Yes**\n\n- `a`\n\n[b](https://e.org)");
    let file = Attachment {
        kind: AttachmentKind::Document,
        path: "/tmp/report.pdf".to_owned(),
        name: None,
        mime: None,
    };
    answer.pieces.push(ChatPart::File(file));
    answer.pieces.push(picture("https://e.org/a.png", "A cat"));
    let receipt = channel.send(&answer).await.unwrap();
    let sent = twilio.sent(ANN);
    assert_eq!(sent[0].body, "Yes\n- a\nb (https://e.org)");
    assert!(sent[1].body.starts_with("📎 report.pdf (SMS takes no files"), "{}", sent[1].body);
    assert_eq!(sent[2].body, "A cat\n🖼️ Image: https://e.org/a.png");
    assert_eq!(receipt.message_ids, sent.iter().map(|sms| sms.sid.clone()).collect::<Vec<_>>());
    let progress = channel.post(&chat(), "🔍 searching").await;
    assert!(matches!(progress, Err(ChannelError::Refused(_))), "no progress by SMS");
}

#[tokio::test]
async fn refusals_and_limits_are_told_apart() {
    let twilio = FakeTwilio::start().unwrap();
    let channel = open("sms", &settings(&twilio, 1), &MemoryHost::new(), &clock()).unwrap();
    let hello = |to: &str| reply("sms", &place(ChatKind::Dm, to, None), "hello");
    let refused = channel.send(&hello("+1x")).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("21211")), "{refused:?}");
    twilio.fault("POST", "/Messages.json", PlatformFault::Limit(7));
    let limited = channel.send(&hello(ANN)).await.unwrap_err();
    assert!(
        matches!(limited, ChannelError::Retry { after: Some(after), .. } if after.as_secs() == 7),
        "{limited:?}"
    );
    let stopped = json!({"code": 21610, "message": "Attempt to send to unsubscribed recipient"});
    twilio.fault("POST", "/Messages.json", PlatformFault::Refuse(400, stopped));
    let refused = channel.send(&hello(ANN)).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("STOP")), "{refused:?}");
    for fault in [PlatformFault::Refuse(503, json!({})), PlatformFault::Garbage, PlatformFault::Cut] {
        twilio.fault("POST", "/Messages.json", fault.clone());
        let error = channel.send(&hello(ANN)).await.unwrap_err();
        assert!(matches!(error, ChannelError::DeliveryUnknown(_)), "{fault:?}: {error:?}");
    }
    assert!(twilio.sent(ANN).is_empty());
}

#[tokio::test]
async fn a_reply_whose_answer_was_lost_is_not_sent_twice() {
    let twilio = FakeTwilio::start().unwrap();
    let channel = open("sms", &settings(&twilio, 1), &MemoryHost::new(), &clock()).unwrap();
    let since = clock().now();
    let hello = reply("sms", &chat(), "hello");
    twilio.fault("POST", "/Messages.json", PlatformFault::DoAndCut);
    assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::DeliveryUnknown(_)));
    let receipt = channel.send_again(&hello, since).await.unwrap();
    assert_eq!(receipt.certainty, DeliveryCertainty::Once);
    assert_eq!(twilio.sent(ANN).len(), 1);
    channel.send_again(&reply("sms", &chat(), "another"), since).await.unwrap();
    assert_eq!(twilio.sent(ANN).len(), 2);
}
