//! Outgoing messages.

use std::sync::Arc;
use std::time::Duration;

use hermes_testkit::discord::{DiscordFault, FakeDiscordId, RateLimitScope};
use hermes_testkit::{TestClock, TestWebsite};
use hermes_types::{
    Attachment, AttachmentKind, Channel, ChannelError, ChatAddress, ChatKind, ChatPart, Clock as _,
    DeliveryCertainty, MessageStatus, OutgoingMessage, QuickReply,
};
use serde_json::json;

use super::super::support::{self, GIF, MemoryHost, PNG, reply};
use super::DiscordFixture;

impl DiscordFixture {
    fn open(&self, variables: &[(&str, &str)]) -> Arc<dyn Channel> {
        support::open("discord", &self.options(variables), &MemoryHost::new(), &self.clock).unwrap()
    }
}

fn reply_in(channel: FakeDiscordId, text: &str) -> OutgoingMessage {
    reply("discord", &place(channel), text)
}

fn place(channel: FakeDiscordId) -> ChatAddress {
    ChatAddress::new(ChatKind::Group, channel.to_string())
}

#[tokio::test]
async fn an_answer_points_at_its_question_and_alerts_no_crowd() {
    let stage = DiscordFixture::new();
    let channel = stage.open(&[]);
    let question = stage.discord.says(stage.ann, stage.channel, "?");
    let mut reply = reply_in(stage.channel, "@everyone **yes**");
    reply.reply_to = Some(question.to_string());
    let receipt = channel.send(&reply).await.unwrap();
    let said = stage.discord.said(stage.channel);
    assert_eq!(
        (said.len(), said[0].reply_to, said[0].content.as_str()),
        (1, Some(question), "@everyone **yes**")
    );
    assert_eq!(said[0].allowed_mentions, json!({"parse": ["users"], "replied_user": true}));
    assert_eq!(
        (receipt.message_ids, receipt.certainty),
        (vec![said[0].id.to_string()], DeliveryCertainty::Once)
    );
    let call = stage.discord.until_call("POST", "/messages", 1).await;
    assert_eq!(call.path, format!("/channels/{}/messages", stage.channel));

    let quiet = stage.open(&[("DISCORD_REPLY_TO_MODE", "off")]);
    quiet.send(&OutgoingMessage { idempotency_key: "other".into(), ..reply }).await.unwrap();
    assert_eq!(stage.discord.said(stage.channel)[1].reply_to, None);
}

#[tokio::test]
async fn a_resend_after_a_lost_answer_is_not_a_second_message() {
    let stage = DiscordFixture::new();
    let channel = stage.open(&[]);
    let reply = reply_in(stage.channel, "once");
    stage.discord.fault("POST", "/messages", DiscordFault::DoAndCut);
    let lost = channel.send(&reply).await;
    assert!(matches!(lost, Err(ChannelError::DeliveryUnknown(_))), "{lost:?}");
    let receipt = channel.send_again(&reply, stage.clock.now()).await.unwrap();
    assert_eq!(receipt.certainty, DeliveryCertainty::Once);
    // Simulates another process, which knows only that an attempt was made.
    let later = stage.open(&[]).send_again(&reply, stage.clock.now()).await.unwrap();
    assert_eq!(later, receipt);
    let said = stage.discord.said(stage.channel);
    assert_eq!(said.len(), 1);
    assert_eq!(receipt.message_ids, [said[0].id.to_string()]);
    channel.send(&reply_in(stage.channel, "once")).await.unwrap();
    assert_eq!(
        stage.discord.said(stage.channel).len(),
        2,
        "the same words with another key are another message"
    );
}

