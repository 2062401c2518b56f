//! Commands that run other commands: `sudo`, `env`, `xargs`, `find -exec`, `sh -c` and similar.
//!
//! Takes the words of a command and returns every command they lead to, each with the way it is invoked. What the
//! tables here do not contain is guessed, and marked as a guess.

mod container;
mod git;
mod glob;
mod guess;
mod inert;
mod shells;
mod text;
mod wrapper;

use super::shell::ShellWord;

pub(crate) use container::verb as container_verb;
pub(crate) use glob::{is_glob, matches_glob};
pub(crate) use guess::text_in;
pub(crate) use inert::is_inert;
pub(crate) use shells::{is_shell, script_file, shell_text};
use shells::{lost_quotes, script_words};
pub(crate) use text::{marked, runs_marked};

use wrapper::{WrapperSyntax, behind_verb, is_setting, skip, wrapper};

/// The nesting depth of wrappers up to which they are unwrapped.
const DEEPEST: usize = 16;

/// The way a command is invoked, where that matters to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvocationKind {
    Directly,
    Xargs,
    FindExec,
    /// On another machine or in a container: paths do not refer to this machine.
    Remote,
}

/// A command or text that is run.
#[derive(Debug)]
pub(crate) enum ExecutedItem {
    Command {
        words: Vec<ShellWord>,
        via: InvocationKind,
    },
    /// A text that a shell reads.
    Text {
        word: ShellWord,
        via: InvocationKind,
    },
    /// A command that an unknown program may run.
    MaybeCommand(Vec<ShellWord>),
    MaybeText(String),
}

/// Tells whether a program's words are those of another program, which is judged itself.
pub(crate) fn passes_on(name: &str) -> bool {
    const OTHERS: &[&str] = &[
        "eval",
        "watch",
        "ssh",
        "mosh",
        "su",
        "runuser",
        "script",
        "trap",
        "alias",
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "docker-compose",
    ];
    is_shell(name) || wrapper(name).is_some() || OTHERS.contains(&name)
}

/// Returns the program that a word names: without its folder, in lower case.
pub(crate) fn program(word: &ShellWord) -> String {
    let name = word.text.rsplit('/').next().unwrap_or(&word.text).to_lowercase();
    let name = if word.known || name.starts_with('$') { name } else { without_names(&name) };
    if name.len() <= 32 && is_glob(&name) {
        // A pattern that matches one of these programs is a way of writing its name.
        const HIDDEN: &[&str] = &[
            "rm",
            "dd",
            "mkfs",
            "mkfs.ext4",
            "shutdown",
            "reboot",
            "halt",
            "poweroff",
            "chmod",
            "bash",
            "sh",
            "sudo",
            "git",
            "chown",
            "shred",
            "wipefs",
            "fdisk",
            "parted",
            "kill",
            "killall",
            "pkill",
            "systemctl",
            "crontab",
            "dash",
            "zsh",
            "python3",
            "python",
            "perl",
            "node",
            "ruby",
            "find",
            "xargs",
            "tee",
            "mv",
            "cp",
            "docker",
            "mkfs.xfs",
            "mkfs.btrfs",
            "mkswap",
            "iptables",
            "useradd",
            "passwd",
            "env",
            "nohup",
            "ssh",
            "truncate",
        ];
        if let Some(found) = HIDDEN.iter().find(|hidden| matches_glob(&name, hidden)) {
            return (*found).to_owned();
        }
    }
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

/// Removes variables within a name, which are mostly empty: `r$@m`.
fn without_names(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        match (c, rest.clone().next()) {
            ('$', Some('{')) => {
                rest.by_ref().find(|c| *c == '}');
            }
            ('$', Some('@' | '*' | '0'..='9')) => {
                rest.next();
            }
            (c, _) => plain.push(c),
        }
    }
    plain
}

/// Returns everything these words run, including the words themselves unless they only run another command.
pub(crate) fn unwrap(words: &[ShellWord]) -> Vec<ExecutedItem> {
    let mut found = Vec::new();
    follow(words, InvocationKind::Directly, &mut found, 0);
    found
}

