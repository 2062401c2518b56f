//! What commands may not read, and what they may not change.

use std::path::{Path, PathBuf};

use super::SandboxPlaces;

/// Below the user's home.
const STORES: &[&str] = &[
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".gnupg",
    ".kube",
    ".docker/config.json",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".password-store",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".modal.toml",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".config/rclone/rclone.conf",
    ".config/hub",
    ".config/glab-cli",
    "Library/Keychains",
];

/// Below the Hermes home.
const OURS: &[&str] = &[".env", "auth.json", "pairing", "credentials"];

/// Read by shells, desktops, editors and interpreters without being asked to, or run by their names.
pub(super) const STARTUP: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".inputrc",
    ".pam_environment",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".xinitrc",
    ".vimrc",
    ".exrc",
    ".emacs",
    ".tmux.conf",
    ".screenrc",
    ".gdbinit",
    ".pythonrc",
    ".gitconfig",
    ".cargo/config.toml",
    ".cargo/config",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".config/plasma-workspace",
    ".config/git",
    ".config/nvim",
    ".local/share/systemd",
    ".local/share/dbus-1",
    ".local/lib",
    ".local/bin",
    ".cargo/bin",
    ".pyenv/shims",
    ".nvm",
    ".docker/cli-plugins",
    ".ssh",
    ".emacs.d",
    ".vim",
    ".oh-my-zsh",
    "bin",
];

/// Paths that exist and may not be read, without links in them.
pub(super) fn unreadable(places: &SandboxPlaces) -> Vec<PathBuf> {
    let stores = STORES.iter().map(|name| places.user_home.join(name));
    let ours = OURS.iter().map(|name| places.hermes_home.join(name));
    let mut found: Vec<PathBuf> = stores.chain(ours).filter_map(|path| path.canonicalize().ok()).collect();
    found.extend(ssh_keys(&places.user_home.join(".ssh")));
    let config = places.hermes_home.join("config.yaml");
    found.extend(config.canonicalize().ok().filter(|path| holds_keys(path)));
    found
}

/// Whether a key stands in the settings themselves; they are no secret otherwise.
fn holds_keys(config: &Path) -> bool {
    const NAMES: &[&str] = &["api_key", "token", "password", "secret"];
    let text = std::fs::read_to_string(config).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once(':')).any(|(name, value)| {
        let (name, value) =
            (name.trim().trim_matches(['"', '\'', '{']), value.trim().trim_matches(['"', '\'']));
        let nothing =
            value.is_empty() || value.starts_with(['#', '$', '|', '>']) || value == "null" || value == "~";
        NAMES.iter().any(|known| name.ends_with(known)) && !nothing
    })
}

/// Paths that exist and may not be changed even where the folder around them may, by commands that are about `project`.
pub(super) fn unchangeable(places: &SandboxPlaces, project: &Path) -> Vec<PathBuf> {
    let startup = STARTUP.iter().map(|name| places.user_home.join(name));
    let paths = startup.chain(ours(places, project)).filter_map(|path| path.canonicalize().ok());
    unreadable(places).into_iter().chain(paths).collect()
}

/// The Hermes home; where the project or the user's home lies in it, everything beside that.
fn ours(places: &SandboxPlaces, project: &Path) -> Vec<PathBuf> {
    let within = |path: &Path| project.starts_with(path) || places.user_home.starts_with(path);
    if !within(&places.hermes_home) {
        return vec![places.hermes_home.clone()];
    }
    let entries = std::fs::read_dir(&places.hermes_home).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| !within(path)).collect()
}

/// Everything in the ssh folder but what ssh needs beside the keys: with an agent, `git push` goes on working.
fn ssh_keys(folder: &Path) -> Vec<PathBuf> {
    let public = |name: &str| {
        name.starts_with("known_hosts")
            || name.starts_with("config")
            || Path::new(name).extension().is_some_and(|extension| extension == "pub")
            || name == "allowed_signers"
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| !public(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| entry.path().canonicalize().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_the_settings_are_found() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("config.yaml");
        for (text, holds) in [
            ("model:\n  api_key: sk-1\n", true),
            ("model:\n  api_key: ''\n", false),
            ("model:\n  api_key: ${OPENAI_API_KEY}\n  default: m\n", false),
            ("# the api_key is set elsewhere\nmodel: m\n", false),
            ("platforms:\n  telegram:\n    token: \"1:a\"\n", true),
            ("max_tokens: 5\n", false),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(holds_keys(&file), holds, "{text}");
        }
    }
}
