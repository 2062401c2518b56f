//! Selects the tools of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::settings::{
    CheckpointSettings, DelegationSettings, PlatformToolsets, SecuritySettings, TerminalSettings,
};
use hermes_config::{Config, ProgramSurface};
use hermes_schedule::{JobStore, Zone};
use hermes_store::Store;
use hermes_tools::{
    CheckpointManager, ClarifyTool, CronJobTool, DelegateTool, FileGuard, FileOptions, FileTools, MemoryTool,
    ProcessNotice, SecretMasking, SendMessageTool, SessionSearchTool, TaskFolders, TodoTool, ToolRegistry,
    ToolSelection,
};
use hermes_types::{Clock, MessageSender, SideModel};
use tokio::sync::mpsc::UnboundedReceiver;

use super::MemoryStores;
use super::code::CodeExecution;
use super::command_runtime::{self, CommandRuntime, CommandRuntimeSpec};
use super::programs::SourceCheckers;
use super::sandbox;
use crate::cli::ChatArguments;
use crate::context::{ProgramContext, local_time};

/// The inputs of the tools.
pub(crate) struct ToolsSpec<'a> {
    pub(crate) arguments: &'a ChatArguments,
    pub(crate) platform: &'a str,
    pub(crate) folder: PathBuf,
    pub(crate) user_home: PathBuf,
    pub(crate) memory_stores: &'a MemoryStores,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
    /// The model that decides about dangerous commands in smart mode.
    pub(crate) judge: Option<SideModel>,
    pub(crate) surface: ProgramSurface,
    /// The command runtime of another agent of this process.
    pub(crate) command_runtime: Option<CommandRuntime>,
    /// The toolsets this run does not get.
    pub(crate) excluded_toolsets: &'a [&'a str],
    /// The sender for messages to chats, if there is one.
    pub(crate) message_sender: Option<Arc<dyn MessageSender>>,
}

/// The tools of the run, and the unknown toolsets.
pub(crate) struct RunTools {
    pub(crate) all: ToolRegistry,
    pub(crate) registry: ToolRegistry,
    pub(crate) unknown_toolsets: Vec<String>,
    pub(crate) command_runtime: CommandRuntime,
    /// The notices of background processes; `None` for a shared command runtime, whose owner gets them.
    pub(crate) notices: Option<UnboundedReceiver<ProcessNotice>>,
}

pub(crate) fn select_tools(
    wish: &ToolsSpec<'_>,
    context: &ProgramContext,
    config: &Config,
    (store, clock, side): (&Store, &Arc<dyn Clock>, Option<SideModel>),
) -> RunTools {
    let (mut all, hands, notices, coding) = all_tools(wish, context, config, (store, clock, side));
    coding.register(&mut all, &ToolRegistry::new());
    let mut selected = all.select(&selection(wish.arguments, wish.platform, config));
    if !wish.excluded_toolsets.is_empty() {
        let without = wish.excluded_toolsets.iter().map(|name| (*name).to_owned()).collect();
        selected.registry = selected.registry.select(&ToolSelection::Without(without)).registry;
    }
    if selected.registry.find("execute_code").is_some() {
        // Its scripts may call the tools of the session, and the model reads of no others.
        coding.register(&mut selected.registry, &all);
    }
    RunTools {
        all,
        registry: selected.registry,
        unknown_toolsets: selected.unknown,
        command_runtime: hands,
        notices,
    }
}

