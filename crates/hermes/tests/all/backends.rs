//! Complete turns of the built binary whose commands run on a remote backend. Those that need a container engine
//! are skipped, with a message, where none was started: `scripts/peers/docker start`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TempHome};
use serde_json::json;

use super::support::run_in;

struct EngineFixture {
    address: String,
    image: String,
}

impl EngineFixture {
    fn started() -> Option<Self> {
        let (Ok(address), Ok(image)) =
            (std::env::var("HERMES_TEST_DOCKER_HOST"), std::env::var("HERMES_TEST_DOCKER_IMAGE"))
        else {
            hermes_testkit::peer_is_missing(
                "HERMES_TEST_DOCKER_HOST is not set (scripts/peers/docker start)",
            );
            return None;
        };
        Some(Self { address, image })
    }

    /// Creates a home whose commands run in containers.
    fn home(&self, server: &ModelServer, terminal: &str) -> TempHome {
        let config = format!(
            "model:\n  provider: custom\n  base_url: {}\n  default: test-model\n\
             terminal:\n  backend: docker\n  docker_image: {}\n  docker_network: false\n{terminal}",
            server.base_url(),
            self.image,
        );
        let env = format!("DOCKER_HOST={}\n", self.address);
        TempHome::builder().config_yaml(&config).env_file(&env).build().unwrap()
    }

    /// Counts the containers of a process.
    fn containers_of(&self, pid: u32) -> usize {
        let output = Command::new("docker")
            .args(["ps", "-a", "--filter", "label=hermes-agent=1", "--format", "{{.Label \"hermes-owner\"}}"])
            .env("DOCKER_HOST", &self.address)
            .output()
            .unwrap();
        let middle = format!(".{pid}.");
        String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.contains(&middle)).count()
    }
}

#[test]
fn peer_files_and_commands_of_a_turn_share_a_container_and_its_workspace_lasts() {
    let Some(engine) = EngineFixture::started() else { return };
    let script = ModelScript::new()
        .reply(ScriptedReply::tool(
            "write_file",
            json!({"path": "/workspace/a.txt", "content": "from the tool\n"}),
        ))
        .reply(ScriptedReply::tool(
            "terminal",
            json!({"command": "cat /workspace/a.txt; cd /workspace; echo more >> a.txt"}),
        ))
        .reply(ScriptedReply::tool("read_file", json!({"path": "a.txt"})))
        .reply(ScriptedReply::text("done"))
        .reply(ScriptedReply::tool(
            "terminal",
            json!({"command": "cat /workspace/a.txt; ls /nonexistent /home"}),
        ))
        .reply(ScriptedReply::text("done again"));
    let server = ModelServer::start_blocking(script).unwrap();
    let home = engine.home(&server, "");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.txt"), "of the host").unwrap();
    let seen = run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "work"]);
    assert!(seen.contains("done"), "{seen}");
    assert!(server.request(2).body_text().contains("from the tool"), "{}", server.request(2).body_text());
    let read = server.request(3).body_text().into_owned();
    assert!(read.contains("     1|from the tool") && read.contains("     2|more"), "{read}");
    let kept = home.path().join("sandboxes/docker/default/workspace/a.txt");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "from the tool\nmore\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written here");
    // Another conversation of another run uses the same container.
    run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "again"]);
    assert!(
        server.request(5).body_text().contains("from the tool\\\\nmore"),
        "{}",
        server.request(5).body_text()
    );
}

#[test]
fn peer_a_container_cannot_read_the_home_and_a_killed_program_leaves_none_behind() {
    let Some(engine) = EngineFixture::started() else { return };
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("terminal", json!({"command": "sleep 600"})))
        .reply(ScriptedReply::tool("read_file", json!({"path": "CONFIG"})))
        .reply(ScriptedReply::text("done"));
    let server = ModelServer::start_blocking(script).unwrap();
    let home = engine.home(&server, "  container_persistent: false\n");
    let mut killed = Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(["chat", "-Q", "-q", "wait"])
        .current_dir("/")
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while engine.containers_of(killed.id()) == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(engine.containers_of(killed.id()), 1);
    let folder = tempfile::tempdir().unwrap();
    let config = home.path().join("config.yaml").display().to_string();
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("terminal", json!({"command": format!("cat {config} || echo cannot")})))
        .reply(ScriptedReply::tool("read_file", json!({"path": config})))
        .reply(ScriptedReply::text("done"));
    let server = ModelServer::start_blocking(script).unwrap();
    let next = engine.home(&server, "  container_persistent: false\n");
    let seen = run_in(folder.path(), next.path(), &["chat", "-Q", "-q", "look"]);
    assert!(seen.contains("done"), "{seen}");
    let last = server.request(2).body_text().into_owned();
    assert!(last.contains("cannot") && last.contains("File not found"), "{last}");
    while engine.containers_of(killed.id()) > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A home whose commands run in Modal sandboxes; a fake of Modal's Python package makes folders of them.
