//! Tests of `execute_code` with the Python of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{
    LocalHost, LocalOptions, OutputBounds, Sandbox, SandboxActivation, SandboxPaths, ScriptRunner, Variables,
};
use hermes_task::SystemClock;
use hermes_tools::{
    Approvals, CallableTools, CodeExecutionMode, CodeOptions, CommandApprovalMode, ExecuteCodeTool,
    FileGuard, FileTools, ProcessRegistry, SecretMasking, TaskShells, TerminalOptions, TerminalTool,
    ToolRegistry,
};
use hermes_types::{
    ApprovalDecision, BoxFuture, Cancel, Clock, Deadline, Frontend, OutcomeStatus, RawJson, Tool,
    ToolContext, ToolInvocation, ToolOutcome, ToolSpec, TurnEvent, UserAnswer, UserQuestion,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const LONG: Duration = Duration::from_mins(1);

/// A user who gives the same answer to every question and records the questions.
struct Person(ApprovalDecision, Mutex<Vec<String>>);

impl Frontend for Person {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, question: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        let UserQuestion::Approve { command, .. } = question else { panic!("{question:?}") };
        self.1.lock().unwrap().push(command);
        Box::pin(std::future::ready(UserAnswer::Approval(self.0)))
    }
}

/// A tool that returns its arguments, or a text that is not JSON.
struct Echo(ToolSpec, Option<&'static str>);

impl Echo {
    fn named(name: &str, text: Option<&'static str>) -> Arc<dyn Tool> {
        let parameters = RawJson::from_value(&json!({"type": "object", "properties": {}}));
        Arc::new(Self(ToolSpec { name: name.to_owned(), description: String::new(), parameters }, text))
    }
}

impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let given = Value::Object(call.arguments.clone());
        let text = self
            .1
            .map_or_else(|| json!({"given": given, "task": call.task.as_str()}).to_string(), str::to_owned);
        Box::pin(std::future::ready(ToolOutcome::done(text)))
    }
}

struct Bench {
    _top: TempDir,
    root: PathBuf,
    registry: ToolRegistry,
    files: FileTools,
    options: CodeOptions,
    sandbox: Sandbox,
    clock: Arc<dyn Clock>,
}

impl Bench {
    fn new() -> Self {
        Self::knowing(&[], &[])
    }

