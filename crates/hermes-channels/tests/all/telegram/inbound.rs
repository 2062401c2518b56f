//! Incoming messages, as the rest of the program gets them.

use std::sync::Arc;

use hermes_channels::ChannelHost as _;
use hermes_testkit::telegram::{FakeTelegram, TelegramFault};
use hermes_types::AttachmentKind::{self, Audio, Document, Image, Voice};
use hermes_types::{ChatKind, Envelope};
use serde_json::json;

use super::{ALICE, GROUP, TOKEN, TelegramFixture};
use crate::support::MemoryHost;

const JPEG: &[u8] = b"\xFF\xD8\xFFjpeg";

#[tokio::test]
async fn a_message_with_all_that_is_known_about_it() {
    let bench = TelegramFixture::new(&[]);
    let alice = bench.telegram.person(ALICE, "Alice");
    let first = alice.says(ALICE, "hello there");
    let second = alice.replies(ALICE, first, "and more");
    let taken = bench.bot.inbox.until_taken(2).await;
    let envelope = &taken[0];
    assert_eq!((envelope.platform.as_str(), envelope.text().as_str()), ("telegram", "hello there"));
    assert_eq!(envelope.platform_key, format!("{ALICE}:{first}"));
    assert_eq!(envelope.message_id, Some(first.to_string()));
    assert_eq!((envelope.place.kind, envelope.place.chat_id.as_str()), (ChatKind::Dm, "7"));
    assert_eq!(envelope.place.chat_name.as_deref(), Some("Alice"));
    let sender = &envelope.sender;
    assert_eq!(
        (sender.user_id.as_deref(), sender.user_name.as_deref(), sender.handle.as_deref()),
        (Some("7"), Some("Alice"), Some("alice"))
    );
    assert_eq!(envelope.quiet_ms, 600);
    assert_eq!(taken[1].platform_key, format!("{ALICE}:{second}"));
    assert_eq!(
        (taken[1].reply_to.clone(), taken[1].reply_to_text.as_deref()),
        (Some(first.to_string()), Some("hello there"))
    );
}

#[tokio::test]
async fn commands_do_not_wait_and_edits_are_nothing_new() {
    let bench = TelegramFixture::new(&[("HERMES_TELEGRAM_TEXT_BATCH_DELAY_SECONDS", "0.25")]);
    let alice = bench.telegram.person(ALICE, "Alice");
    let said = alice.says(ALICE, "text");
    alice.edits(ALICE, said, "another text");
    alice.says(ALICE, "/model@Hermes_Bot gpt");
    let taken = bench.bot.inbox.until_taken(2).await;
    assert_eq!(taken.iter().map(|envelope| envelope.quiet_ms).collect::<Vec<_>>(), [250, 0]);
    assert_eq!(taken[1].text(), "/model gpt");
}

#[tokio::test]
async fn a_message_that_waited_long_carries_its_own_time() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.writes_at(1_767_000_000);
    telegram.person(ALICE, "Alice").says(ALICE, "days ago");
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    let taken = bench.bot.inbox.until_taken(1).await;
    assert!((taken[0].received_at.seconds() - 1_767_000_000.0).abs() < 1.0);
}

#[tokio::test]
async fn pictures_sounds_and_documents_are_kept() {
    let bench = TelegramFixture::new(&[]);
    let telegram = &bench.telegram;
    let alice = telegram.person(ALICE, "Alice");
    let named = |path: &str, bytes: &[u8], name: &str, mime: &str| {
        let mut file = telegram.file(path, bytes);
        file["file_name"] = json!(name);
        file["mime_type"] = json!(mime);
        file
    };
    alice.sends_photo(ALICE, JPEG, Some("look"));
    alice.sends(ALICE, json!({"voice": telegram.file("voice/1.oga", b"OggS")}));
    alice.sends(ALICE, json!({"audio": named("music/1.mp3", b"ID3", "song.mp3", "audio/mpeg")}));
    alice.sends(
        ALICE,
        json!({"document": named("docs/1", b"plain words", "notes.txt", "text/plain"), "caption": "read it"}),
    );
    alice.sends(ALICE, json!({"document": named("docs/2", b"\x89PNG", "shot.png", "image/png")}));
    let mut sticker = telegram.file("stickers/1.webp", b"RIFF");
    sticker["emoji"] = json!("😀");
    sticker["set_name"] = json!("Cats");
    alice.sends(ALICE, json!({"sticker": sticker}));
    let taken = bench.bot.inbox.until_taken(6).await;
    let summary = |envelope: &Envelope| {
        let file = envelope.files().next().unwrap();
        let extension = file.path.rsplit('.').next().unwrap().to_owned();
        (envelope.text(), file.kind, extension, std::fs::read(&file.path).unwrap(), envelope.quiet_ms)
    };
    let expected: [(&str, AttachmentKind, &str, &[u8], u64); 6] = [
        ("look", Image, "jpg", JPEG, 800),
        ("", Voice, "ogg", b"OggS", 0),
        ("", Audio, "mp3", b"ID3", 0),
        ("read it", Document, "txt", b"plain words", 0),
        ("", Image, "png", b"\x89PNG", 0),
        ("[The user sent a sticker: 😀 from the set \"Cats\"]", Image, "webp", b"RIFF", 0),
    ];
    for (envelope, (text, kind, extension, bytes, quiet)) in taken.iter().zip(expected) {
        assert_eq!(summary(envelope), (text.to_owned(), kind, extension.to_owned(), bytes.to_vec(), quiet));
    }
}

