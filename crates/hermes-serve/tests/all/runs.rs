//! Tests of `/v1/runs`.

use hermes_types::Role;
use serde_json::{Value, json};

use super::support::{ModelStep, ServerFixture, TestModel};

#[tokio::test]
async fn a_run_goes_on_by_itself_and_tells_what_happened() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let started = bench.post("/v1/runs", &json!({"input": "hello"})).await;
    assert_eq!(started.status, 202);
    let id = started.json()["run_id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("run_") && id.len() == 36);
    let told = bench.get(&format!("/v1/runs/{id}/events")).await;
    assert!(told.body.trim_end().ends_with(": stream closed"), "{}", told.body);
    let events = told.events();
    assert_eq!(events.last().unwrap()["event"], "run.completed");
    assert_eq!(events.last().unwrap()["output"], "you said: hello");
    let found = bench.get(&format!("/v1/runs/{id}")).await.json();
    assert_eq!(
        (found["status"].as_str(), found["output"].as_str()),
        (Some("completed"), Some("you said: hello"))
    );
}

#[tokio::test]
async fn a_run_asks_and_can_be_answered_or_stopped() {
    let model = TestModel::new(|said, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say(message.content.text().into_owned()),
        _ if said == "hang" => ModelStep::Hang,
        _ => ModelStep::Call("risky", "{}"),
    });
    let bench = ServerFixture::with(model).await;
    let id =
        bench.post("/v1/runs", &json!({"input": "go"})).await.json()["run_id"].as_str().unwrap().to_owned();
    while bench.get(&format!("/v1/runs/{id}")).await.json()["status"] != "waiting_for_approval" {}
    let bad = bench.post(&format!("/v1/runs/{id}/approval"), &json!({"choice": "maybe"})).await;
    assert_eq!((bad.status, bad.json()["error"]["param"].as_str()), (400, Some("choice")));
    assert_eq!(bench.post(&format!("/v1/runs/{id}/approval"), &json!({"choice": "once"})).await.status, 200);
    let told = bench.get(&format!("/v1/runs/{id}/events")).await;
    assert!(told.body.contains("approval.request") && told.body.contains("Approval(Once)"), "{}", told.body);
    let again = bench.post(&format!("/v1/runs/{id}/approval"), &json!({"choice": "once"})).await;
    assert_eq!((again.status, again.json()["error"]["code"].as_str()), (409, Some("approval_not_pending")));

    let id =
        bench.post("/v1/runs", &json!({"input": "hang"})).await.json()["run_id"].as_str().unwrap().to_owned();
    bench.until_asked(3).await;
    bench.post(&format!("/v1/runs/{id}/stop"), &json!({})).await;
    let told = bench.get(&format!("/v1/runs/{id}/events")).await;
    assert_eq!(told.events().last().unwrap()["event"], "run.cancelled");
    assert_eq!(bench.get("/v1/runs/run_nobody").await.status, 404);
}

#[tokio::test]
async fn a_run_builds_on_what_was_said_before() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{said} after {}", request.messages.len() - 1))
    });
    let bench = ServerFixture::with(model).await;
    let output = async |body: Value| {
        let run = bench.post("/v1/runs", &body).await;
        assert_eq!(run.status, 202, "{run:?}");
        let path = format!("/v1/runs/{}", run.json()["run_id"].as_str().unwrap());
        bench.get(&format!("{path}/events")).await;
        bench.get(&path).await.json()["output"].as_str().unwrap().to_owned()
    };
    let told = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    assert_eq!(output(json!({"input": "one", "conversation_history": told})).await, "one after 2");
    let list = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "two"}]);
    assert_eq!(output(json!({"input": list})).await, "two after 2");
    let parts = json!([{"type": "input_text", "text": "three"}]);
    assert_eq!(output(json!({"input": parts})).await, "three after 0");
    let kept = bench.post("/v1/responses", &json!({"input": "four"})).await.json();
    assert_eq!(output(json!({"input": "five", "previous_response_id": kept["id"]})).await, "five after 2");
    let wrong = bench.post("/v1/runs", &json!({"input": "x", "session_id": "../x"})).await;
    assert_eq!((wrong.status, wrong.json()["error"]["param"].as_str()), (400, Some("session_id")));
}

#[tokio::test]
async fn a_run_of_an_earlier_process_is_known() {
    let bench = ServerFixture::with(TestModel::new(|said, _| match said {
        "hang" => ModelStep::Stuck,
        said => ModelStep::Say(format!("done: {said}")),
    }))
    .await;
    let begin = async |said: &str| {
        bench.post("/v1/runs", &json!({"input": said})).await.json()["run_id"].as_str().unwrap().to_owned()
    };
    let (whole, cut) = (begin("whole").await, begin("hang").await);
    bench.get(&format!("/v1/runs/{whole}/events")).await;
    let after = bench.restarted(TestModel::echo()).await;
    let found = after.get(&format!("/v1/runs/{whole}")).await.json();
    assert_eq!(
        (found["status"].as_str(), found["output"].as_str()),
        (Some("completed"), Some("done: whole"))
    );
    let found = after.get(&format!("/v1/runs/{cut}")).await;
    assert_eq!(found.status, 200, "{found:?}");
    let found = found.json();
    assert_eq!(found["status"], "failed");
    assert!(found["error"].as_str().unwrap().contains("restarted in the middle"), "{found}");
    let told = after.get(&format!("/v1/runs/{cut}/events")).await;
    assert_eq!(told.events().last().unwrap()["event"], "run.failed");
    assert_eq!(after.get(&format!("/v1/runs/run_{}", "0".repeat(32))).await.status, 404);
}
