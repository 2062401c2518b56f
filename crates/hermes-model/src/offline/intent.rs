//! Parses plain requests into intents by rule.

use serde_json::{Value, json};

use super::intent::schedule::read_schedule;

mod schedule;

/// An action that one tool call can perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    ListFiles { path: String },
    ReadFile { path: String },
    WriteFile { path: String, content: String },
    Run { command: String },
    Search { pattern: String, path: String },
    FindFiles { pattern: String, path: String },
    Remember { content: String, target: MemoryTarget },
    Forget { text: String },
    Recall { target: MemoryTarget },
    Schedule { schedule: String, prompt: String },
    ListSchedules,
    SearchPast { query: String },
}

/// The memory file to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryTarget {
    Memory,
    User,
}

impl MemoryTarget {
    fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::User => "user",
        }
    }

    /// Chooses the user profile for content about the user.
    fn of(content: &str) -> Self {
        let first = content.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let about_them = ["i", "i'm", "i've", "my", "me", "mine", "we", "our"].contains(&first.as_str());
        if about_them { Self::User } else { Self::Memory }
    }
}

impl Intent {
    /// Returns the tool that this needs.
    pub(super) fn tool(&self) -> &'static str {
        match self {
            Self::ListFiles { .. } | Self::Run { .. } => "terminal",
            Self::ReadFile { .. } => "read_file",
            Self::WriteFile { .. } => "write_file",
            Self::Search { .. } | Self::FindFiles { .. } => "search_files",
            Self::Remember { .. } | Self::Forget { .. } | Self::Recall { .. } => "memory",
            Self::Schedule { .. } | Self::ListSchedules => "cronjob",
            Self::SearchPast { .. } => "session_search",
        }
    }

    /// Returns the call, with a tool that is offered.
    pub(super) fn call(&self, offered: &dyn Fn(&str) -> bool) -> Option<(&'static str, Value)> {
        if let Self::ListFiles { path } = self
            && !offered("terminal")
        {
            let arguments = json!({"pattern": "*", "target": "files", "path": path});
            return offered("search_files").then_some(("search_files", arguments));
        }
        offered(self.tool()).then(|| (self.tool(), self.arguments()))
    }

    fn arguments(&self) -> Value {
        match self {
            Self::ListFiles { path } => json!({"command": format!("ls -la -- {}", shell_quote(path))}),
            Self::ReadFile { path } => json!({"path": path}),
            Self::WriteFile { path, content } => json!({"path": path, "content": content}),
            Self::Run { command } => json!({"command": command}),
            Self::Search { pattern, path } => json!({"pattern": pattern, "target": "content", "path": path}),
            Self::FindFiles { pattern, path } => json!({"pattern": pattern, "target": "files", "path": path}),
            Self::Remember { content, target } => {
                json!({"action": "add", "target": target.as_str(), "content": content})
            }
            Self::Forget { text } => json!({"action": "remove", "target": "memory", "old_text": text}),
            Self::Recall { target } => json!({"action": "read", "target": target.as_str()}),
            Self::Schedule { schedule, prompt } => {
                json!({"action": "create", "schedule": schedule, "prompt": prompt})
            }
            Self::ListSchedules => json!({"action": "list"}),
            Self::SearchPast { query } => json!({"query": query}),
        }
    }
}

/// Returns every step of a request such as ``read a.txt, then run `make` ``; empty if any step is not understood.
pub(super) fn read(text: &str) -> Vec<Intent> {
    let mut intents = Vec::new();
    for step in split_steps(text) {
        let found = read_step(step.trim());
        if found.is_empty() {
            return Vec::new();
        }
        intents.extend(found);
    }
    intents
}

/// The verbs that begin a further step.
const STEP_VERBS: [&str; 9] =
    ["read ", "list ", "show ", "search ", "find ", "run ", "execute ", "open ", "look "];

/// Tells whether `and` begins another step here: a verb follows, and the text before is not free text.
fn begins_step(before: &str, rest: &str) -> bool {
    const OWN_WORDS: [&str; 6] = ["remember", "please remember", "forget", "every", "write", "create"];
    let before = strip_politeness(before.trim());
    !OWN_WORDS.iter().any(|word| starts_with(before, word))
        && STEP_VERBS.iter().any(|verb| starts_with(rest, verb))
}

