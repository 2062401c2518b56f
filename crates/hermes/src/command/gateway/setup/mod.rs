//! `hermes gateway setup`: configures platforms and servers of the gateway. Values go to `.env`.

mod api_server;
mod platform;
mod webhook;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_channels::{Options, PLATFORMS, Platform};
use hermes_config::env::dotenv;
use hermes_config::{Config, Env, ManagedMode};
use hermes_gateway::{LiveSettings, process};
use hermes_task::SystemClock;
use hermes_types::Clock;

use super::service::{self, ForceInstall, ServiceScope};
use crate::cli::GatewaySetupArguments;
use crate::context::ProgramContext;
use crate::output::{Confirmation, Console};
use crate::wiring::channels::{self, SettingsProblem};

/// An item of the setup menu.
#[derive(Clone, Copy)]
enum SetupItem {
    ApiServer,
    Webhook,
    Chat(&'static Platform),
}

impl SetupItem {
    fn all() -> impl Iterator<Item = Self> {
        PLATFORMS.iter().map(Self::Chat).chain([Self::ApiServer, Self::Webhook])
    }

    fn label(self) -> &'static str {
        match self {
            Self::ApiServer => "API server",
            Self::Webhook => "Webhooks",
            Self::Chat(platform) => platform.label(),
        }
    }

    fn state(self, config: &Config, env: &Env) -> SetupState {
        match self {
            Self::ApiServer => api_server::state(config, env),
            Self::Webhook => webhook::state(config, env),
            Self::Chat(platform) => platform::state(platform, config, env),
        }
    }

    fn configure(self, dialog: &SetupDialog<'_>) -> Result<()> {
        match self {
            Self::ApiServer => api_server::configure(dialog),
            Self::Webhook => webhook::configure(dialog),
            Self::Chat(platform) => platform::configure(dialog, platform),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetupState {
    Configured,
    /// Configured, with end-to-end encryption.
    Encrypted,
    /// Some values are set, and a required one is missing.
    PartiallyConfigured,
    NotConfigured,
}

impl SetupState {
    const fn label(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Encrypted => "configured + E2EE",
            Self::PartiallyConfigured => "partially configured",
            Self::NotConfigured => "not configured",
        }
    }
}

/// Asks the questions and stores the answers.
struct SetupDialog<'a> {
    arguments: &'a GatewaySetupArguments,
    context: &'a ProgramContext,
    output: &'a Console,
}

pub(crate) fn run(
    arguments: &GatewaySetupArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    ManagedMode::detect(&context.home, &context.env).check_allowed("run setup")?;
    context.home.ensure_for_setup()?;
    let dialog = SetupDialog { arguments, context, output };
    if let Some(name) = &arguments.platform {
        let known: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name).chain(["webhook"]).collect();
        let name = name.to_lowercase();
        let found = match name.as_str() {
            "webhook" | "webhooks" => Some(SetupItem::Webhook),
            name => hermes_channels::platform(name).map(SetupItem::Chat),
        };
        let way =
            found.with_context(|| format!("`{name}` is no platform; there are: {}", known.join(", ")))?;
        way.configure(&dialog)?;
    } else if arguments.api_server {
        api_server::configure(&dialog)?;
    } else if !arguments.service && !dialog.choose()? {
        output.error(
            "no terminal to ask on; use flags, for example `hermes gateway setup --api-server --port 8642 --yes` or \
             `hermes gateway setup telegram --set TELEGRAM_BOT_TOKEN=- --yes`",
        );
        return Ok(ExitCode::FAILURE);
    }
    dialog.offer_service()
}

impl SetupDialog<'_> {
    /// Shows the menu until the user leaves it. Tells whether the user could be asked.
    fn choose(&self) -> Result<bool> {
        if self.arguments.yes || !self.output.can_ask() {
            return Ok(false);
        }
        let ways: Vec<SetupItem> = SetupItem::all().collect();
        let mut at = 0;
        loop {
            match self.output.choose("The gateway can be reached by:", &self.rows(&ways), at) {
                Some(chosen) if chosen < ways.len() => {
                    at = chosen;
                    if let Some(way) = ways.get(chosen) {
                        way.configure(self)?;
                    }
                }
                _ => return Ok(true),
            }
        }
    }

    fn rows(&self, ways: &[SetupItem]) -> Vec<String> {
        // Reloaded each time, because the menu itself changes it.
        let (config, env) = self.read();
        let row = |way: &SetupItem| format!("{:<16} [{}]", way.label(), way.state(&config, &env).label());
        ways.iter().map(row).chain(std::iter::once("Done".to_owned())).collect()
    }

    /// Reads the current configuration.
    fn read(&self) -> (Config, Env) {
        let env = Env::process().with_files(&self.context.home, None);
        (Config::load(&self.context.home, &env), env)
    }

    /// Checks the settings of a platform; nothing is checked with `--no-check`.
    fn check(&self, platform: &Platform, options: &Options) -> Result<Result<(), SettingsProblem>> {
        if self.arguments.no_check {
            return Ok(Ok(()));
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let live = LiveSettings::new(self.context.home.clone(), Env::process(), std::env::temp_dir());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let checked = runtime.block_on(channels::check(platform, options, &live, &clock));
        runtime.shutdown_background();
        Ok(checked)
    }

    /// Asks for a port until a number is given; an empty answer keeps the present one.
    fn ask_port(&self, present: u16) -> Result<u16> {
        match self.ask(&format!("Port [{present}]: ")).as_deref() {
            None | Some("") => Ok(present),
            Some(said) => match said.parse() {
                Ok(port) if port > 0 => Ok(port),
                _ => bail!("`{said}` is no port: a number from 1 to 65535"),
            },
        }
    }

    /// Asks for a trimmed answer. Returns `None` where the user cannot or does not want to be asked.
    fn ask(&self, question: &str) -> Option<String> {
        if self.arguments.yes {
            return None;
        }
        self.output.ask(question).map(|answer| answer.trim().to_owned())
    }

    fn save(&self, values: &[(&str, &str)]) -> Result<()> {
        let ProgramContext { home, env } = self.context;
        dotenv::save(home, ManagedMode::detect(home, env), values)?;
        self.output.line(&format!("✓ Written to {}", home.dotenv().display()));
        Ok(())
    }

    /// Offers to apply the changes: restarts a running service, or installs and starts one.
    fn offer_service(&self) -> Result<ExitCode> {
        let Self { arguments, context, output } = self;
        let wanted = |question: &str| {
            arguments.service || (!arguments.yes && output.confirm(question) == Confirmation::Yes)
        };
        if service::is_installed(context, output)? {
            if wanted("Restart the service now?") {
                return service::restart(ServiceScope::User, context, output);
            }
            output.line("`hermes gateway restart` makes it take effect.");
        } else if process::running_pid(&context.home).is_some() {
            output.line("A gateway is running; it takes effect when that is started again.");
        } else if wanted("Install the gateway as a service and start it?") {
            service::install(ForceInstall::No, ServiceScope::User, None, context, output)?;
            return service::start(ServiceScope::User, context, output);
        } else {
            output.line("`hermes gateway run` runs it in the foreground, `hermes gateway install` installs it as a service.");
        }
        Ok(ExitCode::SUCCESS)
    }
}
