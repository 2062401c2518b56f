//! The channel of the Cloud API against an emulated Graph API.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::whatsapp_cloud::{
    ACCESS_TOKEN, APP_SECRET, FakeWhatsAppCloud, PHONE_NUMBER_ID, VERIFY_TOKEN,
};
use hermes_testkit::{PlatformFault, TestWebsite, http_get};
use hermes_types::{
    Attachment, AttachmentKind, Channel, ChannelError, ChatAddress, ChatKind, ChatPart, Clock,
    ConnectionStatus, QuickReply,
};
use serde_json::json;

use super::support::{
    ListeningChannel, MemoryHost, PNG, RecordingIntake, free_port, listen, open, options, picture, place,
    question, reply,
};

const ANN: &str = "4915112345678";

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn settings(graph: &FakeWhatsAppCloud, port: u16) -> hermes_channels::Options {
    let port = port.to_string();
    let variables = [
        ("WHATSAPP_CLOUD_PHONE_NUMBER_ID", PHONE_NUMBER_ID),
        ("WHATSAPP_CLOUD_ACCESS_TOKEN", ACCESS_TOKEN),
        ("WHATSAPP_CLOUD_APP_SECRET", APP_SECRET),
        ("WHATSAPP_CLOUD_VERIFY_TOKEN", VERIFY_TOKEN),
        ("WHATSAPP_CLOUD_WEBHOOK_PORT", port.as_str()),
        ("WHATSAPP_CLOUD_WEBHOOK_HOST", "127.0.0.1"),
    ];
    options(&variables, json!({"base_url": graph.base_url()}))
}

async fn start(graph: &FakeWhatsAppCloud, port: u16) -> ListeningChannel {
    let inbox: Arc<RecordingIntake> = Arc::default();
    let running = listen("whatsapp_cloud", &settings(graph, port), &MemoryHost::new(), &inbox, &clock());
    assert_eq!(inbox.until_connections(1).await, [ConnectionStatus::Up]);
    graph.set_webhook(&format!("http://127.0.0.1:{port}/whatsapp/webhook"));
    running
}

fn sender(graph: &FakeWhatsAppCloud, host: &Arc<MemoryHost>) -> Arc<dyn Channel> {
    open("whatsapp_cloud", &settings(graph, 1), host, &clock()).unwrap()
}

fn chat() -> ChatAddress {
    place(ChatKind::Dm, ANN, None)
}

#[tokio::test]
async fn messages_come_in_once_and_are_answered_after_they_are_taken() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    let running = start(&graph, free_port()).await;
    let first = graph.says(ANN, "hello");
    graph.sends(ANN, "text", &json!({"body": "and?"}), Some(&first));
    let taken = running.inbox.until_taken(2).await;
    assert_eq!((taken[0].text().as_str(), taken[0].platform_key.as_str()), ("hello", first.as_str()));
    assert_eq!(taken[0].sender.user_id.as_deref(), Some(ANN));
    assert_eq!(taken[0].sender.handle.as_deref(), Some("+4915112345678"));
    assert_eq!(taken[0].sender.user_name.as_deref(), Some("Person 4915112345678"));
    assert_eq!(taken[1].reply_to.as_deref(), Some(first.as_str()));
    graph.repeat_last();
    running.inbox.until_duplicates(1).await;
    assert_eq!(graph.until_answered(3).await, [200, 200, 200]);
    running.inbox.set_paused(true);
    graph.says(ANN, "wait");
    running.inbox.until_attempted(4).await;
    assert_eq!(graph.answers().len(), 3);
    running.inbox.set_paused(false);
    graph.until_answered(4).await;
    running.inbox.refuse_next();
    graph.says(ANN, "full");
    assert_eq!(graph.until_answered(5).await[4], 503);
    graph.repeat_last();
    running.inbox.until_taken(4).await;
}

