//! Tests of what a sandboxed command can reach. On a kernel without Landlock there is nothing to check.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_exec::{
    LocalHost, LocalOptions, OutputBounds, Sandbox, SandboxActivation, SandboxPaths, TerminalMode, Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, CommandOutput, Environment, ShellCommand};
use tempfile::TempDir;

use super::support::LONG;

struct SandboxedHost {
    _top: TempDir,
    root: PathBuf,
    host: Arc<LocalHost>,
}

impl SandboxedHost {
    fn new() -> Option<Self> {
        Self::with_temporary(|_| Vec::new())
    }

    fn with_temporary(temporary: impl FnOnce(&Path) -> Vec<PathBuf>) -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in [
            "user/.ssh",
            "user/.aws",
            "user/.cargo/registry",
            "user/proj/.git",
            "user/proj/src",
            "user/other",
            "tmp",
            "hermes",
            "extra",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [
            "user/.ssh/id_ed25519",
            "user/.ssh/known_hosts",
            "user/.aws/credentials",
            "user/.bashrc",
            "user/notes.txt",
            "hermes/.env",
            "hermes/config.yaml",
            "user/other/o.txt",
            "user/.cargo/registry/c",
        ] {
            fs::write(root.join(file), "content\n").unwrap();
        }
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("hermes"),
            temporary: temporary(&root),
            writable: vec![root.join("extra")],
            programs: Vec::new(),
        };
        let home = root.join("user").to_str().unwrap().to_owned();
        let base = [("HOME", home.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        let options = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: Sandbox::new(SandboxActivation::Auto, places),
        };
        let host = LocalHost::new(options, Arc::new(SystemClock::new()));
        if !Sandbox::is_possible() {
            hermes_testkit::peer_is_missing("Landlock");
            return None;
        }
        Some(Self { _top: top, root, host })
    }

    async fn run(&self, from: &str, shell: &str) -> CommandOutput {
        let local = self.host.open(self.root.join(from));
        let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
        local.run(command, &Cancel::new()).await.unwrap()
    }

    async fn works(&self, from: &str, commands: &[&str]) {
        for command in commands {
            let finished = self.run(from, command).await;
            assert_eq!(finished.exit_code, 0, "{command}: {}", finished.output);
        }
    }

    /// Checks that commands work, or are refused in words where the system permits no mounts.
    async fn works_with_mounts(&self, from: &str, commands: &[&str]) {
        if self.host.open(self.root.join(from)).sandbox_is_partial() {
            self.refused(from, commands).await;
        } else {
            self.works(from, commands).await;
        }
    }

    async fn refused(&self, from: &str, commands: &[&str]) {
        for command in commands {
            let finished = self.run(from, command).await;
            assert_ne!(finished.exit_code, 0, "{command}");
            assert!(!finished.output.contains("content"), "{command}: {}", finished.output);
            let words = ["Permission denied", "Read-only file system", "No such file or directory"];
            assert!(
                words.iter().any(|word| finished.output.contains(word)),
                "{command}: {}",
                finished.output
            );
            assert!(finished.output.contains("[sandbox: "), "{command}: {}", finished.output);
        }
    }
}

const WORK: &[&str] = &[
    "echo x > a && cat a && mv a ../b && rm ../b",
    "mkdir -p d/e && touch d/e/f && rm -r d",
    "touch ../.git/index ../new",
    "echo x > ../../../tmp/t && echo x > ../../../extra/e && echo x > $CARGO_HOME/c",
    "cat ~/other/o.txt ~/notes.txt /etc/passwd ~/.ssh/known_hosts ~/.bashrc > /dev/null",
    "ls ~ ~/.ssh > /dev/null; echo x > /dev/null",
    "export A=1; cd .. && pwd",
    "echo 'int main(){return 0;}' | cat > x.c; find . -name x.c",
];

const PRYING: &[&str] = &[
    "cat ~/.ssh/id_ed25519",
    "cat ~/.aws/credentials",
    "cat ../../hermes/.env",
    "ln -s ~/.aws link; cat link/credentials",
    "bash -c 'cat ~/.ssh/id_ed25519'",
];

const MEDDLING: &[&str] = &[
    "echo x >> ~/.bashrc",
    "echo x > ~/new",
    "rm ~/other/o.txt",
    "echo x > ~/.ssh/authorized_keys",
    "echo x > ~/.cargo/registry/c",
    "echo x >> ../../hermes/config.yaml",
    "touch /usr/local/x",
];

#[tokio::test]
async fn a_project_can_be_worked_on() {
    let Some(fenced) = SandboxedHost::new() else { return };
    fenced.works("user/proj/src", WORK).await;
}

