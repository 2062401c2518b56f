//! A temporary Hermes home, readable only by its owner like a real one, and removed when dropped.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{DatabaseFixture, Error};

#[derive(Debug)]
pub struct TempHome {
    directory: TempDir,
}

/// The contents of the home.
#[derive(Debug, Default)]
pub struct TempHomeBuilder {
    files: Vec<(PathBuf, Vec<u8>)>,
    state: Option<DatabaseFixture>,
}

impl TempHome {
    /// The file that keeps bundled skills out of a home.
    pub const NO_BUNDLED_SKILLS: &'static str = ".no-bundled-skills";

    /// Creates a home without configuration and database.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    pub fn builder() -> TempHomeBuilder {
        TempHomeBuilder::default()
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    pub fn config_yaml(&self) -> PathBuf {
        self.join("config.yaml")
    }

    pub fn env_file(&self) -> PathBuf {
        self.join(".env")
    }

    pub fn state_db(&self) -> PathBuf {
        self.join("state.db")
    }

    /// Reads a file; panics naming the file when it cannot be read.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.join(path);
        match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => panic!("cannot read {}: {error}", path.display()),
        }
    }
}

impl TempHomeBuilder {
    #[must_use]
    pub fn config_yaml(self, text: &str) -> Self {
        self.file("config.yaml", text)
    }

    #[must_use]
    pub fn env_file(self, text: &str) -> Self {
        self.file(".env", text)
    }

    /// Adds a file at a path inside the home; folders are created as needed.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>, text: impl AsRef<[u8]>) -> Self {
        self.files.push((path.into(), text.as_ref().to_vec()));
        self
    }

    /// Adds a `state.db` as that release wrote it.
    #[must_use]
    pub fn state_db(mut self, fixture: DatabaseFixture) -> Self {
        self.state = Some(fixture);
        self
    }

    pub fn build(self) -> Result<TempHome, Error> {
        let directory = tempfile::Builder::new()
            .prefix("hermes-home-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(folder_of_tests())
            .map_err(Error::io("make a temporary home"))?;
        let home = TempHome { directory };
        // Without bundled skills, unless a test wants them: a prompt then holds what the test put there.
        home.write(Path::new(TempHome::NO_BUNDLED_SKILLS), b"")?;
        for (path, text) in self.files {
            home.write(&path, &text)?;
        }
        if let Some(fixture) = self.state {
            fixture.build(&home.state_db())?;
        }
        Ok(home)
    }
}

/// Returns the folder that homes are made in: the one that a run of all tests made for itself and removes at its end, with what a
/// process that outlives its test by a moment writes there.
#[expect(
    clippy::disallowed_methods,
    reason = "the script that runs the tests says there where homes are made"
)]
pub(crate) fn folder_of_tests() -> PathBuf {
    std::env::var_os("HERMES_TEST_HOMES").map_or_else(std::env::temp_dir, PathBuf::from)
}

impl TempHome {
    fn write(&self, path: &Path, text: &[u8]) -> Result<(), Error> {
        let full = self.join(path);
        let mut made = self.path().to_path_buf();
        for part in path.parent().into_iter().flat_map(Path::components) {
            made.push(part);
            if !made.is_dir() {
                fs::create_dir(&made).map_err(Error::io(format!("make {}", made.display())))?;
                restrict(&made, 0o700)?;
            }
        }
        fs::write(&full, text).map_err(Error::io(format!("write {}", full.display())))?;
        restrict(&full, 0o600)
    }
}

fn restrict(path: &Path, mode: u32) -> Result<(), Error> {
    let doing = format!("set the permissions of {}", path.display());
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::io(doing))
}