#[tokio::test]
async fn an_album_is_several_messages_that_belong_together() {
    let bench = TelegramFixture::new(&[]);
    let alice = bench.telegram.person(ALICE, "Alice");
    for at in 0..3 {
        let photo = bench.telegram.file("photos/x.jpg", JPEG);
        let caption = if at == 0 { json!("holiday") } else { json!(null) };
        alice.sends(ALICE, json!({"photo": [photo], "media_group_id": "5", "caption": caption}));
    }
    let taken = bench.bot.inbox.until_taken(3).await;
    assert!(taken.iter().all(|envelope| envelope.quiet_ms == 800 && envelope.files().count() == 1));
}

#[tokio::test]
async fn what_is_not_taken_is_told_in_words() {
    let bench = TelegramFixture::new(&[]);
    let telegram = &bench.telegram;
    let alice = telegram.person(ALICE, "Alice");
    let file =
        |name: &str, size: serde_json::Value| json!({"file_id": "x", "file_name": name, "file_size": size});
    alice.sends(ALICE, json!({"document": file("program.exe", json!(10))}));
    alice.sends(ALICE, json!({"document": file("large.pdf", json!(30_000_000))}));
    alice.sends(ALICE, json!({"document": file("unknown.pdf", json!(null))}));
    alice.sends(
        ALICE,
        json!({"video": {"file_id": "v", "file_name": "film.mp4", "duration": 12}, "caption": "watch"}),
    );
    alice.sends(ALICE, json!({"sticker": {"file_id": "s", "emoji": "🎉", "is_animated": true}}));
    alice.sends(ALICE, json!({"location": {"latitude": 48.2, "longitude": 16.37}}));
    let place = json!({"latitude": 48.2, "longitude": 16.37});
    alice.sends(
        ALICE,
        json!({"location": place, "venue": {"location": place, "title": "Café", "address": "Ring 1"}}),
    );
    alice.sends(ALICE, json!({"contact": {"phone_number": "1"}}));
    let taken = bench.bot.inbox.until_taken(8).await;
    let words = [
        &["program.exe", ".pdf, .md, .txt"][..],
        &["large.pdf", "20 MB"],
        &["unknown.pdf", "20 MB"],
        &["a video (film.mp4), 12 s long", "watch"],
        &["a moving sticker", "🎉"],
        &["Latitude: 48.2", "Longitude: 16.37", "https://www.google.com/maps/search/?api=1&query=48.2,16.37"],
        &["Venue: Café", "Address: Ring 1", "Latitude: 48.2"],
        &["a contact"],
    ];
    for (envelope, words) in taken.iter().zip(words) {
        assert!(words.iter().all(|word| envelope.text().contains(word)), "{}", envelope.text());
        assert_eq!(envelope.files().count(), 0);
    }
    assert_eq!(telegram.calls("getFile").len(), 0);
}

