//! Managed mode: the system's own configuration decides, and Hermes only reads.

use crate::{Env, Error, Home, Result};

/// Tells whether settings may be changed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagedMode {
    Unmanaged,
    Managed,
}

impl ManagedMode {
    /// Detects managed mode: `HERMES_MANAGED` is set accordingly, or `.managed` exists in the home.
    pub fn detect(home: &Home, env: &Env) -> Self {
        let by_variable = env
            .get("HERMES_MANAGED")
            .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "yes"));
        if by_variable || home.managed_marker().exists() { Self::Managed } else { Self::Unmanaged }
    }

    /// Refuses `action` ("set configuration values", "run setup", …) in managed mode.
    pub fn check_allowed(self, action: &str) -> Result<()> {
        match self {
            Self::Unmanaged => Ok(()),
            Self::Managed => Err(Error::Managed { action: action.to_owned() }),
        }
    }
}
