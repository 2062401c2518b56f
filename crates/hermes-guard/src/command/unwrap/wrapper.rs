//! Programs that run the words after them: `sudo`, `env`, `uv run` and similar.

use super::ShellWord;

/// The options of a wrapper that take a value, and the number of words before the command.
pub(super) struct WrapperSyntax {
    pub(super) valued: &'static [&'static str],
    pub(super) before: usize,
}

/// Wrappers whose options take values, or that require a word before the command.
const WRAPPERS: &[(&[&str], &[&str], usize)] = &[
    (
        &["sudo", "doas"],
        &[
            "-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t", "--user", "--group", "--host",
            "--prompt", "--chdir",
        ],
        0,
    ),
    (&["env"], &["-u", "-C", "--unset", "--chdir"], 0),
    (&["nice"], &["-n", "--adjustment"], 0),
    (&["ionice"], &["-c", "-n", "-p", "--class", "--classdata"], 0),
    (&["timeout", "gtimeout"], &["-s", "-k", "--signal", "--kill-after"], 1),
    (&["stdbuf"], &["-i", "-o", "-e"], 0),
    (&["time"], &["-f", "-o"], 0),
    (&["exec"], &["-a"], 0),
    (
        &["xargs"],
        &[
            "-I",
            "-n",
            "-P",
            "-L",
            "-d",
            "-a",
            "-s",
            "-E",
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--arg-file",
        ],
        0,
    ),
    (&["parallel"], &["-j", "--jobs", "-a", "-n", "-N"], 0),
    (&["strace", "ltrace"], &["-e", "-o", "-p", "-s", "-P"], 0),
    (&["flock"], &["-w", "-E", "--timeout"], 1),
    (&["unshare", "nsenter"], &["-t", "-S", "-G"], 0),
    (&["systemd-run"], &["-p", "--unit", "-u", "--property"], 0),
    (&["pkexec"], &["--user"], 0),
    (&["fakeroot"], &["-l", "-s", "-i", "-b"], 0),
    (&["numactl"], &["-N", "-m", "-i", "-C", "-p"], 0),
    (&["setpriv"], &["--reuid", "--regid", "--groups", "--ruid", "--euid"], 0),
    (&["xvfb-run"], &["-n", "-s", "-e", "-f", "-p", "-w"], 0),
    (&["dotenv"], &["-f", "-e", "-c"], 0),
    (&["chroot", "taskset", "chrt", "setarch"], &[], 1),
    (
        &[
            "nohup",
            "setsid",
            "command",
            "builtin",
            "busybox",
            "toybox",
            "caffeinate",
            "unbuffer",
            "proxychains",
            "proxychains4",
            "torsocks",
            "torify",
            "rlwrap",
            "firejail",
            "prlimit",
            "linux32",
            "linux64",
            "i386",
            "x86_64",
            "catchsegv",
            "dbus-run-session",
            "dbus-launch",
            "valgrind",
            "winpty",
            "gosu",
            "su-exec",
            "tini",
            "dumb-init",
            "eatmydata",
            "cpulimit",
        ],
        &[],
        0,
    ),
    (&["npx", "bunx", "pipx", "uvx"], &["-p", "--package", "--from", "--with"], 0),
];

/// Programs that run the words after a subcommand, and the number of words between.
const VERBS: &[(&[&str], &[&str], usize)] = &[
    (&["uv", "poetry", "pipenv", "conda", "mamba", "micromamba", "hatch", "pdm", "rye", "pixi"], &["run"], 0),
    (&["op", "doppler", "infisical", "dotenvx", "devbox", "flatpak-spawn"], &["run"], 0),
    (&["mise", "asdf", "bundle", "pyenv", "rbenv", "nodenv", "opam", "rtx"], &["exec", "x"], 0),
    (&["npm", "pnpm", "yarn", "bun"], &["exec", "x", "dlx"], 0),
    (&["direnv", "aws-vault", "chamber"], &["exec"], 1),
    (&["rustup"], &["run"], 1),
    (&["perf"], &["stat", "record", "trace"], 0),
];
const VERB_VALUED: &[&str] = &[
    "-n",
    "--name",
    "-p",
    "--prefix",
    "--package",
    "--python",
    "--with",
    "--env-file",
    "-f",
    "-e",
    "-o",
    "-F",
    "-C",
    "--cwd",
    "--project",
    "--directory",
];

/// Returns the syntax before the command that this program runs, if it runs one.
pub(super) fn wrapper(name: &str) -> Option<WrapperSyntax> {
    // The dynamic loader gets the program to load as an argument.
    if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld.so") {
        return Some(WrapperSyntax { valued: &["--library-path", "--preload", "--argv0"], before: 0 });
    }
    let (_, valued, before) = WRAPPERS.iter().find(|(names, ..)| names.contains(&name))?;
    Some(WrapperSyntax { valued, before: *before })
}

/// Returns the command after `uv run`, `npm exec` and similar.
pub(super) fn behind_verb<'a>(name: &str, rest: &'a [ShellWord]) -> Option<&'a [ShellWord]> {
    let (_, verbs, before) = VERBS.iter().find(|(names, verbs, _)| {
        names.contains(&name) && rest.iter().take(4).any(|word| verbs.contains(&word.text.as_str()))
    })?;
    let at = rest.iter().position(|word| verbs.contains(&word.text.as_str()))?;
    let rest = rest.get(at + 1..)?;
    let (skipped, _) = skip(rest, &WrapperSyntax { valued: VERB_VALUED, before: *before }, name);
    rest.get(skipped..)
}

/// Returns the number of words before the command, and a text that an option says to run.
pub(super) fn skip(rest: &[ShellWord], wrapper: &WrapperSyntax, name: &str) -> (usize, Option<ShellWord>) {
    let mut at = 0;
    let mut before = wrapper.before;
    let mut text = None;
    while let Some(word) = rest.get(at) {
        let given = word.text.as_str();
        if let Some(given) = split_given(name, given) {
            // The rest of the words are part of the command.
            let behind = super::joined(rest.get(at + 1..).unwrap_or_default());
            let text = format!("{given} {}", behind.text);
            return (rest.len(), Some(ShellWord { text, ..behind }));
        } else if matches!((name, given), ("flock", "-c" | "--command")) {
            text = rest.get(at + 1).cloned();
            at += 2;
        } else if name == "command" && matches!(given, "-v" | "-V") {
            // This only looks up where the command is.
            return (rest.len(), None);
        } else if given == "--" {
            at += 1;
            if before == 0 {
                break;
            }
        } else if given.starts_with('-') && given.len() > 1 {
            at += if wrapper.valued.contains(&given) { 2 } else { 1 };
        } else if is_setting(name, given) {
            at += 1;
        } else if before > 0 {
            before -= 1;
            at += 1;
        } else {
            break;
        }
    }
    (at.min(rest.len()), text)
}

/// Returns the text that `env -S` splits into a command; it may be in the option's own word.
fn split_given<'a>(name: &str, given: &'a str) -> Option<&'a str> {
    let given = given.strip_prefix("--split-string").or_else(|| given.strip_prefix("-S"));
    given.filter(|_| name == "env").map(|given| given.trim_start_matches('='))
}

/// Detects `NAME=value` before a command.
pub(super) fn is_setting(name: &str, given: &str) -> bool {
    matches!(name, "env" | "sudo" | "doas") && given.contains('=') && !given.starts_with(['/', '.', '-'])
}