    /// Creates a bench with these environment variables, some of which are passed to scripts.
    fn knowing(variables: &[(&str, &str)], passed: &[&str]) -> Self {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["tmp", "user", "work", "home"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let home = Home::new(root.join("home"));
        let user = root.join("user").to_str().unwrap().to_owned();
        let base = [("HOME", user.as_str()), ("PATH", "/usr/bin:/bin")];
        let all: Vec<(&str, &str)> = base.iter().chain(variables).copied().collect();
        let passed: Vec<String> = passed.iter().map(|&name| name.to_owned()).collect();
        let guard = FileGuard::new(root.join("work"), root.join("user"), &home);
        let files = FileTools::from(guard);
        let mut registry = ToolRegistry::file_tools(&files);
        let local = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: Sandbox::off(),
        };
        let shells = TaskShells::new(LocalHost::new(local, Arc::clone(&clock)), files.folders().clone());
        let processes = ProcessRegistry::new(&home, Arc::clone(&clock), Cancel::new());
        let approvals = Arc::new(Approvals::new(CommandApprovalMode::Manual, Vec::new(), |_| {}));
        let options = TerminalOptions {
            timeout: LONG,
            user_home: root.join("user"),
            hermes_home: root.join("home"),
            secrets: SecretMasking::Mask,
        };
        let terminal = TerminalTool::new(options, shells, processes, approvals, Arc::clone(&clock));
        registry.register(Arc::new(terminal));
        let options = CodeOptions {
            mode: CodeExecutionMode::Project,
            timeout: LONG,
            most_calls: 50,
            python: None,
            hermes_home: root.join("home"),
            temp: root.join("tmp"),
            variables: Variables::for_scripts(all.iter().copied(), &passed),
            timezone: None,
            secrets: SecretMasking::Mask,
        };
        Self { _top: top, root, registry, files, options, sandbox: Sandbox::off(), clock }
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).unwrap();
    }

    fn tool(&self) -> ExecuteCodeTool {
        let tools = CallableTools { session: self.registry.tools(), all: self.registry.tools() };
        self.tool_with(tools)
    }

    fn tool_with(&self, tools: CallableTools<'_>) -> ExecuteCodeTool {
        let scripts = ScriptRunner::new(self.sandbox.clone(), Arc::clone(&self.clock));
        let folders = self.files.folders().clone();
        ExecuteCodeTool::new(self.options.clone(), tools, folders, scripts, Arc::clone(&self.clock))
    }

    async fn run(&self, code: &str) -> Value {
        let person = Person(ApprovalDecision::Deny, Mutex::default());
        self.run_on(&self.tool(), code, &person, &Cancel::new()).await.1
    }

    async fn run_on(
        &self,
        tool: &ExecuteCodeTool,
        code: &str,
        person: &Person,
        cancel: &Cancel,
    ) -> (OutcomeStatus, Value) {
        let outcome = self.call(tool, json!({"code": code}), person, cancel).await;
        let value = serde_json::from_str(&outcome.content).unwrap_or_else(|_| panic!("{}", outcome.content));
        let left: Vec<_> = fs::read_dir(&self.options.temp)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("hermes_sandbox_") || name.starts_with("hermes_rpc_"))
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        (outcome.status, value)
    }

    async fn call(&self, tool: &dyn Tool, arguments: Value, person: &Person, cancel: &Cancel) -> ToolOutcome {
        let call = ToolInvocation {
            id: "call_1".into(),
            name: tool.spec().name.clone(),
            arguments: arguments.as_object().unwrap().clone(),
            session: "s".into(),
            turn: "turn".into(),
            task: "t".into(),
        };
        let deadline = Deadline::after(&*self.clock, LONG);
        tool.run(&call, ToolContext { frontend: person, cancel, deadline, spawn: None, turn_model: None })
            .await
    }

    /// Runs a script that must succeed, and parses its output as JSON.
    async fn printed(&self, code: &str) -> Value {
        let result = self.run(code).await;
        assert_eq!(result["status"], "success", "{result:#}");
        serde_json::from_str(result["output"].as_str().unwrap()).unwrap_or_else(|_| panic!("{result:#}"))
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap();
}

fn lives(pid: &Path) -> bool {
    let pid = fs::read_to_string(pid).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn only_what_is_printed_comes_back() {
    let bench = Bench::new();
    let result = bench.run("import sys\nprint('out')\nprint('err', file=sys.stderr)").await;
    let fields: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["status", "output", "tool_calls_made", "duration_seconds", "exit_code"]);
    assert_eq!(
        (&result["status"], &result["output"], &result["tool_calls_made"]),
        (&json!("success"), &json!("out\n"), &json!(0))
    );
}

#[tokio::test]
async fn nothing_to_run_is_said() {
    let bench = Bench::new();
    assert_eq!(bench.run(" \n ").await, json!({"error": "No code provided."}));
}

#[tokio::test]
async fn a_failure_is_told_with_what_was_complained_about() {
    let bench = Bench::new();
    let result = bench.run("print('before')\nraise ValueError('broken')").await;
    assert_eq!((&result["status"], &result["exit_code"]), (&json!("error"), &json!(1)));
    assert!(result["error"].as_str().unwrap().contains("ValueError: broken"), "{result:#}");
    let output = result["output"].as_str().unwrap();
    assert!(output.starts_with("before\n\n--- stderr ---\n") && output.contains("broken"), "{output}");
    let result = bench.run("import sys; sys.exit(3)").await;
    assert_eq!((&result["error"], &result["output"]), (&json!("Script exited with code 3"), &json!("")));
}

