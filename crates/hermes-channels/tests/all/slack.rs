//! The Slack channel against an emulated Slack.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::TestWebsite;
use hermes_testkit::slack::{APP_TOKEN, BOT_TOKEN, FakeSlack, SlackFault, SlackSocketAction};
use hermes_types::{
    Attachment, AttachmentKind, ChannelError, ChatKind, ChatPart, Clock, ConnectionStatus, DeliveryCertainty,
    MessageStatus, QuickReply,
};
use serde_json::{Value, json};

use super::support::{
    ListeningChannel, MemoryHost, PNG, RecordingIntake, listen, open, options, picture, place, reply,
};

const TOKENS: [(&str, &str); 2] = [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", APP_TOKEN)];

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn workspace() -> FakeSlack {
    let slack = FakeSlack::start().unwrap();
    slack.person("U1", "Ann");
    slack.person("U2", "Bob");
    slack.channel("C1", "general");
    slack.direct("D1");
    slack
}

fn extra(slack: &FakeSlack) -> Value {
    json!({"base_url": slack.base_url()})
}

fn start(slack: &FakeSlack) -> ListeningChannel {
    start_with(slack, &[], &MemoryHost::new(), &Arc::default())
}

fn start_with(
    slack: &FakeSlack,
    variables: &[(&str, &str)],
    host: &Arc<MemoryHost>,
    inbox: &Arc<RecordingIntake>,
) -> ListeningChannel {
    let all: Vec<(&str, &str)> = TOKENS.into_iter().chain(variables.iter().copied()).collect();
    listen("slack", &options(&all, extra(slack)), host, inbox, &clock())
}

#[tokio::test]
async fn direct_messages_and_mentions_come_in_and_are_acknowledged() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(2).await;
    let first = slack.says("U1", "D1", "hello");
    slack.says("U2", "C1", "not for you");
    let second = slack.says("U2", "C1", "<@UBOT> what is <https://x.y|this>?");
    // With two connections, a later message could otherwise overtake the mention.
    running.inbox.until_taken(2).await;
    let third = slack.says_in_thread("U1", "C1", &second, "and I?");
    let taken = running.inbox.until_taken(3).await;
    // A mention causes two events, each of the others one.
    slack.until_acknowledged(5).await;
    let seen: Vec<_> = taken
        .iter()
        .map(|envelope| {
            let sender = envelope.sender.user_name.clone().unwrap_or_default();
            (
                envelope.text(),
                sender,
                envelope.place.kind,
                envelope.place.thread_id.clone(),
                envelope.message_id.clone(),
            )
        })
        .collect();
    let expected = |text: &str, who: &str, kind, thread: Option<&String>, id: &String| {
        (text.to_owned(), who.to_owned(), kind, thread.cloned(), Some(id.clone()))
    };
    assert!(seen.contains(&expected("hello", "Ann", ChatKind::Dm, None, &first)), "{seen:?}");
    let question = expected("what is this (https://x.y)?", "Bob", ChatKind::Group, Some(&second), &second);
    assert!(seen.contains(&question), "{seen:?}");
    assert!(seen.contains(&expected("and I?", "Ann", ChatKind::Group, Some(&second), &third)), "{seen:?}");
    assert_eq!(slack.late(), 0);
    assert_eq!(
        taken
            .iter()
            .find(|envelope| envelope.place.kind == ChatKind::Group)
            .unwrap()
            .place
            .chat_name
            .as_deref(),
        Some("#general")
    );
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_taken() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(2).await;
    running.inbox.set_paused(true);
    slack.says("U1", "D1", "wait for me");
    // The message has arrived and waits at the intake.
    slack.until_call("users.info", 1).await;
    assert_eq!(slack.acknowledged(), 0);
    running.inbox.set_paused(false);
    slack.until_acknowledged(1).await;
    assert_eq!(running.inbox.texts(), ["wait for me"]);
}

#[tokio::test]
async fn what_the_intake_refuses_is_handed_in_again() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(1).await;
    running.inbox.refuse_next();
    slack.says("U1", "D1", "once more");
    slack.until_acknowledged(1).await;
    assert_eq!(running.inbox.texts(), ["once more"]);
}

#[tokio::test]
async fn a_second_delivery_and_the_bots_own_words_are_recognised() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(2).await;
    slack.says("U1", "D1", "hello");
    running.inbox.until_taken(1).await;
    slack.repeat_last();
    running.inbox.until_duplicates(1).await;
    running.channel.send(&reply("slack", &place(ChatKind::Dm, "D1", None), "hi")).await.unwrap();
    // The event of the bot's own message is acknowledged, and is not submitted.
    slack.until_acknowledged(3).await;
    assert_eq!(running.inbox.texts(), ["hello"]);
}

