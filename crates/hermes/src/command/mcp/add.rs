//! `hermes mcp add`: adds a server, after it was connected once.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::env::dotenv;
use hermes_config::set;
use hermes_config::settings::McpServer;
use hermes_config::yaml::{YamlMap, YamlValue};
use hermes_mcp::{Error, ProbedServer, sign_in};

use super::login::TerminalLogin;
use super::selection::choose_tools;
use super::{McpCommands, key, runtime};
use crate::cli::McpAddArguments;
use crate::output::Confirmation;

/// A new entry: what is saved, and what is needed to connect it now.
struct NewServer {
    saved: YamlMap,
    /// The entry with the secrets that `saved` only names.
    usable: YamlMap,
    /// Variables for `.env`.
    secrets: Vec<(String, String)>,
}

impl McpCommands<'_> {
    pub(super) fn add(&self, arguments: &McpAddArguments) -> Result<ExitCode> {
        let name = arguments.name.clone();
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(is_plain) {
            bail!("the name of a server has only letters, digits, `-`, `_` and `.`");
        }
        if arguments.url.is_none() && arguments.command.is_none() {
            bail!("name an address with --url, or a program with --command");
        }
        if self.config.map("mcp_servers").contains(&name)
            && self.output.confirm(&format!("The server {name} exists. Replace it?")) != Confirmation::Yes
        {
            self.output.line("Nothing was changed.");
            return Ok(ExitCode::SUCCESS);
        }
        let Some(mut new) = self.entry(arguments)? else { return Ok(ExitCode::FAILURE) };
        let Some(server) = McpServer::read(&name, &new.usable) else {
            bail!("this entry names neither a program nor an address")
        };
        let mut probed = self.probe(&server)?;
        if matches!(probed, Err(Error::SignInNeeded { .. })) && arguments.auth.as_deref() == Some("oauth") {
            let surface = TerminalLogin::new(self.context, self.output);
            let options = self.options()?;
            if let Err(error) = runtime()?.block_on(sign_in(&server, &options, &surface)) {
                self.output.error(&format!("the sign-in failed: {error}"));
            } else {
                probed = self.probe(&server)?;
            }
        }
        match probed {
            Ok(probed) => {
                self.output.line(&format!("✓ Connected ({}ms)", probed.took.as_millis()));
                self.choose(&mut new, &server, &probed)?;
            }
            Err(error) => {
                self.output.line(&format!("✗ Not connected: {error}"));
                if self.output.confirm("Save the server, disabled?") != Confirmation::Yes {
                    self.output.line("Nothing was changed.");
                    return Ok(ExitCode::FAILURE);
                }
                new.saved.insert("enabled", YamlValue::Bool(false));
            }
        }
        let secrets: Vec<(&str, &str)> =
            new.secrets.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (home, management) = (&self.context.home, self.management());
        if !secrets.is_empty() {
            dotenv::save(home, management, &secrets)?;
        }
        set::set_value(home, management, &key(&name, &[]), &YamlValue::Map(new.saved))?;
        self.output.line(&format!("✓ Saved {name}"));
        Ok(ExitCode::SUCCESS)
    }

    /// Builds the entry. `None` if the user left.
    fn entry(&self, arguments: &McpAddArguments) -> Result<Option<NewServer>> {
        let mut saved = YamlMap::new();
        let mut usable_headers = None;
        let mut secrets = Vec::new();
        let text = |text: &str| YamlValue::Str(text.to_owned());
        if let Some(url) = &arguments.url {
            saved.insert("url", text(url));
            match self.auth(arguments)? {
                Auth::None => {}
                Auth::Browser => saved.insert("auth", text("oauth")),
                Auth::Header(key) => {
                    let variable =
                        format!("MCP_{}_API_KEY", arguments.name.to_uppercase().replace(['-', '.'], "_"));
                    let header = |value: String| {
                        let mut headers = YamlMap::new();
                        headers.insert("Authorization", YamlValue::Str(value));
                        YamlValue::Map(headers)
                    };
                    saved.insert("headers", header(format!("Bearer ${{{variable}}}")));
                    usable_headers = Some(header(format!("Bearer {key}")));
                    secrets.push((variable, key));
                }
                Auth::Left => return Ok(None),
            }
        } else if let Some(command) = &arguments.command {
            saved.insert("command", text(command));
            if !arguments.args.is_empty() {
                saved.insert("args", YamlValue::Seq(arguments.args.iter().map(|arg| text(arg)).collect()));
            }
            if !arguments.env.is_empty() {
                let mut variables = YamlMap::new();
                for pair in &arguments.env {
                    let Some((name, value)) = pair.split_once('=') else {
                        bail!("--env wants NAME=VALUE");
                    };
                    variables.insert(name, text(value));
                }
                saved.insert("env", YamlValue::Map(variables));
            }
        }
        if let Some(seconds) = arguments.connect_timeout {
            saved.insert("connect_timeout", YamlValue::Int(i128::from(seconds)));
        }
        let mut usable = saved.clone();
        if let Some(headers) = usable_headers {
            usable.insert("headers", headers);
        }
        Ok(Some(NewServer { saved, usable, secrets }))
    }

    /// Finds out how the server recognises the user.
    fn auth(&self, arguments: &McpAddArguments) -> Result<Auth> {
        let wants_key = match arguments.auth.as_deref() {
            Some("oauth") => return Ok(Auth::Browser),
            Some("none") => return Ok(Auth::None),
            Some("header") => true,
            Some(other) => bail!("--auth is `oauth`, `header` or `none`, not `{other}`"),
            None => {
                let answer = self.output.ask("Does the server need a key? [Y/n] ");
                answer.is_some_and(|answer| !answer.trim().to_lowercase().starts_with('n'))
            }
        };
        if !wants_key {
            return Ok(Auth::None);
        }
        let Some(key) = self.output.ask_secret("Key (not shown): ").filter(|key| !key.trim().is_empty())
        else {
            self.output.error("no key was given; nothing was changed");
            return Ok(Auth::Left);
        };
        Ok(Auth::Header(key.trim().to_owned()))
    }

    /// Asks which tools are offered; what is saved is thereby approved.
    fn choose(&self, new: &mut NewServer, server: &McpServer, probed: &ProbedServer) -> Result<()> {
        let tools = probed.tools();
        let answer = self.output.ask(&format!("Enable all {} tools? [Y/n/select] ", tools.len()));
        let answer = answer.unwrap_or_default().trim().to_lowercase();
        match answer.as_str() {
            "n" | "no" => new.saved.insert("enabled", YamlValue::Bool(false)),
            "s" | "select" => {
                let chosen = choose_tools(&tools, |_| true, self.output).unwrap_or_default();
                if !chosen.is_empty() && chosen.len() < tools.len() {
                    let mut filter = YamlMap::new();
                    let names = chosen.into_iter().map(YamlValue::Str).collect();
                    filter.insert("include", YamlValue::Seq(names));
                    new.saved.insert("tools", YamlValue::Map(filter));
                }
            }
            _ => {}
        }
        let suspicious = tools.iter().filter(|tool| tool.needs_approval).count();
        if suspicious == 0 {
            return Ok(probed.approve_all(server)?);
        }
        self.output.line(&format!(
            "{suspicious} tools have a description that may not be meant for the model. They are offered after you approve \
             them: hermes mcp configure {}",
            server.name
        ));
        Ok(())
    }
}

/// How a server recognises the user.
enum Auth {
    None,
    /// By a sign-in in the browser.
    Browser,
    Header(String),
    /// The user left.
    Left,
}
