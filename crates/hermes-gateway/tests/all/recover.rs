//! Tests of what a new process finds and recovers.

use std::sync::Arc;

use hermes_store::{NewMessage, NewSession, SessionFilter};
use hermes_types::{Clock as _, Role, Timestamp, TurnState};

use super::support::{GatewayFixture, GatewayFixturePlan, ModelStep, TestModel};

/// Returns a plan for the next process, late enough for the previous lease to have expired; in a test both have
/// the same pid.
pub(crate) fn later(model: Arc<TestModel>, minutes: u64) -> GatewayFixturePlan {
    let plan = GatewayFixturePlan::new(model);
    plan.clock.advance(std::time::Duration::from_mins(minutes));
    plan
}

#[tokio::test]
async fn a_turn_that_was_cut_off_is_gone_on_with_and_said_once() {
    let bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Stuck)).await;
    bench.channel.write("ann", "important");
    bench.until_asked(1).await;
    let folder = bench.kill().await;
    let bench = later(TestModel::echo(), 2).start_in(folder).await;
    bench.channel.until_said("ann", "restarted in the middle").await;
    bench.channel.until_said("ann", "you said: important").await;
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann").len(), 2);
    let session = bench.store.list_sessions(SessionFilter::default(), 5).await.unwrap()[0].id.clone();
    assert_eq!(bench.store.transcript(&session).await.unwrap().len(), 2, "what was said is there once");
}

#[tokio::test]
async fn what_was_written_while_nobody_was_there_waits_for_the_turn_that_was_cut_off() {
    let bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Stuck)).await;
    bench.channel.write("ann", "first");
    bench.until_asked(1).await;
    let folder = bench.kill().await;
    let model = TestModel::new(|said, _| match said {
        "first" => ModelStep::Gate("answer to first".into()),
        said => ModelStep::Say(format!("answer to {said}")),
    });
    let plan = later(model, 2);
    let missed = plan.clock.now().minus(std::time::Duration::from_secs(5));
    let bench = plan.start_in(folder).await;
    bench.until_asked(1).await;
    let mut second = bench.channel.envelope("ann", "second");
    second.received_at = missed;
    second.platform_key = "later".to_owned();
    bench.channel.deliver(second);
    bench.channel.until_acknowledged(1).await;
    bench.model.gate.add_permits(1);
    bench.channel.until_said("ann", "answer to second").await;
    bench.until_quiet().await;
    let texts = bench.channel.texts("ann");
    assert_eq!(texts[1..], ["answer to first", "answer to second"], "{texts:?}");
}

#[tokio::test]
async fn a_message_while_draining_waits_and_interrupts_nothing() {
    let bench =
        GatewayFixture::with(TestModel::new(|said, _| ModelStep::Gate(format!("done: {said}")))).await;
    bench.channel.write("ann", "work");
    bench.until_asked(1).await;
    bench.gateway.drain();
    bench.channel.write("ann", "and this");
    bench.channel.write("bob", "hello");
    bench.channel.until_acknowledged(3).await;
    bench.model.gate.add_permits(9);
    bench.channel.until_said("ann", "done: work").await;
    assert!(!bench.model.questions().contains(&"and this".to_owned()), "nothing new was begun");
    assert_eq!(bench.store.inbox_depth().await.unwrap().waiting, 2);
    let folder = bench.kill().await;
    let bench = later(TestModel::echo(), 2).start_in(folder).await;
    bench.channel.until_said("ann", "you said: and this").await;
    bench.channel.until_said("bob", "you said: hello").await;
}

#[tokio::test]
async fn a_turn_that_was_cut_off_twice_is_reported_and_left() {
    let bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Stuck)).await;
    bench.channel.write("ann", "poison");
    bench.until_asked(1).await;
    let folder = bench.kill().await;
    let bench = later(TestModel::new(|_, _| ModelStep::Stuck), 2).start_in(folder).await;
    bench.until_asked(1).await;
    let folder = bench.kill().await;
    let bench = later(TestModel::echo(), 4).start_in(folder).await;
    bench.channel.until_said("ann", "cut off twice").await;
    bench.until_quiet().await;
    assert!(bench.model.questions().is_empty());
    let folder = bench.kill().await;
    let bench = GatewayFixturePlan::new(TestModel::echo()).start_in(folder).await;
    bench.until_quiet().await;
    assert!(bench.channel.posted().is_empty(), "said once");
}

