//! Tests of the references in messages.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::Home;
use hermes_exec::{ProgramRunner, Variables};
use hermes_task::SystemClock;
use hermes_tools::{FileGuard, ReferenceResolver, ReferenceResult};
use hermes_types::Cancel;
use tempfile::TempDir;

struct ReferenceFixture {
    top: TempDir,
    references: ReferenceResolver,
}

const WINDOW: u64 = 4000;

impl ReferenceFixture {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let user = top.path().join("user");
        for (name, content) in [
            ("work/notes.md", "one\ntwo\nthree\nfour\n"),
            ("work/code.rs", "fn main() {}\n// ```\n"),
            ("work/deep/er/a.txt", "a\nb"),
            ("work/.hidden", "h\n"),
            ("work/.env", "KEY=hush\n"),
            (".ssh/id", "hush\n"),
            (".bashrc", "hush\n"),
        ] {
            let path = user.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::write(user.join("work/data.bin"), b"a\0b").unwrap();
        std::os::unix::fs::symlink(user.join(".ssh/id"), user.join("work/link")).unwrap();
        let references = Self::in_folder(&user, &user.join("work"), &user.join(".hermes"));
        Self { top, references }
    }

    fn in_folder(user: &Path, folder: &Path, home: &Path) -> ReferenceResolver {
        let guard = FileGuard::new(folder.to_owned(), user.to_owned(), &Home::new(home.to_owned()));
        let base = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", user.to_str().unwrap())];
        let variables = Variables::for_commands(base, &[], &[]);
        ReferenceResolver::new(guard, ProgramRunner::new(variables, Arc::new(SystemClock::new())))
    }

    fn user(&self) -> PathBuf {
        self.top.path().join("user")
    }

    async fn attached(&self, text: &str) -> String {
        match self.references.attach(text, WINDOW, &Cancel::new()).await {
            ReferenceResult::Attached { text, .. } => text,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn git(&self, arguments: &[&str]) {
        #[expect(clippy::disallowed_methods, reason = "a repository for the test")]
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(arguments)
            .current_dir(self.user().join("work"))
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
    }
}

#[tokio::test]
async fn files_and_lines_of_them_stand_behind_the_message() {
    let fixture = ReferenceFixture::new();
    assert_eq!(
        fixture.attached("compare @file:notes.md:2-3 with @file:code.rs.").await,
        "compare with .\n\n--- Attached Context ---\n\n📄 @file:notes.md:2-3 (2 tokens)\n```md\ntwo\nthree\n```\n\n\
         📄 @file:code.rs (5 tokens)\n````rs\nfn main() {}\n// ```\n````"
    );
    assert_eq!(
        fixture.references.attach("no a@file:x", WINDOW, &Cancel::new()).await,
        ReferenceResult::NoReferences
    );
}

#[tokio::test]
async fn a_folder_is_listed_without_what_is_hidden() {
    let fixture = ReferenceFixture::new();
    let text = fixture.attached("@folder:.").await;
    assert_eq!(
        text,
        "--- Attached Context ---\n\n📁 @folder:.\n- code.rs (2 lines)\n- data.bin (3 bytes)\n- deep/\n  - er/\n    - a.txt (2 lines)\n\
         - notes.md (4 lines)"
    );
    for number in 0..250 {
        fs::write(fixture.user().join(format!("work/deep/{number}")), "").unwrap();
    }
    let text = fixture.attached("@folder:deep").await;
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with("- ")).count(), 201);
    assert!(text.ends_with("\n- ..."));
}

#[tokio::test]
async fn what_cannot_be_attached_is_said() {
    let fixture = ReferenceFixture::new();
    let text = fixture
        .attached(
            "@file:none.md @file:data.bin @file:notes.md:9 @file:../.bashrc @file:.env @file:link @folder:none @folder:notes.md \
             @file:deep @file:~/.ssh/id @diff @url:http://127.0.0.1/",
        )
        .await;
    let said: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(said[0], "- @file:none.md: file not found");
    assert_eq!(said[1], "- @file:data.bin: binary files are not supported");
    assert_eq!(said[2], "- @file:notes.md:9: it has 4 lines");
    assert_eq!(said[3], "- @file:../.bashrc: path is outside the allowed workspace");
    assert!(said[4].starts_with("- @file:.env: Access denied"), "{}", said[4]);
    assert_eq!(said[5], "- @file:link: path is outside the allowed workspace");
    assert_eq!(said[6], "- @folder:none: folder not found");
    assert_eq!(said[7], "- @folder:notes.md: it is no folder");
    assert_eq!(said[8], "- @file:deep: it is a folder; @folder: lists it");
    assert_eq!(said[9], "- @file:~/.ssh/id: path is outside the allowed workspace");
    assert!(said[10].starts_with("- @diff: "), "{}", said[10]);
    assert!(said[11].starts_with("- @url:http://127.0.0.1/: web pages"), "{}", said[11]);
    assert!(!text.contains("hush"), "{text}");
}

