//! `hermes mcp catalog`, `install` and `picker`: well-known servers.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_mcp::{CATALOG, CatalogAuth, CatalogServer, CatalogTransport};
use hermes_text::closest_match;
use serde_json::{Value, json};

use super::McpCommands;
use crate::cli::{McpAddArguments, McpInstallArguments};
use crate::command::table::table;

const MIN_SIMILARITY: f64 = 0.6;

impl McpCommands<'_> {
    pub(super) fn catalog(&self, query: Option<&str>, as_json: bool) {
        let found: Vec<&CatalogServer> =
            CATALOG.iter().filter(|server| query.is_none_or(|query| server.matches(query))).collect();
        if as_json {
            let rows: Value = found
                .iter()
                .map(|server| json!({"name": server.name, "description": server.description, "needs": server.needs()}))
                .collect();
            self.output.line(&format!("{rows:#}"));
            return;
        }
        if found.is_empty() {
            self.output.line("No server of the catalog matches. `hermes mcp add` adds any server.");
            return;
        }
        let row = |server: &&CatalogServer| {
            let state = if self.is_configured(server.name) { "added" } else { "" };
            [server.name, server.description, server.needs(), state].map(str::to_owned).to_vec()
        };
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        self.output.text(&table(&["Name", "Description", "Needs", ""], &[24, 60, 20, 6], &rows));
        self.output.line("\nTo add one: hermes mcp install NAME. Others: hermes mcp add");
    }

    fn is_configured(&self, name: &str) -> bool {
        self.config.map("mcp_servers").contains(name)
    }

    pub(super) fn install(&self, arguments: &McpInstallArguments) -> Result<ExitCode> {
        let Some(server) = CatalogServer::find(&arguments.name) else {
            let near =
                closest_match(&arguments.name, CATALOG.iter().map(|server| server.name), MIN_SIMILARITY);
            let near = near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            bail!("the catalog has no server `{}`{near} `hermes mcp catalog` lists it", arguments.name);
        };
        let name = arguments.as_name.clone().unwrap_or_else(|| server.name.to_owned());
        let mut add = McpAddArguments { name, ..McpAddArguments::default() };
        match server.transport {
            CatalogTransport::Program { command, args, argument } => {
                if let Some(argument) = argument.filter(|_| arguments.arguments.is_empty()) {
                    bail!(
                        "{} wants a {argument}: hermes mcp install {} {argument}",
                        server.name,
                        server.name
                    );
                }
                add.command = Some(command.to_owned());
                add.args =
                    args.iter().map(|arg| (*arg).to_owned()).chain(arguments.arguments.clone()).collect();
            }
            CatalogTransport::Address { url, auth } => {
                if !arguments.arguments.is_empty() {
                    bail!("{} takes no arguments", server.name);
                }
                add.url = Some(url.to_owned());
                add.auth = match auth {
                    CatalogAuth::Open => Some("none".to_owned()),
                    CatalogAuth::OAuth => Some("oauth".to_owned()),
                    CatalogAuth::Key => Some("header".to_owned()),
                };
            }
        }
        self.add(&add)
    }

    /// Lets the user choose a server of the catalog; prints the catalog where nobody can choose.
    pub(super) fn pick(&self) -> Result<ExitCode> {
        let rows: Vec<String> = CATALOG
            .iter()
            .map(|server| format!("{:<22} {}  ({})", server.name, server.description, server.needs()))
            .collect();
        let Some(server) = self.output.choose("MCP servers", &rows, 0).and_then(|at| CATALOG.get(at)) else {
            if !self.output.can_ask() {
                self.catalog(None, false);
            }
            return Ok(ExitCode::SUCCESS);
        };
        let mut arguments =
            McpInstallArguments { name: server.name.to_owned(), ..McpInstallArguments::default() };
        if let CatalogTransport::Program { argument: Some(argument), .. } = server.transport {
            let Some(given) = self.output.ask(&format!("{argument}: ")) else { return Ok(ExitCode::SUCCESS) };
            arguments.arguments = vec![given.trim().to_owned()];
        }
        self.install(&arguments)
    }
}
