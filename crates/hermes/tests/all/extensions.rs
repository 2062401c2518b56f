//! Shell hooks and plugins, in turns of the built binary.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use hermes_testkit::{ModelScript, ModelServer, TempHome, TempHomeBuilder};
use serde_json::{Value, json};

use super::support::{hermes, run_in};

/// The scripts of a test, beside its home.
struct Scripts(tempfile::TempDir);

impl Scripts {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Writes a program that keeps its input in `NAME.in` and answers with a text.
    fn hook(&self, name: &str, answer: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\ncat >'{path}.in'\ncat <<'END'\n{answer}\nEND\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    fn input(&self, name: &str) -> Option<Value> {
        let text = fs::read_to_string(self.path(&format!("{name}.in"))).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }
}

fn server(script: &str) -> ModelServer {
    ModelServer::start_blocking(ModelScript::from_yaml("extensions", script).unwrap()).unwrap()
}

fn builder(server: &ModelServer, more: &Value) -> TempHomeBuilder {
    let mut config = json!({
        "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
        "terminal": {"sandbox": "off"},
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TempHome::builder()
        .config_yaml(&config.to_string())
        .env_file("HERMES_PYTHON=/usr/bin/python3\nSECRET_KEY=abc\n")
}

const ONE_COMMAND: &str =
    "replies: [{tool: {name: terminal, arguments: {command: echo ran}}}, {repeat: forever, text: done}]";

fn result(server: &ModelServer, request: usize) -> String {
    server.request(request).tool_results().pop().map(|(_, text)| text).unwrap_or_default()
}

#[test]
fn a_hook_runs_only_after_its_approval_and_blocks_a_tool() {
    let (server, scripts) = (server(ONE_COMMAND), Scripts::new());
    let guard = scripts.hook("guard", r#"{"decision": "block", "reason": "no shell today"}"#);
    let others = scripts.hook("others", "{}");
    let hooks = json!({"hooks": {"pre_tool_call": [
        {"matcher": "terminal|patch", "command": format!("{guard} --strict")},
        {"matcher": "term", "command": others},
    ]}});
    let home = builder(&server, &hooks).build().unwrap();
    let seen = hermes(&home, &["-Q", "-q", "go"]);
    assert!(seen.contains("does not run, because nobody approved it"), "{seen}");
    assert!(result(&server, 1).contains("ran"), "{}", result(&server, 1));
    assert!(scripts.input("guard").is_none());
    let second = self::server(ONE_COMMAND);
    let config = home.read("config.yaml").replace(&server.base_url(), &second.base_url());
    fs::write(home.config_yaml(), config).unwrap();
    let seen = hermes(&home, &["--accept-hooks", "-Q", "-q", "go"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(result(&second, 1), r#"{"error":"no shell today"}"#);
    let input = scripts.input("guard").unwrap();
    assert_eq!(input["hook_event_name"], "pre_tool_call");
    assert_eq!(
        (&input["tool_name"], &input["tool_input"]["command"]),
        (&json!("terminal"), &json!("echo ran"))
    );
    assert!(input["session_id"].as_str().unwrap().len() > 8 && input["cwd"].is_string(), "{input}");
    assert!(input["extra"]["task_id"].is_string(), "{input}");
    assert!(scripts.input("others").is_none(), "a matcher has to match the whole name");
    let stored: Value = serde_json::from_str(&home.read("shell-hooks-allowlist.json")).unwrap();
    assert_eq!(stored["approvals"].as_array().unwrap().len(), 2);
    assert_eq!(stored["approvals"][0]["event"], "pre_tool_call");
    assert!(stored["approvals"][0]["script_mtime_at_approval"].is_string());
}

#[test]
fn a_changed_script_needs_another_approval() {
    let scripts = Scripts::new();
    let log = scripts.hook("log", "");
    let config = json!({"model": {"provider": "offline"}, "hooks": {"on_session_end": {"command": log}}});
    let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
    hermes(&home, &["--accept-hooks", "-Q", "-q", "hello"]);
    let input = scripts.input("log").unwrap();
    assert_eq!((&input["extra"]["completed"], &input["extra"]["platform"]), (&json!(true), &json!("cli")));
    assert!(hermes(&home, &["hooks", "list"]).contains("approved 20"));
    assert!(hermes(&home, &["hooks", "doctor"]).contains("1 hook(s), no problems."));
    scripts.hook("log", "{}");
    fs::remove_file(scripts.path("log.in")).unwrap();
    let seen = hermes(&home, &["-Q", "-q", "hello"]);
    assert!(seen.contains("its script was changed after its approval"), "{seen}");
    assert!(scripts.input("log").is_none());
    assert!(hermes(&home, &["hooks", "doctor"]).starts_with("exit 1"));
    let seen = hermes(&home, &["hooks", "revoke", &log]);
    assert!(seen.starts_with("exit 0") && seen.contains("Removed 1 approval"), "{seen}");
    assert!(hermes(&home, &["hooks"]).contains("not approved"));
    assert!(hermes(&home, &["hooks", "revoke", &log]).starts_with("exit 1"));
}

#[test]
fn what_hooks_add_stands_beside_the_users_words_and_is_not_stored() {
    let (server, scripts) = (server(ONE_COMMAND), Scripts::new());
    let hooks = json!({"hooks_auto_accept": true, "hooks": {
        "pre_llm_call": [{"command": scripts.hook("context", r#"{"context": "It rains in Oslo."}"#)}],
        "transform_terminal_output": [{"command": scripts.hook("output", r#"{"output": "other output"}"#)}],
        "transform_tool_result": [{"command": scripts.hook("shorten", r#"{"result": "shortened"}"#)}],
        "transform_llm_output": [{"command": scripts.hook("polish", r#"{"text": "polished"}"#)}],
        "post_llm_call": [{"command": scripts.hook("after", "")}],
        "post_tool_call": [{"command": scripts.hook("slow", ""), "timeout": 5}],
        "pre_api_request": [{"command": scripts.hook("request", "not JSON")}],
        "on_session_start": [{"command": "/no/such/program"}],
    }});
    let home = builder(&server, &hooks).build().unwrap();
    let seen = hermes(&home, &["-Q", "-q", "go on"]);
    assert!(seen.starts_with("exit 0") && seen.contains("polished") && !seen.contains("done"), "{seen}");
    let first = server.request(0).last_user_text().unwrap();
    assert!(first.starts_with("go on") && first.contains("It rains in Oslo."), "{first}");
    assert!(!server.request(0).system_text().contains("It rains"), "the prompt stays as it was");
    assert_eq!(result(&server, 1), "shortened");
    assert_eq!(scripts.input("output").unwrap()["extra"]["output"].as_str().map(str::trim), Some("ran"));
    let before = scripts.input("shorten").unwrap()["extra"]["result"].as_str().unwrap().to_owned();
    assert!(before.contains("other output"), "each sees what the one before made of it: {before}");
    assert_eq!(scripts.input("slow").unwrap()["extra"]["status"], "done");
    assert_eq!(scripts.input("after").unwrap()["extra"]["assistant_response"], "polished");
    assert_eq!(scripts.input("request").unwrap()["extra"]["model"], "test-model");
    let session = seen.rsplit("session_id: ").next().unwrap().trim().to_owned();
    let exported = hermes(&home, &["sessions", "export", "-", "--session-id", &session]);
    assert!(
        exported.contains("go on") && exported.contains("polished") && !exported.contains("It rains"),
        "{exported}"
    );
}

#[test]
fn a_hook_that_hangs_or_floods_costs_its_time_limit() {
    let (server, scripts) = (server(ONE_COMMAND), Scripts::new());
    let hang = scripts.path("hang");
    fs::write(&hang, "#!/bin/sh\nyes '{\"decision\": \"block\"}' &\nsleep 1000\n").unwrap();
    fs::set_permissions(&hang, fs::Permissions::from_mode(0o700)).unwrap();
    let hooks = json!({"hooks_auto_accept": true, "hooks": {
        "pre_tool_call": [{"command": hang, "timeout": 0.5}],
    }});
    let home = builder(&server, &hooks).build().unwrap();
    let seen = hermes(&home, &["-Q", "-q", "go"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(result(&server, 1).contains("ran"), "a hook that fails changes nothing");
}

#[test]
fn hooks_are_tried_by_hand() {
    let scripts = Scripts::new();
    let guard = scripts.hook("guard", r#"{"action": "block", "message": "not here"}"#);
    let config = json!({"model": {"provider": "offline"}, "hooks": {
        "pre_tool_call": [{"matcher": "terminal", "command": guard}],
        "pre_tool_cal": [], "post_llm_call": [{"timeout": 3}],
    }});
    let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
    let seen = hermes(&home, &["hooks", "test", "pre_tool_call", "--for-tool", "terminal"]);
    assert!(seen.contains("blocks the tool: not here"), "{seen}");
    assert!(
        hermes(&home, &["hooks", "test", "pre_tool_call", "--for-tool", "patch"]).contains("No hook runs")
    );
    let payload = scripts.path("payload.json");
    fs::write(&payload, r#"{"tool_name": "terminal", "args": {"command": "mine"}}"#).unwrap();
    hermes(&home, &["hooks", "test", "pre_tool_call", "--payload-file", &payload]);
    assert_eq!(scripts.input("guard").unwrap()["tool_input"]["command"], "mine");
    let seen = hermes(&home, &["hooks", "doctor"]);
    assert!(seen.contains("did you mean `pre_tool_call`") && seen.contains("has no `command`"), "{seen}");
    assert!(hermes(&home, &["hooks", "test", "nothing"]).contains("there is no event `nothing`"));
}

/// The manifest and the code of a plugin with everything.
const MANIFEST: &str =
    "name: weather\nversion: 1.10\ndescription: Weather of cities\nrequires_env: [WEATHER_KEY]\n";
const CODE: &str = r#"
import json, os
print("loading")
def tool(args, **context):
    if args.get("city") == "nowhere":
        raise ValueError("no such city")
    if args.get("city") == "crash":
        os._exit(3)
    seen = {"key": os.environ.get("WEATHER_KEY"), "other": os.environ.get("SECRET_KEY"), "context": sorted(context)}
    return json.dumps({"city": args["city"], **seen})
async def later(text):
    return "later: " + text
def register(ctx):
    schema = {"name": "weather", "description": "Weather of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    ctx.register_tool("weather", "weather", schema, tool, emoji="⛅")
    ctx.register_hook("pre_tool_call", lambda tool_name, args, **_: {"action": "block", "message": "plugin says no"} if args.get("city") == "forbidden" else None)
    ctx.register_hook("post_tool_call", lambda tool_name: open(os.environ["HERMES_HOME"] + "/seen", "a").write(tool_name + "\n"))
    ctx.register_hook("on_session_end", broken)
    ctx.register_command("forecast", later, description="Ask for a forecast", aliases=["fc"])
    ctx.register_cli_command("rain", help="rain", setup_fn=lambda p: p.add_argument("--mm", type=int), handler_fn=lambda a: print("rain", a.mm))
    ctx.register_platform("x")
def broken(**_):
    raise RuntimeError("broken hook")
"#;

fn weather(server: &ModelServer, more: &Value) -> TempHome {
    let home = builder(server, more)
        .file("plugins/weather/plugin.yaml", MANIFEST)
        .file("plugins/weather/__init__.py", CODE);
    home.build().unwrap()
}

fn calls(cities: &[&str]) -> String {
    let replies: Vec<Value> =
        cities.iter().map(|city| json!({"tool": {"name": "weather", "arguments": {"city": city}}})).collect();
    let last = json!({"repeat": "forever", "text": "done"});
    json!({"replies": replies.into_iter().chain([last]).collect::<Vec<_>>()}).to_string()
}

#[test]
fn a_plugin_adds_tools_and_hooks_after_it_is_enabled() {
    let server = server(&calls(&["Oslo", "nowhere", "forbidden", "crash", "Rome"]));
    let home = weather(&server, &json!({}));
    fs::write(home.env_file(), "HERMES_PYTHON=/usr/bin/python3\nSECRET_KEY=abc\nWEATHER_KEY=sunny\n")
        .unwrap();
    let seen = hermes(&home, &["plugins"]);
    assert!(seen.contains("weather  1.10     not enabled  local"), "{seen}");
    assert!(hermes(&home, &["plugins", "enable", "weather"]).contains("runs outside the sandbox"));
    let seen = hermes(&home, &["-Q", "-q", "go"]);
    assert!(seen.starts_with("exit 0") && seen.contains("done"), "{seen}");
    assert!(server.request(0).tool_names().contains(&"weather".to_owned()));
    let first: Value = serde_json::from_str(&result(&server, 1)).unwrap();
    assert_eq!(first["key"], "sunny");
    assert_eq!(first["other"], Value::Null, "a variable that the manifest does not name");
    assert_eq!(first["context"], json!(["session_id", "task_id"]));
    assert_eq!(result(&server, 2), r#"{"error": "ValueError: no such city"}"#);
    assert_eq!(result(&server, 3), r#"{"error":"plugin says no"}"#);
    assert!(result(&server, 4).contains("has ended"), "{}", result(&server, 4));
    assert!(result(&server, 5).contains("Rome"), "it was started again: {}", result(&server, 5));
    assert_eq!(home.read("seen").lines().count(), 5);
    let seen = hermes(&home, &["rain", "--mm", "3"]);
    assert!(seen.starts_with("exit 0") && seen.contains("rain 3"), "a command of the shell: {seen}");
    let seen = hermes(&home, &["rian"]);
    assert!(seen.starts_with("exit 2") && seen.contains("unknown command 'hermes rian'"), "{seen}");
    assert!(hermes(&home, &["plugins", "disable", "weather"]).starts_with("exit 0"));
    assert!(hermes(&home, &["plugins"]).contains("not enabled"));
}

#[test]
fn a_plugin_without_its_variables_or_an_interpreter_says_so() {
    let server = server("replies: [{repeat: forever, text: done}]");
    let home = weather(&server, &json!({"plugins": {"enabled": ["weather"]}}));
    let seen = hermes(&home, &["plugins", "list"]);
    assert!(seen.contains("tools are off until these are set in .env: WEATHER_KEY"), "{seen}");
    assert!(hermes(&home, &["-Q", "-q", "go"]).starts_with("exit 0"));
    assert!(!server.request(0).tool_names().contains(&"weather".to_owned()));
    fs::write(home.env_file(), "HERMES_PYTHON=/no/python\nWEATHER_KEY=x\n").unwrap();
    let seen = hermes(&home, &["-q", "go"]);
    assert!(seen.starts_with("exit 0") && seen.contains("done"), "{seen}");
    assert!(seen.contains("plugins need Python, and there is no `/no/python`"), "{seen}");
    fs::write(home.env_file(), "HERMES_PYTHON=/usr/bin/python3\nHERMES_SAFE_MODE=1\nWEATHER_KEY=x\n")
        .unwrap();
    assert!(hermes(&home, &["plugins"]).contains("HERMES_SAFE_MODE is set: no plugin is loaded."));
    assert!(!hermes(&home, &["-q", "go"]).contains("plugin"), "nothing is loaded");
}

#[test]
fn plugins_of_a_project_are_loaded_only_where_that_is_enabled() {
    let server = server("replies: [{repeat: forever, text: done}]");
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().join(".hermes/plugins/local");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.yaml"), "description: of the project\n").unwrap();
    let code = "def register(ctx):\n    ctx.register_tool('here', 'here', {}, lambda args, **_: 'yes')\n";
    fs::write(folder.join("__init__.py"), code).unwrap();
    let home = builder(&server, &json!({"plugins": {"enabled": ["local"]}})).build().unwrap();
    run_in(project.path(), home.path(), &["-Q", "-q", "go"]);
    assert!(!server.request(0).tool_names().contains(&"here".to_owned()));
    let variables = "HERMES_PYTHON=/usr/bin/python3\nHERMES_ENABLE_PROJECT_PLUGINS=1\n";
    fs::write(home.env_file(), variables).unwrap();
    run_in(project.path(), home.path(), &["-Q", "-q", "go"]);
    assert!(server.request(1).tool_names().contains(&"here".to_owned()));
}

#[test]
fn plugins_are_installed_updated_and_removed() {
    let home = TempHome::builder().config_yaml("# mine\nmodel: {provider: offline}\n").build().unwrap();
    let source = tempfile::tempdir().unwrap();
    let repository = source.path().join("hermes-weather");
    fs::create_dir_all(&repository).unwrap();
    let write = |name: &str, text: &str| fs::write(repository.join(name), text).unwrap();
    write("plugin.yaml", MANIFEST);
    write("__init__.py", CODE);
    write("settings.yaml.example", "a: 1\n");
    write("after-install.md", "Set WEATHER_KEY next.");
    let git = |arguments: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(arguments)
            .current_dir(&repository)
            .output()
            .unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    };
    let folder = repository.display().to_string();
    let seen = hermes(&home, &["plugins", "install", &folder]);
    assert!(seen.starts_with("exit 0") && seen.contains("Set WEATHER_KEY next."), "{seen}");
    assert!(seen.contains("hermes plugins enable weather"), "nobody is asked: {seen}");
    assert_eq!(home.read("plugins/weather/settings.yaml"), "a: 1\n");
    assert!(hermes(&home, &["plugins", "update", "weather"]).contains("not installed from a git repository"));
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let url = format!("file://{folder}");
    assert!(hermes(&home, &["plugins", "install", &url]).contains("--force replaces it"));
    let seen = hermes(&home, &["plugins", "install", &url, "--force", "--enable"]);
    assert!(seen.starts_with("exit 0") && seen.contains("weather is enabled"), "{seen}");
    assert!(home.read("config.yaml").starts_with("# mine\n") && home.read("config.yaml").contains("weather"));
    assert!(hermes(&home, &["plugins", "update", "weather"]).contains("is up to date"));
    write("new.py", "");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "second"]);
    assert!(hermes(&home, &["plugins", "update", "weather"]).contains("was updated"));
    assert!(home.join("plugins/weather/new.py").exists());
    assert!(hermes(&home, &["plugins", "remove", "weather"]).contains("Removed weather."));
    assert!(!home.join("plugins/weather").exists() && !home.read("config.yaml").contains("weather"));
    write("plugin.yaml", "name: ../evil\n");
    let seen = hermes(&home, &["plugins", "install", &folder]);
    assert!(seen.starts_with("exit 1") && seen.contains("cannot be the name of a plugin"), "{seen}");
    std::os::unix::fs::symlink("/etc/passwd", repository.join("link")).unwrap();
    write("plugin.yaml", MANIFEST);
    assert!(hermes(&home, &["plugins", "install", &folder]).contains("is a link or a device"));
    let left: Vec<_> = fs::read_dir(home.join("plugins")).unwrap().collect();
    assert!(left.is_empty(), "nothing stays behind: {left:?}");
}