#[tokio::test]
async fn a_download_is_tried_three_times_and_then_told_about() {
    let bench = TelegramFixture::new(&[]);
    let alice = bench.telegram.person(ALICE, "Alice");
    bench.telegram.fails("getFile", TelegramFault::Drop);
    bench.telegram.fails("getFile", TelegramFault::refuse(500, "Internal Server Error"));
    alice.sends_photo(ALICE, JPEG, None);
    let taken = bench.bot.inbox.until_taken(1).await;
    assert_eq!(taken[0].files().count(), 1, "the third attempt succeeds");
    for _ in 0..3 {
        bench.telegram.fails("getFile", TelegramFault::Drop);
    }
    alice.sends_photo(ALICE, JPEG, Some("but the words are here"));
    let taken = bench.bot.inbox.until_taken(2).await;
    assert!(
        taken[1].text().contains("could not be fetched")
            && taken[1].text().contains("but the words are here")
    );
    assert!(!taken[1].text().contains("secret-token"));
    let pauses: Vec<u128> = bench
        .clock
        .slept()
        .iter()
        .map(std::time::Duration::as_millis)
        .filter(|ms| [1500, 3000].contains(ms))
        .collect();
    assert_eq!(pauses, [1500, 3000, 1500, 3000]);
}

#[tokio::test]
async fn groups_hear_everything_unless_told_otherwise() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.group(GROUP, "Team");
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    let alice = bench.telegram.person(ALICE, "Alice");
    let bot = bench.telegram.other_bot(99, "Other");
    alice.says(GROUP, "to nobody");
    alice.says(GROUP, "/new@other_bot");
    bot.says(GROUP, "beep");
    bench.telegram.person(42, "Hermes").says(GROUP, "my own words");
    alice.says(GROUP, "/new");
    let taken = bench.bot.inbox.until_taken(2).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["to nobody", "/new"]);
    assert_eq!((taken[0].place.kind, taken[0].place.chat_name.as_deref()), (ChatKind::Group, Some("Team")));
}

#[tokio::test]
async fn groups_that_require_a_mention() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    let free = GROUP - 1;
    telegram.group(GROUP, "Team");
    telegram.group(free, "Free");
    let variables = [
        ("TELEGRAM_REQUIRE_MENTION", "true"),
        ("TELEGRAM_MENTION_PATTERNS", r"^hey hermes\b"),
        ("TELEGRAM_FREE_RESPONSE_CHATS", "-100501"),
        ("TELEGRAM_ALLOW_BOTS", "mentions"),
    ];
    let bench = TelegramFixture::with(telegram, &variables, json!({}), &MemoryHost::new(), &Arc::default());
    let telegram = &bench.telegram;
    let (alice, other) = (telegram.person(ALICE, "Alice"), telegram.other_bot(99, "Other"));
    bench
        .bot
        .channel
        .send(&super::saying(&hermes_types::ChatAddress::new(ChatKind::Group, GROUP.to_string()), "mine"))
        .await
        .unwrap();
    let mine = telegram.messages(GROUP)[0].id;
    let foreign = alice.says(GROUP, "not for you");
    alice.replies(GROUP, foreign, "nor this");
    alice.says(GROUP, "@someone_else neither");
    alice.says(GROUP, "/unknown command");
    other.says(GROUP, "a bot without a mention");
    alice.says(GROUP, "well, @Hermes_Bot what is it");
    alice.replies(GROUP, mine, "an answer to you");
    alice.says(GROUP, "Hey Hermes look");
    alice.says(free, "anything");
    alice.says(GROUP, "/status");
    other.says(GROUP, "@hermes_bot beep");
    alice.says(ALICE, "direct");
    alice.sends_photo(GROUP, JPEG, Some("@hermes_bot see"));
    bench.bot.inbox.until_taken(8).await;
    telegram.until_confirmed().await;
    assert_eq!(
        bench.bot.inbox.texts(),
        [
            "well,  what is it",
            "an answer to you",
            "Hey Hermes look",
            "anything",
            "/status",
            "beep",
            "direct",
            "see"
        ]
    );
}

#[tokio::test]
async fn an_album_is_mentioned_once() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    telegram.group(GROUP, "Team");
    let bench = TelegramFixture::with(
        telegram,
        &[("TELEGRAM_REQUIRE_MENTION", "true")],
        json!({}),
        &MemoryHost::new(),
        &Arc::default(),
    );
    let alice = bench.telegram.person(ALICE, "Alice");
    let mention = json!([{"type": "mention", "offset": 0, "length": 11}]);
    for (album, caption) in [("1", None), ("2", Some("@hermes_bot look")), ("2", None), ("2", None)] {
        let photo = bench.telegram.file("photos/x.jpg", JPEG);
        let entities = caption.map(|_| mention.clone());
        alice.sends(
            GROUP,
            json!({"photo": [photo], "media_group_id": album, "caption": caption, "caption_entities": entities}),
        );
    }
    let taken = bench.bot.inbox.until_taken(3).await;
    bench.telegram.until_confirmed().await;
    assert_eq!((taken.len(), taken[0].text().as_str()), (3, "look"));
}