#[tokio::test]
async fn a_killed_program_gets_what_it_had_not_acknowledged() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(2).await;
    running.inbox.set_paused(true);
    slack.says("U1", "D1", "do not lose me");
    slack.until_call("users.info", 1).await;
    let (inbox, host) = running.kill().await;
    inbox.set_paused(false);
    let again = start_with(&slack, &[], &host, &inbox);
    again.inbox.until_taken(1).await;
    slack.until_acknowledged(1).await;
    assert_eq!(inbox.texts(), ["do not lose me"]);
}

#[tokio::test]
async fn files_do_not_hold_up_the_acknowledgement_and_survive_a_kill() {
    let slack = workspace();
    let host = MemoryHost::new();
    let inbox: Arc<RecordingIntake> = Arc::default();
    let running = start_with(&slack, &[], &host, &inbox);
    slack.until_connected(2).await;
    inbox.set_paused(true);
    slack.shares("U1", "D1", "look", ("cat.png", "image/png", b"png bytes"));
    slack.says("U1", "D1", "and then this");
    // Both are on disk and acknowledged, although the intake has not accepted them yet.
    slack.until_acknowledged(2).await;
    running.kill().await;
    inbox.set_paused(false);
    let again = start_with(&slack, &[], &host, &inbox);
    let taken = again.inbox.until_taken(2).await;
    assert_eq!(inbox.texts(), ["look", "and then this"], "in the order they were sent");
    let file = taken[0].files().next().unwrap();
    assert_eq!((file.kind, file.name.as_deref()), (AttachmentKind::Image, Some("cat.png")));
    assert_eq!(std::fs::read(&file.path).unwrap(), b"png bytes");
}

#[tokio::test]
async fn documents_are_judged_and_a_missing_file_is_said() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(1).await;
    slack.shares("U1", "D1", "", ("a.exe", "application/x-dosexec", b"MZ"));
    slack.shares("U1", "D1", "", ("notes.txt", "text/plain", b"some notes"));
    let gone = json!({
        "type": "message", "subtype": "file_share", "channel": "D1", "channel_type": "im", "user": "U1", "ts": "9.9",
        "files": [{"name": "gone.txt", "mimetype": "text/plain", "size": 3, "url_private": format!("{}/files/none", slack.base_url())}],
    });
    slack.event(&gone);
    let taken = running.inbox.until_taken(3).await;
    assert!(taken[0].text().contains("a.exe") && taken[0].text().contains(".pdf"), "{}", taken[0].text());
    assert_eq!(taken[1].files().next().unwrap().kind, AttachmentKind::Document);
    assert!(taken[2].text().contains("gone.txt, but it could not be fetched"), "{}", taken[2].text());
}

#[tokio::test]
async fn commands_and_buttons_come_in_as_words() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(1).await;
    slack.uses_command("U1", "C1", "/hermes", "title A name");
    running.inbox.until_taken(1).await;
    slack.uses_command("U1", "C1", "/hermes", "");
    running.inbox.until_taken(2).await;
    slack.uses_command("U1", "C1", "/hermes", "how are you?");
    running.inbox.until_taken(3).await;
    let root = slack.says("U1", "C1", "<@UBOT> delete it all");
    running.inbox.until_taken(4).await;
    let mut question = reply("slack", &place(ChatKind::Group, "C1", Some(&root)), "Allow `rm -rf /`?");
    let says = |label: &str, says: &str| QuickReply { label: label.to_owned(), text: says.to_owned() };
    question.choices = vec![says("Allow once", "/approve"), says("Deny", "/deny")];
    running.channel.send(&question).await.unwrap();
    let shown = slack.until_said("C1", "Allow").await;
    assert_eq!(shown.buttons(), ["Allow once", "Deny"]);
    slack.presses("U1", "C1", &shown, "Deny");
    let taken = running.inbox.until_taken(5).await;
    assert_eq!(running.inbox.texts(), ["/title A name", "/help", "how are you?", "delete it all", "/deny"]);
    assert_eq!(
        taken[4].place.thread_id, taken[3].place.thread_id,
        "the press belongs to the same conversation"
    );
    assert_eq!(taken[4].sender.user_id.as_deref(), Some("U1"));
}