#[tokio::test]
async fn files_of_each_kind_are_fetched() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    let running = start(&graph, free_port()).await;
    graph.sends_file(ANN, "image", ("", "image/png", PNG), Some("look"));
    graph.sends_file(ANN, "audio", ("", "audio/ogg; codecs=opus", b"OggS"), None);
    graph.sends_file(ANN, "document", ("notes.txt", "text/plain", b"some notes"), None);
    graph.sends_file(ANN, "document", ("a.exe", "application/x-dosexec", b"MZ"), None);
    graph.sends_file(ANN, "video", ("", "video/mp4", b"ftyp"), None);
    graph.sends(ANN, "image", &json!({"id": "../../evil", "mime_type": "image/png"}), None);
    graph.sends(ANN, "location", &json!({"latitude": 1.5, "longitude": 2.5}), None);
    let taken = running.inbox.until_taken(7).await;
    let kinds: Vec<_> = taken.iter().flat_map(|envelope| envelope.files().map(|file| file.kind)).collect();
    let expected =
        [AttachmentKind::Image, AttachmentKind::Voice, AttachmentKind::Document, AttachmentKind::Video];
    assert_eq!(kinds, expected);
    assert_eq!(taken[0].text(), "look");
    assert_eq!(std::fs::read(&taken[2].files().next().unwrap().path).unwrap(), b"some notes");
    assert!(taken[3].text().contains("a.exe"), "{}", taken[3].text());
    assert!(taken[5].text().contains("could not be fetched"), "{}", taken[5].text());
    assert!(graph.calls("evil").is_empty(), "no such address is opened");
    assert!(taken[6].text().contains("1.5, 2.5"));
}

#[tokio::test]
async fn requests_are_verified() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    let port = free_port();
    let running = start(&graph, port).await;
    graph.forge_next();
    graph.says(ANN, "I am somebody else");
    assert_eq!(graph.until_answered(1).await, [401]);
    let statuses = std::thread::spawn(move || {
        let verify = |query: &str| {
            let path = format!("/whatsapp/webhook?{query}");
            let answer = http_get(([127, 0, 0, 1], port).into(), &path).unwrap();
            (answer.status, answer.text())
        };
        [
            verify("hub.mode=subscribe&hub.verify_token=verify-me&hub.challenge=a%2Bb"),
            verify("hub.mode=subscribe&hub.verify_token=verify-mx&hub.challenge=42"),
            verify("hub.mode=subscribe&hub.verify_token=verify-me"),
            verify("hub.mode=other&hub.verify_token=verify-me&hub.challenge=42"),
        ]
    });
    // The server runs on this thread.
    while !statuses.is_finished() {
        tokio::task::yield_now().await;
    }
    let said = |status: u16, text: &str| (status, text.to_owned());
    assert_eq!(statuses.join().unwrap(), [said(200, "a+b"), said(403, ""), said(400, ""), said(400, "")]);
    assert!(running.inbox.texts().is_empty());
}

#[tokio::test]
async fn a_revoked_token_ends_the_listening() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    graph.change_token("another");
    let inbox: Arc<RecordingIntake> = Arc::default();
    let running =
        listen("whatsapp_cloud", &settings(&graph, free_port()), &MemoryHost::new(), &inbox, &clock());
    let ended = running.ended().await.unwrap_err();
    assert!(
        matches!(&ended, ChannelError::Reauthorise(why) if why.contains("WHATSAPP_CLOUD_ACCESS_TOKEN")),
        "{ended:?}"
    );
}

#[tokio::test]
async fn answers_quote_and_show_buttons() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    let running = start(&graph, free_port()).await;
    let asked = graph.says(ANN, "delete it all");
    running.inbox.until_taken(1).await;
    running.channel.show_typing(&chat()).await;
    assert_eq!(graph.typing(), std::slice::from_ref(&asked));
    let mut answer = reply("whatsapp_cloud", &chat(), "# Really\n**delete** `x`?");
    answer.reply_to = Some(asked.clone());
    let choice = |label: &str, text: &str| QuickReply { label: label.to_owned(), text: text.to_owned() };
    answer.choices = vec![choice("Allow once", "/approve #1"), choice("Deny", "/deny #1")];
    running.channel.send(&answer).await.unwrap();
    let sent = graph.sent(ANN);
    assert_eq!(
        (sent[0].text().as_str(), sent[0].quotes.as_deref()),
        ("*Really*\n*delete* `x`?", Some(asked.as_str()))
    );
    graph.presses(ANN, &sent[0], "Deny");
    assert_eq!(running.inbox.until_taken(2).await[1].text(), "/deny #1");
}

