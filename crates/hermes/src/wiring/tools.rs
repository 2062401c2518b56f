//! Builds the tools of an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::settings::{CheckpointSettings, DelegationSettings, SecuritySettings, TerminalSettings};
use hermes_config::user_home;
use hermes_exec::ProgramRunner;
use hermes_schedule::{JobStore, Zone};
use hermes_tools::{
    BrowserTool, CheckpointManager, ClarifyTool, CronJobTool, DelegateTool, ExecuteCodeTool, FileGuard,
    FileOptions, FileTools, HomeAssistantTool, ImageTool, InlineShell, MemoryTool, MixtureModels,
    MixtureTool, PlatformToolsets, RlTool, SecretMasking, SelectedTools, SendMessageTool, SessionSearchTool,
    SkillManageTool, SkillSource, SkillViewTool, SkillsListTool, SpeechTool, TOOL_SEARCH_TOOLSET, TodoTool,
    ToolRegistry, ToolSelection, VisionTool, WebExtractTool, WebSearchTool, defer_tools, is_of_server,
};
use hermes_types::{Clock, SideModel, Tool};

use super::agent_spec::{AgentSpec, CheckpointMode};
use super::code::CodeExecution;
use super::command_runtime::CommandTools;
use super::mcp;
use super::program_runtime::{ProgramConfig, ProgramRuntime};
use super::programs::SourceCheckers;
use super::settings::MemoryStores;
use super::training;
use super::web;
use super::{child_variables, sandbox, working_folder};
use crate::context::local_time;

/// The parts that the tools of one agent share with its prompt and its frontend.
pub(crate) struct ToolParts<'a> {
    pub(crate) folder: PathBuf,
    pub(crate) user_home: PathBuf,
    pub(crate) memory_stores: &'a MemoryStores,
    /// The tools of the memory service.
    pub(crate) service_tools: Vec<Arc<dyn Tool>>,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
    /// The model for side tasks, when not the main one.
    pub(crate) side: Option<SideModel>,
    /// The model that describes pictures.
    pub(crate) vision: Option<SideModel>,
    /// The models of `mixture_of_agents`.
    pub(crate) mixture: Option<MixtureModels>,
}

/// The tools of an agent, and the unknown toolsets.
pub(crate) struct AgentTools {
    /// Every available tool, selected or not.
    pub(crate) all: ToolRegistry,
    pub(crate) registry: ToolRegistry,
    pub(crate) unknown_toolsets: Vec<String>,
}

/// Builds the tools, and selects those of the agent.
pub(crate) fn select_tools(
    runtime: &ProgramRuntime,
    spec: &AgentSpec,
    parts: ToolParts<'_>,
    from: ProgramConfig<'_>,
) -> AgentTools {
    let shells = runtime.command_runtime.shells.clone();
    let folders = runtime.command_runtime.folders.clone();
    let coding = CodeExecution::new(from, &parts.user_home, folders, secrets(from), runtime.clock.clone())
        .with_task_variables(shells.variables().clone());
    let mut all = all_tools(runtime, parts, from);
    register_skills(&mut all, spec, runtime, from);
    coding.register(&mut all, &ToolRegistry::new());
    register_plugins(&mut all, runtime);
    let all = all.with_server_tools(runtime.mcp.tools());
    let SelectedTools { mut registry, unknown } = all.select(&selection(spec, from), spec.tool_user);
    if registry.find(ExecuteCodeTool::NAME).is_some() {
        // Its scripts may call the tools of the session, and the model reads of no others.
        coding.register(&mut registry, &all);
    }
    let registry = defer_tools(&registry, mcp::search_options(from));
    AgentTools { all, registry, unknown_toolsets: unknown }
}

fn selection(spec: &AgentSpec, from: ProgramConfig<'_>) -> ToolSelection {
    match spec.toolsets.as_slice() {
        [] => ToolSelection::Platform(PlatformToolsets::of(from.config, &spec.platform)),
        named => ToolSelection::Only(named.to_vec()),
    }
}

/// Returns the tools of an agent with the present tools of MCP servers; its other tools, and their state, stay.
pub(crate) fn with_present_servers(
    runtime: &ProgramRuntime,
    spec: &AgentSpec,
    tools: &[Arc<dyn Tool>],
    all: &ToolRegistry,
    from: ProgramConfig<'_>,
) -> AgentTools {
    let all = all.with_server_tools(runtime.mcp.tools());
    let SelectedTools { registry: selected, unknown } = all.select(&selection(spec, from), spec.tool_user);
    let of_servers = selected.tools().iter().filter(|tool| is_of_server(&tool.descriptor()));
    let is_own = |tool: &&Arc<dyn Tool>| {
        let descriptor = tool.descriptor();
        !is_of_server(&descriptor) && descriptor.toolset != TOOL_SEARCH_TOOLSET
    };
    let own = ToolRegistry::of_registered(tools.iter().filter(is_own).chain(of_servers).cloned());
    let registry = defer_tools(&own, mcp::search_options(from));
    AgentTools { all, registry, unknown_toolsets: unknown }
}

