//! Attempts to leave something in a repository for the user's own git to run, each made from inside the
//! sandbox: in the foreground, in the background, and on a system without mounts. Afterwards git is used
//! outside, as a user would.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_exec::{
    LocalEnvironment, LocalHost, LocalOptions, OutputBounds, Sandbox, SandboxActivation, SandboxPaths,
    TerminalMode, Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, ShellCommand};
use tempfile::TempDir;

use super::support::LONG;

struct Site {
    _top: TempDir,
    root: PathBuf,
    local: LocalEnvironment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mounts {
    WherePossible,
    Never,
}

impl Site {
    /// Creates a project with a repository, a submodule, a worktree and a nested repository.
    fn new(mounts: Mounts) -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["user/proj", "tmp", "hermes"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("evil"), format!("#!/bin/sh\ntouch {}\ncat\n", root.join("pwned").display()))
            .unwrap();
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("hermes"),
            temporary: vec![root.join("tmp")],
            writable: Vec::new(),
            programs: Vec::new(),
        };
        let sandbox = Sandbox::new(SandboxActivation::Auto, places);
        let sandbox = if mounts == Mounts::Never { sandbox.without_mounts() } else { sandbox };
        let home = root.join("user").to_str().unwrap().to_owned();
        let base = [
            ("HOME", home.as_str()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_NAME", "A"),
            ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ];
        let options = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox,
        };
        let host = LocalHost::new(options, Arc::new(SystemClock::new()));
        let local = host.open(root.join("user/proj"));
        let site = Self { _top: top, root, local };
        site.outside(
            "chmod +x ../../evil; git init -q -b main . && echo x > a && git add a && git commit -qm one
             git init -q -b main nested && cd nested && echo y > b && git add b && git commit -qm two && cd ..
             git init -q -b main ../lib && cd ../lib && echo z > c && git add c && git commit -qm three && cd ../proj
             git -c protocol.file.allow=always submodule --quiet add ../lib sub && git commit -qm sub
             git worktree add -q tree -b w",
        );
        if !Sandbox::is_possible() {
            hermes_testkit::peer_is_missing("Landlock");
            return None;
        }
        Some(site)
    }

    /// Runs a script as the user would, and returns its output.
    fn outside(&self, script: &str) -> String {
        #[expect(clippy::disallowed_methods, reason = "this is the user's own shell")]
        let done = std::process::Command::new("bash")
            .args(["-c", script])
            .current_dir(self.root.join("user/proj"))
            .env_clear()
            .envs([
                ("HOME", self.root.join("user").as_os_str()),
                ("PATH", "/usr/local/bin:/usr/bin:/bin".as_ref()),
                ("GIT_AUTHOR_NAME", "U".as_ref()),
                ("GIT_AUTHOR_EMAIL", "u@example.org".as_ref()),
                ("GIT_COMMITTER_NAME", "U".as_ref()),
                ("GIT_COMMITTER_EMAIL", "u@example.org".as_ref()),
                ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
                ("GIT_TERMINAL_PROMPT", "0".as_ref()),
            ])
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
    }

    /// Runs everyday git commands in every folder in which something could have been left. Payloads pass
    /// their input on.
    fn use_git(&self) -> String {
        self.outside(
            "for d in . nested sub tree new deep/er bare look .git .git/modules/sub .git/worktrees/tree; do
             ( cd $d 2>/dev/null || exit
               git status; git diff; git log -p -1; git st; git co; git rebase --continue
               git add -A . ; git commit -qm x --allow-empty; git checkout -q -b y; git fetch -q --all
               git -c protocol.file.allow=always submodule update ) </dev/null
             done 2>&1",
        )
    }

    fn is_owned(&self) -> bool {
        self.root.join("pwned").exists()
    }

    async fn foreground(&self, shell: &str) -> String {
        let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
        let (finished, report) = self.local.run_sandboxed(command, &Cancel::new()).await.unwrap();
        format!("{finished:?} {report:?}")
    }

    async fn background(&self, shell: &str) -> String {
        let process = self.local.start(shell, None, TerminalMode::None, &Cancel::new()).await.unwrap();
        process.ended().await;
        process.output(1000)
    }
}

