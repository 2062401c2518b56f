//! Tests of recovery: what a process that died leaves in the database, and what the next one does with it.

use hermes_agent::{TurnOutcome, TurnRequest, TurnWork};
use hermes_store::{NewMessage, NewToolCall, TurnOpening};
use hermes_types::{
    HolderId, Message, ModelError, SpendingCap, Timestamp, ToolCall, ToolOutcome, Turn, TurnId, TurnState,
};

use super::support::{AgentFixture, RecordingFrontend, ScriptedTool, resume, text_answer, texts};

/// Stores a turn of a dead process with three calls: one ended, one started, one not started.
async fn cut_off(bench: &AgentFixture) -> TurnId {
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
    };
    let store = bench.agent.store();
    let session = hermes_store::NewSession::new("s".into(), "cli", Timestamp(1.0));
    let asked = vec![NewMessage::new(Message::user("do it"), Timestamp(1.0))];
    let gone = HolderId::new(format!("{}-gone", i32::MAX));
    let opening =
        TurnOpening { session, messages: asked, turn: turn.clone(), inbox: Vec::new(), speaker: None };
    let span = std::time::Duration::from_mins(5);
    store.begin_turn(opening, &gone, span).await.unwrap();
    store.acquire_lease("s", &gone, bench.agent.clock().now(), span).await.unwrap();
    let message = Message::assistant("").with_calls(calls.clone());
    store.append(&"s".into(), NewMessage::new(message, Timestamp(2.0))).await.unwrap();
    for call in &calls[..2] {
        let record = NewToolCall { id: call.id.clone(), name: "work".into(), arguments: "{}".into() };
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
    let bench = AgentFixture::new([text_answer("finished now")])
        .tool(ScriptedTool::new("work", |_| ToolOutcome::done("again")));
    cut_off(&bench).await;
    let mut taken = bench.agent.load_conversation(&"s".into()).await.unwrap();
    let cut_off = taken.unfinished_turn.take().unwrap();
    assert_eq!((cut_off.parked, cut_off.unknown_calls.as_slice()), (false, &["work".to_owned()][..]));
    let watcher = RecordingFrontend::default();
    let result = resume(&bench.agent, &mut taken.conversation, cut_off, &watcher).await;
    assert_eq!(result.response.as_deref(), Some("finished now"));
    let sent = texts(&bench.asked(0).messages);
    assert_eq!(sent[2], "tool: result of one");
    assert!(sent[3].starts_with("tool: [Outcome unknown: Hermes was cut off while work ran."), "{sent:?}");
    assert!(sent[4].starts_with("tool: [Not started: "), "{sent:?}");
    assert!(bench.agent.store().running_turns().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_subagents_had_come_to_is_told_with_the_call_that_started_them() {
    let bench = AgentFixture::new([]);
    cut_off(&bench).await;
    let store = bench.agent.store();
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
        };
        let messages = vec![NewMessage::new(Message::user(format!("part {id}")), started)];
        let opening = TurnOpening { session, messages, turn: turn.clone(), inbox: Vec::new(), speaker: None };
        store.begin_turn(opening, &holder, std::time::Duration::from_mins(5)).await.unwrap();
        if let Some(answer) = answer {
            store.append(&id.into(), NewMessage::new(Message::assistant(answer), started)).await.unwrap();
            store.close_turn(&turn.id, TurnState::Done, None, started).await.unwrap();
        }
    }
    let taken = bench.agent.load_conversation(&"s".into()).await.unwrap();
    let told = texts(taken.conversation.messages());
    let told = told.iter().find(|text| text.contains("Outcome unknown")).unwrap();
    assert!(told.contains("\"part a\" had finished (session a). It said:\nalpha is done"), "{told}");
    assert!(told.contains("\"part b\" was cut off before it finished (session b)"), "{told}");
    assert!(!told.contains("earlier call"), "{told}");
}

#[tokio::test]
async fn the_second_cut_off_in_a_row_parks_the_turn() {
    let bench = AgentFixture::new([]);
    let turn = cut_off(&bench).await;
    for _ in 0..3 {
        let found = bench.agent.load_conversation(&"s".into()).await.unwrap().unfinished_turn.unwrap();
        assert!(!found.parked, "looking at it is no cut-off");
    }
    let gone = HolderId::new(format!("{}-gone", i32::MAX));
    bench.agent.store().record_cut_off(&turn, gone, Timestamp(5.0)).await.unwrap();
    let mut second = bench.agent.load_conversation(&"s".into()).await.unwrap();
    let cut_off = second.unfinished_turn.take().unwrap();
    assert!(cut_off.parked);
    let watcher = RecordingFrontend::default();
    let request = TurnRequest {
        work: TurnWork::Resume(cut_off),
        frontend: &watcher,
        cancel: &watcher.cancel,
        grace: None,
    };
    let outcome = bench.agent.drive(&mut second.conversation, request).await.unwrap();
    assert!(matches!(outcome, TurnOutcome::Parked(_)), "{outcome:?}");
    assert_eq!(bench.calls(), 0);
    assert_eq!(bench.agent.store().turn(&turn).await.unwrap().unwrap().state, TurnState::Parked);
    assert!(
        bench.agent.load_conversation(&"s".into()).await.unwrap().unfinished_turn.is_none(),
        "and nothing more is tried"
    );
}

