//! `/v1/responses`.

use hermes_types::Role;
use serde_json::{Value, json};

use super::support::{Bench, Step, TestModel};

fn counting() -> std::sync::Arc<TestModel> {
    TestModel::new(|said, request| Step::Say(format!("{said} after {}", request.messages.len() - 1)))
}

fn text(body: &Value) -> &str {
    body["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn answers_are_kept_chained_found_and_removed() {
    let bench = Bench::with(counting()).await;
    let one = bench.post("/v1/responses", &json!({"input": "one", "instructions": "Be kind."})).await.json();
    assert_eq!((one["object"].as_str(), one["status"].as_str()), (Some("response"), Some("completed")));
    assert_eq!(text(&one), "one after 0");
    let id = one["id"].as_str().unwrap();
    assert!(id.starts_with("resp_") && id.len() == 33);
    let two = bench.post("/v1/responses", &json!({"input": "two", "previous_response_id": id})).await.json();
    assert_eq!(text(&two), "two after 2");
    assert!(bench.model.asked.lock().unwrap()[1].system.ends_with("Be kind."), "instructions are inherited");
    // The first can be built on again, in another direction.
    let other =
        bench.post("/v1/responses", &json!({"input": "other", "previous_response_id": id})).await.json();
    assert_eq!(text(&other), "other after 2");
    let found = bench.get(&format!("/v1/responses/{id}")).await;
    assert_eq!(found.json(), one);
    let gone = bench.send("DELETE", &format!("/v1/responses/{id}"), &[], b"").await;
    assert_eq!(gone.json(), json!({"id": id, "object": "response", "deleted": true}));
    assert_eq!(bench.get(&format!("/v1/responses/{id}")).await.status, 404);
    let orphan = bench.post("/v1/responses", &json!({"input": "x", "previous_response_id": id})).await;
    assert_eq!(orphan.status, 404);
    assert!(orphan.json()["error"]["message"].as_str().unwrap().starts_with("Previous response not found: "));
}

#[tokio::test]
async fn a_name_stands_for_the_newest_answer() {
    let bench = Bench::with(counting()).await;
    for (said, expected) in [("a", "a after 0"), ("b", "b after 2"), ("c", "c after 4")] {
        let body = bench.post("/v1/responses", &json!({"input": said, "conversation": "trip"})).await.json();
        assert_eq!(text(&body), expected);
    }
    let both = bench
        .post("/v1/responses", &json!({"input": "x", "conversation": "t", "previous_response_id": "r"}))
        .await;
    assert_eq!((both.status, both.json()["error"]["param"].as_str()), (400, Some("conversation")));
}

#[tokio::test]
async fn what_is_not_to_be_kept_is_not() {
    let bench = Bench::with(counting()).await;
    let body = bench.post("/v1/responses", &json!({"input": "x", "store": false})).await.json();
    assert_eq!(bench.get(&format!("/v1/responses/{}", body["id"].as_str().unwrap())).await.status, 404);
}

#[tokio::test]
async fn output_is_of_this_turn_only() {
    let model = TestModel::new(|said, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => Step::Say("done".into()),
        _ if said == "use it" => Step::Call("risky", "{\"a\": 1}"),
        _ => Step::Say("plain".into()),
    });
    let bench = Bench::with(model).await;
    let one = bench.post("/v1/responses", &json!({"input": "use it"})).await.json();
    let kinds = |body: &Value| -> Vec<String> {
        body["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["type"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(kinds(&one), ["function_call", "function_call_output", "message"]);
    assert_eq!(one["output"][0]["call_id"], one["output"][1]["call_id"]);
    let two = bench
        .post("/v1/responses", &json!({"input": "now talk", "previous_response_id": one["id"]}))
        .await
        .json();
    assert_eq!(kinds(&two), ["message"]);
}

#[tokio::test]
async fn a_stream_is_numbered_and_complete() {
    let bench = Bench::with(TestModel::new(|_, _| Step::Say("two words".into()))).await;
    let answer = bench.post("/v1/responses", &json!({"input": "go", "stream": true})).await;
    let events = answer.events();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed"
        ]
    );
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    let whole = &events.last().unwrap()["response"];
    assert_eq!(text(whole), "two words");
    let found = bench.get(&format!("/v1/responses/{}", whole["id"].as_str().unwrap())).await;
    assert_eq!(found.json()["status"], "completed");
}

#[tokio::test]
async fn only_a_hundred_are_kept_and_they_outlive_the_server() {
    let bench = Bench::with(counting()).await;
    let mut ids = Vec::new();
    for at in 0..101 {
        let body = bench.post("/v1/responses", &json!({"input": format!("number {at}")})).await.json();
        ids.push(body["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(bench.get(&format!("/v1/responses/{}", ids[0])).await.status, 404);
    assert_eq!(bench.get(&format!("/v1/responses/{}", ids[100])).await.status, 200);
    assert!(bench.folder.path().join("response_store.db").exists());
}
