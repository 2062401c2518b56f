//! `hermes mcp configure`: which tools of a server are offered, and the approval of new and changed ones.

use std::process::ExitCode;

use anyhow::Result;
use hermes_config::set;
use hermes_config::settings::McpServer;
use hermes_config::yaml::YamlValue;
use hermes_mcp::ProbedServer;

use super::selection::choose_tools;
use super::{McpCommands, key};
use crate::output::Confirmation;

impl McpCommands<'_> {
    pub(super) fn configure(&self, name: &str) -> Result<ExitCode> {
        let server = self.find(name)?;
        if !self.output.can_ask() {
            self.output.error("this command asks questions; run it in a terminal");
            return Ok(ExitCode::FAILURE);
        }
        let probed = match self.probe(&server)? {
            Ok(probed) => probed,
            Err(error) => {
                self.output.line(&format!("✗ Not connected: {error}. Nothing was changed."));
                return Ok(ExitCode::FAILURE);
            }
        };
        self.approve(&server, &probed)?;
        let tools = probed.tools();
        let Some(chosen) = choose_tools(&tools, |tool| server.offers(tool), self.output) else {
            self.output.line("The choice of tools was not changed.");
            return Ok(ExitCode::SUCCESS);
        };
        let (home, management) = (&self.context.home, self.management());
        set::remove_value(home, management, &key(name, &["tools", "exclude"]))?;
        if chosen.len() == tools.len() {
            set::remove_value(home, management, &key(name, &["tools", "include"]))?;
            self.output.line(&format!("✓ All {} tools of {name} are offered", tools.len()));
        } else if chosen.is_empty() {
            // An empty list would be no filter.
            set::set_value(home, management, &key(name, &["tools", "native"]), &YamlValue::Bool(false))?;
            self.output.line(&format!("✓ No tool of {name} is offered"));
            return Ok(ExitCode::SUCCESS);
        } else {
            let list = YamlValue::Seq(chosen.iter().cloned().map(YamlValue::Str).collect());
            set::set_value(home, management, &key(name, &["tools", "include"]), &list)?;
            self.output.line(&format!("✓ {} of {} tools of {name} are offered", chosen.len(), tools.len()));
        }
        if !server.native {
            set::remove_value(home, management, &key(name, &["tools", "native"]))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Shows the tools that are new or changed and asks whether they may be offered.
    fn approve(&self, server: &McpServer, probed: &ProbedServer) -> Result<()> {
        let waiting: Vec<_> = probed.tools().into_iter().filter(|tool| tool.needs_approval).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.output.line("New or changed since you approved the tools of this server, or suspicious:\n");
        for tool in &waiting {
            self.output.line(&format!(
                "{}\n{}\n",
                tool.name,
                hermes_text::escape_terminal(&tool.description)
            ));
        }
        let question = format!("Approve these {} tools as they are now?", waiting.len());
        if self.output.confirm(&question) == Confirmation::Yes {
            probed.approve_all(server)?;
            self.output.line("✓ Approved");
        }
        Ok(())
    }
}
