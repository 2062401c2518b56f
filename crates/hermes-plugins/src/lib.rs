//! Extensions of the user: shell hooks, which are programs of the configuration, and plugins, which are folders with
//! Python code.
//!
//! Both run outside the sandbox, as programs the user chose: a hook only after its approval, a plugin only when it is
//! enabled. Invariants: nothing here fails a turn; every call has a time limit and bounded output; what runs ends with
//! Hermes; the secrets of `.env` are passed only where a plugin's manifest names them.

mod error;
mod hook_approvals;
mod hook_dispatcher;
mod plugin_folder;
mod plugin_host;
mod plugin_manifest;
mod plugin_process;
mod plugin_tool;
mod shell_hook;
mod shell_hook_runner;

pub use error::PluginError;
pub use hook_approvals::{HookApprovalState, HookApprovals};
pub use hook_dispatcher::{HookDispatcher, HookSources};
pub use plugin_folder::{FoundPlugin, PluginActivation, PluginOrigin, find_plugins};
pub use plugin_host::{
    LoadedPlugin, PluginCommand, PluginHost, PluginHostOptions, PluginMessage, PluginSurface, command_line,
};
pub use plugin_manifest::{PluginManifest, PluginVariable};
pub use shell_hook::{ShellHook, ShellHookSettings, TOOL_EVENTS};
pub use shell_hook_runner::{ShellHookRun, ShellHookRunner};