fn follow(words: &[ShellWord], via: InvocationKind, found: &mut Vec<ExecutedItem>, depth: usize) {
    let Some((first, rest)) = words.split_first() else { return };
    let name = program(first);
    found.push(ExecutedItem::Command { words: words.to_vec(), via });
    if depth > DEEPEST {
        return;
    }
    // A variable in place of a program name may be empty.
    if is_expansion(&first.text) && !first.known {
        follow(rest, via, found, depth + 1);
    }
    // A whole command in place of a program name.
    found.extend(text_in(&first.text).map(|text| ExecutedItem::MaybeText(text.to_owned())));
    found.extend(text::texts(&name, rest).into_iter().map(|word| ExecutedItem::Text { word, via }));
    if let Some(wrapper) = wrapper(&name) {
        // Rules also judge a wrapper's own options (`sudo -S`).
        return behind_wrapper(&name, rest, &wrapper, via, found, depth);
    }
    match name.as_str() {
        shell if is_shell(shell) => {
            if let Some(word) = shell_text(rest) {
                found.push(ExecutedItem::Text { word: word.clone(), via });
            }
            // A script may run its arguments: `sh -c '"$@"' _ …`.
            guess::guess(&name, script_words(rest), found);
            found.extend(lost_quotes(rest).map(ExecutedItem::MaybeText));
        }
        "eval" => found.push(ExecutedItem::Text { word: joined(rest), via }),
        "watch" | "ssh" | "mosh" => found.extend(remote(&name, rest, via)),
        "trap" => found.extend(rest.first().map(|word| ExecutedItem::Text { word: word.clone(), via })),
        "alias" => {
            let value = rest.first().and_then(|word| Some((word, word.text.split_once('=')?.1)));
            found.extend(value.map(|(word, text)| {
                let word = ShellWord { text: text.to_owned(), ..word.clone() };
                ExecutedItem::Text { word, via }
            }));
        }
        "find" => found_files(rest, found, depth),
        "fd" | "fdfind" => {
            let exec =
                |word: &ShellWord| matches!(word.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch");
            if let Some(at) = rest.iter().position(exec) {
                follow(rest.get(at + 1..).unwrap_or_default(), InvocationKind::FindExec, found, depth + 1);
            }
        }
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "docker-compose" | "podman-compose" | "lxc"
        | "incus" | "multipass" => {
            follow(&container::command(&name, rest), InvocationKind::Remote, found, depth + 1);
        }
        "git" => git::runs(rest, via, found, depth),
        _ => match behind_verb(&name, rest) {
            Some(command) => follow(command, via, found, depth + 1),
            None => guess::guess(&name, rest, found),
        },
    }
}

/// Tells whether nothing but one expansion stands in a word.
fn is_expansion(text: &str) -> bool {
    let Some(name) = text.strip_prefix('$') else { return false };
    let inside = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    matches!(name, "()" | "@" | "*") || inside.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

fn behind_wrapper(
    name: &str,
    rest: &[ShellWord],
    wrapper: &WrapperSyntax,
    via: InvocationKind,
    found: &mut Vec<ExecutedItem>,
    depth: usize,
) {
    let (skipped, split) = skip(rest, wrapper, name);
    found.extend(split.map(|word| ExecutedItem::Text { word, via }));
    let (own, command) = rest.split_at_checked(skipped).unwrap_or((rest, &[]));
    let settings = own.iter().filter(|word| is_setting(name, &word.text));
    found.extend(
        settings.filter_map(|word| text_in(&word.text)).map(|text| ExecutedItem::MaybeText(text.to_owned())),
    );
    let via = match name {
        "xargs" | "parallel" => InvocationKind::Xargs,
        _ => via,
    };
    if name == "parallel" {
        found.extend(command.first().map(|word| ExecutedItem::Text { word: word.clone(), via }));
    }
    follow(command, via, found, depth + 1);
}

const SSH: &[&str] = &[
    "-p", "-i", "-o", "-l", "-F", "-J", "-L", "-R", "-D", "-W", "-b", "-c", "-e", "-m", "-S", "-w", "-E",
    "-B", "-I", "-Q",
];

/// Returns the words that `watch` and `ssh` join to a text.
pub(crate) fn remote_words<'a>(name: &str, rest: &'a [ShellWord]) -> &'a [ShellWord] {
    let watch = WrapperSyntax { valued: &["-n", "--interval"], before: 0 };
    let wrapper = if name == "watch" { watch } else { WrapperSyntax { valued: SSH, before: 1 } };
    let (skipped, _) = skip(rest, &wrapper, name);
    rest.get(skipped..).unwrap_or_default()
}

fn remote(name: &str, rest: &[ShellWord], via: InvocationKind) -> Option<ExecutedItem> {
    let rest = remote_words(name, rest);
    let via = if name == "watch" { via } else { InvocationKind::Remote };
    (!rest.is_empty()).then(|| ExecutedItem::Text { word: joined(rest), via })
}

/// Adds the commands that `find` runs for each file.
fn found_files(rest: &[ShellWord], found: &mut Vec<ExecutedItem>, depth: usize) {
    let is_exec = |word: &ShellWord| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let mut rest = rest;
    while let Some(at) = rest.iter().position(is_exec) {
        let tail = rest.get(at + 1..).unwrap_or_default();
        let end = tail.iter().position(|word| matches!(word.text.as_str(), ";" | "+")).unwrap_or(tail.len());
        follow(tail.get(..end).unwrap_or_default(), InvocationKind::FindExec, found, depth + 1);
        rest = tail.get(end..).unwrap_or_default();
    }
}

fn joined(words: &[ShellWord]) -> ShellWord {
    ShellWord {
        text: words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "),
        known: words.iter().all(|word| word.known),
        hidden: words.iter().any(|word| word.hidden),
        inner: words.iter().flat_map(|word| word.inner.iter().cloned()).collect(),
    }
}
