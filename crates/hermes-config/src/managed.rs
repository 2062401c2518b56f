//! Managed mode: the system's own configuration decides, and we only read.

use crate::{Env, Error, Home, Result};

/// Whether settings may be changed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Management {
    Free,
    Managed,
}

impl Management {
    /// Managed when `HERMES_MANAGED` says so or `.managed` exists in the home.
    pub fn of(home: &Home, env: &Env) -> Self {
        let by_variable = env
            .get("HERMES_MANAGED")
            .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "yes"));
        if by_variable || home.managed_marker().exists() { Self::Managed } else { Self::Free }
    }

    /// Refuses `action` ("set configuration values", "run setup", …) in managed mode.
    pub fn allow(self, action: &str) -> Result<()> {
        match self {
            Self::Free => Ok(()),
            Self::Managed => Err(Error::Managed { action: action.to_owned() }),
        }
    }
}
