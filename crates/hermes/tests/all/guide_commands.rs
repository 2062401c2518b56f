//! Every `hermes` command line that the README and the guide print: it runs, or it is at least understood.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hermes_testkit::TempHome;

use super::support::program;

/// The beginnings of command lines that cannot run in a test, with the reason. Their words and flags are still checked.
const NOT_RUN: &[(&str, &str)] = &[
    ("hermes backup -o /mnt", "writes outside the home"),
    ("hermes auth add openrouter --label", "asks for a key"),
    ("hermes auth logout", "needs a sign-in"),
    ("hermes auth remove", "needs a stored key"),
    ("hermes auth reset", "needs a stored key"),
    ("hermes batch", "needs a dataset or a database"),
    ("hermes chat -q \"hello\"", "asks a provider"),
    ("hermes -q \"hello\"", "asks a provider"),
    ("hermes claw migrate", "needs a home of OpenClaw"),
    ("hermes compress", "needs trajectories"),
    ("hermes config edit", "opens an editor"),
    ("hermes cron create", "names a chat that this home does not have"),
    ("hermes curator pin", "needs a skill"),
    ("hermes curator restore", "needs an archived skill"),
    ("hermes env ./", "needs an environment"),
    ("hermes env terminal-test", "needs an inference server"),
    ("hermes gateway drain", "needs a running gateway"),
    ("hermes gateway install", "changes the services of this machine"),
    ("hermes gateway restart", "changes the services of this machine"),
    ("hermes gateway run", "runs until it is stopped"),
    ("hermes gateway setup  ", "asks in a terminal"),
    ("hermes gateway start", "changes the services of this machine"),
    ("hermes gateway uninstall", "changes the services of this machine"),
    ("hermes hooks revoke", "needs an approved hook"),
    ("hermes import", "needs a backup"),
    ("hermes login", "signs in at a provider"),
    ("hermes logout", "needs a sign-in"),
    ("hermes logs -f", "runs until it is stopped"),
    ("hermes man --output ~", "writes into the user's folders"),
    ("hermes mcp add tracker", "starts or asks a server"),
    ("hermes mcp install", "starts or asks a server"),
    ("hermes model --list", "asks a provider"),
    ("hermes pairing approve", "needs a waiting person"),
    ("hermes pairing revoke", "needs an approved person"),
    ("hermes plugins install", "fetches a repository"),
    ("hermes plugins enable", "needs a plugin"),
    ("hermes plugins disable", "needs a plugin"),
    ("hermes plugins update", "needs a plugin"),
    ("hermes plugins remove", "needs a plugin"),
    ("hermes profile install", "fetches a repository"),
    ("hermes profile update", "needs an installed profile"),
    ("printf %s \"$AUTH_TOKEN\" | hermes gateway setup sms", "its placeholders are no credentials"),
    ("printf %s \"$BOT_TOKEN\" | hermes gateway setup slack", "its placeholders are no credentials"),
    ("printf %s \"$TOKEN\" | hermes gateway setup whatsapp_cloud", "its placeholders are no credentials"),
    ("hermes rl", "needs a trainer"),
    ("hermes sample-compress", "needs datasets"),
    ("hermes secrets", "needs the program of a secret manager"),
    ("hermes send telegram", "needs a chat"),
    ("hermes send slack", "needs a chat"),
    ("df -h | hermes send", "needs a chat"),
    ("hermes sessions browse", "asks in a terminal"),
    ("hermes sessions rename", "needs that session"),
    ("hermes sessions archive", "needs that session"),
    ("hermes setup --provider openrouter", "needs a file with a key"),
    ("hermes skills search", "asks registries"),
    ("hermes skills browse", "asks registries"),
    ("hermes skills inspect", "asks registries"),
    ("hermes skills install", "fetches a skill"),
    ("hermes skills check", "asks registries"),
    ("hermes skills uninstall", "needs an installed skill"),
    ("hermes skills history", "needs a skill"),
    ("hermes skills undo", "needs a skill"),
    ("hermes skills archive", "needs a skill"),
    ("hermes bundles create", "needs those skills"),
    ("hermes swe-run", "runs tasks"),
    ("hermes tools disable tracker", "needs an MCP server"),
    ("hermes uninstall", "removes the program"),
    ("hermes -p work setup", "asks in a terminal"),
    ("sudo hermes", "needs another user's rights"),
];

/// The variables in which the guide keeps secrets.
const SECRETS: &[&str] = &["APP_PASSWORD", "AUTH_TOKEN", "BOT_TOKEN", "PASSWORD", "SECRET", "TOKEN"];

/// The beginnings of command lines whose last words belong to another program, so that `--help` after them says nothing.
const NOT_CHECKED: &[&str] = &["hermes mcp add time"];

