//! Tests of containers with a real engine. They are skipped with a message where none was started:
//! `scripts/peers/docker start`.
#![expect(
    clippy::disallowed_methods,
    reason = "the engine is asked behind our back, where the script says it is"
)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hermes_exec::{
    ContainerNetwork, DockerEngine, DockerEnvironment, DockerOptions, ForwardedVariables, InstanceRetention,
    OutputBounds, RemoteFiles, ResourceLimits, RootFilesystem, Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, RunError};
use tempfile::TempDir;

use super::files::works_on_files;
use super::remote::{
    RemoteFixture, does_not_wait_for_what_is_left_running, ends_what_it_started, keeps_its_state,
    keeps_processes, mark, never_ends, running, speaks_plainly, takes_input,
};
use super::support::{LONG, until};

struct Peer {
    address: String,
    image: String,
    engine: Arc<DockerEngine>,
    folder: TempDir,
}

impl Peer {
    fn started() -> Option<Self> {
        let (Ok(address), Ok(image)) =
            (std::env::var("HERMES_TEST_DOCKER_HOST"), std::env::var("HERMES_TEST_DOCKER_IMAGE"))
        else {
            hermes_testkit::peer_is_missing(
                "HERMES_TEST_DOCKER_HOST is not set (scripts/peers/docker start)",
            );
            return None;
        };
        let variables = variables(&address);
        let engine = DockerEngine::find(variables, Arc::new(SystemClock::new())).unwrap();
        Some(Self { address, image, engine, folder: tempfile::tempdir().unwrap() })
    }

    fn options(&self, task: &str) -> DockerOptions {
        DockerOptions {
            task: own(task),
            image: self.image.clone(),
            directory: None,
            mount: None,
            sandboxes: self.folder.path().to_owned(),
            volumes: Vec::new(),
            credentials: Vec::new(),
            exports: ForwardedVariables::default(),
            limits: ResourceLimits { cpus: 1.0, memory_mb: 256, disk_mb: 1024 },
            network: ContainerNetwork::Off,
            root: RootFilesystem::ReadOnly,
            retention: InstanceRetention::Ephemeral,
            bounds: OutputBounds::default(),
        }
    }

