//! `hermes mcp`: the MCP servers of the configuration.

mod add;
mod catalog;
mod configure;
mod login;
mod selection;
mod serve;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use hermes_config::settings::{McpServer, McpTransport};
use hermes_config::yaml::KeyPath;
use hermes_config::{Config, ManagedMode, set};
use hermes_mcp::{ApprovedTools, McpOptions, ProbedServer, TokenFiles, probe};
use hermes_task::SystemClock;
use hermes_text::ellipsize;
use hermes_types::Clock;

use crate::cli::McpCommand;
use crate::context::ProgramContext;
use crate::log::{self, LogMasking};
use crate::output::{Confirmation, Console};
use crate::wiring::mcp;
use crate::wiring::program_runtime::ProgramConfig;

pub(crate) fn run(
    command: Option<McpCommand>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    if let Some(McpCommand::Serve { verbose: true }) = command {
        // The first log that is started stays; secrets are masked, since the configuration is not read yet.
        log::start_verbose(&context.home.join("logs"), LogMasking::Mask, tracing::Level::INFO);
    }
    let commands = McpCommands { config: context.usable_config(output)?, context, output };
    match command {
        None => {
            commands.list();
            output.line(
                "\n  hermes mcp add NAME --url URL            add a server with an address\n  hermes mcp add NAME --command \
                 PROGRAM   add a program\n  hermes mcp test NAME                     connect it and list its tools\n  \
                 hermes mcp configure NAME                choose its tools, approve new ones\n  hermes mcp login NAME\
                 \x20                   sign in to it\n  hermes mcp remove NAME                   remove it\n  hermes mcp catalog                       \
                 list well-known servers; `install NAME` adds one",
            );
            Ok(ExitCode::SUCCESS)
        }
        Some(McpCommand::List) => {
            commands.list();
            Ok(ExitCode::SUCCESS)
        }
        Some(McpCommand::Add(arguments)) => commands.add(&arguments),
        Some(McpCommand::Catalog { query, json }) => {
            commands.catalog(query.as_deref(), json);
            Ok(ExitCode::SUCCESS)
        }
        Some(McpCommand::Install(arguments)) => commands.install(&arguments),
        Some(McpCommand::Picker) => commands.pick(),
        Some(McpCommand::Remove { name, yes }) => commands.remove(&name, yes),
        Some(McpCommand::Test { name }) => commands.test(&name),
        Some(McpCommand::Configure { name }) => commands.configure(&name),
        Some(McpCommand::Login { name }) => commands.login(&name),
        Some(McpCommand::Serve { .. }) => serve::run(&commands),
    }
}

/// The commands, with what all of them need.
struct McpCommands<'a> {
    config: Config,
    context: &'a ProgramContext,
    output: &'a Console,
}

