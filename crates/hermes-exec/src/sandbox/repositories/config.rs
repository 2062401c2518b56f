//! Compares a repository's settings before and after a command: changes that git itself makes in ordinary
//! work stay, others do not.
//!
//! Nothing is interpreted that is not written exactly as git writes it. A new line must be a plain section
//! header or a plain setting on a short list with a plain value. An old line may stay unchanged in its place.
//! All other lines are removed, and where an old line is missing, the settings are restored.

/// The decision about changed settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConfigDecision {
    Accept,
    /// The settings are kept without these lines.
    RemoveLines(Vec<u8>, Vec<String>),
    /// The settings are restored.
    Restore,
}

pub(super) fn judge(before: &[u8], now: &[u8]) -> ConfigDecision {
    if before == now {
        return ConfigDecision::Accept;
    }
    // Settings that cannot be split into lines as git does are not examined.
    let (Ok(before), Ok(text)) = (std::str::from_utf8(before), std::str::from_utf8(now)) else {
        return ConfigDecision::Restore;
    };
    if text.contains(['\0', '\r', '\u{feff}']) && !before.contains(['\0', '\r', '\u{feff}']) {
        return ConfigDecision::Restore;
    }
    let old: Vec<&str> = before.lines().collect();
    let mut next = 0;
    let mut section = Section::Unknown;
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    let mut continues = false;
    for line in text.lines() {
        // This is an old line, and nothing before it is missing that git would not have removed.
        let at = old.iter().skip(next).position(|known| *known == line).map(|offset| next + offset);
        let reachable = |at: &usize| {
            let skipped = old.get(next..*at).unwrap_or_default();
            let mut inside = section.clone();
            skipped.iter().all(|line| inside.read(line) != LineKind::Other)
        };
        let known = at.filter(reachable);
        let read = section.clone().read(line);
        let is_new = match (known, read) {
            // Git removes and adds lines that are on the list; the lines that it keeps stay in their place.
            (Some(at), _) if !continues || at == next => {
                section.read(line);
                next = at + 1;
                false
            }
            (_, LineKind::SectionHeader | LineKind::Allowed) if !continues => {
                section.read(line);
                true
            }
            _ => {
                dropped.push(shown(&section, line));
                continue;
            }
        };
        continues = !is_new && line.ends_with('\\');
        kept.push(line);
    }
    let mut inside = section;
    let lost = old.get(next..).unwrap_or_default().iter().any(|line| inside.read(line) == LineKind::Other);
    if lost {
        return ConfigDecision::Restore;
    }
    if dropped.is_empty() {
        return ConfigDecision::Accept;
    }
    let mut text = kept.join("\n");
    text.push('\n');
    ConfigDecision::RemoveLines(text.into_bytes(), dropped)
}

fn shown(section: &Section, line: &str) -> String {
    let name = line.trim().split(['=', ' ', '\t']).next().unwrap_or_default();
    match section {
        Section::Known(head, _) if !line.trim().starts_with('[') => format!("{head}.{name}").to_lowercase(),
        _ => line.trim().chars().take(60).collect(),
    }
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    SectionHeader,
    /// The line is a setting on the list, or empty.
    Allowed,
    /// The line is anything else.
    Other,
}

/// The section of a line: its name and the part in quotes.
#[derive(Debug, Clone)]
enum Section {
    Known(String, Option<String>),
    Unknown,
}

impl Section {
    /// Parses one line, and enters the section if it is a header.
    fn read(&mut self, line: &str) -> LineKind {
        if line.is_empty() {
            return LineKind::Allowed;
        }
        if line.starts_with('[') {
            *self = head(line).unwrap_or(Self::Unknown);
            return if matches!(self, Self::Known(..)) { LineKind::SectionHeader } else { LineKind::Other };
        }
        if line.trim_start().starts_with('[') {
            *self = Self::Unknown;
            return LineKind::Other;
        }
        let Self::Known(section, sub) = &*self else { return LineKind::Other };
        let setting = line.strip_prefix('\t').and_then(|line| line.split_once(" = "));
        match setting {
            Some((name, value)) if is_allowed(section, sub.as_deref(), name, value) => LineKind::Allowed,
            _ => LineKind::Other,
        }
    }
}

fn head(line: &str) -> Option<Section> {
    let inside = line.strip_prefix('[')?.strip_suffix(']')?;
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let Some((name, sub)) = inside.split_once(' ') else {
        return plain(inside).then(|| Section::Known(inside.to_ascii_lowercase(), None));
    };
    let sub = sub.strip_prefix('"')?.strip_suffix('"')?;
    let simple = |byte: u8| byte.is_ascii_alphanumeric() || b"._/@+:-".contains(&byte) || byte >= 0x80;
    (plain(name) && !sub.is_empty() && sub.bytes().all(simple))
        .then(|| Section::Known(name.to_ascii_lowercase(), Some(sub.to_owned())))
}

