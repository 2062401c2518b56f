//! Incoming messages, and which of them are meant for the bot.

use std::sync::Arc;

use hermes_testkit::discord::{DiscordFault, FakeDiscordId, FakeUserMessage};
use hermes_types::{AttachmentKind, ChatKind, Envelope};
use serde_json::json;

use super::super::support::MemoryHost;
use super::DiscordFixture;

fn summary(envelope: &Envelope) -> (String, ChatKind, String) {
    (envelope.text(), envelope.place.kind, envelope.place.chat_id.clone())
}

#[tokio::test]
async fn a_direct_message() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let first = stage.discord.says(stage.ann, stage.dm, "hello");
    stage.discord.writes(stage.ann, stage.dm, FakeUserMessage::new("and this?").answering(first));
    let taken = running.inbox.until_taken(2).await;
    let [hello, and] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!(summary(hello), ("hello".into(), ChatKind::Dm, stage.dm.to_string()));
    assert_eq!(hello.platform_key, first.to_string());
    assert_eq!(hello.message_id.as_deref(), Some(first.to_string().as_str()));
    assert_eq!(hello.sender.user_id.as_deref(), Some(stage.ann.to_string().as_str()));
    assert_eq!(hello.sender.user_name.as_deref(), Some("Ann Droid"));
    assert_eq!(hello.sender.handle.as_deref(), Some("ann"));
    assert_eq!(hello.place.chat_name.as_deref(), Some("Ann Droid"));
    assert!(stage.clock.now().since(hello.received_at).as_secs() < 60, "its id says when it was written");
    assert_eq!(and.reply_to, hello.message_id);
    assert_eq!(and.reply_to_text.as_deref(), Some("hello"));
}

#[tokio::test]
async fn a_mention_gets_a_thread_and_the_thread_needs_no_mention() {
    let stage = DiscordFixture::new();
    stage.discord.set_topic(stage.channel, "all sorts");
    let running = stage.up(&[]).await;
    stage.discord.says(stage.ann, stage.channel, "nothing for you");
    let bob = stage.discord.person("bob", None);
    let id =
        stage.discord.says(stage.ann, stage.channel, &stage.mention(&format!("what does <@{bob}> say?")));
    running.inbox.until_taken(1).await;
    stage.discord.says(stage.ann, id, "go on");
    stage.discord.says(stage.ann, stage.channel, "still nothing for you");
    stage.discord.says(stage.ann, stage.dm, "end");
    let taken = running.inbox.until_taken(3).await;
    let thread = id.to_string();
    assert_eq!(summary(&taken[0]), ("what does @bob say?".into(), ChatKind::Thread, thread.clone()));
    assert_eq!(taken[0].place.thread_id.as_deref(), Some(thread.as_str()));
    assert_eq!(taken[0].place.chat_name.as_deref(), Some("Home / #general / what does @bob say?"));
    assert_eq!(taken[0].place.topic.as_deref(), Some("all sorts"));
    assert_eq!(stage.discord.until_thread(id).await, "what does @bob say?");
    assert!(running.inbox.texts().contains(&"go on".to_owned()));
    assert_eq!(running.host.document("discord_threads.json"), Some(json!([thread])));
}

#[tokio::test]
async fn a_thread_is_opened_once_even_if_the_message_comes_again_after_a_crash() {
    let stage = DiscordFixture::new();
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let running = stage.start(&[], &host, &inbox);
    super::until_up(&running, 1).await;
    inbox.set_paused(true);
    let id = stage.discord.says(stage.ann, stage.channel, &stage.mention("hello"));
    stage.discord.until_thread(id).await;
    running.kill().await;
    inbox.set_paused(false);
    let running = stage.start(&[], &host, &inbox);
    let taken = running.inbox.until_taken(1).await;
    assert_eq!(summary(&taken[0]), ("hello".into(), ChatKind::Thread, id.to_string()));
    assert_eq!(stage.discord.threads(stage.channel), [id]);
    assert_eq!(stage.discord.sessions(), (1, 1), "it went on with the same session");
}

#[tokio::test]
async fn without_a_thread_the_conversation_stays_in_the_channel() {
    let stage = DiscordFixture::new();
    let plain = stage.discord.channel(stage.guild, "plain");
    let running = stage.up(&[("DISCORD_NO_THREAD_CHANNELS", &plain.to_string())]).await;
    let refuse = DiscordFault::Refuse { status: 403, code: 50013, message: "Missing Permissions".into() };
    stage.discord.fault("POST", "/threads", refuse);
    stage.discord.says(stage.ann, stage.channel, &stage.mention("here"));
    stage.discord.says(stage.ann, plain, &stage.mention("there"));
    let mut seen: Vec<_> = running.inbox.until_taken(2).await.iter().map(summary).collect();
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(seen[0], ("here".into(), ChatKind::Group, stage.channel.to_string()));
    assert_eq!(seen[1], ("there".into(), ChatKind::Group, plain.to_string()));
    assert_eq!(stage.discord.threads(plain), Vec::<FakeDiscordId>::new());
}