/// Lets the shell call the program under test; `$ONLY_CHECK` is empty, or `--help`, which is reached only when
/// everything before it was understood.
const SHELL: &str = r#"hermes() { command "$PROGRAM" "$@" $ONLY_CHECK; }; sudo() { "$@"; }; eval "$LINE""#;

/// Returns the command lines of the shell examples of a page, with continued lines joined.
fn command_lines(page: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut inside, mut continued) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            inside = !inside && line == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        let open = line.strip_suffix('\\');
        let text = open.unwrap_or(line);
        match lines.last_mut().filter(|_| continued) {
            Some(last) => last.push_str(text),
            None => lines.push(text.to_owned()),
        }
        continued = open.is_some();
    }
    // A guide that writes into a folder creates it first.
    let calls = |line: &String| {
        line.starts_with("mkdir ")
            || line.split(['|', '(', '&']).any(|part| {
                let part = part.trim_start();
                part == "hermes" || part.starts_with("hermes ") || part.starts_with("sudo hermes ")
            })
    };
    lines.retain(calls);
    lines
}

fn pages() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_dir(top.join("docs")).unwrap().flatten().map(|entry| entry.path());
    let mut pages: Vec<PathBuf> =
        guide.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.push(top.join("README.md"));
    pages.sort();
    pages
}

/// Runs the command lines of one page one after the other in one home, and returns those that failed.
fn failures_of(page: &Path, used: &mut BTreeSet<&'static str>) -> Vec<String> {
    let lines = command_lines(&fs::read_to_string(page).unwrap());
    let home = TempHome::builder().config_yaml("display: {skin: mono}\n").build().unwrap();
    let folder = home.join("user/work");
    fs::create_dir_all(&folder).unwrap();
    // The guide compares with what was committed.
    let repository = "git init -q && echo a >a && git add a && git -c user.name=a -c user.email=a@example.org \
                      commit -qm a && echo b >a";
    let made = Command::new("/bin/sh").args(["-c", repository]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    let mut failed = Vec::new();
    for name in ["token.txt", "key.txt"] {
        fs::write(folder.join(name), "sk-0123456789abcdef\n").unwrap();
    }
    for line in lines {
        if NOT_CHECKED.iter().any(|beginning| line.starts_with(beginning)) {
            continue;
        }
        let exempt = NOT_RUN.iter().find(|(beginning, _)| line.starts_with(beginning));
        used.extend(exempt.map(|(beginning, _)| *beginning));
        // Without a terminal a conversation has nothing to read, and pages end where they begin.
        let bare = line.split('#').next().is_some_and(|words| words.trim() == "hermes");
        let only_check = exempt.is_some() || bare;
        let output = Command::new("/bin/bash")
            .args(["-c", SHELL])
            .env_clear()
            .env("PROGRAM", program())
            .env("LINE", &line)
            .env("ONLY_CHECK", if only_check { "--help" } else { "" })
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HERMES_HOME", home.path())
            .env("HOME", home.join("user"))
            .envs(SECRETS.iter().map(|name| (name, "a-secret-0123456789")))
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if !output.status.success() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let name = page.file_name().unwrap().to_string_lossy();
            let said = text(&output.stdout) + &text(&output.stderr);
            failed.push(format!("{name}: {line}\n  {}: {}", output.status, said.trim_end()));
        }
    }
    failed
}

#[test]
fn every_command_line_of_the_guide_works() {
    let mut used = BTreeSet::new();
    let failed: Vec<String> = pages().iter().flat_map(|page| failures_of(page, &mut used)).collect();
    assert!(failed.is_empty(), "{} command lines failed:\n{}", failed.len(), failed.join("\n"));
    let unused: Vec<_> = NOT_RUN.iter().filter(|(beginning, _)| !used.contains(beginning)).collect();
    assert!(unused.is_empty(), "these exceptions name no command line: {unused:?}");
}

#[test]
fn a_command_line_that_is_not_understood_is_found() {
    let page = "text\n```sh\nhermes --no-such-flag\nhermes config get \\\n  terminal.timeout   # said\nls\n```\nhermes x\n";
    assert_eq!(
        command_lines(page),
        ["hermes --no-such-flag", "hermes config get   terminal.timeout   # said"]
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), page).unwrap();
    let failed = failures_of(file.path(), &mut BTreeSet::new());
    assert!(failed.len() == 1 && failed[0].contains("--no-such-flag"), "{failed:?}");
}

#[test]
fn the_reference_of_commands_is_current() {
    for name in ["commands", "slash-commands"] {
        let output = Command::new(program()).args(["man", "--reference", name]).env_clear().output().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let written = fs::read_to_string(folder.join(format!("{name}.md"))).unwrap_or_default();
        let made = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && made == written,
            "{name}.md is out of date: run `cargo xtask docs`"
        );
    }
}
