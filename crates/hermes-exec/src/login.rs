//! A cache for the snapshot of the user's login shell, kept from one start to the next.
//!
//! A login shell may take long, or hang, and a start should not have to wait for it. So its snapshot is kept
//! in the Hermes home, used at once, and refreshed during the first command when it is old. The login shell
//! gets only a few variables, so that nothing private is kept; the current variables are put before its own.
//! The shell that refreshes the snapshot is not bound to Hermes, because killing it would leave locks of
//! version managers behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hermes_types::Timestamp;

use crate::shell::{Shell, quote};
use crate::snapshot::ShellSnapshot;
use crate::variables::Variables;

/// The age at which a cached snapshot is refreshed.
const FRESH: Duration = Duration::from_mins(10);
/// The names of the variables that a login shell gets.
const LOGIN_VARIABLES: &[&str] =
    &["HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "TMPDIR", "TZ"];
const LOGIN_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// The cached snapshot of one shell with one home and path.
#[derive(Debug)]
pub(crate) struct LoginCache {
    base: PathBuf,
}

impl LoginCache {
    /// Returns the cache in `folder`, to which sandboxed commands cannot write.
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

    /// Tells whether the snapshot is due to be refreshed.
    pub(crate) fn is_stale(&self, now: Timestamp) -> bool {
        let taken = fs::metadata(self.file("env")).and_then(|meta| meta.modified()).ok();
        let taken = taken.and_then(|taken| taken.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        now.0 - taken.as_secs_f64() > FRESH.as_secs_f64()
    }

    /// Returns the variables that the login shell gets.
    pub(crate) fn login_variables(variables: &Variables) -> Vec<(String, String)> {
        let fits = |name: &str| {
            LOGIN_VARIABLES.contains(&name) || LOGIN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        variables.pairs().into_iter().filter(|(name, _)| fits(name)).collect()
    }

    /// Returns the script with which a login shell fills the cache: it writes temporary files first and
    /// renames them when they are complete.
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

    /// Fills a snapshot from the cache: the current variables, overridden by those of the login shell.
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

/// Returns a hash (FNV-1a) that distinguishes texts.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