#[tokio::test]
async fn an_answer_that_never_left_leaves_now_without_asking_again() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.fail_next(hermes_testkit::SendFault::Hang);
    bench.channel.write("ann", "hello");
    bench.until_asked(1).await;
    while bench.store.inbox_depth().await.unwrap().waiting > 0 {
        tokio::task::yield_now().await;
    }
    let folder = bench.kill().await;
    let bench = GatewayFixturePlan::new(TestModel::new(|_, _| ModelStep::Stuck)).start_in(folder).await;
    bench.channel.until_said("ann", "you said: hello").await;
    assert!(bench.model.questions().is_empty());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test plays a process that died")]
async fn a_turn_that_ended_without_its_answer_being_queued_is_not_run_again() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.write("ann", "hello");
    bench.channel.until_said("ann", "you said: hello").await;
    bench.until_quiet().await;
    // This simulates a process that died between closing the turn and settling the message.
    let folder = bench.kill().await;
    let database = rusqlite::Connection::open(folder.path().join("state.db")).unwrap();
    let open = "UPDATE hx_inbox SET state = 'waiting', closed_at = NULL";
    assert_eq!(database.execute(open, []).unwrap(), 1);
    drop(database);
    let bench = GatewayFixturePlan::new(TestModel::new(|_, _| ModelStep::Stuck)).start_in(folder).await;
    bench.until_quiet().await;
    assert!(bench.model.questions().is_empty());
    assert!(bench.channel.posted().is_empty(), "it has been sent already, under the same key");
}

#[tokio::test]
async fn what_waited_too_long_is_told_about_and_not_run() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    let mut old = bench.channel.envelope("ann", "from long ago");
    old.received_at = Timestamp(1_000_000.0);
    bench.channel.deliver(old);
    bench.channel.until_said("ann", "I was away too long").await;
    bench.until_quiet().await;
    assert!(bench.model.questions().is_empty());
}

#[tokio::test]
async fn the_list_of_chats_of_another_program_is_taken_over_and_kept() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir_all(folder.path().join("sessions")).unwrap();
    std::fs::write(
        folder.path().join("sessions/sessions.json"),
        r#"{"agent:main:fake:dm:chat-ann": {"session_key": "agent:main:fake:dm:chat-ann",
            "session_id": "20260102_030000_aabbccdd", "created_at": "2026-01-02T03:00:00.000001",
            "updated_at": "2026-01-02T03:00:00.000001", "platform": "fake", "mine": 7}}"#,
    )
    .unwrap();
    let bench = GatewayFixturePlan::new(TestModel::echo()).start_in(folder).await;
    bench.channel.write("ann", "hello");
    bench.channel.until_said("ann", "you said: hello").await;
    bench.until_quiet().await;
    let rows = bench.store.transcript(&"20260102_030000_aabbccdd".into()).await.unwrap();
    assert_eq!(rows.len(), 2, "the conversation went on where it was");
    let turns = bench.store.running_turns().await.unwrap();
    assert!(turns.iter().all(|turn| turn.state != TurnState::Running));
    let folder = bench.end().await;
    let kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("sessions/sessions.json")).unwrap())
            .unwrap();
    let entry = &kept["agent:main:fake:dm:chat-ann"];
    assert_eq!(entry["mine"], 7);
    assert_eq!(entry["input_tokens"], 10);
    assert_eq!(entry["origin"]["chat_id"], "chat-ann");
}