fn all_tools(
    wish: &ToolsSpec<'_>,
    context: &ProgramContext,
    config: &Config,
    (store, clock, side): (&Store, &Arc<dyn Clock>, Option<SideModel>),
) -> (ToolRegistry, CommandRuntime, Option<UnboundedReceiver<ProcessNotice>>, CodeExecution) {
    let guard = FileGuard::new(wish.folder.clone(), wish.user_home.clone(), &context.home);
    let shared = CommandRuntimeSpec {
        arguments: wish.arguments,
        user_home: wish.user_home.clone(),
        folder: &wish.folder,
        folders: match &wish.command_runtime {
            Some(hands) => hands.folders.clone(),
            None => TaskFolders::new(wish.folder.clone()),
        },
        secrets: secrets(context, config),
        checkpoints: wish.checkpoints.clone(),
        judge: wish.judge.clone(),
        surface: wish.surface,
        clock: clock.clone(),
    };
    let (hands, notices) = if let Some(hands) = wish.command_runtime.clone() {
        (hands, None)
    } else {
        let (hands, notices) = CommandRuntime::open(&shared, context, config);
        (hands, Some(notices))
    };
    let files = FileTools::new(guard, file_options(context, config, &wish.user_home))
        .with_folders(shared.folders.clone())
        .with_shells(hands.shells.clone())
        .with_checkpoints(wish.checkpoints.clone());
    let settings = TerminalSettings::resolve(config, &context.env);
    let sandbox = sandbox::sandbox(&settings, &wish.user_home, context);
    let files = files
        .with_linter(Arc::new(SourceCheckers::new(
            &context.env,
            clock.clone(),
            sandbox.clone(),
            sandbox::temp_folder(context),
        )))
        .with_sandbox(sandbox.clone())
        .with_approvals(hands.approvals.clone());
    let shared_folders = files.folders().clone();
    let mut registry = ToolRegistry::file_tools(&files);
    let coding = CodeExecution::new(
        (context, config),
        &wish.user_home,
        files.folders().clone(),
        secrets(context, config),
        clock.clone(),
    );
    command_runtime::register(&mut registry, &hands, shared, context, config);
    registry.register("todo", Arc::new(TodoTool::new()), None);
    if wish.memory_stores.notes.is_some() || wish.memory_stores.profile.is_some() {
        let memory = MemoryTool::new(wish.memory_stores.notes.clone(), wish.memory_stores.profile.clone());
        registry.register("memory", Arc::new(memory), None);
    }
    let mut search = SessionSearchTool::new(Some(store.clone()), clock.clone(), local_time);
    if let Some(side) = side {
        search = search.with_summaries(side);
    }
    registry.register("session_search", Arc::new(search), None);
    registry.register("clarify", Arc::new(ClarifyTool::new()), None);
    let delegation = DelegationSettings::from_config(config);
    registry.register("delegation", Arc::new(DelegateTool::new(delegation.max_iterations)), None);
    let jobs = JobStore::new(context.home.clone(), Zone::configured(config, &context.env));
    registry.register(
        "cronjob",
        Arc::new(
            CronJobTool::new(jobs, store.clone(), clock.clone())
                .with_sandbox(sandbox.clone(), shared_folders),
        ),
        None,
    );
    if let Some(courier) = &wish.message_sender {
        registry.register("messaging", Arc::new(SendMessageTool::new(courier.clone())), None);
    }
    (registry, hands, notices, coding)
}

fn selection(arguments: &ChatArguments, platform: &str, config: &Config) -> ToolSelection {
    let named: Vec<String> = arguments
        .toolsets
        .as_deref()
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if named.is_empty() {
        return ToolSelection::Platform(PlatformToolsets::of(config, platform));
    }
    ToolSelection::Only(named)
}

fn file_options(context: &ProgramContext, config: &Config, user_home: &Path) -> FileOptions {
    let usual = FileOptions::default();
    let read_chars = config
        .int("file_read_max_chars")
        .and_then(|chars| usize::try_from(chars).ok())
        .filter(|chars| *chars > 0)
        .unwrap_or(usual.read_chars);
    let write_roots = context
        .env
        .get("HERMES_WRITE_SAFE_ROOT")
        .map(|roots| FileOptions::roots(roots, user_home))
        .unwrap_or_default();
    FileOptions { secrets: secrets(context, config), read_chars, write_roots, ..usual }
}

pub(crate) fn checkpoints(
    arguments: &ChatArguments,
    context: &ProgramContext,
    config: &Config,
    user_home: PathBuf,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<CheckpointManager>> {
    let settings = CheckpointSettings::from_config(config);
    (settings.enabled || arguments.checkpoints).then(|| {
        let checkpoints =
            CheckpointManager::new(&context.home, user_home, clock.clone(), settings.max_snapshots);
        Arc::new(checkpoints.with_max_file_size(settings.max_file_bytes))
    })
}

/// Tells whether secrets are masked before a model sees them.
fn secrets(context: &ProgramContext, config: &Config) -> SecretMasking {
    let masked = SecuritySettings::resolve(config, &context.env).redact_secrets;
    if masked { SecretMasking::Mask } else { SecretMasking::Show }
}
