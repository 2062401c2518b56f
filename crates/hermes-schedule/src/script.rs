//! Scripts that run at the start of a job. They must be in the `scripts/` folder of the home.

use std::path::{Path, PathBuf};

use hermes_config::Home;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::screen::screen_script;

/// A script that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobScript {
    pub file: PathBuf,
    pub language: ScriptLanguage,
}

/// The interpreter that runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptLanguage {
    Bash,
    Python,
}

impl JobScript {
    /// Finds a script by name or path. Links are followed; their targets must be in the folder too.
    pub fn find(home: &Home, given: &str) -> Result<Self> {
        let folder = home.join("scripts");
        let refuse = |why: &str| {
            Err(Error::Field(format!("`script` '{given}' {why}; scripts lie in {}", folder.display())))
        };
        let Ok(root) = folder.canonicalize() else { return refuse("is not there") };
        let Ok(file) = root.join(given.trim()).canonicalize() else { return refuse("is not there") };
        if !file.starts_with(&root) {
            return refuse("is somewhere else");
        }
        if !file.is_file() {
            return refuse("is not a file");
        }
        Ok(Self { language: ScriptLanguage::of(&file), file })
    }
}

impl ScriptLanguage {
    fn of(file: &Path) -> Self {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("sh" | "bash") => Self::Bash,
            _ => Self::Python,
        }
    }
}

/// Rejects fields of a job that do not go together.
pub(crate) fn check_job_fields(home: &Home, more: &Map<String, Value>) -> Result<()> {
    let script = match more.get("script") {
        None | Some(Value::Null) => None,
        Some(Value::String(script)) if script.trim().is_empty() => None,
        Some(Value::String(script)) => Some(JobScript::find(home, script)?),
        Some(_) => return Err(Error::Field("`script` must be a path below scripts/ in the home".to_owned())),
    };
    match more.get("no_agent") {
        Some(Value::Bool(true)) if script.is_none() => {
            return Err(Error::Field("`no_agent` needs a `script`".to_owned()));
        }
        None | Some(Value::Null | Value::Bool(_)) => {}
        Some(_) => return Err(Error::Field("`no_agent` must be true or false".to_owned())),
    }
    if let Some(Value::Array(names)) = more.get("enabled_toolsets")
        && names.iter().any(|name| !name.is_string())
    {
        return Err(Error::Field("`enabled_toolsets` must be a list of names".to_owned()));
    }
    match script.map(|script| std::fs::read(&script.file)) {
        Some(Ok(text)) => screen_script(&String::from_utf8_lossy(&text)),
        Some(Err(error)) => Err(Error::Field(format!("`script` cannot be read: {error}"))),
        None => Ok(()),
    }
}
