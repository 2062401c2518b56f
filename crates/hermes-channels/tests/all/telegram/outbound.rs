//! Outgoing messages, as users see them.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::PrivateAddresses;
use hermes_testkit::TestWebsite;
use hermes_testkit::telegram::{FakeTelegram, TelegramFault};
use hermes_types::AttachmentKind::{self, Audio, Document, Image, Video, Voice};
use hermes_types::{
    Attachment, ChannelError, ChatAddress, ChatKind, ChatPart, LengthUnit, MessageStatus, OutgoingMessage,
    QuickReply,
};
use serde_json::json;

use super::{ALICE, GROUP, TOKEN, TelegramFixture, dm, listen, saying, sending};
use crate::support::{GIF, MemoryHost, PNG, picture};

fn group() -> ChatAddress {
    ChatAddress::new(ChatKind::Group, GROUP.to_string())
}

#[tokio::test]
async fn marks_become_entities_and_the_question_is_quoted() {
    let bench = TelegramFixture::new(&[]);
    let question = bench.telegram.person(ALICE, "Alice").says(ALICE, "hi");
    let mut reply = saying(&dm(), "# Title\n**bold** `a_b` [x](https://e.org/(1)) 1.5 - 2!");
    reply.reply_to = Some(question.to_string());
    let receipt = bench.bot.channel.send(&reply).await.unwrap();
    let said = &bench.telegram.messages(ALICE)[0];
    assert_eq!(receipt.message_ids, [said.id.to_string()]);
    assert_eq!(said.text, "Title\nbold a_b x 1.5 - 2!");
    let kinds: Vec<&str> = said.entities.iter().map(|entity| entity.kind).collect();
    assert_eq!(kinds, ["bold", "bold", "code", "text_link"]);
    assert_eq!(said.reply_to, Some(question));
    reply.reply_to = Some("999999".to_owned());
    bench.bot.channel.send(&reply).await.unwrap();
    assert_eq!(bench.telegram.messages(ALICE)[1].reply_to, None, "a question that is gone does not matter");
}

#[tokio::test]
async fn quoting_can_be_off_or_everywhere() {
    for (mode, expected) in
        [("off", [false, false, false]), ("first", [true, false, false]), ("all", [true, true, false])]
    {
        let bench = TelegramFixture::new(&[("TELEGRAM_REPLY_TO_MODE", mode)]);
        let question = bench.telegram.person(ALICE, "Alice").says(ALICE, "hi");
        let part = |key: &str, reply_to: Option<i64>| OutgoingMessage {
            idempotency_key: key.to_owned(),
            reply_to: reply_to.map(|id| id.to_string()),
            ..saying(&dm(), "part")
        };
        for reply in [part("turn:1:0", Some(question)), part("turn:1:1", None), part("job:2:0", None)] {
            bench.bot.channel.send(&reply).await.unwrap();
        }
        let quoted: Vec<bool> =
            bench.telegram.messages(ALICE).iter().map(|said| said.reply_to.is_some()).collect();
        assert_eq!(quoted, expected, "{mode}");
    }
}

#[tokio::test]
async fn the_longest_parts_fit() {
    let bench = TelegramFixture::new(&[]);
    let abilities = bench.bot.channel.capabilities();
    assert_eq!((abilities.max_length, abilities.unit), (4096, LengthUnit::Utf16));
    let text = format!(
        "```rust\n{}```\n{}",
        "let a_b = \"*x*\"; // 𝄞 .!\n".repeat(300),
        "**bold** (1.5) - [l](https://e.org)! ".repeat(300)
    );
    let parts = hermes_text::split(&text, abilities.max_length, abilities.unit);
    assert!(parts.len() > 3);
    for part in &parts {
        bench.bot.channel.send(&saying(&dm(), part)).await.unwrap();
    }
    let said = bench.telegram.messages(ALICE);
    assert_eq!(said.len(), parts.len());
    assert!(said[0].text.ends_with(&format!("(1/{})", parts.len())), "{}", said[0].text);
    assert!(
        said.iter().all(|said| said.fields.get("parse_mode") == Some(&json!("MarkdownV2"))),
        "none fell back"
    );
}