/// Creates a home of another program: a chat, and its transcript in a file.
fn home_with_transcript(lines: &[&str]) -> Arc<tempfile::TempDir> {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let sessions = folder.path().join("sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    let index = r#"{"agent:main:fake:dm:chat-ann": {"session_key": "agent:main:fake:dm:chat-ann",
        "session_id": "20260102_030000_aabbccdd", "created_at": "2026-01-02T03:00:00.000001",
        "updated_at": "2026-01-02T03:00:00.000001", "platform": "fake", "origin": {"platform": "fake", "user_id": "ann"}}}"#;
    std::fs::write(sessions.join("sessions.json"), index).unwrap();
    std::fs::write(sessions.join("20260102_030000_aabbccdd.jsonl"), lines.join("\n")).unwrap();
    folder
}

const TRANSCRIPT: [&str; 6] = [
    r#"{"role":"session_meta","tools":[],"model":"old-model","platform":"fake","timestamp":"2026-01-02T03:00:00.5"}"#,
    r#"{"role":"user","content":"my cat is called Mia","timestamp":"2026-01-02T03:00:01.5"}"#,
    r#"{"role":"assistant","content":"Noted.","timestamp":"2026-01-02T03:00:02.5","finish_reason":"stop"}"#,
    r#"{"role":"user","content":"cut off in the mid"#,
    r#"{"role":"user","content":"and my dog Rex","timestamp":"2026-01-02T03:00:03.5"}"#,
    r#"{"role":"assistant","content":"Both noted.","timestamp":"2026-01-02T03:00:04.5"}"#,
];

fn counting() -> Arc<TestModel> {
    TestModel::new(|said, request| ModelStep::Say(format!("{said} after {}", request.messages.len() - 1)))
}

#[tokio::test]
async fn a_transcript_another_program_kept_is_gone_on_with_and_taken_over_once() {
    let bench = GatewayFixturePlan::new(counting()).start_in(home_with_transcript(&TRANSCRIPT)).await;
    bench.channel.write("ann", "who is Mia?");
    bench.channel.until_said("ann", "who is Mia? after 4").await;
    bench.until_quiet().await;
    let session = "20260102_030000_aabbccdd".into();
    let rows = bench.store.transcript(&session).await.unwrap();
    let texts: Vec<String> = rows.iter().map(|row| row.message.content.text().into_owned()).collect();
    assert_eq!(
        texts,
        [
            "my cat is called Mia",
            "Noted.",
            "and my dog Rex",
            "Both noted.",
            "who is Mia?",
            "who is Mia? after 4"
        ]
    );
    assert!(rows[0].message.extra.is_empty(), "the time is a column");
    assert!((rows[0].at.seconds() - 1_767_322_801.0).abs() < 1.0, "{:?}", rows[0].at);
    let stored = bench.store.session(&session).await.unwrap().unwrap();
    assert_eq!((stored.source.as_str(), stored.message_count), ("fake", 6));
    // Exchanges that are undone here do not come back from the file.
    for taken in 2..4 {
        bench.channel.write("ann", "/undo");
        bench.channel.until_acknowledged(taken).await;
        bench.until_quiet().await;
    }
    let folder = bench.kill().await;
    let bench = later(counting(), 2).start_in(folder).await;
    let mut again = bench.channel.envelope("ann", "again");
    again.platform_key = "later".to_owned();
    bench.channel.deliver(again);
    bench.channel.until_said("ann", "again after 2").await;
}

#[tokio::test]
async fn a_transcript_fills_up_what_the_database_lacks_and_nothing_is_lost() {
    let folder = home_with_transcript(&TRANSCRIPT);
    let file = folder.path().join("sessions/20260102_030000_aabbccdd.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, TRANSCRIPT[..3].join("\n")).unwrap();
    let bench = GatewayFixturePlan::new(counting()).start_in(folder).await;
    bench.until_quiet().await;
    let folder = bench.kill().await;
    // The other program continued the conversation.
    std::fs::write(&file, &whole).unwrap();
    let bench = later(counting(), 2).start_in(folder).await;
    bench.channel.write("ann", "here");
    bench.channel.until_said("ann", "here after 4").await;
    bench.until_quiet().await;
    let folder = bench.kill().await;
    // The other program does not know the messages written here.
    let more = r#"{"role":"user","content":"x"}"#;
    std::fs::write(&file, format!("{whole}\n{more}\n{more}\n{more}")).unwrap();
    let bench = later(counting(), 4).start_in(folder).await;
    let rows = bench.store.transcript(&"20260102_030000_aabbccdd".into()).await.unwrap();
    let texts: Vec<String> = rows.iter().map(|row| row.message.content.text().into_owned()).collect();
    assert_eq!(texts[..4], ["my cat is called Mia", "Noted.", "and my dog Rex", "Both noted."]);
    assert_eq!(texts[4..], ["x", "x", "x", "here", "here after 4"]);
}

/// Simulates a power cut: only what is in the files at the moment of the acknowledgement remains.
#[tokio::test]
async fn what_was_acknowledged_is_in_the_files_at_that_moment() {
    let bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Stuck)).await;
    let elsewhere = Arc::new(tempfile::tempdir().unwrap());
    bench.channel.write("ann", "do not lose me");
    bench.channel.until_acknowledged(1).await;
    for name in ["state.db", "state.db-wal"] {
        let from = bench.folder.path().join(name);
        if from.exists() {
            std::fs::copy(from, elsewhere.path().join(name)).unwrap();
        }
    }
    let copy = later(TestModel::echo(), 2).start_in(elsewhere).await;
    copy.channel.until_said("ann", "you said: do not lose me").await;
}

