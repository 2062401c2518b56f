//! Tests that every remote environment must pass.

use std::path::Path;
use std::time::Duration;

use hermes_exec::{OutputBounds, RemoteProcessHandle, RemoteProcessState};
use hermes_types::{Cancel, CommandOutput, Environment, ShellCommand};

use super::support::LONG;

const SHORT: Duration = Duration::from_secs(3);

/// An environment under test.
#[derive(Clone, Copy)]
pub(crate) struct RemoteFixture<'e>(pub(crate) &'e dyn Environment);

impl RemoteFixture<'_> {
    pub(crate) async fn run(self, shell: &str) -> CommandOutput {
        self.run_with(shell, None, None, LONG, &Cancel::new()).await
    }

    pub(crate) async fn run_with(
        self,
        shell: &str,
        directory: Option<&str>,
        stdin: Option<&[u8]>,
        limit: Duration,
        cancel: &Cancel,
    ) -> CommandOutput {
        let command = ShellCommand { shell, directory: directory.map(Path::new), stdin, timeout: limit };
        self.0.run(command, cancel).await.unwrap()
    }

    /// Checks that the command's output is exactly this, and its code 0.
    pub(crate) async fn check(self, shell: &str, output: &str) {
        let finished = self.run(shell).await;
        assert_eq!(finished, CommandOutput { output: output.to_owned(), exit_code: 0 }, "{shell}");
    }

    /// Waits until no process with this pid lives in the environment.
    pub(crate) async fn gone(self, pid: &str) {
        let look = format!("kill -0 {pid} 2>/dev/null && ! grep -q '^State:.Z' /proc/{pid}/status");
        while self.run(&look).await.exit_code == 0 {}
    }
}

/// Checks that output and exit codes are the same as on this machine.
pub(crate) async fn speaks_plainly(there: RemoteFixture<'_>) {
    there.check("printf x", "x").await;
    there.check("echo a; echo b >&2; echo c", "a\nb\nc\n").await;
    there.check("true", "").await;
    there.check("printf '\\n'", "\n").await;
    there.check("cat <<'EOF'\nheredoc 'quotes' $HOME\nEOF", "heredoc 'quotes' $HOME\n").await;
    there.check("echo done # a comment", "done\n").await;
    there.check("printf '\\xff'; echo ünï", "\u{fffd}ünï\n").await;
    there.check("cat", "").await;
    for (command, output, code) in [
        ("exit 3", "", 3),
        ("echo x; exit 130", "x\n", 130),
        ("exit 255", "", 255),
        ("exec sh -c 'echo y; exit 255'", "y\n", 255),
        ("set -e; false; echo not", "", 1),
        ("trap 'echo bye' EXIT; exit 4", "bye\n", 4),
        ("(exit 7)", "", 7),
    ] {
        let finished = there.run(command).await;
        assert_eq!((finished.output.as_str(), finished.exit_code), (output, code), "{command}");
    }
    let finished = there.run("if then").await;
    assert!(finished.exit_code != 0 && finished.output.contains("syntax error"), "{finished:?}");
    let finished = there.run("head -c 300000 /dev/zero | tr '\\0' x; echo the end").await.output;
    assert!(finished.contains("[OUTPUT TRUNCATED - 250008 chars omitted out of 300008 total]"));
    assert!(finished.ends_with("the end\n") && !finished.contains("__HERMES"));
    let long = "x".repeat(200_000);
    there.check(&format!(": {long}\necho ran"), "ran\n").await;
}

/// Checks that `cd` and `export` last, and that variables and folders given for one call do not.
pub(crate) async fn keeps_its_state(there: RemoteFixture<'_>, folder: &str) {
    there
        .check(&format!("mkdir -p {folder}/a/b && cd {folder}/a/b && export A=$'it\\'s\\n' && B=1"), "")
        .await;
    there.check("echo \"$A,$B,$PWD\"", &format!("it's\n,,{folder}/a/b\n")).await;
    there.check("unset A", "").await;
    there.check("echo \"${A-gone}\"", "gone\n").await;
    let cancel = Cancel::new();
    let elsewhere = there.run_with("pwd", Some("/"), None, LONG, &cancel).await;
    assert_eq!(elsewhere.output, "/\n");
    let nowhere = there.run_with("echo ran", Some("/no/such"), None, LONG, &cancel).await;
    assert_eq!(nowhere.exit_code, 126);
    assert!(!nowhere.output.contains("ran"), "{nowhere:?}");
    there.check("pwd", &format!("{folder}/a/b\n")).await;
    there.check(&format!("rm -r {folder}/a/b"), "").await;
    there.check("pwd", &format!("{folder}/a\n")).await;
    let left = there.run("export C=1; cd ..; exit 5").await;
    assert_eq!(left.exit_code, 5);
    there.check("echo $C $PWD", &format!("1 {folder}\n")).await;
}

pub(crate) async fn takes_input(there: RemoteFixture<'_>) {
    let cancel = Cancel::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(500_000).collect();
    let counted = there.run_with("cat | wc -c", None, Some(&bytes), LONG, &cancel).await;
    assert_eq!(counted.output.trim(), "500000");
    let some = there.run_with("head -c 3 | od -An -tu1", None, Some(&bytes), LONG, &cancel).await;
    assert_eq!((some.output.trim(), some.exit_code), ("0   1   2", 0), "input nobody reads is no failure");
}

