//! Tests with a real SSH server. They are skipped with a message where none was started: `scripts/peers/sshd
//! start`.
#![expect(clippy::disallowed_methods, reason = "connections are cut behind our back")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use hermes_exec::{
    BackgroundProcess, CredentialFiles, ForwardedVariables, OutputBounds, RemoteBackend, RemoteEnvironment,
    RemoteFiles, RemoteShellSession, SshEnvironment, SshHost, SshOptions, Variables,
};
use hermes_task::SystemClock;
use hermes_testkit::SshServer;
use hermes_types::{Cancel, Environment, RunError};

use super::files::works_on_files;
use super::remote::{
    RemoteFixture, does_not_wait_for_what_is_left_running, ends_what_it_started, keeps_its_state, mark,
    never_ends, running, speaks_plainly, takes_input,
};
use super::support::{LONG, lives, until};

struct Server {
    peer: SshServer,
    options: SshOptions,
}

impl Server {
    fn started() -> Option<Self> {
        let peer = SshServer::started()?;
        let options = SshOptions {
            host: peer.host.clone(),
            user: peer.user.clone(),
            port: peer.port,
            key: Some(peer.key.clone()),
            directory: None,
            exports: ForwardedVariables::select(["FORWARDED"], |_| Some("f".to_owned()), |_| None),
            known_hosts: Some(peer.folder.path().join("known")),
            temp: peer.folder.path().to_owned(),
            bounds: OutputBounds::default(),
        };
        Some(Self { peer, options })
    }

    fn host(&self) -> Arc<SshHost> {
        connect(self.options.clone())
    }

    fn folder(&self) -> &Path {
        self.peer.folder.path()
    }

    /// Opens a task's remote shell, as the tools do.
    fn seat(&self) -> (RemoteEnvironment, Arc<RemoteShellSession>) {
        let credentials = CredentialFiles::new(self.folder());
        let room = RemoteBackend { backend: Arc::new(self.host()), credentials }.open("seat");
        let seat = Arc::new(room.open_session());
        (room, seat)
    }
}

fn connect(options: SshOptions) -> Arc<SshHost> {
    let variables = Variables::for_commands([("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere")], &[], &[]);
    SshHost::new(options, variables, Arc::new(SystemClock::new())).unwrap()
}

/// Breaks the connection from outside.
fn break_off(connection: &str) {
    assert!(Command::new("kill").args(["-9", connection]).status().unwrap().success());
}

