//! Tests of what the file tools may read and write inside the sandbox, as tables: secrets and files that other
//! programs run are refused with a reason, everyday files are not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hermes_config::Home;
use hermes_exec::{Sandbox, SandboxActivation, SandboxPaths};
use hermes_testkit::{UserNamespaces, repeat_tests_as_nobody};
use hermes_tools::{
    Approvals, CommandApprovalMode, FileGuard, FileOptions, FileTools, TaskFolders, ToolRegistry, Yolo,
};
use hermes_types::{
    ApprovalDecision, BoxFuture, Cancel, Frontend, ToolEvent, ToolOutcome, TurnEvent, UserAnswer,
    UserQuestion,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{UnattendedUser, run};

const SECRET: &str = "S3CRET-VALUE";

struct Project {
    _top: TempDir,
    root: PathBuf,
    registry: ToolRegistry,
    approvals: Arc<Approvals>,
    folders: TaskFolders,
}

/// A user who gives the same answer to every question and records the questions.
struct Person(UserAnswer, Mutex<Vec<String>>);

impl Person {
    fn saying(answer: UserAnswer) -> Self {
        Self(answer, Mutex::default())
    }
}

impl Frontend for Person {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, question: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        let UserQuestion::Approve { danger, .. } = question else { panic!("{question:?}") };
        self.1.lock().unwrap().push(danger.key);
        Box::pin(std::future::ready(self.0.clone()))
    }
}

impl Project {
    fn new() -> Self {
        Self::anchored("user/proj")
    }

    fn anchored(anchor: &str) -> Self {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in
            ["user/proj/.git/hooks", "user/proj/src", "user/other", "tmp", "hermes/skills/x", "elsewhere"]
        {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let home = Home::new(root.join("hermes"));
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("hermes"),
            temporary: vec![root.join("tmp")],
            writable: Vec::new(),
            programs: vec![root.join("user/tools")],
        };
        let sandbox = Sandbox::new(SandboxActivation::Auto, places);
        let anchor = root.join(anchor);
        fs::create_dir_all(&anchor).unwrap();
        let guard = FileGuard::new(anchor.clone(), root.join("user"), &home);
        let approvals = Arc::new(Approvals::new(CommandApprovalMode::Manual, Vec::new(), |_| {}));
        let files = FileTools::new(guard, FileOptions::default())
            .with_folders(TaskFolders::new(anchor))
            .with_sandbox(sandbox)
            .with_approvals(Arc::clone(&approvals));
        let registry = ToolRegistry::file_tools(&files);
        let folders = files.folders().clone();
        Self { _top: top, root, registry, approvals, folders }
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn call(&self, tool: &str, arguments: Value, person: &dyn Frontend) -> ToolOutcome {
        run(self.registry.find(tool).unwrap().as_ref(), "t", arguments, person)
    }

    fn at(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }
}

/// Files in the user's home.
const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".ssh/id_rsa",
    ".ssh/work_key",
    ".ssh/authorized_keys",
    ".aws/credentials",
    ".aws/sso/cache/a.json",
    ".azure/accessTokens.json",
    ".config/gcloud/credentials.db.txt",
    ".config/gh/hosts.yml",
    ".config/glab-cli/config.yml",
    ".config/rclone/rclone.conf",
    ".config/op/config",
    ".config/sops/age/keys.txt",
    ".config/doctl/config.yaml",
    ".config/stripe/config.toml",
    ".config/some-new-tool/credentials.json",
    ".config/some-new-tool/api_token",
    ".local/share/another/session-token.json",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".git-credentials",
    ".config/git/credentials",
    ".gnupg/private-keys-v1.d/a.key",
    ".password-store/mail.gpg.txt",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".pulumi/credentials.json",
    ".databrickscfg",
    ".s3cfg",
    ".boto",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".modal.toml",
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".node_repl_history",
    ".viminfo",
    ".mozilla/firefox/p/logins.json",
    ".config/google-chrome/Default/Login Data.txt",
    ".config/BraveSoftware/Brave-Browser/Default/Cookies.txt",
    ".local/share/keyrings/login.txt",
    ".thunderbird/p/prefs.js",
    ".msmtprc",
    ".muttrc",
    ".config/Signal/config.json",
    ".config/Code/User/globalStorage/state.txt",
    ".Xauthority",
    ".smbcredentials",
    ".ethereum/keystore/a",
    ".config/solana/id.json",
];

