//! Scripts of the model: what they run with, and the tools they may call.

use std::path::Path;
use std::sync::Arc;

use hermes_config::settings::{CodeMode as ConfiguredMode, CodeSettings, TerminalSettings};
use hermes_config::{Config, precedence};
use hermes_exec::{Scripts, Variables};
use hermes_tools::{CodeMode, CodeOptions, ExecuteCode, Folders, Registry, Secrets, ToolChoice};
use hermes_types::Clock;

use super::fence;
use crate::context::Context;

const TOOLSET: &str = "code_execution";

/// What `execute_code` is made of, whichever tools it may call.
pub(crate) struct Coding {
    options: CodeOptions,
    scripts: Scripts,
    folders: Folders,
    clock: Arc<dyn Clock>,
}

impl Coding {
    pub(crate) fn new(
        (context, config): (&Context, &Config),
        user_home: &Path,
        folders: Folders,
        secrets: Secrets,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (code, terminal) =
            (CodeSettings::from_config(config), TerminalSettings::resolve(config, &context.env));
        let options = CodeOptions {
            mode: match code.mode {
                ConfiguredMode::Project => CodeMode::Project,
                ConfiguredMode::Strict => CodeMode::Strict,
            },
            timeout: code.timeout,
            most_calls: code.max_tool_calls,
            python: code.python,
            hermes_home: context.home.path().to_owned(),
            temp: fence::temporary(context),
            variables: Variables::for_scripts(
                context.env.inherited(&terminal.env_passthrough),
                &terminal.env_passthrough,
            ),
            timezone: precedence::timezone(config, &context.env),
            secrets,
        };
        let scripts = Scripts::new(fence::sandbox(&terminal, user_home, context), clock.clone());
        Self { options, scripts, folders, clock }
    }

    /// Adds the tool. Its scripts may call what `registry` has, or, where that is nothing, what `all` has.
    pub(crate) fn register(&self, registry: &mut Registry, all: &Registry) {
        let tools = ToolChoice { session: registry.tools(), all: all.tools() };
        let (folders, scripts) = (self.folders.clone(), self.scripts.clone());
        let tool = ExecuteCode::new(self.options.clone(), tools, folders, scripts, self.clock.clone());
        registry.register(TOOLSET, Arc::new(tool), None);
    }
}