#[tokio::test]
async fn a_turn_that_was_compressed_and_cut_off_is_found_under_every_name_of_its_conversation() {
    let bench = AgentFixture::new([text_answer("finished now")]);
    let turn = cut_off(&bench).await;
    let store = bench.agent.store();
    let entry = r#"{"session_id": "s", "mine": 7}"#.to_owned();
    let chat = hermes_store::ChatBinding {
        key: "chat".into(),
        session: "s".into(),
        entry,
        updated_at: Timestamp(1.0),
    };
    store.bind(chat).await.unwrap();
    let child = hermes_store::NewSession {
        parent: Some("s".into()),
        ..hermes_store::NewSession::new("s2".into(), "cli", Timestamp(6.0))
    };
    let words = [Message::user("do three things"), Message::assistant("so far, so good")];
    let rows = words.iter().map(|message| NewMessage::new(message.clone(), Timestamp(6.0))).collect();
    store.split_session(&"s".into(), child, rows, Timestamp(6.0)).await.unwrap();

    let chat = store.binding("chat").await.unwrap().unwrap();
    assert_eq!(chat.session.as_str(), "s2");
    assert_eq!(chat.entry, r#"{"session_id":"s2","mine":7}"#);
    for name in ["s", "s2"] {
        let taken = bench.agent.load_conversation(&name.into()).await.unwrap();
        assert_eq!(taken.conversation.session().as_str(), "s2", "by the name {name}");
        assert_eq!(taken.unfinished_turn.unwrap().turn.id, turn);
    }
    let found = bench.agent.past_turn(&turn).await.unwrap().unwrap();
    assert_eq!((found.turn.session.as_str(), found.has_acted()), ("s2", true));
    assert_eq!(found.describe_calls(), "These tools had been started: work (done), work (outcome unknown).");
}

#[tokio::test]
async fn a_conversation_somebody_else_works_in_is_left_alone() {
    let bench = AgentFixture::new([text_answer("never")]);
    let other = HolderId::generate();
    let now = bench.agent.clock().now();
    bench.agent.store().acquire_lease("s", &other, now, std::time::Duration::from_mins(5)).await.unwrap();
    let mut conversation = bench.conversation();
    let watcher = RecordingFrontend::default();
    let words = hermes_agent::TurnInput::text("hello");
    let refused =
        bench.agent.run_turn(&mut conversation, words, &watcher, &watcher.cancel).await.unwrap_err();
    assert!(refused.to_string().starts_with("another Hermes (process "), "{refused}");
    assert_eq!(bench.calls(), 0);
}

#[tokio::test]
async fn an_answer_that_was_interrupted_is_kept_and_marked() {
    let bench = AgentFixture::new([Err(ModelError::Cancelled), text_answer("more")]);
    *bench.model.shown.lock().unwrap() = Some("The first half".into());
    let mut conversation = bench.conversation();
    let result = bench.say(&mut conversation, "tell me").await;
    assert!(result.interrupted());
    let stored = bench.agent.store().transcript(&"s".into()).await.unwrap();
    assert_eq!(stored[1].message.content.text(), "The first half");
    assert_eq!(stored[1].message.finish_reason.as_ref().unwrap().as_str(), "interrupted");
    bench.say(&mut conversation, "go on").await;
    let sent = texts(&bench.asked(1).messages);
    assert_eq!(
        sent,
        ["user: tell me", "assistant: The first half\n\n[Interrupted here by the user.]", "user: go on"]
    );
}

#[tokio::test]
async fn taking_back_the_last_exchange_spares_what_was_left_out_on_loading() {
    let bench = AgentFixture::new([text_answer("one"), text_answer("two")]);
    let mut conversation = bench.conversation();
    bench.say(&mut conversation, "first").await;
    // Another release left a review in the transcript; it is not loaded, but its rows are there.
    for message in
        [Message::user("[System: Review the conversation above. …]"), Message::assistant("Nothing to save.")]
    {
        bench.agent.store().append(&"s".into(), NewMessage::new(message, Timestamp(5.0))).await.unwrap();
    }
    let mut again = bench.agent.load_conversation(&"s".into()).await.unwrap().conversation;
    assert_eq!(texts(again.messages()), ["user: first", "assistant: one"]);
    bench.say(&mut again, "second").await;
    let taken = bench.agent.undo_last_exchange(&mut again).await.unwrap();
    assert_eq!(taken.as_deref(), Some("second"));
    let stored = bench.stored().await;
    let kept: Vec<&str> = stored.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(kept[..2], ["first", "one"]);
    assert_eq!(kept.len(), 4, "only the last exchange went: {kept:?}");
}