#[tokio::test]
async fn what_discord_has_forgotten_may_be_said_twice_and_is_marked() {
    let clock = TestClock::auto_advance_up_to(Duration::from_secs(6));
    let stage = DiscordFixture::with_clock(Arc::new(clock.clone()));
    let channel = stage.open(&[]);
    let (reply, begun) = (reply_in(stage.channel, "twice"), clock.now());
    stage.discord.fault("POST", "/messages", DiscordFault::DoAndCut);
    assert!(matches!(channel.send(&reply).await, Err(ChannelError::DeliveryUnknown(_))));
    clock.advance(Duration::from_mins(1));
    assert_eq!(channel.send_again(&reply, begun).await.unwrap().certainty, DeliveryCertainty::Once);
    clock.advance(Duration::from_mins(10));
    assert_eq!(channel.send_again(&reply, begun).await.unwrap().certainty, DeliveryCertainty::AtLeastOnce);
    assert_eq!(stage.discord.said(stage.channel).len(), 2);
}

#[tokio::test]
async fn pictures_are_fetched_and_sent_along_once() {
    let stage = DiscordFixture::new();
    let site = TestWebsite::start().unwrap();
    let channel = stage.open(&[]);
    let shown = site.put("/cat.php", "text/plain", GIF) + "?x=.png";
    let mut reply = reply_in(stage.channel, "");
    reply.pieces = vec![support::picture(&shown, "a cat")];
    stage.discord.fault("POST", "/messages", DiscordFault::DoAndCut);
    assert!(matches!(channel.send(&reply).await, Err(ChannelError::DeliveryUnknown(_))));
    channel.send_again(&reply, stage.clock.now()).await.unwrap();
    let said = stage.discord.said(stage.channel);
    assert_eq!((said.len(), said[0].content.as_str()), (1, "a cat"));
    let attachment = &said[0].attachments[0];
    assert_eq!(
        (&attachment["filename"], &attachment["content_type"]),
        (&json!("image.gif"), &json!("image/gif"))
    );

    let gone = site.url("/gone.png");
    let large = site.put("/large.png", "image/png", &[PNG, &vec![0; 11 * 1024 * 1024]].concat());
    for url in [gone, large] {
        let mut reply = reply_in(stage.channel, "");
        reply.pieces = vec![support::picture(&url, "a cat")];
        channel.send(&reply).await.unwrap();
        let said = stage.discord.said(stage.channel).pop().unwrap();
        assert_eq!((said.content, said.attachments.len()), (format!("a cat\n🖼️ Image: {url}"), 0));
    }
}

#[tokio::test]
async fn refusals_and_limits_by_what_can_be_done() {
    let stage = DiscordFixture::new();
    let channel = stage.open(&[]);
    let reply = reply_in(stage.channel, "x");
    let refuse = |status, code| DiscordFault::Refuse { status, code, message: "no".into() };
    for (fault, kind) in [
        (refuse(403, 50013), "refused"),
        (refuse(404, 10003), "refused"),
        (refuse(502, 0), "perhaps done"),
        (DiscordFault::Garbage, "perhaps done"),
        (DiscordFault::Cut, "perhaps done"),
        (DiscordFault::Limit { after: 60.5, scope: RateLimitScope::Route }, "in a minute"),
    ] {
        stage.discord.fault("POST", "/messages", fault.clone());
        let found = match channel.send(&reply).await {
            Err(ChannelError::Refused(_)) => "refused",
            Err(ChannelError::Retry { after: Some(after), .. }) if after.as_secs() == 60 => "in a minute",
            Err(ChannelError::DeliveryUnknown(_)) => "perhaps done",
            other => panic!("{fault:?}: {other:?}"),
        };
        assert_eq!(found, kind, "{fault:?}");
    }
    let again = channel.send(&reply).await;
    assert!(
        matches!(again, Err(ChannelError::Retry { after: Some(_), .. })),
        "the bucket is known to be empty"
    );
    stage.discord.change_token("another");
    let other = reply_in(stage.dm, "x");
    assert!(matches!(channel.send(&other).await, Err(ChannelError::Reauthorise(_))));
    for wrong in ["general", "1/../2"] {
        let reply = support::reply("discord", &ChatAddress::new(ChatKind::Group, wrong), "x");
        let refused = channel.send(&reply).await.unwrap_err().to_string();
        assert!(refused.contains(wrong), "{refused}");
    }
    stage.discord.change_token(hermes_testkit::discord::TOKEN);
    stage.discord.hide(stage.dm);
    assert!(matches!(channel.send(&other).await, Err(ChannelError::Refused(_))));
}

