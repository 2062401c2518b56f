//! Tests of `/v1/chat/completions`.

use hermes_types::{FinishReason, ModelError, Role, TurnState};
use serde_json::{Value, json};

use super::support::{ModelStep, ServerFixture, TestModel};

fn say(text: &str) -> serde_json::Value {
    json!({"model": "hermes-agent", "messages": [{"role": "user", "content": text}]})
}

#[tokio::test]
async fn a_plain_answer_has_the_shape_clients_know() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let answer = bench.post("/v1/chat/completions", &say("hello")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert!(
        body["id"].as_str().unwrap().starts_with("chatcmpl-") && body["id"].as_str().unwrap().len() == 38
    );
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "hermes-agent");
    let message =
        json!({"role": "assistant", "content": "you said: hello", "refusal": null, "annotations": []});
    assert_eq!(body["choices"][0]["message"], message);
    assert_eq!(body["choices"][0]["logprobs"], Value::Null);
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"], json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}));
    assert!(answer.header("x-hermes-session-id").unwrap().starts_with("api-"));
    bench.stop().await;
}

#[tokio::test]
async fn system_text_is_layered_and_history_is_what_the_client_says() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let long = "x".repeat(200_008);
    let body = json!({"messages": [
        {"role": "system", "content": "Speak like a pirate."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two", "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}]},
        {"role": "tool", "content": "found it", "tool_call_id": "x"},
        {"role": "user", "content": [{"type": "text", "text": "three"}, {"type": "input_text", "text": long}]},
    ]});
    assert_eq!(bench.post("/v1/chat/completions", &body).await.status, 200);
    let request = bench.model.requests.lock().unwrap()[0].clone();
    assert!(request.system.ends_with("Speak like a pirate.\nBe brief."), "{}", request.system);
    let texts: Vec<_> = request.messages.iter().map(|m| (m.role, m.content.text().into_owned())).collect();
    assert_eq!(texts[0], (Role::User, "one".into()));
    assert_eq!(texts[1], (Role::Assistant, "two\n[Called look_up({})]".into()));
    assert_eq!(
        texts[2],
        (Role::User, "[Result of x]\nfound it".into()),
        "what the client's tools found is kept"
    );
    assert!(texts[3].1 == format!("three\n{long}"), "nothing is shortened");
}

#[tokio::test]
async fn a_conversation_that_is_told_again_goes_on_in_its_session_and_others_do_not_mix() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let first = bench.post("/v1/chat/completions", &say("hello")).await;
    let session = first.header("x-hermes-session-id").unwrap().to_owned();
    let again = json!({"messages": [
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "you said: hello"},
        {"role": "user", "content": "more"},
    ]});
    let second = bench.post("/v1/chat/completions", &again).await;
    assert_eq!(second.header("x-hermes-session-id").unwrap(), session);
    assert_eq!(bench.store.transcript(&session.as_str().into()).await.unwrap().len(), 4);
    let repeated = bench.post("/v1/chat/completions", &say("hello")).await;
    assert_ne!(
        repeated.header("x-hermes-session-id").unwrap(),
        session,
        "a new conversation, begun the same way"
    );
    let edited = json!({"messages": [
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "something else"},
        {"role": "user", "content": "more"},
    ]});
    let third = bench.post("/v1/chat/completions", &edited).await;
    let other = third.header("x-hermes-session-id").unwrap();
    assert_ne!(other, session);
    let rows = bench.store.transcript(&other.into()).await.unwrap();
    assert_eq!(rows.len(), 4, "what was said elsewhere is part of it");
}

#[tokio::test]
async fn a_named_session_keeps_its_own_history() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{said} after {}", request.messages.len() - 1))
    });
    let bench = ServerFixture::with(model).await;
    let header = [("X-Hermes-Session-Id", "my-talk")];
    let send = |text: &str| say(text).to_string();
    let one = bench.send("POST", "/v1/chat/completions", &header, send("one").as_bytes()).await;
    assert_eq!(one.json()["choices"][0]["message"]["content"], "one after 0");
    let two = bench.send("POST", "/v1/chat/completions", &header, send("two").as_bytes()).await;
    assert_eq!(two.json()["choices"][0]["message"]["content"], "two after 2");
    assert_eq!(two.header("x-hermes-session-id"), Some("my-talk"));
    for bad in ["../etc", "a b", &"x".repeat(257), "a/b"] {
        let answer = bench
            .send("POST", "/v1/chat/completions", &[("X-Hermes-Session-Id", bad)], send("x").as_bytes())
            .await;
        assert_eq!(answer.status, 400, "{bad}");
        assert_eq!(answer.json()["error"]["param"], "X-Hermes-Session-Id");
    }
}

#[tokio::test]
async fn a_stream_has_role_words_finish_and_done() {
    let bench = ServerFixture::with(TestModel::new(|_, _| ModelStep::Say("three little words".into()))).await;
    let mut body = say("go");
    body["stream"] = json!(true);
    let answer = bench.post("/v1/chat/completions", &body).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert!(answer.body.trim_end().ends_with("data: [DONE]"), "{}", answer.body);
    let events = answer.events();
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant"}));
    let words: String =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(words, "three little words");
    let last = events.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["usage"]["total_tokens"], 15);
    assert!(
        events
            .iter()
            .all(|event| event["object"] == "chat.completion.chunk" && event["id"] == events[0]["id"])
    );
}

