//! What a process that died leaves behind, and what the next one makes of it.

use hermes_store::{NewMessage, NewToolCall, Opening};
use hermes_types::{HolderId, Message, Outcome, SpendingCap, Timestamp, ToolCall, Turn, TurnId, TurnState};

use super::support::{Bench, Scripted, Watcher, said, texts};

/// A turn with three calls: one ended, one began, one did not begin. Then the process died.
async fn cut_off(bench: &Bench) -> TurnId {
    let calls: Vec<ToolCall> =
        ["one", "two", "three"].iter().map(|id| ToolCall::new(Some(id), "work", "{}")).collect();
    let turn = Turn {
        id: TurnId::generate(),
        session: "s".into(),
        inbox: None,
        state: TurnState::Running,
        started_at: Timestamp(1.0),
        deadline_at: None,
        cap: SpendingCap::default(),
        cut_offs: 0,
        prefix_hash: None,
    };
    let store = &bench.agent.store;
    let session = hermes_store::NewSession::new("s".into(), "cli", Timestamp(1.0));
    let asked = vec![NewMessage::new(Message::user("do it"), Timestamp(1.0))];
    let gone = HolderId::new(format!("{}-gone", i32::MAX));
    let opening = Opening { session, messages: asked, turn: turn.clone(), answers: Vec::new() };
    let span = std::time::Duration::from_mins(5);
    store.begin_turn(opening, &gone, span).await.unwrap();
    store.take_lease("s", &gone, bench.agent.clock.now(), span).await.unwrap();
    let message = Message::assistant("").with_calls(calls.clone());
    store.append(&"s".into(), NewMessage::new(message, Timestamp(2.0))).await.unwrap();
    for call in &calls[..2] {
        let record =
            NewToolCall { id: call.id.clone(), name: "work".into(), arguments: "{}".into(), verdict: None };
        store.begin_call(&turn.id, record, Timestamp(3.0)).await.unwrap();
    }
    store
        .finish_call(hermes_store::FinishedCall {
            turn: turn.id.clone(),
            call: calls[0].id.clone(),
            status: hermes_types::OutcomeStatus::Done,
            handle: None,
            session: "s".into(),
            message: NewMessage::new(Message::tool(&calls[0], "result of one"), Timestamp(4.0)),
        })
        .await
        .unwrap();
    turn.id
}

