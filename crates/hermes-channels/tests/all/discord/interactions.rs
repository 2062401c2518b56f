//! Commands from the menu, and buttons.

use std::sync::Arc;

use hermes_testkit::discord::{DiscordFault, FakeInteractionResponse, FakeUserMessage};
use hermes_types::{ChatKind, QuickReply};
use serde_json::json;

use super::super::support::{MemoryHost, reply};
use super::DiscordFixture;

#[tokio::test]
async fn the_menu_is_registered() {
    let stage = DiscordFixture::new();
    let _running = stage.up(&[]).await;
    stage.discord.until_call("PUT", "/commands", 1).await;
    let commands = stage.discord.commands();
    let names: Vec<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["new", "stop", "help", "status", "title", "model", "thread"]);
    assert_eq!(commands[4]["options"][0]["name"], "name");
}

#[tokio::test]
async fn a_command_becomes_words_and_its_sign_goes_away() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let used = stage.discord.uses_command(stage.ann, stage.channel, "title", &[("name", json!("My day"))]);
    let taken = running.inbox.until_taken(1).await;
    assert_eq!(taken[0].text(), "/title My day");
    assert_eq!(taken[0].platform_key, format!("interaction:{used}"));
    assert_eq!((taken[0].place.kind, taken[0].message_id.clone()), (ChatKind::Group, None));
    assert_eq!(taken[0].sender.user_id, Some(stage.ann.to_string()));
    assert_eq!(stage.discord.until_acknowledged(used).await, 5);
    stage.discord.until_response(used, |response| *response == FakeInteractionResponse::Deleted).await;
    stage.discord.uses_command(stage.ann, stage.dm, "status", &[]);
    assert_eq!(running.inbox.until_taken(2).await[1].place.kind, ChatKind::Dm);
}

#[tokio::test]
async fn discord_hears_at_once_even_while_the_channel_is_held_up() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    running.inbox.set_paused(true);
    stage.discord.writes(stage.ann, stage.dm, FakeUserMessage::new("first").file("a.png", "image/png", b"p"));
    let used = stage.discord.uses_command(stage.ann, stage.dm, "stop", &[]);
    assert_eq!(stage.discord.until_acknowledged(used).await, 5);
    assert_eq!(
        stage.discord.response(used),
        FakeInteractionResponse::Thinking,
        "nothing is promised before it is committed"
    );
    running.inbox.set_paused(false);
    running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["first", "/stop"], "in the order of the channel");
}

#[tokio::test]
async fn a_press_says_what_the_button_stands_for() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let choice = |label: &str, says: &str| QuickReply { label: label.into(), text: says.into() };
    let mut question =
        reply("discord", &hermes_types::ChatAddress::new(ChatKind::Dm, stage.dm.to_string()), "may I?");
    question.choices = vec![choice("Allow once", "/approve"), choice("Deny", "/deny")];
    running.channel.send(&question).await.unwrap();
    let asked = stage.discord.until_said(stage.dm, "may I?").await;
    assert_eq!(asked.buttons(), ["Allow once", "Deny"]);
    let pressed = stage.discord.presses(stage.ann, &asked, "Allow once");
    let taken = running.inbox.until_taken(1).await;
    assert_eq!((taken[0].text(), taken[0].sender.handle.as_deref()), ("/approve".into(), Some("ann")));
    assert_eq!(taken[0].platform_key, format!("interaction:{pressed}"));
    assert_eq!(stage.discord.until_acknowledged(pressed).await, 6);
    assert_eq!(stage.discord.messages(stage.dm)[0].buttons().len(), 2, "they stay until something is said");
    let answer = reply("discord", &taken[0].place, "✅ Command approved.");
    // The queue records the press only after the commit, so this message may be too early; the next one is not.
    running.channel.send(&answer).await.unwrap();
    stage.discord.says(stage.ann, stage.dm, "thanks");
    running.inbox.until_taken(2).await;
    running.channel.send(&reply("discord", &taken[0].place, "welcome")).await.unwrap();
    stage.discord.until_message(stage.dm, asked.id, |message| message.buttons().is_empty()).await;
}

#[tokio::test]
async fn a_thread_from_the_menu_with_its_first_words() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let options =
        [("name", json!("plans")), ("message", json!("let us begin")), ("auto_archive_duration", json!(60))];
    let used = stage.discord.uses_command(stage.ann, stage.channel, "thread", &options);
    let taken = running.inbox.until_taken(1).await;
    let threads = stage.discord.threads(stage.channel);
    assert_eq!(threads.len(), 1);
    assert_eq!(
        (taken[0].text(), taken[0].place.chat_id.clone()),
        ("let us begin".into(), threads[0].to_string())
    );
    assert_eq!(taken[0].place.chat_name.as_deref(), Some("Home / #general / plans"));
    let said = stage
        .discord
        .until_response(used, |response| matches!(response, FakeInteractionResponse::Text(_)))
        .await;
    assert_eq!(said, FakeInteractionResponse::Text(format!("Opened <#{}>.", threads[0])));
    stage.discord.says(stage.ann, threads[0], "and on, without a mention");
    running.inbox.until_taken(2).await;
}

#[tokio::test]
async fn a_thread_from_the_menu_where_a_message_is_needed_and_where_there_are_none() {
    let stage = DiscordFixture::new();
    let running = stage.up(&[]).await;
    let refuse = DiscordFault::Refuse { status: 400, code: 50024, message: "no".into() };
    stage.discord.fault("POST", &format!("/channels/{}/threads", stage.channel), refuse);
    let used = stage.discord.uses_command(stage.ann, stage.channel, "thread", &[("name", json!("plans"))]);
    stage.discord.until_response(used, |response| matches!(response, FakeInteractionResponse::Text(_))).await;
    let seed = stage.discord.said(stage.channel).remove(0);
    assert_eq!(seed.content, "🧵 plans");
    assert_eq!(stage.discord.threads(stage.channel), [seed.id]);
    let used = stage.discord.uses_command(stage.ann, stage.dm, "thread", &[("name", json!("plans"))]);
    let said = stage
        .discord
        .until_response(used, |response| matches!(response, FakeInteractionResponse::Text(_)))
        .await;
    assert_eq!(said, FakeInteractionResponse::Text("Threads exist only in servers.".into()));
    assert_eq!(running.inbox.texts(), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_that_was_not_committed_is_there_after_a_crash() {
    let stage = DiscordFixture::new();
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let running = stage.start(&[], &host, &inbox);
    super::until_up(&running, 1).await;
    inbox.set_paused(true);
    let used = stage.discord.uses_command(stage.ann, stage.dm, "stop", &[]);
    stage.discord.until_acknowledged(used).await;
    running.kill().await;
    inbox.set_paused(false);
    let running = stage.start(&[], &host, &inbox);
    assert_eq!(running.inbox.until_taken(1).await[0].text(), "/stop");
}