#[tokio::test]
async fn secrets_and_the_rest_of_the_machine_are_out_of_reach() {
    let Some(fenced) = SandboxedHost::new() else { return };
    fenced.refused("user/proj", PRYING).await;
    fenced.refused("user/proj", MEDDLING).await;
    assert_eq!(fs::read_to_string(fenced.root.join("user/.bashrc")).unwrap(), "content\n");
}

#[tokio::test]
async fn however_full_the_folders_around_secrets_are() {
    let Some(fenced) = SandboxedHost::new() else { return };
    for number in 0..5_000 {
        fs::write(fenced.root.join(format!("user/{number}")), "").unwrap();
        fs::write(fenced.root.join(format!("extra/{number}")), "").unwrap();
    }
    fenced.works("user/proj/src", WORK).await;
    fenced.refused("user/proj", MEDDLING).await;
    fenced.refused("user/proj", PRYING).await;
}

/// Checks a writable folder with as many entries as possible that contains the user's home.
#[tokio::test]
async fn in_a_full_temporary_folder_the_delicate_parts_of_a_home_are_kept() {
    let Some(fenced) = SandboxedHost::with_temporary(|root| vec![root.to_owned()]) else { return };
    for number in 0..5_000 {
        fs::write(fenced.root.join(number.to_string()), "").unwrap();
    }
    fenced.works("user/proj", &["echo x > ../../17", "echo x > ~/other/o.txt"]).await;
    fenced.works_with_mounts("user/proj", &["echo x > ../../new"]).await;
    fenced.refused("user/proj", &["echo x >> ~/.bashrc", "echo x >> ../../hermes/config.yaml"]).await;
    fenced.refused("user/proj", PRYING).await;
    let planted = fenced.run("user/proj", "echo planted > ~/.zshrc").await.output;
    assert!(!fenced.root.join("user/.zshrc").exists(), "{planted}");
}

