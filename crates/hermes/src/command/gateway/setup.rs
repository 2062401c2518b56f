//! `hermes gateway setup`: which ways in the gateway has. Values go to `.env`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::env::dotenv;
use hermes_config::{Config, Env, Management};
use hermes_gateway::process;
use hermes_serve::ServerSettings;

use super::service::{self, Force, Scope};
use crate::cli::GatewaySetup;
use crate::context::Context;
use crate::output::{Answer, Output};
use crate::random;

/// A way in, as the menu knows it.
struct Row {
    name: &'static str,
    state: fn(&Config, &Env) -> State,
    configure: fn(&Desk<'_>) -> Result<()>,
}

/// Every way in. A platform is one more line.
const ROWS: &[Row] = &[Row { name: "API server", state: api_server_state, configure: configure_api_server }];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Configured,
    NotConfigured,
}

impl State {
    const fn words(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::NotConfigured => "not configured",
        }
    }
}

/// Where questions are asked and answers kept.
struct Desk<'a> {
    arguments: &'a GatewaySetup,
    context: &'a Context,
    output: &'a Output,
}

pub(crate) fn run(arguments: &GatewaySetup, context: &Context, output: &Output) -> Result<ExitCode> {
    Management::of(&context.home, &context.env).allow("run setup")?;
    context.home.ensure_for_setup()?;
    let desk = Desk { arguments, context, output };
    if arguments.api_server {
        configure_api_server(&desk)?;
    } else if !arguments.service && !desk.choose()? {
        output.error(
            "nobody can be asked here; say it with flags, as in `hermes gateway setup --api-server --port 8642 --yes`",
        );
        return Ok(ExitCode::FAILURE);
    }
    desk.offer_service()
}

impl Desk<'_> {
    /// The menu, until it is left. Tells whether there was anybody to choose.
    fn choose(&self) -> Result<bool> {
        for round in 0.. {
            self.list();
            let question = format!("Choose 1-{} [{}]: ", ROWS.len() + 1, ROWS.len() + 1);
            let Some(chosen) = self.ask(&question) else { return Ok(round > 0) };
            let number: Option<usize> = chosen.parse().ok();
            match number.and_then(|number| ROWS.get(number.checked_sub(1)?)) {
                Some(row) => (row.configure)(self)?,
                None if chosen.is_empty() || number == Some(ROWS.len() + 1) => break,
                None => self.output.line(&format!("`{chosen}` is none of the numbers")),
            }
        }
        Ok(true)
    }

    fn list(&self) {
        // Read anew each time: the menu itself changes it.
        let env = Env::process().with_files(&self.context.home, None);
        let config = Config::load(&self.context.home, &env);
        self.output.line("The gateway can be reached by:");
        for (number, row) in ROWS.iter().enumerate() {
            let state = (row.state)(&config, &env).words();
            self.output.line(&format!("  {}. {:<16} [{state}]", number + 1, row.name));
        }
        self.output.line(&format!("  {}. Done", ROWS.len() + 1));
    }

    /// An answer without blanks around it. Nothing where nobody can or wants to be asked.
    fn ask(&self, question: &str) -> Option<String> {
        if self.arguments.yes {
            return None;
        }
        self.output.question(question).map(|answer| answer.trim().to_owned())
    }

    fn save(&self, values: &[(&str, &str)]) -> Result<()> {
        let Context { home, env } = self.context;
        dotenv::save(home, Management::of(home, env), values)?;
        self.output.line(&format!("✓ Written to {}", home.dotenv().display()));
        Ok(())
    }

    /// What takes effect with the next start: restart what runs, or install and start what does not.
    fn offer_service(&self) -> Result<ExitCode> {
        let Self { arguments, context, output } = self;
        let wanted =
            |question: &str| arguments.service || (!arguments.yes && output.confirm(question) == Answer::Yes);
        if service::is_installed(context, output)? {
            if wanted("Restart the service now?") {
                return service::restart(Scope::User, context, output);
            }
            output.line("`hermes gateway restart` makes it take effect.");
        } else if process::running(&context.home).is_some() {
            output.line("A gateway is running; it takes effect when that is started again.");
        } else if wanted("Install the gateway as a service and start it?") {
            service::install(Force::No, Scope::User, None, context, output)?;
            return service::start(Scope::User, context, output);
        } else {
            output.line("`hermes gateway run` runs it in the foreground, `hermes gateway install` installs it as a service.");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn api_server_state(config: &Config, env: &Env) -> State {
    match ServerSettings::resolve(config, env) {
        Some(_) => State::Configured,
        None => State::NotConfigured,
    }
}

fn configure_api_server(desk: &Desk<'_>) -> Result<()> {
    let env = &desk.context.env;
    let present = ServerSettings::resolve(&Config::load(&desk.context.home, env), env);
    let port =
        ask_port(desk, present.as_ref().map_or(ServerSettings::PORT, |server| server.port))?.to_string();
    let said = match &desk.arguments.key {
        Some(key) => key.trim().to_owned(),
        None => {
            desk.ask("Key callers must send [keep the present one, or a random one]: ").unwrap_or_default()
        }
    };
    let has_key = present.is_some_and(|server| server.key.is_some());
    let key = match said.as_str() {
        "" if has_key => None,
        "" => Some(random::key()?),
        said => Some(said.to_owned()),
    };
    let mut values = vec![("API_SERVER_ENABLED", "true"), ("API_SERVER_PORT", &port)];
    values.extend(key.as_deref().map(|key| ("API_SERVER_KEY", key)));
    desk.save(&values)?;
    desk.output
        .line(&format!("  The API is at http://127.0.0.1:{port}/v1; callers send the key API_SERVER_KEY."));
    Ok(())
}

fn ask_port(desk: &Desk<'_>, present: u16) -> Result<u16> {
    if let Some(port) = desk.arguments.port {
        return Ok(port);
    }
    match desk.ask(&format!("Port [{present}]: ")).as_deref() {
        None | Some("") => Ok(present),
        Some(said) => match said.parse() {
            Ok(port) if port > 0 => Ok(port),
            _ => bail!("`{said}` is no port: a number from 1 to 65535"),
        },
    }
}
