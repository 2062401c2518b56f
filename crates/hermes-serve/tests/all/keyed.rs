//! Tests of `Idempotency-Key` inside one process. Crashes are tested with the program itself.

use std::time::Duration;

use hermes_testkit::TestClock;
use hermes_types::{ModelError, Role, TurnState};
use serde_json::{Value, json};

use super::support::{ModelStep, ServerFixture, TestModel, read_all};

const CHAT: &str = "/v1/chat/completions";

fn say(text: &str, stream: bool) -> Vec<u8> {
    json!({"messages": [{"role": "user", "content": text}], "stream": stream}).to_string().into_bytes()
}

fn streamed(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect()
}

#[tokio::test]
async fn a_client_that_leaves_finds_its_answer_by_its_key() {
    for stream in [false, true] {
        let bench =
            ServerFixture::with(TestModel::new(|said, _| ModelStep::Gate(format!("ran {said}")))).await;
        let key = [("Idempotency-Key", "k")];
        let connection = bench.open("POST", CHAT, &key, &say("pay", stream)).await;
        bench.until_asked(1).await;
        let turn = bench.store.running_turns().await.unwrap()[0].id.clone();
        drop(connection);
        let mut again = bench.open("POST", CHAT, &key, &say("pay", stream)).await;
        bench.model.gate.add_permits(5);
        let answer = read_all(&mut again).await;
        let text = if stream {
            streamed(&answer.events())
        } else {
            answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
        };
        assert_eq!((text.as_str(), bench.model.questions().len()), ("ran pay", 1), "stream: {stream}");
        let ended = bench.store.turn(&turn).await.unwrap().unwrap();
        assert_eq!(ended.state, TurnState::Done, "it was not cancelled");
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_failure_is_no_answer_to_keep() {
    let failure = ModelError::GiveUp { message: "no".into(), status: Some(500) };
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let bench = ServerFixture::with(TestModel::new(move |_, _| {
        match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => ModelStep::Fail(failure.clone()),
            _ => ModelStep::Say("better now".into()),
        }
    }))
    .await;
    let key = [("Idempotency-Key", "k")];
    assert_eq!(bench.send("POST", CHAT, &key, &say("try", false)).await.status, 502);
    let second = bench.send("POST", CHAT, &key, &say("try", false)).await;
    assert_eq!(second.json()["choices"][0]["message"]["content"], "better now");
    let third = bench.send("POST", CHAT, &key, &say("try", false)).await;
    assert_eq!(third.json()["choices"][0]["message"]["content"], "better now");
    assert_eq!(bench.model.questions().len(), 2);
    assert_eq!(bench.store.count_requests().await.unwrap(), 1);
}

#[tokio::test]
async fn a_key_has_its_bounds_and_kinds_of_requests_do_not_meet() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let long = "x".repeat(257);
    let answer = bench.send("POST", CHAT, &[("Idempotency-Key", &long)], &say("x", false)).await;
    assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (400, Some("Idempotency-Key")));
    let key = [("Idempotency-Key", "one for all")];
    assert_eq!(bench.send("POST", CHAT, &key, &say("x", false)).await.status, 200);
    let body = json!({"input": "x"}).to_string();
    let response = bench.send("POST", "/v1/responses", &key, body.as_bytes()).await.json();
    assert_eq!(response["object"], "response");
    let run = bench.send("POST", "/v1/runs", &key, body.as_bytes()).await.json();
    let again = bench.send("POST", "/v1/runs", &key, body.as_bytes()).await.json();
    assert_eq!(run["run_id"], again["run_id"]);
    bench.get(&format!("/v1/runs/{}/events", run["run_id"].as_str().unwrap())).await;
    assert_eq!(bench.model.questions().len(), 3);
}

#[tokio::test]
async fn answers_are_given_again_for_five_minutes() {
    let clock = TestClock::new();
    let bench =
        ServerFixture::with_clock(&clock, TestModel::new(|said, _| ModelStep::Say(format!("ran {said}"))))
            .await;
    let key = [("Idempotency-Key", "k")];
    // A server that has just started keeps answers longer, for clients of the previous process.
    clock.advance(Duration::from_mins(10));
    for (after, asked) in [(0, 1), (299, 1), (2, 2)] {
        clock.advance(Duration::from_secs(after));
        bench.send("POST", CHAT, &key, &say("x", false)).await;
        assert_eq!(bench.model.questions().len(), asked, "{after} s later");
    }
}

/// Advances the clock and lets the server check for idle sessions.
async fn pass(clock: &TestClock, span: Duration) {
    let looks = || clock.slept().iter().filter(|slept| **slept == Duration::from_mins(1)).count();
    while looks() == 0 {
        tokio::task::yield_now().await;
    }
    let before = looks();
    clock.advance(span);
    while looks() == before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_tools_keep_for_a_named_session_is_given_back_when_nobody_comes() {
    let clock = TestClock::new();
    let model = TestModel::new(|said, request| match request.messages.last() {
        Some(message) if message.role == Role::User && said != "hello" => ModelStep::Call("risky", "{}"),
        _ => ModelStep::Say("done".into()),
    });
    let bench = ServerFixture::with_clock(&clock, model).await;
    let talk = [("X-Hermes-Session-Id", "my-talk")];
    bench.send("POST", CHAT, &[("X-Hermes-Session-Id", "no-tools")], &say("hello", false)).await;
    bench.send("POST", CHAT, &talk, &say("one", false)).await;
    bench.send("POST", CHAT, &[], &say("nameless", false)).await;
    assert!(!bench.ended().contains(&"my-talk".to_owned()), "its next request finds it");
    assert_eq!(bench.ended().len(), 1, "what nobody named is given back at once");
    pass(&clock, Duration::from_mins(20)).await;
    bench.send("POST", CHAT, &talk, &say("two", false)).await;
    pass(&clock, Duration::from_mins(20)).await;
    assert_eq!(bench.ended().len(), 1, "it was used in between");
    pass(&clock, Duration::from_mins(11)).await;
    assert_eq!(bench.ended().last().map(String::as_str), Some("my-talk"));
    pass(&clock, Duration::from_hours(2)).await;
    assert_eq!(bench.ended().len(), 2, "once is enough");
}
