//! Tests of everyday builds inside the sandbox. Each needs its program; a missing one is reported and
//! skipped.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_exec::{
    LocalHost, LocalOptions, OutputBounds, Sandbox, SandboxActivation, SandboxPaths, SandboxReport, Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, ShellCommand};
use tempfile::TempDir;

use super::support::LONG;

struct BuildFixture {
    _top: TempDir,
    root: PathBuf,
    host: Arc<LocalHost>,
}

impl BuildFixture {
    fn new() -> Option<Self> {
        Self::with(|sandbox| sandbox)
    }

    fn with(change: impl FnOnce(Sandbox) -> Sandbox) -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["user/proj", "user/.cargo/registry", "user/.npm", "tmp", "hermes"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("hermes"),
            temporary: vec![root.join("tmp")],
            writable: Vec::new(),
            programs: Vec::new(),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the toolchain is where the test's own environment says"
        )]
        let kept: Vec<(String, String)> = std::env::vars()
            .filter(|(name, _)| matches!(name.as_str(), "PATH" | "RUSTUP_HOME" | "RUSTUP_TOOLCHAIN"))
            .collect();
        let home = root.join("user").to_str().unwrap().to_owned();
        let temp = root.join("tmp").to_str().unwrap().to_owned();
        let ours = [
            ("HOME", home.as_str()),
            ("TMPDIR", temp.as_str()),
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_NAME", "A"),
            ("GIT_COMMITTER_EMAIL", "a@example.org"),
            ("PYTHONDONTWRITEBYTECODE", ""),
        ];
        let all = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(ours);
        let options = LocalOptions {
            variables: Variables::for_commands(all, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: change(Sandbox::new(SandboxActivation::Auto, places)),
        };
        let host = LocalHost::new(options, Arc::new(SystemClock::new()));
        if !Sandbox::is_possible() {
            hermes_testkit::peer_is_missing("Landlock");
            return None;
        }
        Some(Self { _top: top, root, host })
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.root.join("user/proj").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Checks that the command works; a missing program is no failure.
    async fn works(&self, program: &str, shell: &str) {
        let local = self.host.open(self.root.join("user/proj"));
        let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
        let asked = ShellCommand { shell: &format!("command -v {program}"), ..command };
        if local.run_unsandboxed(asked, &Cancel::new()).await.unwrap().exit_code != 0 {
            hermes_testkit::peer_is_missing(&format!("{program} is not installed"));
            return;
        }
        let (finished, report) = local.run_sandboxed(command, &Cancel::new()).await.unwrap();
        assert_eq!(
            (finished.exit_code, report),
            (0, SandboxReport::default()),
            "{shell}: {}",
            finished.output
        );
    }
}

#[tokio::test]
async fn git_can_be_used() {
    let Some(shop) = BuildFixture::new() else { return };
    for shell in [
        "git init -q . && echo x > a && git add a && git commit -qm first",
        "echo y >> a && git commit -qam second && git log --oneline | wc -l",
        "git config user.name Me && git remote add origin /srv/x.git && git config --get user.name",
        "git checkout -qb other && git branch -d $(git branch --show-current) 2>/dev/null; git stash list && git tag v1",
        "git clone -q . sub && cd sub && git log -1 --oneline && git config user.email me@example.org",
        "git rebase -q HEAD~1 && git gc -q && git worktree list",
    ] {
        shop.works("git", shell).await;
    }
}