impl McpCommands<'_> {
    fn find(&self, name: &str) -> Result<McpServer> {
        let servers = McpServer::all(&self.config);
        let found = servers.into_iter().find(|server| server.name == name);
        found.ok_or_else(|| anyhow!("there is no MCP server `{name}`; `hermes mcp list` shows them"))
    }

    fn options(&self) -> Result<McpOptions> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        mcp::options(ProgramConfig { context: self.context, config: &self.config }, &clock, None)
    }

    /// Connects a server for a moment.
    fn probe(&self, server: &McpServer) -> Result<Result<ProbedServer, hermes_mcp::Error>> {
        let options = self.options()?;
        Ok(runtime()?.block_on(probe(server, options)))
    }

    fn management(&self) -> ManagedMode {
        ManagedMode::detect(&self.context.home, &self.context.env)
    }

    fn list(&self) {
        let servers = McpServer::all(&self.config);
        if servers.is_empty() {
            self.output.line("No MCP servers are configured.");
            return;
        }
        self.output.line(&format!("{:<16} {:<30} {:<12} Status", "Name", "Transport", "Tools"));
        for server in &servers {
            let tools = match (&server.include, server.exclude.len()) {
                (_, _) if !server.native => "none".to_owned(),
                (Some(included), _) if !included.is_empty() => format!("{} selected", included.len()),
                (_, 0) => "all".to_owned(),
                (_, excluded) => format!("-{excluded} excluded"),
            };
            let status = if server.enabled { "✓ enabled" } else { "✗ disabled" };
            self.output.line(&format!(
                "{:<16} {:<30} {tools:<12} {status}",
                ellipsize(&server.name, 16),
                ellipsize(&transport(server), 27)
            ));
        }
    }

    fn remove(&self, name: &str, yes: bool) -> Result<ExitCode> {
        if !self.config.map("mcp_servers").contains(name) {
            return Err(anyhow!("there is no MCP server `{name}`; `hermes mcp list` shows them"));
        }
        if !yes && self.output.confirm(&format!("Remove the MCP server {name}?")) == Confirmation::No {
            self.output.line("Nothing was changed.");
            return Ok(ExitCode::SUCCESS);
        }
        set::remove_value(&self.context.home, self.management(), &key(name, &[]))?;
        TokenFiles::new(&self.context.home).remove(name)?;
        ApprovedTools::new(&self.context.home).forget(name)?;
        self.output.line(&format!("✓ Removed {name}"));
        Ok(ExitCode::SUCCESS)
    }

    fn test(&self, name: &str) -> Result<ExitCode> {
        let server = self.find(name)?;
        self.output.line(&format!("Transport: {}", transport(&server)));
        if let McpTransport::Http { headers, oauth, .. } = &server.transport {
            let has_tokens = TokenFiles::new(&self.context.home).has_tokens(name);
            match (oauth, has_tokens) {
                (true, true) => self.output.line("Auth:      OAuth, signed in"),
                (true, false) => self.output.line("Auth:      OAuth, not signed in"),
                (false, _) => {
                    for (header, value) in headers {
                        self.output.line(&format!("Auth:      {header}: {}", masked(value)));
                    }
                }
            }
        }
        let probed = match self.probe(&server)? {
            Ok(probed) => probed,
            Err(error) => {
                self.output.line(&format!("✗ Not connected: {error}"));
                return Ok(ExitCode::FAILURE);
            }
        };
        self.output.line(&format!("✓ Connected ({}ms) {}", probed.took.as_millis(), probed.description));
        self.show_tools(&server, &probed);
        Ok(ExitCode::SUCCESS)
    }

    fn show_tools(&self, server: &McpServer, probed: &ProbedServer) {
        let tools = probed.tools();
        self.output.line(&format!("\n{} tools:", tools.len()));
        for tool in &tools {
            let note = match (server.offers(&tool.name), tool.needs_approval) {
                (false, _) => "  [left out]",
                (true, true) => "  [waits for approval: hermes mcp configure]",
                (true, false) => "",
            };
            let description = hermes_text::single_line(&tool.description);
            self.output.line(&format!("  {:<28} {}{note}", tool.name, ellipsize(&description, 60)));
        }
        for (has, what) in [(probed.has_resources(), "resources"), (probed.has_prompts(), "prompts")] {
            if has {
                self.output.line(&format!("The server also has {what}."));
            }
        }
    }
}

/// Returns the path of an entry, or of a field of it.
fn key(name: &str, fields: &[&str]) -> KeyPath {
    KeyPath::from_segments(["mcp_servers", name].into_iter().chain(fields.iter().copied()))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")
}

/// Describes a transport. Arguments may hold secrets, so only the program is named.
fn transport(server: &McpServer) -> String {
    match &server.transport {
        McpTransport::Stdio { command, .. } => format!("stdio: {command}"),
        // What follows the path of an address may be a key.
        McpTransport::Http { url, .. } => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
    }
}

/// Returns the first and last characters of a secret, or none of a short one.
fn masked(secret: &str) -> String {
    let (scheme, value) = match secret.split_once(' ') {
        Some((scheme, value)) => (format!("{scheme} "), value),
        None => (String::new(), secret),
    };
    if value.chars().count() < 18 {
        return format!("{scheme}***");
    }
    format!("{scheme}{}...{}", hermes_text::head(value, 4), hermes_text::tail(value, 4))
}
