//! Attempts to reach sockets of programs that act for the user, and terminals of other sessions, each made
//! from inside the sandbox.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_exec::{
    LocalEnvironment, LocalHost, LocalOptions, OutputBounds, Sandbox, SandboxActivation, SandboxPaths,
    Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, CommandOutput, ShellCommand};
use tempfile::TempDir;

use super::support::LONG;

struct Home {
    _top: TempDir,
    root: PathBuf,
    local: LocalEnvironment,
}

impl Home {
    fn new(adjust: impl FnOnce(Sandbox) -> Sandbox, usable: &[&str]) -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["user/proj", "tmp", "hermes"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("hermes"),
            temporary: vec![root.join("tmp")],
            writable: usable.iter().map(|name| root.join(name)).collect(),
            programs: Vec::new(),
        };
        let home = root.join("user").to_str().unwrap().to_owned();
        let base = [("HOME", home.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        let options = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: adjust(Sandbox::new(SandboxActivation::Auto, places)),
        };
        let local = LocalHost::new(options, Arc::new(SystemClock::new())).open(root.join("user/proj"));
        if !Sandbox::is_possible() {
            hermes_testkit::peer_is_missing("Landlock");
            return None;
        }
        Some(Self { _top: top, root, local })
    }

    async fn run(&self, shell: &str) -> CommandOutput {
        let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
        self.local.run_sandboxed(command, &Cancel::new()).await.unwrap().0
    }

    async fn reaches(&self, socket: &Path) -> bool {
        let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
        self.run(&format!("python3 -c '{connect}' {}", socket.display())).await.exit_code == 0
    }
}

/// The sockets below the user's home.
const IN_HOME: &[&str] = &[
    ".gnupg/S.gpg-agent",
    ".gnupg/S.gpg-agent.ssh",
    ".gnupg/S.scdaemon",
    ".ssh/cm-host",
    ".ssh/sockets/user@host",
    ".ssh/agent.sock",
    ".docker/run/docker.sock",
    ".docker/desktop/docker.sock",
    ".colima/default/docker.sock",
    ".lima/default/sock/docker.sock",
    ".rd/docker.sock",
    ".orbstack/run/docker.sock",
    ".local/share/containers/podman/machine/podman.sock",
    ".emacs.d/server/server",
    ".config/emacs/server/server",
    ".local/state/nvim/server.0",
    ".tmux/default",
    ".screen/1.tty",
    ".dbus/session",
    ".vscode-server/ipc.sock",
    ".cache/zellij/s",
    "some-program.sock",
    ".hidden-program.sock",
];
/// The names of folders in the temporary folder.
const IN_TEMPORARY: &[&str] =
    &["ssh-", "tmux-", "emacs", "nvim.", "vscode-", "kitty-", "gpg-", "keyring-", "dbus-", "screens"];

#[tokio::test]
async fn sockets_that_act_for_the_user_are_out_of_reach() {
    let Some(home) = Home::new(|sandbox| sandbox, &["user/.ssh/cm-host"]) else { return };
    if home.local.sandbox_is_partial() {
        hermes_testkit::peer_is_missing("user namespaces, or root");
        return;
    }
    let mut held = Vec::new();
    let mut reaches = Vec::new();
    for name in IN_HOME {
        let path = home.root.join("user").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        held.push(UnixListener::bind(&path).unwrap());
        reaches.push(path);
    }
    let folders: Vec<TempDir> = IN_TEMPORARY
        .iter()
        .map(|prefix| tempfile::Builder::new().prefix(prefix).tempdir_in("/tmp").unwrap())
        .collect();
    for folder in &folders {
        let path = folder.path().join("agent.1");
        held.push(UnixListener::bind(&path).unwrap());
        reaches.push(path);
    }
    assert!(reaches.len() >= 30);
    for path in &reaches {
        let usable = path.ends_with(".ssh/cm-host");
        assert_eq!(home.reaches(path).await, usable, "{}", path.display());
    }
    // A server of the project itself is not such a socket.
    let own = home.root.join("user/proj/s.sock");
    held.push(UnixListener::bind(&own).unwrap());
    assert!(home.reaches(&own).await);
}

#[tokio::test]
async fn terminals_of_other_sessions_are_out_of_reach() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let _person = fs::File::options().read(true).write(true).open(&name).unwrap();
    for mounts in [true, false] {
        let Some(home) = Home::new(|sandbox| if mounts { sandbox } else { sandbox.without_mounts() }, &[])
        else {
            return;
        };
        for shell in [
            format!("echo painted > {name}"),
            format!("head -c1 < {name}"),
            format!("python3 -c 'import os; os.open(\"{name}\", os.O_RDONLY)'"),
            format!(
                "python3 -c 'import os, fcntl, termios; f = os.open(\"{name}\", os.O_RDWR); fcntl.ioctl(f, termios.TIOCSTI, b\"x\")'"
            ),
            format!("stty -F {name} -echo"),
            format!("ln -s {name} t; echo x > t"),
            format!("exec 3<>/proc/self/root{name}"),
            "echo painted > /dev/tty".to_owned(),
            "head -c1 /dev/tty".to_owned(),
            "cat /dev/console".to_owned(),
            "ls -l /dev/vda && head -c 10 /dev/vda || exit 1".to_owned(),
        ] {
            let finished = home.run(&shell).await;
            assert_ne!(finished.exit_code, 0, "mounts {mounts}: {shell}: {}", finished.output);
        }
        // A program can allocate a terminal of its own.
        let own = "python3 -c 'import os, pty; m, s = pty.openpty(); os.write(s, b\"x\"); assert os.isatty(s); assert os.read(m, 1) == b\"x\"'";
        if !home.local.sandbox_is_partial() {
            let finished = home.run(own).await;
            assert_eq!(finished.exit_code, 0, "{}", finished.output);
        }
        let finished = home.run("echo x > /dev/null && head -c 4 /dev/urandom | wc -c && cat <(echo sub) && echo y | cat /dev/stdin").await;
        assert_eq!(finished.exit_code, 0, "mounts {mounts}: {}", finished.output);
    }
}