#[tokio::test]
async fn files_and_pictures_go_out() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    let site = TestWebsite::start().unwrap();
    let host = MemoryHost::new();
    let channel = sender(&graph, &host);
    let mut answer = reply("whatsapp_cloud", &chat(), "");
    let file = |kind, name: &str, bytes: &[u8]| {
        ChatPart::File(Attachment {
            kind,
            path: host.file(name, bytes),
            name: Some(name.to_owned()),
            mime: None,
        })
    };
    answer.pieces = vec![
        file(AttachmentKind::Document, "report.pdf", b"%PDF"),
        file(AttachmentKind::Voice, "note.ogg", b"OggS"),
        picture(&site.put("/cat.png", "image/png", PNG), "A **cat**"),
        picture(&site.put("/words.png", "image/png", b"no picture"), ""),
    ];
    channel.send(&answer).await.unwrap();
    let sent = graph.sent(ANN);
    let kinds: Vec<&str> = sent.iter().map(|message| message.kind.as_str()).collect();
    assert_eq!(kinds, ["document", "audio", "image", "text"]);
    assert_eq!(sent[0].file, Some(("report.pdf".to_owned(), b"%PDF".to_vec())));
    assert_eq!(sent[2].text(), "A *cat*");
    assert!(sent[3].text().contains("/words.png"));
}

#[tokio::test]
async fn refusals_are_said_plainly() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    let channel = sender(&graph, &MemoryHost::new());
    let hello = reply("whatsapp_cloud", &chat(), "hello");
    graph.becomes_silent(ANN);
    let late = channel.send(&hello).await.unwrap_err();
    assert!(
        matches!(&late, ChannelError::Refused(why) if why.contains("24 hours") && why.contains("template")),
        "{late:?}"
    );
    let template = json!({"error": {"code": 132_001, "message": "Template does not exist"}});
    graph.fault("POST", "/messages", PlatformFault::Refuse(404, template));
    let refused = channel.send(&hello).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("template")), "{refused:?}");
    let limited = json!({"error": {"code": 131_056, "message": "Pair rate limit hit"}});
    graph.fault("POST", "/messages", PlatformFault::Refuse(400, limited));
    assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::Retry { .. }));
    graph.fault("POST", "/messages", PlatformFault::Limit(9));
    let limited = channel.send(&hello).await.unwrap_err();
    assert!(
        matches!(limited, ChannelError::Retry { after: Some(after), .. } if after.as_secs() == 9),
        "{limited:?}"
    );
    for fault in [PlatformFault::Refuse(502, json!({})), PlatformFault::Garbage, PlatformFault::Cut] {
        graph.fault("POST", "/messages", fault.clone());
        let error = channel.send(&hello).await.unwrap_err();
        assert!(matches!(error, ChannelError::DeliveryUnknown(_)), "{fault:?}: {error:?}");
    }
    graph.change_token("another");
    let revoked = channel.send(&hello).await.unwrap_err();
    assert!(matches!(&revoked, ChannelError::Reauthorise(_)) && !revoked.to_string().contains(ACCESS_TOKEN));
}

#[tokio::test]
async fn a_reaction_to_a_question_is_its_answer() {
    let graph = FakeWhatsAppCloud::start().unwrap();
    let running = start(&graph, free_port()).await;
    let first = graph.says(ANN, "hello");
    running.inbox.until_taken(1).await;
    let asked =
        running.channel.send(&question("whatsapp_cloud", &chat())).await.unwrap().message_ids.remove(0);
    let reacts = |emoji: &str, target: &str| {
        graph.sends(ANN, "reaction", &json!({"message_id": target, "emoji": emoji}), None)
    };
    reacts("✅", &first);
    reacts("👍", &asked);
    reacts("", &asked);
    // Nobody answers the question of another chat.
    graph.sends("4915100000000", "reaction", &json!({"message_id": asked, "emoji": "✅"}), None);
    let id = reacts("❌", &asked);
    let taken = running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["hello", "/deny #7"]);
    assert_eq!((taken[1].platform_key.as_str(), taken[1].reply_to.as_ref()), (id.as_str(), Some(&asked)));
    assert_eq!(taken[1].sender.handle.as_deref(), Some("+4915112345678"));
    assert_eq!(graph.until_answered(6).await, [200; 6]);
}
