//! Goals of chats: set, worked on turn after turn, checked, paused, resumed, and kept by a killed process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_store::{NewSession, SessionFilter, TurnOpening};
use hermes_task::SystemClock;
use hermes_types::{Clock as _, HolderId, ModelRequest, SpendingCap, Turn, TurnId, TurnState};

use crate::all::support::{GatewayFixture, GatewayFixturePlan, ModelStep, TestModel};

fn is_check(request: &ModelRequest) -> bool {
    request.system.contains("DONE, CONTINUE or BLOCKED")
}

/// Returns a model that counts its turns, and whose checks say these in order; the last one is repeated.
fn counting(verdicts: &'static [&'static str]) -> Arc<TestModel> {
    let (turns, checks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    TestModel::new(move |said, request| {
        if is_check(request) {
            let at = checks.fetch_add(1, Ordering::SeqCst).min(verdicts.len() - 1);
            return ModelStep::Say(verdicts[at].to_owned());
        }
        if request.system.contains("Name this conversation") {
            return ModelStep::Say("A title".to_owned());
        }
        let turn = turns.fetch_add(1, Ordering::SeqCst) + 1;
        ModelStep::Say(format!("step {turn} after \"{}\"", said.lines().next().unwrap_or_default()))
    })
}

#[tokio::test]
async fn a_goal_is_worked_on_until_it_is_reached() {
    let model = counting(&["CONTINUE: two tests fail", "CONTINUE: one test fails", "DONE: all tests pass."]);
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "/goal make the tests pass");
    bench.channel.until_said("ann", "🎯 Goal set. I work on it for up to 20 turns").await;
    bench.channel.until_said("ann", "step 1 after \"make the tests pass\"").await;
    bench.channel.until_said("ann", "step 2 after \"[Hermes goes on").await;
    bench.channel.until_said("ann", "step 3").await;
    bench.channel.until_said("ann", "🎯 Goal reached: all tests pass").await;
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann").len(), 5, "{:?}", bench.channel.texts("ann"));
    bench.channel.write("ann", "/goal");
    bench.channel.until_said("ann", "🎯 Goal (reached): make the tests pass").await;
    // A message afterwards is an ordinary one.
    bench.channel.write("ann", "thanks");
    bench.channel.until_said("ann", "step 4 after \"thanks\"").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "/goal clear");
    bench.channel.until_said("ann", "The goal is removed.").await;
    bench.channel.write("ann", "/goal pause");
    bench.channel.until_said("ann", "This conversation has no goal").await;
}

#[tokio::test]
async fn a_goal_ends_with_its_turns_and_goes_on_when_resumed() {
    let mut plan = GatewayFixturePlan::new(counting(&["CONTINUE: more"]));
    plan.config = "goals: {max_turns: 2}\n";
    let bench = plan.start().await;
    bench.channel.write("ann", "/goal count to ten");
    bench.channel.until_said("ann", "⏸ Goal paused: 2 turns are used up").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "/subgoal in French");
    bench.channel.until_said("ann", "Added requirement 1: in French").await;
    bench.channel.write("ann", "/subgoal remove 7");
    bench.channel.until_said("ann", "There is no requirement \"7\".").await;
    bench.channel.write("ann", "/goal resume");
    bench.channel.until_said("ann", "▶ Going on with the goal (up to 2 turns): count to ten").await;
    bench.channel.until_said("ann", "step 4").await;
    bench.until_quiet().await;
    let requests = bench.model.requests();
    let last = requests.iter().rfind(|request| !is_check(request)).unwrap();
    let prompt = last.messages.last().unwrap().content.text().into_owned();
    assert!(prompt.contains("Goal: count to ten\nRequirement 1: in French"), "{prompt}");
}

