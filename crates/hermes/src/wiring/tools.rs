//! Which tools a run has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::Config;
use hermes_config::settings::{CheckpointSettings, DelegationSettings, PlatformToolsets, SecuritySettings};
use hermes_store::Store;
use hermes_tools::{
    Checkpoints, Clarify, Delegate, FileGuard, FileOptions, Files, MemoryTool, Registry, Secrets, Selection,
    SessionSearch, Todo,
};
use hermes_types::{Clock, SideModel};

use super::Remembering;
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
}

/// The tools of the run, and toolsets nobody knows.
pub(crate) struct Chosen {
    pub(crate) all: Registry,
    pub(crate) registry: Registry,
    pub(crate) unknown: Vec<String>,
    pub(crate) hands: Option<Hands>,
}

pub(crate) fn choose(
    wish: &Wish<'_>,
    context: &Context,
    config: &Config,
    (store, clock, side): (&Store, &Arc<dyn Clock>, Option<SideModel>),
) -> Chosen {
    let (all, hands) = all(wish, context, config, (store, clock, side));
    let selected = all.select(&selection(wish.arguments, wish.platform, config));
    Chosen { all, registry: selected.registry, unknown: selected.unknown, hands }
}

fn all(
    wish: &Wish<'_>,
    context: &Context,
    config: &Config,
    (store, clock, side): (&Store, &Arc<dyn Clock>, Option<SideModel>),
) -> (Registry, Option<Hands>) {
    let guard = FileGuard::new(wish.folder.clone(), wish.user_home.clone(), &context.home);
    let files = Files::new(guard, file_options(context, config, &wish.user_home))
        .with_checkpoints(wish.checkpoints.clone());
    let files = files.with_linter(Arc::new(Checkers::new(&context.env, clock.clone())));
    let mut registry = Registry::file_tools(&files);
    let shared = Shared {
        arguments: wish.arguments,
        user_home: wish.user_home.clone(),
        folders: files.folders().clone(),
        secrets: secrets(context, config),
        checkpoints: wish.checkpoints.clone(),
        clock: clock.clone(),
    };
    let hands = hands::register(&mut registry, shared, context, config);
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
    (registry, hands)
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
    (settings.enabled || arguments.checkpoints)
        .then(|| Arc::new(Checkpoints::new(&context.home, user_home, clock.clone(), settings.max_snapshots)))
}

/// Whether secrets are masked before a model sees them.
fn secrets(context: &Context, config: &Config) -> Secrets {
    let masked = SecuritySettings::resolve(config, &context.env).redact_secrets;
    if masked { Secrets::Mask } else { Secrets::Show }
}
