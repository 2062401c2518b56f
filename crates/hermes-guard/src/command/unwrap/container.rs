//! Commands that run in containers and on other machines.

use super::ShellWord;
use super::wrapper::{WrapperSyntax, skip};

const GLOBAL: WrapperSyntax = WrapperSyntax {
    valued: &[
        "-H",
        "--host",
        "-c",
        "--context",
        "--config",
        "-l",
        "--log-level",
        "--tlscacert",
        "--tlscert",
        "--tlskey",
        "-n",
        "--namespace",
        "--kubeconfig",
        "-f",
        "--file",
        "-p",
        "--project-name",
        "--profile",
        "--env-file",
        "--project-directory",
        "--cluster",
        "--user",
    ],
    before: 0,
};

const RUN: &[&str] = &[
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "-p",
    "--publish",
    "-w",
    "--workdir",
    "-u",
    "--user",
    "--name",
    "--network",
    "--net",
    "-l",
    "--label",
    "-m",
    "--memory",
    "-h",
    "--hostname",
    "--add-host",
    "--cpus",
    "--gpus",
    "--restart",
    "--platform",
    "--pull",
    "--shm-size",
    "--ulimit",
    "--tmpfs",
    "--device",
    "--cap-add",
    "--cap-drop",
    "--security-opt",
    "--log-driver",
    "--log-opt",
    "--dns",
    "--pid",
    "--ipc",
    "--expose",
    "--entrypoint",
    "--volumes-from",
    "--cidfile",
    "-a",
    "-n",
    "-c",
    "--index",
    "--namespace",
    "--container",
];

/// Returns the subcommand of a container program and the words after it.
pub(crate) fn verb(rest: &[ShellWord]) -> (&str, &[ShellWord]) {
    let (skipped, _) = skip(rest, &GLOBAL, "");
    let Some((verb, behind)) = rest.get(skipped..).and_then(<[ShellWord]>::split_first) else {
        return ("", &[]);
    };
    match verb.text.as_str() {
        "compose" | "container" => self::verb(behind),
        verb => (verb, behind),
    }
}

/// Returns the command that `docker run`, `docker exec`, `docker compose run` and `kubectl exec` run.
pub(super) fn command(name: &str, rest: &[ShellWord]) -> Vec<ShellWord> {
    let (verb, behind) = verb(rest);
    if !matches!(verb, "run" | "exec" | "create" | "debug" | "shell") {
        return Vec::new();
    }
    // `docker` passes a `--` on like any other word; the others end their own options with it.
    if !matches!(name, "docker" | "podman" | "nerdctl")
        && let Some(at) = behind.iter().position(|word| word.text == "--")
    {
        return behind.get(at + 1..).unwrap_or_default().to_vec();
    }
    // The command follows the image or the container, even if it looks like an option.
    let (skipped, _) = skip(behind, &WrapperSyntax { valued: RUN, before: 0 }, "");
    let command = behind.get(skipped + 1..).unwrap_or_default();
    let own = behind.get(..skipped).unwrap_or_default();
    entrypoint(own).into_iter().chain(command.iter().cloned()).collect()
}

fn entrypoint(own: &[ShellWord]) -> Option<ShellWord> {
    let at = own.iter().position(|word| word.text.starts_with("--entrypoint"))?;
    match own.get(at)?.text.split_once('=') {
        Some((_, program)) => Some(ShellWord::plain(program)),
        None => own.get(at + 1).cloned(),
    }
}
