//! Tests of Modal sandboxes with a fake of Modal's Python package, in which sandboxes are folders of this
//! machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{
    CredentialFiles, ForwardedVariables, HostExposure, InstanceRetention, ModalAccount, ModalDirectBackend,
    ModalDirectEnvironment, ModalOptions, OutputBounds, PythonSearch, RemoteBackend, RemoteFiles,
    ResourceLimits, Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, CommandOutput, Environment, RunError, ShellCommand};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::files::works_on_files;
use super::remote::{
    RemoteFixture, does_not_wait_for_what_is_left_running, keeps_its_state, speaks_plainly, takes_input,
};
use super::support::{LONG, lives, until};

const TOKENS: [(&str, &str); 2] = [("MODAL_TOKEN_ID", "ak-right"), ("MODAL_TOKEN_SECRET", "as-right")];

/// An account, and the folder that holds its state.
struct World {
    folder: TempDir,
    account: Arc<ModalAccount>,
}

impl World {
    fn new() -> Self {
        Self::with(&TOKENS)
    }

    fn with(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let account = Self::account(folder.path(), variables);
        Self { folder, account }
    }

    fn account(folder: &Path, variables: &[(&str, &str)]) -> Arc<ModalAccount> {
        let standin = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modal/standin");
        Self::account_with(folder, variables, standin.to_str().unwrap())
    }

    fn account_with(folder: &Path, variables: &[(&str, &str)], packages: &str) -> Arc<ModalAccount> {
        let home = folder.to_str().unwrap();
        let base = [
            ("HOME", home),
            ("MODAL_STANDIN", home),
            ("PATH", "/usr/bin:/bin"),
            ("PYTHONPATH", packages),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ];
        let names: Vec<String> = TOKENS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let variables =
            Variables::for_commands(base.into_iter().chain(variables.iter().copied()), &names, &[]);
        let pythons = PythonSearch { configured: None, hermes_home: folder };
        ModalAccount::new(
            pythons,
            variables,
            folder.join("modal_snapshots.json"),
            Arc::new(SystemClock::new()),
        )
    }

    fn options(&self, keep: InstanceRetention) -> ModalOptions {
        ModalOptions {
            task: "task".to_owned(),
            image: "python:3.11-slim".to_owned(),
            directory: Some(self.path("").to_str().unwrap().to_owned()),
            exports: ForwardedVariables::select(["FORWARDED"], |_| Some("f".to_owned()), |_| None),
            limits: ResourceLimits { cpus: 1.0, memory_mb: 1024, disk_mb: 51200 },
            retention: keep,
            idle: Duration::from_mins(5),
            bounds: OutputBounds::default(),
        }
    }

    fn open(&self, keep: InstanceRetention) -> Arc<ModalDirectEnvironment> {
        self.account.open(self.options(keep))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cause(&self, trouble: &str) {
        std::fs::write(self.path(trouble), "").unwrap();
    }

    fn end_trouble(&self, trouble: &str) {
        std::fs::remove_file(self.path(trouble)).unwrap();
    }

    /// Returns the recorded calls with this name.
    fn calls(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|call| call["call"] == name).collect()
    }

    fn envoys(&self) -> Vec<String> {
        self.calls("import").iter().map(|call| call["pid"].to_string()).collect()
    }

    fn alive(&self) -> usize {
        let files = std::fs::read_dir(self.path("sandboxes")).unwrap();
        files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "alive"))
            .count()
    }

    /// Ends the sandboxes without a request from Hermes.
    fn end_sandboxes(&self) {
        for file in std::fs::read_dir(self.path("sandboxes")).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "alive") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    fn snapshots(&self) -> Value {
        let text = std::fs::read_to_string(self.path("modal_snapshots.json")).unwrap_or("{}".to_owned());
        serde_json::from_str(&text).unwrap()
    }
}

