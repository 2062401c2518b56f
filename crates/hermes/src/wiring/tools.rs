//! Which tools a run has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::settings::{
    CheckpointSettings, DelegationSettings, PlatformToolsets, SecuritySettings, TerminalSettings,
};
use hermes_config::{Config, Surface};
use hermes_schedule::{Jobs, Zone};
use hermes_store::Store;
use hermes_tools::{
    Checkpoints, Clarify, CronJob, Delegate, FileGuard, FileOptions, Files, Folders, MemoryTool, Notice,
    Registry, Secrets, Selection, SendMessage, SessionSearch, Todo,
};
use hermes_types::{Clock, Courier, SideModel};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Remembering;
use super::code::Coding;
use super::fence;
use super::hands::{self, Hands, Shared};
use super::programs::Checkers;
use crate::cli::ChatArguments;
use crate::context::{Context, local_time};

/// What the tools are made for.
pub(crate) struct Wish<'a> {
    pub(crate) arguments: &'a ChatArguments,
    pub(crate) platform: &'a str,
    pub(crate) folder: PathBuf,
    pub(crate) user_home: PathBuf,
    pub(crate) remembering: &'a Remembering,
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    /// Who decides about dangerous commands in smart mode.
    pub(crate) judge: Option<SideModel>,
    pub(crate) surface: Surface,
    /// Those of another agent of this process.
    pub(crate) hands: Option<Hands>,
    /// Toolsets this run goes without.
    pub(crate) without: &'a [&'a str],
    /// Who carries messages to chats, where somebody does.
    pub(crate) courier: Option<Arc<dyn Courier>>,
}

/// The tools of the run, and toolsets nobody knows.
pub(crate) struct Chosen {
    pub(crate) all: Registry,
    pub(crate) registry: Registry,
    pub(crate) unknown: Vec<String>,
    pub(crate) hands: Hands,
    /// What background processes have to say; whoever shares hands hears it elsewhere.
    pub(crate) notices: Option<UnboundedReceiver<Notice>>,
}

pub(crate) fn choose(
    wish: &Wish<'_>,
    context: &Context,
    config: &Config,
    (store, clock, side): (&Store, &Arc<dyn Clock>, Option<SideModel>),
) -> Chosen {
    let (mut all, hands, notices, coding) = all(wish, context, config, (store, clock, side));
    coding.register(&mut all, &Registry::new());
    let mut selected = all.select(&selection(wish.arguments, wish.platform, config));
    if !wish.without.is_empty() {
        let without = wish.without.iter().map(|name| (*name).to_owned()).collect();
        selected.registry = selected.registry.select(&Selection::Without(without)).registry;
    }
    if selected.registry.find("execute_code").is_some() {
        // Its scripts may call what the session has, and the model reads of no other.
        coding.register(&mut selected.registry, &all);
    }
    Chosen { all, registry: selected.registry, unknown: selected.unknown, hands, notices }
}

fn all(
    wish: &Wish<'_>,
    context: &Context,
    config: &Config,
    (store, clock, side): (&Store, &Arc<dyn Clock>, Option<SideModel>),
) -> (Registry, Hands, Option<UnboundedReceiver<Notice>>, Coding) {
    let guard = FileGuard::new(wish.folder.clone(), wish.user_home.clone(), &context.home);
    let shared = Shared {
        arguments: wish.arguments,
        user_home: wish.user_home.clone(),
        folder: &wish.folder,
        folders: match &wish.hands {
            Some(hands) => hands.folders.clone(),
            None => Folders::new(wish.folder.clone()),
        },
        secrets: secrets(context, config),
        checkpoints: wish.checkpoints.clone(),
        judge: wish.judge.clone(),
        surface: wish.surface,
        clock: clock.clone(),
    };
    let (hands, notices) = if let Some(hands) = wish.hands.clone() {
        (hands, None)
    } else {
        let (hands, notices) = Hands::open(&shared, context, config);
        (hands, Some(notices))
    };
    let files = Files::new(guard, file_options(context, config, &wish.user_home))
        .with_folders(shared.folders.clone())
        .with_shells(hands.shells.clone())
        .with_checkpoints(wish.checkpoints.clone());
    let settings = TerminalSettings::resolve(config, &context.env);
    let sandbox = fence::sandbox(&settings, &wish.user_home, context);
    let files = files
        .with_linter(Arc::new(Checkers::new(
            &context.env,
            clock.clone(),
            sandbox.clone(),
            fence::temporary(context),
        )))
        .with_sandbox(sandbox.clone())
        .with_approvals(hands.approvals.clone());
    let shared_folders = files.folders().clone();
    let mut registry = Registry::file_tools(&files);
    let coding = Coding::new(
        (context, config),
        &wish.user_home,
        files.folders().clone(),
        secrets(context, config),
        clock.clone(),
    );
    hands::register(&mut registry, &hands, shared, context, config);
    registry.register("todo", Arc::new(Todo::new()), None);
    if wish.remembering.notes.is_some() || wish.remembering.profile.is_some() {
        let memory = MemoryTool::new(wish.remembering.notes.clone(), wish.remembering.profile.clone());
        registry.register("memory", Arc::new(memory), None);
    }
    let mut search = SessionSearch::new(Some(store.clone()), clock.clone(), local_time);
    if let Some(side) = side {
        search = search.with_summaries(side);
    }
    registry.register("session_search", Arc::new(search), None);
    registry.register("clarify", Arc::new(Clarify::new()), None);
    let delegation = DelegationSettings::from_config(config);
    registry.register("delegation", Arc::new(Delegate::new(delegation.max_iterations)), None);
    let jobs = Jobs::new(context.home.clone(), Zone::configured(config, &context.env));
    registry.register(
        "cronjob",
        Arc::new(CronJob::new(jobs, store.clone(), clock.clone()).within(sandbox.clone(), shared_folders)),
        None,
    );
    if let Some(courier) = &wish.courier {
        registry.register("messaging", Arc::new(SendMessage::new(courier.clone())), None);
    }
    (registry, hands, notices, coding)
}

fn selection(arguments: &ChatArguments, platform: &str, config: &Config) -> Selection {
    let named: Vec<String> = arguments
        .toolsets
        .as_deref()
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if named.is_empty() {
        return Selection::Platform(PlatformToolsets::of(config, platform));
    }
    Selection::Only(named)
}

fn file_options(context: &Context, config: &Config, user_home: &Path) -> FileOptions {
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
    context: &Context,
    config: &Config,
    user_home: PathBuf,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<Checkpoints>> {
    let settings = CheckpointSettings::from_config(config);
    (settings.enabled || arguments.checkpoints).then(|| {
        let checkpoints = Checkpoints::new(&context.home, user_home, clock.clone(), settings.max_snapshots);
        Arc::new(checkpoints.without_larger_than(settings.max_file_bytes))
    })
}

/// Whether secrets are masked before a model sees them.
fn secrets(context: &Context, config: &Config) -> Secrets {
    let masked = SecuritySettings::resolve(config, &context.env).redact_secrets;
    if masked { Secrets::Mask } else { Secrets::Show }
}