/// The attempts; `E` is the payload.
const PLANTS: &[(&str, &str)] = &[
    ("a hook", "printf '#!/bin/sh\\nE\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"),
    (
        "a hook that was there as a sample",
        "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit; echo E >> .git/hooks/pre-commit",
    ),
    (
        "hooks as a link",
        "mkdir h; printf '#!/bin/sh\\nE\\n' > h/post-checkout; chmod +x h/*; rm -rf .git/hooks; ln -s ../h .git/hooks",
    ),
    (
        "a folder of hooks",
        "mkdir h; printf '#!/bin/sh\\nE\\n' > h/post-commit; chmod +x h/*; git config core.hooksPath h",
    ),
    ("a monitor", "git config core.fsmonitor E"),
    ("a monitor by hand", "printf '[core]\\n\\tfsmonitor = E\\n' >> .git/config"),
    ("two heads on a line", "printf '[user] [core]\\n\\tfsmonitor = E\\n' >> .git/config"),
    ("a head and a setting on a line", "printf '[core]fsmonitor = E\\n' >> .git/config"),
    (
        "behind a comment that looks continued",
        "printf '# x \\\\\\n[core]\\n\\tfsmonitor = E\\n' >> .git/config",
    ),
    (
        "behind a byte order mark",
        "{ printf '\\357\\273\\277[core]\\n\\tfsmonitor = E\\n'; cat .git/config; } > c; cat c > .git/config",
    ),
    ("with carriage returns", "printf '[core]\\r\\n\\tfsmonitor = E\\r\\n' >> .git/config"),
    (
        "in a long file",
        "{ cat .git/config; yes '# filler filler filler' | head -c 2000000; printf '\\n[core]\\n\\tfsmonitor = E\\n'; } > c; cat c > .git/config",
    ),
    (
        "in an enormous file",
        "{ cat .git/config; yes '# filler filler filler' | head -c 9000000; printf '\\n[core]\\n\\tfsmonitor = E\\n'; } > c; cat c > .git/config",
    ),
    (
        "split over lines",
        "printf '[core]\\n\\tfsmoni\\\\\\ntor = E\\n\\tfsmonitor = \\\\\\nE\\n' >> .git/config",
    ),
    (
        "in a value that goes on",
        "printf '[user]\\n\\tname = a\\\\\\n\\tb\\n[core]\\n\\tfsmonitor = E\\n' >> .git/config",
    ),
    ("by inclusion", "printf '[core]\\n\\tfsmonitor = E\\n' > inc; git config include.path ../inc"),
    (
        "by conditional inclusion",
        "printf '[core]\\n\\tfsmonitor = E\\n' > inc; git config 'includeIf.gitdir:**.path' ../inc",
    ),
    (
        "settings as a link",
        "cp .git/config c; git config -f c core.fsmonitor E; rm .git/config; ln -s ../c .git/config",
    ),
    (
        "settings of the worktree",
        "git config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = E\\n' > .git/config.worktree",
    ),
    ("a pager", "git config core.pager E; git config pager.log E; git config pager.status E"),
    ("an editor", "git config core.editor E; git config sequence.editor E"),
    ("an alias", "git config alias.st '!E'; git config alias.co '!E'"),
    ("an alias in quotes", "printf '[alias]\\n\\tst = \"!E\"\\n\\tco = !\"E\"\\n' >> .git/config"),
    (
        "a filter",
        "git config filter.x.clean E; git config filter.x.smudge E; echo '* filter=x' > .gitattributes; touch a",
    ),
    (
        "a filter in the repository's attributes",
        "git config filter.x.clean E; echo '* filter=x' > .git/info/attributes; echo new > a",
    ),
    ("a text conversion", "git config diff.x.textconv E; echo '* diff=x' > .gitattributes; echo new > a"),
    ("another diff", "git config diff.external E; echo new > a"),
    ("a diff driver", "git config diff.x.command E; echo '* diff=x' > .gitattributes; echo new > a"),
    ("a merge driver", "git config merge.x.driver E; echo '* merge=x' > .gitattributes"),
    (
        "an ssh command",
        "git config core.sshCommand E; git remote add r ssh://host.invalid/x; git config remote.r.url ssh://host.invalid/x",
    ),
    ("a transport", "git remote add r 'ext::E'; git config protocol.ext.allow always"),
    (
        "a transport by another name",
        "git config url.ext::E.insteadOf zz:; git config protocol.ext.allow always; git remote add r zz:x",
    ),
    ("an upload program", "git remote add r /nowhere; git config remote.r.uploadpack E"),
    ("a credential helper", "git config credential.helper '!E'; git remote add r https://127.0.0.1:1/x"),
    ("a signing program", "git config gpg.program E; git config commit.gpgsign true"),
    ("an update of submodules", "git config submodule.sub.update '!E'"),
    ("the nested repository", "git -C nested config core.fsmonitor E"),
    (
        "a hook of the nested repository",
        "printf '#!/bin/sh\\nE\\n' > nested/.git/hooks/post-commit; chmod +x nested/.git/hooks/post-commit",
    ),
    ("the submodule", "git config -f .git/modules/sub/config core.fsmonitor E"),
    (
        "a hook of the submodule",
        "printf '#!/bin/sh\\nE\\n' > .git/modules/sub/hooks/post-checkout; chmod +x .git/modules/sub/hooks/post-checkout",
    ),
    (
        "the submodule led elsewhere",
        "git init -q other; git -C other config core.fsmonitor E; echo 'gitdir: ../other/.git' > sub/.git",
    ),
    (
        "the worktree led elsewhere",
        "git init -q other; git -C other config core.fsmonitor E; echo 'gitdir: ../other/.git' > tree/.git",
    ),
    (
        "the worktree's common folder",
        "git init -q other; git -C other config core.fsmonitor E; echo ../../../other/.git > .git/worktrees/tree/commondir",
    ),
    (
        "a common folder of the repository",
        "git init -q other; git -C other config core.fsmonitor E; echo ../other/.git > .git/commondir",
    ),
    (
        "a new repository",
        "git init -q new; git -C new config core.fsmonitor E; printf '#!/bin/sh\\nE\\n' > new/.git/hooks/post-commit; chmod +x new/.git/hooks/post-commit",
    ),
    (
        "a new repository deep down",
        "mkdir -p deep; git init -q deep/er; git -C deep/er config core.fsmonitor E",
    ),
    (
        "a new bare repository",
        "git init -q --bare bare; git -C bare config core.fsmonitor E; git -C bare config core.bare false; git -C bare config core.worktree .",
    ),
    (
        "a folder that looks like one",
        "mkdir -p look/objects look/refs/heads; echo 'ref: refs/heads/main' > look/HEAD; printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = E\\n' > look/config",
    ),
    (
        "one that borrows its data",
        "mkdir -p look/refs; echo 'ref: refs/heads/main' > look/HEAD; echo ../.git > look/commondir; printf '[core]\\n\\tfsmonitor = E\\n' > look/config.worktree",
    ),
    (
        "a repository moved in",
        "git init -q $TMPDIR/n 2>/dev/null || git init -q ../../tmp/n; git -C ../../tmp/n config core.fsmonitor E; mv ../../tmp/n new",
    ),
    (
        "a link to a repository",
        "git init -q other; git -C other config core.fsmonitor E; mkdir new; ln -s ../other/.git new/.git",
    ),
    (
        "the repository put in another's place",
        "git init -q other; git -C other config core.fsmonitor E; mv .git .old; mv other/.git .git",
    ),
    (
        "the repository as a file",
        "git init -q other; git -C other config core.fsmonitor E; rm -rf .git; mv .git .old; echo 'gitdir: other/.git' > .git",
    ),
    (
        "steps of a rebase",
        "mkdir -p .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/main > head-name; git rev-parse HEAD > onto; git rev-parse HEAD > orig-head; echo 'exec E' > git-rebase-todo; touch interactive done; echo 1 > msgnum; echo 1 > end",
    ),
];

