//! Runs the scenario files in `tests/scenarios`: user input, model replies, and the expected results. The format is
//! in `tests/scenarios/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hermes_testkit::{ModelScript, ModelServer, RecordedRequest, TempHome};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;

/// Limits the scenarios of a file that run at the same time.
const AT_ONCE: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// A sentence that says what must hold.
    #[serde(rename = "scenario")]
    sentence: String,
    /// The rule the scenario covers, for the reader.
    #[serde(default)]
    rule: String,
    /// Further keys of config.yaml.
    #[serde(default)]
    config: Value,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The files of the home before the first step.
    #[serde(default)]
    home: BTreeMap<String, Text>,
    /// The files of the working folder before the first step.
    #[serde(default)]
    folder: BTreeMap<String, Text>,
    #[serde(default)]
    model: ModelScript,
    steps: Vec<Step>,
    #[serde(default)]
    then: Then,
}

/// A text, or one that is repeated to make it long.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Once(String),
    Repeated { text: String, times: usize },
}

impl Text {
    fn whole(&self) -> String {
        match self {
            Self::Once(text) => text.clone(),
            Self::Repeated { text, times } => text.repeat(*times),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The files of the home and the working folder that change before this step.
    #[serde(default)]
    home: BTreeMap<String, Text>,
    #[serde(default)]
    folder: BTreeMap<String, Text>,
    /// A question; later ones continue the conversation.
    say: Option<Text>,
    /// A complete command line instead of a question.
    run: Option<Vec<String>>,
    #[serde(default)]
    flags: Vec<String>,
    /// The folder below the working folder to run in.
    #[serde(default, rename = "in")]
    within: String,
    /// The standard input.
    #[serde(default)]
    input: String,
    /// Begins a new conversation.
    #[serde(default)]
    anew: bool,
    /// Shows the full output of the turn, not only the answer.
    #[serde(default)]
    loud: bool,
    /// Presses Ctrl-C when the model has reached this gate.
    interrupt_at: Option<String>,
    /// Kills the process when the model has reached this gate.
    kill_at: Option<String>,
    answer: Option<String>,
    error: Option<String>,
    #[serde(default)]
    exit: i32,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Then {
    /// The number of model requests.
    requests: Option<usize>,
    /// The expected contents of some requests, by number from 1.
    request: BTreeMap<usize, Expected>,
    /// The transcript of the newest session.
    rows: Option<Vec<String>>,
    /// The number of sessions.
    sessions: Option<usize>,
    /// The fields of the newest and of the oldest session, by JSON pointer.
    newest: BTreeMap<String, Value>,
    oldest: BTreeMap<String, Value>,
    /// The files of the working folder; `None` means absent.
    files: BTreeMap<String, Option<String>>,
    home: BTreeMap<String, Option<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    /// All messages except the system prompt.
    messages: Option<Vec<String>>,
    /// The last message.
    last: Option<String>,
    system: Option<String>,
    not_in_system: Option<String>,
    /// The texts that must not appear in the body.
    lacks: Vec<String>,
    tools: Option<Vec<String>>,
    /// The fields of the body, by JSON pointer.
    body: BTreeMap<String, Value>,
}

/// Runs every scenario of a file and reports all failures.
pub(crate) fn play_file(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(format!("{name}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let scenarios: Vec<Scenario> =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(!scenarios.is_empty(), "{name} holds no scenario");
    let scenarios = &scenarios;
    // Scenarios mostly wait for the disk, so several run at the same time.
    let failed: String = std::thread::scope(|scope| {
        let players: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                scope.spawn(move || scenarios.iter().skip(first).step_by(AT_ONCE).map(report).collect())
            })
            .collect();
        players.into_iter().map(|player| player.join().unwrap()).collect::<Vec<String>>().concat()
    });
    assert!(failed.is_empty(), "{failed}");
}

/// Runs a scenario and describes its failures; returns an empty text on success.
fn report(scenario: &Scenario) -> String {
    let complaints = play(scenario);
    if complaints.is_empty() {
        return String::new();
    }
    format!("\n=== {} ({})\n{}\n", scenario.sentence, scenario.rule, complaints.join("\n"))
}

fn play(scenario: &Scenario) -> Vec<String> {
    let server = ModelServer::start_blocking(scenario.model.clone()).unwrap();
    let home = TempHome::builder().config_yaml(&config(scenario, &server)).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    put(home.path(), &scenario.home);
    put(folder.path(), &scenario.folder);
    let mut complaints = Vec::new();
    let mut begun = false;
    for (at, step) in scenario.steps.iter().enumerate() {
        for (name, text) in &step.home {
            let mut names = [name.clone()];
            fill_in(&mut names, folder.path(), home.path());
            put_file(&home.path().join(&names[0]), text);
        }
        put(folder.path(), &step.folder);
        let mut arguments = arguments(step, begun);
        fill_in(&mut arguments, folder.path(), home.path());
        begun |= step.say.is_some();
        let mut child = start(&folder.path().join(&step.within), home.path(), &scenario.env, &arguments);
        // A program that does not read its input may have closed it.
        let _ = child.stdin.take().unwrap().write_all(step.input.as_bytes());
        let output = end(child, step, &server);
        let mut expected = [step.answer.clone().unwrap_or_default(), step.error.clone().unwrap_or_default()];
        fill_in(&mut expected, folder.path(), home.path());
        check_step(at + 1, step, &expected, &output, &mut complaints);
    }
    check_then(&scenario.then, &server, home.path(), folder.path(), &mut complaints);
    if !complaints.is_empty() {
        complaints
            .extend(server.requests().iter().map(|request| format!("  was asked: {:#?}", messages(request))));
    }
    complaints
}

fn config(scenario: &Scenario, server: &ModelServer) -> String {
    let mut config = serde_json::json!({
        "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
        // What is installed on the machine does not change what is offered.
        "browser": {"engine": "no-browser"},
    });
    merge(&mut config, &scenario.config);
    // JSON is YAML.
    serde_json::to_string_pretty(&config).unwrap().replace("{server}", &server.base_url())
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from.clone(),
    }
}

fn put(folder: &Path, files: &BTreeMap<String, Text>) {
    for (name, text) in files {
        put_file(&folder.join(name), text);
    }
}

fn put_file(path: &Path, text: &Text) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text.whole()).unwrap();
}

