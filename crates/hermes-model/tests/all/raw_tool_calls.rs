//! Calls in the text of a server that does not take them apart.

use std::time::Duration;

use hermes_model::client::RawToolCallModel;
use hermes_testkit::{ModelStep, TestModel};
use hermes_text::ToolCallParser;
use hermes_types::{Cancel, Deadline, Delta, FinishReason, Message, Model, ModelRequest, RawJson, ToolSpec};

fn request(tools: usize) -> ModelRequest {
    let spec = ToolSpec {
        name: "look".to_owned(),
        description: String::new(),
        parameters: RawJson::parse("{}".to_owned()).unwrap(),
    };
    ModelRequest {
        model: "m".to_owned(),
        system: String::new(),
        messages: vec![Message::user("q")],
        tools: vec![spec; tools].into(),
        max_tokens: None,
        temperature: None,
        effort: None,
        session: None,
        deadline: Deadline::after(
            &*std::sync::Arc::new(hermes_testkit::TestClock::new()),
            Duration::from_secs(9),
        ),
        cancel: Cancel::new(),
    }
}

async fn ask(answer: &str, tools: usize) -> (Message, Vec<Delta>) {
    let answer = answer.to_owned();
    let inner = TestModel::new(move |_, _| ModelStep::Say(answer.clone()));
    let model = RawToolCallModel::new(inner, ToolCallParser::named("hermes").unwrap());
    let mut deltas = Vec::new();
    let completion = model.complete(&request(tools), &mut |delta| deltas.push(delta)).await.unwrap();
    (completion.message, deltas)
}

fn shown(deltas: &[Delta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect()
}

#[tokio::test]
async fn calls_are_taken_out_of_the_text() {
    let (message, deltas) =
        ask("On it.\n<tool_call>{\"name\": \"look\", \"arguments\": {\"at\":1}}</tool_call>", 1).await;
    assert_eq!(message.content.text(), "On it.");
    let call = &message.tool_calls[0];
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("look", "{\"at\": 1}"));
    assert!(call.id.as_str().starts_with("call_"));
    assert_eq!(message.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(shown(&deltas), "On it.");
    assert!(deltas.contains(&Delta::ToolStarted { name: "look".to_owned() }));
}

#[tokio::test]
async fn a_broken_call_stays_a_text() {
    let text = "Hm <tool_call>{\"name\": \"look\", \"argum";
    let (message, deltas) = ask(text, 1).await;
    assert_eq!((message.content.text().as_ref(), message.tool_calls.len()), (text, 0));
    assert_eq!(shown(&deltas), text);
}

#[tokio::test]
async fn where_no_tools_are_offered_nothing_is_taken_out() {
    let text = "<tool_call>{\"name\": \"look\"}</tool_call>";
    let (message, deltas) = ask(text, 0).await;
    assert_eq!((message.content.text().as_ref(), shown(&deltas).as_str()), (text, text));
}
