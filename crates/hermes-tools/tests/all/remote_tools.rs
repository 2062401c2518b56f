//! Tests of `terminal`, `process` and the file tools in remote environments: a real container engine, a real
//! SSH server, and a fake Apptainer that is always available.
#![expect(
    clippy::disallowed_methods,
    reason = "the scripts say where the peers are; they are asked behind our back"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{
    ContainerNetwork, CredentialFiles, DockerBackend, DockerEngine, DockerOptions, ForwardedVariables,
    InstanceRetention, OutputBounds, RemoteBackend, ResourceLimits, RootFilesystem, SingularityBackend,
    SingularityHost, SingularityHostOptions, SingularityOptions, SshHost, SshOptions, Variables,
};
use hermes_task::SystemClock;
use hermes_testkit::{SshServer, TestClock};
use hermes_tools::{
    Approvals, CommandApprovalMode, EnvironmentPoolOptions, EnvironmentSharing, FileGuard, FileOptions,
    FileTools, ProcessRegistry, ProcessTool, SecretMasking, TaskFolders, TaskShells, TerminalOptions,
    TerminalTool, ToolRegistry,
};
use hermes_types::{Cancel, CivilTime, Clock, Deadline, ToolContext, ToolEvent, ToolInvocation};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{UnattendedUser, parse};

/// All tools over one remote environment.
struct RemoteToolsFixture {
    shells: TaskShells,
    registry: ToolRegistry,
    processes: ProcessRegistry,
    home: Home,
    _top: TempDir,
}

impl RemoteToolsFixture {
    fn at(elsewhere: RemoteBackend, tenancy: EnvironmentSharing) -> Self {
        Self::with_clock(elsewhere, tenancy, Arc::new(SystemClock::new()))
    }

    fn with_clock(elsewhere: RemoteBackend, tenancy: EnvironmentSharing, clock: Arc<dyn Clock>) -> Self {
        let options =
            EnvironmentPoolOptions { backend: elsewhere, sharing: tenancy, lifetime: Duration::from_mins(5) };
        Self::over(clock.clone(), |folders, processes| {
            TaskShells::remote(options, folders, processes.clone(), clock)
        })
    }

    fn over(clock: Arc<dyn Clock>, shells: impl FnOnce(TaskFolders, &ProcessRegistry) -> TaskShells) -> Self {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        let home = Home::new(root.join("home"));
        let folders = TaskFolders::new(root.clone());
        let processes = ProcessRegistry::new(&home, clock.clone(), Cancel::new());
        let shells = shells(folders.clone(), &processes);
        let guard = FileGuard::new(root.clone(), root.join("user"), &home);
        let files =
            FileTools::new(guard, FileOptions::default()).with_folders(folders).with_shells(shells.clone());
        let mut registry = ToolRegistry::file_tools(&files);
        let options = TerminalOptions {
            timeout: Duration::from_mins(1),
            user_home: root.join("user"),
            hermes_home: root.join("home"),
            secrets: SecretMasking::Mask,
        };
        let approvals = Arc::new(Approvals::new(CommandApprovalMode::Manual, Vec::new(), |_| {}));
        let terminal =
            TerminalTool::new(options, shells.clone(), processes.clone(), approvals, clock.clone());
        registry.register(Arc::new(terminal));
        let process = ProcessTool::new(
            processes.clone(),
            Duration::from_mins(1),
            SecretMasking::Mask,
            clock,
            CivilTime::utc,
        );
        registry.register(Arc::new(process));
        Self { shells, registry, processes, home, _top: top }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.call_as("t", tool, arguments).await
    }

    async fn call_as(&self, task: &str, tool: &str, arguments: Value) -> Value {
        self.call_until(task, tool, arguments, &Cancel::new()).await
    }

    async fn call_until(&self, task: &str, tool: &str, arguments: Value, cancel: &Cancel) -> Value {
        let tool = self.registry.find(tool).unwrap();
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let call = ToolInvocation {
            id: "call_1".into(),
            name: tool.spec().name.clone(),
            arguments,
            session: "s".into(),
            turn: "turn".into(),
            task: task.into(),
        };
        tool.on_event(&task.into(), ToolEvent::CallStarting(&call.name));
        let deadline = Deadline::after(&SystemClock::new(), Duration::from_hours(5));
        let context =
            ToolContext { frontend: &UnattendedUser, cancel, deadline, spawn: None, turn_model: None };
        parse(&tool.run(&call, context).await)
    }

