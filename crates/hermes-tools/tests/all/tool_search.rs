//! Tools of servers that are fetched on demand.

use std::sync::Arc;

use hermes_text::estimate_tokens;
use hermes_tools::{ToolRegistry, ToolSearchMode, ToolSearchOptions, defer_tools};
use hermes_types::{
    BoxFuture, Cancel, Deadline, Frontend, RawJson, SessionId, TaskId, Tool, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolSpec, TurnEvent, TurnId, UserAnswer, UserQuestion,
};
use serde_json::{Value, json};

const AUTO: ToolSearchOptions =
    ToolSearchOptions { mode: ToolSearchMode::Auto, budget: 4000, most_results: 20 };

/// A frontend without a person.
struct Nobody;

impl Frontend for Nobody {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

/// A tool of a server that repeats its arguments.
struct ServerTool {
    spec: ToolSpec,
    toolset: String,
}

impl ServerTool {
    fn port(server: &str, name: &str, description: &str) -> Arc<dyn Tool> {
        let schema = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
        let spec = ToolSpec {
            name: format!("mcp_{server}_{name}"),
            description: description.to_owned(),
            parameters: RawJson::from_value(&schema),
        };
        Arc::new(Self { spec, toolset: format!("mcp-{server}") })
    }
}

impl Tool for ServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        ToolDescriptor { toolset: &self.toolset, ..ToolDescriptor::unknown(&self.spec.name) }
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let said = json!({"tool": call.name, "arguments": call.arguments}).to_string();
        Box::pin(std::future::ready(ToolOutcome::done(said)))
    }
}

/// Returns a registry with five servers of thirty tools each, one of which is about tickets, and a small one.
fn many() -> ToolRegistry {
    let text = "Does one of the many things that this server can do, and says so at some length. ".repeat(4);
    let large = (0..5).flat_map(|server| {
        let text = text.clone();
        (0..30).map(move |tool| ServerTool::port(&format!("s{server}"), &format!("thing_{tool}"), &text))
    });
    let special = [
        ServerTool::port("s3", "create_ticket", "Opens a ticket in the tracker"),
        ServerTool::port("small", "ping", "Answers"),
    ];
    ToolRegistry::new().with_server_tools(large.chain(special).collect())
}

fn tokens(registry: &ToolRegistry) -> u64 {
    let of = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        estimate_tokens(&spec.name)
            + estimate_tokens(&spec.description)
            + estimate_tokens(spec.parameters.as_str())
    };
    registry.tools().iter().map(of).sum()
}

async fn call(registry: &ToolRegistry, name: &str, arguments: Value) -> Value {
    let clock = hermes_testkit::TestClock::new();
    let tool = registry.find(name).unwrap();
    let call = ToolInvocation {
        id: hermes_types::CallId::generate(),
        name: name.to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
        session: SessionId::new("s"),
        turn: TurnId::generate(),
        task: TaskId::new("t"),
    };
    let cancel = Cancel::new();
    let deadline = Deadline::after(&clock, std::time::Duration::from_mins(1));
    let context = ToolContext { frontend: &Nobody, cancel: &cancel, deadline, spawn: None, turn_model: None };
    serde_json::from_str(&tool.run(&call, context).await.content).unwrap()
}

#[tokio::test]
async fn a_hundred_and_fifty_tools_take_a_small_part_of_the_prompt() {
    let all = many();
    assert!(tokens(&all) > 14_000, "{}", tokens(&all));
    let offered = defer_tools(&all, AUTO);
    assert!(tokens(&offered) < 6_000, "{}", tokens(&offered));
    let names: Vec<&str> = offered.names().collect();
    assert!(names.contains(&"mcp_small_ping"), "a small server stays: {names:?}");
    assert!(!names.contains(&"mcp_s3_create_ticket"));
    let listed = &offered.find("tool_search").unwrap().spec().description;
    assert!(listed.contains("mcp_s3_create_ticket") && !listed.contains("mcp_small_ping"), "{listed}");
    assert_eq!(listed, &defer_tools(&many(), AUTO).find("tool_search").unwrap().spec().description);
}

#[tokio::test]
async fn a_deferred_tool_is_found_described_and_called() {
    let offered = defer_tools(&many(), AUTO);
    let found = call(&offered, "tool_search", json!({"query": "open ticket", "limit": 3})).await;
    assert_eq!(found["tools"][0]["name"], "mcp_s3_create_ticket", "{found}");
    let described = call(&offered, "tool_describe", json!({"name": "mcp_s3_create_ticket"})).await;
    assert_eq!(described["parameters"]["properties"]["count"]["type"], "integer");
    let arguments = json!({"name": "mcp_s3_create_ticket", "arguments": {"count": "3"}});
    let answered = call(&offered, "tool_call", arguments).await;
    assert_eq!(answered, json!({"tool": "mcp_s3_create_ticket", "arguments": {"count": 3}}));
    for name in ["tool_describe", "tool_call"] {
        let unknown = call(&offered, name, json!({"name": "nothing", "arguments": {}})).await;
        assert!(unknown["error"].as_str().unwrap().contains("Unknown tool: nothing"), "{unknown}");
    }
}

#[test]
fn a_call_by_its_own_name_reaches_a_deferred_tool() {
    let offered = defer_tools(&many(), AUTO);
    let arguments = json!({"count": 1}).as_object().unwrap().clone();
    let upgraded = offered.find("tool_call").unwrap().upgrade_legacy_call("mcp_s3_create_ticket", &arguments);
    assert_eq!(
        Value::from(upgraded.unwrap()),
        json!({"name": "mcp_s3_create_ticket", "arguments": {"count": 1}})
    );
}

#[test]
fn the_mode_decides_what_is_deferred() {
    let all = many();
    let count = |mode, budget| defer_tools(&all, ToolSearchOptions { mode, budget, ..AUTO }).tools().len();
    assert_eq!(count(ToolSearchMode::Never, 0), 152);
    assert_eq!(count(ToolSearchMode::Always, 1_000_000), 3);
    assert_eq!(count(ToolSearchMode::Auto, 1_000_000), 152);
}
