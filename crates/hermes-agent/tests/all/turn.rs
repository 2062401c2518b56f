use hermes_store::Span;
use hermes_types::{FinishReason, Message, ModelError, Timestamp, ToolCall, TurnState};

use super::support::{Bench, Said, Watcher};

#[expect(clippy::unnecessary_wraps, reason = "a script is made of answers and errors")]
fn calling(calls: &[(&str, &str)]) -> Said {
    let calls = calls.iter().map(|(name, arguments)| ToolCall::new(None, *name, *arguments)).collect();
    Ok(Message::assistant("").with_calls(calls))
}

#[expect(clippy::unnecessary_wraps, reason = "a script is made of answers and errors")]
fn said(text: &str) -> Said {
    Ok(Message::assistant(text))
}

fn pairs(rows: &[(String, String)]) -> Vec<(&str, &str)> {
    rows.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect()
}

#[tokio::test]
async fn a_turn_with_a_tool_is_stored_step_by_step() {
    let bench = Bench::new([calling(&[("echo_back", r#"{"a":1}"#)]), said("<think>hm</think>done")]);
    let watcher = Watcher::default();
    let result = bench.run(&watcher).await;
    assert_eq!(
        (result.response.as_deref(), result.state, result.api_calls),
        (Some("done"), TurnState::Done, 2)
    );
    assert_eq!((result.usage.total(), result.cost.micro_usd), (30, Some(200)));
    let spent = bench.agent.store.spent(Span::Since(Timestamp(0.0))).await.unwrap();
    assert_eq!((spent.calls, spent.tokens, spent.micro_usd), (2, 30, 200), "the ledger has both calls");
    let session = bench.agent.store.session(&"s".into()).await.unwrap().unwrap();
    assert_eq!((session.usage, session.estimated_cost_usd), (result.usage, Some(0.0002)));
    let stored = bench.stored().await;
    let expected = [
        ("user", "hello"),
        ("assistant", ""),
        ("tool", r#"{"a":1}"#),
        ("assistant", "<think>hm</think>done"),
    ];
    assert_eq!(pairs(&stored), expected);
    assert!(bench.agent.store.running_turns().await.unwrap().is_empty());
    let asked = bench.model.asked.lock().unwrap();
    assert_eq!(
        (asked[0].system.as_str(), asked[0].messages.len(), asked[1].messages.len()),
        ("be brief", 1, 3)
    );
    assert_eq!(asked[0].tools[0].name, "echo_back");
}

#[tokio::test]
async fn every_call_gets_one_answer_in_order() {
    let calls = calling(&[
        ("Echo-Back", r#"{"n":1}"#),
        ("nonsense", "{}"),
        ("echo_back", "{broken"),
        ("echo_back", ""),
    ]);
    let bench = Bench::new([calls, said("ok")]);
    bench.run(&Watcher::default()).await;
    let stored = bench.stored().await;
    let answers: Vec<&str> =
        stored.iter().filter(|(role, _)| role == "tool").map(|(_, text)| text.as_str()).collect();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0], r#"{"n":1}"#, "a name written a little differently is understood");
    assert_eq!(answers[1], "Tool 'nonsense' does not exist. Available tools: echo_back");
    assert!(answers[2].starts_with("Error: Invalid JSON arguments. "), "{}", answers[2]);
    assert_eq!(answers[3], "{}");
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_run() {
    let Ok(mut message) = calling(&[("echo_back", r#"{"a":1}"#)]) else { unreachable!() };
    message.finish_reason = Some(FinishReason::Length);
    let bench = Bench::new([Ok(message), said("ok")]);
    bench.run(&Watcher::default()).await;
    assert!(bench.stored().await[2].1.contains("was not run"));
}

#[tokio::test]
async fn a_long_result_is_bounded_and_says_so() {
    let bench = Bench::new([calling(&[("echo_back", r#"{"times":20000}"#)]), said("ok")]);
    bench.run(&Watcher::default()).await;
    let result = &bench.stored().await[2].1;
    assert!(result.ends_with("[Truncated: tool response was 300000 chars, exceeding the 100000 char limit]"));
}

#[tokio::test]
async fn a_model_that_fails_leaves_the_question_in_the_database() {
    let failure = ModelError::GiveUp { message: "HTTP 500: on fire".into(), status: Some(500) };
    let bench = Bench::new([Err(failure.clone())]);
    let result = bench.run(&Watcher::default()).await;
    assert_eq!((result.state, result.error, result.response), (TurnState::Failed, Some(failure), None));
    assert_eq!(pairs(&bench.stored().await), [("user", "hello")]);
    assert!(bench.agent.store.running_turns().await.unwrap().is_empty());
}

#[tokio::test]
async fn cancelling_ends_the_turn_and_keeps_what_there_is() {
    let bench = Bench::new([calling(&[("echo_back", "{}")]), said("never")]);
    let watcher = Watcher { cancel_at: Some("ToolEnded"), ..Watcher::default() };
    let result = bench.run(&watcher).await;
    assert_eq!((result.state, result.error), (TurnState::Interrupted, Some(ModelError::Cancelled)));
    assert_eq!(bench.stored().await.len(), 3, "the call and its answer are kept");
}

#[tokio::test]
async fn a_model_that_never_stops_calling_is_stopped() {
    let bench = Bench::new((0..9).map(|_| calling(&[("echo_back", "{}")])));
    let result = bench.run(&Watcher::default()).await;
    assert_eq!(result.api_calls, 5);
    assert!(result.response.unwrap().contains("iteration limit"));
}

#[tokio::test]
async fn the_surface_is_told_what_happens() {
    let bench = Bench::new([calling(&[("echo_back", "{}")]), said("ok")]);
    let watcher = Watcher::default();
    bench.run(&watcher).await;
    let events = watcher.events.lock().unwrap();
    let told: Vec<&str> = events.iter().map(String::as_str).filter(|name| *name != "Spent").collect();
    let expected = [
        "TurnStarted",
        "Step",
        "Delta",
        "SegmentEnded",
        "ToolStarted",
        "ToolEnded",
        "Step",
        "Delta",
        "TurnEnded",
    ];
    assert_eq!(told, expected);
}