#[tokio::test]
async fn connections_are_renewed_and_lost_ones_made_anew() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(2).await;
    slack.order(&SlackSocketAction::Disconnect("refresh_requested".to_owned()));
    slack.until_opened(4).await;
    slack.says("U1", "D1", "after the renewal");
    running.inbox.until_taken(1).await;
    slack.order(&SlackSocketAction::Drop);
    slack.until_opened(6).await;
    slack.order(&SlackSocketAction::SendText("no json".to_owned()));
    slack.says("U1", "D1", "after the drop");
    running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.connections().first(), Some(&ConnectionStatus::Up));
}

#[tokio::test]
async fn what_cannot_work_ends_the_listening_with_a_reason() {
    let slack = workspace();
    slack.change_token("xoxb-other");
    let ended = start(&slack).ended().await.unwrap_err();
    assert!(matches!(&ended, ChannelError::Reauthorise(why) if why.contains("SLACK_BOT_TOKEN")), "{ended:?}");
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(1).await;
    slack.order(&SlackSocketAction::Disconnect("link_disabled".to_owned()));
    let ended = running.ended().await.unwrap_err();
    assert!(matches!(&ended, ChannelError::Refused(why) if why.contains("Socket Mode")), "{ended:?}");
}

#[tokio::test]
async fn answers_are_written_in_slacks_own_markup() {
    let slack = workspace();
    let channel = open("slack", &options(&TOKENS, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
    let there = place(ChatKind::Dm, "D1", None);
    let receipt =
        channel.send(&reply("slack", &there, "# Title\n**bold** [a](http://b) <x> & `c*d`")).await.unwrap();
    let said = slack.said("D1");
    assert_eq!(said[0].text, "*Title*\n*bold* <http://b|a> &lt;x&gt; &amp; `c*d`");
    assert_eq!(receipt.message_ids, [said[0].ts.clone()]);
    channel.edit(&there, &said[0].ts, "**new**").await.unwrap();
    assert_eq!(slack.said("D1")[0].text, "*new*");
    let refused = channel.edit(&there, "1.1", "x").await.unwrap_err();
    assert_eq!(refused, ChannelError::Refused("chat.update: message_not_found".to_owned()));
}

#[tokio::test]
async fn refusals_and_limits_are_told_apart() {
    let slack = workspace();
    let channel = open("slack", &options(&TOKENS, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
    let hello = |chat: &str| reply("slack", &place(ChatKind::Dm, chat, None), "hello");
    slack.fault("chat.postMessage", SlackFault::Limit(7));
    let limited = channel.send(&hello("D1")).await.unwrap_err();
    assert!(
        matches!(limited, ChannelError::Retry { after: Some(after), .. } if after.as_secs() == 7),
        "{limited:?}"
    );
    assert!(matches!(channel.send(&hello("D9")).await.unwrap_err(), ChannelError::Refused(_)));
    slack.fault("chat.postMessage", SlackFault::Refuse("internal_error".to_owned()));
    assert!(matches!(channel.send(&hello("D1")).await.unwrap_err(), ChannelError::Retry { .. }));
    for fault in [SlackFault::Status(503), SlackFault::Garbage, SlackFault::Cut] {
        slack.fault("chat.postMessage", fault.clone());
        let error = channel.send(&hello("D1")).await.unwrap_err();
        assert!(matches!(error, ChannelError::DeliveryUnknown(_)), "{fault:?}: {error:?}");
    }
    channel.send(&hello("D1")).await.unwrap();
    assert_eq!(slack.said("D1").len(), 1);
}

#[tokio::test]
async fn a_reply_whose_answer_was_lost_is_not_said_twice() {
    let slack = workspace();
    let there = [
        place(ChatKind::Dm, "D1", None),
        place(ChatKind::Group, "C1", Some(&slack.says("U1", "C1", "<@UBOT> hi"))),
    ];
    for place in there {
        let channel = open("slack", &options(&TOKENS, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
        let hello = reply("slack", &place, "hello");
        slack.fault("chat.postMessage", SlackFault::DoAndCut);
        assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::DeliveryUnknown(_)));
        let receipt = channel.send_again(&hello, clock().now()).await.unwrap();
        let said = slack.said(&place.chat_id);
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(receipt.message_ids, [said[0].ts.clone()]);
        // Simulates another process, which knows only that an attempt was made.
        let later = open("slack", &options(&TOKENS, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
        let receipt = later.send_again(&hello, clock().now()).await.unwrap();
        assert_eq!(
            (receipt.message_ids, receipt.certainty),
            (vec![said[0].ts.clone()], DeliveryCertainty::Once)
        );
        assert_eq!(slack.said(&place.chat_id).len(), 1);
        later.send_again(&reply("slack", &place, "another"), clock().now()).await.unwrap();
        assert_eq!(slack.said(&place.chat_id).len(), 2);
    }
}

#[tokio::test]
async fn files_go_out_in_three_steps() {
    let slack = workspace();
    let host = MemoryHost::new();
    let channel = open("slack", &options(&TOKENS, extra(&slack)), &host, &clock()).unwrap();
    let path = host.file("report 1.pdf", b"%PDF");
    let mut with_file = reply("slack", &place(ChatKind::Dm, "D1", None), "");
    let file = Attachment {
        kind: AttachmentKind::Document,
        path,
        name: Some("report 1.pdf".to_owned()),
        mime: None,
    };
    with_file.pieces = vec![ChatPart::File(file)];
    channel.send(&with_file).await.unwrap();
    assert_eq!(slack.said("D1")[0].files, [("report 1.pdf".to_owned(), b"%PDF".to_vec())]);
}

#[tokio::test]
async fn pictures_are_fetched_and_shared_or_named() {
    let slack = workspace();
    let site = TestWebsite::start().unwrap();
    let channel = open("slack", &options(&TOKENS, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
    let showing = |url: &str| {
        let mut reply = reply("slack", &place(ChatKind::Dm, "D1", None), "");
        reply.pieces = vec![picture(url, "a **cat**")];
        reply
    };
    channel.send(&showing(&site.put("/cat", "image/png", PNG))).await.unwrap();
    let said = slack.said("D1").pop().unwrap();
    assert_eq!((said.text.as_str(), said.files), ("a *cat*", vec![("image.png".to_owned(), PNG.to_vec())]));
    let gone = site.url("/gone.png");
    channel.send(&showing(&gone)).await.unwrap();
    let said = slack.said("D1").pop().unwrap();
    assert_eq!((said.text, said.files.len()), (format!("a *cat*\n🖼️ Image: {gone}"), 0));
    let seen = showing(&site.put("/seen.png", "image/png", PNG));
    slack.fault("files.completeUploadExternal", SlackFault::DoAndCut);
    assert!(
        matches!(channel.send(&seen).await, Err(ChannelError::DeliveryUnknown(_))),
        "it may have been shared"
    );
    let receipt = channel.send_again(&seen, clock().now()).await.unwrap();
    assert_eq!(receipt.certainty, DeliveryCertainty::AtLeastOnce, "files carry no key");
}

#[tokio::test]
async fn a_lost_reply_is_found_in_a_long_thread() {
    let slack = workspace();
    let thread = slack.says("U1", "C1", "<@UBOT> hi");
    for number in 0..60 {
        slack.says_in_thread("U1", "C1", &thread, &format!("number {number}"));
    }
    let channel = open("slack", &options(&TOKENS, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
    let hello = reply("slack", &place(ChatKind::Group, "C1", Some(&thread)), "hello");
    slack.fault("chat.postMessage", SlackFault::DoAndCut);
    assert!(channel.send(&hello).await.is_err());
    channel.send_again(&hello, clock().now()).await.unwrap();
    assert_eq!(slack.said("C1").len(), 1);
}

#[tokio::test]
async fn marks_and_signs_of_life() {
    let slack = workspace();
    let channel = open("slack", &options(&TOKENS, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
    let ts = slack.says("U1", "C1", "<@UBOT> hi");
    let there = place(ChatKind::Group, "C1", Some(&ts));
    channel.show_typing(&there).await;
    assert_eq!(slack.statuses(), [("C1".to_owned(), ts.clone())]);
    channel.show_message_status(&there, &ts, MessageStatus::Processing).await;
    assert_eq!(slack.messages("C1")[0].reactions, ["eyes"]);
    channel.show_message_status(&there, &ts, MessageStatus::Answered).await;
    assert_eq!(slack.messages("C1")[0].reactions, ["white_check_mark"]);
    let off: Vec<(&str, &str)> = TOKENS.into_iter().chain([("SLACK_REACTIONS", "false")]).collect();
    let quiet = open("slack", &options(&off, extra(&slack)), &MemoryHost::new(), &clock()).unwrap();
    quiet.show_message_status(&there, &ts, MessageStatus::Failed).await;
    assert_eq!(slack.messages("C1")[0].reactions, ["white_check_mark"]);
}

#[tokio::test]
async fn names_that_cannot_be_had_do_not_hold_a_message_up() {
    let slack = workspace();
    let running = start(&slack);
    slack.until_connected(1).await;
    slack.fault("users.info", SlackFault::WaitBefore("names".to_owned()));
    slack.says("U1", "D1", "hello");
    let taken = running.inbox.until_taken(1).await;
    assert_eq!(taken[0].sender.user_name, None);
    slack.release("names");
}