#[tokio::test]
async fn a_stream_tells_which_tools_run() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say("done".into()),
        _ => ModelStep::Call("risky", "{}"),
    });
    let bench = ServerFixture::with(model).await;
    let mut body = say("go");
    body["stream"] = json!("true");
    let answer = bench.post("/v1/chat/completions", &body).await;
    assert_eq!(answer.body.matches("event: hermes.tool.progress").count(), 2, "{}", answer.body);
    let progress: Vec<_> = answer.events().into_iter().filter(|event| event["tool"] == "risky").collect();
    assert_eq!(progress[0]["status"], "running");
    assert_eq!(progress[1]["status"], "completed");
    assert_eq!(progress[0]["toolCallId"], progress[1]["toolCallId"]);
    assert_eq!(progress[0]["choices"], json!([]), "clients that do not know the name find no choice in it");
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_turn() {
    for stream in [false, true] {
        let bench = ServerFixture::with(TestModel::new(|_, _| ModelStep::Hang)).await;
        let mut body = say("for ever");
        body["stream"] = json!(stream);
        let connection = bench.open("POST", "/v1/chat/completions", &[], body.to_string().as_bytes()).await;
        bench.until_asked(1).await;
        let turn = bench.store.running_turns().await.unwrap()[0].id.clone();
        drop(connection);
        bench.until_idle().await;
        let ended = bench.store.turn(&turn).await.unwrap().unwrap();
        assert_eq!(ended.state, TurnState::Interrupted, "stream: {stream}");
    }
}

#[tokio::test]
async fn what_fails_upstream_has_an_honest_status() {
    let give_up = |status| ModelError::GiveUp { message: "no".into(), status };
    for (error, status, code) in [
        (give_up(Some(401)), 502, "upstream_authentication_failed"),
        (give_up(Some(400)), 502, "upstream_rejected"),
        (give_up(Some(429)), 429, "upstream_rate_limit"),
        (give_up(Some(500)), 502, "upstream_failed"),
        (give_up(None), 502, "upstream_failed"),
        (ModelError::Configure("no key".into()), 503, "provider_not_configured"),
        (ModelError::Budget("the limit of 1 dollar is reached".into()), 429, "insufficient_quota"),
        (ModelError::DeadlinePassed("slow".into()), 504, "upstream_timeout"),
    ] {
        let failure = error.clone();
        let bench = ServerFixture::with(TestModel::new(move |_, _| ModelStep::Fail(failure.clone()))).await;
        let answer = bench.post("/v1/chat/completions", &say("hello")).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (status, Some(code)),
            "{error:?}"
        );
        let mut body = say("hello again");
        body["stream"] = json!(true);
        let answer = bench.post("/v1/chat/completions", &body).await;
        let events = answer.events();
        assert!(events.iter().any(|event| event["error"]["code"] == code), "{}", answer.body);
        assert!(answer.body.contains("[DONE]"));
    }
}

#[tokio::test]
async fn the_same_key_runs_once_even_at_the_same_time() {
    let bench = ServerFixture::with(TestModel::new(|said, _| ModelStep::Gate(format!("ran {said}")))).await;
    let body = say("pay").to_string();
    let headers = [("Idempotency-Key", "order-1")];
    let (one, two) =
        tokio::join!(bench.send("POST", "/v1/chat/completions", &headers, body.as_bytes()), async {
            bench.until_asked(1).await;
            bench.model.gate.add_permits(5);
            bench.send("POST", "/v1/chat/completions", &headers, body.as_bytes()).await
        });
    assert_eq!(one.json()["choices"][0]["message"], two.json()["choices"][0]["message"]);
    assert_eq!(one.json()["id"], two.json()["id"], "a repeat is the same answer");
    assert_eq!(bench.model.questions(), ["pay"]);
    let other = say("other").to_string();
    let three = bench.send("POST", "/v1/chat/completions", &headers, other.as_bytes()).await;
    assert_eq!(
        three.json()["choices"][0]["message"]["content"],
        "ran other",
        "another request under the same key"
    );
}

#[tokio::test]
async fn beyond_the_bound_the_answer_is_to_come_back_later() {
    let bench = ServerFixture::configured(
        TestModel::new(|_, _| ModelStep::Gate("late".into())),
        "gateway: {api_server: {max_concurrent_runs: 1}}\n",
        &[("API_SERVER_KEY", super::support::KEY)],
    )
    .await;
    let body = say("first").to_string();
    let mut first = bench.open("POST", "/v1/chat/completions", &[], body.as_bytes()).await;
    bench.until_asked(1).await;
    let second = bench.post("/v1/chat/completions", &say("second")).await;
    assert_eq!((second.status, second.header("retry-after")), (429, Some("1")));
    bench.model.gate.add_permits(5);
    assert_eq!(super::support::read_all(&mut first).await.status, 200);
}

#[tokio::test]
async fn an_answer_a_filter_has_cut_is_told_as_such() {
    let bench =
        ServerFixture::with(TestModel::new(|_, _| ModelStep::Ends("I would", FinishReason::ContentFilter)))
            .await;
    let plain = bench.post("/v1/chat/completions", &say("go")).await.json();
    assert_eq!(plain["choices"][0]["finish_reason"], "content_filter");
    let stream = json!({"messages": [{"role": "user", "content": "go"}], "stream": true});
    let events = bench.post("/v1/chat/completions", &stream).await.events();
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "content_filter");
    let kept = bench.post("/v1/responses", &json!({"input": "go"})).await.json();
    assert_eq!(kept["incomplete_details"], json!({"reason": "content_filter"}));
}
