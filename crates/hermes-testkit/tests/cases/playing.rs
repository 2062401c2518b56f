//! Which reply answers which request, and what is recorded.

use hermes_testkit::script::{ReplyCondition, ScriptFallback};
use hermes_testkit::{ModelScript, ModelServer, RequestOutcome, ScriptedReply, Wire, http_get};
use serde_json::{Map, Value, json};

use super::{CHAT, MESSAGES, RESPONSES, ask, post};

fn content(server: &ModelServer, body: &Value) -> String {
    let answer = post(server, CHAT, body).json();
    answer["choices"][0]["message"]["content"].as_str().unwrap_or("-").to_owned()
}

#[test]
fn replies_play_in_order_and_repeat() {
    let script = ModelScript::new()
        .reply(ScriptedReply::text("a").repeat(2))
        .reply(ScriptedReply::text("b"))
        .reply(ScriptedReply::text("c").forever());
    let server = ModelServer::start_blocking(script).unwrap();
    let said: Vec<String> = (0..5).map(|_| content(&server, &ask("hi"))).collect();
    assert_eq!(said, ["a", "a", "b", "c", "c"]);
    server.assert_finished();
    server.assert_requests(5);
}

#[test]
fn conditions_pick_replies_out_of_order() {
    let script = ModelScript::new()
        .reply(ScriptedReply::text("title").when_user_contains("title").forever())
        .reply(ScriptedReply::text("first"))
        .reply(ScriptedReply::text("result").when_tool_result("call_1"))
        .reply(ScriptedReply::text("second"));
    let server = ModelServer::start_blocking(script).unwrap();
    assert_eq!(content(&server, &ask("hi")), "first");
    assert_eq!(content(&server, &ask("make a title")), "title");
    assert_eq!(content(&server, &ask("hi")), "second");
    let with_result = json!({"messages": [{"role": "user", "content": "hi"},
        {"role": "tool", "tool_call_id": "call_1", "content": "out"}]});
    assert_eq!(content(&server, &with_result), "result");
    server.assert_finished();
}

#[test]
fn every_condition_can_fail_and_hold() {
    let body = json!({"model": "m1", "stream": false, "max_tokens": 5, "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "look here"}]},
        {"role": "tool", "tool_call_id": "c9", "content": "tool says 7"}]});
    let some = |text: &str| Some(text.to_owned());
    let map = |name: &str, value: Value| Map::from_iter([(name.to_owned(), value)]);
    let yes = [
        ReplyCondition { user_contains: some("look"), ..ReplyCondition::new() },
        ReplyCondition { system_contains: some("brief"), ..ReplyCondition::new() },
        ReplyCondition { tool_result: some("any"), ..ReplyCondition::new() },
        ReplyCondition { tool_result_contains: some("says 7"), ..ReplyCondition::new() },
        ReplyCondition { model: some("m1"), ..ReplyCondition::new() },
        ReplyCondition { headers: map("content-type", json!("application/json")), ..ReplyCondition::new() },
        ReplyCondition { headers: map("Host", json!(true)), ..ReplyCondition::new() },
        ReplyCondition { headers: map("x-none", json!(false)), ..ReplyCondition::new() },
        ReplyCondition { path: some("/v1/*"), ..ReplyCondition::new() },
        ReplyCondition { method: some("post"), ..ReplyCondition::new() },
        ReplyCondition { wire: Some(Wire::Chat), ..ReplyCondition::new() },
        ReplyCondition { stream: Some(false), ..ReplyCondition::new() },
        ReplyCondition { body_contains: some("\"max_tokens\":5"), ..ReplyCondition::new() },
        ReplyCondition { json: map("/max_tokens", json!(5)), ..ReplyCondition::new() },
    ];
    let no = [
        ReplyCondition { user_contains: some("elsewhere"), ..ReplyCondition::new() },
        ReplyCondition { tool_result: some("c1"), ..ReplyCondition::new() },
        ReplyCondition { model: some("m"), ..ReplyCondition::new() },
        ReplyCondition { headers: map("x-none", json!(true)), ..ReplyCondition::new() },
        ReplyCondition { path: some("/v1"), ..ReplyCondition::new() },
        ReplyCondition { wire: Some(Wire::Messages), ..ReplyCondition::new() },
        ReplyCondition { stream: Some(true), ..ReplyCondition::new() },
        ReplyCondition { json: map("/max_tokens", json!(6)), ..ReplyCondition::new() },
    ];
    for (conditions, expected) in [(yes.to_vec(), "yes"), (no.to_vec(), "no")] {
        for when in conditions {
            let said = format!("{when}");
            let script = ModelScript::new()
                .reply(ScriptedReply::text("yes").when(when))
                .reply(ScriptedReply::text("no"));
            let server = ModelServer::start_blocking(script).unwrap();
            assert_eq!(content(&server, &body), expected, "{said}");
        }
    }
}

