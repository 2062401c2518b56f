//! The inputs of every command: the home, the environment, the configuration.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::Result;
use chrono::{DateTime, Datelike, Local, TimeZone, Timelike};
use chrono_tz::Tz;
use hermes_config::auth::AuthFile;
use hermes_config::secrets::secret_values;
use hermes_config::settings::SecuritySettings;
use hermes_config::{Config, Env, Home, precedence};
use hermes_store::{Error, Store};
use hermes_types::{CivilTime, Timestamp, WallClock};

use crate::log;
use crate::output::Console;

/// The inputs of a command, resolved once per run.
#[derive(Clone)]
pub(crate) struct ProgramContext {
    pub(crate) home: Home,
    pub(crate) env: Env,
}

impl ProgramContext {
    pub(crate) fn open() -> Result<Self> {
        let shell = Env::process();
        let home = Home::resolve(&shell)?;
        let env = shell.with_files(&home, None);
        Ok(Self { home, env })
    }

    /// Returns the same home with the environment as its files are now.
    pub(crate) fn reloaded(&self) -> Self {
        Self { home: self.home.clone(), env: Env::process().with_files(&self.home, None) }
    }

    /// Loads config.yaml for an action: a turn, a job, a message. Fails when a faulty file could allow what it was
    /// meant to forbid.
    pub(crate) fn usable_config(&self, output: &Console) -> Result<Config> {
        let config = Config::load(&self.home, &self.env);
        config.require_usable(&self.env)?;
        Ok(self.prepare_config(config, output))
    }

    /// Loads config.yaml. Prints what is wrong with it, and never fails because of that.
    pub(crate) fn config(&self, output: &Console) -> Config {
        self.prepare_config(Config::load(&self.home, &self.env), output)
    }

    /// Prints what is wrong with a configuration, and sets up masking, the log and the time zone from it.
    fn prepare_config(&self, config: Config, output: &Console) -> Config {
        for warning in config.warnings() {
            output.notice(&warning.to_string());
        }
        self.register_secrets(&config);
        let masked = SecuritySettings::resolve(&config, &self.env).redact_secrets;
        let secrets = if masked { log::LogMasking::Mask } else { log::LogMasking::Show };
        log::start(&self.home.join("logs"), secrets, log::level(&config));
        self.set_time_zone(&config);
        config
    }

    /// Registers the secrets in the home's files for masking.
    pub(crate) fn register_secrets(&self, config: &Config) {
        let auth = AuthFile::new(&self.home).read();
        hermes_guard::register_secrets(secret_values(config, &self.env, &auth));
    }

    /// Sets the time zone from the configuration.
    pub(crate) fn set_time_zone(&self, config: &Config) {
        set_time_zone(precedence::timezone(config, &self.env));
    }

    /// Opens the database; read-only if the home is not writable.
    pub(crate) fn store(&self, output: &Console) -> Result<Store> {
        let path = self.database();
        // If the home cannot be created, the database reports it with the file's name.
        let _ = self.home.ensure();
        let store = match Store::open(&path) {
            Err(why @ (Error::ReadOnly { .. } | Error::Disk { .. } | Error::DiskFull { .. }))
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

/// Returns the current time, for relative dates.
pub(crate) fn now() -> Timestamp {
    WallClock::default().now()
}

/// Formats a time in the user's time zone, for example with `%H:%M`. A format that is none gives hours and minutes.
pub(crate) fn format_time(at: Timestamp, format: &str) -> String {
    use std::fmt::Write as _;
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
    let seconds = at.seconds() as i64;
    let utc = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    let mut text = String::new();
    let written = match ZONE.get() {
        Some(zone) => write!(text, "{}", utc.with_timezone(zone).format(format)),
        None => write!(text, "{}", utc.with_timezone(&Local).format(format)),
    };
    if written.is_err() {
        let CivilTime { hour, minute, .. } = local_time(at);
        text = format!("{hour:02}:{minute:02}");
    }
    text
}

/// The configured time zone; unset means the machine's own.
static ZONE: OnceLock<Tz> = OnceLock::new();

/// Sets the configured time zone. An unknown name is logged, and the machine's own zone is used.
fn set_time_zone(name: Option<String>) {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return };
    if let Ok(zone) = name.parse::<Tz>() {
        // Only the first call of a process has an effect.
        let _ = ZONE.set(zone);
    } else {
        tracing::warn!("the time zone {name} is not known; this machine's own is used");
    }
}

/// Converts a time to the user's time zone.
pub(crate) fn local_time(at: Timestamp) -> CivilTime {
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
    let seconds = at.seconds() as i64;
    let utc = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    match ZONE.get() {
        Some(zone) => civil(&utc.with_timezone(zone)),
        None => civil(&utc.with_timezone(&Local)),
    }
}

fn civil<T: TimeZone>(local: &DateTime<T>) -> CivilTime {
    CivilTime {
        year: local.year(),
        month: local.month(),
        day: local.day(),
        hour: local.hour(),
        minute: local.minute(),
        second: local.second(),
    }
}
