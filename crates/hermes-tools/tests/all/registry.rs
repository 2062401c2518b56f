use std::path::Path;
use std::sync::Arc;

use hermes_config::{Config, Env};
use hermes_tools::{Availability, BUILT_IN_TOOLS, PlatformToolsets, ToolRegistry, ToolSelection};
use hermes_types::{
    BoxFuture, Concurrency, RawJson, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome,
    ToolRole, ToolSpec, ToolUser,
};
use serde_json::json;

use super::support::{UnattendedUser, run};

/// A tool that returns its arguments.
struct Echo(ToolSpec, &'static str);

fn echo(toolset: &'static str, name: &str) -> Arc<dyn Tool> {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let spec = ToolSpec {
        name: name.to_owned(),
        description: format!("Says {name}. And more."),
        parameters: RawJson::from_value(&parameters),
    };
    Arc::new(Echo(spec, toolset))
}

impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        ToolDescriptor { toolset: self.1, ..ToolDescriptor::unknown(&self.0.name) }
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { ToolOutcome::done(serde_json::to_string(&call.arguments).unwrap()) })
    }
}

fn registry() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for (toolset, name) in [
        ("web", "web_search"),
        ("terminal", "terminal"),
        ("file", "read_file"),
        ("browser", "browser_click"),
        ("todo", "todo"),
        ("messaging", "send_message"),
        ("moa", "mixture_of_agents"),
        ("mcp-github", "mcp_github_issues"),
        ("my-plugin", "plug"),
    ] {
        registry.register(echo(toolset, name));
    }
    registry.register_checked(echo("homeassistant", "ha_get_state"), Arc::new(|| false));
    registry.register_checked(echo("rl", "rl_list_runs"), Arc::new(|| panic!("a check that fails")));
    registry
}

fn names(selection: &ToolSelection) -> Vec<String> {
    registry().select(selection, None).registry.names().map(str::to_owned).collect()
}

fn platform(yaml: &str) -> Vec<String> {
    let config = Config::from_text(Path::new("config.yaml"), yaml, &Env::default());
    names(&ToolSelection::Platform(PlatformToolsets::of(&config, "cli")))
}

