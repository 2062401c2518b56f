//! What is run by what is run: `sudo`, `env`, `xargs`, `find -exec`, `sh -c` and their like.
//!
//! Takes the words of a command and gives every command they lead to, each with the way that led there.

use super::shell::Word;

/// How a command came to be run, where that matters to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Directly,
    Xargs,
    FindExec,
    /// On another machine or in a container: paths are not ours.
    Elsewhere,
}

/// Something that is run.
#[derive(Debug)]
pub(crate) enum Run {
    Command {
        words: Vec<Word>,
        via: Via,
    },
    /// A text that a shell reads.
    Text {
        word: Word,
        via: Via,
    },
}

/// Which options of a wrapper take a value, and how many words stand before the command.
struct Wrapper {
    valued: &'static [&'static str],
    before: usize,
}

const SHELLS: &[&str] = &["sh", "bash", "zsh", "ksh", "dash", "ash", "fish", "mksh", "rbash"];

pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Whether its words are those of another program, which is judged itself.
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

/// The program a word names: without its folder, in lower case.
pub(crate) fn program(word: &Word) -> String {
    let name = word.text.rsplit('/').next().unwrap_or(&word.text).to_lowercase();
    if name.len() <= 32 && name.contains(['*', '?', '[']) {
        // A pattern that only matches the wanted program is a way of writing it.
        const HIDDEN: &[&str] = &["rm", "dd", "mkfs", "shutdown", "reboot", "chmod", "bash", "sh"];
        if let Some(found) = HIDDEN.iter().find(|hidden| matches_glob(&name, hidden)) {
            return (*found).to_owned();
        }
    }
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

/// `*`, `?` and `[abc]`, for names of a few letters.
pub(crate) fn matches_glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // Row by row: which beginnings of the text the pattern so far can stand for.
    let mut reached = vec![false; text.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    let mut at = 0;
    while let Some(&c) = pattern.get(at) {
        let mut next = vec![false; text.len() + 1];
        let class_end = (c == '[').then(|| pattern.iter().skip(at + 1).position(|c| *c == ']')).flatten();
        for (i, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            let mut set = |i: usize| {
                if let Some(cell) = next.get_mut(i) {
                    *cell = true;
                }
            };
            match (c, class_end, text.get(i)) {
                ('*', ..) => (i..=text.len()).for_each(set),
                ('[', Some(length), Some(found))
                    if pattern.iter().skip(at + 1).take(length).any(|c| c == found) =>
                {
                    set(i + 1);
                }
                ('?', _, Some(_)) => set(i + 1),
                (c, _, Some(found)) if c == *found => set(i + 1),
                _ => {}
            }
        }
        reached = next;
        at += class_end.map_or(1, |length| length + 2);
    }
    reached.last().copied().unwrap_or(false)
}

/// Everything these words run, the words themselves included unless they only pass something on.
pub(crate) fn unwrap(words: &[Word]) -> Vec<Run> {
    let mut found = Vec::new();
    follow(words, Via::Directly, &mut found, 0);
    found
}

fn follow(words: &[Word], via: Via, found: &mut Vec<Run>, depth: usize) {
    let Some((first, rest)) = words.split_first() else { return };
    let name = program(first);
    let itself = |found: &mut Vec<Run>| found.push(Run::Command { words: words.to_vec(), via });
    if depth > 16 {
        return itself(found);
    }
    if let Some(wrapper) = wrapper(&name) {
        // What a wrapper does with its own options is a rule's business too (`sudo -S`).
        itself(found);
        let (skipped, split) = skip(rest, &wrapper, &name);
        if let Some(text) = split {
            found.push(Run::Text { word: text, via });
        }
        let via = match name.as_str() {
            "xargs" | "parallel" => Via::Xargs,
            _ => via,
        };
        return follow(rest.get(skipped..).unwrap_or_default(), via, found, depth + 1);
    }
    itself(found);
    match name.as_str() {
        shell if is_shell(shell) => {
            if let Some(word) = shell_text(rest) {
                found.push(Run::Text { word: word.clone(), via });
            }
        }
        "eval" => found.push(Run::Text { word: joined(rest), via }),
        "watch" | "ssh" | "mosh" => {
            let watch = Wrapper { valued: &["-n", "--interval"], before: 0 };
            let wrapper = if name == "watch" { watch } else { Wrapper { valued: SSH, before: 1 } };
            let (skipped, _) = skip(rest, &wrapper, &name);
            let rest = rest.get(skipped..).unwrap_or_default();
            let via = if name == "watch" { via } else { Via::Elsewhere };
            if !rest.is_empty() {
                found.push(Run::Text { word: joined(rest), via });
            }
        }
        "su" | "runuser" | "script" => {
            if let Some(at) =
                rest.iter().position(|word| matches!(word.text.as_str(), "-c" | "--command" | "-qc"))
            {
                found.extend(rest.get(at + 1).map(|word| Run::Text { word: word.clone(), via }));
            }
        }
        "trap" | "alias" => {
            let text = |word: &Word| match word.text.split_once('=') {
                Some((_, value)) if name == "alias" => Word { text: value.to_owned(), ..word.clone() },
                _ => word.clone(),
            };
            found.extend(rest.first().map(|word| Run::Text { word: text(word), via }));
        }
        "find" => {
            let mut rest = rest;
            while let Some(at) = rest
                .iter()
                .position(|word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"))
            {
                let tail = rest.get(at + 1..).unwrap_or_default();
                let end = tail
                    .iter()
                    .position(|word| matches!(word.text.as_str(), ";" | "+"))
                    .unwrap_or(tail.len());
                follow(tail.get(..end).unwrap_or_default(), Via::FindExec, found, depth + 1);
                rest = tail.get(end..).unwrap_or_default();
            }
        }
        "fd" | "fdfind" => {
            let exec = |word: &Word| matches!(word.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch");
            if let Some(at) = rest.iter().position(exec) {
                follow(rest.get(at + 1..).unwrap_or_default(), Via::FindExec, found, depth + 1);
            }
        }
        "docker" | "podman" | "nerdctl" | "kubectl" | "docker-compose" => {
            follow(in_container(rest), Via::Elsewhere, found, depth + 1);
        }
        "git" => git(rest, via, found, depth),
        _ => {}
    }
}

const SSH: &[&str] = &[
    "-p", "-i", "-o", "-l", "-F", "-J", "-L", "-R", "-D", "-W", "-b", "-c", "-e", "-m", "-S", "-w", "-E",
    "-B", "-I", "-Q",
];

fn wrapper(name: &str) -> Option<Wrapper> {
    let valued: &'static [&'static str] = match name {
        "sudo" | "doas" => &[
            "-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t", "--user", "--group", "--host",
            "--prompt", "--chdir",
        ],
        "env" => &["-u", "-C", "--unset", "--chdir"],
        "nice" => &["-n", "--adjustment"],
        "ionice" => &["-c", "-n", "-p", "--class", "--classdata"],
        "timeout" | "gtimeout" => &["-s", "-k", "--signal", "--kill-after"],
        "stdbuf" => &["-i", "-o", "-e"],
        "time" => &["-f", "-o"],
        "exec" => &["-a"],
        "xargs" => &[
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
        "parallel" => &["-j", "--jobs", "-a", "-n", "-N"],
        "strace" | "ltrace" => &["-e", "-o", "-p", "-s", "-P"],
        "flock" => &["-w", "-E", "--timeout"],
        "unshare" | "nsenter" => &["-t", "-S", "-G"],
        "systemd-run" => &["-p", "--unit", "-u", "--property"],
        "chroot" | "taskset" | "chrt" | "nohup" | "setsid" | "command" | "builtin" | "busybox" | "toybox"
        | "caffeinate" | "unbuffer" | "proxychains" | "proxychains4" | "rlwrap" | "setarch" | "firejail" => {
            &[]
        }
        _ => return None,
    };
    let before = usize::from(matches!(
        name,
        "timeout" | "gtimeout" | "chroot" | "taskset" | "chrt" | "flock" | "setarch"
    ));
    Some(Wrapper { valued, before })
}

/// How many words stand before the command, and a text that an option says to run.
fn skip(rest: &[Word], wrapper: &Wrapper, name: &str) -> (usize, Option<Word>) {
    let mut at = 0;
    let mut before = wrapper.before;
    let mut text = None;
    while let Some(word) = rest.get(at) {
        let given = word.text.as_str();
        if matches!((name, given), ("env", "-S" | "--split-string") | ("flock", "-c" | "--command")) {
            text = rest.get(at + 1).cloned();
            at += 2;
        } else if name == "command" && matches!(given, "-v" | "-V") {
            // It only asks where the command is.
            return (rest.len(), None);
        } else if given == "--" {
            at += 1;
            if before == 0 {
                break;
            }
        } else if given.starts_with('-') && given.len() > 1 {
            at += if wrapper.valued.contains(&given) { 2 } else { 1 };
        } else if given.contains('=')
            && matches!(name, "env" | "sudo" | "doas")
            && !given.starts_with(['/', '.'])
        {
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

/// The text after a shell's `-c`, however its options are put together.
pub(crate) fn shell_text(rest: &[Word]) -> Option<&Word> {
    let mut wanted = false;
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let given = word.text.as_str();
        match given {
            "--" => at += 1,
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => at += 2,
            "--command" => {
                wanted = true;
                at += 1;
            }
            _ if given.starts_with("--") => at += 1,
            _ if given.starts_with(['-', '+']) && given.len() > 1 => {
                wanted |= given.contains('c');
                at += 1;
            }
            _ => return wanted.then_some(word),
        }
    }
    None
}

/// The script file of a shell, or none if it reads its input.
pub(crate) fn script_file(rest: &[Word]) -> Option<&Word> {
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.text.as_str() {
            "-o" | "+o" | "-O" | "--rcfile" | "--init-file" => {
                rest.next();
            }
            "-s" => return None,
            "-" | "--" => {}
            text if text.starts_with('-') && !text.starts_with("--") && text.contains('s') => return None,
            text if text.starts_with(['-', '+']) => {}
            _ => return Some(word),
        }
    }
    None
}

fn joined(words: &[Word]) -> Word {
    Word {
        text: words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "),
        known: words.iter().all(|word| word.known),
        inner: words.iter().flat_map(|word| word.inner.iter().cloned()).collect(),
    }
}

/// What `docker exec`, `docker compose exec` and `kubectl exec` run.
fn in_container(rest: &[Word]) -> &[Word] {
    if !rest.iter().take(4).any(|word| word.text == "exec") {
        return &[];
    }
    if let Some(at) = rest.iter().position(|word| word.text == "--") {
        return rest.get(at + 1..).unwrap_or_default();
    }
    let at = rest.iter().position(|word| word.text == "exec").unwrap_or(0);
    let rest = rest.get(at + 1..).unwrap_or_default();
    let wrapper = Wrapper {
        valued: &["-e", "-u", "-w", "--env", "--user", "--workdir", "--env-file", "-n", "-c", "--index"],
        before: 1,
    };
    let (skipped, _) = skip(rest, &wrapper, "");
    rest.get(skipped..).unwrap_or_default()
}

fn git(rest: &[Word], via: Via, found: &mut Vec<Run>, depth: usize) {
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    let after = |name: &str| texts.iter().position(|text| *text == name).map(|at| at + 1);
    if texts.contains(&"submodule")
        && let Some(at) = after("foreach")
    {
        found.push(Run::Text { word: joined(rest.get(at..).unwrap_or_default()), via });
    }
    if texts.contains(&"bisect")
        && let Some(at) = after("run")
    {
        follow(rest.get(at..).unwrap_or_default(), via, found, depth + 1);
    }
    if texts.contains(&"rebase")
        && let Some(at) = after("--exec").or_else(|| after("-x"))
    {
        found.extend(rest.get(at).map(|word| Run::Text { word: word.clone(), via }));
    }
}