/// Splits at `then`, and at `and` where another step begins, but not inside quotes or back quotes.
fn split_steps(text: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut start = 0;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '`' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, ' ' | ',' | ';') => {
                let rest = text.get(at..).unwrap_or_default();
                let joint = [" and then ", ", then ", "; then ", " then "]
                    .into_iter()
                    .find(|joint| starts_with(rest, joint))
                    .or_else(|| {
                        let before = text.get(start..at).unwrap_or_default();
                        [", and ", " and ", ", "].into_iter().find(|joint| {
                            starts_with(rest, joint)
                                && begins_step(before, rest.get(joint.len()..).unwrap_or_default())
                        })
                    });
                if let Some(joint) = joint
                    && at >= start
                {
                    steps.extend(text.get(start..at));
                    start = at + joint.len();
                }
            }
            _ => {}
        }
    }
    steps.extend(text.get(start..));
    steps.retain(|step| !step.trim().is_empty());
    steps
}

fn read_step(step: &str) -> Vec<Intent> {
    let step = strip_politeness(step);
    let bare = step.trim_end_matches(['.', '!', '?']).trim_end();
    let one = |intent: Intent| vec![intent];
    if let Some((schedule, prompt)) = read_schedule(bare) {
        return one(Intent::Schedule { schedule, prompt });
    }
    if is_one_of(
        bare,
        &[
            "what do you remember",
            "what do you know about me",
            "what's in your memory",
            "show your memory",
            "show memory",
            "what do you remember about me",
        ],
    ) {
        return vec![
            Intent::Recall { target: MemoryTarget::Memory },
            Intent::Recall { target: MemoryTarget::User },
        ];
    }
    if is_one_of(
        bare,
        &[
            "list scheduled jobs",
            "list cron jobs",
            "what is scheduled",
            "show scheduled jobs",
            "list my jobs",
        ],
    ) {
        return one(Intent::ListSchedules);
    }
    if let Some(content) =
        after(bare, &["please remember that ", "remember that ", "remember: ", "remember "])
    {
        return one(Intent::Remember { content: content.to_owned(), target: MemoryTarget::of(content) });
    }
    if let Some(text) = after(bare, &["forget that ", "forget about ", "forget "]) {
        return one(Intent::Forget { text: text.to_owned() });
    }
    if let Some(query) = after(
        bare,
        &[
            "search past conversations for ",
            "search my conversations for ",
            "search our conversations for ",
            "search sessions for ",
        ],
    ) {
        return one(Intent::SearchPast { query: unquote(query).to_owned() });
    }
    if let Some(intent) = read_listing(bare) {
        return one(intent);
    }
    if let Some(command) =
        after(step, &["run the command ", "run command ", "execute the command ", "run ", "execute "])
    {
        return one(Intent::Run { command: unquote(command.trim()).to_owned() });
    }
    if let Some(rest) = after(
        bare,
        &[
            "find files named ",
            "find the file named ",
            "find the file ",
            "find files matching ",
            "find files ",
        ],
    ) {
        let (pattern, path) = split_place(rest);
        return one(Intent::FindFiles { pattern: pattern.to_owned(), path });
    }
    if let Some(rest) = after(
        bare,
        &[
            "search for ",
            "search the files for ",
            "search files for ",
            "grep for ",
            "grep ",
            "look for ",
            "find ",
        ],
    ) {
        let (pattern, path) = split_place(rest);
        return one(Intent::Search { pattern: pattern.to_owned(), path });
    }
    if let Some(intent) = read_writing(step) {
        return one(intent);
    }
    if let Some(path) = after(
        bare,
        &[
            "read the file ",
            "read file ",
            "read ",
            "show me the file ",
            "show me ",
            "show ",
            "open ",
            "cat ",
            "what is in ",
            "what's in ",
            "print ",
        ],
    ) && looks_like_path(unquote(path))
    {
        return one(Intent::ReadFile { path: unquote(path).to_owned() });
    }
    Vec::new()
}