#[test]
fn lists_choose_toolsets() {
    let only = |names: &[&str]| ToolSelection::Only(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(names(&only(&["file", "todo"])), ["read_file", "todo"]);
    assert_eq!(
        names(&only(&["browser"])),
        ["browser_click", "web_search"],
        "the browser brings the search along"
    );
    assert_eq!(names(&only(&["github"])), ["mcp_github_issues"]);
    assert_eq!(registry().select(&only(&["file", "nonsense"]), None).unknown, ["nonsense"]);
    let all = names(&only(&["all"]));
    assert!(all.is_sorted() && all.len() == 9, "what cannot be used is left out: {all:?}");
    assert_eq!(
        names(&only(&["hermes-cli"])).len(),
        8,
        "a preset has the tools of servers, and none of plugins and training"
    );
}

#[test]
fn tools_are_withheld_from_those_who_must_not_have_them() {
    let mut registry = ToolRegistry::new();
    registry.register(Arc::new(hermes_tools::ClarifyTool::new()));
    registry.register(Arc::new(hermes_tools::TodoTool::new()));
    let all = ToolSelection::Only(vec!["all".to_owned()]);
    for (user, expected) in [(None, 2), (Some(ToolUser::Job), 1), (Some(ToolUser::Subagent), 1)] {
        assert_eq!(registry.select(&all, user).registry.tools().len(), expected, "{user:?}");
    }
    let withheld = |user: ToolUser| -> Vec<&str> {
        let is_service = |tool: &&ToolDescriptor<'_>| tool.role == Some(ToolRole::MemoryService);
        let mut services = BUILT_IN_TOOLS.iter().filter(is_service);
        assert!(services.all(|tool| tool.is_withheld_from(user)), "memory services are for persons");
        let others = BUILT_IN_TOOLS.iter().filter(|tool| !is_service(tool));
        others.filter(|tool| tool.is_withheld_from(user)).map(|tool| tool.name).collect()
    };
    assert_eq!(withheld(ToolUser::Job), ["clarify", "cronjob", "send_message"]);
    assert_eq!(
        withheld(ToolUser::Subagent),
        ["execute_code", "memory", "clarify", "cronjob", "send_message", "delegate_task"]
    );
}

#[test]
fn a_platform_gets_what_its_list_says() {
    let all = platform("{}");
    assert!(all.contains(&"send_message".to_owned()) && all.contains(&"plug".to_owned()), "{all:?}");
    assert!(!all.contains(&"mixture_of_agents".to_owned()), "off for fresh installs: {all:?}");
    let some = platform("platform_toolsets: {cli: [hermes-cli, file]}");
    assert_eq!(
        some,
        ["mcp_github_issues", "plug", "read_file"],
        "a preset does not bring back what was switched off"
    );
    let none =
        platform("platform_toolsets: {cli: [file, no_mcp]}\nknown_plugin_toolsets: {cli: [my-plugin]}");
    assert_eq!(none, ["read_file"]);
    let github = "mcp_servers: {github: {command: x}, other: {command: y}}\n";
    for name in ["github", "mcp-github", "mcp_github", "mcp__github"] {
        let listed = platform(&format!("{github}platform_toolsets: {{cli: [file, {name}]}}"));
        assert_eq!(listed, ["mcp_github_issues", "plug", "read_file"], "{name}");
    }
    let other = platform(&format!("{github}platform_toolsets: {{cli: [hermes-cli, other]}}"));
    assert!(!other.contains(&"mcp_github_issues".to_owned()), "only the named server: {other:?}");
    assert_eq!(platform("platform_toolsets: {cli: []}"), Vec::<String>::new());
    assert_eq!(platform("platform_toolsets: {cli: [moa, no_mcp]}"), ["mixture_of_agents", "plug"]);
}

#[test]
fn arguments_arrive_in_their_kinds() {
    let registry = registry();
    let outcome =
        run(registry.find("todo").unwrap().as_ref(), "t", json!({"n": "42", "other": "7"}), &UnattendedUser);
    assert_eq!(outcome.content, r#"{"n":42,"other":"7"}"#);
}

#[test]
fn lists_for_people() {
    let registry = registry();
    let tools = registry.list_tools();
    assert_eq!((tools[0].name.as_str(), tools[0].summary.as_str()), ("web_search", "Says web_search."));
    let unavailable =
        |name: &str| tools.iter().any(|t| t.name == name && t.availability == Availability::Unavailable);
    assert!(unavailable("ha_get_state") && unavailable("rl_list_runs") && !unavailable("todo"));
    let sets = registry.list_toolsets();
    let set = |name: &str| sets.iter().find(|set| set.name == name);
    assert_eq!(set("browser").unwrap().tools, ["browser_click", "web_search"]);
    assert_eq!(set("rl").unwrap().availability, Availability::Unavailable);
    assert!(set("vision").is_none() && set("my-plugin").is_some());
}

#[test]
fn a_name_is_taken_over_in_its_place() {
    let mut registry = registry();
    let before = registry.list_tools().len();
    registry.register(echo("todo", "todo"));
    assert_eq!(registry.list_tools().len(), before);
    assert_eq!(registry.names().filter(|name| *name == "todo").count(), 1);
}

#[test]
fn descriptions_stay_within_the_prompt_budget() {
    let folder = super::support::FileFixture::with(&[]);
    let mut registry = ToolRegistry::file_tools(&folder.files);
    registry.register(Arc::new(hermes_tools::TodoTool::new()));
    registry.register(Arc::new(hermes_tools::ClarifyTool::new()));
    let clock = Arc::new(super::support::FixedClock);
    let search = hermes_tools::SessionSearchTool::new(None, clock, hermes_types::CivilTime::utc);
    registry.register(Arc::new(search));
    let mut total = 0;
    for tool in registry.tools() {
        let spec = tool.spec();
        let schema = spec.parameters.to_value();
        assert!(schema["properties"].as_object().is_some_and(|known| !known.is_empty()), "{}", spec.name);
        let tokens = (spec.name.len() + spec.description.len() + spec.parameters.as_str().len()) / 4;
        assert!(tokens <= 240, "{}: {tokens} tokens", spec.name);
        total += tokens;
    }
    assert!(total <= 1200, "{total} tokens");
}

#[test]
fn each_tool_says_how_it_goes_beside_others() {
    let folder = super::support::FileFixture::with(&[]);
    let registry = ToolRegistry::file_tools(&folder.files);
    let manner = |tool: &str, arguments: serde_json::Value| {
        let manner = registry.find(tool).unwrap().call_policy(arguments.as_object().unwrap());
        (manner.concurrency, manner.path)
    };
    let path = Some("a".to_owned());
    assert_eq!(manner("read_file", json!({"path": "a"})), (Concurrency::Parallel, path.clone()));
    assert_eq!(manner("search_files", json!({"path": "a"})), (Concurrency::Parallel, None));
    assert_eq!(manner("write_file", json!({"path": "a"})), (Concurrency::DisjointPaths, path.clone()));
    assert_eq!(manner("patch", json!({"path": "a"})), (Concurrency::DisjointPaths, path));
    assert_eq!(manner("patch", json!({"mode": "patch", "patch": "x"})), (Concurrency::Sequential, None));
    assert_eq!(manner("write_file", json!({})), (Concurrency::Sequential, None));
}
