//! Names of the service of a home. Pure, except that it follows links.
//!
//! Invariant: one home has one name, however its path was written; two homes never share one.

use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

const LONGEST_PROFILE: usize = 64;

/// The names under which service managers know the gateway of one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceNames {
    suffix: String,
}

impl ServiceNames {
    /// Builds the names. Both paths must come from [`resolve_path`]; `usual` is the default home.
    pub(crate) fn of(home: &Path, usual: &Path) -> Self {
        let suffix = if home == usual {
            String::new()
        } else if let Some(profile) = profile(home, usual) {
            format!("-{profile}")
        } else {
            format!("-{}", distinguishing_digits(home))
        };
        Self { suffix }
    }

    /// Returns the names that distinguish this user's service from that of the user who has the plain name.
    pub(crate) fn for_user(&self, user: &str) -> Self {
        Self { suffix: format!("{}-{user}", self.suffix) }
    }

    pub(crate) fn unit(&self) -> String {
        format!("hermes-gateway{}", self.suffix)
    }

    pub(crate) fn unit_file(&self) -> String {
        format!("{}.service", self.unit())
    }

    /// Returns the launchd label.
    pub(crate) fn label(&self) -> String {
        format!("ai.hermes.gateway{}", self.suffix)
    }
}

/// Returns the name of a profile below the default home.
fn profile(home: &Path, usual: &Path) -> Option<String> {
    let name = home.strip_prefix(usual.join("profiles")).ok()?.to_str()?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = name.len() <= LONGEST_PROFILE
        && name.starts_with(plain)
        && name.chars().all(|c| plain(c) || c == '_' || c == '-');
    fits.then(|| name.to_owned())
}

/// Returns eight digits that distinguish homes.
fn distinguishing_digits(home: &Path) -> String {
    let digest = Sha256::digest(home.to_string_lossy().as_bytes());
    digest.first_chunk().map(|bytes| format!("{:08x}", u32::from_be_bytes(*bytes))).unwrap_or_default()
}

/// Returns the path in absolute form, without links, `.`, `..` and trailing slash. Parts that do not exist yet stay
/// as written.
pub(crate) fn resolve_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut done = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                done.pop();
            }
            Component::CurDir => {}
            part => {
                done.push(part);
                if let Ok(real) = done.canonicalize() {
                    done = real;
                }
            }
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_one_name() {
        let name = |home: &str| ServiceNames::of(Path::new(home), Path::new("/home/u/.hermes")).unit();
        assert_eq!(name("/home/u/.hermes"), "hermes-gateway");
        assert_eq!(name("/home/u/.hermes/profiles/work-2"), "hermes-gateway-work-2");
        // The first digits of `printf %s /srv/agent | sha256sum`.
        assert_eq!(name("/srv/agent"), "hermes-gateway-5ecc1654");
        for no_profile in [
            "/home/u/.hermes/profiles/Work",
            "/home/u/.hermes/profiles/-x",
            "/home/u/.hermes/profiles/a/b",
            "/home/u/.hermes/profiles",
        ] {
            let suffix = name(no_profile).replace("hermes-gateway-", "");
            assert!(suffix.len() == 8 && suffix.chars().all(|c| c.is_ascii_hexdigit()), "{no_profile}");
        }
        let label = ServiceNames::of(Path::new("/srv/agent"), Path::new("/home/u/.hermes")).label();
        assert_eq!(label, "ai.hermes.gateway-5ecc1654");
    }

    #[test]
    fn a_path_is_the_same_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("link")).unwrap();
        for written in ["real", "real/", "./real", "link", "link/", "real/../link", "missing/../real"] {
            let path = PathBuf::from(format!("{}/{written}", folder.path().display()));
            assert_eq!(resolve_path(&path), real, "{written}");
        }
        assert_eq!(resolve_path(&folder.path().join("link/new")), real.join("new"));
    }
}
