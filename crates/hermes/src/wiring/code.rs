//! Builds `execute_code`: how the model's scripts run, and which tools they may call.

use std::path::Path;
use std::sync::Arc;

use hermes_config::precedence;
use hermes_config::settings::{CodeMode as ConfiguredMode, CodeSettings, TerminalSettings};
use hermes_exec::{ScriptRunner, Variables};
use hermes_tools::{
    CallableTools, CodeExecutionMode, CodeOptions, ExecuteCodeTool, SecretMasking, TaskFolders,
    TaskVariables, ToolRegistry,
};
use hermes_types::Clock;

use super::program_runtime::ProgramConfig;
use super::sandbox;

/// The inputs of `execute_code`, apart from the tools it may call.
pub(crate) struct CodeExecution {
    options: CodeOptions,
    scripts: ScriptRunner,
    folders: TaskFolders,
    variables: TaskVariables,
    clock: Arc<dyn Clock>,
}

impl CodeExecution {
    pub(crate) fn new(
        from: ProgramConfig<'_>,
        user_home: &Path,
        folders: TaskFolders,
        secrets: SecretMasking,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let ProgramConfig { context, config } = from;
        let (code, terminal) =
            (CodeSettings::from_config(config), TerminalSettings::resolve(config, &context.env));
        let options = CodeOptions {
            mode: match code.mode {
                ConfiguredMode::Project => CodeExecutionMode::Project,
                ConfiguredMode::Strict => CodeExecutionMode::Strict,
            },
            timeout: code.timeout,
            most_calls: code.max_tool_calls,
            python: code.python,
            hermes_home: context.home.path().to_owned(),
            temp: sandbox::temp_folder(context),
            variables: Variables::for_scripts(
                context.env.child_variables(&terminal.env_passthrough),
                &terminal.env_passthrough,
            ),
            timezone: precedence::timezone(config, &context.env),
            secrets,
        };
        let scripts = ScriptRunner::new(sandbox::sandbox(&terminal, user_home, context), clock.clone());
        Self { options, scripts, folders, variables: TaskVariables::default(), clock }
    }

    /// Passes the variables of a task to its scripts.
    pub(crate) fn with_task_variables(self, variables: TaskVariables) -> Self {
        Self { variables, ..self }
    }

    /// Adds the tool. Its scripts may call the tools of `registry`, or those of `all` if `registry` has none.
    pub(crate) fn register(&self, registry: &mut ToolRegistry, all: &ToolRegistry) {
        let tools = CallableTools { session: registry.tools(), all: all.tools() };
        let (folders, scripts) = (self.folders.clone(), self.scripts.clone());
        let tool = ExecuteCodeTool::new(self.options.clone(), tools, folders, scripts, self.clock.clone());
        registry.register(Arc::new(tool.with_task_variables(self.variables.clone())));
    }
}
