//! Finds the files an answer names in order to send them.
//!
//! Images on the web are in `picture`. A `MEDIA:` tag names a file explicitly; a bare path to an image or video
//! outside of code also counts. Invariant: a file in a folder of secrets or of the system is never sent, whatever
//! names it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use hermes_types::{Attachment, AttachmentKind, Message, ResultAuthor, Role, Tool, WebImage};
use regex::Regex;

use super::picture;

/// The files found in a text, and the text without them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtractedMedia {
    pub(crate) text: String,
    pub(crate) pictures: Vec<WebImage>,
    pub(crate) files: Vec<Attachment>,
}

/// Says whether images on the web are extracted, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebPictures {
    Extract,
    Keep,
}

const AS_VOICE: &str = "[[audio_as_voice]]";
const MEDIA: &str = "png|jpg|jpeg|gif|webp|mp4|mov|avi|mkv|webm|ogg|opus|mp3|wav|m4a";

/// Matches `MEDIA:` and a path: in quotes, up to a known extension, or up to a space.
static TAG: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = format!(
        r#"(?i)MEDIA:[ \t]*(?:`([^`\n]+)`|"([^"\n]+)"|'([^'\n]+)'|((?:~?/)[^\n`"']*?\.(?:{MEDIA})\b)|(\S+))"#
    );
    Regex::new(&pattern).ok()
});

/// Matches a path to an image or video that stands alone.
static BARE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(^|[\s(])((?:~/|/)[^\s`()]+\.(?:png|jpg|jpeg|gif|webp|mp4|mov|avi|mkv|webm))(?:$|[\s),.;:])",
    )
    .ok()
});

/// Extracts the files from a text; those that `refuses` names stay where they are.
pub(crate) fn extract(
    text: &str,
    of_the_web: WebPictures,
    refuses: &dyn Fn(&Path) -> bool,
) -> ExtractedMedia {
    let voice = text.contains(AS_VOICE);
    let mut text = text.replace(AS_VOICE, "");
    let mut files: Vec<Attachment> = Vec::new();
    let mut add = |path: &str| {
        let Some(file) = sendable_attachment(path, voice, refuses) else { return false };
        if !files.iter().any(|known| known.path == file.path) {
            files.push(file);
        }
        true
    };
    if let Some(tag) = TAG.as_ref() {
        text = without_tags(&text, tag, &mut add);
    }
    let pictures = match of_the_web {
        WebPictures::Extract => picture::extract_pictures(&mut text),
        WebPictures::Keep => Vec::new(),
    };
    text = without_bare_paths(&text, &mut add);
    ExtractedMedia { text: collapse(&text), pictures, files }
}

/// Returns the pictures that an answer, or a tool of its turn, names, for a surface that shows them itself.
pub fn pictures_of_answer(answer: &str, messages: &[Message], tools: &[Arc<dyn Tool>]) -> Vec<PathBuf> {
    let mut text = Some(answer.to_owned());
    attach_tool_files(&mut text, messages, tools);
    let files = extract(text.as_deref().unwrap_or_default(), WebPictures::Keep, &is_secret).files;
    let pictures = files.into_iter().filter(|file| file.kind == AttachmentKind::Image);
    pictures.map(|file| PathBuf::from(file.path)).collect()
}

/// Removes the tags from a text, with the code marks around them. A file that cannot be sent is named in the
/// text.
fn without_tags(text: &str, tag: &Regex, add: &mut dyn FnMut(&str) -> bool) -> String {
    let mut rest = String::new();
    let mut left = text;
    while let Some(captures) = tag.captures(left) {
        let (Some(whole), Some(path)) = (captures.get(0), (1..=5).find_map(|at| captures.get(at))) else {
            break;
        };
        // A path may contain spaces, but not the next tag.
        let next = path.as_str().find("MEDIA:").unwrap_or(path.as_str().len());
        let own = path.as_str().get(..next).unwrap_or_default();
        let end = if next < path.as_str().len() { path.start() + next } else { whole.end() };
        let mut before = left.get(..whole.start()).unwrap_or_default();
        let mut after = left.get(end..).unwrap_or_default();
        let own = own.trim_end();
        let is_code = before.ends_with('`') && !before.ends_with("```");
        let path = own.trim_end_matches([',', '.', ';', ':', ')', '}', ']', '"', '\'', '`']);
        if is_code && (own.ends_with('`') || after.starts_with('`')) {
            before = before.strip_suffix('`').unwrap_or(before);
            after = if own.ends_with('`') { after } else { after.strip_prefix('`').unwrap_or(after) };
        }
        rest.push_str(before);
        if !add(path) {
            rest.push_str("📎 File: ");
            rest.push_str(path);
        }
        left = after;
    }
    rest.push_str(left);
    without_empty_fences(&rest)
}

/// Removes code fences that held nothing but tags.
fn without_empty_fences(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let is_fence = |line: &str| line.trim().starts_with("```");
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let blank = lines.iter().skip(at + 1).take_while(|line| line.trim().is_empty()).count();
        let closes = lines.get(at + 1 + blank).is_some_and(|line| line.trim() == "```");
        // A fence that closes another block does not open an empty one.
        let opens = kept.iter().filter(|line| is_fence(line)).count().is_multiple_of(2);
        if is_fence(line) && opens && closes && blank > 0 {
            at += blank + 2;
            continue;
        }
        kept.push(line);
        at += 1;
    }
    kept.join("\n")
}

