//! Tests of sending to a chat by name.

use hermes_types::{ChannelError, MessageSender as _, Role};

use super::support::{GatewayFixturePlan, TestModel};

#[tokio::test]
async fn a_chat_is_written_to_by_id_by_name_and_as_the_home_channel() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.env = &[("FAKE_ALLOW_ALL_USERS", "1"), ("FAKE_HOME_CHANNEL", "chat-home")];
    let bench = plan.start().await;
    bench.channel.write("ann", "hello");
    bench.channel.until_said("ann", "you said: hello").await;
    bench.until_quiet().await;
    let sent = bench.sender.deliver("fake:chat-ann", "dinner is ready", None).await.unwrap();
    assert_eq!((sent.platform.as_str(), sent.chat_id.as_str(), sent.mirrored), ("fake", "chat-ann", true));
    assert_eq!(sent.receipt.message_ids.len(), 1);
    assert_eq!(bench.channel.texts("ann"), ["you said: hello", "dinner is ready"]);
    let session = bench.store.bindings().await.unwrap()[0].session.clone();
    let rows = bench.store.transcript(&session).await.unwrap();
    let last = &rows.last().unwrap().message;
    assert_eq!(
        (last.role, last.content.text().into_owned()),
        (Role::Assistant, "[Delivered from cli] dinner is ready".into())
    );
    // Sent from the conversation of another chat, as the tool does.
    bench.channel.write("bob", "hi");
    bench.channel.until_said("bob", "you said: hi").await;
    bench.until_quiet().await;
    let bound = bench.store.bindings().await.unwrap();
    let other = bound.iter().find(|bound| bound.session != session).unwrap().session.clone();
    bench.sender.deliver("fake:chat-ann", "from bob's chat", Some(&other)).await.unwrap();
    let rows = bench.store.transcript(&session).await.unwrap();
    assert_eq!(rows.last().unwrap().message.content.text(), "[Delivered from fake] from bob's chat");
    let home = bench.sender.deliver("fake", "unasked", None).await.unwrap();
    assert_eq!(home.note.as_deref(), Some("Sent to fake home channel (chat_id: chat-home)"));
    bench.gateway.export_files().await;
    let targets = bench.sender.targets().await;
    assert_eq!(targets, ["fake:chat-ann (ann's name, dm)", "fake:chat-bob (bob's name, dm)"]);
    let named = bench.sender.deliver("fake:#ann's name", "by name", None).await.unwrap();
    assert_eq!(named.chat_id, "chat-ann");
    let long = bench.sender.deliver("fake:chat-ann", &"word ".repeat(900), None).await.unwrap();
    let first = bench.channel.posted().into_iter().find(|posted| posted.text.ends_with("(1/3)")).unwrap();
    assert_eq!(long.receipt.message_ids, [first.id], "a message is known by its first part");
}

#[tokio::test]
async fn what_cannot_be_reached_is_said() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.env = &[("FAKE_ALLOW_ALL_USERS", "1")];
    let bench = plan.start().await;
    for (target, words) in
        [("fake", "no home channel"), ("local", "no place to send to"), ("fake:#nobody", "nobody")]
    {
        let refused = bench.sender.deliver(target, "x", None).await;
        assert!(
            matches!(&refused, Err(ChannelError::Refused(why)) if why.contains(words)),
            "{target}: {refused:?}"
        );
    }
    bench.channel.fail_next(hermes_testkit::SendFault::Refuse);
    assert!(bench.sender.deliver("fake:1", "x", None).await.is_err());
}
