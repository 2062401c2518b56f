//! Tests of `/v1/responses`.

use hermes_types::{ModelError, Role};
use serde_json::{Value, json};

use super::support::{KEY, ModelStep, ServerFixture, TestModel, read_all};

fn counting() -> std::sync::Arc<TestModel> {
    TestModel::new(|said, request| ModelStep::Say(format!("{said} after {}", request.messages.len() - 1)))
}

fn text(body: &Value) -> &str {
    body["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn answers_are_kept_chained_found_and_removed() {
    let bench = ServerFixture::with(counting()).await;
    let one = bench.post("/v1/responses", &json!({"input": "one", "instructions": "Be kind."})).await.json();
    assert_eq!((one["object"].as_str(), one["status"].as_str()), (Some("response"), Some("completed")));
    assert_eq!(text(&one), "one after 0");
    let id = one["id"].as_str().unwrap();
    assert!(id.starts_with("resp_") && id.len() == 33);
    let two = bench.post("/v1/responses", &json!({"input": "two", "previous_response_id": id})).await.json();
    assert_eq!(text(&two), "two after 2");
    assert!(
        bench.model.requests.lock().unwrap()[1].system.ends_with("Be kind."),
        "instructions are inherited"
    );
    // A second request builds on the first response, as another branch.
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
    let bench = ServerFixture::with(counting()).await;
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
    let bench = ServerFixture::with(counting()).await;
    let body = bench.post("/v1/responses", &json!({"input": "x", "store": false})).await.json();
    assert_eq!(bench.get(&format!("/v1/responses/{}", body["id"].as_str().unwrap())).await.status, 404);
}

#[tokio::test]
async fn output_is_of_this_turn_only() {
    let model = TestModel::new(|said, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say("done".into()),
        _ if said == "use it" => ModelStep::Call("risky", "{\"a\": 1}"),
        _ => ModelStep::Say("plain".into()),
    });
    let bench = ServerFixture::with(model).await;
    let one = bench.post("/v1/responses", &json!({"input": "use it"})).await.json();
    let kinds = |body: &Value| -> Vec<String> {
        body["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["type"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(kinds(&one), ["mcp_call", "message"], "clients do not run what was run here");
    assert_eq!(one["output"][0]["output"], "Unavailable");
    let two = bench
        .post("/v1/responses", &json!({"input": "now talk", "previous_response_id": one["id"]}))
        .await
        .json();
    assert_eq!(kinds(&two), ["message"]);
}

#[tokio::test]
async fn a_stream_is_numbered_and_complete() {
    let bench = ServerFixture::with(TestModel::new(|_, _| ModelStep::Say("two words".into()))).await;
    let answer = bench.post("/v1/responses", &json!({"input": "go", "stream": true})).await;
    let events = answer.events();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
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
    let bench = ServerFixture::with(counting()).await;
    let mut ids = Vec::new();
    for at in 0..101 {
        let body = bench.post("/v1/responses", &json!({"input": format!("number {at}")})).await.json();
        ids.push(body["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(bench.get(&format!("/v1/responses/{}", ids[0])).await.status, 404);
    assert_eq!(bench.get(&format!("/v1/responses/{}", ids[100])).await.status, 200);
    assert!(bench.folder.path().join("response_store.db").exists());
}

fn cut() -> std::sync::Arc<TestModel> {
    TestModel::new(|_, _| {
        let error = ModelError::GiveUp { status: None, message: "the line broke".into() };
        ModelStep::CutOff("The first half", error)
    })
}

#[tokio::test]
async fn text_that_came_before_the_line_broke_is_not_lost() {
    let bench = ServerFixture::with(cut()).await;
    let plain = bench.post("/v1/responses", &json!({"input": "go"})).await;
    assert_eq!(plain.status, 200, "{plain:?}");
    let plain = plain.json();
    assert_eq!((plain["status"].as_str(), text(&plain)), (Some("failed"), "The first half"));
    assert_eq!(plain["error"]["code"], "upstream_failed");
    assert!(plain["error"]["message"].as_str().unwrap().contains("the line broke"));
    let events = bench.post("/v1/responses", &json!({"input": "go", "stream": true})).await.events();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    assert_eq!(text(&last["response"]), "The first half");
    assert_eq!(last["response"]["output"][0]["status"], "incomplete");
    let kept = bench.get(&format!("/v1/responses/{}", last["response"]["id"].as_str().unwrap())).await.json();
    assert_eq!(text(&kept), "The first half");
    let chat = json!({"messages": [{"role": "user", "content": "go on"}]});
    let chat = bench.post("/v1/chat/completions", &chat).await;
    assert_eq!(chat.status, 200, "{chat:?}");
    let chat = chat.json();
    assert_eq!(chat["choices"][0]["message"]["content"], "The first half");
    assert_eq!(chat["choices"][0]["finish_reason"], "error");
    assert_eq!(chat["hermes"]["error_code"], "upstream_failed");
    let run = bench.post("/v1/runs", &json!({"input": "go"})).await.json();
    let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
    bench.get(&format!("{path}/events")).await;
    let run = bench.get(&path).await.json();
    assert_eq!((run["status"].as_str(), run["output"].as_str()), (Some("failed"), Some("The first half")));
}

#[tokio::test]
async fn a_failure_is_not_kept_under_a_key_although_it_had_text() {
    let bench = ServerFixture::with(cut()).await;
    for asked in 1..=2 {
        let body = json!({"input": "go"}).to_string();
        let answer = bench.send("POST", "/v1/responses", &[("Idempotency-Key", "k")], body.as_bytes()).await;
        assert_eq!(answer.json()["status"], "failed");
        bench.until_asked(asked).await;
    }
}

/// The setting for clients made for earlier releases.
const OLDER_ITEMS: &str = "platforms: {api_server: {extra: {tool_items: function_call}}}\n";

#[tokio::test]
async fn a_stream_tells_of_tools_in_a_form_clients_do_not_act_on() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say("done".into()),
        _ => ModelStep::Call("risky", "{}"),
    });
    let bench = ServerFixture::with(model).await;
    let events = bench.post("/v1/responses", &json!({"input": "go", "stream": true})).await.events();
    let whole = &events.last().unwrap()["response"];
    assert_eq!(whole["output"][0]["type"], "mcp_call");
    assert_eq!(whole["output"][0]["output"], "Unavailable");
    assert!(!json!(events).to_string().contains("function_call"));
}

#[tokio::test]
async fn a_stream_tells_calls_and_their_results_and_keeps_to_its_ids_and_places() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say("done".into()),
        _ => ModelStep::Call("risky", "{\"a\": 1}"),
    });
    let bench = ServerFixture::configured(model, OLDER_ITEMS, &[("API_SERVER_KEY", KEY)]).await;
    let events = bench.post("/v1/responses", &json!({"input": "go", "stream": true})).await.events();
    let of = |kind: &str| -> Vec<Value> {
        let kind = format!("response.output_item.{kind}");
        events.iter().filter(|event| event["type"] == kind.as_str()).cloned().collect()
    };
    let (added, done) = (of("added"), of("done"));
    let kinds = ["function_call", "function_call_output", "message"];
    for (at, kind) in kinds.into_iter().enumerate() {
        assert_eq!(
            (added[at]["item"]["type"].as_str(), added[at]["output_index"].as_u64()),
            (Some(kind), Some(at as u64))
        );
        assert_eq!(
            (done[at]["item"]["type"].as_str(), done[at]["output_index"].as_u64()),
            (Some(kind), Some(at as u64))
        );
        assert_eq!(added[at]["item"]["id"], done[at]["item"]["id"]);
    }
    assert_eq!(done[0]["item"]["arguments"], "{\"a\": 1}");
    assert_eq!(done[0]["item"]["status"], "completed");
    assert_eq!(done[1]["item"]["call_id"], done[0]["item"]["call_id"]);
    assert_eq!(done[1]["item"]["output"][0], json!({"type": "input_text", "text": "Unavailable"}));
    let whole = &events.last().unwrap()["response"];
    let items: Vec<Value> = done.iter().map(|event| event["item"].clone()).collect();
    assert_eq!(whole["output"], json!(items));
    let spoken: Vec<_> =
        events.iter().filter(|event| event["type"] == "response.output_text.delta").collect();
    assert!(
        spoken.iter().all(|event| event["item_id"] == done[2]["item"]["id"] && event["output_index"] == 2)
    );
}