#[tokio::test]
async fn calls_reach_the_tools_and_their_answers_the_script() {
    let bench = Bench::new();
    bench.put("work/a.txt", "one\ntwo\nthree\n");
    let seen = bench
        .printed(
            "import json\nfrom hermes_tools import read_file, write_file, patch, search_files, search, terminal\n\
             r = read_file('a.txt')\n\
             w = write_file('b.txt', 'x\\ny\\n')\n\
             p = patch('b.txt', 'y', 'z')\n\
             s = search_files('two')\n\
             f = search('*.txt', target='files')\n\
             t = terminal('printf \"l1\\\\nl2\\\\n\"; pwd')\n\
             print(json.dumps([r['content'], w['bytes_written'], p['success'], s['matches'][0]['line'], len(f['files']), t]))",
        )
        .await;
    assert_eq!(seen[0], "     1|one\n     2|two\n     3|three");
    assert_eq!((&seen[1], &seen[2], &seen[3], &seen[4]), (&json!(4), &json!(true), &json!(2), &json!(2)));
    let work = bench.root.join("work");
    assert_eq!(seen[5]["output"], format!("l1\nl2\n{}", work.display()));
    assert_eq!(fs::read_to_string(work.join("b.txt")).unwrap(), "x\nz\n");
}

#[tokio::test]
async fn what_the_model_has_read_a_script_can_read_and_the_other_way_round() {
    let bench = Bench::new();
    bench.put("work/a.txt", "text\n");
    let read = "from hermes_tools import read_file\nfor _ in range(6): print(read_file('a.txt')['content'])";
    for _ in 0..2 {
        let result = bench.run(read).await;
        assert_eq!(result["output"], "     1|text\n".repeat(6), "{result:#}");
    }
    let tool = bench.registry.find("read_file").unwrap();
    let person = Person(ApprovalDecision::Deny, Mutex::default());
    let outcome = bench.call(tool.as_ref(), json!({"path": "a.txt"}), &person, &Cancel::new()).await;
    assert!(outcome.content.contains("1|text"), "{}", outcome.content);
}

#[tokio::test]
async fn the_module_has_the_parameters_of_the_tools() {
    let bench = Bench::new();
    let code = "import ast, inspect, json, hermes_tools\n\
        ast.parse(open(hermes_tools.__file__).read(), feature_version=(3, 8))\n\
        d = {}\n\
        for name in 'web_search web_extract read_file write_file search_files patch terminal json_parse shell_quote retry'.split():\n\
        \x20   f = getattr(hermes_tools, name, None)\n\
        \x20   d[name] = f and [n if p.default is p.empty else '%s=%r' % (n, p.default) for n, p in inspect.signature(f).parameters.items()]\n\
        print(json.dumps(d))";
    let person = Person(ApprovalDecision::Deny, Mutex::default());
    // A session without any callable tool gets all of them.
    let tool = bench.tool_with(CallableTools { session: &[], all: bench.registry.tools() });
    let (_, result) = bench.run_on(&tool, code, &person, &Cancel::new()).await;
    let all: Value =
        serde_json::from_str(result["output"].as_str().unwrap()).unwrap_or_else(|_| panic!("{result:#}"));
    assert_eq!(
        all,
        json!({
            "web_search": ["query", "limit=5"],
            "web_extract": ["urls"],
            "read_file": ["path", "offset=1", "limit=500"],
            "write_file": ["path", "content"],
            "search_files": [
                "pattern", "target='content'", "path='.'", "file_glob=None", "limit=50", "offset=0",
                "output_mode='content'", "context=0",
            ],
            "patch": [
                "path=None", "old_string=None", "new_string=None", "replace_all=False", "mode='replace'", "patch=None",
            ],
            "terminal": ["command", "timeout=None", "workdir=None"],
            "json_parse": ["text"],
            "shell_quote": ["s"],
            "retry": ["fn", "max_attempts=3", "delay=2"],
        })
    );
    let some = bench.printed(code).await;
    assert_eq!((&some["web_search"], &some["patch"]), (&Value::Null, &all["patch"]));
    for tool in bench.registry.tools() {
        let parameters = tool.spec().parameters.to_value();
        let known: Vec<&str> =
            all[&tool.spec().name].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        for name in parameters["properties"].as_object().unwrap().keys() {
            let blocked = ["background", "check_interval", "pty", "notify_on_complete", "watch_patterns"];
            let found = known.iter().any(|known| known.split('=').next() == Some(name));
            assert!(found || blocked.contains(&name.as_str()), "{}: {name}", tool.spec().name);
        }
    }
}