/// Files in the Hermes home.
const OURS: &[&str] = &[
    ".env",
    "auth.json",
    "config.yaml",
    "gateway.json",
    "state.db.txt",
    "sessions/a.jsonl",
    "logs/agent.log",
    "profiles/work/.env",
    "profiles/work/config.yaml",
    "pairing/telegram.json",
    "cron/jobs.json",
    "cron/output/a.md",
    "mcp-tokens/x.json",
    "webhook_subscriptions.json",
    "checkpoints/a/HEAD",
    "credentials/x.json",
    "hooks/x/handler.py",
    "a-new-feature/token",
    "whatsapp/session/creds.json",
];

#[test]
fn secrets_are_not_read_by_any_path() {
    let project = Project::new();
    let all: Vec<String> = SECRETS
        .iter()
        .map(|name| format!("user/{name}"))
        .chain(OURS.iter().map(|name| format!("hermes/{name}")))
        .collect();
    assert!(all.len() >= 60);
    for name in &all {
        project.put(name, &format!("{SECRET}\n"));
    }
    for (at, name) in all.iter().enumerate() {
        let link = project.root.join(format!("user/proj/link{at}"));
        std::os::unix::fs::symlink(project.root.join(name), &link).unwrap();
        let folder = project.root.join(format!("user/proj/folder{at}"));
        std::os::unix::fs::symlink(project.root.join(name).parent().unwrap(), &folder).unwrap();
        let through = folder.join(Path::new(name).file_name().unwrap());
        let roundabout = format!("/proc/self/root{}", project.at(name));
        for path in [
            project.at(name),
            link.to_str().unwrap().to_owned(),
            through.to_str().unwrap().to_owned(),
            roundabout,
        ] {
            let outcome = project.call("read_file", json!({"path": path}), &UnattendedUser);
            assert!(!outcome.content.contains(SECRET), "{path}: {}", outcome.content);
            assert!(
                outcome.content.contains("Access denied") || outcome.content.contains("device"),
                "{path}: {}",
                outcome.content
            );
        }
        for path in
            [project.at(name), Path::new(&project.at(name)).parent().unwrap().to_str().unwrap().to_owned()]
        {
            let outcome =
                project.call("search_files", json!({"pattern": "S3CRET", "path": path}), &UnattendedUser);
            assert!(!outcome.content.contains(SECRET), "{path}: {}", outcome.content);
        }
        // A patch must not read it either, because its result would show the content.
        let patch = json!({"path": project.at(name), "old_string": "nothing", "new_string": "x"});
        let outcome = project.call("patch", patch, &UnattendedUser);
        assert!(!outcome.content.contains(SECRET), "{name}: {}", outcome.content);
    }
    for query in [
        json!({"pattern": "S3CRET", "path": project.at("user")}),
        json!({"pattern": "S3CRET", "path": project.at("")}),
        json!({"pattern": "id_*", "target": "files", "path": project.at("user/.ssh")}),
    ] {
        let outcome = project.call("search_files", query.clone(), &UnattendedUser);
        assert!(
            !outcome.content.contains(SECRET) && !outcome.content.contains("id_ed25519"),
            "{query}: {}",
            outcome.content
        );
    }
}

/// Checks that files without secrets can be read anywhere.
#[test]
fn the_rest_can_be_read() {
    let project = Project::new();
    for name in [
        "user/proj/src/main.rs",
        "user/other/notes.txt",
        "user/.bashrc",
        "user/.gitconfig",
        "user/.ssh/config",
        "user/.ssh/known_hosts",
        "user/.ssh/id_ed25519.pub",
        "user/.config/app/settings.toml",
        "user/.cargo/config.toml",
        "hermes/skills/x/SKILL.md",
        "hermes/memories/MEMORY.md",
        "hermes/results/a.txt",
        "hermes/cache/images/a.txt",
        "tmp/t.txt",
        "elsewhere/e.txt",
    ] {
        project.put(name, "plain text\n");
        let outcome = project.call("read_file", json!({"path": project.at(name)}), &UnattendedUser);
        assert!(outcome.content.contains("plain text"), "{name}: {}", outcome.content);
    }
    let outcome = project.call("read_file", json!({"path": "/etc/passwd"}), &UnattendedUser);
    assert!(outcome.content.contains("root"), "{}", outcome.content);
}

