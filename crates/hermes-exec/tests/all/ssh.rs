//! Another machine through a real SSH server. Skipped, with a word, where none was started: `scripts/peers/sshd start`.
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "the script says where the server is; connections are cut behind our back"
)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use hermes_exec::{Bounds, Forwarded, RemoteFiles, Ssh, SshHost, SshOptions, Variables};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Environment, RunError};
use tempfile::TempDir;

use super::files::works_on_files;
use super::remote::{
    There, does_not_wait_for_what_is_left_running, ends_what_it_started, keeps_its_state, speaks_plainly,
    takes_input,
};
use super::support::LONG;

struct Server {
    folder: TempDir,
    options: SshOptions,
}

impl Server {
    fn started() -> Option<Self> {
        let (Ok(address), Ok(key)) = (std::env::var("HERMES_TEST_SSH"), std::env::var("HERMES_TEST_SSH_KEY"))
        else {
            println!("skipped: HERMES_TEST_SSH is not set (scripts/peers/sshd start)");
            return None;
        };
        let (user, rest) = address.split_once('@').unwrap();
        let (host, port) = rest.split_once(':').unwrap();
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let options = SshOptions {
            host: host.to_owned(),
            user: user.to_owned(),
            port: port.parse().unwrap(),
            key: Some(PathBuf::from(key)),
            directory: None,
            exports: Forwarded::pick(["FORWARDED"], |_| Some("f".to_owned()), |_| None),
            known_hosts: Some(folder.path().join("known")),
            temp: folder.path().to_owned(),
            bounds: Bounds::default(),
        };
        Some(Self { folder, options })
    }

    fn host(&self) -> Arc<SshHost> {
        connect(self.options.clone())
    }
}

fn connect(options: SshOptions) -> Arc<SshHost> {
    let variables = Variables::for_commands([("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere")], &[], &[]);
    SshHost::new(options, variables, Arc::new(SystemClock::new())).unwrap()
}

async fn run_error(ssh: &Ssh) -> String {
    let command = hermes_types::Command { shell: "true", directory: None, stdin: None, limit: LONG };
    match ssh.run(command, &Cancel::new()).await {
        Err(RunError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn commands_run_as_they_do_here() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("plain");
    assert!(Arc::ptr_eq(&ssh, &host.open("plain")));
    speaks_plainly(There(&*ssh)).await;
    takes_input(There(&*ssh)).await;
    There(&*ssh).check("echo $FORWARDED; [ \"$PWD\" = ~ ] && echo home", "f\nhome\n").await;
    host.close().await;
}

#[tokio::test]
async fn state_lasts_and_files_can_be_worked_on() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("state");
    let there = There(&*ssh);
    let folder = server.folder.path().join("there").display().to_string();
    keeps_its_state(there, &folder).await;
    there.check("mkdir files && cd files", "").await;
    works_on_files(RemoteFiles::new(&*ssh, Bounds::default()), there).await;
    let dumps = || {
        let all = std::fs::read_dir("/tmp").unwrap().flatten();
        all.filter(|entry| {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            entry.file_name().to_string_lossy().starts_with("hermes-snap-") && text.contains(&folder)
        })
        .count()
    };
    assert_eq!(dumps(), 1);
    ssh.close().await;
    assert_eq!(dumps(), 0, "what the shell left over there goes");
    host.close().await;
}

#[tokio::test]
async fn what_is_stopped_here_ends_over_there() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("ending");
    ends_what_it_started(There(&*ssh)).await;
    does_not_wait_for_what_is_left_running(There(&*ssh)).await;
    host.close().await;
}

#[tokio::test]
async fn a_connection_that_breaks_is_named_and_made_anew() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("cut");
    let there = There(&*ssh);
    let flag = server.folder.path().join("begun");
    // The server's process for this connection is the parent of the shell's session.
    let parents = "p=$PPID; while [ \"$(cat /proc/$p/comm)\" != sshd ]; do p=$(cut -d' ' -f4 /proc/$p/stat); done; echo $p";
    there.check("cd /usr; export KEPT=1", "").await;
    let connection = there.run(parents).await.output.trim().to_owned();
    let command = format!("echo begun; echo $$ > {0}.new; mv {0}.new {0}; sleep 600", flag.display());
    let (cut, ()) = tokio::join!(there.run(&command), async {
        super::support::until(|| flag.exists()).await;
        assert!(Command::new("kill").args(["-9", &connection]).status().unwrap().success());
    });
    assert_eq!(cut.exit_code, 255, "{cut:?}");
    assert!(cut.output.starts_with("begun\n") && cut.output.contains("connection was lost while"), "{cut:?}");
    there.check("echo again $KEPT $PWD", "again 1 /usr\n").await;
    // What a broken connection leaves running is not ours to end; in a test it is.
    there.check(&format!("kill -9 -- -$(cat {})", flag.display()), "").await;
    // And once more while nothing runs.
    let connection = there.run(parents).await.output.trim().to_owned();
    assert!(Command::new("kill").args(["-9", &connection]).status().unwrap().success());
    there.check("echo again $KEPT $PWD", "again 1 /usr\n").await;
    host.close().await;
}

#[tokio::test]
async fn a_login_that_cannot_be_is_said_and_nobody_is_asked() {
    let Some(server) = Server::started() else { return };
    let no_key = connect(SshOptions { key: Some(PathBuf::from("/no/such/key")), ..server.options.clone() });
    let failed = run_error(&no_key.open("a")).await;
    assert!(
        failed.starts_with("SSH connection failed: ") && failed.contains("Permission denied"),
        "{failed}"
    );
    let nobody = connect(SshOptions { port: 1, ..server.options.clone() });
    let failed = run_error(&nobody.open("a")).await;
    assert!(failed.contains("SSH connection failed") && failed.contains("refused"), "{failed}");
    // A key that is not the one taken down at the first visit.
    let host = server.host();
    let place = host.open("a");
    There(&*place).check("true", "").await;
    host.close().await;
    let known = server.folder.path().join("known");
    let line = std::fs::read_to_string(&known).unwrap();
    let (name, _) = line.split_once(' ').unwrap();
    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDI1NTE5AAAAIDI1NTE5AAAAIDI1NTE5AAAAIDI1NTE5";
    std::fs::write(&known, format!("{name} {other}\n")).unwrap();
    let failed = run_error(&server.host().open("a")).await;
    assert!(
        failed.contains("IDENTIFICATION HAS CHANGED") || failed.contains("verification failed"),
        "{failed}"
    );
}

#[tokio::test]
async fn host_and_user_must_be_names() {
    let variables = Variables::for_commands([("PATH", "/usr/bin")], &[], &[]);
    let options = SshOptions {
        host: String::new(),
        user: "me".to_owned(),
        port: 22,
        key: None,
        directory: None,
        exports: Forwarded::default(),
        known_hosts: None,
        temp: PathBuf::from("/tmp"),
        bounds: Bounds::default(),
    };
    for (host, user, said) in [("", "me", "ssh_host"), ("a b", "me", "ssh_host"), ("box", "", "ssh_user")] {
        let options = SshOptions { host: host.to_owned(), user: user.to_owned(), ..options.clone() };
        let failed = SshHost::new(options, variables.clone(), Arc::new(SystemClock::new())).unwrap_err();
        assert!(failed.to_string().contains(said), "{failed}");
    }
}
