//! Fetches keys from secret managers, with the programs that their makers provide.
//!
//! The programs get only what they need to sign in. Nothing of what they print is shown or logged: it may be a secret.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_config::env::{SecretPrecedence, SecretValue, provide_secrets};
use hermes_config::settings::{BitwardenSettings, OnePasswordSettings};
use hermes_config::{Config, Env};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode, Variables};
use hermes_task::SystemClock;
use hermes_types::Cancel;
use serde_json::Value;

use crate::context::ProgramContext;
use crate::output::Console;

const LIMIT: Duration = Duration::from_secs(20);
/// The variables that a secret manager cannot set: they decide which programs and files are used.
const REFUSED: [&str; 4] = ["PATH", "HOME", "HERMES_HOME", "SHELL"];
/// What 1Password's program needs besides a token: the session of a person, and where its settings are.
const OP_VARIABLES: [&str; 5] = ["PATH", "HOME", "OP_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"];

/// What a secret manager returned.
#[derive(Debug, Default)]
pub(crate) struct FetchedSecrets {
    pub(crate) values: Vec<SecretValue>,
    /// What could not be fetched, and why. Contains no secret.
    pub(crate) problems: Vec<String>,
}

/// Fetches the keys of the enabled secret managers for this process. A failure is a notice: keys in `.env` still count.
pub(crate) fn fetch_for_process(
    context: &ProgramContext,
    output: &Console,
) -> Result<Option<ProgramContext>> {
    let config = Config::load_file(&context.home.config(), &context.env);
    let (bitwarden, one_password) =
        (BitwardenSettings::from_config(&config), OnePasswordSettings::from_config(&config));
    let mut provided: Vec<(SecretValue, SecretPrecedence)> = Vec::new();
    let mut take = |fetched: Result<FetchedSecrets>, name: &str, precedence: SecretPrecedence| match fetched {
        Ok(FetchedSecrets { values, problems }) => {
            for problem in problems {
                output.notice(&format!("note: {name}: {problem}"));
            }
            provided.extend(values.into_iter().map(|value| (value, precedence)));
        }
        Err(error) => output.notice(&format!("note: {name}: {error:#}; keys in .env are used")),
    };
    if bitwarden.enabled {
        take(from_bitwarden(&bitwarden, &context.env), "Bitwarden", bitwarden.precedence);
    }
    if one_password.enabled {
        take(Ok(from_one_password(&one_password, &context.env)), "1Password", one_password.precedence);
    }
    if provided.is_empty() {
        return Ok(None);
    }
    provide_secrets(provided);
    ProgramContext::open().map(Some)
}

/// Fetches all secrets of the project.
pub(crate) fn from_bitwarden(settings: &BitwardenSettings, env: &Env) -> Result<FetchedSecrets> {
    let token = env.get(&settings.token_variable).with_context(|| {
        format!("{} is not set: `hermes secrets bitwarden setup`", settings.token_variable)
    })?;
    if settings.project.is_empty() {
        bail!("no project is chosen: `hermes secrets bitwarden setup --project-id ID`");
    }
    let mut variables = vec![("BWS_ACCESS_TOKEN", token)];
    if !settings.server_url.is_empty() {
        variables.push(("BWS_SERVER_URL", &settings.server_url));
    }
    let arguments = ["secret", "list", &settings.project, "--output", "json", "--color", "no"];
    let text = run("bws", &arguments, &variables, &["PATH", "HOME"], env)?;
    let listed: Value = serde_json::from_str(&text).context("bws did not print a list of secrets")?;
    let mut fetched = FetchedSecrets::default();
    for secret in listed.as_array().context("bws did not print a list of secrets")? {
        let text = |key: &str| secret.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        add(&mut fetched, text("key"), &text("value"), &settings.token_variable);
    }
    Ok(fetched)
}

/// Fetches each secret that a variable refers to.
pub(crate) fn from_one_password(settings: &OnePasswordSettings, env: &Env) -> FetchedSecrets {
    let program = if settings.program.is_empty() { "op" } else { settings.program.as_str() };
    let mut variables = Vec::new();
    if let Some(token) = env.get(&settings.token_variable) {
        variables.push(("OP_SERVICE_ACCOUNT_TOKEN", token));
    }
    let sessions: Vec<&str> =
        env.iter().map(|(name, _)| name).filter(|name| name.starts_with("OP_SESSION_")).collect();
    let passed: Vec<&str> = OP_VARIABLES.into_iter().chain(sessions).collect();
    let mut fetched = FetchedSecrets::default();
    for (name, reference) in &settings.references {
        if !reference.starts_with("op://") {
            fetched.problems.push(format!("{name}: `{reference}` does not begin with op://"));
            continue;
        }
        let mut arguments = vec!["read", "--no-newline"];
        if !settings.account.is_empty() {
            arguments.extend(["--account", &settings.account]);
        }
        arguments.extend(["--", reference]);
        match run(program, &arguments, &variables, &passed, env) {
            Ok(value) => add(&mut fetched, name.clone(), &value, &settings.token_variable),
            Err(error) => fetched.problems.push(format!("{name}: {error:#}")),
        }
    }
    fetched
}

/// Takes a value up, unless the name cannot be used or the value is empty.
fn add(fetched: &mut FetchedSecrets, name: String, value: &str, token_variable: &str) {
    let is_name = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if name == token_variable {
        return;
    }
    if !is_name || REFUSED.contains(&name.as_str()) || name.starts_with("LD_") {
        fetched.problems.push(format!("`{name}` cannot be the name of a key; it is left out"));
    } else if value.trim().is_empty() {
        fetched.problems.push(format!("{name} is empty; it is left out"));
    } else {
        fetched.values.push((name, value.trim_end_matches(['\r', '\n']).to_owned()));
    }
}

/// Runs a program and returns what it printed. Its messages are not in the error: they may contain secrets.
fn run(name: &str, arguments: &[&str], set: &[(&str, &str)], passed: &[&str], env: &Env) -> Result<String> {
    let inherited = passed.iter().filter_map(|name| Some((*name, env.get(name)?)));
    let names: Vec<String> =
        passed.iter().chain(set.iter().map(|(name, _)| name)).map(|name| (*name).to_owned()).collect();
    let variables = Variables::for_commands(inherited.chain(set.iter().copied()), &names, &[]);
    let programs = ProgramRunner::new(variables, Arc::new(SystemClock::new()));
    if programs.find(name).is_none() && !Path::new(name).is_absolute() {
        bail!("`{name}` is not installed");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let directory = PathBuf::from("/");
    let program = Program {
        name,
        arguments: arguments.iter().map(OsString::from).collect(),
        directory: &directory,
        limit: LIMIT,
        stderr: StderrMode::Discard,
    };
    match runtime.block_on(programs.output(program, &Cancel::new()))? {
        (text, ProgramExit::Exited(0)) => Ok(text),
        (_, ProgramExit::Exited(code)) => {
            bail!("`{name}` ended with {code}: is it signed in, and may it read this?")
        }
        _ => bail!("`{name}` did not end within {} s", LIMIT.as_secs()),
    }
}