fn all_tools(runtime: &ProgramRuntime, parts: ToolParts<'_>, from: ProgramConfig<'_>) -> ToolRegistry {
    let ProgramConfig { context, config } = from;
    let ToolParts { folder, user_home, memory_stores, service_tools, checkpoints, side, vision, mixture } =
        parts;
    let ProgramRuntime { store, clock, command_runtime, message_sender, .. } = runtime;
    let settings = TerminalSettings::resolve(config, &context.env);
    let sandbox = sandbox::sandbox(&settings, &user_home, context);
    let linter =
        SourceCheckers::new(&context.env, clock.clone(), sandbox.clone(), sandbox::temp_folder(context));
    let guard = FileGuard::new(folder, user_home.clone(), &context.home);
    let files = FileTools::new(guard, file_options(from, &user_home))
        .with_folders(command_runtime.folders.clone())
        .with_shells(command_runtime.shells.clone())
        .with_checkpoints(checkpoints.clone())
        .with_linter(Arc::new(linter))
        .with_sandbox(sandbox.clone())
        .with_approvals(command_runtime.approvals.clone());
    let mut registry = ToolRegistry::file_tools(&files);
    let commands = CommandTools { user_home, secrets: secrets(from), checkpoints };
    command_runtime.register(&mut registry, commands, clock, from);
    registry.register(Arc::new(TodoTool::new()));
    if memory_stores.notes.is_some() || memory_stores.profile.is_some() {
        let memory = MemoryTool::new(memory_stores.notes.clone(), memory_stores.profile.clone());
        registry.register(Arc::new(memory.with_rules(memory_stores.rules)));
    }
    for tool in service_tools {
        registry.register(tool);
    }
    let mut search = SessionSearchTool::new(Some(store.clone()), clock.clone(), local_time);
    if let Some(side) = side {
        search = search.with_summaries(side);
    }
    registry.register(Arc::new(search));
    registry.register(Arc::new(ClarifyTool::new()));
    let delegation = DelegationSettings::from_config(config);
    registry.register(Arc::new(DelegateTool::new(delegation.max_iterations)));
    let jobs = JobStore::new(context.home.clone(), Zone::configured(config, &context.env));
    let jobs = CronJobTool::new(jobs, store.clone(), clock.clone());
    registry.register(Arc::new(jobs.with_sandbox(sandbox, files.folders().clone())));
    if let Some(sender) = message_sender {
        registry.register(Arc::new(SendMessageTool::new(sender.clone())));
    }
    register_web(&mut registry, clock, from);
    if let Some(access) = web::home_assistant(clock, from) {
        for tool in HomeAssistantTool::all(&access) {
            registry.register(Arc::new(tool));
        }
    }
    if let Some(access) = training::trainer(clock, from) {
        for tool in RlTool::all(&access, &command_runtime.training) {
            registry.register(Arc::new(tool));
        }
    }
    let maker = web::image_maker(clock, from);
    let can_draw = ImageTool::is_usable(&maker);
    registry.register_checked(Arc::new(ImageTool::new(maker)), Arc::new(move || can_draw));
    let speaker = web::speaker(runtime.surface, clock, from);
    let can_speak = SpeechTool::is_usable(&speaker);
    registry.register_checked(Arc::new(SpeechTool::new(speaker)), Arc::new(move || can_speak));
    let can_mix = mixture.is_some();
    let mixer = MixtureTool::new(mixture, store.clone(), clock.clone());
    registry.register_checked(Arc::new(mixer), Arc::new(move || can_mix));
    let can_see = vision.is_some();
    let reader = vision.map(|side| web::picture_reader(side, store, clock, from));
    let browser = web::browser_access(&command_runtime.browsers, reader.clone(), &files, clock, from);
    for tool in BrowserTool::all(&Arc::new(browser)) {
        let tool = Arc::new(tool);
        let checked = tool.clone();
        registry.register_checked(tool, Arc::new(move || checked.is_usable()));
    }
    let vision = VisionTool::new(files, reader);
    registry.register_checked(Arc::new(vision), Arc::new(move || can_see));
    registry
}

/// Adds the web tools, each of which is offered only if what is configured for it can be used.
fn register_web(registry: &mut ToolRegistry, clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) {
    let access = web::access(clock, from);
    let (can_search, can_extract) = (WebSearchTool::is_usable(&access), WebExtractTool::is_usable(&access));
    registry.register_checked(Arc::new(WebSearchTool::new(access.clone())), Arc::new(move || can_search));
    registry.register_checked(Arc::new(WebExtractTool::new(access)), Arc::new(move || can_extract));
}