#[tokio::test]
async fn answers_are_one_line_whatever_is_in_them() {
    let mut bench = Bench::new();
    bench
        .registry
        .register(Echo::named("web_search", Some("{\"a\": 1,\n \"b\": \"x\\ny\"}\n\n[Hint: more\nlines]")));
    bench.registry.register(Echo::named("web_extract", Some("plain\ntext")));
    let seen = bench
        .printed("import json\nfrom hermes_tools import *\nprint(json.dumps([web_search('q'), web_extract(['u'])]))")
        .await;
    assert_eq!(seen, json!([{"a": 1, "b": "x\ny", "_hint": "[Hint: more\nlines]"}, "plain\ntext"]));
}

#[tokio::test]
async fn threads_and_forked_processes_each_get_their_own_answer() {
    let mut bench = Bench::new();
    bench.registry.register(Echo::named("web_search", None));
    let seen = bench
        .printed(
            "import json, os\nfrom concurrent.futures import ThreadPoolExecutor\nfrom hermes_tools import web_search\n\
             with ThreadPoolExecutor(8) as pool:\n\
             \x20   got = list(pool.map(lambda n: web_search(str(n))['given']['query'], range(30)))\n\
             r, w = os.pipe()\n\
             if os.fork() == 0:\n\
             \x20   os.write(w, web_search('child')['given']['query'].encode()); os._exit(0)\n\
             os.wait()\n\
             print(json.dumps([got, os.read(r, 100).decode(), web_search('x')['task']]))",
        )
        .await;
    let numbers: Vec<String> = (0..30).map(|number: i32| number.to_string()).collect();
    assert_eq!(seen, json!([numbers, "child", "t"]));
}