#[tokio::test]
async fn a_cut_off_turn_is_found_brought_to_order_and_resumed() {
    let bench = Bench::new([said("finished now")]).tool(Scripted::new("work", |_| Outcome::done("again")));
    cut_off(&bench).await;
    let mut taken = bench.agent.take_up(&"s".into()).await.unwrap();
    let cut_off = taken.cut_off.take().unwrap();
    assert_eq!((cut_off.parked, cut_off.unknown.as_slice()), (false, &["work".to_owned()][..]));
    let watcher = Watcher::default();
    let result =
        bench.agent.resume_turn(&mut taken.conversation, &cut_off, &watcher, &watcher.cancel).await.unwrap();
    assert_eq!(result.response.as_deref(), Some("finished now"));
    let sent = texts(&bench.asked(0).messages);
    assert_eq!(sent[2], "tool: result of one");
    assert!(sent[3].starts_with("tool: [Outcome unknown: Hermes was cut off while work ran."), "{sent:?}");
    assert!(sent[4].starts_with("tool: [Not started: "), "{sent:?}");
    assert!(bench.agent.store.running_turns().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_subagents_had_come_to_is_told_with_the_call_that_started_them() {
    let bench = Bench::new([]);
    cut_off(&bench).await;
    let store = &bench.agent.store;
    let holder = HolderId::new(format!("{}-gone", i32::MAX));
    for (at, id, answer) in
        [(2.5, "earlier", Some("of an earlier call")), (3.5, "a", Some("alpha is done")), (3.6, "b", None)]
    {
        let started = Timestamp(at);
        let mut session = hermes_store::NewSession::new(id.into(), "tool", started);
        session.parent = Some("s".into());
        session.model_config = Some(r#"{"_delegate_from": "s"}"#.to_owned());
        let turn = Turn {
            id: TurnId::generate(),
            session: id.into(),
            inbox: None,
            state: TurnState::Running,
            started_at: started,
            deadline_at: None,
            cap: SpendingCap::default(),
            cut_offs: 0,
            prefix_hash: None,
        };
        let messages = vec![NewMessage::new(Message::user(format!("part {id}")), started)];
        let opening = Opening { session, messages, turn: turn.clone(), answers: Vec::new() };
        store.begin_turn(opening, &holder, std::time::Duration::from_mins(5)).await.unwrap();
        if let Some(answer) = answer {
            store.append(&id.into(), NewMessage::new(Message::assistant(answer), started)).await.unwrap();
            store.close_turn(&turn.id, TurnState::Done, None, started).await.unwrap();
        }
    }
    let taken = bench.agent.take_up(&"s".into()).await.unwrap();
    let told = texts(taken.conversation.messages());
    let told = told.iter().find(|text| text.contains("Outcome unknown")).unwrap();
    assert!(told.contains("\"part a\" had finished (session a). It said:\nalpha is done"), "{told}");
    assert!(told.contains("\"part b\" was cut off before it finished (session b)"), "{told}");
    assert!(!told.contains("earlier call"), "{told}");
}

#[tokio::test]
async fn the_second_cut_off_in_a_row_parks_the_turn() {
    let bench = Bench::new([]);
    let turn = cut_off(&bench).await;
    let first = bench.agent.take_up(&"s".into()).await.unwrap().cut_off.unwrap();
    assert!(!first.parked);
    let second = bench.agent.take_up(&"s".into()).await.unwrap().cut_off.unwrap();
    assert!(second.parked);
    assert_eq!(bench.agent.store.turn(&turn).await.unwrap().unwrap().state, TurnState::Parked);
    assert!(bench.agent.take_up(&"s".into()).await.unwrap().cut_off.is_none(), "and nothing more is tried");
}

#[tokio::test]
async fn a_conversation_somebody_else_works_in_is_left_alone() {
    let bench = Bench::new([said("never")]);
    let other = HolderId::generate();
    let now = bench.agent.clock.now();
    bench.agent.store.take_lease("s", &other, now, std::time::Duration::from_mins(5)).await.unwrap();
    let mut conversation = bench.conversation();
    let watcher = Watcher::default();
    let words = hermes_agent::Said::text("hello");
    let refused = bench.agent.run(&mut conversation, words, &watcher, &watcher.cancel).await.unwrap_err();
    assert!(refused.to_string().starts_with("another Hermes (process "), "{refused}");
    assert_eq!(bench.calls(), 0);
}

#[tokio::test]
async fn taking_back_the_last_exchange_spares_what_was_left_out_on_loading() {
    let bench = Bench::new([said("one"), said("two")]);
    let mut conversation = bench.conversation();
    bench.say(&mut conversation, "first").await;
    // Another release left a review in the transcript; it is not taken up, but its rows are there.
    for message in
        [Message::user("[System: Review the conversation above. …]"), Message::assistant("Nothing to save.")]
    {
        bench.agent.store.append(&"s".into(), NewMessage::new(message, Timestamp(5.0))).await.unwrap();
    }
    let mut again = bench.agent.take_up(&"s".into()).await.unwrap().conversation;
    assert_eq!(texts(again.messages()), ["user: first", "assistant: one"]);
    bench.say(&mut again, "second").await;
    let taken = bench.agent.undo(&mut again).await.unwrap();
    assert_eq!(taken.as_deref(), Some("second"));
    let stored = bench.stored().await;
    let kept: Vec<&str> = stored.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(kept[..2], ["first", "one"]);
    assert_eq!(kept.len(), 4, "only the last exchange went: {kept:?}");
}