#[tokio::test]
async fn only_some_chats_and_topics() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    let elsewhere = GROUP - 1;
    telegram.group(GROUP, "Team");
    telegram.group(elsewhere, "Elsewhere");
    let (good, noisy) = (telegram.topic(GROUP, "Good"), telegram.topic(GROUP, "Noisy"));
    let ignored = format!("{GROUP}:{noisy}");
    let chats = GROUP.to_string();
    let variables =
        [("TELEGRAM_ALLOWED_CHATS", chats.as_str()), ("TELEGRAM_IGNORED_THREADS", ignored.as_str())];
    let bench = TelegramFixture::with(telegram, &variables, json!({}), &MemoryHost::new(), &Arc::default());
    let alice = bench.telegram.person(ALICE, "Alice");
    alice.says(elsewhere, "no");
    alice.says_in(GROUP, noisy, "no");
    alice.says_in(GROUP, good, "yes");
    alice.says(GROUP, "general");
    let taken = bench.bot.inbox.until_taken(2).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["yes", "general"]);
    assert_eq!(taken[0].place.thread_id, Some(good.to_string()));
    bench.bot.stop().await;
    let topics = good.to_string();
    let bench = TelegramFixture::with(
        bench.telegram,
        &[("TELEGRAM_ALLOWED_TOPICS", topics.as_str())],
        json!({}),
        &MemoryHost::new(),
        &Arc::default(),
    );
    let alice = bench.telegram.person(ALICE, "Alice");
    alice.says(GROUP, "general");
    alice.says_in(GROUP, good, "topic");
    alice.says(ALICE, "direct");
    bench.bot.inbox.until_taken(2).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["topic", "direct"]);
}

#[tokio::test]
async fn channels_write_in_their_own_name() {
    let telegram = FakeTelegram::start(TOKEN).unwrap();
    let chat = json!({"id": -1009, "type": "channel", "title": "News"});
    telegram.announces(
        "channel_post",
        json!({"message_id": 5, "chat": chat, "sender_chat": chat, "date": 1, "text": "post"}),
    );
    let bench = TelegramFixture::with(telegram, &[], json!({}), &MemoryHost::new(), &Arc::default());
    let taken = bench.bot.inbox.until_taken(1).await;
    assert_eq!((taken[0].place.kind, taken[0].sender.user_id.as_deref()), (ChatKind::Channel, Some("-1009")));
}

#[tokio::test]
async fn topics_of_direct_chats_are_made_and_remembered() {
    let host = MemoryHost::new();
    let listed = json!([{"chat_id": ALICE, "topics": [
        {"name": "Work", "icon_color": 7_322_096, "skill": "jira"},
        {"name": "Old", "thread_id": 55, "skill": "old-skill"}
    ]}]);
    host.set_setting("telegram", "dm_topics", listed);
    let bench =
        TelegramFixture::with(FakeTelegram::start(TOKEN).unwrap(), &[], json!({}), &host, &Arc::default());
    bench.telegram.until_called("createForumTopic", 1).await;
    let alice = bench.telegram.person(ALICE, "Alice");
    let number = loop {
        let saved = host.setting("telegram", "dm_topics").unwrap();
        if let Some(number) = saved.pointer("/0/topics/0/thread_id").and_then(serde_json::Value::as_i64) {
            assert_eq!(saved.pointer("/0/topics/0/skill"), Some(&json!("jira")), "the rest stays");
            break number;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(bench.telegram.topics(ALICE), ["Work"]);
    alice.says_in(ALICE, number, "in a topic");
    alice.says_in(ALICE, 55, "in the old one");
    let created =
        json!({"message_thread_id": 77, "is_topic_message": true, "forum_topic_created": {"name": "Fresh"}});
    alice.sends(ALICE, created);
    alice.says_in(ALICE, 77, "in one somebody made");
    let taken = bench.bot.inbox.until_taken(3).await;
    let seen: Vec<_> =
        taken.iter().map(|envelope| (envelope.place.topic.as_deref(), envelope.skill.as_deref())).collect();
    assert_eq!(seen, [(Some("Work"), Some("jira")), (Some("Old"), Some("old-skill")), (Some("Fresh"), None)]);
    assert_eq!(bench.telegram.calls("createForumTopic").len(), 1);
}