#[tokio::test]
async fn the_fifty_first_call_is_refused() {
    let mut bench = Bench::new();
    bench.registry.register(Echo::named("web_search", None));
    let result = bench
        .run("from hermes_tools import web_search\nanswers = [web_search('q') for _ in range(52)]\nprint(sum('given' in a for a in answers), answers[-1]['error'])")
        .await;
    assert_eq!(
        (&result["output"], &result["tool_calls_made"]),
        (
            &json!("50 Tool call limit reached (50). No more tool calls allowed in this execution.\n"),
            &json!(50)
        )
    );
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_in_words() {
    let mut bench = Bench::new();
    bench.registry.register(Echo::named("terminal", None));
    bench.registry.register(Echo::named("delegate_task", None));
    let seen = bench
        .printed(
            "import json, os, socket, hermes_tools\n\
             def raw(line):\n\
             \x20   s = socket.socket(socket.AF_UNIX); s.connect(os.environ['HERMES_RPC_SOCKET'])\n\
             \x20   s.sendall(line + b'\\n'); return json.loads(s.makefile().readline())['error']\n\
             print(json.dumps([\n\
             \x20 hermes_tools._call('delegate_task', {})['error'],\n\
             \x20 raw(b'{\"tool\": \"terminal\", \"args\": {}}'),\n\
             \x20 raw(b'{\"tool\": \"terminal\", \"args\": {}, \"token\": \"wrong\"}'),\n\
             \x20 raw(b'nonsense'),\n\
             \x20 oct(os.stat(os.environ['HERMES_RPC_SOCKET']).st_mode)[-3:],\n\
             \x20 hermes_tools._call('terminal', {'command': 'x', 'background': True, 'pty': True, 'check_interval': 30, 'notify_on_complete': True, 'watch_patterns': ['a'], 'timeout': 5})['given'],\n\
             ]))",
        )
        .await;
    assert_eq!(
        seen[0],
        "Tool 'delegate_task' is not available in execute_code. Available: read_file, write_file, search_files, patch, terminal"
    );
    assert_eq!(
        (&seen[1], &seen[2]),
        (&json!("Unauthorized RPC request"), &json!("Unauthorized RPC request"))
    );
    assert!(seen[3].as_str().unwrap().starts_with("Invalid RPC request: "), "{seen}");
    assert_eq!((&seen[4], &seen[5]), (&json!("600"), &json!({"command": "x", "timeout": 5})));
}

#[tokio::test]
async fn a_dangerous_command_of_a_script_is_asked_about() {
    let bench = Bench::new();
    let person = Person(ApprovalDecision::Deny, Mutex::default());
    let code = "from hermes_tools import terminal\nprint(terminal('rm -rf /srv/x')['error'])";
    let (_, result) = bench.run_on(&bench.tool(), code, &person, &Cancel::new()).await;
    assert!(result["output"].as_str().unwrap().starts_with("BLOCKED"), "{result:#}");
    assert_eq!(*person.1.lock().unwrap(), ["rm -rf /srv/x"]);
}

#[tokio::test]
async fn secrets_neither_go_in_nor_come_out() {
    let around = [
        ("OPENAI_API_KEY", "sk-aaaaaaaaaaaaaaaaaaaaaaaa"),
        ("MONKEY_PATH", "m"),
        ("LANG", "C.UTF-8"),
        ("PATHEXT", ".x"),
        ("SECRET_X", "let-through"),
        ("HERMES_TIMEZONE", "Europe/Berlin"),
        ("AWS_SECRET_ACCESS_KEY", "a"),
    ];
    let mut bench = Bench::knowing(&around, &["SECRET_X"]);
    bench.options.timezone = Some("Europe/Berlin".to_owned());
    let seen = bench.printed("import json, os\nprint(json.dumps(dict(os.environ)))").await;
    let names: Vec<&str> = seen.as_object().unwrap().keys().map(String::as_str).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            "HERMES_RPC_SOCKET",
            "HERMES_RPC_TOKEN",
            "HOME",
            "LANG",
            "PATH",
            "PATHEXT",
            "PYTHONDONTWRITEBYTECODE",
            "PYTHONIOENCODING",
            "PYTHONPATH",
            "PYTHONUTF8",
            "SECRET_X",
            "TZ",
        ]
    );
    let result = bench.run("print('\\x1b[31mkey: sk-' + 'b' * 30 + '\\x1b[0m')").await;
    assert_eq!(result["output"], "key: sk-bbb...bbbb\n");
}

#[tokio::test]
async fn long_output_keeps_its_beginning_and_its_end() {
    let bench = Bench::new();
    let result = bench.run("print('first')\nprint('x' * 99_988)\nprint('last')").await;
    let output = result["output"].as_str().unwrap();
    assert!(output.starts_with("first\nxxx") && output.ends_with("x\nlast\n"), "{}", output.len());
    assert!(output.contains("[OUTPUT TRUNCATED - 50000 chars omitted out of 100000 total]"));
    assert!(output.contains("[output truncated at 50KB]"));
    assert_eq!(result["stdout_truncated"], true);
}

#[tokio::test]
async fn a_script_out_of_time_ends_with_all_it_started() {
    let mut bench = Bench::new();
    bench.options.timeout = Duration::from_secs(1);
    let pid = bench.root.join("work/pid");
    let code = "import subprocess, sys\np = subprocess.Popen(['sleep', '1000'])\nopen('pid', 'w').write(str(p.pid))\nprint('begun', flush=True)\np.wait()";
    let result = bench.run(code).await;
    assert_eq!(result["status"], "timeout", "{result:#}");
    assert_eq!(result["error"], "Script timed out after 1s and was killed.");
    assert!(result["output"].as_str().unwrap().starts_with("begun\n"), "{result:#}");
    until(|| !lives(&pid)).await;
}

