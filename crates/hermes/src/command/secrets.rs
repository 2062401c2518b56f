//! `hermes secrets`: keys that a secret manager holds.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_config::env::dotenv;
use hermes_config::settings::{BitwardenSettings, OnePasswordSettings};
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, Env, ManagedMode, set};

use crate::cli::{BitwardenCommand, OnePasswordCommand, SecretsCommand};
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::secret_managers::{FetchedSecrets, from_bitwarden, from_one_password};

pub(crate) fn run(command: SecretsCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.config(output);
    let store = SecretSettings { context, output };
    match command {
        SecretsCommand::Bitwarden { command } => store.bitwarden(command.unwrap_or_default(), &config),
        SecretsCommand::Onepassword { command } => store.one_password(command.unwrap_or_default(), &config),
    }
}

/// Changes the settings of secret managers.
struct SecretSettings<'a> {
    context: &'a ProgramContext,
    output: &'a Console,
}

impl SecretSettings<'_> {
    fn bitwarden(&self, command: BitwardenCommand, config: &Config) -> Result<ExitCode> {
        let settings = BitwardenSettings::from_config(config);
        match command {
            BitwardenCommand::Setup { access_token, project_id, server_url } => {
                let token = self.token(access_token, "Access token of the machine account: ")?;
                let project = self.answer(project_id, "Id of the project", &settings.project)?;
                let settings = BitwardenSettings {
                    enabled: true,
                    project,
                    server_url: server_url.unwrap_or(settings.server_url),
                    ..settings
                };
                self.store_token(&settings.token_variable, token.as_deref())?;
                let env = Env::process().with_files(&self.context.home, None);
                // Tried before it is turned on, so that no start of Hermes fails because of it.
                self.show(&from_bitwarden(&settings, &env)?);
                self.set("secrets.bitwarden.project_id", &YamlValue::Str(settings.project))?;
                self.set("secrets.bitwarden.server_url", &YamlValue::Str(settings.server_url))?;
                self.set("secrets.bitwarden.enabled", &YamlValue::Bool(true))?;
                self.output.line("✓ Hermes takes these keys from Bitwarden at each start.");
            }
            BitwardenCommand::Status => {
                self.line("enabled", if settings.enabled { "yes" } else { "no" });
                let has_token = self.context.env.is_set(&settings.token_variable);
                self.line("token", &format!("{} {}", settings.token_variable, is_set(has_token)));
                self.line("project", or_none(&settings.project));
                self.line(
                    "server",
                    if settings.server_url.is_empty() { "the usual one" } else { &settings.server_url },
                );
            }
            BitwardenCommand::Sync => self.show(&from_bitwarden(&settings, &self.context.env)?),
            BitwardenCommand::Disable => {
                self.set("secrets.bitwarden.enabled", &YamlValue::Bool(false))?;
                self.output
                    .line("✓ Hermes takes no keys from Bitwarden any more. Token and project are kept.");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn one_password(&self, command: OnePasswordCommand, config: &Config) -> Result<ExitCode> {
        let settings = OnePasswordSettings::from_config(config);
        match command {
            OnePasswordCommand::Setup { account, token, token_env, binary_path } => {
                let variable = token_env.unwrap_or(settings.token_variable);
                if let Some(token) = token {
                    let token = self.token(Some(token), "")?;
                    self.store_token(&variable, token.as_deref())?;
                }
                self.set("secrets.onepassword.service_account_token_env", &YamlValue::Str(variable))?;
                if let Some(account) = account {
                    self.set("secrets.onepassword.account", &YamlValue::Str(account))?;
                }
                if let Some(path) = binary_path {
                    let path = std::path::absolute(path)?.display().to_string();
                    self.set("secrets.onepassword.binary_path", &YamlValue::Str(path))?;
                }
                self.set("secrets.onepassword.enabled", &YamlValue::Bool(true))?;
                self.output.line("✓ 1Password is turned on. Name the keys:");
                self.output.line("  hermes secrets onepassword set OPENAI_API_KEY 'op://VAULT/ITEM/FIELD'");
            }
            OnePasswordCommand::Status => {
                self.line("enabled", if settings.enabled { "yes" } else { "no" });
                let has_token = self.context.env.is_set(&settings.token_variable);
                self.line("token", &format!("{} {}", settings.token_variable, is_set(has_token)));
                self.line("account", or_none(&settings.account));
                for (name, reference) in &settings.references {
                    self.line(name, reference);
                }
            }
            OnePasswordCommand::Set { name, reference } => {
                let reference = reference.trim();
                if !reference.starts_with("op://") {
                    bail!("`{reference}` does not begin with op://; nothing was changed");
                }
                let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if !is_name || name == settings.token_variable {
                    bail!("`{name}` cannot be the name of a key; nothing was changed");
                }
                let path = KeyPath::from_segments(["secrets", "onepassword", "env", name.as_str()]);
                set::set_value(&self.context.home, self.management(), &path, &YamlValue::from(reference))?;
                self.output.line(&format!("✓ {name} comes from {reference}"));
                if !settings.enabled {
                    self.output.line("  Turn it on with `hermes secrets onepassword setup`.");
                }
            }
            OnePasswordCommand::Remove { name } => {
                let path = KeyPath::from_segments(["secrets", "onepassword", "env", name.as_str()]);
                set::remove_value(&self.context.home, self.management(), &path)?;
                self.output.line(&format!("✓ {name} does not come from 1Password any more"));
            }
            OnePasswordCommand::Sync => self.show(&from_one_password(&settings, &self.context.env)),
            OnePasswordCommand::Disable => {
                self.set("secrets.onepassword.enabled", &YamlValue::Bool(false))?;
                self.output.line("✓ Hermes takes no keys from 1Password any more. The references are kept.");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn management(&self) -> ManagedMode {
        ManagedMode::detect(&self.context.home, &self.context.env)
    }

    fn set(&self, key: &str, value: &YamlValue) -> Result<()> {
        let path = KeyPath::parse(key).with_context(|| format!("`{key}` is not a key"))?;
        Ok(set::set_value(&self.context.home, self.management(), &path, value)?)
    }

    fn store_token(&self, variable: &str, token: Option<&str>) -> Result<()> {
        match token {
            Some(token) => Ok(dotenv::save(&self.context.home, self.management(), &[(variable, token)])?),
            None => Ok(()),
        }
    }

    /// Returns the token of the flag, of standard input, or of the person; `None` to keep the present one.
    fn token(&self, flag: Option<String>, question: &str) -> Result<Option<String>> {
        let token = match flag {
            Some(flag) if flag == "-" => {
                let mut text = String::new();
                std::io::stdin().take(64 * 1024).read_to_string(&mut text)?;
                Some(text)
            }
            None => self.output.ask_secret(question),
            flag => flag,
        };
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        if token.as_ref().is_some_and(|token| token.contains(['\n', '\r'])) {
            bail!("a token is one line; nothing was changed");
        }
        Ok(token)
    }

    fn answer(&self, flag: Option<String>, question: &str, now: &str) -> Result<String> {
        let asked = || self.output.ask(&format!("{question} [{now}]: ")).map(|line| line.trim().to_owned());
        let answer =
            flag.or_else(asked).filter(|answer| !answer.is_empty()).unwrap_or_else(|| now.to_owned());
        if answer.is_empty() {
            bail!("the project is missing: --project-id ID; nothing was changed");
        }
        Ok(answer)
    }

    fn show(&self, fetched: &FetchedSecrets) {
        for (name, _) in &fetched.values {
            self.output.line(&format!("  ✓ {name}"));
        }
        for problem in &fetched.problems {
            self.output.line(&format!("  ✗ {problem}"));
        }
        self.output.line(&format!("{} keys", fetched.values.len()));
    }

    fn line(&self, name: &str, value: &str) {
        self.output.line(&format!("  {name:<20} {value}"));
    }
}

fn is_set(is_set: bool) -> &'static str {
    if is_set { "is set" } else { "is not set" }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