/// Adds tags for the files the tools of the last turn created, where the answer names none. A tag in the words of
/// others is not from a tool.
pub(crate) fn attach_tool_files(reply: &mut Option<String>, messages: &[Message], tools: &[Arc<dyn Tool>]) {
    let (Some(text), Some(tag)) = (reply, TAG.as_ref()) else { return };
    if text.contains("MEDIA:") {
        return;
    }
    let begin = messages.iter().rposition(|message| message.role == Role::User).unwrap_or_default();
    let (before, turn) = messages.split_at(begin);
    let known = |found: &str| before.iter().any(|message| message.content.text().contains(found));
    let is_author = |name: &str| {
        let tool = tools.iter().find(|tool| tool.spec().name == name);
        tool.is_some_and(|tool| tool.descriptor().result_author == ResultAuthor::Tool)
    };
    let own = |message: &&Message| {
        message.role == Role::Tool && message.tool_name.as_deref().is_some_and(is_author)
    };
    let mut tags: Vec<String> = Vec::new();
    let mut as_voice = false;
    for message in turn.iter().filter(own) {
        let said = message.content.text();
        as_voice |= said.contains(AS_VOICE);
        for found in tag.find_iter(&said).map(|found| found.as_str().to_owned()) {
            if !tags.contains(&found) && !known(&found) {
                tags.push(found);
            }
        }
    }
    if tags.is_empty() {
        return;
    }
    if as_voice {
        tags.insert(0, AS_VOICE.to_owned());
    }
    text.push('\n');
    text.push_str(&tags.join("\n"));
}

fn without_bare_paths(text: &str, add: &mut dyn FnMut(&str) -> bool) -> String {
    let Some(bare) = BARE.as_ref() else { return text.to_owned() };
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let found = if fenced { None } else { bare.captures(line).and_then(|captures| captures.get(2)) };
        match found {
            Some(path) if add(path.as_str()) => {
                let (before, after) = (line.get(..path.start()), line.get(path.end()..));
                lines.push(format!("{}{}", before.unwrap_or_default(), after.unwrap_or_default()));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

fn collapse(text: &str) -> String {
    let mut out = text.trim().to_owned();
    while out.contains("\n\n\n") {
        out = out.replace("\n\n\n", "\n\n");
    }
    out
}

/// Returns the file if it exists and may be sent.
fn sendable_attachment(path: &str, as_voice: bool, refuses: &dyn Fn(&Path) -> bool) -> Option<Attachment> {
    let real = std::fs::canonicalize(expand(path)?).ok()?;
    if !real.is_file() || refuses(&real) {
        return None;
    }
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(Attachment {
        kind: kind(&real, as_voice),
        path: real.to_string_lossy().into_owned(),
        name,
        mime: None,
    })
}

fn expand(path: &str) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => Some(home()?.join(rest)),
        None => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
    }
}

fn home() -> Option<PathBuf> {
    hermes_config::user_home(&hermes_config::Env::process()).ok()
}

const SECRET_FOLDERS: [&str; 17] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    "pairing",
    ".password-store",
    "keyrings",
    ".azure",
    ".oci",
    ".gcloud",
    ".mozilla",
    ".thunderbird",
    ".electrum",
    ".bitcoin",
    ".vault-token",
    ".terraform.d",
];
/// Folders of secrets below `.config`.
const SECRET_SETTINGS: [&str; 7] =
    ["gcloud", "gh", "glab-cli", "google-chrome", "chromium", "BraveSoftware", "rclone"];
const SECRET_FILES: [&str; 24] = [
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".node_repl_history",
    ".lesshst",
    ".viminfo",
    ".my.cnf",
    ".s3cfg",
    ".boto",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    ".env",
    "auth.json",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    "state.db",
    "credentials.json",
];
const SYSTEM: [&str; 6] = ["/etc", "/proc", "/sys", "/dev", "/boot", "/run"];