/// The kind of value that a setting must have.
#[derive(Clone, Copy)]
enum ValueKind {
    Switch,
    Word,
    Text,
    Address,
    Refs,
    /// A folder below the one that contains the repository.
    Tree,
}

const LIST: &[(&str, &[&str], ValueKind)] = &[
    (
        "core",
        &[
            "bare",
            "repositoryformatversion",
            "filemode",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "untrackedcache",
            "preloadindex",
            "splitindex",
            "quotepath",
            "longpaths",
            "compression",
            "abbrev",
            "sharedrepository",
            "commitgraph",
            "multipackindex",
            "protecthfs",
            "protectntfs",
        ],
        ValueKind::Word,
    ),
    ("core", &["worktree"], ValueKind::Tree),
    ("user", &["name", "email"], ValueKind::Text),
    ("author", &["name", "email"], ValueKind::Text),
    ("committer", &["name", "email"], ValueKind::Text),
    ("branch", &["remote", "pushremote"], ValueKind::Address),
    ("branch", &["merge", "vscode-merge-base", "gh-merge-base", "gh-resolved"], ValueKind::Refs),
    ("branch", &["rebase", "autosetupmerge", "autosetuprebase"], ValueKind::Word),
    ("branch", &["description"], ValueKind::Text),
    ("remote", &["url", "pushurl"], ValueKind::Address),
    ("remote", &["fetch", "push", "gh-resolved"], ValueKind::Refs),
    (
        "remote",
        &[
            "tagopt",
            "prune",
            "prunetags",
            "mirror",
            "promisor",
            "partialclonefilter",
            "skipdefaultupdate",
            "skipfetchall",
            "pushdefault",
        ],
        ValueKind::Word,
    ),
    ("submodule", &["url"], ValueKind::Address),
    (
        "submodule",
        &["active", "ignore", "branch", "shallow", "fetchrecursesubmodules", "recurse"],
        ValueKind::Word,
    ),
    (
        "extensions",
        &[
            "worktreeconfig",
            "partialclone",
            "objectformat",
            "refstorage",
            "preciousobjects",
            "relativeworktrees",
        ],
        ValueKind::Word,
    ),
    ("pull", &["rebase", "ff"], ValueKind::Word),
    ("push", &["default", "autosetupremote", "followtags"], ValueKind::Word),
    ("merge", &["ff", "conflictstyle", "renames", "autostash"], ValueKind::Word),
    ("rebase", &["autosquash", "autostash", "updaterefs"], ValueKind::Word),
    ("fetch", &["prune", "prunetags", "writecommitgraph"], ValueKind::Word),
    ("diff", &["renames", "algorithm", "colormoved", "mnemonicprefix"], ValueKind::Word),
    ("init", &["defaultbranch"], ValueKind::Word),
    ("commit", &["gpgsign", "verbose"], ValueKind::Switch),
    ("tag", &["gpgsign"], ValueKind::Switch),
    ("rerere", &["enabled", "autoupdate"], ValueKind::Switch),
    ("gc", &["auto"], ValueKind::Word),
    ("maintenance", &["auto", "strategy"], ValueKind::Word),
    ("advice", &[], ValueKind::Switch),
    ("color", &[], ValueKind::Word),
    ("receive", &["denycurrentbranch"], ValueKind::Word),
    ("lfs", &["repositoryformatversion", "access", "locksverify"], ValueKind::Word),
];

fn is_allowed(section: &str, sub: Option<&str>, name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let plain_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let fits = |(known, names, kind): &(&str, &[&str], ValueKind)| {
        *known == section && (names.is_empty() || names.contains(&name.as_str())) && fits(*kind, value)
    };
    // The part in quotes names a custom driver here.
    let driver =
        sub.is_some() && matches!(section, "diff" | "merge" | "color" | "core" | "user" | "commit" | "gc");
    plain_name && !driver && LIST.iter().any(fits)
}