#[tokio::test]
async fn what_telegram_cannot_read_is_sent_without_marks() {
    let bench = TelegramFixture::new(&[]);
    bench.telegram.fails(
        "sendMessage",
        TelegramFault::refuse(400, "Bad Request: can't parse entities: Character '.' is reserved"),
    );
    bench.bot.channel.send(&saying(&dm(), "**bold** and [x](https://e.org)")).await.unwrap();
    let said = &bench.telegram.messages(ALICE)[0];
    assert_eq!((said.text.as_str(), said.fields.get("parse_mode")), ("bold and x (https://e.org)", None));
}

#[tokio::test]
async fn topics_that_are_gone_and_groups_that_moved() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.group(GROUP, "Team");
    let topic = telegram.topic(GROUP, "Topic");
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    let mut place = group();
    place.thread_id = Some(topic.to_string());
    bench.bot.channel.send(&saying(&place, "in the topic")).await.unwrap();
    bench.bot.channel.show_typing(&place).await;
    assert_eq!(bench.telegram.messages(GROUP)[0].thread, Some(topic));
    assert_eq!(bench.telegram.calls("sendChatAction")[0].get("message_thread_id"), Some(&json!(topic)));
    bench.telegram.close_topic(GROUP, topic);
    bench.bot.channel.send(&saying(&place, "in the chat")).await.unwrap();
    assert_eq!(bench.telegram.messages(GROUP)[1].thread, None);
    bench.telegram.migrate(GROUP, -100_900);
    for _ in 0..2 {
        bench.bot.channel.send(&saying(&place, "moved")).await.unwrap();
    }
    assert_eq!(bench.telegram.messages(-100_900).len(), 2);
    let calls = bench.telegram.calls("sendMessage").len();
    bench.bot.channel.send(&saying(&group(), "known by now")).await.unwrap();
    assert_eq!(bench.telegram.calls("sendMessage").len(), calls + 1);
}

#[tokio::test]
async fn failures_say_what_can_be_done() {
    let bench = TelegramFixture::new(&[]);
    let send = async || bench.bot.channel.send(&saying(&dm(), "x")).await;
    bench.telegram.fails("sendMessage", TelegramFault::too_many(7));
    assert!(
        matches!(send().await, Err(ChannelError::Retry { after: Some(after), .. }) if after == Duration::from_secs(7))
    );
    bench.telegram.fails("sendMessage", TelegramFault::DropAfter);
    let unclear = send().await;
    assert!(
        matches!(&unclear, Err(ChannelError::DeliveryUnknown(reason)) if reason.contains("did not confirm")),
        "{unclear:?}"
    );
    assert_eq!(bench.telegram.messages(ALICE).len(), 1, "it was said, and nobody knows");
    bench.telegram.fails("sendMessage", TelegramFault::Garbage);
    assert!(matches!(send().await, Err(ChannelError::Retry { .. })));
    bench.telegram.block(ALICE, true);
    assert!(matches!(send().await, Err(ChannelError::Refused(words)) if words.contains("blocked")));
    bench.telegram.block(ALICE, false);
    let nowhere = ChatAddress::new(ChatKind::Dm, "4711");
    assert!(matches!(bench.bot.channel.send(&saying(&nowhere, "x")).await, Err(ChannelError::Refused(_))));
    let named = ChatAddress::new(ChatKind::Dm, "alice");
    assert!(
        matches!(bench.bot.channel.send(&saying(&named, "x")).await, Err(ChannelError::Refused(words)) if words.contains("alice"))
    );
    assert!(matches!(
        bench.bot.channel.send(&saying(&dm(), "```\n```")).await,
        Err(ChannelError::Refused(_))
    ));
    bench.telegram.kill();
    // An existing connection may have carried the request; a new one cannot be opened.
    let _ = send().await;
    let away = send().await;
    assert!(
        matches!(&away, Err(ChannelError::Retry { reason, .. }) if !reason.contains("not known") && !reason.contains("secret-token")),
        "{away:?}"
    );
}