#[tokio::test]
async fn a_goal_that_cannot_be_checked_or_reached_is_paused() {
    for (verdict, text) in [
        ("BLOCKED: a password is needed", "⏸ Goal paused: a password is needed"),
        ("perhaps", "⏸ Goal paused: the check whether it is reached failed"),
    ] {
        let model = TestModel::new(move |_, request| {
            ModelStep::Say(if is_check(request) { verdict.to_owned() } else { "an answer".to_owned() })
        });
        let bench = GatewayFixture::with(model).await;
        bench.channel.write("ann", "/goal get in");
        bench.channel.until_said("ann", text).await;
        bench.until_quiet().await;
    }
}

#[tokio::test]
async fn a_stopped_goal_is_paused_and_a_message_comes_first() {
    let model = TestModel::new(|said, request| match said {
        _ if is_check(request) => ModelStep::Say("CONTINUE: more".to_owned()),
        "hello" => ModelStep::Say("hello yourself".to_owned()),
        _ => ModelStep::Hang,
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "/goal count the stars");
    bench.until_asked(1).await;
    // A message interrupts the goal's turn, is answered, and the goal goes on.
    bench.channel.write("ann", "hello");
    bench.channel.until_said("ann", "hello yourself").await;
    let clock = SystemClock::new();
    while !bench.model.questions().iter().any(|question| question.starts_with("[Hermes goes on")) {
        clock.sleep(Duration::from_millis(2)).await;
    }
    bench.channel.write("ann", "/stop");
    bench.channel.until_said("ann", "⏸ Goal paused: it was stopped").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "/goal status");
    bench.channel.until_said("ann", "🎯 Goal (paused): count the stars").await;
}

#[tokio::test]
async fn a_goal_outlives_the_process() {
    for orderly in [false, true] {
        let stuck = TestModel::new(|_, request| {
            if is_check(request) { ModelStep::Stuck } else { ModelStep::Say("the first step".to_owned()) }
        });
        let bench = GatewayFixture::with(stuck).await;
        bench.channel.write("ann", "/goal count the stars");
        bench.channel.until_said("ann", "the first step").await;
        bench.until_asked(2).await;
        let folder = if orderly { bench.end().await } else { bench.kill().await };
        let bench = crate::all::recover::later(counting(&["DONE: counted"]), 2).start_in(folder).await;
        bench.channel.until_said("ann", "🎯 Goal reached: counted").await;
        bench.until_quiet().await;
        assert!(bench.store.waiting_conversations().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_goal_goes_on_when_its_turn_ended_and_the_process_before_its_answer_was_queued() {
    let stuck = TestModel::new(|_, request| {
        if is_check(request) { ModelStep::Stuck } else { ModelStep::Say("the first step".to_owned()) }
    });
    let bench = GatewayFixture::with(stuck).await;
    bench.channel.write("ann", "/goal count the stars");
    bench.channel.until_said("ann", "the first step").await;
    bench.until_asked(2).await;
    // The row of the goal belongs to a turn that has ended, and is still open.
    let key = bench.store.waiting_conversations().await.unwrap().remove(0);
    let row = bench.store.waiting(&key).await.unwrap().remove(0);
    let session = bench.store.list_sessions(SessionFilter::default(), 1).await.unwrap()[0].id.clone();
    let now = bench.clock.now();
    let turn = Turn {
        id: TurnId::generate(),
        session: session.clone(),
        inbox: None,
        state: TurnState::Running,
        started_at: now,
        deadline_at: None,
        cap: SpendingCap::default(),
        cut_offs: 0,
    };
    let opening = TurnOpening {
        session: NewSession::new(session, "fake", now),
        messages: Vec::new(),
        turn: turn.clone(),
        inbox: vec![row.id],
        speaker: None,
    };
    let span = Duration::from_secs(1);
    bench.store.begin_turn(opening, &HolderId::new("another process"), span).await.unwrap();
    bench.store.close_turn(&turn.id, TurnState::Done, None, now).await.unwrap();
    let folder = bench.kill().await;
    let bench = crate::all::recover::later(counting(&["DONE: counted"]), 2).start_in(folder).await;
    bench.channel.until_said("ann", "🎯 Goal reached: counted").await;
    bench.until_quiet().await;
}