/// Secrets, and files that shells, desktops, editors, tools, git or Hermes run later.
const RUN_LATER: &[&str] = &[
    "user/.bashrc",
    "user/.bash_profile",
    "user/.bash_logout",
    "user/.profile",
    "user/.zshrc",
    "user/.zshenv",
    "user/.zlogin",
    "user/.kshrc",
    "user/.tcshrc",
    "user/.inputrc",
    "user/.pam_environment",
    "user/.xprofile",
    "user/.xsession",
    "user/.vimrc",
    "user/.vim/plugin/a.vim",
    "user/.config/nvim/init.lua",
    "user/.emacs",
    "user/.emacs.d/init.el",
    "user/.tmux.conf",
    "user/.screenrc",
    "user/.gdbinit",
    "user/.pythonrc.py",
    "user/.ipython/profile_default/startup/a.py",
    "user/.irbrc",
    "user/.Rprofile",
    "user/.psqlrc",
    "user/.sqliterc",
    "user/.gitconfig",
    "user/.config/git/config",
    "user/.curlrc",
    "user/.mailcap",
    "user/.cargo/config.toml",
    "user/.cargo/bin/ls",
    "user/.rustup/toolchains/x/bin/cargo",
    "user/.npmrc",
    "user/.gradle/init.d/a.gradle",
    "user/.gradle/init.gradle",
    "user/.m2/extensions.xml",
    "user/.config/fish/config.fish",
    "user/.config/nushell/config.nu",
    "user/.config/autostart/a.desktop",
    "user/.config/systemd/user/a.service",
    "user/.config/environment.d/a.conf",
    "user/.config/plasma-workspace/env/a.sh",
    "user/.config/i3/config",
    "user/.config/hypr/hyprland.conf",
    "user/.config/kitty/kitty.conf",
    "user/.config/direnv/direnvrc",
    "user/.config/Code/User/settings.json",
    "user/.local/bin/ls",
    "user/.local/lib/python3.11/site-packages/a.pth",
    "user/.local/share/applications/a.desktop",
    "user/.local/share/systemd/user/a.service",
    "user/.local/share/pnpm/node",
    "user/.local/share/uv/tools/x/bin/x",
    "user/.cache/gitstatus/gitstatusd",
    "user/.cache/p10k-dump-root.zsh",
    "user/.cache/pre-commit/repo/hook",
    "user/.npm/_npx/a/node_modules/.bin/x",
    "user/.pub-cache/bin/x",
    "user/.cargo/registry/src/index/serde/build.rs",
    "user/.m2/repository/x.jar.txt",
    "user/.yarn/bin/x",
    "user/.nvm/nvm.sh",
    "user/.pyenv/shims/python",
    "user/.oh-my-zsh/custom/a.zsh",
    "user/.docker/cli-plugins/docker-x",
    "user/.ssh/authorized_keys",
    "user/.ssh/config",
    "user/.ssh/rc",
    "user/bin/git",
    "user/go/bin/x",
    "user/tools/x",
    "user/.claude/settings.json",
    "user/.config/some-new-tool/plugins/a.py",
    "hermes/config.yaml",
    "hermes/.env",
    "hermes/hooks/x/handler.py",
    "hermes/scripts/x.sh",
    "hermes/cron/jobs.json",
    "hermes/bin/tirith",
    "hermes/skills/x/SKILL.md",
    "hermes/SOUL.md",
    "hermes/sandboxes/shells/x.sh",
    "user/proj/.git/hooks/pre-commit",
    "user/proj/.git/config",
    "user/proj/.git/info/attributes",
    "user/proj/.git/modules/a/config",
    "user/proj/.git/worktrees/w/commondir",
    "user/proj/sub/.git",
    "user/proj/sub/.git/config",
    "user/proj/bare/config",
    "user/proj/bare/hooks/post-checkout",
    "user/proj/half/HEAD",
    "user/other/anything.txt",
    "elsewhere/x",
    "/etc/cron.d/x",
    "/etc/profile.d/x.sh",
    "/usr/local/bin/x",
    "/opt/x/bin/x",
];

