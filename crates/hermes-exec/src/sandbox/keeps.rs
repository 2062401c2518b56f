//! What the fence keeps from being changed, for those who write files themselves: what a command may not plant, a tool may
//! not plant for it.

use std::path::Path;

use super::Sandbox;
use super::refusal::real;
use super::secret::STARTUP;

/// Below the Hermes home, what the model may write; all else there is run, read or trusted by Hermes.
const OPEN_IN_HOME: &[&str] = &[
    "SOUL.md",
    "memories",
    "skills",
    "plans",
    "cache",
    "image_cache",
    "audio_cache",
    "document_cache",
    "results",
];
/// Where programs and what they load lie.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

const RUN_OUTSIDE: &str = "what lies there is run outside the sandbox";
const SETTING: &str = "`terminal.sandbox_writable` or the terminal, with the user's approval, would allow it";

impl Sandbox {
    /// Why this path must not be written to while commands are fenced in.
    pub fn keeps(&self, path: &Path) -> Option<String> {
        if !self.is_active() {
            return None;
        }
        let path = real(path);
        if self.places.writable.iter().any(|root| path.starts_with(root)) {
            return None;
        }
        let reason = self.reason(&path)?;
        Some(format!("{reason}; {SETTING}"))
    }

    fn reason(&self, path: &Path) -> Option<&'static str> {
        let home = &self.places.user_home;
        let below = |root: &Path| path.strip_prefix(root).ok();
        if STARTUP.iter().any(|name| path.starts_with(home.join(name))) {
            return Some(RUN_OUTSIDE);
        }
        if let Some(rest) = below(&self.places.hermes_home)
            // Unless the user lives there.
            && !(home.starts_with(&self.places.hermes_home) && path.starts_with(home))
            && !OPEN_IN_HOME.iter().any(|name| rest.starts_with(name))
        {
            return Some("it belongs to Hermes itself");
        }
        if is_git_machinery(path) {
            return Some("git runs what stands there outside the sandbox");
        }
        SYSTEM.iter().any(|folder| path.starts_with(folder)).then_some(RUN_OUTSIDE)
    }
}

/// Hooks and settings of a repository, its own or a submodule's.
fn is_git_machinery(path: &Path) -> bool {
    let parts: Vec<_> = path.components().map(std::path::Component::as_os_str).collect();
    let Some(at) = parts.iter().position(|part| *part == ".git") else { return false };
    let Some(within) = parts.get(at + 1..) else { return false };
    // A file of this name leads git elsewhere.
    within.is_empty()
        || within.contains(&"hooks".as_ref())
        || within.last().is_some_and(|name| *name == "config" || *name == "config.worktree")
}

#[cfg(test)]
mod tests {
    use super::super::{SandboxMode, SandboxPlaces};
    use super::*;

    #[test]
    fn what_runs_later_is_kept_and_the_rest_is_not() {
        if !Sandbox::is_possible() {
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("proj")).unwrap();
        std::os::unix::fs::symlink(root.join(".config"), root.join("proj/link")).unwrap();
        std::fs::create_dir_all(root.join(".config")).unwrap();
        let places = SandboxPlaces {
            user_home: root.clone(),
            hermes_home: root.join(".hermes"),
            temporary: Vec::new(),
            writable: vec![root.join("open")],
        };
        let sandbox = Sandbox::new(SandboxMode::Auto, places.clone());
        for kept in [
            ".config/autostart/e.desktop",
            ".config/systemd/user/e.service",
            ".local/bin/ls",
            ".gitconfig",
            ".zshenv",
            ".vimrc",
            ".hermes/bin/tirith",
            ".hermes/scripts/x.sh",
            ".hermes/hooks/x/handler.py",
            ".hermes/config.yaml",
            "proj/.git/hooks/pre-commit",
            "proj/.git/config",
            "proj/.git/modules/a/config",
            "proj/link/autostart/e.desktop",
            "proj/.git",
        ] {
            assert!(sandbox.keeps(&root.join(kept)).is_some(), "{kept}");
        }
        for free in [
            "proj/src/main.rs",
            "proj/.gitignore",
            "proj/.github/config",
            "notes.txt",
            ".hermes/skills/x/SKILL.md",
            ".hermes/memories/MEMORY.md",
            ".config/app/settings.json",
            "open/.git/hooks/pre-commit",
        ] {
            assert_eq!(sandbox.keeps(&root.join(free)), None, "{free}");
        }
        assert!(sandbox.keeps(Path::new("/usr/local/bin/x")).is_some());
        assert_eq!(Sandbox::new(SandboxMode::Off, places).keeps(&root.join(".zshenv")), None);
    }
}