#[tokio::test]
async fn in_the_home_folder_keys_and_start_up_files_are_kept() {
    let fixture = ReferenceFixture::new();
    let user = fixture.user();
    let references = ReferenceFixture::in_folder(&user, &user, &user.join(".hermes"));
    let text =
        match references.attach("@file:.bashrc @file:.ssh/id @folder:.ssh", WINDOW, &Cancel::new()).await {
            ReferenceResult::Attached { text, .. } => text,
            other => panic!("{other:?}"),
        };
    assert_eq!(text.matches("it holds credentials").count(), 3, "{text}");
}

#[tokio::test]
async fn what_fills_the_window_is_refused_and_half_of_that_warned_about() {
    let fixture = ReferenceFixture::new();
    fs::write(fixture.user().join("work/long.txt"), "word ".repeat(2000)).unwrap();
    let refused = fixture.references.attach("@file:long.txt", WINDOW, &Cancel::new()).await;
    assert!(matches!(&refused, ReferenceResult::TooLarge(words) if words.contains("half")), "{refused:?}");
    let warned = fixture.references.attach("@file:long.txt", 6000, &Cancel::new()).await;
    assert!(
        matches!(&warned, ReferenceResult::Attached { text, .. } if text.contains("a quarter")),
        "{warned:?}"
    );
    fs::write(fixture.user().join("work/huge.txt"), "x".repeat(80_000)).unwrap();
    assert!(fixture.attached("@file:huge.txt").await.contains("it is too large (80000 bytes)"));
}

#[tokio::test]
async fn changes_of_a_repository_are_shown() {
    let fixture = ReferenceFixture::new();
    fixture.git(&["init", "-q"]);
    fixture.git(&["add", "notes.md"]);
    fixture.git(&["commit", "-qm", "first"]);
    fs::write(fixture.user().join("work/notes.md"), "one\n2\nthree\nfour\n").unwrap();
    let text = fixture.attached("@diff").await;
    assert!(text.contains("🧾 git diff\n```diff\ndiff --git") && text.contains("\n+2\n"), "{text}");
    assert!(fixture.attached("@staged").await.contains("🧾 git diff --staged\n```diff\n(nothing)\n```"));
    fixture.git(&["add", "notes.md"]);
    assert!(fixture.attached("@staged").await.contains("\n+2\n"));
    let log = fixture.attached("@git:1").await;
    assert!(log.contains("🧾 git log -1 -p\n") && log.contains("    first\n"), "{log}");
    // Programs that the repository configures for git must not run.
    let trap = fixture.user().join("trap");
    fixture.git(&["config", "diff.external", &format!("touch {}", trap.display())]);
    fixture.git(&["config", "core.fsmonitor", &format!("touch {}", trap.display())]);
    fixture.attached("@staged").await;
    assert!(!trap.exists());
}

#[tokio::test]
async fn what_a_repository_holds_of_secrets_is_not_attached_and_nothing_of_it_is_run() {
    let fixture = ReferenceFixture::new();
    let work = fixture.user().join("work");
    fixture.git(&["init", "-q"]);
    for name in [".env", "deep/.env.production", "server.pem", "id_ed25519", "notes.md"] {
        fs::write(work.join(name), format!("first hush-{name}\n")).unwrap();
    }
    fs::write(work.join("notes.md"), "first\n").unwrap();
    fixture.git(&["add", "-Af", "."]);
    fixture.git(&["commit", "-qm", "first"]);
    for name in [".env", "deep/.env.production", "server.pem", "id_ed25519"] {
        fs::write(work.join(name), format!("second hush-{name}\n")).unwrap();
    }
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQhushhushhushhush\n-----END RSA PRIVATE KEY-----\n";
    fs::write(work.join("notes.md"), format!("second\n{key}")).unwrap();
    let trap = fixture.user().join("trap");
    let trapped = format!("sh -c 'touch {}; cat'", trap.display());
    for (name, value) in [
        ("filter.x.clean", trapped.as_str()),
        ("filter.x.process", &trapped),
        ("filter.x.required", "true"),
        ("diff.y.textconv", &trapped),
        ("diff.y.command", &trapped),
        ("core.pager", &trapped),
        ("core.hooksPath", &work.join("hooks").display().to_string()),
    ] {
        fixture.git(&["config", name, value]);
    }
    fs::write(work.join(".gitattributes"), "*.md filter=x diff=y\n").unwrap();
    for reference in ["@diff", "@git:1"] {
        let text = fixture.attached(reference).await;
        assert!(!text.contains("hush") && text.contains("first"), "{reference}: {text}");
    }
    assert!(fixture.attached("@diff").await.contains("second"));
    assert!(!trap.exists());
}