struct Modal {
    world: tempfile::TempDir,
    home: TempHome,
}

impl Modal {
    fn new(server: &ModelServer, variables: &str) -> Self {
        let world = tempfile::tempdir().unwrap();
        let standin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hermes-exec/tests/modal/standin");
        let config = format!(
            "model:\n  provider: custom\n  base_url: {}\n  default: test-model\nterminal: {{backend: modal}}\n",
            server.base_url(),
        );
        let env = format!(
            "PYTHONPATH={}\nPYTHONDONTWRITEBYTECODE=1\nMODAL_STANDIN={}\n{variables}",
            standin.display(),
            world.path().display(),
        );
        let home = TempHome::builder().config_yaml(&config).env_file(&env).build().unwrap();
        Self { world, home }
    }

    fn sandboxes(&self) -> usize {
        let Ok(files) = std::fs::read_dir(self.world.path().join("sandboxes")) else { return 0 };
        files.flatten().filter(|file| file.path().extension().is_some_and(|end| end == "alive")).count()
    }
}

const TOKENS: &str = "MODAL_TOKEN_ID=ak-right\nMODAL_TOKEN_SECRET=as-right\n";

#[test]
fn files_of_a_turn_in_a_sandbox_of_modal_last() {
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("terminal", json!({"command": "echo from the command > ~/a.txt; env"})))
        .reply(ScriptedReply::tool("read_file", json!({"path": "~/a.txt"})))
        .reply(ScriptedReply::text("done"))
        .reply(ScriptedReply::tool("terminal", json!({"command": "cat ~/a.txt"})))
        .reply(ScriptedReply::text("done again"));
    let server = ModelServer::start_blocking(script).unwrap();
    let modal = Modal::new(&server, TOKENS);
    let folder = tempfile::tempdir().unwrap();
    let seen = run_in(folder.path(), modal.home.path(), &["chat", "-Q", "-q", "work"]);
    assert!(seen.contains("done"), "{seen}");
    let (ran, read) =
        (server.request(1).body_text().into_owned(), server.request(2).body_text().into_owned());
    assert!(ran.contains("HOME=") && !ran.contains("-right"), "{ran}");
    assert!(read.contains("     1|from the command"), "{read}");
    assert_eq!(modal.sandboxes(), 0);
    let kept = std::fs::read_to_string(modal.home.path().join("modal_snapshots.json")).unwrap();
    assert!(kept.starts_with(r#"{"default":"im-"#), "{kept}");
    run_in(folder.path(), modal.home.path(), &["chat", "-Q", "-q", "again"]);
    assert!(server.request(4).body_text().contains("from the command"), "{}", server.request(4).body_text());
}

#[test]
fn a_killed_program_leaves_no_sandbox_of_modal_behind() {
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("terminal", json!({"command": "touch ~/begun; sleep 600"})));
    let server = ModelServer::start_blocking(script).unwrap();
    let modal = Modal::new(&server, TOKENS);
    let mut killed = Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(["chat", "-Q", "-q", "wait"])
        .current_dir("/")
        .env_clear()
        .env("HERMES_HOME", modal.home.path())
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = || {
        let Ok(files) = std::fs::read_dir(modal.world.path().join("sandboxes")) else { return false };
        files.flatten().any(|file| file.path().join("begun").exists())
    };
    while !begun() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(modal.sandboxes(), 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    while modal.sandboxes() > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Checks that by default the Modal gateway is used, if there is one with a token; else the account.
#[test]
fn a_gateway_of_modal_comes_before_the_account() {
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("read_file", json!({"path": "~/a"})))
        .reply(ScriptedReply::text("done"))
        .reply(ScriptedReply::tool("terminal", json!({"command": "echo $((6 * 7)) sandboxes"})))
        .reply(ScriptedReply::text("done"));
    let server = ModelServer::start_blocking(script).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let gateway = "MODAL_GATEWAY_URL=http://127.0.0.1:1\n";
    let both = Modal::new(&server, &format!("{TOKENS}{gateway}TOOL_GATEWAY_USER_TOKEN=t\n"));
    run_in(folder.path(), both.home.path(), &["chat", "-Q", "-q", "go"]);
    let told = server.request(1).body_text().into_owned();
    assert!(told.contains("no Modal sandbox"), "{told}");
    assert!(!both.world.path().join("calls").exists(), "the account was asked");
    let no_token = Modal::new(&server, &format!("{TOKENS}{gateway}"));
    run_in(folder.path(), no_token.home.path(), &["chat", "-Q", "-q", "go"]);
    assert!(server.request(3).body_text().contains("42 sandboxes"));
}

/// Checks that problems with the package or the account are reported, and nothing runs on this machine instead.
#[test]
fn an_account_with_modal_that_cannot_be_used_says_why() {
    let unusable = "PYTHONPATH=/nonexistent\n";
    for (variables, words) in [
        (format!("{TOKENS}{unusable}"), "no Python has Modal's package: tried /"),
        ("MODAL_TOKEN_ID=ak-right\n".to_owned(), "MODAL_TOKEN_SECRET beside MODAL_TOKEN_ID"),
        ("MODAL_TOKEN_ID=a\nMODAL_TOKEN_SECRET=b\n".to_owned(), "AuthError: Token [MODAL_TOKEN_ID]"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let script = ModelScript::new()
            .reply(ScriptedReply::tool("terminal", json!({"command": format!("touch {}", file.display())})))
            .reply(ScriptedReply::text("done"));
        let server = ModelServer::start_blocking(script).unwrap();
        let modal = Modal::new(&server, &variables);
        run_in(folder.path(), modal.home.path(), &["chat", "-Q", "-q", "go"]);
        let told = server.request(1).body_text().into_owned();
        assert!(told.contains(words), "{words}: {told}");
        assert!(!file.exists(), "{words}");
    }
}

/// Checks that a missing setting is named in the tool's answer; nothing runs on this machine instead.
#[test]
fn a_backend_that_lacks_something_says_what() {
    for (terminal, words) in [
        ("{backend: ssh}", "terminal.ssh_host"),
        ("{backend: daytona}", "DAYTONA_API_KEY"),
        ("{backend: modal}", "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"),
        ("{backend: modal}", "to use a gateway, MODAL_GATEWAY_URL"),
        ("{backend: modal, modal_mode: managed}", "managed mode needs MODAL_GATEWAY_URL"),
        ("{backend: modal, modal_mode: direct}", "which `modal token new` writes"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let script = ModelScript::new()
            .reply(ScriptedReply::tool("terminal", json!({"command": format!("touch {}", file.display())})))
            .reply(ScriptedReply::tool("write_file", json!({"path": file, "content": "x"})))
            .reply(ScriptedReply::text("done"));
        let server = ModelServer::start_blocking(script).unwrap();
        let config = format!(
            "model:\n  provider: custom\n  base_url: {}\n  default: test-model\nterminal: {terminal}\n",
            server.base_url()
        );
        let home = TempHome::builder().config_yaml(&config).build().unwrap();
        run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "go"]);
        let told = server.request(1).body_text().into_owned();
        assert!(told.contains("Terminal tool disabled: ") && told.contains(words), "{terminal}: {told}");
        assert!(server.request(2).body_text().contains("File tools disabled: "), "{terminal}");
        assert!(!file.exists(), "{terminal}");
    }
}

#[test]
fn a_number_that_is_none_is_named_and_files_still_work() {
    let folder = tempfile::tempdir().unwrap();
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("terminal", json!({"command": "echo ran"})))
        .reply(ScriptedReply::tool("write_file", json!({"path": "made", "content": "x"})))
        .reply(ScriptedReply::text("done"));
    let server = ModelServer::start_blocking(script).unwrap();
    let config =
        format!("model:\n  provider: custom\n  base_url: {}\n  default: test-model\n", server.base_url());
    let home = TempHome::builder().config_yaml(&config).env_file("TERMINAL_TIMEOUT=5m\n").build().unwrap();
    run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "go"]);
    let told = server.request(1).body_text().into_owned();
    assert!(told.contains("TERMINAL_TIMEOUT is `5m`") && told.contains(r#"\"exit_code\": -1"#), "{told}");
    assert!(folder.path().join("made").exists());
}