#[tokio::test]
async fn free_channels_forums_and_other_bots() {
    let stage = DiscordFixture::new();
    let free = stage.discord.channel(stage.guild, "free");
    let forum = stage.discord.forum(stage.guild, "help");
    let post = stage.discord.thread(forum, "my printer");
    let robot = stage.discord.other_bot("robot");
    let running = stage
        .up(&[
            ("DISCORD_FREE_RESPONSE_CHANNELS", &free.to_string()),
            ("DISCORD_AUTO_THREAD", "false"),
            ("DISCORD_ALLOW_BOTS", "mentions"),
        ])
        .await;
    stage.discord.says(robot, free, "I am a bot");
    stage.discord.writes(stage.ann, free, FakeUserMessage::new("joined").kind(7));
    stage.discord.says(stage.ann, free, &format!("<@{robot}> not you"));
    stage.discord.says(stage.ann, free, "free");
    stage.discord.says(robot, free, &stage.mention("I may ask"));
    stage.discord.says(stage.ann, post, &stage.mention("jammed"));
    let taken = running.inbox.until_taken(3).await;
    let jammed = taken.iter().find(|envelope| envelope.text() == "jammed").unwrap();
    assert_eq!(jammed.place.chat_name.as_deref(), Some("Home / help / my printer"));
    assert_eq!(jammed.place.kind, ChatKind::Thread);
    let in_free: Vec<String> = taken
        .iter()
        .filter(|envelope| envelope.place.chat_id == free.to_string())
        .map(Envelope::text)
        .collect();
    assert_eq!(in_free, ["free", "I may ask"]);
}

#[tokio::test]
async fn files_are_fetched_and_what_cannot_be_is_named() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let words = FakeUserMessage::new("look")
        .file("a.png", "image/png", b"picture")
        .file("song.mp3", "audio/mpeg", b"song")
        .file("notes.txt", "text/plain", b"notes")
        .file("run.exe", "application/x-msdownload", b"MZ");
    stage.discord.writes(stage.ann, stage.dm, words);
    stage.discord.writes(
        stage.ann,
        stage.dm,
        FakeUserMessage::new("").file("v.ogg", "audio/ogg", b"voice").voice(),
    );
    stage.discord.writes(stage.ann, stage.dm, FakeUserMessage::new(""));
    let taken = running.inbox.until_taken(3).await;
    let files = |envelope: &Envelope| -> Vec<(AttachmentKind, Vec<u8>)> {
        envelope.files().map(|file| (file.kind, std::fs::read(&file.path).unwrap())).collect()
    };
    let expected = [
        (AttachmentKind::Image, b"picture".to_vec()),
        (AttachmentKind::Audio, b"song".to_vec()),
        (AttachmentKind::Document, b"notes".to_vec()),
    ];
    assert_eq!(files(&taken[0]), expected);
    assert!(taken[0].text().starts_with("look\n\n[The user sent a file (run.exe)"), "{}", taken[0].text());
    assert!(taken[0].text().contains("/cdn/"), "{}", taken[0].text());
    assert_eq!(
        (taken[1].text(), files(&taken[1])),
        (String::new(), vec![(AttachmentKind::Voice, b"voice".to_vec())])
    );
    assert_eq!(taken[2].text(), "(This message has no text content.)");
}

#[tokio::test]
async fn a_message_that_cannot_be_taken_in_is_tried_again_and_keeps_its_place() {
    let stage = DiscordFixture::quick();
    let running = stage.up(&[]).await;
    running.inbox.refuse_next();
    running.inbox.refuse_next();
    for text in ["one", "two", "three"] {
        stage.discord.says(stage.ann, stage.dm, text);
    }
    running.inbox.until_taken(3).await;
    assert_eq!(running.inbox.texts(), ["one", "two", "three"]);
    assert_eq!(running.inbox.duplicates(), 0);
}

#[tokio::test]
async fn allowed_and_ignored_channels() {
    let stage = DiscordFixture::new();
    let other = stage.discord.channel(stage.guild, "other");
    let (allowed, ignored) = (stage.channel.to_string(), other.to_string());
    for variables in
        [[("DISCORD_ALLOWED_CHANNELS", allowed.as_str())], [("DISCORD_IGNORED_CHANNELS", &ignored)]]
    {
        let running = stage.up(&variables).await;
        stage.discord.says(stage.ann, other, &stage.mention("there"));
        stage.discord.says(stage.ann, stage.channel, &stage.mention("here"));
        stage.discord.says(stage.ann, stage.dm, "direct");
        running.inbox.until_taken(2).await;
        running.stop().await.0.texts().iter().for_each(|text| assert_ne!(text, "there", "{variables:?}"));
    }
}