/// The number of attempts that are made before git is used once.
const AT_ONCE: usize = 9;

async fn check(mounts: Mounts, background: bool) {
    assert!(PLANTS.len() >= 40);
    for plants in PLANTS.chunks(AT_ONCE) {
        let Some(site) = Site::new(mounts) else { return };
        let evil = site.root.join("evil");
        let shells =
            plants.iter().map(|(_, plant)| format!("( {} )", plant.replace('E', evil.to_str().unwrap())));
        let shells: Vec<String> =
            shells.map(|shell| shell.replace(&format!("H{}AD", evil.display()), "HEAD")).collect();
        let mut said = String::new();
        if background {
            said = site.background(&shells.join("\n")).await;
        } else {
            for shell in &shells {
                said.push_str(&site.foreground(shell).await);
            }
        }
        let used = site.use_git();
        assert!(!site.is_owned(), "{mounts:?}, background {background}: {plants:#?}\n{said}\n{used}");
    }
}

#[tokio::test]
async fn nothing_planted_is_run_by_git() {
    check(Mounts::WherePossible, false).await;
}

#[tokio::test]
async fn nothing_planted_without_mounts_is_run_by_git() {
    check(Mounts::Never, false).await;
}

#[tokio::test]
async fn nothing_planted_in_the_background_is_run_by_git() {
    check(Mounts::WherePossible, true).await;
}