/// Checks that, however a call ends, the remote processes that it started end too.
pub(crate) async fn ends_what_it_started(there: RemoteFixture<'_>) {
    there.check("true", "").await;
    let cancel = Cancel::new();
    let late = there.run_with("sleep 600 & echo $!; sleep 600", None, None, SHORT, &cancel).await;
    let (pid, rest) = late.output.split_once('\n').unwrap();
    assert_eq!((rest, late.exit_code), ("\n[Command timed out after 3s]", 124));
    there.gone(pid).await;
    let silent = there.run_with("sleep 600", None, None, SHORT, &cancel).await;
    assert_eq!((silent.output.as_str(), silent.exit_code), ("Command timed out after 3s", 124));
    let deaf = "trap '' TERM; echo $$; while :; do sleep 1; done";
    let deaf = there.run_with(deaf, None, None, SHORT, &cancel).await;
    assert_eq!(deaf.exit_code, 124);
    there.gone(deaf.output.lines().next().unwrap()).await;

    let flag = there.run("mktemp -u").await.output.trim().to_owned();
    let begun = format!("test -s {flag}");
    let command = format!("echo before; echo $$ > {flag}.new; mv {flag}.new {flag}; sleep 600");
    let (stopped, ()) = tokio::join!(there.run_with(&command, None, None, LONG, &cancel), async {
        while there.run(&begun).await.exit_code != 0 {}
        cancel.cancel();
    });
    assert_eq!((stopped.output.as_str(), stopped.exit_code), ("before\n\n[Command interrupted]", 130));
    let pid = there.run(&format!("cat {flag}; rm {flag}")).await.output;
    there.gone(pid.trim()).await;

    // The caller drops this call.
    let never = Cancel::new();
    {
        let mut call = std::pin::pin!(there.run_with(&command, None, None, LONG, &never));
        tokio::select! {
            _ = &mut call => panic!("it cannot end"),
            () = async { while there.run(&begun).await.exit_code != 0 {} } => {}
        }
    }
    let pid = there.run(&format!("cat {flag}; rm {flag}")).await.output;
    there.gone(pid.trim()).await;
}

pub(crate) async fn does_not_wait_for_what_is_left_running(there: RemoteFixture<'_>) {
    let left = there.run("sleep 600 & echo $!").await;
    assert_eq!(left.exit_code, 0);
    let pid = left.output.trim().to_owned();
    there.check(&format!("kill -0 {pid} && kill {pid}"), "").await;
    there.gone(&pid).await;
}

/// Checks background processes.
pub(crate) async fn keeps_processes(there: RemoteFixture<'_>) {
    let cancel = Cancel::new();
    let short =
        RemoteProcessHandle::start(there.0, "echo \"$WHAT\"; pwd; exit 4", Some(Path::new("/")), &cancel)
            .await
            .unwrap();
    let state = loop {
        match short.poll_state(there.0, &cancel).await.unwrap() {
            RemoteProcessState::Running => {}
            ended @ RemoteProcessState::Exited(_) => break ended,
        }
    };
    assert_eq!(state, RemoteProcessState::Exited(4));
    let said = short.output(there.0, OutputBounds::default(), 0, 100, &cancel).await.unwrap();
    assert_eq!(String::from_utf8(said).unwrap(), "\n/\n");
    assert_eq!(
        short.output(there.0, OutputBounds::default(), 1, 2, &cancel).await.as_deref(),
        Ok(&b"/\n"[..])
    );
    short.remove_files(there.0, &cancel).await.unwrap();

    there.check("export WHAT=exported; greet() { echo hi; }", "").await;
    let long =
        RemoteProcessHandle::start(there.0, "echo $WHAT; sleep 600 & wait", None, &cancel).await.unwrap();
    assert_eq!(long.poll_state(there.0, &cancel).await, Ok(RemoteProcessState::Running));
    while long.output(there.0, OutputBounds::default(), 0, 100, &cancel).await.as_deref() != Ok(b"exported\n")
    {
    }
    long.kill(there.0, &cancel).await.unwrap();
    there.gone(&long.pid().to_string()).await;
    assert_eq!(long.poll_state(there.0, &cancel).await, Ok(RemoteProcessState::Exited(-15)));
    long.remove_files(there.0, &cancel).await.unwrap();
    there.check("unset WHAT", "").await;
}

/// Returns a number of seconds for which no other command of these tests sleeps.
pub(crate) fn mark() -> String {
    format!("10{}", u64::from_str_radix(&hermes_types::random_hex(8), 16).unwrap())
}

/// Returns a command that starts two processes with a mark, ignores termination requests, and waits for them.
pub(crate) fn never_ends(mark: &str) -> String {
    format!("trap '' HUP TERM; sleep {mark} & (sleep {mark} & wait) & wait")
}

/// Returns the processes with this mark on this machine, also those in its containers.
pub(crate) fn running(mark: &str) -> Vec<String> {
    let line = format!("sleep\0{mark}\0");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    numbers
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found == line.as_bytes())
        })
        .collect()
}
