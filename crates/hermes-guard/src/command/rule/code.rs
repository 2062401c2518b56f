//! Code given to an interpreter on the command line.
//!
//! `python -c 'print(1)'` is common; code that removes, starts, sends or hides something needs approval.

use super::RuleFinding::{self, Ask};
use super::sed::runs;
use crate::command::argv::Argv;

const KEY: &str = "script execution via -e/-c flag";

/// Code fragments that do more than compute and print.
const SUSPICIOUS: &[&str] = &[
    "remove(",
    "rmtree",
    "unlink",
    "rmdir",
    "removedirs",
    "os.system",
    "subprocess",
    "popen",
    "exec(",
    "execv",
    "execfile",
    "execsync",
    "execute(",
    "exec \"",
    "exec '",
    "shell script",
    "deno.",
    "removesync",
    "rmsync",
    "spawn",
    "eval(",
    "compile(",
    "getattr(",
    "setattr(",
    "ctypes",
    "socket",
    "urllib",
    "requests",
    "httpx",
    "aiohttp",
    "urlopen",
    "fetch(",
    "http.get",
    "https.get",
    "net/http",
    "lwp",
    "io::socket",
    "child_process",
    "fs.",
    "node:fs",
    "'fs'",
    "\"fs\"",
    "fileutils",
    "file.delete",
    "file.write",
    "system(",
    "system ",
    "qx",
    "`",
    "base64",
    "b64decode",
    "codecs",
    "marshal",
    "pickle",
    "shutil",
    "write_text",
    "write_bytes",
    ".write(",
    "open(",
    "chmod",
    "chown",
    "kill(",
    "os.environ",
    "process.env",
    "%env",
    "$env{",
    "env[",
    "getpass",
    "keyring",
    "os.fork",
    "fork",
    "decode(",
    "fromhex",
    "chr(",
    "fromcharcode",
    "buffer.from",
    "atob",
    "require(",
    "smtplib",
    "ftplib",
    "paramiko",
    "pty",
    "truncate",
    "rename(",
    "drop table",
    "drop database",
];

/// Names with double underscores that only provide information.
const TELLING: &[&str] =
    &["__version__", "__file__", "__name__", "__doc__", "__path__", "__main__", "__all__", "__len__"];

pub(in crate::command) fn is_interpreter(name: &str) -> bool {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(
        base,
        "python"
            | "pypy"
            | "perl"
            | "ruby"
            | "node"
            | "nodejs"
            | "deno"
            | "bun"
            | "php"
            | "lua"
            | "luajit"
            | "osascript"
            | "rscript"
    )
}

/// Tells whether code does more than compute and print.
pub(in crate::command) fn suspicious(code: &str) -> bool {
    let mut code = code.to_lowercase();
    for telling in TELLING {
        code = code.replace(telling, "");
    }
    code.contains("__") || SUSPICIOUS.iter().any(|part| code.contains(part))
}

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    match argv.name.as_str() {
        "awk" | "gawk" | "mawk" | "nawk" => return argv.texts().any(awk_runs).then_some(Ask(KEY)),
        "sed" | "gsed" => return sed(argv),
        "emacs" | "emacsclient" if argv.texts().any(|text| text.contains("(delete-")) => {
            return Some(Ask(KEY));
        }
        _ => {}
    }
    if argv.name == "tar"
        && argv.texts().any(|text| text.contains("checkpoint-action=exec") || text.contains("to-command"))
    {
        return Some(Ask(KEY));
    }
    if !is_interpreter(&argv.name) {
        return None;
    }
    let given = code_of(argv)?;
    let unseen = argv.args.iter().any(|word| word.text == given && !word.known && word.text.starts_with('$'));
    (unseen || suspicious(given)).then_some(Ask(KEY))
}

/// Detects `system(…)`, or a pipe to or from a command that does more than format its input.
fn awk_runs(code: &str) -> bool {
    let piped = unquoted_pipes(code).any(|after| {
        let after = after.trim_start_matches(['&', ' ']);
        let command = after.strip_prefix('"').and_then(|rest| rest.split('"').next());
        command.is_some_and(|command| !only_arranges(command)) || after.starts_with("getline")
    });
    piped || code.contains("system(") || code.contains("|&")
}

/// Returns what follows each `|` that is not part of a string.
fn unquoted_pipes(code: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    code.char_indices().filter_map(move |(at, c)| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '|' if !quoted => return code.get(at + 1..),
            _ => {}
        }
        None
    })
}

fn only_arranges(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    matches!(first, "sort" | "uniq" | "head" | "tail" | "cat" | "column" | "wc" | "tr")
        && !command.contains([';', '&', '$', '`', '>', '\n'])
}

/// Judges a script of sed; few of them run anything.
fn sed(argv: &Argv<'_>) -> Option<RuleFinding> {
    argv.texts().any(runs).then_some(Ask(KEY))
}

/// Returns the code after `-c`, `-e` and similar options; other letters may precede them.
fn code_of<'a>(argv: &Argv<'a>) -> Option<&'a str> {
    let letters: &[char] = match argv.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "pypy" => &['c'],
        "php" => &['r'],
        "perl" => &['e', 'E'],
        "node" | "nodejs" | "bun" => &['e', 'p'],
        _ => &['e'],
    };
    let mut texts = argv.texts();
    while let Some(text) = texts.next() {
        match text {
            "eval" if argv.name == "deno" => return texts.next(),
            "--eval" | "--print" => return texts.next(),
            // A module or a script: the following words belong to it; those of `timeit` are code.
            "-m" => return if texts.next() == Some("timeit") { texts.last() } else { None },
            "--" => return None,
            _ if text.starts_with("--eval=") => return text.strip_prefix("--eval="),
            _ if text.starts_with("--") => {}
            _ if text.starts_with('-') && text.len() > 1 => {
                if text.ends_with(letters) {
                    return texts.next();
                }
                // `-cprint(1)`: the code is in the same word.
                let joined = text.strip_prefix('-').and_then(|text| text.strip_prefix(letters));
                if joined.is_some_and(|code| code.contains(['(', ' ', ';'])) {
                    return joined;
                }
            }
            _ => return None,
        }
    }
    None
}