#[tokio::test]
async fn what_a_script_leaves_running_ends_with_it() {
    let bench = Bench::new();
    let result = bench
        .run("import subprocess\np = subprocess.Popen(['sleep', '1000'])\nopen('pid', 'w').write(str(p.pid))\nprint('done')")
        .await;
    assert_eq!((&result["status"], &result["output"]), (&json!("success"), &json!("done\n")));
    until(|| !lives(&bench.root.join("work/pid"))).await;
}

#[tokio::test]
async fn an_interrupt_reaches_the_script_and_the_call_it_waits_for() {
    let bench = Bench::new();
    let (tool, person, cancel) =
        (bench.tool(), Person(ApprovalDecision::Deny, Mutex::default()), Cancel::new());
    let pid = bench.root.join("work/pid");
    let code = "from hermes_tools import terminal\nprint('begun', flush=True)\nterminal('echo $$ > pid; sleep 1000')";
    let interrupt = async {
        until(|| fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'))).await;
        cancel.cancel();
    };
    let ((status, result), ()) = tokio::join!(bench.run_on(&tool, code, &person, &cancel), interrupt);
    assert_eq!((status, &result["status"]), (OutcomeStatus::Cancelled, &json!("interrupted")));
    let output = result["output"].as_str().unwrap();
    assert!(output.starts_with("begun\n"), "{output}");
    assert!(output.ends_with("\n[execution interrupted — user sent a new message]"), "{output}");
    until(|| !lives(&pid)).await;
}

#[tokio::test]
async fn a_first_call_may_come_late() {
    let bench = Bench::new();
    let code = "import time\ntime.sleep(0.3)\nfrom hermes_tools import terminal\nprint(terminal('echo hi')['output'])";
    assert_eq!(bench.run(code).await["output"], "hi\n");
}

#[tokio::test]
async fn the_helpers_help() {
    let bench = Bench::new();
    let seen = bench
        .printed(
            "import json\nfrom hermes_tools import json_parse, shell_quote, retry\n\
             tries = []\n\
             def flaky():\n\
             \x20   tries.append(1)\n\
             \x20   if len(tries) < 3: raise OSError('no')\n\
             \x20   return 'yes'\n\
             print(json.dumps([json_parse('{\"a\": \"x\\ty\"}'), shell_quote(\"a'b\"), retry(flaky, delay=0)]))",
        )
        .await;
    assert_eq!(seen, json!([{"a": "x\ty"}, "'a'\"'\"'b'", "yes"]));
}

#[tokio::test]
async fn the_mode_decides_about_folder_and_python() {
    let mut bench = Bench::new();
    let print = "import json, os, sys\nprint(json.dumps([os.getcwd(), sys.prefix]))";
    assert_eq!(bench.printed(print).await[0], bench.root.join("work").to_str().unwrap());
    let env = bench.root.join("user/env/bin");
    fs::create_dir_all(&env).unwrap();
    std::os::unix::fs::symlink("/usr/bin/python3", env.join("python")).unwrap();
    fs::write(bench.root.join("user/env/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let prefix = bench.root.join("user/env").to_str().unwrap().to_owned();
    let with_env = |bench: &mut Bench| {
        bench.options.variables = bench.options.variables.clone().with("VIRTUAL_ENV", &prefix);
    };
    with_env(&mut bench);
    assert_eq!(bench.printed(print).await[1], prefix);
    bench.options.mode = CodeExecutionMode::Strict;
    let seen = bench.printed(print).await;
    assert!(seen[0].as_str().unwrap().contains("/hermes_sandbox_"), "{seen}");
    assert_ne!(seen[1], prefix);
    // An interpreter that is too old ends the search in the virtual environment.
    bench.options.mode = CodeExecutionMode::Project;
    fs::remove_file(env.join("python")).unwrap();
    fs::write(env.join("python"), "#!/bin/sh\necho 2.7\n").unwrap();
    std::os::unix::fs::symlink("/usr/bin/python3", env.join("python3")).unwrap();
    fs::set_permissions(env.join("python"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_ne!(bench.printed(print).await[1], prefix);
}

#[tokio::test]
async fn without_a_python_it_says_what_to_do() {
    let mut bench = Bench::knowing(&[("PATH", "/nonexistent:/usr/bin-not")], &[]);
    bench.options.variables = bench.options.variables.clone().with("PATH", "/nonexistent");
    let result = bench.run("print(1)").await;
    assert_eq!((&result["status"], &result["tool_calls_made"]), (&json!("error"), &json!(0)));
    assert!(result["error"].as_str().unwrap().contains("`code_execution.python`"), "{result:#}");
    bench.options.python = Some("/nonexistent/python".to_owned());
    let result = bench.run("print(1)").await;
    assert!(result["error"].as_str().unwrap().contains("is /nonexistent/python, which is not"), "{result:#}");
}

#[tokio::test]
async fn a_python_that_is_too_old_is_refused_in_words() {
    let mut bench = Bench::new();
    bench.put("old", "#!/bin/sh\necho 3.7\n");
    let old = bench.root.join("old");
    fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    bench.options.python = Some(old.to_str().unwrap().to_owned());
    for mode in [CodeExecutionMode::Project, CodeExecutionMode::Strict] {
        bench.options.mode = mode;
        let result = bench.run("print(1)").await;
        let error = result["error"].as_str().unwrap();
        assert_eq!(result["status"], "error");
        assert!(error.contains("which is Python 3.7, and scripts need 3.8 or newer"), "{result:#}");
    }
}

#[tokio::test]
async fn a_script_is_inside_the_fence() {
    let mut bench = Bench::new();
    fs::create_dir(bench.root.join("user/.ssh")).unwrap();
    bench.put("user/.ssh/id_ed25519", "private");
    bench.put("work/a.txt", "x\n");
    let places = SandboxPaths {
        user_home: bench.root.join("user"),
        hermes_home: bench.root.join("home"),
        temporary: vec![bench.root.join("tmp")],
        writable: Vec::new(),
        programs: Vec::new(),
    };
    bench.sandbox = Sandbox::new(SandboxActivation::Auto, places);
    if !Sandbox::is_possible() {
        hermes_testkit::peer_is_missing("Landlock");
        return;
    }
    let seen = bench
        .printed(
            "import json\nfrom hermes_tools import read_file\n\
             def tried(f):\n\
             \x20   try: f(); return 'done'\n\
             \x20   except OSError: return 'refused'\n\
             import os\nhome = os.environ['HOME']\n\
             print(json.dumps([\n\
             \x20 tried(lambda: open(home + '/.ssh/id_ed25519').read()),\n\
             \x20 tried(lambda: open(home + '/new', 'w')),\n\
             \x20 tried(lambda: open('new', 'w')),\n\
             \x20 read_file('a.txt')['total_lines'],\n\
             ]))",
        )
        .await;
    assert_eq!(seen, json!(["refused", "refused", "done", 1]));
}

/// Prints the overhead of a call without checking it.
#[tokio::test]
#[ignore = "a measurement"]
async fn measure() {
    let mut bench = Bench::new();
    bench.registry.register(Echo::named("web_search", None));
    for _ in 0..3 {
        let empty = bench.run("pass").await;
        let began = bench.clock.monotonic();
        bench.run("pass").await;
        let whole = bench.clock.monotonic().saturating_sub(began);
        let calls = bench
            .run(
                "import time\nfrom hermes_tools import web_search\nweb_search('warm')\nt = time.perf_counter()\n\
                 for _ in range(20): web_search('q')\nprint('%.3f ms per call' % ((time.perf_counter() - t) * 50))",
            )
            .await;
        let import = bench
            .run("import time\nt = time.perf_counter()\nimport hermes_tools\nprint('%.1f ms' % ((time.perf_counter() - t) * 1000))")
            .await;
        println!(
            "empty script {whole:?} (told as {} s); {} ; import {}",
            empty["duration_seconds"],
            calls["output"].as_str().unwrap().trim(),
            import["output"].as_str().unwrap().trim()
        );
    }
}