#[tokio::test]
async fn floods_are_waited_out_by_the_caller() {
    let bench = TelegramFixture::new(&[]);
    bench.telegram.limits_floods(Arc::new(bench.clock.clone()));
    let mut sent = 0;
    while sent < 3 {
        match bench.bot.channel.send(&saying(&dm(), "x")).await {
            Ok(_) => sent += 1,
            Err(ChannelError::Retry { after: Some(after), .. }) => bench.clock.advance(after),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(bench.telegram.messages(ALICE).len(), 3);
}

#[tokio::test]
async fn messages_that_change() {
    let bench = TelegramFixture::new(&[]);
    let channel = &bench.bot.channel;
    let id = channel.post(&dm(), "working…").await.unwrap();
    channel.edit(&dm(), &id, "**done**").await.unwrap();
    channel.edit(&dm(), &id, "**done**").await.unwrap();
    let said = &bench.telegram.messages(ALICE)[0];
    assert_eq!((said.text.as_str(), said.earlier.as_slice()), ("done", &["working…".to_owned()][..]));
    channel.edit(&dm(), &id, &"long ".repeat(2000)).await.unwrap();
    let text = &bench.telegram.messages(ALICE)[0].text;
    assert!(text.ends_with('…') && text.encode_utf16().count() <= 4096, "{}", text.len());
    bench.telegram.fails("editMessageText", TelegramFault::too_many(3));
    channel.edit(&dm(), &id, "after a pause").await.unwrap();
    assert!(bench.clock.slept().contains(&Duration::from_secs(3)));
    bench
        .telegram
        .fails("editMessageText", TelegramFault::refuse(400, "Bad Request: can't parse entities: x"));
    channel.edit(&dm(), &id, "_plain_").await.unwrap();
    assert_eq!(bench.telegram.messages(ALICE)[0].text, "plain");
    assert!(matches!(channel.edit(&dm(), "12345", "x").await, Err(ChannelError::Refused(_))));
    assert!(matches!(channel.edit(&dm(), "no number", "x").await, Err(ChannelError::Refused(_))));
}

#[tokio::test]
async fn files_go_out_as_what_they_are() {
    let bench = TelegramFixture::new(&[]);
    let host = bench.bot.host.clone();
    let file = |kind: AttachmentKind, name: &str, bytes: &[u8]| {
        ChatPart::File(Attachment {
            kind,
            path: host.file(name, bytes),
            name: Some(name.to_owned()),
            mime: None,
        })
    };
    let cases: [(AttachmentKind, &str, &[u8], &str); 8] = [
        (Image, "a.png", b"\x89PNG", "photo"),
        (Image, "a.gif", b"GIF8", "animation"),
        (Voice, "a.ogg", b"OggS", "voice"),
        (Voice, "a.mp3", b"ID3", "audio"),
        (Audio, "b.mp3", b"ID3", "audio"),
        (Video, "a.mp4", b"ftyp", "video"),
        (Document, "Überblick \"1\".pdf", b"%PDF", "document"),
        (Image, "broken.png", b"not a picture", "document"),
    ];
    for (kind, name, bytes, way) in cases {
        bench.bot.channel.send(&sending(&dm(), vec![file(kind, name, bytes)])).await.unwrap();
        let said = bench.telegram.messages(ALICE).pop().unwrap();
        let (sent_name, sent_bytes) = said.file.unwrap();
        assert_eq!((said.kind.as_str(), sent_bytes.as_slice()), (way, bytes), "{name}");
        assert_eq!(sent_name, name.replace('"', "_"));
    }
    let words = ChatPart::Text { text: "see *this*".to_owned() };
    let receipt =
        bench.bot.channel.send(&sending(&dm(), vec![words, file(Image, "c.png", b"\x89PNG")])).await.unwrap();
    assert_eq!(receipt.message_ids.len(), 1);
    assert_eq!(bench.telegram.messages(ALICE).pop().unwrap().text, "see this");
    let missing =
        ChatPart::File(Attachment { kind: Image, path: "/nowhere/x.png".to_owned(), name: None, mime: None });
    assert!(
        matches!(bench.bot.channel.send(&sending(&dm(), vec![missing])).await, Err(ChannelError::Refused(words)) if words.contains("/nowhere/x.png"))
    );
}

#[tokio::test]
async fn pictures_are_shown_from_their_address() {
    let bench = TelegramFixture::new(&[]);
    let site = TestWebsite::start().unwrap();
    let here = site.put("/here.png", "image/png", PNG);
    bench.telegram.publishes("https://e.org/cat.png?w=1", "image/png", PNG);
    bench.telegram.publishes("https://e.org/page.png", "text/html", b"<html>");
    // The URL, the kind of message, the file name, and the caption.
    let cases = [
        ("https://e.org/cat.png?w=1", "photo", Some("https://e.org/cat.png?w=1"), "a *cat*"),
        ("https://e.org/dance.gif?w=1", "animation", Some("https://e.org/dance.gif?w=1"), "a *cat*"),
        // Telegram cannot reach it, the bot can.
        (&here, "photo", Some("image.png"), "a *cat*"),
        // Neither can reach it.
        ("https://e.invalid/x.png", "text", None, "a *cat*\n🖼️ Image: https://e.invalid/x.png"),
    ];
    for (url, kind, file, words) in cases {
        bench.bot.channel.send(&sending(&dm(), vec![picture(url, "a *cat*")])).await.unwrap();
        let said = bench.telegram.messages(ALICE).pop().unwrap();
        let sent = said.file.as_ref().map(|(name, _)| name.as_str());
        assert_eq!((said.kind.as_str(), sent), (kind, file), "{url}");
        assert_eq!(said.text, words.replace('*', ""), "{url}");
    }
    assert_eq!(bench.telegram.messages(ALICE).len(), cases.len(), "each once");
    assert_eq!(site.visits(), ["/here.png"]);
}

#[tokio::test]
async fn what_is_no_picture_after_all_is_sent_as_its_address() {
    let bench = TelegramFixture::new(&[]);
    let site = TestWebsite::start().unwrap();
    let large = [PNG, &vec![0; 11 * 1024 * 1024]].concat();
    let cases = [
        (site.put("/page.png", "image/png", b"<html>"), "text"),
        (site.put_with(403, "/secret.png", "image/png", PNG), "text"),
        (site.put("/huge.png", "image/png", &[PNG, &vec![0; 21 * 1024 * 1024]].concat()), "text"),
        // Too large for a photo, not for a document.
        (site.put("/large.png", "image/png", &large), "document"),
        (site.put("/moving.png", "image/png", GIF), "animation"),
    ];
    for (url, kind) in cases {
        bench.bot.channel.send(&sending(&dm(), vec![picture(&url, "")])).await.unwrap();
        let said = bench.telegram.messages(ALICE).pop().unwrap();
        assert_eq!(said.kind, kind, "{url}");
        assert_eq!(said.text, if kind == "text" { format!("🖼️ Image: {url}") } else { String::new() });
    }
    let long = "𝄞".repeat(600);
    bench.bot.channel.send(&sending(&dm(), vec![picture("https://e.org/a.png", &long)])).await.unwrap();
    let said = bench.telegram.messages(ALICE).pop().unwrap();
    assert_eq!((said.kind.as_str(), said.text.ends_with('…')), ("photo", true));
}

#[tokio::test]
async fn a_picture_on_this_machine_is_not_fetched_on_a_models_word() {
    let site = TestWebsite::start().unwrap();
    let url = site.put("/here.png", "image/png", PNG);
    let strict = MemoryHost::reaching(PrivateAddresses::Refuse);
    let bench =
        TelegramFixture::with(FakeTelegram::start(TOKEN).unwrap(), &[], json!({}), &strict, &Arc::default());
    bench.bot.channel.send(&sending(&dm(), vec![picture(&url, "")])).await.unwrap();
    assert_eq!(bench.telegram.messages(ALICE).pop().unwrap().text, format!("🖼️ Image: {url}"));
    assert_eq!(site.visits(), [""; 0]);
}

#[tokio::test]
async fn a_picture_nobody_knows_the_fate_of_is_not_sent_in_another_way() {
    let bench = TelegramFixture::new(&[]);
    bench.telegram.fails("sendPhoto", TelegramFault::DropAfter);
    let reply = sending(&dm(), vec![picture("https://e.org/a.png", "")]);
    assert!(matches!(bench.bot.channel.send(&reply).await, Err(ChannelError::DeliveryUnknown(_))));
    assert_eq!(bench.telegram.messages(ALICE).len(), 1);
    bench.telegram.fails("sendPhoto", TelegramFault::too_many(7));
    assert!(matches!(bench.bot.channel.send(&reply).await, Err(ChannelError::Retry { .. })));
}

fn question(choices: &[(&str, &str)]) -> OutgoingMessage {
    let choices = choices
        .iter()
        .map(|(label, says)| QuickReply { label: (*label).to_owned(), text: (*says).to_owned() });
    OutgoingMessage {
        choices: choices.collect(),
        idempotency_key: "question:holder:3".to_owned(),
        ..saying(&dm(), "May I?")
    }
}

#[tokio::test]
async fn buttons_say_what_they_stand_for_also_after_a_restart() {
    let bench = TelegramFixture::new(&[]);
    let alice = bench.telegram.person(ALICE, "Alice");
    let long = "a choice with very many words, more than sixty-four bytes of them in any case";
    let choices = [
        ("Allow once", "/approve #3f"),
        ("Always allow", "/approve always #3f"),
        ("Deny", "/deny"),
        ("Blue", "Blue"),
        ("Long", long),
    ];
    bench.bot.channel.send(&question(&choices)).await.unwrap();
    let asked = bench.telegram.messages(ALICE)[0].clone();
    assert_eq!(asked.buttons[0].data, "ea:once:3f");
    let press = alice.presses(ALICE, "Allow once");
    let taken = bench.bot.inbox.until_taken(1).await;
    bench.telegram.until_answered(&press).await;
    assert_eq!(
        (taken[0].text().as_str(), taken[0].platform_key.clone()),
        ("/approve #3f", format!("callback:{press}"))
    );
    assert_eq!(taken[0].sender.user_id.as_deref(), Some("7"));
    assert_eq!(taken[0].reply_to, Some(asked.id.to_string()), "whoever asked can tell which question it was");
    let (inbox, host) = bench.bot.kill().await;
    let _bot = listen(&bench.telegram, &[], json!({}), &host, &inbox, &bench.clock);
    for words in ["Always allow", "Deny", "Blue", "Long"] {
        alice.presses(ALICE, words);
    }
    inbox.until_taken(5).await;
    assert_eq!(inbox.texts(), ["/approve #3f", "/approve always #3f", "/deny", "Blue", long]);
    assert_eq!(bench.telegram.messages(ALICE)[0].buttons.len(), 5, "the buttons stay");
}

#[tokio::test]
async fn a_button_nobody_remembers() {
    let bench = TelegramFixture::new(&[]);
    let alice = bench.telegram.person(ALICE, "Alice");
    bench.bot.channel.send(&question(&[("Long", &"x".repeat(100))])).await.unwrap();
    let (inbox, _) = bench.bot.kill().await;
    let _bot = listen(&bench.telegram, &[], json!({}), &MemoryHost::new(), &inbox, &bench.clock);
    let press = alice.presses(ALICE, "Long");
    assert_eq!(bench.telegram.until_answered(&press).await, "This button is too old.");
    assert_eq!(inbox.envelopes().len(), 0);
}

#[tokio::test]
async fn reactions_only_when_wanted() {
    for (variables, expected) in [(&[("TELEGRAM_REACTIONS", "true")][..], Some("👍")), (&[], None)] {
        let bench = TelegramFixture::new(variables);
        let message = bench.telegram.person(ALICE, "Alice").says(ALICE, "hi");
        for mark in [MessageStatus::Processing, MessageStatus::Failed, MessageStatus::Answered] {
            bench.bot.channel.show_message_status(&dm(), &message.to_string(), mark).await;
        }
        assert_eq!(bench.telegram.reaction(ALICE, message).as_deref(), expected);
    }
}

#[tokio::test]
async fn another_address_of_the_host_is_found_and_kept() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    let port = telegram.base_url().rsplit(':').next().unwrap().to_owned();
    let extra = json!({"base_url": format!("http://api.nowhere.invalid:{port}/bot")});
    telegram.person(ALICE, "Alice").says(ALICE, "hello");
    let fallbacks = [("TELEGRAM_FALLBACK_IPS", "127.0.0.1")];
    let bench = TelegramFixture::with(telegram, &fallbacks, extra, &MemoryHost::new(), &Arc::default());
    bench.bot.inbox.until_taken(1).await;
    bench.bot.channel.send(&saying(&dm(), "and back")).await.unwrap();
    bench.telegram.until_said(ALICE, "and back").await;
}

#[tokio::test]
async fn a_proxy_of_its_own() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    // The emulator accepts absolute URLs in its request line, as a proxy does.
    let proxy = telegram.base_url();
    let extra = json!({"base_url": "http://api.nowhere.invalid"});
    let bench = TelegramFixture::with(
        telegram,
        &[("TELEGRAM_PROXY", &proxy)],
        extra,
        &MemoryHost::new(),
        &Arc::default(),
    );
    bench.telegram.person(ALICE, "Alice").says(ALICE, "through a proxy");
    bench.bot.inbox.until_taken(1).await;
}