    fn docker(&self, arguments: &[&str]) -> String {
        let output =
            Command::new("docker").args(arguments).env("DOCKER_HOST", &self.address).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the ids of the containers of a task, a line each.
    fn container_ids(&self, task: &str) -> String {
        self.docker(&["ps", "-aq", "--filter", &format!("label=hermes-task-id={}", own(task))])
    }

    /// Returns the number of containers of a task.
    fn containers(&self, task: &str) -> usize {
        self.container_ids(task).lines().count()
    }

    /// Returns the number of processes in the containers of a task.
    fn processes(&self, task: &str) -> usize {
        let containers =
            self.docker(&["ps", "-q", "--filter", &format!("label=hermes-task-id={}", own(task))]);
        // The first line is a heading.
        let count = |id: &str| self.docker(&["top", id]).lines().count().saturating_sub(1);
        containers.lines().map(count).sum()
    }

    async fn close(&self, docker: &DockerEnvironment, task: &str) {
        docker.close().await;
        assert_eq!(self.containers(task), 0, "a container was left behind");
        docker.close().await;
    }
}

/// Returns a task name of this run, because a failed run may have left its container.
fn own(task: &str) -> String {
    format!("{task}-{}", std::process::id())
}

fn variables(address: &str) -> Variables {
    let base = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nowhere"), ("DOCKER_HOST", address)];
    Variables::for_commands(base, &[], &[])
}

#[tokio::test]
async fn peer_commands_run_as_they_do_here() {
    let Some(engine) = Peer::started() else { return };
    let docker = engine.engine.open(engine.options("plain"));
    speaks_plainly(RemoteFixture(&*docker)).await;
    takes_input(RemoteFixture(&*docker)).await;
    does_not_wait_for_what_is_left_running(RemoteFixture(&*docker)).await;
    keeps_processes(RemoteFixture(&*docker)).await;
    engine.close(&docker, "plain").await;
}

#[tokio::test]
async fn peer_state_lasts_and_files_can_be_worked_on() {
    let Some(engine) = Peer::started() else { return };
    let docker = engine.engine.open(engine.options("state"));
    keeps_its_state(RemoteFixture(&*docker), "/workspace/x").await;
    assert_eq!(docker.directory(), "/workspace/x");
    works_on_files(RemoteFiles::new(&*docker, OutputBounds::default()), RemoteFixture(&*docker)).await;
    engine.close(&docker, "state").await;
}

#[tokio::test]
async fn peer_what_is_stopped_here_ends_in_there() {
    let Some(engine) = Peer::started() else { return };
    let docker = engine.engine.open(engine.options("ending"));
    ends_what_it_started(RemoteFixture(&*docker)).await;
    engine.close(&docker, "ending").await;
}

#[tokio::test]
async fn peer_parallel_first_calls_share_one_container() {
    let Some(engine) = Peer::started() else { return };
    let one = engine.engine.open(engine.options("parallel"));
    let other = engine.engine.open(engine.options("parallel"));
    assert!(Arc::ptr_eq(&one, &other));
    let (a, b) = tokio::join!(RemoteFixture(&*one).run("hostname"), RemoteFixture(&*other).run("hostname"));
    assert_eq!((a.exit_code, &a), (0, &b));
    assert_eq!(engine.containers("parallel"), 1);
    engine.close(&one, "parallel").await;
}

#[tokio::test]
async fn peer_what_is_to_last_outlives_the_container() {
    let Some(engine) = Peer::started() else { return };
    let options = DockerOptions { retention: InstanceRetention::Persistent, ..engine.options("lasting") };
    let docker = engine.engine.open(options);
    let there = RemoteFixture(&*docker);
    there.check("echo kept > /workspace/file; echo home > ~/file; cd /workspace", "").await;
    let first = docker.container().await;
    engine.close(&docker, "lasting").await;
    there.check("cat file ~/file; pwd", "kept\nhome\n/workspace\n").await;
    let second = docker.container().await.unwrap();
    assert_ne!(first.as_ref(), Some(&second));
    // The container is removed from outside: nothing of a call has run, so it runs in a new one.
    engine.docker(&["rm", "-f", &second]);
    there.check("cat file", "kept\n").await;
    engine.docker(&["restart", "-t", "0", &docker.container().await.unwrap()]);
    there.check("cat file", "kept\n").await;
    assert_eq!(
        std::fs::read_to_string(
            engine.folder.path().join("docker").join(own("lasting")).join("workspace/file")
        )
        .unwrap(),
        "kept\n"
    );
    engine.close(&docker, "lasting").await;
}

#[tokio::test]
async fn peer_a_container_that_stops_in_the_middle_is_named() {
    let Some(engine) = Peer::started() else { return };
    let docker = engine.engine.open(engine.options("middle"));
    let there = RemoteFixture(&*docker);
    there.check("true", "").await;
    let name = docker.container().await.unwrap();
    let (cut, ()) = tokio::join!(there.run("echo begun; touch /tmp/begun; sleep 600"), async {
        while there.run("test -e /tmp/begun").await.exit_code != 0 {}
        engine.docker(&["kill", &name]);
    });
    assert!(cut.exit_code != 0 && cut.output.starts_with("begun\n"), "{cut:?}");
    assert!(cut.output.ends_with("[The container stopped while the command was running]"), "{cut:?}");
    there.check("echo again", "again\n").await;
    engine.close(&docker, "middle").await;
}

#[tokio::test]
async fn peer_the_host_is_out_of_reach_and_limits_hold() {
    let Some(engine) = Peer::started() else { return };
    let options = DockerOptions {
        exports: ForwardedVariables::select(["FORWARDED"], |_| Some("it's".to_owned()), |_| None),
        ..engine.options("fence")
    };
    let docker = engine.engine.open(options);
    let there = RemoteFixture(&*docker);
    std::fs::write(engine.folder.path().join("secret"), "s").unwrap();
    let seen = there
        .run(&format!(
            "cat {}/secret; ls -A /root /home; env | grep -c DOCKER_HOST",
            engine.folder.path().display()
        ))
        .await;
    assert!(seen.output.contains("No such file") && seen.output.ends_with("/root:\n0\n"), "{seen:?}");
    there.check("echo $FORWARDED", "it's\n").await;
    let root = there
        .run("touch /usr/x || echo read-only; grep -E 'CapEff|NoNewPrivs' /proc/self/status")
        .await
        .output;
    assert!(root.contains("read-only\n") && root.contains("NoNewPrivs:\t1"), "{root}");
    assert!(root.contains("CapEff:\t000000000000000b"), "CHOWN, DAC_OVERRIDE and FOWNER only: {root}");
    let forks = "import os\nn=0\nwhile n < 400:\n try: pid=os.fork()\n except OSError: break\n if not pid:\n  import time; time.sleep(60)\n  os._exit(0)\n n+=1\nprint(n, flush=True)\nos.killpg(0, 9)";
    let forked = there
        .run_with(
            "setsid -w python3 -c \"$(cat)\"",
            None,
            Some(forks.as_bytes()),
            super::support::LONG,
            &Cancel::new(),
        )
        .await;
    let forked: usize = forked
        .output
        .lines()
        .next()
        .and_then(|line| line.trim().parse().ok())
        .unwrap_or_else(|| panic!("{forked:?}"));
    assert!((100..256).contains(&forked), "{forked}");
    let eater = there.run("python3 -c 'x = bytearray(600 << 20); print(len(x))'").await;
    assert_eq!(eater.exit_code, 137, "{eater:?}");
    there.check("echo alive", "alive\n").await;
    engine.close(&docker, "fence").await;
}

#[tokio::test]
async fn peer_the_users_folder_is_the_workspace_if_asked_for() {
    let Some(engine) = Peer::started() else { return };
    let project = tempfile::tempdir().unwrap();
    let options = DockerOptions {
        mount: Some(project.path().to_owned()),
        directory: Some("/home/me/project".to_owned()),
        root: RootFilesystem::Writable,
        ..engine.options("mounted")
    };
    let docker = engine.engine.open(options);
    RemoteFixture(&*docker).check("pwd; echo x > made; touch /usr/x", "/workspace\n").await;
    assert_eq!(std::fs::read_to_string(project.path().join("made")).unwrap(), "x\n");
    engine.close(&docker, "mounted").await;
}

#[tokio::test]
async fn peer_an_image_that_is_not_there_and_an_engine_that_does_not_answer_are_said() {
    let Some(engine) = Peer::started() else { return };
    let docker = engine
        .engine
        .open(DockerOptions { image: "hermes-no-such-image".to_owned(), ..engine.options("none") });
    let failed = run_error(&docker).await;
    assert!(failed.contains("could not be started") && failed.contains("hermes-no-such-image"), "{failed}");
    assert_eq!(engine.containers("none"), 0);
    let variables = variables("unix:///no/such/socket");
    let silent = DockerEngine::find(variables, Arc::new(SystemClock::new())).unwrap();
    let failed = silent.check(&Cancel::new()).await.unwrap_err().to_string();
    assert!(failed.contains("is the engine running?"), "{failed}");
}

/// Checks a stop in a container that is full. Whether anything in it can still be ended depends on whether the engine's
/// own program for that needs one more thread there.
#[tokio::test]
async fn peer_after_a_stop_without_room_for_a_process_the_next_command_runs() {
    let Some(engine) = Peer::started() else { return };
    let docker = engine.engine.open(engine.options("full"));
    let there = RemoteFixture(&*docker);
    there.check("true", "").await;
    let before = engine.container_ids("full");
    // Each process is a small program: copies of Python would use up the memory first, and those that are killed for it
    // make room.
    let filler = "import os,time\nos.setsid()\ntry:\n while True:\n  if not os.fork(): os.execvp('sleep', ['sleep', '600'])\nexcept OSError: time.sleep(600)";
    let cancel = Cancel::new();
    let filled = async {
        until(|| engine.processes("full") >= 256).await;
        cancel.cancel();
    };
    let (late, ()) = tokio::join!(
        there.run_with("python3 -c \"$(cat)\"", None, Some(filler.as_bytes()), LONG, &cancel),
        filled
    );
    assert_eq!(late.exit_code, 130);
    there.check("echo again | cat", "again\n").await;
    let replaced = late.output.ends_with("the next command gets a new one]");
    assert_eq!(replaced, engine.container_ids("full") != before, "{late:?}");
    drop(docker);
    super::support::until(|| engine.containers("full") == 0).await;
}

#[tokio::test]
async fn peer_a_container_that_does_not_respond_is_replaced() {
    let Some(engine) = Peer::started() else { return };
    let docker = engine.engine.open(engine.options("paused"));
    let there = RemoteFixture(&*docker);
    there.check("true", "").await;
    let before = engine.container_ids("paused");
    let (mark, cancel) = (mark(), Cancel::new());
    let shell = never_ends(&mark);
    let paused = async {
        until(|| running(&mark).len() == 2).await;
        engine.docker(&["pause", before.trim()]);
        cancel.cancel();
    };
    let (late, ()) = tokio::join!(there.run_with(&shell, None, None, LONG, &cancel), paused);
    assert_eq!(late.exit_code, 130);
    assert!(late.output.ends_with("the next command gets a new one]"), "{late:?}");
    there.check("echo again", "again\n").await;
    assert_ne!(engine.container_ids("paused"), before);
    until(|| running(&mark).is_empty()).await;
    engine.close(&docker, "paused").await;
}

#[tokio::test]
async fn a_missing_client_is_said() {
    let missing = DockerEngine::with_program(
        Path::new("/no/such/docker").to_owned(),
        Variables::for_commands([("PATH", "/usr/bin")], &[], &[]),
        Arc::new(SystemClock::new()),
    );
    let failed = missing.check(&Cancel::new()).await.unwrap_err().to_string();
    assert!(failed.contains("/no/such/docker could not be started"), "{failed}");
}

async fn run_error(docker: &DockerEnvironment) -> String {
    use hermes_types::Environment;
    let command = hermes_types::ShellCommand {
        shell: "true",
        directory: None,
        stdin: None,
        timeout: super::support::LONG,
    };
    match docker.run(command, &Cancel::new()).await {
        Err(RunError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Checks the case in which Hermes is killed, which kills only the client through which a command runs.
#[tokio::test]
async fn peer_commands_end_when_their_client_is_killed() {
    let Some(peer) = Peer::started() else { return };
    let docker = peer.engine.open(peer.options("killed"));
    let there = RemoteFixture(&*docker);
    there.check("true", "").await;
    let (mark, cancel) = (mark(), Cancel::new());
    let shell = never_ends(&mark);
    for stdin in [None, Some(&[b'x'; 1000][..])] {
        let killed = async {
            until(|| running(&mark).len() == 2).await;
            for client in clients() {
                assert!(Command::new("kill").args(["-9", &client]).status().unwrap().success());
            }
        };
        tokio::join!(there.run_with(&shell, None, stdin, LONG, &cancel), killed);
        until(|| running(&mark).is_empty()).await;
    }
    there.check("echo on", "on\n").await;
    peer.close(&docker, "killed").await;
}

/// Returns the client processes that this test has started.
fn clients() -> Vec<String> {
    let me = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let parent = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(&me))
    };
    numbers.filter(parent).collect()
}