/// Checks the case in which the home of a user, and with it the project, lies in the folder for temporary
/// files: `/tmp/somebody`.
#[tokio::test]
async fn a_home_below_the_temporary_folder_can_be_worked_in() {
    for mounts in [true, false] {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        let user = root.join("somebody");
        for folder in ["proj/.git", ".ssh", ".hermes"] {
            fs::create_dir_all(user.join(folder)).unwrap();
        }
        fs::write(user.join(".ssh/id_ed25519"), "content\n").unwrap();
        let places = SandboxPaths {
            user_home: user.clone(),
            hermes_home: user.join(".hermes"),
            temporary: vec![root.clone()],
            ..SandboxPaths::default()
        };
        let sandbox = Sandbox::new(SandboxActivation::Auto, places);
        let base = [("HOME", user.to_str().unwrap()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        let options = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.clone(),
            bounds: OutputBounds::default(),
            sandbox: if mounts { sandbox } else { sandbox.without_mounts() },
        };
        if !Sandbox::is_possible() {
            hermes_testkit::peer_is_missing("Landlock");
            return;
        }
        let host = LocalHost::new(options, Arc::new(SystemClock::new()));
        let local = host.open(user.join("proj"));
        let run = async |shell: &str| {
            let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
            local.run(command, &Cancel::new()).await.unwrap()
        };
        for shell in [
            "echo x > new && mkdir -p a/b && echo y > a/b/c && cat new",
            "export KEPT=yes; cd a",
            "[ $KEPT = yes ] && echo x > d",
        ] {
            let finished = run(shell).await;
            assert_eq!(finished.exit_code, 0, "mounts {mounts}: {shell}: {}", finished.output);
        }
        assert!(user.join("proj/a/d").exists());
        let mounts = !local.sandbox_is_partial();
        let prying = run("cat ~/.ssh/id_ed25519").await;
        assert!(prying.exit_code != 0 && !prying.output.contains("content"), "{}", prying.output);
        // Without mounts nothing can be created beside the home, and the report says so.
        let beside = run(&format!("echo x > {}/new", root.display())).await;
        assert!(
            beside.exit_code == 0 || beside.output.contains("[sandbox"),
            "mounts {mounts}: {}",
            beside.output
        );
        assert!(beside.exit_code == 0 || !mounts, "{}", beside.output);
    }
}

#[tokio::test]
async fn in_the_home_folder_what_is_there_can_be_changed_but_not_the_delicate_parts() {
    let Some(fenced) = SandboxedHost::new() else { return };
    fenced.works("user", &["echo x >> notes.txt", "touch other/new proj/new"]).await;
    fenced.works_with_mounts("user", &["echo x > made-here.txt && cat made-here.txt"]).await;
    fenced.refused("user", &["echo x >> .bashrc", "touch .ssh/x"]).await;
    fenced.refused("user", &["cat .ssh/id_ed25519", "cat .aws/credentials", "head ../hermes/.env"]).await;
}

#[tokio::test]
async fn what_runs_in_the_background_is_fenced_too() {
    let Some(fenced) = SandboxedHost::new() else { return };
    let local = fenced.host.open(fenced.root.join("user/proj"));
    let process =
        local.start("cat ~/.ssh/id_ed25519", None, TerminalMode::None, &Cancel::new()).await.unwrap();
    assert_ne!(process.ended().await, 0);
    assert!(process.output(500).contains("Permission denied"));
}

#[tokio::test]
async fn a_usual_failure_is_not_blamed_on_the_fence() {
    let Some(fenced) = SandboxedHost::new() else { return };
    let finished = fenced.run("user/proj", "cat no-such-file").await;
    assert!(!finished.output.contains("[sandbox"), "{}", finished.output);
}

/// Checks that the snapshot of the login shell is kept: a later start does not wait for the shell, and
/// refreshes the snapshot in the background.
#[tokio::test]
async fn a_login_shell_that_hangs_is_waited_for_once_at_most() {
    let Some(fenced) = SandboxedHost::new() else { return };
    let profile = fenced.root.join("user/.bash_profile");
    fs::write(
        &profile,
        "export FROM_LOGIN=first; greet() { echo hello; }; PATH=/usr/bin:/opt/mine:/usr/bin:$PATH\n",
    )
    .unwrap();
    let first = fenced.run("user/proj", "echo $FROM_LOGIN; greet; echo $PATH").await;
    assert!(first.output.contains("first\nhello\n"), "{first:?}");
    let path = first.output.lines().last().unwrap_or_default();
    assert_eq!(path.split(':').filter(|folder| *folder == "/usr/bin").count(), 1, "{path}");
    // This is the next start, with a login shell that never terminates.
    fs::write(&profile, "sleep 1000\n").unwrap();
    let home = fenced.root.join("user").to_str().unwrap().to_owned();
    let base =
        [("HOME", home.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin"), ("OF_THE_MOMENT", "it's now")];
    let places = SandboxPaths {
        user_home: fenced.root.join("user"),
        hermes_home: fenced.root.join("hermes"),
        ..SandboxPaths::default()
    };
    let options = LocalOptions {
        variables: Variables::for_commands(base, &[], &[]),
        temp: fenced.root.join("tmp"),
        bounds: OutputBounds::default(),
        sandbox: Sandbox::new(SandboxActivation::Auto, places),
    };
    let host = LocalHost::new(options, Arc::new(SystemClock::new()));
    let local = host.open(fenced.root.join("user/proj"));
    let shell = "echo $FROM_LOGIN $OF_THE_MOMENT; greet";
    let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
    let later = local.run(command, &Cancel::new()).await.unwrap();
    assert_eq!(later.output.trim(), "first it's now\nhello", "{later:?}");
    // No variable of the current environment is kept.
    let kept = fs::read_dir(fenced.root.join("hermes/sandboxes/shells")).unwrap().flatten();
    let kept: Vec<String> = kept
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("login-"))
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect();
    assert!(!kept.is_empty() && kept.iter().all(|text| !text.contains("it's now")), "{kept:?}");
}

/// Checks the secrets in homes of other users, which root could read.
#[test]
#[expect(clippy::disallowed_methods, reason = "the process that is started is this test program itself")]
fn secrets_in_homes_of_other_users_are_hidden_from_commands_of_root() {
    if !rustix::process::geteuid().is_root() || !Sandbox::is_possible() {
        hermes_testkit::peer_is_missing("root, and Landlock");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let users = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/bash\n";
    fs::write(folder.path().join("passwd"), users).unwrap();
    let prepare = "mount -t tmpfs none /home && mount --bind \"$1\" /etc/passwd && mkdir -p /home/ann/.ssh /home/ann/.aws && \
        echo content > /home/ann/.ssh/id_ed25519 && echo content > /home/ann/.aws/credentials && echo plain > /home/ann/notes && \
        shift && exec \"$@\"";
    let ended = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", prepare, "sh"])
        .arg(folder.path().join("passwd"))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "all::sandbox::commands_of_root_beside_other_homes"])
        .status()
        .unwrap();
    assert!(ended.success());
}

#[tokio::test]
#[ignore = "the test above runs it, in a view of the folders of its own"]
async fn commands_of_root_beside_other_homes() {
    let fenced = SandboxedHost::new().unwrap();
    fenced.works("user/proj", &["cat /home/ann/notes"]).await;
    fenced.refused("user/proj", &["cat /home/ann/.ssh/id_ed25519", "cat /home/ann/.aws/credentials"]).await;
}
