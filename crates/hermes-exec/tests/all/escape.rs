//! Attempts to escape from the sandbox, each made from inside. On a kernel without Landlock there is nothing
//! to try.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_exec::{
    LocalEnvironment, LocalHost, LocalOptions, NetworkReach, OutputBounds, Sandbox, SandboxActivation,
    SandboxPaths, SandboxReport, Variables,
};
use hermes_task::SystemClock;
use hermes_testkit::{UserNamespaces, repeat_tests_as_nobody, repeat_tests_as_nobody_in};
use hermes_types::{Cancel, CommandOutput, ShellCommand};
use tempfile::TempDir;

use super::support::LONG;

struct SandboxFixture {
    _top: TempDir,
    root: PathBuf,
    host: Arc<LocalHost>,
    local: LocalEnvironment,
}

impl SandboxFixture {
    fn new() -> Option<Self> {
        Self::reaching(NetworkReach::Everywhere, &[])
    }

    /// Creates a project with a repository in a home with secrets. The `extra` folders below the top are
    /// writable too.
    fn reaching(reach: NetworkReach, extra: &[&str]) -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in [
            "user/.ssh",
            "user/proj/.git/hooks",
            "user/proj/src",
            "user/other/.git/hooks",
            "tmp",
            "hermes",
            "extra",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (file, text) in [
            ("user/.ssh/id_ed25519", "private\n"),
            ("user/.bashrc", "rc\n"),
            ("user/other/o.txt", "other\n"),
            ("user/proj/.git/hooks/pre-push", "#!/bin/sh\ntrue\n"),
            ("user/proj/.git/config", "[core]\n\tbare = false\n\trepositoryformatversion = 0\n"),
            ("user/proj/.git/HEAD", "ref: refs/heads/main\n"),
            ("hermes/config.yaml", "config\n"),
            ("hermes/.env", "KEY=1\n"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        fs::create_dir_all(root.join("user/proj/.git/objects")).unwrap();
        fs::create_dir_all(root.join("user/proj/.git/refs")).unwrap();
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("hermes"),
            temporary: Vec::new(),
            writable: extra.iter().map(|name| root.join(name)).collect(),
            programs: vec![root.join("user/tools")],
        };
        let home = root.join("user").to_str().unwrap().to_owned();
        let base =
            [("HOME", home.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin"), ("GIT_CONFIG_NOSYSTEM", "1")];
        let options = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: Sandbox::new(SandboxActivation::Auto, places).with_network_reach(reach),
        };
        let host = LocalHost::new(options, Arc::new(SystemClock::new()));
        let local = host.open(root.join("user/proj"));
        if !Sandbox::is_possible() {
            hermes_testkit::peer_is_missing("Landlock");
            return None;
        }
        Some(Self { _top: top, root, host, local })
    }

    async fn run(&self, shell: &str) -> (CommandOutput, SandboxReport) {
        let command =
            ShellCommand { shell, directory: Some(&self.root.join("user/proj")), stdin: None, timeout: LONG };
        self.local.run_sandboxed(command, &Cancel::new()).await.unwrap()
    }

    /// Returns the files that must be unchanged, whatever a command did.
    fn untouched(&self) -> Vec<(String, String)> {
        let files = [
            "user/.ssh/id_ed25519",
            "user/.bashrc",
            "user/other/o.txt",
            "hermes/config.yaml",
            "hermes/.env",
            "user/proj/.git/hooks/pre-push",
        ];
        let read =
            |name: &str| fs::read_to_string(self.root.join(name)).unwrap_or_else(|error| error.to_string());
        let mut seen: Vec<_> = files.iter().map(|name| ((*name).to_owned(), read(name))).collect();
        for folder in ["user/proj/.git/hooks", "user/other/.git/hooks"] {
            let mut names: Vec<String> = fs::read_dir(self.root.join(folder))
                .map(|entries| {
                    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
                })
                .unwrap_or_default();
            names.sort();
            seen.push((folder.to_owned(), names.join(",")));
        }
        seen
    }
}

/// Runs commands inside the sandbox, each of which must fail or have no effect.
#[tokio::test]
async fn every_way_out_is_closed_and_told() {
    let Some(cell) = SandboxFixture::new() else { return };
    let before = cell.untouched();
    let ways = [
        ("write outside", "echo x > ~/new"),
        ("append to a start-up file", "echo x >> ~/.bashrc"),
        ("read a private key", "cat ~/.ssh/id_ed25519"),
        ("remove the configuration", "rm -f ../../hermes/config.yaml"),
        ("rename the configuration", "mv ../../hermes/config.yaml ../../hermes/old"),
        ("write by /proc/self/root", "echo x >> /proc/self/root$HOME/.bashrc"),
        ("write by /proc/self/cwd", "cd ~ && echo x >> /proc/self/cwd/.bashrc"),
        ("write by a link", "ln -sf ~/.bashrc link && echo x >> link"),
        ("read by a link to the folder", "ln -sfn ~/.ssh keys && cat keys/id_ed25519"),
        ("write by a hard link", "ln ~/other/o.txt hard && echo x >> hard"),
        ("read by a hard link", "ln ~/.ssh/id_ed25519 hard2 && cat hard2"),
        ("rename something in", "mv ~/other/o.txt ."),
        ("look into the parent's memory", "head -c 1 /proc/$PPID/mem"),
        ("read the parent's variables", "cat /proc/$PPID/environ"),
        ("follow the parent's descriptors", "readlink -v /proc/$PPID/fd/0"),
        ("write by the parent's root", "echo x >> /proc/$PPID/root$HOME/.bashrc"),
        ("mount over a folder", "mount --bind /tmp ~/.ssh"),
        ("take a mount away", "umount /proc"),
        ("make a namespace", "unshare -rm sh -c 'echo x >> ~/.bashrc'"),
        ("enter a namespace", "nsenter -t 1 -m true"),
    ];
    for (what, command) in ways {
        let (finished, report) = cell.run(command).await;
        assert_ne!(finished.exit_code, 0, "{what}: {}", finished.output);
        assert!(!finished.output.contains("private"), "{what}");
        assert!(report.refused.is_some(), "{what} is not told: {}", finished.output);
        assert_eq!(cell.untouched(), before, "{what}");
    }
}

#[tokio::test]
async fn other_processes_cannot_be_looked_into() {
    let Some(cell) = SandboxFixture::new() else { return };
    let python = |call: &str| {
        format!(
            "python3 -c 'import ctypes, os\nl = ctypes.CDLL(None, use_errno=True)\nr = {call}\nprint(r, os.strerror(ctypes.get_errno()))\nraise SystemExit(r < 0)'"
        )
    };
    for call in [
        "l.ptrace(16, os.getppid(), 0, 0)",
        "l.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0)",
        "l.mount(b\"/tmp\", b\"/tmp\", 0, 4096, 0)",
        "l.unshare(0x10000000)",
        "l.setns(0, 0)",
        "l.syscall(321, 0, 0, 0)",
        "l.syscall(250, 0, 0, 0)",
    ] {
        let (finished, _) = cell.run(&python(call)).await;
        assert!(finished.output.contains("Operation not permitted"), "{call}: {}", finished.output);
    }
    let (finished, _) = cell.run("mknod disk b 8 0").await;
    assert!(finished.output.contains("Operation not permitted"), "{}", finished.output);
}

#[tokio::test]
async fn a_hook_cannot_be_planted() {
    let Some(cell) = SandboxFixture::new() else { return };
    let before = cell.untouched();
    let plant = "printf '#!/bin/sh\\nevil\\n'";
    for (what, command) in [
        ("directly", format!("{plant} > .git/hooks/pre-commit")),
        ("by changing one", format!("{plant} > .git/hooks/pre-push")),
        ("by removing one", "rm -f .git/hooks/pre-push".to_owned()),
        (
            "by moving the folder",
            format!("mv .git/hooks .git/h2; mkdir .git/hooks && {plant} > .git/hooks/pre-commit"),
        ),
        (
            "by a link in its place",
            format!("mkdir evil; {plant} > evil/pre-commit; rm -rf .git/hooks && ln -s ../evil .git/hooks"),
        ),
        ("by a link inside", format!("{plant} > evil.sh; ln -s ../../evil.sh .git/hooks/pre-commit")),
        (
            "by moving the repository",
            format!("mv .git .g2; cp -r .g2 .git && {plant} > .git/hooks/pre-commit"),
        ),
    ] {
        let (finished, report) = cell.run(&command).await;
        let told = report.refused.is_some() || !report.restored.is_empty();
        assert!(told, "{what} is not told: {} {report:?}", finished.output);
        assert_eq!(cell.untouched(), before, "{what}: {}", finished.output);
    }
}

#[tokio::test]
async fn git_cannot_be_led_to_programs_by_its_settings() {
    let Some(cell) = SandboxFixture::new() else { return };
    let config = cell.root.join("user/proj/.git/config");
    for (what, command, key) in [
        ("a folder of hooks", "git config core.hooksPath evil", "core.hookspath"),
        ("a monitor", "git config core.fsmonitor ./evil", "core.fsmonitor"),
        ("by hand", "printf '[core]\\n\\tsshCommand = evil\\n' >> .git/config", "core.sshcommand"),
        ("another file", "git config include.path ../evil", "include.path"),
        (
            "a link",
            "cp .git/config c2; printf '[core]\\n\\tpager = evil\\n' >> c2; rm .git/config; ln -s ../c2 .git/config",
            ".git/config",
        ),
    ] {
        let (finished, report) = cell.run(&format!("{command}; git config user.name Somebody")).await;
        assert!(
            report.restored.iter().any(|told| told.contains(key)),
            "{what}: {} {report:?}",
            finished.output
        );
        let text = fs::read_to_string(&config).unwrap();
        assert!(!text.contains("evil") && text.contains("bare = false"), "{what}: {text}");
        assert!(!fs::symlink_metadata(&config).unwrap().is_symlink(), "{what}");
    }
    // Changes that run nothing stay.
    let (finished, report) =
        cell.run("git config user.name A && git remote add up /srv/x && git config core.bare false").await;
    assert_eq!((finished.exit_code, report), (0, SandboxReport::default()), "{}", finished.output);
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("name = A") && text.contains("url = /srv/x"), "{text}");
}

#[tokio::test]
async fn a_repository_that_is_led_elsewhere_is_put_back() {
    let Some(cell) = SandboxFixture::new() else { return };
    let other = "rm -rf .git 2>/dev/null; mv .git .g2 2>/dev/null; ln -s ~/other/.git .git";
    let (_, report) = cell.run(other).await;
    let git = cell.root.join("user/proj/.git");
    let leads_elsewhere = fs::symlink_metadata(&git).is_ok_and(|found| found.is_symlink());
    assert!(!leads_elsewhere, "{report:?}");
    let names = fs::read_dir(cell.root.join("user/other/.git/hooks")).unwrap().count();
    assert_eq!(names, 0, "what it led to is left alone");
}

#[tokio::test]
async fn hooks_the_user_lets_commands_write_can_be_written() {
    let Some(cell) = SandboxFixture::reaching(NetworkReach::Everywhere, &["user/proj/.git/hooks"]) else {
        return;
    };
    let (finished, report) = cell.run("echo x > .git/hooks/pre-commit").await;
    assert_eq!((finished.exit_code, report), (0, SandboxReport::default()), "{}", finished.output);
}

#[tokio::test]
async fn without_a_network_nothing_but_this_machines_files_can_be_reached() {
    let Some(cell) = SandboxFixture::reaching(NetworkReach::ThisMachine, &[]) else { return };
    for family in ["AF_INET", "AF_INET6"] {
        for kind in ["SOCK_STREAM", "SOCK_DGRAM"] {
            let (finished, report) = cell
                .run(&format!("python3 -c 'import socket; socket.socket(socket.{family}, socket.{kind})'"))
                .await;
            assert_ne!(finished.exit_code, 0, "{family} {kind}");
            let refused = report.refused.expect("it is told");
            assert_eq!(refused.setting, "`terminal.sandbox_network: on`");
        }
    }
    let (finished, _) =
        cell.run("python3 -c 'import socket; socket.socketpair(); socket.socket(socket.AF_UNIX)'").await;
    assert_eq!(finished.exit_code, 0, "{}", finished.output);
}

#[tokio::test]
async fn a_refusal_names_the_path_the_rule_and_the_setting() {
    let Some(cell) = SandboxFixture::new() else { return };
    for (command, path, rule, setting) in [
        (
            "touch /usr/local/x",
            "/usr/local/x",
            "outside the folders",
            "`terminal.sandbox_writable: [/usr/local]`",
        ),
        ("cat ~/.ssh/id_ed25519", "user/.ssh/id_ed25519", "secrets", "`terminal.sandbox: off`"),
        ("cd src && echo x > ../../other/new", "user/other/new", "outside the folders", "other]`"),
        ("python3 -c 'open(\"/etc/x\", \"w\")'", "/etc/x", "outside the folders", "[/etc]`"),
    ] {
        let (finished, report) = cell.run(command).await;
        let refused = report.refused.unwrap_or_else(|| panic!("{command}: {}", finished.output));
        assert!(
            refused.path.as_ref().unwrap().ends_with(path.trim_start_matches('/')),
            "{command}: {refused:?}"
        );
        assert!(refused.rule.contains(rule) && refused.setting.contains(setting), "{command}: {refused:?}");
    }
    for command in
        ["cat no-such-file", "echo 'Permission denied: nothing'; exit 3", "chmod 000 src; ls /proc/1/nothing"]
    {
        let (_, report) = cell.run(command).await;
        assert_eq!(report.refused, None, "{command}");
    }
}

/// Checks that descriptors of Hermes are not open in a command.
#[tokio::test]
async fn nothing_of_ours_is_open_in_a_command() {
    let Some(cell) = SandboxFixture::new() else { return };
    let _open = fs::File::open(cell.root.join("hermes/.env")).unwrap();
    let (finished, _) = cell.run("ls -l /proc/self/fd | grep -v pipe: | grep -c hermes/").await;
    assert_eq!(finished.output.trim(), "0");
}

/// Checks that a conversation in the home folder itself can create files there, and still cannot read or
/// change anything sensitive.
#[tokio::test]
async fn the_home_folder_is_usable_and_its_secrets_are_not() {
    let Some(cell) = SandboxFixture::new() else { return };
    let home = cell.root.join("user");
    fs::create_dir_all(home.join(".aws")).unwrap();
    fs::write(home.join(".aws/credentials"), "aws-secret\n").unwrap();
    for secret in [".config/gh/hosts.yml", ".local/share/keyrings/login.keyring"] {
        fs::create_dir_all(home.join(secret).parent().unwrap()).unwrap();
        fs::write(home.join(secret), "aws-secret\n").unwrap();
    }
    let before = cell.untouched();
    let local = cell.host.open(home.clone());
    let run = async |shell: &str| {
        let command = ShellCommand { shell, directory: Some(&home), stdin: None, timeout: LONG };
        local.run_sandboxed(command, &Cancel::new()).await.unwrap()
    };
    let (finished, _) =
        run("echo hello > notes.txt && mkdir -p new/deep && echo x > new/deep/f && cat notes.txt").await;
    if local.sandbox_is_partial() {
        // Nothing new can be made beside protected files, and the report says so.
        assert!(finished.output.contains("Permission denied"), "{finished:?}");
    } else {
        assert_eq!((finished.exit_code, finished.output.trim()), (0, "hello"), "{finished:?}");
    }
    for shell in [
        "cat .ssh/id_ed25519",
        "cat .aws/credentials",
        "cp -r .aws copy && cat copy/credentials",
        "echo evil >> .bashrc",
        "mv .bashrc rc && echo evil > .bashrc",
        "rm -rf .ssh",
        "mv .ssh keys && cat keys/id_ed25519",
        "ln -f .ssh/id_ed25519 key && cat key",
        "echo evil > .ssh/authorized_keys",
        "umount .aws; umount -l .ssh/id_ed25519; cat .aws/credentials .ssh/id_ed25519",
        // A folder that contains a protected path cannot be moved away with it.
        "mv .config c2 && cat c2/gh/hosts.yml",
        "mv .local l2; cat l2/share/keyrings/login.keyring",
        "chmod 777 .ssh .ssh/id_ed25519 .bashrc",
    ] {
        let (finished, _) = run(shell).await;
        assert!(
            !finished.output.contains("private") && !finished.output.contains("aws-secret"),
            "{shell}: {finished:?}"
        );
        assert_eq!(cell.untouched(), before, "{shell}");
        assert_eq!(fs::read_to_string(home.join(".aws/credentials")).unwrap(), "aws-secret\n", "{shell}");
    }
    let planted = [
        ".zshrc",
        ".profile",
        ".config/fish/config.fish",
        ".config/autostart/x.desktop",
        ".local/lib/python3.11/site-packages/e.pth",
        ".local/bin/ls",
        ".vimrc",
        "bin/git",
    ];
    let plant: Vec<String> =
        planted.iter().map(|path| format!("mkdir -p $(dirname {path}); echo evil > {path}")).collect();
    let (_, report) = run(&plant.join("; ")).await;
    for path in planted {
        assert!(!home.join(path).exists(), "{path}: {report:?}");
    }
    // The file is renamed, not deleted: the user may have created it meanwhile.
    if local.sandbox_is_partial() {
        return;
    }
    let mut kept = fs::read_dir(&home).unwrap().flatten().map(|entry| entry.path());
    let vimrc = kept.find(|path| path.to_string_lossy().contains(".vimrc.taken-aside-")).unwrap();
    assert_eq!(fs::read_to_string(vimrc).unwrap(), "evil\n");
    assert!(report.restored.iter().any(|path| path.contains("/.zshrc")), "{report:?}");
}

/// Files that other programs run by themselves stay unchanged, whether the conversation's folder is the home
/// itself or a project.
const PLANTED: &[&str] = &[
    ".zshrc",
    ".zshenv",
    ".profile",
    ".bash_aliases",
    ".new-shell-rc",
    ".config/fish/config.fish",
    ".config/autostart/x.desktop",
    ".config/systemd/user/x.service",
    ".config/environment.d/x.conf",
    ".config/some-new-tool/plugin.py",
    ".config/git/config",
    ".local/lib/python3.11/site-packages/e.pth",
    ".local/bin/ls",
    ".local/share/applications/x.desktop",
    ".local/share/uv/tools/x/bin/x",
    ".local/share/pnpm/node",
    ".local/state/x/run.sh",
    ".cache/gitstatus/gitstatusd-linux-x86_64",
    ".cache/p10k-dump-root.zsh",
    ".cache/pre-commit/repo/hook",
    ".cache/ms-playwright/chrome",
    ".gradle/init.d/x.gradle",
    ".gradle/wrapper/dists/x/bin/gradle",
    ".npm/_npx/a/node_modules/.bin/x",
    ".npm/_cacache/x",
    ".yarn/bin/x",
    ".pub-cache/bin/x",
    ".gem/ruby/3.0.0/bin/x",
    ".bundle/plugin/x",
    ".nuget/plugins/x",
    ".dotnet/tools/x",
    ".vimrc",
    ".vim/plugin/x.vim",
    ".gitconfig",
    ".ssh/rc",
    ".docker/cli-plugins/docker-x",
    ".rustup/toolchains/x/bin/cargo",
    ".cargo/bin/x",
    ".cargo/config.toml",
    ".claude/settings.json",
    "bin/git",
    "go/bin/x",
    "tools/x",
];

#[tokio::test]
async fn what_other_programs_run_cannot_be_planted_in_a_home() {
    for (anchor, exists) in [("user", true), ("user", false), ("user/proj", true), ("user/proj", false)] {
        let Some(cell) = SandboxFixture::new() else { return };
        let home = cell.root.join("user");
        if exists {
            for path in PLANTED {
                fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
            }
        }
        let local = cell.host.open(cell.root.join(anchor));
        let plant: Vec<String> = PLANTED
            .iter()
            .map(|path| format!("mkdir -p $(dirname ~/{path}); echo evil > ~/{path}"))
            .collect();
        let command =
            ShellCommand { shell: &plant.join("; "), directory: Some(&home), stdin: None, timeout: LONG };
        local.run_sandboxed(command, &Cancel::new()).await.unwrap();
        for path in PLANTED {
            assert!(!home.join(path).exists(), "{path} in {anchor}, folders there: {exists}");
        }
    }
}

/// Checks that the Hermes home is closed except for what commands need, also where it lies in a writable
/// folder.
#[tokio::test]
async fn nothing_of_the_hermes_home_is_read_but_what_is_shown() {
    let Some(cell) = SandboxFixture::new() else { return };
    let hidden = [
        ".env",
        "auth.json",
        "config.yaml",
        "state.db",
        "sessions/a.json",
        "logs/agent.log",
        "profiles/w/.env",
        "pairing/x.json",
        "cron/jobs.json",
        "mcp-tokens/t.json",
        "a-new-feature/token",
        "whatsapp/creds.json",
        "memories/USER.md",
        "memories/history.jsonl",
        "memories/users/telegram/7/USER.md",
    ];
    let shown =
        ["skills/x/SKILL.md", "cache/a.txt", "results/r.txt", "image_cache/i.txt", "memories/MEMORY.md"];
    for home in ["hermes", "user/.hermes"] {
        for name in hidden.iter().chain(&shown) {
            let path = cell.root.join(home).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("content of {name}\n")).unwrap();
        }
    }
    for anchor in ["user/proj", "user"] {
        let local = cell.host.open(cell.root.join(anchor));
        for home in ["hermes", "user/.hermes"] {
            for (name, readable) in
                hidden.iter().map(|name| (name, false)).chain(shown.iter().map(|name| (name, true)))
            {
                let shell = format!("cat {}", cell.root.join(home).join(name).display());
                let command = ShellCommand { shell: &shell, directory: None, stdin: None, timeout: LONG };
                let (finished, _) = local.run_sandboxed(command, &Cancel::new()).await.unwrap();
                assert_eq!(
                    finished.output.contains("content of"),
                    readable,
                    "{home}/{name} from {anchor}: {finished:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn processes_outside_get_no_signals() {
    let Some(cell) = SandboxFixture::new() else { return };
    let (finished, _) = cell.run("kill -0 $PPID").await;
    assert_ne!(finished.exit_code, 0, "{finished:?}");
    let (finished, _) = cell.run("sleep 100 & kill $! && wait $!; [ $? -gt 128 ]").await;
    assert_eq!(finished.exit_code, 0, "its own it can end: {finished:?}");
}

/// Checks that the folder that a model chooses for a command does not change what the command may write.
#[tokio::test]
async fn going_somewhere_else_opens_nothing_there_and_closes_nothing_here() {
    let Some(cell) = SandboxFixture::new() else { return };
    let elsewhere = cell.root.join("user/other");
    let at = |shell: &'static str, directory: PathBuf| {
        let cell = &cell;
        async move {
            let command = ShellCommand { shell, directory: Some(&directory), stdin: None, timeout: LONG };
            cell.local.run_sandboxed(command, &Cancel::new()).await.unwrap()
        }
    };
    for (shell, directory) in [
        ("echo x > probe", elsewhere.clone()),
        ("echo x > probe", cell.root.join("user")),
        ("echo x > probe", PathBuf::from("/usr/local/bin")),
        ("echo x > probe", cell.root.join("hermes")),
    ] {
        let (finished, report) = at(shell, directory.clone()).await;
        assert_ne!(finished.exit_code, 0, "{}", directory.display());
        assert!(report.refused.is_some(), "{}: {finished:?}", directory.display());
        assert!(!directory.join("probe").exists());
    }
    let (moved, _) = cell.run("cd ../other && touch probe || cd /tmp").await;
    assert_eq!(moved.exit_code, 0);
    let back = ShellCommand { shell: "cd ~/proj && touch here", directory: None, stdin: None, timeout: LONG };
    let (finished, _) = cell.local.run_sandboxed(back, &Cancel::new()).await.unwrap();
    assert_eq!(finished.exit_code, 0, "{finished:?}");
}

#[tokio::test]
async fn owners_modes_and_times_of_files_outside_stay() {
    let Some(cell) = SandboxFixture::new() else { return };
    let outside = cell.root.join("user/other/o.txt");
    let before = fs::metadata(&outside).unwrap();
    // Landlock has no rule for modes and times: only mounts keep them, and the guide says so.
    if !cell.local.sandbox_is_partial() {
        for shell in ["chmod 777 ~/other/o.txt", "touch -d 2001-01-01 ~/other/o.txt", "chmod 700 /usr"] {
            let (finished, report) = cell.run(shell).await;
            assert_ne!(finished.exit_code, 0, "{shell}");
            assert!(report.refused.is_some(), "{shell}: {finished:?}");
        }
    }
    let after = fs::metadata(&outside).unwrap();
    assert_eq!(
        (before.permissions(), before.modified().unwrap()),
        (after.permissions(), after.modified().unwrap())
    );
    // A program that runs as its owner cannot be created inside either.
    for shell in [
        "cp /bin/true t && chmod u+s t",
        "cp /bin/true t && chmod 4755 t",
        "python3 -c 'import os; os.close(os.open(\"s\", os.O_CREAT|os.O_WRONLY, 0o4755))'",
    ] {
        let (finished, _) = cell.run(shell).await;
        assert_ne!(finished.exit_code, 0, "{shell}");
    }
    let (finished, _) =
        cell.run("touch x && chmod 755 x && chmod -R go-w src && mkdir -p d && chmod 2775 d").await;
    assert_eq!(finished.exit_code, 0, "{finished:?}");
}

#[tokio::test]
async fn no_other_way_to_the_kernel_is_open() {
    let Some(cell) = SandboxFixture::new() else { return };
    let io_uring = "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); \
                    b = ctypes.create_string_buffer(120); exit(l.syscall(425, 8, b) < 0)'";
    let (finished, _) = cell.run(io_uring).await;
    assert_eq!(finished.exit_code, 1, "io_uring: {finished:?}");
}

/// Checks that state that a sandboxed command left for later ones does not reach a command that a person lets
/// run outside the sandbox.
#[tokio::test]
async fn a_command_let_out_takes_nothing_planted_with_it() {
    let Some(cell) = SandboxFixture::new() else { return };
    let plant = "mkdir -p .t; printf '#!/bin/sh\\necho planted\\n' > .t/uname; chmod +x .t/uname; export PATH=$PWD/.t:$PATH; \
                 export LD_PRELOAD=$PWD/e.so; date() { echo planted; }; alias id='echo planted'; \
                 for f in $HOME/../tmp/hermes-snap-* $HOME/../hermes/sandboxes/shells/*; do echo 'echo planted' >> $f; done";
    let (finished, _) = cell.run(plant).await;
    assert!(
        finished.output.contains("Permission denied") || finished.output.contains("Read-only"),
        "{finished:?}"
    );
    let (inside, _) = cell.run("uname").await;
    assert!(inside.output.contains("planted"), "inside it is theirs: {inside:?}");
    let folder = cell.root.join("user/proj");
    let out = ShellCommand {
        shell: "uname; date; id; echo ${LD_PRELOAD:-none}",
        directory: Some(&folder),
        stdin: None,
        timeout: LONG,
    };
    let outside = cell.local.run_unsandboxed(out, &Cancel::new()).await.unwrap();
    assert!(!outside.output.contains("planted") && outside.output.contains("none"), "{outside:?}");
}

#[tokio::test]
async fn a_refusal_is_told_though_the_command_went_on() {
    let Some(cell) = SandboxFixture::new() else { return };
    for shell in ["cat ~/.ssh/id_ed25519 || true", "echo x > ~/new; echo done"] {
        let (finished, report) = cell.run(shell).await;
        assert_eq!(finished.exit_code, 0, "{shell}");
        assert!(report.refused.is_some(), "{shell}: {finished:?}");
    }
    let (_, report) = cell.run("echo 'ls: cannot open directory: Permission denied'").await;
    assert!(report.refused.is_none(), "{report:?}");
}

#[tokio::test]
async fn submodules_are_guarded_like_the_repository_around_them() {
    let Some(cell) = SandboxFixture::new() else { return };
    let modules = cell.root.join("user/proj/.git/modules/sm");
    fs::create_dir_all(modules.join("hooks")).unwrap();
    fs::create_dir_all(modules.join("objects")).unwrap();
    fs::create_dir_all(modules.join("refs")).unwrap();
    fs::write(modules.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(modules.join("config"), "[core]\n\tbare = false\n").unwrap();
    let shell = "git config -f .git/modules/sm/config core.fsmonitor /evil; echo x > .git/modules/sm/hooks/post-checkout; \
                 git config core.worktree /evil; git config url.ext::evil.insteadOf x; git config protocol.ext.allow always; \
                 git config sendemail.toCmd evil; git config core.attributesFile /evil; git config user.name Ann";
    let (finished, report) = cell.run(shell).await;
    assert!(!modules.join("hooks/post-checkout").exists(), "{finished:?}");
    assert!(!fs::read_to_string(modules.join("config")).unwrap().contains("evil"), "{report:?}");
    let config = fs::read_to_string(cell.root.join("user/proj/.git/config")).unwrap();
    for key in ["insteadOf", "worktree", "allow", "toCmd", "attributesFile"] {
        assert!(!config.contains(key), "{key}: {config}");
    }
    assert!(config.contains("Ann"), "{config}");
}

/// The tests of the sandbox in this program.
const SANDBOX_TESTS: [&str; 4] = ["escape", "sandbox::", "sockets", "planted_files"];

/// Repeats tests as an ordinary user, whose sandbox differs: it has namespaces of its own instead of root's
/// capabilities.
#[tokio::test]
async fn the_same_holds_for_an_ordinary_user() {
    if sandbox_is_possible() {
        repeat_tests_as_nobody(UserNamespaces::Allowed, &SANDBOX_TESTS);
    }
}

#[tokio::test]
async fn the_same_holds_where_user_namespaces_are_not_allowed() {
    if sandbox_is_possible() {
        repeat_tests_as_nobody(UserNamespaces::Denied, &SANDBOX_TESTS);
    }
}

/// Checks that commands work where the folder around the home cannot be listed, as with a `/home` that shows nobody
/// its users.
#[tokio::test]
async fn a_home_in_a_folder_that_cannot_be_listed_can_be_worked_in() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let inside = folder.path().join("users");
    fs::create_dir(&inside).unwrap();
    if sandbox_is_possible() {
        let tests = ["escape::a_refusal_", "escape::every_way_out", "sandbox::a_project_can_be_worked_on"];
        repeat_tests_as_nobody_in(&inside, UserNamespaces::Allowed, &tests);
    }
}

fn sandbox_is_possible() -> bool {
    if !Sandbox::is_possible() {
        hermes_testkit::peer_is_missing("Landlock");
    }
    Sandbox::is_possible()
}