/// Returns a model that calls a tool once and hangs when it gets the result.
fn calls_and_is_stuck() -> Arc<TestModel> {
    TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Stuck,
        _ => ModelStep::Call("plain", "{}"),
    })
}

fn never_calls() -> Arc<TestModel> {
    TestModel::new(|_, _| ModelStep::Say("finished".into()))
}

#[tokio::test]
async fn a_turn_that_was_compressed_and_cut_off_is_gone_on_with_where_it_is() {
    let bench = GatewayFixture::with(calls_and_is_stuck()).await;
    bench.channel.write("ann", "work");
    bench.until_asked(2).await;
    let turn = bench.store.running_turns().await.unwrap()[0].clone();
    let now = bench.clock.now();
    let mut child = NewSession::new("child".into(), "fake", now);
    child.parent = Some(turn.session.clone());
    let rows = bench.store.transcript(&turn.session).await.unwrap();
    let rows = rows.into_iter().map(|row| NewMessage::new(row.message, now)).collect();
    bench.store.split_session(&turn.session, child, rows, now).await.unwrap();
    let folder = bench.kill().await;

    let bench = later(never_calls(), 2).start_in(folder).await;
    bench.channel.until_said("ann", "finished").await;
    bench.until_quiet().await;
    assert!(bench.store.running_turns().await.unwrap().is_empty(), "the turn has ended");
    assert_eq!(bench.store.turn(&turn.id).await.unwrap().unwrap().state, TurnState::Done);
    let texts = bench.channel.texts("ann");
    assert_eq!(texts.len(), 2, "{texts:?}");
    let mut next = bench.channel.envelope("ann", "and then?");
    next.platform_key = "later".to_owned();
    bench.channel.deliver(next);
    bench.channel.until_acknowledged(1).await;
    bench.until_quiet().await;
    let rows = bench.store.transcript(&"child".into()).await.unwrap();
    assert!(rows.iter().any(|row| row.message.content.text() == "and then?"), "the chat is at the child");
}

#[tokio::test]
async fn a_reset_that_falls_between_death_and_restart_comes_after_the_turn_that_was_cut_off() {
    let bench = GatewayFixture::with(calls_and_is_stuck()).await;
    bench.channel.write("ann", "work");
    bench.until_asked(2).await;
    let turn = bench.store.running_turns().await.unwrap()[0].clone();
    let folder = bench.kill().await;
    let plan = later(never_calls(), 2 * 24 * 60);
    let bench = plan.start_in(folder).await;
    bench.channel.until_said("ann", "finished").await;
    bench.until_quiet().await;
    assert_eq!(bench.store.turn(&turn.id).await.unwrap().unwrap().state, TurnState::Done);
    let asked = bench.model.requests.lock().unwrap()[0].clone();
    let roles: Vec<Role> = asked.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool], "it went on with what had been done");
}

#[tokio::test]
async fn a_turn_that_is_stopped_in_good_order_again_and_again_is_not_parked() {
    let mut bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Stuck)).await;
    bench.channel.write("ann", "long work");
    for time in 1..=4 {
        bench.until_asked(1).await;
        let folder = bench.end().await;
        let model = if time == 4 { TestModel::echo() } else { TestModel::new(|_, _| ModelStep::Stuck) };
        bench = later(model, 2 * time).start_in(folder).await;
    }
    bench.channel.until_said("ann", "you said: long work").await;
    bench.until_quiet().await;
    let texts = bench.channel.texts("ann");
    assert!(!texts.iter().any(|text| text.contains("cut off twice")), "{texts:?}");
}

