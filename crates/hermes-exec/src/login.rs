//! What the user's login shell brings, kept from one start to the next.
//!
//! A login shell may take long, or hang; nobody should wait for it at each start. So its dump is kept in the Hermes home, used at
//! once, and taken anew beside the first command when it is old. It is asked with a few variables only, so that nothing private
//! is kept; those of the moment are put before it. The shell that takes it anew is not bound to us: one that is killed leaves
//! locks of version managers behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hermes_types::Timestamp;

use crate::shell::{Shell, quote};
use crate::snapshot::ShellSnapshot;
use crate::variables::Variables;

/// One that is older is taken anew.
const FRESH: Duration = Duration::from_mins(10);
/// What a login shell is told.
const LOGIN_VARIABLES: &[&str] =
    &["HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "TMPDIR", "TZ"];
const LOGIN_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// The kept dump of one shell with one home and path.
#[derive(Debug)]
pub(crate) struct LoginCache {
    base: PathBuf,
}

impl LoginCache {
    /// In a folder that fenced commands cannot write to.
    pub(crate) fn of(folder: &Path, shell: &Shell, variables: &Variables) -> Self {
        let mut key = shell.program.to_string_lossy().into_owned();
        for name in ["HOME", "PATH", "USER"] {
            key.push('\0');
            key.push_str(variables.get(name).unwrap_or_default());
        }
        Self { base: folder.join(format!("login-{:016x}", digest(&key))) }
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.base.with_extension(ending)
    }

    pub(crate) fn exists(&self) -> bool {
        self.file("sh").is_file() && self.file("env").is_file()
    }

    /// Whether it is time to take it anew.
    pub(crate) fn is_stale(&self, now: Timestamp) -> bool {
        let taken = fs::metadata(self.file("env")).and_then(|meta| meta.modified()).ok();
        let taken = taken.and_then(|taken| taken.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        now.0 - taken.as_secs_f64() > FRESH.as_secs_f64()
    }

    /// What the login shell is told of the environment.
    pub(crate) fn login_variables(variables: &Variables) -> Vec<(String, String)> {
        let fits = |name: &str| {
            LOGIN_VARIABLES.contains(&name) || LOGIN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        variables.pairs().into_iter().filter(|(name, _)| fits(name)).collect()
    }

    /// What a login shell runs to fill it: beside first, and in place when it is whole.
    pub(crate) fn script(&self, path: &str) -> String {
        let word = |path: PathBuf| quote(&path.to_string_lossy());
        let beside = |ending: &str| format!("{}.$$", word(self.file(ending)));
        let (definitions, exports) = (beside("sh"), beside("env"));
        format!(
            "{} && mv -f {definitions} {} && mv -f {exports} {}",
            ShellSnapshot::dump_script(path, &definitions, &exports),
            word(self.file("sh")),
            word(self.file("env")),
        )
    }

    /// Fills a snapshot from it: the variables of the moment, and over them what the login shell says.
    pub(crate) fn load(&self, snapshot: &ShellSnapshot, variables: &Variables) -> io::Result<()> {
        let (definitions, kept) = (fs::read(self.file("sh"))?, fs::read(self.file("env"))?);
        let mut exports: Vec<u8> = Vec::new();
        for (name, value) in variables.pairs() {
            let plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
            if name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
                exports.extend(format!("export {name}={}\n", quote(&value)).into_bytes());
            }
        }
        exports.extend(kept);
        snapshot.fill(&definitions, &exports)
    }
}

/// A number that sets texts apart; FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