async fn run_error(ssh: &SshEnvironment) -> String {
    let command = hermes_types::ShellCommand { shell: "true", directory: None, stdin: None, timeout: LONG };
    match ssh.run(command, &Cancel::new()).await {
        Err(RunError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn peer_commands_run_as_they_do_here() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("plain");
    assert!(Arc::ptr_eq(&ssh, &host.open("plain")));
    speaks_plainly(RemoteFixture(&*ssh)).await;
    takes_input(RemoteFixture(&*ssh)).await;
    RemoteFixture(&*ssh).check("echo $FORWARDED; [ \"$PWD\" = ~ ] && echo home", "f\nhome\n").await;
    host.close().await;
}

#[tokio::test]
async fn peer_state_lasts_and_files_can_be_worked_on() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("state");
    let there = RemoteFixture(&*ssh);
    let folder = server.folder().join("there").display().to_string();
    keeps_its_state(there, &folder).await;
    there.check("mkdir files && cd files", "").await;
    works_on_files(RemoteFiles::new(&*ssh, OutputBounds::default()), there).await;
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
async fn peer_what_is_stopped_here_ends_over_there() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("ending");
    ends_what_it_started(RemoteFixture(&*ssh)).await;
    does_not_wait_for_what_is_left_running(RemoteFixture(&*ssh)).await;
    host.close().await;
}

#[tokio::test]
async fn peer_a_connection_that_breaks_is_named_and_made_anew() {
    let Some(server) = Server::started() else { return };
    let host = server.host();
    let ssh = host.open("cut");
    let there = RemoteFixture(&*ssh);
    let flag = server.folder().join("begun");
    there.check("cd /usr; export KEPT=1", "").await;
    let connection = there.run(SshServer::WHICH_CONNECTION).await.output.trim().to_owned();
    let command = format!("echo begun; echo $$ > {0}.new; mv {0}.new {0}; sleep 600", flag.display());
    let (cut, ()) = tokio::join!(there.run(&command), async {
        until(|| flag.exists()).await;
        break_off(&connection);
    });
    assert_eq!(cut.exit_code, 255, "{cut:?}");
    assert!(cut.output.starts_with("begun\n") && cut.output.contains("connection was lost while"), "{cut:?}");
    there.check("echo again $KEPT $PWD", "again 1 /usr\n").await;
    // Hermes does not end what a broken connection leaves running; the test has to.
    there.check(&format!("kill -9 -- -$(cat {})", flag.display()), "").await;
    // The connection breaks again while nothing runs.
    let connection = there.run(SshServer::WHICH_CONNECTION).await.output.trim().to_owned();
    break_off(&connection);
    there.check("echo again $KEPT $PWD", "again 1 /usr\n").await;
    host.close().await;
}

#[tokio::test]
async fn peer_what_a_broken_connection_has_left_is_removed_by_the_next() {
    let Some(server) = Server::started() else { return };
    let mark = server.folder().display().to_string();
    let dumps = || {
        let all = std::fs::read_dir("/tmp").unwrap().flatten();
        let ours = all.filter(|entry| entry.file_name().to_string_lossy().starts_with("hermes-snap-"));
        ours.filter(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default().contains(&mark)).count()
    };
    let host = server.host();
    let ssh = host.open("cut");
    let there = RemoteFixture(&*ssh);
    there.check(&format!("export WHERE={mark}"), "").await;
    assert_eq!(dumps(), 1);
    let connection = there.run(SshServer::WHICH_CONNECTION).await.output.trim().to_owned();
    let flag = server.folder().join("begun");
    let command = format!("touch {}; sleep 5", flag.display());
    tokio::join!(there.run(&command), async {
        until(|| flag.exists()).await;
        break_off(&connection);
    });
    host.close().await;
    assert_eq!(dumps(), 1, "nobody could remove it");
    let host = server.host();
    RemoteFixture(&*host.open("next")).check("true", "").await;
    assert_eq!(dumps(), 0);
    host.close().await;
}

#[tokio::test]
async fn peer_a_login_that_cannot_be_is_said_and_nobody_is_asked() {
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
    // The key differs from the one recorded at the first connection.
    let host = server.host();
    let place = host.open("a");
    RemoteFixture(&*place).check("true", "").await;
    host.close().await;
    let known = server.folder().join("known");
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

async fn on_terminal(seat: &Arc<RemoteShellSession>, command: &str) -> BackgroundProcess {
    let clock = Arc::new(SystemClock::new());
    seat.start_on_terminal(command, None, clock, &Cancel::new()).await.unwrap().unwrap()
}

#[tokio::test]
async fn peer_a_process_may_have_a_terminal_over_there() {
    let Some(server) = Server::started() else { return };
    let (room, seat) = server.seat();
    RemoteFixture(&*seat).check("cd /usr; export KEPT=\"it's\"", "").await;
    let command = "test -t 0 && test -t 1 && stty size; echo \"$KEPT $FORWARDED $PWD $$\"; \
        read -r line; echo \"got $line\"; exit 3";
    let process = on_terminal(&seat, command).await;
    until(|| process.output(200).contains("f /usr")).await;
    let pid = process.pid();
    assert_eq!(process.output(200), format!("30 120\r\nit's f /usr {pid}\r\n"), "and nothing else");
    process.write(b"this\n").await.unwrap();
    assert_eq!(process.ended().await, 3);
    assert!(process.output(200).contains("got this\r\n"), "{:?}", process.output(200));
    assert!(process.is_remote());
    let cat = on_terminal(&seat, "cat").await;
    cat.write(b"\n~.\nthrough\n").await.unwrap();
    until(|| cat.output(200).matches("through\r\n").count() == 2).await;
    cat.close_input().await.unwrap();
    assert_eq!(cat.ended().await, 0, "no character means anything to ssh");
    let left = RemoteFixture(&*seat).run("ls /tmp | grep -c '^hermes_bg_.*sh$'").await;
    assert_eq!(left.output, "0\n", "what was brought there is gone");
    room.close().await;
}

#[tokio::test]
async fn peer_a_process_on_a_terminal_over_there_ends_with_all_it_started_or_with_its_connection() {
    let Some(server) = Server::started() else { return };
    let (room, seat) = server.seat();
    let command = "trap '' HUP; sleep 600 & echo $! > FLAG.new; mv FLAG.new FLAG; wait";
    for (name, ends_by) in [("killed", "kill"), ("cut", "connection")] {
        let flag = server.folder().join(name);
        let process = on_terminal(&seat, &command.replace("FLAG", &flag.display().to_string())).await;
        until(|| flag.exists()).await;
        let inner = std::fs::read_to_string(&flag).unwrap();
        assert!(lives(&inner) && lives(&process.pid().to_string()) && process.exit_code().is_none());
        if ends_by == "kill" {
            assert_eq!(process.kill().await, -15);
        } else {
            break_off(RemoteFixture(&*seat).run(SshServer::WHICH_CONNECTION).await.output.trim());
            assert_eq!(process.ended().await, 255);
            // Hermes does not end what a broken connection leaves running; the test has to.
            RemoteFixture(&*seat).run(&format!("kill -9 {inner}")).await;
        }
        until(|| !lives(&inner)).await;
    }
    RemoteFixture(&*seat).check("echo again", "again\n").await;
    room.close().await;
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
        exports: ForwardedVariables::default(),
        known_hosts: None,
        temp: PathBuf::from("/tmp"),
        bounds: OutputBounds::default(),
    };
    for (host, user, said) in [("", "me", "ssh_host"), ("a b", "me", "ssh_host"), ("box", "", "ssh_user")] {
        let options = SshOptions { host: host.to_owned(), user: user.to_owned(), ..options.clone() };
        let failed = SshHost::new(options, variables.clone(), Arc::new(SystemClock::new())).unwrap_err();
        assert!(failed.to_string().contains(said), "{failed}");
    }
}

#[tokio::test]
async fn peer_commands_end_when_we_are_killed() {
    let Some(server) = Server::started() else { return };
    let mark = mark();
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "all::ssh::commands_that_never_end"])
        .current_dir(server.folder())
        .env("HERMES_TEST_MARK", &mark)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until(|| running(&mark).len() == 4).await;
    helper.kill().unwrap();
    helper.wait().unwrap();
    until(|| running(&mark).is_empty()).await;
}

#[tokio::test]
#[ignore = "it never ends; the test above runs it"]
async fn commands_that_never_end() {
    let server = Server::started().unwrap();
    let host = server.host();
    let (one, other) = (host.open("one"), host.open("other"));
    let shell = never_ends(&std::env::var("HERMES_TEST_MARK").unwrap());
    let cancel = Cancel::new();
    let (one, other) = (RemoteFixture(&*one), RemoteFixture(&*other));
    tokio::join!(
        one.run(&shell),
        // The command does not read its whole input.
        other.run_with(&shell, None, Some(&[b'x'; 1000]), LONG, &cancel),
    );
}