/// Returns the tools of an agent with those of the plugins that were loaded after it was built.
pub(crate) fn with_plugins(
    runtime: &ProgramRuntime,
    spec: &AgentSpec,
    tools: &[Arc<dyn Tool>],
    all: &ToolRegistry,
    from: ProgramConfig<'_>,
) -> AgentTools {
    let mut all = all.clone();
    register_plugins(&mut all, runtime);
    let SelectedTools { registry: selected, unknown } = all.select(&selection(spec, from), spec.tool_user);
    let is_there = |tool: &&Arc<dyn Tool>| tools.iter().any(|known| known.spec().name == tool.spec().name);
    let of_plugins: Vec<String> =
        runtime.extensions.plugins.tools().iter().map(|tool| tool.spec().name.clone()).collect();
    let added =
        selected.tools().iter().filter(|tool| !is_there(tool) && of_plugins.contains(&tool.spec().name));
    let registry = ToolRegistry::of_registered(tools.iter().chain(added).cloned());
    AgentTools { all, registry, unknown_toolsets: unknown }
}

/// Adds the tools of plugins. One whose name is taken is left out.
fn register_plugins(registry: &mut ToolRegistry, runtime: &ProgramRuntime) {
    for tool in runtime.extensions.plugins.tools() {
        let name = &tool.spec().name;
        if registry.find(name).is_some() {
            tracing::warn!(tool = name, "a tool of a plugin has the name of another tool and is left out");
        } else {
            registry.register(tool);
        }
    }
}

fn register_skills(
    registry: &mut ToolRegistry,
    spec: &AgentSpec,
    runtime: &ProgramRuntime,
    from: ProgramConfig<'_>,
) {
    let ProgramConfig { context, config } = from;
    let source = SkillSource {
        home: context.home.clone(),
        config: config.clone(),
        env: context.env.clone(),
        platform: spec.platform.clone(),
        backend: TerminalSettings::resolve(config, &context.env).backend,
        clock: runtime.clock.clone(),
    };
    let shells = &runtime.command_runtime.shells;
    let view = SkillViewTool::new(source.clone(), shells.variables().clone())
        .with_credentials(shells.credentials().cloned())
        .with_inline_shell(inline_shell(runtime, from));
    registry.register(Arc::new(SkillsListTool::new(source.clone())));
    registry.register(Arc::new(view));
    registry.register(Arc::new(SkillManageTool::new(source)));
}

/// Returns what runs the commands in texts of skills, if that is allowed.
fn inline_shell(runtime: &ProgramRuntime, from: ProgramConfig<'_>) -> Option<InlineShell> {
    let ProgramConfig { context, config } = from;
    if !config.flag("skills.inline_shell") {
        return None;
    }
    let settings = TerminalSettings::resolve(config, &context.env);
    // Commands that are meant for another machine do not run on this one.
    if !settings.is_local() {
        return None;
    }
    let folder = working_folder(context, config).ok()?;
    let sandbox = sandbox::sandbox(&settings, &user_home(&context.env).ok()?, context);
    let programs = ProgramRunner::new(child_variables(&context.env, &[]), runtime.clock.clone());
    let programs = programs.in_sandbox(sandbox, &folder);
    let limit = config.seconds("skills.inline_shell_timeout");
    Some(InlineShell::new(programs, folder, limit))
}

fn file_options(from: ProgramConfig<'_>, user_home: &Path) -> FileOptions {
    let usual = FileOptions::default();
    let read_chars = match from.config.count("file_read_max_chars") {
        0 => usual.read_chars,
        chars => chars,
    };
    let write_roots = from
        .context
        .env
        .get("HERMES_WRITE_SAFE_ROOT")
        .map(|roots| FileOptions::roots(roots, user_home))
        .unwrap_or_default();
    FileOptions { secrets: secrets(from), read_chars, write_roots, ..usual }
}

/// Returns the manager of checkpoints, if they are enabled.
pub(crate) fn checkpoints(
    mode: CheckpointMode,
    from: ProgramConfig<'_>,
    user_home: PathBuf,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<CheckpointManager>> {
    let settings = CheckpointSettings::from_config(from.config);
    (settings.enabled || mode == CheckpointMode::On).then(|| {
        let home = &from.context.home;
        let checkpoints = CheckpointManager::new(home, user_home, clock.clone(), settings.max_snapshots);
        Arc::new(checkpoints.with_max_file_size(settings.max_file_bytes))
    })
}

/// Tells whether secrets are masked before a model sees them.
fn secrets(from: ProgramConfig<'_>) -> SecretMasking {
    let masked = SecuritySettings::resolve(from.config, &from.context.env).redact_secrets;
    if masked { SecretMasking::Mask } else { SecretMasking::Show }
}