#[test]
fn an_unmatched_request_says_what_was_expected() {
    let script =
        ModelScript::new().reply(ScriptedReply::text("x").named("greeting").when_user_contains("hello"));
    let server = ModelServer::start_blocking(script).unwrap();
    let reply = post(&server, CHAT, &ask("goodbye"));
    assert_eq!(reply.status, 500);
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("reply 1 `greeting` for user_contains \"hello\""), "{message}");
    assert!(message.contains("request #0 POST /v1/chat/completions model=m user=\"goodbye\""), "{message}");
    assert_eq!(server.wait_for_end_blocking(0), RequestOutcome::Unmatched);
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.assert_finished()));
    let text = failure.unwrap_err().downcast_ref::<String>().unwrap().clone();
    assert!(text.contains("never given: reply 1 `greeting`"), "{text}");
}

#[test]
fn strict_order_lets_nothing_overtake() {
    let script = ModelScript::new()
        .strict()
        .reply(ScriptedReply::text("a").when_user_contains("one"))
        .reply(ScriptedReply::text("b"));
    let server = ModelServer::start_blocking(script).unwrap();
    assert_eq!(post(&server, CHAT, &ask("two")).status, 500);
    assert_eq!(content(&server, &ask("one")), "a");
    assert_eq!(content(&server, &ask("two")), "b");
}

#[test]
fn fallbacks_echo_or_reply() {
    let server = ModelServer::start_blocking(ModelScript::new().echo()).unwrap();
    assert_eq!(content(&server, &ask("say this")), "say this");
    let responses = post(&server, RESPONSES, &json!({"model": "m", "input": "and this"})).json();
    assert_eq!(responses["output"][0]["content"][0]["text"], "and this");
    let messages = post(
        &server,
        MESSAGES,
        &json!({"model": "m", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "that"}]}]}),
    );
    assert_eq!(messages.json()["content"][0]["text"], "that");
    let script = ModelScript::new().fallback(ScriptFallback::Reply(Box::new(ScriptedReply::text("default"))));
    let server = ModelServer::start_blocking(script).unwrap();
    assert_eq!(content(&server, &ask("x")), "default");
    assert_eq!(content(&server, &ask("y")), "default");
}

#[test]
fn other_paths_are_scripted_or_missing() {
    let script = ModelScript::new()
        .model("big", json!({"context_length": 200_000, "pricing": {"prompt": "0.1"}}))
        .reply(
            ScriptedReply::http(200, json!({"model_info": {"llama.context_length": 4096}}))
                .when_path("/api/show")
                .forever(),
        )
        .reply(ScriptedReply::text("chat"));
    let server = ModelServer::start_blocking(script).unwrap();
    let models = http_get(server.address(), "/v1/models").unwrap().json();
    assert_eq!(models["data"][0]["id"], "big");
    assert_eq!(models["data"][0]["context_length"], 200_000);
    assert_eq!(post(&server, "/api/show", &json!({})).json()["model_info"]["llama.context_length"], 4096);
    assert_eq!(http_get(server.address(), "/nowhere").unwrap().status, 404);
    assert_eq!(content(&server, &ask("hi")), "chat", "other paths use up no chat reply");
}

#[test]
fn requests_are_kept_as_they_came() {
    let server = ModelServer::start_blocking(ModelScript::always("ok")).unwrap();
    let body = json!({"model": "m", "messages": [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "hi"},
        {"role": "tool", "tool_call_id": "c1", "content": "result"}],
        "tools": [{"type": "function", "function": {"name": "terminal"}}]});
    post(&server, "/v1/chat/completions?x=1", &body);
    let request = server.request(0);
    assert_eq!(request.json(), &body);
    assert_eq!(request.body(), body.to_string().as_bytes());
    assert_eq!(
        (request.method(), request.path(), request.target()),
        ("POST", CHAT, "/v1/chat/completions?x=1")
    );
    assert_eq!(request.header("Content-Type"), Some("application/json"));
    assert_eq!(request.at("/messages/1/content"), "hi");
    assert_eq!(request.tool_result("c1"), "result");
    assert_eq!(request.tool_names(), ["terminal"]);
    assert_eq!(request.system_text(), "sys");
    assert_eq!(server.wait_for_end_blocking(0), RequestOutcome::Complete);
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.request(3)));
    let text = failure.unwrap_err().downcast_ref::<String>().unwrap().clone();
    assert!(text.contains("request #3 is not on record; 1 came:"), "{text}");
}

#[test]
fn only_the_newest_requests_are_kept_when_asked() {
    let server = ModelServer::builder(ModelScript::always("ok")).keep_requests(2).start_blocking().unwrap();
    for _ in 0..5 {
        post(&server, CHAT, &ask("hi"));
    }
    server.assert_requests(5);
    assert_eq!(
        server.requests().iter().map(hermes_testkit::RecordedRequest::sequence).collect::<Vec<_>>(),
        [3, 4]
    );
    assert_eq!(server.wait_for_end_blocking(4), RequestOutcome::Complete);
}
