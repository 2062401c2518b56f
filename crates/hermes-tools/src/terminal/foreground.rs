//! Detects commands that would not end. They belong in the background, where Hermes manages them.

use super::strip_literals::strip_literals;

const LEAVING: [&str; 3] = ["nohup", "setsid", "disown"];
const ONLY_ASKING: [&str; 4] = ["--help", "-h", "--version", "-V"];
const SCRIPTS: [&str; 4] = ["dev", "start", "serve", "watch"];

/// Returns why a command must not run in the foreground, and what to do instead.
pub(super) fn refuse(command: &str) -> Option<String> {
    let text = strip_literals(command);
    let why = if let Some(name) = segments(&text).find_map(|words| leaves(&words)) {
        format!("`{name}` leaves an unsupervised process behind")
    } else if let Some(words) = segments(&text).find(|words| is_server(words)) {
        format!("`{}` runs until it is ended", words.join(" "))
    } else if leaves_one_running(&text) {
        "`&` leaves an unsupervised process behind".to_owned()
    } else {
        return None;
    };
    Some(format!(
        "{why}. Start it with background: true (without nohup or &), then use `process` to read its output and end it."
    ))
}

/// Rewrites `A && B &` as `A && { B & }`; otherwise a second shell waits for B as long as it runs.
pub(super) fn grouped(command: &str) -> Option<String> {
    let text = strip_literals(command);
    let end = text.trim_end().len().checked_sub(1)?;
    let all = text.get(..end)?;
    if !text.get(end..)?.starts_with('&') || all.ends_with(['&', '>', '<', '\\']) {
        return None;
    }
    let begin = all.rfind([';', '\n']).map_or(0, |at| at + 1);
    let chain = all.get(begin..)?;
    let operator = chain.rfind("&&").into_iter().chain(chain.rfind("||")).max()?;
    let at = begin + operator + 2;
    if all.get(at..)?.contains(['(', ')', '{', '}', '&']) {
        return None;
    }
    Some(format!("{} {{ {} & }}", command.get(..at)?, command.get(at..end)?.trim()))
}

/// Splits a text into simple commands, each as its words.
fn segments(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split([';', '&', '|', '\n', '(', ')', '{', '}'])
        .map(|segment| segment.split_whitespace().skip_while(|word| is_prefix(word)).collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
}

fn is_prefix(word: &str) -> bool {
    let assignment = word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    assignment
        || matches!(word, "sudo" | "env" | "exec" | "time" | "npx" | "bunx" | "then" | "do" | "else" | "!")
}

fn leaves<'a>(words: &[&'a str]) -> Option<&'a str> {
    words.first().copied().filter(|word| LEAVING.contains(word) && !asks(words))
}

fn asks(words: &[&str]) -> bool {
    words.iter().any(|word| ONLY_ASKING.contains(word))
}

fn is_server(words: &[&str]) -> bool {
    if asks(words) {
        return false;
    }
    let (first, rest) = match words {
        [first, rest @ ..] => (first.rsplit('/').next().unwrap_or_default(), rest),
        [] => return false,
    };
    let has = |wanted: &[&str]| rest.iter().any(|word| wanted.contains(word));
    match first {
        "npm" | "pnpm" | "yarn" | "bun" => {
            let script =
                rest.iter().find(|word| !word.starts_with('-') && !matches!(**word, "run" | "run-script"));
            script.is_some_and(|script| SCRIPTS.contains(&script.split(':').next().unwrap_or_default()))
        }
        "docker" => has(&["compose"]) && has(&["up"]) && !has(&["-d", "--detach"]),
        "docker-compose" => has(&["up"]) && !has(&["-d", "--detach"]),
        "next" => rest.first() == Some(&"dev"),
        "vite" => rest
            .first()
            .is_none_or(|word| word.starts_with('-') || matches!(*word, "dev" | "serve" | "preview")),
        "nodemon" | "uvicorn" | "gunicorn" => true,
        name if name.starts_with("python") => rest.windows(2).any(|pair| pair == ["-m", "http.server"]),
        _ => false,
    }
}

/// Tells whether a single `&` is not followed by `wait`.
fn leaves_one_running(text: &str) -> bool {
    let bytes = text.as_bytes();
    let single = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
        let after = bytes.get(at + 1).copied().unwrap_or(b' ');
        !matches!(before, b'&' | b'>' | b'<' | b'|' | b'\\') && !matches!(after, b'&' | b'>')
    };
    let last = text.match_indices('&').map(|(at, _)| at).rfind(|at| single(*at));
    last.is_some_and(|at| {
        let rest = text.get(at + 1..).unwrap_or_default();
        !segments(rest).any(|words| words.first() == Some(&"wait"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_end_is_refused() {
        for command in [
            "nohup ./server",
            "cd x && setsid y",
            "sleep 5 &",
            "sleep 5 & echo done",
            "npm run dev",
            "PORT=1 pnpm start",
            "yarn dev:web",
            "npx vite",
            "docker compose up",
            "uvicorn app:app --reload",
            "python3 -m http.server 8000",
            "cd app && next dev",
        ] {
            assert!(refuse(command).is_some_and(|words| words.contains("background: true")), "{command}");
        }
        for command in [
            "echo 'npm run dev &'",
            "npm run build",
            "npm start --help",
            "vite build",
            "vite --version",
            "docker compose up -d",
            "a && b",
            "make 2>&1 | tee log",
            "x &> log",
            "a & b & wait",
            "grep nohup file",
            "python3 -m unittest",
            "cat <<EOF\nsleep 5 &\nEOF",
        ] {
            assert_eq!(refuse(command), None, "{command}");
        }
    }

    #[test]
    fn the_last_of_a_chain_goes_to_the_background_alone() {
        for (command, expected) in [
            ("cd x && ./server &", Some("cd x && { ./server & }")),
            ("a; b && c -x 'y & z' & ", Some("a; b && { c -x 'y & z' & }")),
            ("a || b &", Some("a || { b & }")),
            ("./server &", None),
            ("a && b", None),
            ("a && (b) &", None),
            ("a && b 2>&1", None),
            ("a &&", None),
        ] {
            assert_eq!(grouped(command).as_deref(), expected, "{command}");
        }
    }
}