#[tokio::test]
async fn nothing_planted_in_the_background_without_mounts_is_run_by_git() {
    check(Mounts::Never, true).await;
}

/// Checks the case in which a command ends, and a process that it left running plants a file later.
#[tokio::test]
async fn what_a_command_leaves_running_plants_nothing() {
    let Some(site) = Site::new(Mounts::Never) else { return };
    let evil = site.root.join("evil");
    let shell = format!(
        "setsid -f bash -c 'sleep 0.5; git config core.fsmonitor {}; echo done > ../../tmp/planted; sleep 5; git config core.fsmonitor {}; touch ../../tmp/again' >/dev/null 2>&1 </dev/null",
        evil.display(),
        evil.display()
    );
    site.foreground(&shell).await;
    let config = site.root.join("user/proj/.git/config");
    super::support::until(|| site.root.join("tmp/planted").exists()).await;
    super::support::until(|| !fs::read_to_string(&config).unwrap().contains("fsmonitor")).await;
    super::support::until(|| site.root.join("tmp/again").exists()).await;
    super::support::until(|| !fs::read_to_string(&config).unwrap().contains("fsmonitor")).await;
    // A setting that the user changes while no sandboxed process runs stays.
    site.outside("git config core.pager less");
    site.foreground("true").await;
    assert!(fs::read_to_string(&config).unwrap().contains("less"));
}

/// Checks that changes that git makes in ordinary work stay.
#[tokio::test]
async fn ordinary_work_leaves_what_it_should() {
    for mounts in [Mounts::WherePossible, Mounts::Never] {
        let Some(site) = Site::new(mounts) else { return };
        for (shell, wanted) in [
            ("git config user.name Ann && git config --get user.name", "Ann"),
            ("git remote add up https://example.org/x.git && git remote -v", "up"),
            (
                "git checkout -q -b topic && echo t > t && git add t && git commit -qm t && git log --oneline | head -1",
                "t",
            ),
            ("git checkout -q main && git merge -q --no-edit topic && git branch --merged", "topic"),
            (
                "git checkout -q -b r HEAD~1 && echo r > r && git add r && git commit -qm r && git rebase -q main && git log --oneline",
                "r",
            ),
            ("git clone -q . clone && git -C clone remote -v", "origin"),
            (
                "git -C clone checkout -q -b z origin/main && git -C clone config branch.z.merge",
                "refs/heads/main",
            ),
            ("git worktree add -q ../proj/tree2 -b w2 && git -C tree2 status -sb", "w2"),
            (
                "git -c protocol.file.allow=always submodule --quiet update --init && git submodule status",
                "sub",
            ),
            (
                "git -c protocol.file.allow=always submodule --quiet add ../lib sub2 && git commit -qm sub2 && git submodule status",
                "sub2",
            ),
            (
                "git init -q --bare b.git && git push -q ./b.git main && git -C b.git log -1 --oneline main",
                "",
            ),
            ("git stash -q; git tag v1 && git gc -q && git fsck 2>&1; git status -s | head -1", ""),
        ] {
            let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
            let (finished, report) = site.local.run_sandboxed(command, &Cancel::new()).await.unwrap();
            assert_eq!(finished.exit_code, 0, "{mounts:?} {shell}: {}", finished.output);
            assert!(finished.output.contains(wanted), "{mounts:?} {shell}: {}", finished.output);
            assert!(report.restored.is_empty(), "{mounts:?} {shell}: {report:?}");
        }
        let config = fs::read_to_string(site.root.join("user/proj/.git/config")).unwrap();
        assert!(config.contains("Ann") && config.contains("example.org"), "{config}");
        assert!(Path::new(&site.root.join("user/proj/clone/.git/config")).exists());
    }
}
