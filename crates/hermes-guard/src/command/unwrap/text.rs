//! Programs that pass text to a shell: as a word, as an option's value, or within their own language.

use super::ShellWord;

/// Programs for which every word with whitespace is a command.
const WHOLE: &[&str] = &[
    "hyperfine",
    "tmux",
    "screen",
    "byobu",
    "entr",
    "concurrently",
    "watchexec",
    "nodemon",
    "start-stop-daemon",
];

/// Options whose value is a command.
const OPTIONS: &[(&[&str], &[&str])] = &[
    (&["su", "runuser", "script", "capsh", "vagrant", "sg", "newgrp"], &["-c", "--command", "-qc"]),
    (&["nix-shell", "nix", "guix"], &["--run", "--command", "-c"]),
    (&["npx", "npm", "pnpm", "yarn", "bunx"], &["-c", "--call", "--shell-mode"]),
    (&["man"], &["-P", "--pager"]),
    (&["cargo"], &["-s", "--shell"]),
    (&["rg"], &["--pre"]),
    (&["bat", "ack", "ag", "delta"], &["--pager"]),
    (&["sort"], &["--compress-program"]),
    (&["wget"], &["--use-askpass"]),
    (&["powershell", "pwsh"], &["-Command", "-command", "-c"]),
    (&["ssh", "scp", "sftp", "mosh", "sshfs", "autossh"], &["-o", "-S", "--ssh"]),
];

/// Marks after which the text, up to the end of the line, is run by a shell. A mark that ends in a space is a
/// keyword of the language and occurs where a statement begins.
const MARKS: &[(&[&str], &[&str])] = &[
    (
        &["vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff"],
        &["!", "system(", "systemlist(", "terminal ", "term "],
    ),
    (&["ed", "red", "less", "more", "most", "sftp", "ftp", "telnet"], &["!"]),
    (&["psql", "pgcli"], &["\\!", "from program", "to program", "\\o |", "\\g |"]),
    (&["mysql", "mariadb", "mycli"], &["\\!", "system "]),
    (&["sqlite3", "sqlite", "litecli", "duckdb"], &[".shell ", ".system ", ".sh ", ".once |", ".output |"]),
    (&["gdb", "lldb", "cgdb", "rust-gdb"], &["shell ", "!", "system("]),
    (
        &["emacs", "emacsclient"],
        &["shell-command-to-string", "shell-command", "call-process", "start-process", "process-lines"],
    ),
    (&["expect", "tclsh", "wish"], &["spawn ", "exec ", "system "]),
    (
        &["gnuplot", "octave", "bc", "m4", "r", "julia", "ghci"],
        &["system(", "system ", "syscmd(", "run(`", "!"],
    ),
];

const MOST_MARKS: usize = 32;
const MOST_BLANKS: usize = 32;

/// The commands of tmux that run something; its other words only set the appearance.
const TMUX: &[&str] = &[
    "new",
    "new-session",
    "neww",
    "new-window",
    "splitw",
    "split-window",
    "respawnp",
    "respawn-pane",
    "respawnw",
    "respawn-window",
    "run",
    "run-shell",
    "send",
    "send-keys",
    "if",
    "if-shell",
    "popup",
    "display-popup",
];

/// Returns the texts that a program is told to run by its words.
pub(super) fn texts(name: &str, rest: &[ShellWord]) -> Vec<ShellWord> {
    let mut found: Vec<ShellWord> = Vec::new();
    let runs = |word: &ShellWord| name != "tmux" || TMUX.contains(&word.text.as_str());
    if WHOLE.contains(&name) && rest.iter().any(runs) {
        found.extend(rest.iter().filter(|word| word.text.contains(char::is_whitespace)).cloned());
    }
    if let Some((_, options)) = OPTIONS.iter().find(|(names, _)| names.contains(&name)) {
        found.extend(values(rest, options));
    }
    if runs_marked(name) {
        let marked = rest.iter().flat_map(|word| marked(name, &word.text));
        found.extend(marked.map(ShellWord::plain));
    }
    found
}

fn values(rest: &[ShellWord], options: &[&str]) -> Vec<ShellWord> {
    let mut found = Vec::new();
    for (at, word) in rest.iter().enumerate() {
        let given = word.text.as_str();
        if options.contains(&given) {
            found.extend(rest.get(at + 1).map(plain_value));
        } else if options.contains(&"-o") && given.starts_with("-o") {
            found.push(plain_value(word));
        } else if let Some((_, value)) = given.split_once('=').filter(|(option, _)| options.contains(option))
        {
            found.push(ShellWord { text: value.to_owned(), ..word.clone() });
        }
    }
    found
}

/// Returns the value without the option names that ssh puts before a command: `ProxyCommand=ssh …`.
fn plain_value(word: &ShellWord) -> ShellWord {
    let text = word.text.strip_prefix("-o").unwrap_or(&word.text);
    let text = ["proxycommand", "localcommand", "knownhostscommand", "remotecommand"]
        .iter()
        .find_map(|name| {
            text.get(..name.len())
                .filter(|given| given.eq_ignore_ascii_case(name))
                .and(text.get(name.len()..))
        })
        .map_or(text, |value| value.trim_start_matches(['=', ' ']));
    ShellWord { text: text.to_owned(), ..word.clone() }
}

/// Tells whether a program has its own language from which a shell can be started.
pub(crate) fn runs_marked(name: &str) -> bool {
    MARKS.iter().any(|(names, _)| names.contains(&name))
}

/// Returns the commands that a text in the program's language passes to a shell.
pub(crate) fn marked(name: &str, text: &str) -> Vec<String> {
    let Some((_, marks)) = MARKS.iter().find(|(names, _)| names.contains(&name)) else { return Vec::new() };
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for mark in *marks {
        let marked = lower.match_indices(mark).filter(|(at, _)| !mark.ends_with(' ') || begins(&lower, *at));
        for (at, _) in marked.take(MOST_MARKS) {
            let behind = text.get(at + mark.len()..).unwrap_or_default();
            found.push(unquoted(behind.lines().next().unwrap_or_default()));
        }
    }
    found
}

/// Tells whether a statement begins here.
fn begins(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default().chars().rev();
    let before = before.take(MOST_BLANKS).find(|c| !matches!(c, ' ' | '\t'));
    before.is_none_or(|c| matches!(c, '\n' | ';' | '{' | ':' | '(' | '|' | '+'))
}

/// Returns the text between quotes, or all of it if none open there.
fn unquoted(text: &str) -> String {
    let text = text.trim_start_matches([' ', '(', '\t']);
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote {
        Some(quote) => text.chars().skip(1).take_while(|c| *c != quote).collect(),
        None => text.to_owned(),
    }
}