fn fits(kind: ValueKind, value: &str) -> bool {
    let all = |extra: &[u8]| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte));
    let start = value.bytes().next().is_some_and(|byte| byte != b'-');
    match kind {
        ValueKind::Switch => matches!(value, "true" | "false" | "auto" | "always" | "never" | "0" | "1"),
        ValueKind::Word => start && value.len() <= 100 && all(b"._/:-,") && !value.contains("::"),
        ValueKind::Text => value
            .bytes()
            .all(|byte| byte >= 0x80 || byte.is_ascii_alphanumeric() || b" ._@<>(),'+-/:&".contains(&byte)),
        ValueKind::Refs => all(b"._/:+*^@-,") && start,
        ValueKind::Tree => {
            let rest = value.trim_start_matches("../");
            value.starts_with("../") && !rest.contains("..") && all(b"._/-")
        }
        ValueKind::Address => {
            // A transport helper is a program.
            start && !value.contains("::") && all(b"._~:/@%+=,?&-")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "[core]\n\tbare = false\n\tpager = less -F # mine\n[remote \"origin\"]\n\turl = /x\n[alias]\n\tst = \"!status\"\n";

    fn check(added: &str, dropped: usize) {
        let now = format!("{BEFORE}{added}");
        match judge(BEFORE.as_bytes(), now.as_bytes()) {
            ConfigDecision::Accept => assert_eq!(dropped, 0, "{added}"),
            ConfigDecision::RemoveLines(kept, lines) => {
                assert_eq!(lines.len(), dropped, "{added}: {lines:?}");
                let kept = String::from_utf8(kept).unwrap();
                assert!(kept.starts_with(BEFORE) && !kept.contains("evil"), "{kept}");
                assert_eq!(judge(BEFORE.as_bytes(), kept.as_bytes()), ConfigDecision::Accept, "{kept}");
            }
            ConfigDecision::Restore => assert_eq!(dropped, 99, "{added}"),
        }
    }

    #[test]
    fn what_git_changes_by_itself_stays() {
        for added in [
            "[user]\n\tname = Ann Example\n\temail = ann@example.org\n",
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
            "[remote \"up\"]\n\turl = https://example.org/x.git\n\tfetch = +refs/heads/*:refs/remotes/up/*\n",
            "[remote \"up\"]\n\turl = git@example.org:a/b.git\n",
            "[submodule \"lib/a\"]\n\tactive = true\n\turl = ../a\n",
            "[pull]\n\trebase = true\n",
            "[core]\n\tworktree = ../../../lib/a\n",
        ] {
            check(added, 0);
        }
    }

    #[test]
    fn what_runs_programs_or_cannot_be_told_does_not() {
        for (added, dropped) in [
            ("[core]\n\thooksPath = evil\n", 1),
            ("[Core]\n\tHooksPath=evil\n", 1),
            ("[core] sshCommand = evil\n", 1),
            ("[core]\n\tfsmonitor = \"evil \\\n b\"\n", 2),
            ("[user]\n\tname = a\\\n\tevil\n", 2),
            ("# a comment \\\n[core]\n\tfsmonitor = evil\n", 2),
            ("[user][core]\n\tfsmonitor = evil\n", 2),
            ("[filter \"x]y\"]\n\tclean = evil\n", 2),
            ("[filter \"x\"]\n\tclean = evil\n", 1),
            ("[diff \"x\"]\n\ttextconv = evil\n\tcommand = evil\n", 2),
            ("[merge \"x\"]\n\tdriver = evil\n", 1),
            ("[alias]\n\tco = evil\n", 1),
            ("[include]\n\tpath = evil\n", 1),
            ("[includeIf \"gitdir:/\"]\n\tpath = evil\n", 1),
            ("[credential \"https://x\"]\n\thelper = evil\n", 1),
            ("[remote \"x\"]\n\turl = ext::sh -c evil\n", 1),
            ("[remote \"x\"]\n\turl = evil::x\n", 1),
            ("[remote \"x\"]\n\turl = -evil\n", 1),
            ("[remote \"x\"]\n\tuploadpack = evil\n", 1),
            ("[core]\n\tpager = evil\n", 1),
            ("[core]\n\tworktree = /evil\n", 1),
            ("[submodule \"x\"]\n\tupdate = evil\n", 1),
            ("[gpg]\n\tprogram = evil\n", 1),
            ("[protocol \"ext\"]\n\tallow = evil\n", 1),
            ("[url \"ext::x\"]\n\tinsteadOf = evil\n", 1),
            ("\u{feff}[core]\n\tfsmonitor = evil\n", 99),
            ("[core]\r\n\tfsmonitor = evil\r\n", 99),
        ] {
            check(added, dropped);
        }
    }

    #[test]
    fn what_was_there_stays_where_it_was() {
        let moved = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = /x\n[alias]\n\tst = \"!status\"\n\tpager = less -F # mine\n";
        assert_eq!(
            judge(BEFORE.as_bytes(), moved.as_bytes()),
            ConfigDecision::Restore,
            "a setting in another section"
        );
        let without_remote =
            "[core]\n\tbare = false\n\tpager = less -F # mine\n[alias]\n\tst = \"!status\"\n";
        assert_eq!(judge(BEFORE.as_bytes(), without_remote.as_bytes()), ConfigDecision::Accept);
        assert_eq!(judge(b"", b"[core]\n\tbare = false\n\tfilemode = true\n"), ConfigDecision::Accept);
    }
}