#[tokio::test]
async fn work_in_the_background_outlives_the_process() {
    for orderly in [false, true] {
        let bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Stuck)).await;
        bench.channel.write("ann", "/background count the stars");
        bench.channel.until_said("ann", "Background task started").await;
        bench.until_asked(1).await;
        let folder = if orderly { bench.end().await } else { bench.kill().await };
        let bench = later(TestModel::echo(), 2).start_in(folder).await;
        bench.channel.until_said("ann", "you said: count the stars").await;
        bench.until_quiet().await;
        let texts = bench.channel.texts("ann");
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].starts_with("✅ Background task complete"), "{texts:?}");
        assert!(bench.store.running_turns().await.unwrap().is_empty());
        // Notices of a process it started also reach the chat.
        let session = bench.store.list_sessions(SessionFilter::default(), 5).await.unwrap()[0].id.clone();
        let key = format!("background:{session}");
        bench.sender.notify_conversation(&key, "the process has ended".into(), "n".into()).await;
        bench.channel.until_said("ann", "the process has ended").await;
    }
}

/// Returns a model that asks for an approval, then repeats the tool's result.
fn asking() -> Arc<TestModel> {
    TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say(message.content.text().into_owned()),
        _ => ModelStep::Call("risky", "{}"),
    })
}

/// Writes under a key that no message before the restart had.
fn write_again(bench: &GatewayFixture, text: &str) {
    let mut envelope = bench.channel.envelope("ann", text);
    envelope.platform_key = format!("again: {text}");
    bench.channel.deliver(envelope);
}

#[tokio::test]
async fn an_open_approval_is_asked_again_after_a_restart() {
    for orderly in [false, true] {
        let bench = GatewayFixture::with(asking()).await;
        bench.channel.write("ann", "do it");
        let question = |posted: &[hermes_testkit::PostedMessage]| {
            posted.iter().find(|posted| posted.text.contains("requires approval")).cloned()
        };
        let old = bench.channel.until(question).await;
        let folder = if orderly { bench.end().await } else { bench.kill().await };
        let bench = later(asking(), 2).start_in(folder).await;
        let new = bench.channel.until(question).await;
        assert!(new.text.contains("rm -rf ./build"), "{}", new.text);
        assert_ne!(new.choices, old.choices);
        write_again(&bench, &old.choices[0]);
        let text = bench.channel.until_said("ann", "no longer open").await;
        assert!(text.contains("newer question"), "{text}");
        write_again(&bench, &new.choices[0]);
        bench.channel.until_said("ann", "Approval(Once)").await;
        bench.until_quiet().await;
        let session = bench.store.list_sessions(SessionFilter::default(), 5).await.unwrap()[0].id.clone();
        let rows = bench.store.transcript(&session).await.unwrap();
        let roles: Vec<Role> = rows.iter().map(|row| row.message.role).collect();
        assert_eq!(
            roles,
            [Role::User, Role::Assistant, Role::Tool, Role::Assistant],
            "each call is answered once"
        );
        let first = bench.model.requests.lock().unwrap()[0].messages.last().map(|message| message.role);
        assert_eq!(first, Some(Role::Tool), "the model is not asked for the call again");
    }
}

#[tokio::test]
async fn an_open_approval_is_settled_when_the_conversation_goes_another_way() {
    let bench = GatewayFixture::with(asking()).await;
    bench.channel.write("ann", "do it");
    bench.channel.until_said("ann", "requires approval").await;
    let folder = bench.kill().await;
    let bench = later(asking(), 2).start_in(folder).await;
    bench.channel.until_said("ann", "requires approval").await;
    write_again(&bench, "/stop");
    bench.channel.until_said("ann", "Force-stopped").await;
    bench.until_quiet().await;
    let session = bench.store.list_sessions(SessionFilter::default(), 5).await.unwrap()[0].id.clone();
    let rows = bench.store.transcript(&session).await.unwrap();
    assert_eq!(
        rows.iter().filter(|row| row.message.role == Role::Tool).count(),
        1,
        "the call has its answer"
    );
}