#[tokio::test]
async fn a_history_the_client_tells_is_read_and_what_is_wrong_is_named() {
    let bench = ServerFixture::with(counting()).await;
    let told = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    for path in ["/v1/responses", "/v1/runs"] {
        let field = |body: Value| async move { body };
        let body = field(json!({"input": "x", "conversation_history": "no"})).await;
        let wrong = bench.post(path, &body).await;
        assert_eq!(
            (wrong.status, wrong.json()["error"]["param"].as_str()),
            (400, Some("conversation_history"))
        );
        let body = json!({"input": "x", "conversation_history": [{"role": 7, "content": "a"}]});
        let wrong = bench.post(path, &body).await.json();
        assert_eq!(wrong["error"]["param"], "conversation_history[0].role");
        let wrong = bench.post(path, &json!({"input": "x", "previous_response_id": 7})).await;
        assert_eq!(
            (wrong.status, wrong.json()["error"]["param"].as_str()),
            (400, Some("previous_response_id"))
        );
        let missing = bench.post(path, &json!({"input": "x", "previous_response_id": "resp_no"})).await;
        assert_eq!(missing.status, 404, "{missing:?}");
    }
    let body = json!({"input": "go", "conversation_history": told});
    assert_eq!(text(&bench.post("/v1/responses", &body).await.json()), "go after 2");
}