/// Tells whether a file is in a folder of secrets or of the system, or holds secrets itself.
pub(super) fn is_secret(path: &Path) -> bool {
    let named = |names: &[&str], part: &std::ffi::OsStr| names.iter().any(|name| part == *name);
    SYSTEM.iter().any(|root| path.starts_with(root))
        || path.iter().any(|part| named(&SECRET_FOLDERS, part))
        || path
            .iter()
            .zip(path.iter().skip(1))
            .any(|(outer, inner)| outer == ".config" && named(&SECRET_SETTINGS, inner))
        || path
            .file_name()
            .is_some_and(|name| named(&SECRET_FILES, name) || name.to_string_lossy().starts_with(".env."))
}

fn kind(path: &Path, as_voice: bool) -> AttachmentKind {
    let extension = path.extension().map(|ext| ext.to_string_lossy().to_lowercase()).unwrap_or_default();
    match extension.as_str() {
        "ogg" | "opus" => AttachmentKind::Voice,
        "mp3" | "wav" | "m4a" if as_voice => AttachmentKind::Voice,
        "mp3" | "wav" | "m4a" => AttachmentKind::Audio,
        "mp4" | "mov" | "avi" | "mkv" | "webm" | "3gp" => AttachmentKind::Video,
        "jpg" | "jpeg" | "png" | "webp" | "gif" => AttachmentKind::Image,
        _ => AttachmentKind::Document,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str) -> String {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "x").unwrap();
        std::fs::canonicalize(path).unwrap().to_string_lossy().into_owned()
    }

    fn files_of(text: &str) -> ExtractedMedia {
        extract(text, WebPictures::Keep, &is_secret)
    }

    #[test]
    fn tags_and_bare_paths_become_files() {
        let folder = tempfile::tempdir().unwrap();
        let picture = file(folder.path(), "a b.png");
        let report = file(folder.path(), "report.pdf");
        let sound = file(folder.path(), "say.mp3");
        let found = files_of(&format!(
            "Here.\nMEDIA:{picture}\n\n\n\nMEDIA: `{report}` and MEDIA:{picture}\n[[audio_as_voice]] MEDIA:{sound}."
        ));
        assert_eq!(found.text, "Here.\n\n and \n .");
        let kinds: Vec<_> = found.files.iter().map(|file| (file.path.as_str(), file.kind)).collect();
        assert_eq!(
            kinds,
            [
                (picture.as_str(), AttachmentKind::Image),
                (report.as_str(), AttachmentKind::Document),
                (sound.as_str(), AttachmentKind::Voice)
            ]
        );
        let film = file(folder.path(), "film.mp4");
        let found = files_of(&format!("Look at {film}.\n```\n{film}\n```"));
        assert_eq!(found.files.len(), 1);
        assert!(found.text.contains(&format!("```\n{film}\n```")), "code stays: {}", found.text);
    }

    #[test]
    fn tags_on_one_line_in_code_and_in_fences_are_each_sent() {
        let folder = tempfile::tempdir().unwrap();
        let report = file(folder.path(), "report.pdf");
        let picture = file(folder.path(), "a b.png");
        for (text, left) in [
            (format!("MEDIA:{report} MEDIA:{picture}"), ""),
            (format!("MEDIA:{report}, MEDIA:{picture}."), "."),
            (format!("Two: `MEDIA:{report}` and `MEDIA:{picture}`"), "Two:  and"),
            (format!("See\n```\nMEDIA:{report}\nMEDIA:{picture}\n```\ndone"), "See\ndone"),
        ] {
            let found = files_of(&text);
            let names: Vec<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(names, [report.as_str(), picture.as_str()], "{text}");
            assert_eq!(found.text.trim(), left, "{text}");
        }
        let code = files_of("```\nls\n```");
        assert_eq!(code.text, "```\nls\n```");
    }

    #[test]
    fn secrets_do_not_leave() {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), ".ssh/id_ed25519");
        let env = file(folder.path(), ".env");
        let link = folder.path().join("innocent.png");
        std::os::unix::fs::symlink(&key, &link).unwrap();
        for path in [key.as_str(), env.as_str(), link.to_str().unwrap(), "/etc/passwd", "/proc/self/environ"]
        {
            let found = files_of(&format!("MEDIA:{path}"));
            assert_eq!(found.files, [], "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_named_in_words() {
        assert_eq!(files_of("MEDIA:/nowhere/x.png").text, "📎 File: /nowhere/x.png");
    }
}