    /// Runs a command that must succeed and returns its output.
    async fn run(&self, command: &str) -> String {
        let result = self.call("terminal", json!({ "command": command })).await;
        assert_eq!(result["exit_code"], 0, "{command}: {result}");
        result["output"].as_str().unwrap().to_owned()
    }

    fn ended(&self, task: &str) {
        for tool in self.registry.tools() {
            tool.on_event(&task.into(), ToolEvent::Ended);
        }
    }
}

struct Engine {
    address: String,
    image: String,
    folder: TempDir,
}

impl Engine {
    fn started() -> Option<Self> {
        let (Ok(address), Ok(image)) =
            (std::env::var("HERMES_TEST_DOCKER_HOST"), std::env::var("HERMES_TEST_DOCKER_IMAGE"))
        else {
            hermes_testkit::peer_is_missing(
                "HERMES_TEST_DOCKER_HOST is not set (scripts/peers/docker start)",
            );
            return None;
        };
        Some(Self { address, image, folder: tempfile::tempdir().unwrap() })
    }

    fn elsewhere(&self, change: impl FnOnce(&mut DockerOptions)) -> RemoteBackend {
        let base =
            [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nowhere"), ("DOCKER_HOST", &self.address)];
        let variables = Variables::for_commands(base, &[], &[]);
        let engine = DockerEngine::find(variables, Arc::new(SystemClock::new())).unwrap();
        let mut options = DockerOptions {
            task: String::new(),
            image: self.image.clone(),
            directory: None,
            mount: None,
            sandboxes: self.folder.path().join("sandboxes"),
            volumes: Vec::new(),
            credentials: Vec::new(),
            exports: ForwardedVariables::default(),
            limits: ResourceLimits { cpus: 1.0, memory_mb: 256, disk_mb: 0 },
            network: ContainerNetwork::Off,
            root: RootFilesystem::ReadOnly,
            retention: InstanceRetention::Ephemeral,
            bounds: OutputBounds::default(),
        };
        change(&mut options);
        let credentials = CredentialFiles::new(self.folder.path());
        RemoteBackend { backend: Arc::new(DockerBackend { engine, options }), credentials }
    }

    /// Counts the containers of a task by their label.
    fn containers(&self, task: &str) -> usize {
        let output = std::process::Command::new("docker")
            .args(["ps", "-aq", "--filter", &format!("label=hermes-task-id={task}")])
            .env("DOCKER_HOST", &self.address)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().lines().count()
    }
}

async fn until_gone(engine: &Engine, task: &str) {
    while engine.containers(task) > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn own(task: &str) -> String {
    format!("{task}-{}", std::process::id())
}

/// Checks what every remote environment must support through the tools. `folder` must be writable there.
async fn works(fixture: &RemoteToolsFixture, folder: &str) {
    fixture.run(&format!("mkdir -p {folder}/project/src && cd {folder}/project")).await;
    let written =
        fixture.call("write_file", json!({"path": "src/a.py", "content": "one = 1\ntwo = 2\n"})).await;
    assert_eq!(written["bytes_written"], 16, "{written}");
    assert_eq!(fixture.run("cat src/a.py").await, "one = 1\ntwo = 2");
    let read = fixture.call("read_file", json!({"path": "src/a.py"})).await;
    assert_eq!(read["content"], "     1|one = 1\n     2|two = 2", "{read}");
    let again = fixture.call("read_file", json!({"path": "src/a.py"})).await;
    assert_eq!(again["status"], "unchanged", "{again}");
    // The file tools use the current folder of the terminal.
    fixture.run("cd src").await;
    let patched = fixture
        .call("patch", json!({"path": "a.py", "old_string": "two = 2", "new_string": "two = 3"}))
        .await;
    assert_eq!(patched["success"], true, "{patched}");
    assert!(patched["diff"].as_str().unwrap().contains("+two = 3"), "{patched}");
    assert_eq!(fixture.run("cat a.py").await, "one = 1\ntwo = 3");
    let several = "*** Begin Patch\n*** Add File: b.txt\n+hello\n*** Update File: a.py\n one = 1\n-two = 3\n+two = 4\n*** End Patch";
    let several = fixture.call("patch", json!({"mode": "patch", "patch": several})).await;
    assert_eq!(several["success"], true, "{several}");
    assert_eq!(fixture.run("cat b.txt; echo; cat a.py").await, "hello\none = 1\ntwo = 4");
    let moved = "*** Begin Patch\n*** Move File: b.txt -> deep/c.txt\n*** End Patch";
    let moved = fixture.call("patch", json!({"mode": "patch", "patch": moved})).await;
    assert_eq!(moved["success"], true, "{moved}");
    searches(fixture, folder).await;
    refuses(fixture).await;
    keeps_processes(fixture, folder).await;
    // A deleted folder must not fail all further commands.
    fixture.run(&format!("cd {folder}/project/src && mv {folder}/project/src {folder}/project/gone")).await;
    assert_eq!(fixture.run("pwd").await, format!("{folder}/project"));
}

async fn searches(fixture: &RemoteToolsFixture, folder: &str) {
    fixture.run(&format!("cd {folder}/project && mkdir -p .hidden && echo 'two = 9' > .hidden/x && printf 'a\\0two = 5' > bin.dat"))
        .await;
    let found = fixture.call("search_files", json!({"pattern": r"two = \d", "path": "."})).await;
    assert_eq!(
        found,
        json!({"total_count": 1, "matches": [{"path": "src/a.py", "line": 2, "content": "two = 4"}]}),
    );
    let around =
        fixture.call("search_files", json!({"pattern": "two", "context": 1, "file_glob": "*.py"})).await;
    assert_eq!(around["total_count"], 2, "{around}");
    assert_eq!(around["matches"][0]["content"], "one = 1");
    let files = fixture
        .call("search_files", json!({"pattern": "=|hello", "output_mode": "files_only", "path": "src"}))
        .await;
    assert_eq!(files["files"], json!(["src/a.py", "src/deep/c.txt"]), "{files}");
    let counts = fixture.call("search_files", json!({"pattern": "=", "output_mode": "count"})).await;
    assert_eq!(counts["counts"], json!({"src/a.py": 2}), "{counts}");
    let page = fixture.call("search_files", json!({"pattern": "=", "limit": 1})).await;
    assert_eq!((&page["truncated"], &page["total_count"]), (&json!(true), &json!(1)), "{page}");
    let names = fixture.call("search_files", json!({"pattern": "*.py", "target": "files"})).await;
    assert_eq!(names["files"], json!(["src/a.py"]), "{names}");
    let one = fixture.call("search_files", json!({"pattern": "one", "path": "src/a.py"})).await;
    assert_eq!(one["matches"][0]["path"], "src/a.py", "{one}");
    let none = fixture.call("search_files", json!({"pattern": "x", "path": "no/such"})).await;
    assert_eq!(none["error"], "Path not found: no/such");
    let bad = fixture.call("search_files", json!({"pattern": "(unclosed"})).await;
    assert!(bad["error"].as_str().unwrap().contains("not a regular expression"), "{bad}");
}

async fn refuses(fixture: &RemoteToolsFixture) {
    fixture.run("cd src && echo SECRET=1 > .env && ln -sf .env link").await;
    for path in [".env", "link", "/dev/zero"] {
        let refused = fixture.call("read_file", json!({ "path": path })).await;
        assert!(
            refused["error"].as_str().is_some_and(|text| !text.contains("SECRET=1")),
            "{path}: {refused}"
        );
    }
    let system = fixture.call("write_file", json!({"path": "/etc/shadow", "content": "x"})).await;
    assert!(system["error"].as_str().unwrap().contains("Write denied"), "{system}");
    let missing = fixture.call("read_file", json!({"path": "a.pyy"})).await;
    assert_eq!(missing["similar_files"], json!(["a.py"]), "{missing}");
    let nowhere = fixture.call("terminal", json!({"command": "touch ran", "workdir": "no/such"})).await;
    assert!(nowhere["error"].as_str().unwrap().contains("is not a folder"), "{nowhere}");
    let deep = fixture.call("terminal", json!({"command": "pwd", "workdir": "deep"})).await;
    assert!(deep["output"].as_str().unwrap().ends_with("/project/src/deep"), "{deep}");
}

async fn keeps_processes(fixture: &RemoteToolsFixture, folder: &str) {
    let arguments =
        json!({"command": "echo begun; read x; echo $x; sleep 600", "background": true, "workdir": folder});
    let started = fixture.call("terminal", arguments).await;
    assert_eq!((&started["exit_code"], &started["error"]), (&json!(0), &Value::Null), "{started}");
    let id = started["session_id"].as_str().unwrap();
    let seen = loop {
        let seen = fixture.call("process", json!({"action": "poll", "session_id": id})).await;
        if seen["output_preview"] != "" {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        (&seen["status"], &seen["output_preview"]),
        (&json!("running"), &json!("begun\n\n")),
        "{seen}"
    );
    let listed = fixture.call("process", json!({"action": "list"})).await;
    assert_eq!(listed["processes"][0]["cwd"], folder, "{listed}");
    let input = fixture.call("process", json!({"action": "submit", "session_id": id, "data": "x"})).await;
    assert_eq!(input["error"], "a process elsewhere takes no input");
    let noted = std::fs::read_to_string(fixture.home.processes()).unwrap_or_default();
    assert!(!noted.contains(id), "its number means nothing here: {noted}");
    let killed = fixture.call("process", json!({"action": "kill", "session_id": id})).await;
    assert_eq!(killed["status"], "killed", "{killed}");
    let pid = started["pid"].to_string();
    let gone = format!("! kill -0 {pid} 2>/dev/null || grep -q '^State:.Z' /proc/{pid}/status");
    while fixture.call("terminal", json!({ "command": gone })).await["exit_code"] != 0 {}
    let polled = fixture.call("process", json!({"action": "poll", "session_id": id})).await;
    assert_eq!((&polled["status"], &polled["exit_code"]), (&json!("exited"), &json!(-15)), "{polled}");

    let short = fixture.call("terminal", json!({"command": "echo done; exit 3", "background": true})).await;
    let id = short["session_id"].as_str().unwrap();
    let waited = fixture.call("process", json!({"action": "wait", "session_id": id})).await;
    assert_eq!(waited, json!({"status": "exited", "exit_code": 3, "output": "done\n"}));
    let log = fixture.call("process", json!({"action": "log", "session_id": id})).await;
    assert_eq!(log["output"], "done", "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_all_tools_work_in_a_container() {
    let Some(engine) = Engine::started() else { return };
    let fixture = RemoteToolsFixture::at(engine.elsewhere(|_| {}), EnvironmentSharing::PerTask);
    works(&fixture, "/workspace").await;
    fixture.shells.close_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_a_container_is_shared_from_the_first_moment_and_closed_with_its_task() {
    let Some(engine) = Engine::started() else { return };
    let fixture = RemoteToolsFixture::at(engine.elsewhere(|_| {}), EnvironmentSharing::PerTask);
    let task = own("together");
    let calls = [
        fixture.call_as(&task, "terminal", json!({"command": "touch /workspace/a"})),
        fixture.call_as(&task, "write_file", json!({"path": "/workspace/b", "content": "b"})),
        fixture.call_as(&task, "terminal", json!({"command": "touch /workspace/c"})),
        fixture.call_as(&task, "write_file", json!({"path": "/workspace/d", "content": "d"})),
    ];
    futures_util::future::join_all(calls).await;
    assert_eq!(engine.containers(&task), 1);
    let listed = fixture.call_as(&task, "terminal", json!({"command": "ls /workspace"})).await;
    assert_eq!(listed["output"], "a\nb\nc\nd");
    let other = own("other");
    let apart = fixture.call_as(&other, "terminal", json!({"command": "ls /workspace"})).await;
    assert_eq!(apart["output"], "");
    fixture.ended(&task);
    until_gone(&engine, &task).await;
    assert_eq!(engine.containers(&other), 1);
    fixture.shells.close_all().await;
    assert_eq!(engine.containers(&other), 0);
}

/// Checks that tasks in a shared container have their own folders and exports.
#[tokio::test(flavor = "multi_thread")]
async fn peer_tasks_share_files_and_nothing_else() {
    let Some(engine) = Engine::started() else { return };
    let fixture = RemoteToolsFixture::at(engine.elsewhere(|_| {}), EnvironmentSharing::Shared);
    let one = |command: &str| fixture.call_as("one", "terminal", json!({ "command": command }));
    let two = |command: &str| fixture.call_as("two", "terminal", json!({ "command": command }));
    one("cd /workspace && export MINE=1 && echo shared > file").await;
    assert_eq!(two("echo \"$MINE,$PWD,$(cat /workspace/file)\"").await["output"], ",/root,shared");
    let read = fixture.call_as("two", "read_file", json!({"path": "file"})).await;
    assert!(read["error"].as_str().unwrap().contains("File not found"), "{read}");
    fixture.ended("two");
    assert_eq!(one("echo \"$MINE,$PWD\"").await["output"], "1,/workspace");
    fixture.shells.close_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_a_container_nobody_uses_is_closed_and_comes_back() {
    let Some(engine) = Engine::started() else { return };
    let clock = TestClock::new();
    let fixture = RemoteToolsFixture::with_clock(
        engine.elsewhere(|options| options.retention = InstanceRetention::Persistent),
        EnvironmentSharing::PerTask,
        Arc::new(clock.clone()),
    );
    let task = own("idle");
    let run = |command: &str| fixture.call_as(&task, "terminal", json!({ "command": command }));
    run("cd /workspace && echo kept > file").await;
    clock.advance(Duration::from_mins(4));
    fixture.shells.close_idle().await;
    assert_eq!(engine.containers(&task), 1, "it was used four minutes ago");
    let background =
        fixture.call_as(&task, "terminal", json!({"command": "sleep 600", "background": true})).await;
    clock.advance(Duration::from_mins(6));
    fixture.shells.close_idle().await;
    assert_eq!(engine.containers(&task), 1, "something runs in it");
    let id = background["session_id"].clone();
    fixture.call_as(&task, "process", json!({"action": "kill", "session_id": id})).await;
    clock.advance(Duration::from_mins(6));
    fixture.shells.close_idle().await;
    // The periodic check may have started first and still be running.
    until_gone(&engine, &task).await;
    assert_eq!(run("cat file; pwd").await["output"], "kept\n/workspace");
    fixture.shells.close_all().await;
    assert_eq!(engine.containers(&task), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_a_container_sees_nothing_of_the_host_and_keeps_to_its_limits() {
    let Some(engine) = Engine::started() else { return };
    let fixture = RemoteToolsFixture::at(engine.elsewhere(|_| {}), EnvironmentSharing::PerTask);
    let secret = engine.folder.path().join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let path = secret.to_str().unwrap();
    let look = fixture.call("terminal", json!({"command": format!("cat {path}; ls -A /home")})).await;
    assert_ne!(look["exit_code"], Value::Null);
    assert!(!look["output"].as_str().unwrap().contains("s3cret"), "{look}");
    let read = fixture.call("read_file", json!({ "path": path })).await;
    assert!(read["error"].as_str().unwrap().contains("File not found"), "{read}");
    assert_eq!(fixture.run("cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/memory/memory.limit_in_bytes").await, "256\n268435456");
    let crowd = "for i in $(seq 400); do sleep 1 & done 2>&1 | head -c 200; true\n";
    fixture.call("write_file", json!({"path": "/workspace/crowd.sh", "content": crowd})).await;
    let crowd = fixture.call("terminal", json!({"command": "bash /workspace/crowd.sh", "timeout": 30})).await;
    assert!(crowd["output"].as_str().unwrap().contains("fork"), "{crowd}");
    let greedy = "python3 -c 'x = bytearray(600 * 1024 * 1024); print(len(x))'";
    let greedy = fixture.call("terminal", json!({ "command": greedy })).await;
    assert_ne!(greedy["exit_code"], 0, "{greedy}");
    let root = fixture.call("terminal", json!({"command": "touch /usr/x"})).await;
    assert!(root["output"].as_str().unwrap().contains("Read-only file system"), "{root}");
    fixture.shells.close_all().await;
}

/// Checks that dangerous commands need no approval in a container unless it mounts a folder of the host.
#[tokio::test(flavor = "multi_thread")]
async fn peer_guards_are_skipped_only_where_nothing_can_be_harmed() {
    let Some(engine) = Engine::started() else { return };
    let command = json!({"command": "mkdir -p /workspace/x && rm -rf /workspace/x && echo ran"});
    let fixture = RemoteToolsFixture::at(engine.elsewhere(|_| {}), EnvironmentSharing::PerTask);
    assert_eq!(fixture.call("terminal", command.clone()).await["output"], "ran");
    fixture.shells.close_all().await;
    let host = engine.folder.path().join("mounted");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("own"), "mine").unwrap();
    let volume = format!("{}:/workspace", host.display());
    let fixture = RemoteToolsFixture::at(
        engine.elsewhere(|options| options.volumes.push(volume)),
        EnvironmentSharing::PerTask,
    );
    let blocked = fixture.call("terminal", command).await;
    assert_eq!(blocked["status"], "blocked", "{blocked}");
    assert_eq!(fixture.run("cat /workspace/own").await, "mine");
    fixture.shells.close_all().await;
}

/// Checks that a container whose Hermes was killed is removed by the next one that uses the engine, and that
/// its files stay.
#[tokio::test(flavor = "multi_thread")]
async fn peer_containers_of_a_killed_program_are_removed_and_their_folders_stay() {
    let Some(engine) = Engine::started() else { return };
    let task = own("orphan");
    let orphan = std::process::Command::new("docker")
        .args([
            "run",
            "-d",
            "--rm",
            "--label",
            "hermes-agent=1",
            "--label",
            &format!("hermes-task-id={task}"),
        ])
        .args([
            "--label",
            &format!("hermes-owner={}", label_of_a_dead_process()),
            &engine.image,
            "sleep",
            "600",
        ])
        .env("DOCKER_HOST", &engine.address)
        .output()
        .unwrap();
    assert!(orphan.status.success(), "{orphan:?}");
    assert_eq!(engine.containers(&task), 1);
    let fixture = RemoteToolsFixture::at(engine.elsewhere(|_| {}), EnvironmentSharing::PerTask);
    fixture.run("true").await;
    until_gone(&engine, &task).await;
    fixture.run("echo still here").await;
    fixture.shells.close_all().await;
}

/// Returns the label of a container of ours, with the id of a process that has ended.
fn label_of_a_dead_process() -> String {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let text = format!("{}{}", boot.trim(), space.display());
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}.{pid}.1")
}

struct Machine {
    peer: SshServer,
    options: SshOptions,
}

impl Machine {
    fn started() -> Option<Self> {
        let peer = SshServer::started()?;
        let options = SshOptions {
            host: peer.host.clone(),
            user: peer.user.clone(),
            port: peer.port,
            key: Some(peer.key.clone()),
            directory: None,
            exports: ForwardedVariables::default(),
            known_hosts: Some(peer.folder.path().join("known")),
            temp: peer.folder.path().to_owned(),
            bounds: OutputBounds::default(),
        };
        Some(Self { peer, options })
    }

    fn elsewhere(&self) -> RemoteBackend {
        let variables = Variables::for_commands([("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere")], &[], &[]);
        let host = SshHost::new(self.options.clone(), variables, Arc::new(SystemClock::new())).unwrap();
        RemoteBackend { backend: Arc::new(host), credentials: CredentialFiles::new(self.peer.folder.path()) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_all_tools_work_on_another_machine() {
    let Some(machine) = Machine::started() else { return };
    let fixture = RemoteToolsFixture::at(machine.elsewhere(), EnvironmentSharing::Shared);
    let folder = machine.peer.folder.path().join("there").display().to_string();
    works(&fixture, &folder).await;
    let own = fixture.call("terminal", json!({"command": format!("rm -rf {folder}")})).await;
    assert_eq!(own["status"], "blocked", "another machine is the user's: {own}");
    let key = fixture.call("write_file", json!({"path": "~/.ssh/authorized_keys", "content": "x"})).await;
    assert!(key["error"].as_str().unwrap().contains("Write denied"), "{key}");
    fixture.shells.close_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_a_connection_that_breaks_is_said_and_made_again() {
    let Some(machine) = Machine::started() else { return };
    let fixture = RemoteToolsFixture::at(machine.elsewhere(), EnvironmentSharing::Shared);
    fixture.run(&format!("cd {}", machine.peer.folder.path().display())).await;
    let flag = machine.peer.folder.path().join("begun");
    let connection = fixture.run(SshServer::WHICH_CONNECTION).await;
    let command = json!({"command": "echo before; echo $$ > new; mv new begun; sleep 600"});
    let (cut, ()) = tokio::join!(fixture.call("terminal", command), async {
        while !flag.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(std::process::Command::new("kill").args(["-9", &connection]).status().unwrap().success());
    });
    let said = cut["output"].as_str().unwrap();
    assert!(said.starts_with("before\n") && said.contains("The SSH connection was lost"), "{cut}");
    assert_ne!(cut["exit_code"], 0);
    assert_eq!(fixture.run("pwd").await, machine.peer.folder.path().display().to_string());
    // Hermes does not end what a broken connection leaves running, so the test does.
    let left = std::fs::read_to_string(&flag).unwrap();
    std::process::Command::new("kill").args(["-9", "--", &format!("-{}", left.trim())]).status().unwrap();
    fixture.shells.close_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_a_background_process_has_a_terminal_on_another_machine() {
    let Some(machine) = Machine::started() else { return };
    let fixture = RemoteToolsFixture::at(machine.elsewhere(), EnvironmentSharing::Shared);
    let folder = machine.peer.folder.path().display().to_string();
    let start = json!({"command": "stty size; pwd; while read -r l; do echo \"heard $l\"; done; exec sleep 600",
        "background": true, "pty": true, "workdir": folder});
    let started = fixture.call("terminal", start).await;
    assert_eq!(
        (&started["output"], &started["pty_note"]),
        (&json!("Background process started"), &Value::Null)
    );
    let id = started["session_id"].clone();
    let act = async |action: &str, data: &str| {
        fixture.call("process", json!({"action": action, "session_id": id, "data": data, "timeout": 1})).await
    };
    let until_said = async |what: &str| {
        while !act("poll", "").await["output_preview"].as_str().unwrap().contains(what) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    until_said("30 120").await;
    until_said(&folder).await;
    assert_eq!(act("submit", "you").await["status"], "ok");
    until_said("heard you").await;
    assert_eq!(act("poll", "").await["status"], "running");
    let pid = started["pid"].to_string();
    assert_eq!(
        fixture.run(&format!("ps -o comm= -p {pid}")).await,
        "bash",
        "its number is the one over there"
    );
    assert_eq!(act("kill", "").await["status"], "killed");
    assert_eq!(act("poll", "").await["exit_code"], -15);
    assert_eq!(fixture.run(&format!("ps -o comm= -p {pid} || echo gone")).await, "gone");
    fixture.shells.close_all().await;
}

const STAND_IN: &str = r#"#!/bin/bash
at=$(dirname "$0")
case "$1 $2" in
    "version "*) [ ! -e "$at/broken" ] && echo 1.3.0 ;;
    "instance start") touch "$at/running-${@: -1}" ;;
    "instance stop") rm "$at/running-$3" 2>/dev/null || { echo "no instance found"; exit 255; } ;;
    "instance list") ls "$at" | grep -o "$3" ;;
    "exec "*)
        echo >> "$at/round-trips"
        shift; while [ "$1" != bash ]; do last=$1; shift; done
        [ -e "$at/running-${last#instance://}" ] || { echo "FATAL: no instance found"; exit 255; }
        exec "$@" ;;
    *) echo "unknown: $*"; exit 2 ;;
esac
"#;

fn cluster(folder: &Path) -> RemoteBackend {
    let program = folder.join("apptainer");
    std::fs::write(&program, STAND_IN).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (path, home) = (format!("{}:/usr/bin:/bin", folder.display()), folder.to_str().unwrap());
    let variables = Variables::for_commands([("PATH", path.as_str()), ("HOME", home)], &[], &[]);
    let options = SingularityHostOptions {
        scratch: folder.join("scratch"),
        cache: None,
        records: folder.join("singularity_snapshots.json"),
        disk_warning: 500,
    };
    let host = SingularityHost::find(options, variables, Arc::new(SystemClock::new())).unwrap();
    let options = SingularityOptions {
        task: String::new(),
        image: "image.sif".to_owned(),
        directory: Some("/tmp".to_owned()),
        exports: ForwardedVariables::default(),
        limits: ResourceLimits { cpus: 0.0, memory_mb: 0, disk_mb: 0 },
        retention: InstanceRetention::Ephemeral,
        bounds: OutputBounds::default(),
    };
    RemoteBackend {
        backend: Arc::new(SingularityBackend { host, options }),
        credentials: CredentialFiles::new(folder),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tools_work_in_an_instance() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = RemoteToolsFixture::at(cluster(folder.path()), EnvironmentSharing::PerTask);
    works(&fixture, folder.path().join("there").to_str().unwrap()).await;
    let running = || {
        let names = std::fs::read_dir(folder.path()).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("running-")).count()
    };
    assert_eq!(running(), 1);
    fixture.shells.close_all().await;
    assert_eq!(running(), 0);
}

/// Checks the same on the single-threaded runtime of the command line.
#[tokio::test]
async fn one_thread_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = RemoteToolsFixture::at(cluster(folder.path()), EnvironmentSharing::Shared);
    fixture.run(&format!("cd {}", folder.path().display())).await;
    fixture.call("write_file", json!({"path": "x", "content": "1\n"})).await;
    assert_eq!(fixture.call("read_file", json!({"path": "x"})).await["content"], "     1|1");
    fixture.processes.end_all().await;
    fixture.shells.close_all().await;
}

/// Checks the number of round trips, because each may take a second over a slow connection.
#[tokio::test]
async fn file_tools_make_few_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = RemoteToolsFixture::at(cluster(folder.path()), EnvironmentSharing::Shared);
    let path = folder.path().join("file.txt");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    fixture.run("cd /tmp").await;
    fixture.call("read_file", json!({"path": "/etc/hostname"})).await;
    let count = || std::fs::read(folder.path().join("round-trips")).unwrap().len();
    let patch =
        format!("*** Begin Patch\n*** Update File: {}\n@@\n-three\n+four\n*** End Patch", path.display());
    for (tool, arguments, most) in [
        ("read_file", json!({"path": path}), 1),
        ("patch", json!({"path": path, "old_string": "two", "new_string": "three"}), 2),
        ("patch", json!({"patch": patch}), 2),
        ("write_file", json!({"path": path, "content": "five\n"}), 2),
        ("write_file", json!({"path": folder.path().join("new/file.txt"), "content": "x\n"}), 2),
    ] {
        let before = count();
        let result = fixture.call(tool, arguments).await;
        assert!(result.get("error").is_none(), "{tool}: {result}");
        assert!(count() - before <= most, "{tool} took {} round trips", count() - before);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "five\n");
    fixture.shells.close_all().await;
}

#[tokio::test]
async fn what_is_missing_is_said_by_every_tool_and_nothing_runs_here() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = cluster(folder.path());
    std::fs::write(folder.path().join("broken"), "").unwrap();
    let broken = RemoteToolsFixture::at(elsewhere, EnvironmentSharing::Shared);
    let nowhere = RemoteToolsFixture::over(Arc::new(SystemClock::new()), |folders, _| {
        TaskShells::unavailable("no docker was found", folders)
    });
    for fixture in [&broken, &nowhere] {
        let file = folder.path().join("made-here");
        let command = format!("touch {}", file.display());
        for arguments in [json!({ "command": command }), json!({"command": command, "background": true})] {
            let result = fixture.call("terminal", arguments).await;
            assert_eq!(
                (&result["status"], &result["exit_code"], &result["output"]),
                (&json!("disabled"), &json!(-1), &json!(""))
            );
            assert!(result["error"].as_str().unwrap().starts_with("Terminal tool disabled: "), "{result}");
        }
        for (tool, arguments) in [
            ("write_file", json!({"path": file, "content": "x"})),
            ("read_file", json!({"path": "/etc/hostname"})),
            ("search_files", json!({"pattern": "x"})),
            ("patch", json!({"path": file, "old_string": "a", "new_string": "b"})),
        ] {
            assert_eq!(fixture.call(tool, arguments).await["status"], "disabled", "{tool}");
        }
        assert!(!file.exists());
    }
}