fn arguments(step: &Step, begun: bool) -> Vec<String> {
    if let Some(run) = &step.run {
        return run.clone();
    }
    let mut arguments = vec!["chat".to_owned()];
    if begun && !step.anew {
        arguments.push("-c".to_owned());
    }
    arguments.extend(step.flags.iter().cloned());
    if !step.loud {
        arguments.push("-Q".to_owned());
    }
    if let Some(say) = &step.say {
        arguments.extend(["-q".to_owned(), say.whole()]);
    }
    arguments
}

/// Replaces `{newest}` and `{oldest}` by the ids of those sessions.
fn fill_in(texts: &mut [String], folder: &Path, home: &Path) {
    if !texts.iter().any(|text| text.contains("{newest}") || text.contains("{oldest}")) {
        return;
    }
    let sessions = exported(folder, home);
    let id = |session: Option<&Value>| session.and_then(|session| session["id"].as_str()).unwrap().to_owned();
    let (newest, oldest) = (id(newest(&sessions)), id(oldest(&sessions)));
    for text in texts {
        *text = text.replace("{newest}", &newest).replace("{oldest}", &oldest);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
fn start(folder: &Path, home: &Path, env: &BTreeMap<String, String>, arguments: &[String]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("HERMES_HOME", home)
        .env("HOME", home.join("user"))
        .env("PATH", "/usr/bin:/bin")
        .env("TZ", "UTC")
        .envs(env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(child: Child, step: &Step, server: &ModelServer) -> Output {
    let pid = Pid::from_child(&child);
    if let Some(gate) = &step.interrupt_at {
        server.wait_until_at_blocking(gate, 1);
        kill_process(pid, Signal::INT).unwrap();
    }
    if let Some(gate) = &step.kill_at {
        server.wait_until_at_blocking(gate, 1);
        kill_process(pid, Signal::KILL).unwrap();
    }
    child.wait_with_output().unwrap()
}

fn check_step(
    at: usize,
    step: &Step,
    [answer, error]: &[String; 2],
    output: &Output,
    complaints: &mut Vec<String>,
) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let killed = step.kill_at.is_some();
    let code = output.status.code().unwrap_or(-1);
    if !killed && code != step.exit {
        complaints.push(format!("step {at}: exit {code}, expected {}; stderr: {stderr}", step.exit));
    }
    if step.answer.is_some() && !fits(answer, stdout.trim()) {
        complaints.push(format!("step {at}: answered\n  {}\nexpected\n  {answer}", stdout.trim()));
    }
    if step.error.is_some() && !fits(error, stderr.trim()) {
        complaints.push(format!("step {at}: on standard error\n  {}\nexpected\n  {error}", stderr.trim()));
    }
    if stderr.contains("panicked at") {
        complaints.push(format!("step {at}: it panicked: {stderr}"));
    }
}

fn check_then(then: &Then, server: &ModelServer, home: &Path, folder: &Path, complaints: &mut Vec<String>) {
    if let Some(count) = then.requests
        && server.request_count() != count
    {
        complaints.push(format!("{} requests, expected {count}", server.request_count()));
    }
    for (number, expected) in &then.request {
        if *number == 0 || *number > server.request_count() {
            complaints.push(format!("there is no request {number}"));
            continue;
        }
        check_request(*number, expected, &server.request(number - 1), complaints);
    }
    check_sessions(then, folder, home, complaints);
    for (base, files) in [(folder, &then.files), (home, &then.home)] {
        for (name, expected) in files {
            check_file(&base.join(name), expected.as_deref(), complaints);
        }
    }
}

fn check_sessions(then: &Then, folder: &Path, home: &Path, complaints: &mut Vec<String>) {
    let unasked = then.sessions.is_none() && then.rows.is_none();
    if unasked && then.newest.is_empty() && then.oldest.is_empty() {
        return;
    }
    let exported = exported(folder, home);
    if let Some(count) = then.sessions
        && exported.len() != count
    {
        complaints.push(format!("{} sessions, expected {count}", exported.len()));
    }
    let (newest, oldest) = (newest(&exported), oldest(&exported));
    for (which, fields, session) in
        [("the newest session", &then.newest, newest), ("the oldest session", &then.oldest, oldest)]
    {
        check_fields(which, fields, session.unwrap_or(&Value::Null), complaints);
    }
    if let Some(rows) = &then.rows {
        let found: Vec<String> = newest
            .and_then(|session| session["messages"].as_array())
            .into_iter()
            .flatten()
            .map(render)
            .collect();
        check_list("the transcript", rows, &found, complaints);
    }
}

fn newest(sessions: &[Value]) -> Option<&Value> {
    sessions.iter().max_by(|a, b| started(a).total_cmp(&started(b)))
}

fn oldest(sessions: &[Value]) -> Option<&Value> {
    sessions.iter().min_by(|a, b| started(a).total_cmp(&started(b)))
}

fn started(session: &Value) -> f64 {
    session["started_at"].as_f64().unwrap_or_default()
}

/// Returns every session with its messages, as the program exports them.
fn exported(folder: &Path, home: &Path) -> Vec<Value> {
    let arguments = ["sessions", "export", "-"].map(str::to_owned);
    let output = start(folder, home, &BTreeMap::new(), &arguments).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn check_request(
    number: usize,
    expected: &Expected,
    request: &RecordedRequest,
    complaints: &mut Vec<String>,
) {
    let found = messages(request);
    if let Some(messages) = &expected.messages {
        check_list(&format!("request {number}"), messages, &found, complaints);
    }
    if let Some(last) = &expected.last {
        let found = found.last().map(String::as_str).unwrap_or_default();
        if !fits(last, found) {
            complaints.push(format!("request {number} ends with\n  {found}\nexpected\n  {last}"));
        }
    }
    let system = request.system_text();
    if let Some(text) = &expected.system
        && !fits(text, system.trim())
    {
        complaints.push(format!("request {number} has the system text\n  {system}\nexpected\n  {text}"));
    }
    if let Some(text) = &expected.not_in_system
        && system.contains(text.as_str())
    {
        complaints.push(format!("request {number} has {text:?} in its system text"));
    }
    if let Some(tools) = &expected.tools
        && request.tool_names() != *tools
    {
        complaints.push(format!("request {number} offers {:?}, expected {tools:?}", request.tool_names()));
    }
    let body = request.json();
    for text in expected.lacks.iter().filter(|text| body.to_string().contains(text.as_str())) {
        complaints.push(format!("request {number} has {text:?} in its body"));
    }
    check_fields(&format!("request {number}"), &expected.body, body, complaints);
}

fn check_fields(what: &str, expected: &BTreeMap<String, Value>, found: &Value, complaints: &mut Vec<String>) {
    for (pointer, value) in expected {
        let found = found.pointer(pointer).unwrap_or(&Value::Null);
        let same = match (value, found) {
            (Value::String(pattern), Value::String(text)) => fits(pattern, text),
            _ => found == value,
        };
        if !same {
            complaints.push(format!("{what} has {found} at {pointer}, expected {value}"));
        }
    }
}

fn check_list(what: &str, expected: &[String], found: &[String], complaints: &mut Vec<String>) {
    let same = expected.len() == found.len()
        && expected.iter().zip(found).all(|(pattern, text)| fits(pattern, text));
    if !same {
        complaints.push(format!("{what} is\n  {found:#?}\nexpected\n  {expected:#?}"));
    }
}

fn check_file(path: &Path, expected: Option<&str>, complaints: &mut Vec<String>) {
    let found = std::fs::read_to_string(named(path)).ok();
    let same = match (expected, &found) {
        (None, None) => true,
        (Some(pattern), Some(text)) => fits(pattern, text),
        _ => false,
    };
    if !same {
        complaints.push(format!("{} is {found:?}, expected {expected:?}", PathBuf::from(path).display()));
    }
}

/// Returns the file whose name matches, where `*` stands for anything.
fn named(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains('*') {
        return path.to_owned();
    }
    let entries = std::fs::read_dir(path.parent().unwrap()).into_iter().flatten().flatten();
    let mut fitting = entries.filter(|entry| fits(name, &entry.file_name().to_string_lossy()));
    fitting.next().map_or_else(|| path.to_owned(), |entry| entry.path())
}

/// Returns the messages of a request without the system prompt, one line each.
fn messages(request: &RecordedRequest) -> Vec<String> {
    let Some(list) = request.try_json().and_then(|body| body.get("messages")).and_then(Value::as_array)
    else {
        return Vec::new();
    };
    list.iter().filter(|message| message["role"] != "system").map(render).collect()
}

/// Formats a message: `user: hello`, `assistant: text [read_file({"path":"a"})]`, `tool: result`.
fn render(message: &Value) -> String {
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let mut line = format!("{}: {text}", message["role"].as_str().unwrap_or("?")).trim_end().to_owned();
    let calls: Vec<String> = message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|call| {
            let function = &call["function"];
            format!(
                "{}({})",
                function["name"].as_str().unwrap_or("?"),
                function["arguments"].as_str().unwrap_or("?")
            )
        })
        .collect();
    if !calls.is_empty() {
        let _ = write!(line, " [{}]", calls.join(", "));
    }
    line
}

/// Tells whether a text matches a pattern in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let pattern = pattern.trim_end();
    let text = text.trim_end();
    let parts: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[test]
fn patterns_fit_as_people_expect() {
    assert!(fits("hello", "hello\n") && fits("*", "") && fits("a*c", "abc") && fits("*b*", "abc"));
    assert!(!fits("a*d", "abc") && !fits("ab", "abc") && !fits("a*bc*bc", "abc"));
}

macro_rules! files {
    ($($name:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            play_file(stringify!($name));
        }
    )* };
}

files!(
    loop_basics,
    cut_off_answers,
    empty_answers,
    tool_calls,
    tool_execution,
    scripts,
    long_results,
    step_budget,
    interrupts,
    provider_errors,
    reasoning,
    prompt,
    context_files,
    memory,
    compression,
    sessions,
    past_sessions,
    reading,
    writing,
    patching,
    fence,
    searching,
    todo_and_clarify,
    toolsets,
    command_line,
    spending,
    other_wires,
);

/// Checks that no scenario file is left out.
#[test]
fn every_file_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let source = include_str!("scenario.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let list = source.split("files!(").nth(1).unwrap().split(')').next().unwrap();
            assert!(
                list.split(',').any(|known| known.trim() == name),
                "{name}.yaml is not in the list of files"
            );
        }
    }
}