#[tokio::test]
async fn short_limits_are_waited_for_and_buckets_are_kept() {
    let clock = TestClock::auto_advance_up_to(Duration::from_secs(6));
    let stage = DiscordFixture::with_clock(Arc::new(clock.clone()));
    let channel = stage.open(&[]);
    stage.discord.fault(
        "POST",
        "/messages",
        DiscordFault::Limit { after: 1.5, scope: RateLimitScope::Everything },
    );
    channel.send(&reply_in(stage.channel, "after a limit")).await.unwrap();
    assert!(clock.slept().contains(&Duration::from_millis(1500)), "{:?}", clock.slept());
    stage.discord.limit_rate(2, Duration::from_secs(4));
    // The bucket Discord named last expires before the new one is known.
    clock.advance(Duration::from_secs(10));
    for number in 0..7 {
        channel.send(&reply_in(stage.channel, &format!("number {number}"))).await.unwrap();
    }
    assert_eq!(stage.discord.said(stage.channel).len(), 8);
    assert_eq!(stage.discord.overruns(), 0, "no call was made that the headers had ruled out");
}

#[tokio::test]
async fn an_answer_to_a_message_of_discords_own_is_sent_without_pointing_at_it() {
    let stage = DiscordFixture::new();
    let channel = stage.open(&[]);
    let joined = stage.discord.writes(
        stage.ann,
        stage.channel,
        hermes_testkit::discord::FakeUserMessage::new("").kind(7),
    );
    let mut reply = reply_in(stage.channel, "welcome");
    reply.reply_to = Some(joined.to_string());
    channel.send(&reply).await.unwrap();
    let said = stage.discord.said(stage.channel);
    assert_eq!((said.len(), said[0].reply_to), (1, None));
    let gone = OutgoingMessage { reply_to: Some("123".into()), idempotency_key: "k".into(), ..reply };
    channel.send(&gone).await.unwrap();
    assert_eq!(stage.discord.said(stage.channel).len(), 2);
}

#[tokio::test]
async fn long_texts_tables_and_edits() {
    let stage = DiscordFixture::new();
    let channel = stage.open(&[]);
    let receipt = channel.send(&reply_in(stage.channel, &"long ".repeat(900))).await.unwrap();
    assert_eq!(receipt.message_ids.len(), 3);
    let table = "| a | b |\n|---|---|\n| 1 | 2 |";
    channel.send(&reply_in(stage.channel, table)).await.unwrap();
    assert_eq!(stage.discord.said(stage.channel)[3].content, format!("```\n{table}\n```"));

    let at = place(stage.channel);
    let draft = channel.post(&at, "begin").await.unwrap();
    channel.edit(&at, &draft, &"e".repeat(3000)).await.unwrap();
    let edited = stage.discord.said(stage.channel).pop().unwrap();
    assert_eq!((edited.content.len(), edited.content.ends_with("e...")), (2000, true));
    assert!(matches!(channel.edit(&at, "1", "x").await, Err(ChannelError::Refused(_))));
    channel.show_typing(&at).await;
    assert_eq!(stage.discord.typing(), [stage.channel]);
    assert!(matches!(channel.send(&reply_in(stage.channel, " \n ")).await, Err(ChannelError::Refused(_))));
}

/// Builds an Ogg stream of one page that ends after this many seconds.
fn ogg(seconds: u64) -> Vec<u8> {
    let mut page = b"OggS\0\x04".to_vec();
    page.extend((seconds * 48_000).to_le_bytes());
    page.extend([0; 13]);
    page
}

