//! What every command starts from: the home, the environment, the configuration.

use std::path::PathBuf;

use anyhow::Result;
use hermes_config::{Config, Env, Home};
use hermes_store::{Error, Store};
use hermes_types::{Timestamp, WallClock};

use crate::output::Output;

/// Resolved once per run.
pub(crate) struct Context {
    pub(crate) home: Home,
    pub(crate) env: Env,
}

impl Context {
    pub(crate) fn open() -> Result<Self> {
        let shell = Env::process();
        let home = Home::resolve(&shell)?;
        let env = shell.with_files(&home, None);
        Ok(Self { home, env })
    }

    /// Loads config.yaml. What is wrong with it is said, and never stops a command.
    pub(crate) fn config(&self, output: &Output) -> Config {
        let config = Config::load(&self.home, &self.env);
        for warning in config.warnings() {
            output.notice(&warning.to_string());
        }
        config
    }

    /// Opens the database; in a home nobody can write to, only for reading.
    pub(crate) fn store(&self, output: &Output) -> Result<Store> {
        let path = self.database();
        // A home that cannot be made is said by the database, with the file's name.
        let _ = self.home.ensure();
        let store = match Store::open(&path) {
            Err(why @ (Error::ReadOnly { .. } | Error::Disk { .. } | Error::Full { .. }))
                if path.exists() =>
            {
                output
                    .notice(&format!("{why}. Reading only; what another process wrote last may be missing."));
                Store::open_read_only(&path)?
            }
            opened => opened?,
        };
        for notice in store.notices() {
            output.notice(&format!("note: {notice}"));
        }
        Ok(store)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.home.join("state.db")
    }
}

/// The time of day, for relative dates.
pub(crate) fn now() -> Timestamp {
    WallClock::default().now()
}
