//! Settings of git that make it run programs.
//!
//! Reads a configuration by lines, as far as needed to tell its keys; what it does not understand it leaves as it is.

use std::collections::HashSet;

/// The text without those settings that run programs and that stood in `before` neither so nor otherwise, and what was
/// taken out. Nothing when there is nothing to take out.
pub(super) fn without_new_programs(before: &str, now: &str) -> Option<(String, Vec<String>)> {
    let known: HashSet<(String, String)> =
        settings(before).map(|setting| (setting.key, setting.value)).collect();
    let mut kept = String::new();
    let mut taken = Vec::new();
    for setting in settings(now) {
        if !setting.key.is_empty()
            && runs_program(&setting.key, &setting.value)
            && !known.contains(&(setting.key.clone(), setting.value.clone()))
        {
            taken.push(setting.key);
            // A section's head may stand on the same line.
            if let Some(head) = setting.head {
                kept.push_str(&head);
                kept.push('\n');
            }
        } else {
            kept.push_str(&setting.text);
        }
    }
    (!taken.is_empty()).then_some((kept, taken))
}

/// One line, with those that continue it.
struct Setting {
    /// `section.name`, in lower case but for the middle part; empty where the line sets nothing.
    key: String,
    value: String,
    text: String,
    /// The section's head, where it stands on this line too.
    head: Option<String>,
}

fn settings(text: &str) -> impl Iterator<Item = Setting> {
    let mut lines = text.split_inclusive('\n');
    let mut section = String::new();
    std::iter::from_fn(move || {
        let mut whole = lines.next()?.to_owned();
        while whole.trim_end_matches(['\n', '\r']).ends_with('\\') {
            let Some(next) = lines.next() else { break };
            whole.push_str(next);
        }
        let mut rest = whole.trim();
        let mut head = None;
        if rest.starts_with('[')
            && let Some((inside, behind)) = split_head(rest)
        {
            section = section_name(inside);
            rest = behind.trim();
            head = (!rest.is_empty()).then(|| format!("[{inside}]"));
        }
        let (key, value) = if rest.is_empty() || rest.starts_with(['#', ';']) {
            (String::new(), String::new())
        } else {
            let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
            (format!("{section}.{}", name.trim().to_lowercase()), value.trim().trim_matches('"').to_owned())
        };
        Some(Setting { key, value, text: whole, head })
    })
}

/// What is between the brackets, and what follows them. A bracket within quotes ends nothing.
fn split_head(line: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in line.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return Some((line.get(1..at)?, line.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

fn section_name(inside: &str) -> String {
    match inside.split_once('"') {
        Some((section, rest)) => {
            format!("{}.{}", section.trim().to_lowercase(), rest.trim_end().trim_end_matches('"'))
        }
        None => inside.trim().to_lowercase(),
    }
}

fn runs_program(key: &str, value: &str) -> bool {
    const WHOLE: &[&str] = &[
        "core.hookspath",
        "core.fsmonitor",
        "core.sshcommand",
        "core.pager",
        "core.editor",
        "core.askpass",
        "core.gitproxy",
        "core.alternaterefscommand",
        "core.attributesfile",
        "core.worktree",
        "sequence.editor",
        "diff.external",
        "gpg.program",
        "interactive.difffilter",
        "uploadpack.packobjectshook",
        "init.templatedir",
        "include.path",
        "credential.helper",
        "sendemail.smtpserver",
        "sendemail.sendmailcmd",
        "web.browser",
        "help.browser",
        "man.viewer",
    ];
    const ENDINGS: &[(&str, &[&str])] = &[
        ("alias", &[""]),
        ("browser", &["cmd", "path"]),
        ("credential", &["helper"]),
        ("diff", &["command", "textconv"]),
        ("difftool", &["cmd", "path"]),
        ("filter", &["clean", "smudge", "process"]),
        ("gpg", &["program", "defaultkeycommand"]),
        ("guitool", &["cmd"]),
        ("hook", &["command"]),
        ("includeif", &["path"]),
        ("man", &["cmd", "path"]),
        ("merge", &["driver"]),
        ("mergetool", &["cmd", "path"]),
        ("pager", &[""]),
        ("protocol", &["allow"]),
        ("remote", &["uploadpack", "receivepack", "vcs", "proxy"]),
        ("sendemail", &["tocmd", "cccmd", "headercmd", "sendmailcmd", "smtpserver"]),
        ("submodule", &["update"]),
        ("tar", &["command"]),
        ("trailer", &["command", "cmd"]),
        ("url", &["insteadof", "pushinsteadof"]),
    ];
    if WHOLE.contains(&key) {
        return true;
    }
    let section = key.split('.').next().unwrap_or_default();
    let last = key.rsplit('.').next().unwrap_or_default();
    let listed = ENDINGS.iter().any(|(known, endings)| {
        *known == section && endings.iter().any(|end| end.is_empty() || *end == last)
    });
    match section {
        // Only one that begins so is for the shell.
        "alias" | "submodule" => listed && value.starts_with('!'),
        "remote" if matches!(last, "url" | "pushurl") => value.starts_with("ext::"),
        // Only one that leads to a helper.
        "url" => listed && key.contains("::"),
        _ => listed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "[core]\n\tbare = false\n\tpager = less\n[remote \"origin\"]\n\turl = /x\n";

    fn check(added: &str, taken: &[&str]) {
        let now = format!("{BEFORE}{added}");
        match without_new_programs(BEFORE, &now) {
            Some((kept, found)) => {
                assert_eq!(found, taken, "{added}");
                assert!(without_new_programs(BEFORE, &kept).is_none(), "{kept}");
                assert!(kept.starts_with(BEFORE), "{kept}");
            }
            None => assert!(taken.is_empty(), "{added}: nothing was taken"),
        }
    }

    #[test]
    fn what_runs_programs_is_told_from_the_rest() {
        check("[user]\n\tname = A\n[branch \"main\"]\n\tremote = origin\n", &[]);
        check("[remote \"up\"]\n\turl = https://x\n\tfetch = +refs/*\n", &[]);
        check("[core]\n\thooksPath = evil\n", &["core.hookspath"]);
        check("[Core]\n\tHooksPath=evil # x\n", &["core.hookspath"]);
        check("[core] sshCommand = evil\n[user]\n\tname = B\n", &["core.sshcommand"]);
        check("[core]\n\tfsmonitor = \"a \\\n b\"\n", &["core.fsmonitor"]);
        check("[filter \"x]y\"]\n\tclean = evil\n", &["filter.x]y.clean"]);
        check("[alias]\n\tco = checkout\n\tst = \"!evil\"\n", &["alias.st"]);
        check("[include]\n\tpath = ../evil\n", &["include.path"]);
        check("[includeIf \"gitdir:/\"]\n\tpath = e\n", &["includeif.gitdir:/.path"]);
        check("[credential \"https://x\"]\n\thelper = !evil\n", &["credential.https://x.helper"]);
        check("[remote \"x\"]\n\turl = ext::sh -c evil\n", &["remote.x.url"]);
        check("[core]\n\tpager = less\n", &[]);
        check("[core]\n\tpager = evil\n", &["core.pager"]);
    }
}