#[test]
fn what_is_run_later_is_not_written_without_a_person() {
    let project = Project::new();
    for folder in ["bare/objects", "bare/refs", "half/objects", "half/refs"] {
        fs::create_dir_all(project.root.join("user/proj").join(folder)).unwrap();
    }
    project.put("user/proj/bare/HEAD", "ref: refs/heads/main\n");
    assert!(RUN_LATER.len() >= 60);
    for (at, name) in RUN_LATER.iter().enumerate() {
        let path = project.root.join(name);
        let before = fs::read(&path).ok();
        let patch = format!("*** Begin Patch\n*** Add File: {}\n+evil\n*** End Patch", path.display());
        let mut ways = vec![
            ("write_file", json!({"path": path, "content": "evil\n"})),
            ("patch", json!({"mode": "patch", "patch": patch})),
        ];
        // A link in the project leads to it as well, even if its target does not exist yet.
        let link = project.root.join(format!("user/proj/link{at}"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        ways.push(("write_file", json!({"path": link, "content": "evil\n"})));
        // Moving a file of the project there must fail too.
        project.put("user/proj/plain.txt", "evil\n");
        let moved = format!("*** Begin Patch\n*** Move File: plain.txt -> {}\n*** End Patch", path.display());
        ways.push(("patch", json!({"mode": "patch", "patch": moved})));
        for (tool, arguments) in ways {
            let outcome = project.call(tool, arguments.clone(), &UnattendedUser);
            assert!(
                outcome.content.contains("denied") || outcome.content.contains("validation failed"),
                "{name} by {tool}: {}",
                outcome.content
            );
            assert_eq!(fs::read(&path).ok(), before, "{name} by {tool}: {}", outcome.content);
        }
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_person_decides_about_a_file_outside_the_project() {
    let project = Project::new();
    let path = project.at("user/other/notes.txt");
    let write = |person: &Person| {
        project.call("write_file", json!({"path": path, "content": "new\n"}), person).content
    };
    for answer in
        [UserAnswer::Unavailable, UserAnswer::TimedOut, UserAnswer::Approval(ApprovalDecision::Deny)]
    {
        let person = Person::saying(answer);
        let said = write(&person);
        assert!(said.contains("Write denied") && !Path::new(&path).exists(), "{said}");
        assert_eq!(*person.1.lock().unwrap(), [format!("write outside the project: {path}")]);
    }
    let person = Person::saying(UserAnswer::Approval(ApprovalDecision::Session));
    assert!(write(&person).contains("bytes_written"), "{path}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
    // The approval covers this file and no other.
    assert!(write(&Person::saying(UserAnswer::Unavailable)).contains("\"bytes_written\": 4"));
    let other = project.at("user/other/b.txt");
    let said = project.call("write_file", json!({"path": other, "content": "x"}), &UnattendedUser).content;
    assert!(said.contains("Write denied"), "{said}");
    // If questions are skipped, nothing outside the project is written.
    project.approvals.set_yolo(Yolo::On);
    let person = Person::saying(UserAnswer::Approval(ApprovalDecision::Always));
    let said = project.call("write_file", json!({"path": other, "content": "x"}), &person).content;
    assert!(said.contains("Write denied") && person.1.lock().unwrap().is_empty(), "{said}");
    // Files that other programs run are refused without a question.
    project.approvals.set_yolo(Yolo::Off);
    let path = project.at("user/.bashrc");
    let said = project.call("write_file", json!({"path": path, "content": "x"}), &person).content;
    assert!(said.contains("Write denied") && person.1.lock().unwrap().is_empty(), "{said}");
}

/// Paths relative to the project, unless they name another folder.
const EVERYDAY: &[&str] = &[
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "Makefile",
    "Dockerfile",
    "docker-compose.yml",
    ".dockerignore",
    ".gitignore",
    ".gitattributes",
    ".gitmodules",
    ".editorconfig",
    ".env.example",
    ".env.sample",
    ".nvmrc",
    ".python-version",
    ".tool-versions",
    ".prettierrc",
    ".eslintrc.json",
    ".rustfmt.toml",
    ".clippy.toml",
    ".cargo/config.toml",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".idea/workspace.xml",
    ".github/workflows/ci.yml",
    ".github/dependabot.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    ".husky/pre-commit",
    ".pre-commit-config.yaml",
    ".devcontainer/devcontainer.json",
    ".git/info/exclude",
    ".git/COMMIT_EDITMSG",
    "Cargo.toml",
    "Cargo.lock",
    "package.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "tsconfig.json",
    "pyproject.toml",
    "requirements.txt",
    "setup.py",
    "go.mod",
    "go.sum",
    "pom.xml",
    "build.gradle",
    "CMakeLists.txt",
    "src/main.rs",
    "src/lib.rs",
    "src/config/mod.rs",
    "src/hooks/useThing.ts",
    "src/auth/token.rs",
    "src/secrets/mod.rs",
    "tests/all.rs",
    "docs/guide.md",
    "scripts/build.sh",
    "bin/run",
    "config/settings.yaml",
    "migrations/001.sql",
    "web/static/app.js",
    "web/index.html",
    "a folder/with spaces.txt",
    "übersicht.md",
    "HEAD",
    "refs",
    "deep/er/and/deeper/still.txt",
    "tmp:scratch.txt",
    "hermes:cache/note.txt",
    "hermes:results/r.txt",
    "hermes:plans/plan.md",
];

#[test]
fn a_days_work_needs_no_question() {
    let project = Project::new();
    assert!(EVERYDAY.len() >= 60);
    for name in EVERYDAY {
        let path = match name.split_once(':') {
            Some((top, rest)) => project.root.join(top).join(rest),
            None => project.root.join("user/proj").join(name),
        };
        let text = if path.extension().is_some_and(|ending| ending == "json") { "{}\n" } else { "a: b\n" };
        let person = Person::saying(UserAnswer::Approval(ApprovalDecision::Deny));
        let outcome = project.call("write_file", json!({"path": path, "content": text}), &person);
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "{name}: {}", outcome.content);
        let patch = json!({"path": path, "old_string": text.trim(), "new_string": text.trim().replace('b', "c").replace("{}", "[]")});
        let outcome = project.call("patch", patch, &person);
        assert_ne!(fs::read_to_string(&path).unwrap(), text, "{name}: {}", outcome.content);
        assert!(person.1.lock().unwrap().is_empty(), "{name}");
    }
}

/// Checks the home as working directory, which is common for a gateway.
#[test]
fn in_the_home_folder_plain_names_are_open_and_the_rest_is_not() {
    let project = Project::anchored("user");
    for (name, open) in [
        ("notes.txt", true),
        ("Documents/letter.md", true),
        ("proj/src/main.rs", true),
        ("new folder/a.txt", true),
        (".bashrc", false),
        (".new-tool-rc", false),
        (".config/app/settings.json", false),
        (".local/share/app/x", false),
        ("bin/git", false),
        ("tools/git", false),
        ("proj/.git/config", false),
    ] {
        let path = project.root.join("user").join(name);
        let text = "{}\n";
        let outcome = project.call("write_file", json!({"path": path, "content": text}), &UnattendedUser);
        assert_eq!(
            path.exists() && fs::read_to_string(&path).unwrap_or_default() == text,
            open,
            "{name}: {}",
            outcome.content
        );
    }
}

/// Checks that a conversation started in an editor's settings may change these and no others.
#[test]
fn a_conversation_about_settings_can_change_those() {
    let project = Project::anchored("user/.config/nvim");
    for (name, open) in [
        ("init.lua", true),
        ("lua/plugins.lua", true),
        ("../fish/config.fish", false),
        ("../../.bashrc", false),
    ] {
        let path = project.root.join("user/.config/nvim").join(name);
        let outcome = project.call("write_file", json!({"path": path, "content": "x\n"}), &UnattendedUser);
        assert_eq!(path.exists(), open, "{name}: {}", outcome.content);
    }
}

/// Checks that every write lands in the project or nowhere while another thread swaps a folder for a link.
#[test]
fn a_link_put_in_the_way_leads_nowhere() {
    let project = Project::new();
    let (target, folder) = (project.root.join("elsewhere"), project.root.join("user/proj/d"));
    let link = project.root.join("user/proj/l");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapping = {
        let (stop, folder, link) = (Arc::clone(&stop), folder.clone(), link.clone());
        std::thread::spawn(move || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
            }
        })
    };
    for number in 0..300 {
        let path = format!("d/f{number}");
        project.call("write_file", json!({"path": path, "content": "x"}), &UnattendedUser);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().unwrap();
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_key_is_masked_in_every_page_and_every_match() {
    let project = Project::new();
    let body: Vec<String> =
        (0..40).map(|line| format!("MIIEvQ{line:02}IBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ")).collect();
    let key =
        format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", body.join("\n"));
    project.put("user/proj/deploy.txt", &format!("first\n{key}last\n"));
    for arguments in [
        json!({"path": "deploy.txt"}),
        json!({"path": "deploy.txt", "offset": 10, "limit": 5}),
        json!({"path": "deploy.txt", "offset": 2, "limit": 3}),
        json!({"path": "deploy.txt", "offset": 40, "limit": 10}),
    ] {
        let outcome = project.call("read_file", arguments.clone(), &UnattendedUser);
        assert!(!outcome.content.contains("MIIEvQ"), "{arguments}: {}", outcome.content);
    }
    let outcome =
        project.call("read_file", json!({"path": "deploy.txt", "offset": 44, "limit": 1}), &UnattendedUser);
    assert!(outcome.content.contains("44|last"), "{}", outcome.content);
    for query in [json!({"pattern": "MIIEvQ"}), json!({"pattern": "first", "context": 5})] {
        let outcome = project.call("search_files", query.clone(), &UnattendedUser);
        assert!(!outcome.content.contains("IBADANBg"), "{query}: {}", outcome.content);
    }
    let patch = json!({"path": "deploy.txt", "old_string": "last", "new_string": "the end"});
    let outcome = project.call("patch", patch, &UnattendedUser);
    assert!(
        outcome.content.contains("the end") && !outcome.content.contains("IBADANBg"),
        "{}",
        outcome.content
    );
}

/// Checks that the parent of a subagent decides what it may write, not its current folder.
#[test]
fn a_subagent_writes_where_its_parent_may_and_nowhere_else() {
    let project = Project::new();
    project.folders.set_start(&"parent".into(), project.root.join("user/other"));
    for tool in project.registry.tools() {
        tool.on_event(&"child".into(), ToolEvent::Delegated(&"parent".into()));
    }
    project.folders.set_current(&"child".into(), project.root.join("user/proj"));
    let write = |path: &str| {
        let arguments = json!({"path": project.at(path), "content": "x\n"});
        run(project.registry.find("write_file").unwrap().as_ref(), "child", arguments, &UnattendedUser);
        project.root.join(path).exists()
    };
    assert!(write("user/other/made"));
    assert!(!write("user/proj/made"), "this is not the parent's project");
    assert_eq!(project.folders.anchor(&"child".into()), project.root.join("user/other"));
}

/// The tests of file tools, references and the sandbox's messages in this program.
const FILE_TESTS: [&str; 7] = [
    "sandboxed_files::",
    "::sandbox::",
    "reference::",
    "write_file::",
    "read_file::",
    "patch::",
    "search_files::",
];

#[test]
fn file_tools_work_the_same_for_an_ordinary_user() {
    repeat_tests_as_nobody(UserNamespaces::Allowed, &FILE_TESTS);
}

#[test]
fn file_tools_work_the_same_where_user_namespaces_are_not_allowed() {
    repeat_tests_as_nobody(UserNamespaces::Denied, &FILE_TESTS);
}
