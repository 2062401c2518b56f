//! Decides which prompts an invocation runs, and in which batches.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::checkpoint::RunCheckpoint;
use super::dataset::{Dataset, PromptHash, prompt_hash};
use super::options::{BatchOptions, ResumePolicy};
use super::records::each_record;
use crate::error::Error;

/// A prompt to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedPrompt {
    pub(super) batch: usize,
    pub(super) index: usize,
}

/// What an invocation does.
#[derive(Debug, Default)]
pub(super) struct BatchPlan {
    /// In the order in which they begin.
    pub(super) prompts: Vec<PlannedPrompt>,
    /// For each batch with something to do: how many prompts it has, and how many of them are done already.
    pub(super) batches: BTreeMap<usize, (usize, u64)>,
    /// The prompts that are done already.
    pub(super) done: usize,
}

/// Plans a run. `redact` is what is done to texts before they are written.
pub(super) fn plan(
    options: &BatchOptions,
    dataset: &Dataset,
    checkpoint: &mut RunCheckpoint,
    redact: Option<fn(&str) -> String>,
) -> Result<BatchPlan, Error> {
    let done = finished_prompts(options, dataset, checkpoint, redact)?;
    let mut plan = BatchPlan { done: done.iter().filter(|done| **done).count(), ..BatchPlan::default() };
    let is_done = |index: &usize| done.get(*index).copied().unwrap_or_default();
    let by_content = options.resume == ResumePolicy::ByContent && options.shard.is_none();
    let numbered: Vec<(usize, usize)> = if by_content {
        let left = (0..dataset.len()).filter(|index| !is_done(index)).enumerate();
        left.map(|(at, index)| (at / options.batch_size, index)).collect()
    } else {
        (0..dataset.len()).map(|index| (index / options.batch_size, index)).collect()
    };
    for (batch, index) in numbered {
        if options.shard.is_some_and(|shard| !shard.has(batch)) {
            continue;
        }
        let (left, skipped) = plan.batches.entry(batch).or_default();
        if is_done(&index) {
            *skipped += 1;
        } else {
            *left += 1;
            plan.prompts.push(PlannedPrompt { batch, index });
        }
    }
    plan.batches.retain(|_, (left, _)| *left > 0);
    Ok(plan)
}

/// Tells of each prompt whether it is done, and adds those with a record to the checkpoint.
fn finished_prompts(
    options: &BatchOptions,
    dataset: &Dataset,
    checkpoint: &mut RunCheckpoint,
    redact: Option<fn(&str) -> String>,
) -> Result<Vec<bool>, Error> {
    let entries = dataset.entries();
    let mut done: Vec<bool> =
        entries.iter().enumerate().map(|(index, entry)| checkpoint.has(index, &entry.hash)).collect();
    // What a record holds of a prompt, where texts are changed before they are written.
    let written: Option<Vec<PromptHash>> = match redact {
        None => None,
        Some(redact) => {
            let hash = |index| dataset.row(index).map(|row| prompt_hash(&redact(&row.identity)));
            Some((0..dataset.len()).map(hash).collect::<Result<_, _>>().map_err(Error::Unusable)?)
        }
    };
    let hash_of = |index: usize| match &written {
        Some(hashes) => hashes.get(index),
        None => entries.get(index).map(|entry| &entry.hash),
    };
    let mut elsewhere: HashMap<PromptHash, usize> = HashMap::new();
    each_record(&options.folder, |record| {
        match record.index.filter(|index| hash_of(*index) == Some(&record.hash)) {
            Some(index) => {
                if let Some(slot) = done.get_mut(index) {
                    *slot = true;
                    checkpoint.complete(index);
                }
            }
            None => *elsewhere.entry(record.hash).or_default() += 1,
        }
    })?;
    if options.resume == ResumePolicy::ByContent && options.shard.is_none() && !elsewhere.is_empty() {
        for index in 0..dataset.len() {
            if done.get(index).copied().unwrap_or(true) {
                continue;
            }
            let Some(left) = hash_of(index).and_then(|hash| elsewhere.get_mut(hash)) else { continue };
            if *left > 0 {
                *left -= 1;
                if let Some(slot) = done.get_mut(index) {
                    *slot = true;
                    checkpoint.complete(index);
                }
            }
        }
    }
    Ok(done)
}

/// Returns the path of the checkpoint.
pub(super) fn checkpoint_path(options: &BatchOptions) -> std::path::PathBuf {
    own_file(options, "checkpoint")
}

/// Returns the path of the statistics.
pub(super) fn statistics_path(options: &BatchOptions) -> std::path::PathBuf {
    own_file(options, "statistics")
}

fn own_file(options: &BatchOptions, name: &str) -> std::path::PathBuf {
    let suffix = options.shard.map(super::options::BatchShard::suffix).unwrap_or_default();
    Path::join(&options.folder, format!("{name}{suffix}.json"))
}
