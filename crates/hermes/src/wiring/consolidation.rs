//! Tidies the memory files: in idle time of the gateway, beside a terminal chat, or when a person asks.

use std::sync::Arc;

use anyhow::Result;
use hermes_agent::ConsolidationAdviser;
use hermes_config::settings::MemorySettings;
use hermes_config::{Config, ProgramSurface};
use hermes_knowledge::{
    ConsolidationPlan, ConsolidationRequest, ConsolidationSchedule, ConsolidationTarget, MemoryAuthor,
    MemoryFile, MemoryStore,
};
use hermes_model::provider::ProviderChoice;
use hermes_store::Store;
use hermes_types::{Cancel, Clock};

use super::model::choose_models;
use super::program_runtime::ProgramConfig;
use super::settings::{MemoryStores, memory_limits};

/// Proposals about memory files, which are applied one by one.
pub(crate) struct ConsolidationPass<'a> {
    from: ProgramConfig<'a>,
    adviser: ConsolidationAdviser,
    clock: Arc<dyn Clock>,
}

/// A proposal about a file, of which something can be accepted.
pub(crate) struct ConsolidationProposal {
    pub(crate) file: MemoryFile,
    pub(crate) request: ConsolidationRequest,
    pub(crate) after: Vec<String>,
    store: MemoryStore,
    plan: ConsolidationPlan,
}

impl ConsolidationProposal {
    /// Applies the proposal. Returns whether something changed.
    pub(crate) fn apply(&self) -> Result<bool> {
        Ok(self.store.consolidate(self.file, &self.request.entries, &self.plan)?.is_some())
    }
}

impl<'a> ConsolidationPass<'a> {
    /// Returns `None` where no model can be asked.
    pub(crate) fn new(
        from: ProgramConfig<'a>,
        surface: ProgramSurface,
        store: &Store,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>> {
        let models = choose_models(&ProviderChoice::default(), from, surface, clock, store)?;
        if models.is_offline() {
            return Ok(None);
        }
        let adviser = ConsolidationAdviser::new(models.for_turn(), store.clone(), clock.clone());
        Ok(Some(Self { from, adviser, clock: clock.clone() }))
    }

    /// Asks about one file. Returns `None` where there is nothing to tidy.
    pub(crate) async fn propose(
        &self,
        target: &ConsolidationTarget,
        cancel: &Cancel,
    ) -> Result<Option<ConsolidationProposal>> {
        let store = MemoryStore::in_folder(target.folder.clone(), memory_limits(self.from.config))
            .recorded(MemoryAuthor::Consolidation, self.clock.clone());
        let Some(request) = store.consolidation_request(target.file) else { return Ok(None) };
        let plan = self.adviser.propose(&request, cancel).await?;
        let after = store.consolidated(target.file, &request.entries, &plan);
        Ok(after.map(|after| ConsolidationProposal { file: target.file, request, after, store, plan }))
    }
}

/// Returns the files that may be tidied and changed since they were.
pub(crate) fn targets(from: ProgramConfig<'_>) -> Vec<ConsolidationTarget> {
    let home = &from.context.home;
    let stores = MemoryStores::open(hermes_agent::ContextFiles::Load, from);
    let is_used = |target: &ConsolidationTarget| match target.file {
        MemoryFile::Memory => stores.notes.is_some() && stores.rules.notes_elsewhere.is_none(),
        MemoryFile::User => stores.profile.is_some() && stores.rules.profile_elsewhere.is_none(),
    };
    ConsolidationSchedule::load(home).changed_files(home).into_iter().filter(is_used).collect()
}

/// Tells whether a pass may run by itself now.
pub(crate) fn is_due(from: ProgramConfig<'_>, clock: &dyn Clock) -> bool {
    is_wanted(from.config)
        && ConsolidationSchedule::load(&from.context.home).is_due(clock.now())
        && !targets(from).is_empty()
}

/// Where each change needs an approval, nobody could give it.
fn is_wanted(config: &Config) -> bool {
    config.flag("memory.consolidation.enabled") && !MemorySettings::from_config(config).write_approval
}

/// Tidies what changed. A failure is logged, and another pass comes the next day.
pub(crate) async fn run(
    from: ProgramConfig<'_>,
    surface: ProgramSurface,
    store: &Store,
    clock: &Arc<dyn Clock>,
    cancel: &Cancel,
) {
    let home = &from.context.home;
    let schedule = ConsolidationSchedule::load(home);
    let mut done = Vec::new();
    match ConsolidationPass::new(from, surface, store, clock) {
        Ok(Some(pass)) => {
            for target in targets(from) {
                match pass.propose(&target, cancel).await.and_then(|found| match found {
                    Some(proposal) => proposal.apply(),
                    None => Ok(false),
                }) {
                    Ok(has_changed) => {
                        if has_changed {
                            let file = target.folder.display();
                            tracing::info!(%file, "a memory file was tidied; `hermes memory log` lists the change");
                        }
                        done.push(target);
                    }
                    Err(error) => {
                        tracing::warn!(error = format!("{error:#}"), "the memory was not tidied");
                        break;
                    }
                }
            }
        }
        Ok(None) => return,
        Err(error) => tracing::warn!(error = format!("{error:#}"), "the memory was not tidied"),
    }
    if let Err(error) = schedule.record(home, clock.now(), &done) {
        tracing::warn!(%error, "that the memory was tidied was not written");
    }
}