async fn refused(place: &ModalDirectEnvironment) -> String {
    let command = ShellCommand { shell: "true", directory: None, stdin: None, timeout: LONG };
    match place.run(command, &Cancel::new()).await {
        Err(RunError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Runs a command that reports its start, and interrupts it then.
async fn interrupted(world: &World, place: &ModalDirectEnvironment, command: &str) -> CommandOutput {
    let (flag, cancel) = (world.path("begun"), Cancel::new());
    let command = format!("{command}; touch {}; sleep 600", flag.display());
    let there = RemoteFixture(place);
    let (stopped, ()) = tokio::join!(there.run_with(&command, None, None, LONG, &cancel), async {
        until(|| flag.exists()).await;
        cancel.cancel();
    });
    std::fs::remove_file(flag).unwrap();
    stopped
}

#[tokio::test]
async fn commands_run_as_they_do_here() {
    let world = World::new();
    let place = world.open(InstanceRetention::Ephemeral);
    let there = RemoteFixture(&*place);
    speaks_plainly(there).await;
    takes_input(there).await;
    there.check("echo $FORWARDED", "f\n").await;
    keeps_its_state(there, world.path("x").to_str().unwrap()).await;
    works_on_files(RemoteFiles::new(&*place, OutputBounds::default()), there).await;
    does_not_wait_for_what_is_left_running(there).await;
    place.close().await;
    assert_eq!(world.calls("Sandbox.terminate").len(), 1);
    assert!(world.calls("Sandbox.snapshot_filesystem").is_empty());
}

#[tokio::test]
async fn calls_go_on_beside_each_other() {
    let world = World::new();
    let place = world.open(InstanceRetention::Ephemeral);
    let there = RemoteFixture(&*place);
    let (first, second) = (world.path("first"), world.path("second"));
    // Each command waits for the other.
    let meet = |own: &Path, other: &Path| {
        format!("touch {}; until [ -e {} ]; do sleep 0.01; done; echo met", own.display(), other.display())
    };
    let (one, two) = (meet(&first, &second), meet(&second, &first));
    tokio::join!(there.check(&one, "met\n"), there.check(&two, "met\n"));
    assert_eq!(world.calls("Sandbox.create").len(), 1);
    place.close().await;
}

#[tokio::test]
async fn a_sandbox_is_made_as_configured_and_its_python_goes_with_it() {
    let world = World::new();
    let place = world.open(InstanceRetention::Ephemeral);
    RemoteFixture(&*place).check("true", "").await;
    let call = &world.calls("Sandbox.create")[0];
    assert_eq!(
        (&call["args"], &call["image"], &call["timeout"], &call["cpu"], &call["memory"]),
        (&json!(["sleep", "infinity"]), &json!("python:3.11-slim"), &json!(3600), &json!(1.0), &json!(1024))
    );
    assert_eq!(world.calls("App.lookup")[0]["name"], "hermes-agent");
    let import = &world.calls("import")[0];
    assert_eq!((&import["token"], &import["directory"]), (&json!("ak-right"), &json!("/")));
    assert!(!import["argv"].to_string().contains("-right"));
    let envoy = world.envoys().remove(0);
    assert!(lives(&envoy));
    place.close().await;
    until(|| !lives(&envoy)).await;
    // The program is started again when it is needed.
    RemoteFixture(&*place).check("true", "").await;
    assert_eq!(world.envoys().len(), 2);
    place.close().await;
}

#[tokio::test]
async fn files_last_from_sandbox_to_sandbox_by_a_snapshot() {
    let world = World::new();
    let place = world.open(InstanceRetention::Persistent);
    RemoteFixture(&*place).check("echo kept > ~/file", "").await;
    place.close().await;
    let image = world.calls("Sandbox.snapshot_filesystem")[0]["image"].clone();
    assert_eq!(world.snapshots(), json!({ "task": image }));
    assert_eq!(world.alive(), 0);
    // Another Hermes process finds the image.
    let again =
        World::account(world.folder.path(), &TOKENS).open(world.options(InstanceRetention::Persistent));
    RemoteFixture(&*again).check("cat ~/file", "kept\n").await;
    assert_eq!(world.calls("Sandbox.create")[1]["id"], image);
    again.close().await;
    // A sandbox that is not persistent starts without the image.
    let ephemeral =
        World::account(world.folder.path(), &TOKENS).open(world.options(InstanceRetention::Ephemeral));
    RemoteFixture(&*ephemeral).check("ls ~", "").await;
    ephemeral.close().await;
}

#[tokio::test]
async fn a_snapshot_that_is_gone_is_done_without_and_one_that_cannot_be_reached_is_not() {
    let world = World::new();
    let known = r#"{"other":"im-other","task":"im-gone"}"#;
    std::fs::write(world.path("modal_snapshots.json"), known).unwrap();
    let place = world.open(InstanceRetention::Persistent);
    for (trouble, words) in [
        ("no connection to images", "ConnectionError: Could not connect"),
        ("a conflict about images", "ConflictError: Sandbox already finished"),
    ] {
        world.cause(trouble);
        let text = refused(&place).await;
        assert!(text.contains(words), "{text}");
        world.end_trouble(trouble);
    }
    assert_eq!(world.snapshots()["task"], "im-gone");
    RemoteFixture(&*place).check("ls ~", "").await;
    place.close().await;
    assert_eq!(world.snapshots()["other"], "im-other");
    assert_eq!(world.snapshots()["task"], world.calls("Sandbox.snapshot_filesystem")[0]["image"]);
}

#[tokio::test]
async fn time_ends_a_command_and_an_interrupt_its_sandbox() {
    let world = World::new();
    let place = world.open(InstanceRetention::Persistent);
    let there = RemoteFixture(&*place);
    there.check("echo before > ~/file", "").await;
    let limit = Duration::from_secs(1);
    let late = there.run_with("sleep 600 & echo $!; sleep 600", None, None, limit, &Cancel::new()).await;
    let (pid, rest) = late.output.split_once('\n').unwrap();
    assert_eq!((rest, late.exit_code), ("\n[Command timed out after 1s]", 124));
    until(|| !lives(pid)).await;
    let silent = there.run_with("sleep 600", None, None, limit, &Cancel::new()).await;
    assert_eq!((silent.output.as_str(), silent.exit_code), ("Command timed out after 1s", 124));
    assert_eq!(world.alive(), 1);

    let stopped = interrupted(&world, &place, "echo said; echo $$ > ~/pid").await;
    // The last output may not have arrived yet.
    let said = stopped.output.strip_prefix("said\n").unwrap_or(&stopped.output);
    assert_eq!((said, stopped.exit_code), ("\n[Command interrupted - Modal sandbox terminated]", 130));
    // The next sandbox has the files of the last one.
    there.check("cat ~/file", "before\n").await;
    assert_eq!(world.calls("Sandbox.create").len(), 2);
    assert_eq!(world.alive(), 1);
    let pid = there.run("cat ~/pid").await.output;
    until(|| !lives(&pid)).await;
    // Closing right after an interrupt leaves nothing behind.
    interrupted(&world, &place, "echo last > ~/file").await;
    place.close().await;
    assert_eq!(world.alive(), 0);
    let last = world.snapshots()["task"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(world.path("images").join(last).join("file")).unwrap(), "last\n");
}

#[tokio::test]
async fn what_nobody_waits_for_is_ended() {
    let world = World::new();
    let place = world.open(InstanceRetention::Ephemeral);
    let (there, flag, never) = (RemoteFixture(&*place), world.path("begun"), Cancel::new());
    let command = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 600", flag.display());
    {
        let mut call = std::pin::pin!(there.run_with(&command, None, None, LONG, &never));
        tokio::select! {
            _ = &mut call => panic!("it cannot end"),
            () = until(|| flag.exists()) => {}
        }
    }
    let pid = std::fs::read_to_string(&flag).unwrap();
    until(|| !lives(&pid)).await;
    there.check("echo still here", "still here\n").await;
    place.close().await;
}

#[tokio::test]
async fn a_creation_nobody_waits_for_leaves_nothing() {
    let world = World::new();
    let place = world.open(InstanceRetention::Ephemeral);
    world.cause("creation takes long");
    let cancel = Cancel::new();
    let (stopped, ()) =
        tokio::join!(RemoteFixture(&*place).run_with("true", None, None, LONG, &cancel), async {
            until(|| world.calls("Sandbox.create").len() == 1).await;
            cancel.cancel();
        });
    assert_eq!((stopped.output.as_str(), stopped.exit_code), ("\n[Command interrupted]", 130));
    world.end_trouble("creation takes long");
    until(|| world.calls("Sandbox.terminate").len() == 1).await;
    assert_eq!(world.alive(), 0);
}

#[tokio::test]
async fn a_sandbox_that_is_gone_is_made_again() {
    let world = World::new();
    let place = world.open(InstanceRetention::Ephemeral);
    RemoteFixture(&*place).check("echo one", "one\n").await;
    world.end_sandboxes();
    RemoteFixture(&*place).check("echo two", "two\n").await;
    assert_eq!(world.calls("Sandbox.create").len(), 2);
    let cut = RemoteFixture(&*place)
        .run(&format!("echo said; rm {}/*.alive; kill -9 $$", world.path("sandboxes").display()))
        .await;
    assert_eq!(
        (cut.output.as_str(), cut.exit_code),
        ("said\n\n[The Modal sandbox ended while the command was running]", 137)
    );
    RemoteFixture(&*place).check("echo three", "three\n").await;
    place.close().await;
}

#[tokio::test]
async fn a_python_that_dies_is_told_and_started_again_with_the_same_sandbox() {
    let world = World::new();
    let place = world.open(InstanceRetention::Ephemeral);
    RemoteFixture(&*place).check("echo kept > ~/file", "").await;
    world.cause("the envoy dies");
    let lost = RemoteFixture(&*place).run("echo never").await;
    assert_eq!(lost.exit_code, 1);
    assert!(
        lost.output.starts_with("[Modal gave no answer (the Python that speaks with it has ended)")
            && lost.output.contains("may have run"),
        "{lost:?}"
    );
    world.end_trouble("the envoy dies");
    RemoteFixture(&*place).check("cat ~/file", "kept\n").await;
    assert_eq!((world.envoys().len(), world.calls("Sandbox.create").len()), (2, 1));
    place.close().await;
    assert_eq!(world.alive(), 0);
}

/// Checks that an environment that is dropped without being closed leaves nothing behind, and that persistent
/// data is kept.
#[tokio::test]
async fn what_nobody_holds_is_ended() {
    let world = World::new();
    let place = world.open(InstanceRetention::Persistent);
    RemoteFixture(&*place).check("echo kept > ~/file", "").await;
    let envoy = world.envoys().remove(0);
    drop(place);
    until(|| !lives(&envoy)).await;
    assert_eq!((world.alive(), world.calls("Sandbox.terminate").len()), (0, 1));
    assert_eq!(world.snapshots()["task"], world.calls("Sandbox.snapshot_filesystem")[0]["image"]);
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let bare = tempfile::tempdir().unwrap();
    let account = World::account_with(bare.path(), &TOKENS, "/no/such");
    let text = match account.check(&Cancel::new()).await {
        Err(RunError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(
        text.contains("/usr/bin/python3 (ModuleNotFoundError: No module named 'modal')")
            && text.contains("pip install modal"),
        "{text}"
    );

    let wrong = World::with(&[TOKENS[0], ("MODAL_TOKEN_SECRET", "as-wrong")]);
    let text = refused(&wrong.open(InstanceRetention::Ephemeral)).await;
    assert!(text.starts_with("no Modal sandbox: AuthError: Token [MODAL_TOKEN_ID]"), "{text}");
    assert!(!text.contains("ak-right") && !text.contains("as-wrong"), "{text}");

    let world = World::new();
    let options =
        ModalOptions { image: "no-such-image".to_owned(), ..world.options(InstanceRetention::Ephemeral) };
    let text = refused(&world.account.open(options)).await;
    assert!(text.contains("RemoteError: Image build failed"), "{text}");

    let world = World::new();
    world.cause("no bash");
    let text = refused(&world.open(InstanceRetention::Ephemeral)).await;
    assert!(
        text.contains("no bash could be started") && text.contains("(exit code 127): exec: bash: not found"),
        "{text}"
    );
}

#[tokio::test]
async fn the_users_own_file_is_enough() {
    let world = World::with(&[]);
    std::fs::write(world.path(".modal.toml"), "[default]\n").unwrap();
    let place = world.open(InstanceRetention::Ephemeral);
    RemoteFixture(&*place).check("echo in", "in\n").await;
    place.close().await;
}

/// Checks that credential files are uploaded where nothing can be mounted, also to a new sandbox.
#[tokio::test]
async fn credential_files_are_brought() {
    let world = World::new();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("token.json"), "secret").unwrap();
    let credentials = CredentialFiles::new(home.path());
    credentials.add("token.json").unwrap();
    let options = world.options(InstanceRetention::Ephemeral);
    let backend = ModalDirectBackend { account: Arc::clone(&world.account), options };
    let elsewhere = RemoteBackend { backend: Arc::new(backend), credentials };
    assert_eq!(elsewhere.host_exposure(), HostExposure::Isolated);
    elsewhere.check(&Cancel::new()).await.unwrap();
    let room = elsewhere.open("task");
    let seat = room.open_session();
    let show = "cat ~/.hermes/token.json; stat -c ' %a' ~/.hermes/token.json";
    RemoteFixture(&seat).check(show, "secret 600\n").await;
    world.end_sandboxes();
    RemoteFixture(&seat).check("true", "").await;
    RemoteFixture(&seat).check(show, "secret 600\n").await;
    room.close().await;
}
