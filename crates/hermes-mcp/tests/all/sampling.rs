//! Requests of servers to the user's model.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_mcp::ToolNameStyle;
use hermes_types::{
    BoxFuture, Completion, Cost, DeltaSink, FinishReason, Message, Model, ModelError, ModelRequest,
    SideModel, ToolCall,
};
use serde_json::{Value, json};

use super::support::{Fixture, one_tool};

/// A model that answers with a fixed message and records what it is asked.
struct RecordingModel {
    answer: Message,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Model for RecordingModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        self.asked.lock().unwrap().push(request.clone());
        let completion = Completion {
            message: self.answer.clone(),
            usage: None,
            cost: Cost::UNKNOWN,
            model: request.model.clone(),
            provider: "test".to_owned(),
            response_id: None,
            provider_items: None,
        };
        Box::pin(std::future::ready(Ok(completion)))
    }

    fn context_window(&self, _: &str) -> u64 {
        100_000
    }
}

/// A server that samples, and what came of it.
struct SamplingFixture {
    fixture: Fixture,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl SamplingFixture {
    async fn new(more: &str, answer: Message, request: Value) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let model = Arc::new(RecordingModel { answer, asked: asked.clone() });
        let side = SideModel { model, name: "side-model".to_owned(), timeout: Duration::from_secs(30) };
        let fixture = Fixture::with(Some(side), ToolNameStyle::default());
        fixture.write("tools.json", &one_tool("sample", ""));
        fixture.write("sampling.json", &request);
        fixture.connect(vec![fixture.scripted(more)]).await;
        Self { fixture, asked }
    }

    /// Lets the server ask, and returns what it got.
    async fn sample(&self) -> Value {
        self.fixture.call("mcp_scripted_sample", json!({})).await;
        serde_json::from_str(&self.fixture.read("sampled")).unwrap()
    }
}

fn request() -> Value {
    json!({
        "systemPrompt": "Be brief",
        "maxTokens": 9999,
        "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
        "modelPreferences": {"hints": [{"name": "hinted"}]},
    })
}

#[tokio::test]
async fn a_server_asks_the_model_within_its_limits() {
    let sampling = SamplingFixture::new("", Message::assistant("hi"), request()).await;
    let answer = sampling.sample().await;
    assert_eq!(answer["result"]["content"], json!({"type": "text", "text": "hi"}));
    assert_eq!(answer["result"]["stopReason"], "endTurn");
    assert!(sampling.fixture.read("heard").contains(r#""sampling":{"tools""#), "the ability is announced");
    let asked = sampling.asked.lock().unwrap();
    assert_eq!((asked[0].model.as_str(), asked[0].max_tokens), ("hinted", Some(4096)));
    assert_eq!((asked[0].system.as_str(), asked[0].messages.len()), ("Be brief", 1));
}

#[tokio::test]
async fn what_the_user_did_not_allow_is_refused_with_the_reason() {
    let call = Message::assistant("").with_calls(vec![ToolCall::new(Some("c1"), "f", "not json")]);
    for (more, answer, times, wanted) in [
        ("    sampling: {allowed_models: [only-this]}\n", Message::assistant("x"), 1, "not allowed"),
        ("    sampling: {max_rpm: '1'}\n", Message::assistant("x"), 2, "rate limit"),
        ("    sampling: {max_tool_rounds: 0}\n", call.clone(), 1, "disabled"),
        ("    sampling: {max_tool_rounds: 1.0}\n", call, 2, "loop limit"),
        ("", Message::assistant(""), 1, "empty response"),
    ] {
        let sampling = SamplingFixture::new(more, answer, request()).await;
        let mut last = Value::Null;
        for _ in 0..times {
            last = sampling.sample().await;
        }
        assert_eq!(last["error"]["code"], -1, "{more} {last}");
        assert!(last["error"]["message"].as_str().unwrap().contains(wanted), "{more} {last}");
    }
}

#[tokio::test]
async fn calls_of_tools_and_a_cut_answer_are_told_apart() {
    let call = Message::assistant("").with_calls(vec![ToolCall::new(Some("c1"), "f", "not json")]);
    let mut cut = Message::assistant("half");
    cut.finish_reason = Some(FinishReason::Length);
    for (answer, stop, content) in [
        (
            call,
            "toolUse",
            json!({"type": "tool_use", "id": "c1", "name": "f", "input": {"_raw": "not json"}}),
        ),
        (cut, "maxTokens", json!({"type": "text", "text": "half"})),
    ] {
        let sampling = SamplingFixture::new("    sampling: {model: mine}\n", answer, request()).await;
        let answer = sampling.sample().await;
        assert_eq!(answer["result"]["stopReason"], stop);
        assert_eq!(answer["result"]["content"], content);
        assert_eq!(sampling.asked.lock().unwrap()[0].model, "mine", "the user's choice wins");
    }
}

#[tokio::test]
async fn a_server_that_may_not_ask_is_told_so() {
    let sampling =
        SamplingFixture::new("    sampling: {enabled: no}\n", Message::assistant("x"), request()).await;
    assert!(!sampling.fixture.read("heard").contains(r#""sampling""#));
    assert_eq!(sampling.sample().await["error"]["code"], -1);
    assert!(sampling.asked.lock().unwrap().is_empty());
}