#[tokio::test]
async fn files_and_voice() {
    let stage = DiscordFixture::new();
    let host = MemoryHost::new();
    let channel = support::open("discord", &stage.options(&[]), &host, &stage.clock).unwrap();
    let send = async |kind, name: &str, bytes: &[u8]| {
        let path = host.file(name, bytes);
        let mut reply = reply_in(stage.channel, "");
        reply.pieces = vec![ChatPart::File(Attachment { kind, path, name: None, mime: None })];
        channel.send(&reply).await.unwrap();
        stage.discord.said(stage.channel).pop().unwrap()
    };
    let picture = send(AttachmentKind::Image, "a \"b\".png", b"png").await;
    assert_eq!(picture.attachments[0]["filename"], "a _b_.png");
    assert_eq!(picture.attachments[0]["content_type"], "image/png");
    let voice = send(AttachmentKind::Voice, "v.ogg", &ogg(3)).await;
    assert_eq!((voice.flags, &voice.attachments[0]["duration_secs"]), (8192, &json!(3.0)));
    assert_eq!(voice.attachments[0]["waveform"].as_str().unwrap().len(), 344);
    stage.discord.fault(
        "POST",
        "/messages",
        DiscordFault::Refuse { status: 400, code: 50161, message: "no".into() },
    );
    let plain = send(AttachmentKind::Voice, "w.ogg", &ogg(3)).await;
    assert_eq!((plain.flags, &plain.attachments[0]["filename"]), (0, &json!("w.ogg")));
    let large = send(AttachmentKind::Document, "big.zip", &vec![0; 11 * 1024 * 1024]).await;
    assert_eq!(large.content, "📎 File: big.zip (it is larger than this chat takes)");
}

#[tokio::test]
async fn marks_come_and_go_even_above_a_thread() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let id = stage.discord.says(stage.ann, stage.channel, &stage.mention("hello"));
    let taken = running.inbox.until_taken(1).await;
    let at = &taken[0].place;
    let reactions = || stage.discord.messages(stage.channel)[0].reactions.clone();
    running.channel.show_message_status(at, &id.to_string(), MessageStatus::Processing).await;
    assert_eq!(reactions(), ["👀"]);
    running.channel.show_message_status(at, &id.to_string(), MessageStatus::Answered).await;
    assert_eq!(reactions(), ["✅"]);
    running.channel.show_message_status(at, &id.to_string(), MessageStatus::Failed).await;
    assert_eq!(reactions(), ["✅", "❌"]);
    let quiet = stage.open(&[("DISCORD_REACTIONS", "false")]);
    quiet.show_message_status(&place(stage.channel), &id.to_string(), MessageStatus::Processing).await;
    assert_eq!(reactions(), ["✅", "❌"]);
}

#[tokio::test]
async fn an_answer_in_a_new_thread_does_not_point_at_the_message_above_it() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let id = stage.discord.says(stage.ann, stage.channel, &stage.mention("hello"));
    let taken = running.inbox.until_taken(1).await;
    let mut reply = reply("discord", &taken[0].place, "hi");
    reply.reply_to.clone_from(&taken[0].message_id);
    running.channel.send(&reply).await.unwrap();
    let said = stage.discord.until_said(id, "hi").await;
    assert_eq!(said.reply_to, None);
    let asked = stage.discord.calls().into_iter().rfind(|call| call.path.ends_with("/messages")).unwrap();
    assert_eq!(asked.body.get("message_reference"), None);
}

#[tokio::test]
async fn channels_can_be_listed() {
    let stage = DiscordFixture::new();
    stage.discord.voice_channel(stage.guild, "talk");
    let names: Vec<_> =
        stage.open(&[]).chats().await.into_iter().map(|place| place.chat_name.unwrap()).collect();
    assert_eq!(names, ["Home / #general"]);
}

#[tokio::test]
async fn more_choices_than_a_row_takes() {
    let stage = DiscordFixture::new();
    let mut reply = reply_in(stage.channel, "which?");
    reply.choices =
        (1..=7).map(|n| QuickReply { label: format!("Nr. {n}"), text: "z".repeat(n * 30) }).collect();
    stage.open(&[]).send(&reply).await.unwrap();
    let said = stage.discord.said(stage.channel);
    assert_eq!((said[0].components.len(), said[0].buttons().len()), (2, 7));
}