#[tokio::test]
async fn a_stream_that_is_ended_by_the_server_says_so() {
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": "go"}], "stream": true})),
        ("/v1/responses", json!({"input": "go", "stream": true})),
    ] {
        let bench = ServerFixture::with(TestModel::new(|_, _| ModelStep::Hang)).await;
        let mut stream = bench.open("POST", path, &[], body.to_string().as_bytes()).await;
        bench.until_asked(1).await;
        bench.stop().await;
        let answer = read_all(&mut stream).await;
        let events = answer.events();
        let error = |event: &Value| event["error"]["code"] == "interrupted";
        let failed = |event: &Value| {
            event["type"] == "response.failed" && event["response"]["error"]["code"] == "interrupted"
        };
        assert!(events.iter().any(|event| error(event) || failed(event)), "{}", answer.body);
    }
}

#[tokio::test]
async fn what_the_tools_of_a_client_came_to_is_part_of_the_conversation() {
    for path in ["/v1/responses", "/v1/chat/completions"] {
        let bench = ServerFixture::with(TestModel::echo()).await;
        let body = match path {
            "/v1/responses" => json!({"input": [
                {"role": "user", "content": "what is the weather?"},
                {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\":\"Oslo\"}"},
                {"type": "function_call_output", "call_id": "c1", "output": "rain"},
            ]}),
            _ => json!({"messages": [
                {"role": "user", "content": "what is the weather?"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            ]}),
        };
        let answer = bench.post(path, &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let request = bench.model.requests.lock().unwrap()[0].clone();
        let said: Vec<String> =
            request.messages.iter().map(|message| message.content.text().into_owned()).collect();
        assert_eq!(
            said,
            ["what is the weather?", "[Called weather({\"city\":\"Oslo\"})]", "[Result of c1]\nrain"],
            "{path}"
        );
    }
}