fn read_listing(text: &str) -> Option<Intent> {
    if is_one_of(
        text,
        &[
            "list files",
            "list the files",
            "list all files",
            "ls",
            "what files are here",
            "what files are there",
            "show files",
            "show the files",
            "list the directory",
            "list this directory",
            "list the folder",
            "list this folder",
        ],
    ) {
        return Some(Intent::ListFiles { path: ".".to_owned() });
    }
    let rest = after(
        text,
        &[
            "list the files in ",
            "list files in ",
            "list all files in ",
            "list the files ",
            "list files ",
            "show the files in ",
            "what files are in ",
            "what is in the folder ",
            "ls ",
        ],
    )?;
    let place = after(rest, &["the folder ", "the directory ", "folder ", "directory "]).unwrap_or(rest);
    let here = is_one_of(
        place,
        &["here", "this folder", "this directory", "the current directory", "the current folder"],
    );
    Some(Intent::ListFiles { path: if here { ".".to_owned() } else { unquote(place).to_owned() } })
}

/// Parses `write "text" to path` and `create a file path with text`.
fn read_writing(text: &str) -> Option<Intent> {
    if let Some(rest) = after(text, &["write ", "save "])
        && let Some((content, path)) = rest.rsplit_once(" to ")
    {
        let path = after(path, &["the file ", "file ", "a file named "]).unwrap_or(path);
        let path = unquote(path.trim_end_matches('.'));
        return looks_like_path(path).then(|| Intent::WriteFile {
            path: path.to_owned(),
            content: unquote(content.trim()).to_owned(),
        });
    }
    let rest = after(
        text,
        &["create a file named ", "create a file called ", "create a file ", "create the file ", "create "],
    )?;
    let (path, content) = [" with the content ", " with content ", " containing ", " with "]
        .into_iter()
        .find_map(|joint| rest.split_once(joint))?;
    let path = unquote(path.trim());
    looks_like_path(path)
        .then(|| Intent::WriteFile { path: path.to_owned(), content: unquote(content.trim()).to_owned() })
}

/// Splits `TODO in src` into a pattern and a folder; without a folder it is the current one.
fn split_place(text: &str) -> (&str, String) {
    match text.rsplit_once(" in ") {
        Some((pattern, place)) => {
            let here = is_one_of(
                place,
                &["here", "this folder", "this directory", "the files", "all files", "this project"],
            );
            (unquote(pattern.trim()), if here { ".".to_owned() } else { unquote(place.trim()).to_owned() })
        }
        None => (unquote(text.trim_end_matches(" here").trim()), ".".to_owned()),
    }
}

fn strip_politeness(text: &str) -> &str {
    let mut rest = text.trim();
    while let Some(next) =
        after(rest, &["please ", "could you ", "can you ", "would you ", "hermes, ", "hey, ", "now "])
    {
        rest = next.trim_start();
    }
    rest
}

/// Returns what follows one of the beginnings, ignoring case.
fn after<'a>(text: &'a str, beginnings: &[&str]) -> Option<&'a str> {
    beginnings
        .iter()
        .find(|beginning| starts_with(text, beginning))
        .and_then(|beginning| text.get(beginning.len()..))
        .map(str::trim)
        .filter(|rest| !rest.is_empty())
}

/// Tells whether the text starts with the beginning, which is ASCII, so a match cannot end inside a character.
fn starts_with(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

fn is_one_of(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.eq_ignore_ascii_case(phrase))
}

fn unquote(text: &str) -> &str {
    for quote in ['`', '"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote))
            && !inner.is_empty()
        {
            return inner;
        }
    }
    text
}

/// Tells whether a text is a name with a dot or a slash and no spaces; `show me the way` is not one.
fn looks_like_path(text: &str) -> bool {
    let known = ["Makefile", "Dockerfile", "LICENSE", "README", "CHANGELOG"];
    !text.is_empty()
        && !text.contains(char::is_whitespace)
        && (text.contains(['.', '/', '~']) || known.contains(&text))
}

/// Quotes any text as one word for the shell.
fn shell_quote(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '+'));
    if plain && !text.is_empty() { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