#[tokio::test]
async fn a_crate_can_be_built() {
    let Some(shop) = BuildFixture::new() else { return };
    shop.put("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    shop.put("build.rs", "fn main() { println!(\"cargo::rustc-env=X=1\"); }\n");
    shop.put("src/main.rs", "fn main() { assert_eq!(env!(\"X\"), \"1\"); }\n");
    shop.works("cargo", "cargo --offline run -q").await;
}

#[tokio::test]
async fn a_package_can_be_installed() {
    let Some(shop) = BuildFixture::new() else { return };
    shop.put("package.json", r#"{"name":"app","version":"1.0.0","dependencies":{"dep":"file:./dep"}}"#);
    shop.put("dep/package.json", r#"{"name":"dep","version":"1.0.0","main":"i.js","bin":{"dep":"i.js"}}"#);
    shop.put("dep/i.js", "#!/usr/bin/env node\nmodule.exports = 7;\n");
    let install = "npm install --offline --no-audit --no-fund --silent && node -e \"if (require('dep') !== 7) process.exit(1)\"";
    shop.works("npm", install).await;
}

#[tokio::test]
async fn tests_can_be_run() {
    let Some(shop) = BuildFixture::new() else { return };
    shop.put(
        "test_x.py",
        "import multiprocessing, tempfile, threading, unittest\n\
         class T(unittest.TestCase):\n\
         \x20   def test_pool(self):\n\
         \x20       with multiprocessing.get_context('fork').Pool(2) as p: self.assertEqual(p.map(abs, [-1, 2]), [1, 2])\n\
         \x20   def test_temp(self):\n\
         \x20       with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n\
         \x20   def test_thread(self):\n\
         \x20       t = threading.Thread(target=lambda: None); t.start(); t.join()\n",
    );
    shop.works("python3", "python3 -m unittest -q").await;
    shop.works("python3", "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import sys'").await;
    shop.works("make", "printf 'all:\\n\\t@echo made > out\\n' > Makefile && make -s && cat out").await;
    shop.works("gcc", "echo 'int main(){return 0;}' > x.c && gcc x.c -o x && ./x").await;
}

/// The files that the user's own tools would run, or build and run, later.
const STORED: &[&str] = &[
    ".cargo/registry/src/index-1/dep-1.0.0/build.rs",
    ".cargo/registry/cache/index-1/dep-1.0.0.crate",
    ".cargo/registry/index/index-1/config.json",
    ".cargo/git/checkouts/dep-1/abc/build.rs",
    ".cargo/git/db/dep-1/config",
    ".cargo/config.toml",
    ".cargo/bin/cargo-x",
    ".m2/repository/org/x/1/x-1.jar",
    ".ivy2/cache/x/jars/x.jar",
    ".cache/coursier/v1/https/x/x.jar",
    ".gradle/caches/modules-2/files-2.1/x/x.jar",
    ".gradle/wrapper/dists/gradle-8/bin/gradle",
    "go/pkg/mod/example.org/x@v1/x.go",
    ".cache/go-build/00/x-d",
    ".cache/pip/wheels/00/x.whl",
    ".cache/uv/archive-v0/x/x.py",
    ".npm/_cacache/content-v2/x",
    ".npm/_npx/x/node_modules/.bin/x",
    ".conda/pkgs/x-1/bin/x",
    ".cache/huggingface/hub/models--x/blobs/1",
    ".cache/torch/hub/checkpoints/x.pth",
    ".nuget/packages/x/1/x.dll",
];

#[tokio::test]
async fn what_is_run_later_from_a_store_of_packages_stays_as_it_was() {
    for mounts in [true, false] {
        let change = |sandbox: Sandbox| if mounts { sandbox } else { sandbox.without_mounts() };
        let Some(shop) = BuildFixture::with(change) else { return };
        let user = shop.root.join("user");
        for name in STORED {
            let path = user.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "sound\n").unwrap();
        }
        let local = shop.host.open(user.join("proj"));
        let run = async |shell: &str| {
            let command = ShellCommand { shell, directory: None, stdin: None, timeout: LONG };
            local.run_sandboxed(command, &Cancel::new()).await.unwrap().0
        };
        for name in STORED {
            let folder = name.rsplit_once('/').unwrap().0;
            run(&format!("echo planted >> ~/{name}; rm -f ~/{name}; mv ~/{folder} ~/{folder}-old; echo planted > ~/{folder}/new")).await;
        }
        // The links from the Hermes cache must not be a way to write there either.
        let linked = run("find $CARGO_HOME ${MAVEN_OPTS##*=} $HF_HUB_CACHE -type l | while read l; do echo planted >> $l; echo $l; done").await;
        assert!(
            linked.output.contains("dep-1.0.0.crate") && linked.output.contains("x-1.jar"),
            "{}",
            linked.output
        );
        for name in STORED {
            let path = user.join(name);
            assert_eq!(fs::read_to_string(&path).unwrap_or_default(), "sound\n", "mounts {mounts}: {name}");
            assert!(!path.with_file_name("new").exists(), "mounts {mounts}: beside {name}");
        }
        // Earlier downloads can be read, and new ones are kept.
        let used = run("cat $CARGO_HOME/registry/cache/index-1/dep-1.0.0.crate $CARGO_HOME/config.toml && \
            mkdir -p $CARGO_HOME/registry/src/index-1/dep-1.0.0 && echo x > $CARGO_HOME/registry/cache/index-1/other.crate && \
            echo x >> $CARGO_HOME/registry/index/index-1/config.json && rm $CARGO_HOME/registry/cache/index-1/dep-1.0.0.crate").await;
        assert_eq!((used.output.as_str(), used.exit_code), ("sound\nsound\n", 0));
    }
}

/// Checks that a command that prepares links where Hermes expects its own folders changes nothing outside.
#[tokio::test]
async fn links_in_our_caches_lead_nobody_elsewhere() {
    let Some(shop) = BuildFixture::new() else { return };
    let caches = shop.root.join("hermes/sandboxes/caches");
    let other = shop.root.join("user/other");
    fs::create_dir_all(&caches).unwrap();
    fs::create_dir_all(shop.root.join("user/.cargo/registry/index/i")).unwrap();
    fs::create_dir_all(&other).unwrap();
    fs::write(shop.root.join("user/.cargo/registry/index/i/f"), "sound\n").unwrap();
    fs::write(other.join("config"), "mine\n").unwrap();
    std::os::unix::fs::symlink(&other, caches.join("cargo")).unwrap();
    shop.works("true", "true").await;
    assert_eq!(fs::read_to_string(other.join("config")).unwrap(), "mine\n");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}
