//! Tidies a memory file: what says the same becomes one entry, and what a later entry contradicts is marked.
//!
//! A model proposes, and the program decides. Invariants: an entry of the person is neither merged with nor doubted because of one that
//! came from the words of others; a merged entry keeps the origins of all that it replaces; a file that was changed meanwhile, or of
//! which more than half would go, stays as it is; each pass is one recorded change, which can be undone.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hermes_text::strip_think;
use serde::Deserialize;

use crate::memory::{
    MemoryChange, MemoryFile, MemoryRefusal, MemoryState, MemoryStore, as_entry, check_words, length,
};
use crate::memory_origin::{self, Origins};

const INSTRUCTION: &str = include_str!("texts/consolidate.md").trim_ascii();
/// The number of entries from which a file is worth tidying.
const MIN_ENTRIES: usize = 4;
/// What is added to an entry that a later one contradicts.
const DOUBT: &str = " (in doubt: a later note says otherwise)";

/// A request to a model for a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidationRequest {
    pub system: &'static str,
    pub text: String,
    /// The entries that it is about.
    pub entries: Vec<String>,
}

/// What a model proposes, by the numbers of the entries, from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ConsolidationPlan {
    #[serde(default)]
    pub merges: Vec<MergedNotes>,
    #[serde(default)]
    pub contradictions: Vec<ContradictedNote>,
}

/// Entries that become one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MergedNotes {
    pub notes: Vec<usize>,
    pub text: String,
}

/// An entry that a later one contradicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ContradictedNote {
    pub older: usize,
    pub newer: usize,
}

/// The result of a pass: the entries before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidatedFile {
    pub before: Vec<String>,
    pub state: MemoryState,
}

impl ConsolidationPlan {
    /// Parses the answer of a model. Returns `None` for what is no proposal.
    pub fn parse(answer: &str) -> Option<Self> {
        let answer = strip_think(answer);
        let (start, end) = (answer.find('{')?, answer.rfind('}')?);
        serde_json::from_str(answer.get(start..=end)?).ok()
    }
}

impl MemoryStore {
    /// Returns the request for a proposal about a file; `None` where there is nothing to tidy.
    pub fn consolidation_request(&self, target: MemoryFile) -> Option<ConsolidationRequest> {
        let entries = self.entries(target);
        if entries.len() < MIN_ENTRIES {
            return None;
        }
        let mut text = String::new();
        for (at, entry) in entries.iter().enumerate() {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{}. {}", at + 1, hermes_text::single_line(entry));
        }
        Some(ConsolidationRequest { system: INSTRUCTION, text, entries })
    }

    /// Returns the entries after what can be accepted of a proposal; `None` where that is nothing. Nothing is written.
    pub fn consolidated(
        &self,
        target: MemoryFile,
        seen: &[String],
        plan: &ConsolidationPlan,
    ) -> Option<Vec<String>> {
        let origins = memory_origin::read(self.folder(), target.file());
        let (after, _) = accept(seen, &origins, plan, self.limit(target))?;
        Some(after)
    }

    /// Applies what can be accepted of a proposal about these entries. Returns `None` where that is nothing.
    pub fn consolidate(
        &self,
        target: MemoryFile,
        seen: &[String],
        plan: &ConsolidationPlan,
    ) -> Result<Option<ConsolidatedFile>, MemoryRefusal> {
        let limit = self.limit(target);
        self.rewrite(target, |before, origins| {
            if before != seen {
                return Err(MemoryRefusal::Incomplete("The file was changed meanwhile."));
            }
            Ok(accept(before, origins, plan, limit))
        })
        .map(|changed| changed.map(|(before, state)| ConsolidatedFile { before, state }))
    }
}

/// Returns the entries and origins after what can be accepted.
fn accept(
    entries: &[String],
    origins: &Origins,
    plan: &ConsolidationPlan,
    limit: usize,
) -> Option<(Vec<String>, Origins)> {
    let mut after: Vec<Option<String>> = entries.iter().cloned().map(Some).collect();
    let mut origins = origins.clone();
    let mut used = BTreeSet::new();
    let entry = |number: usize| number.checked_sub(1).and_then(|at| entries.get(at));
    for merge in &plan.merges {
        let numbers: BTreeSet<usize> = merge.notes.iter().copied().collect();
        let notes: Vec<&String> = numbers.iter().filter_map(|number| entry(*number)).collect();
        let text = as_entry(&merge.text);
        let is_whole = notes.len() == merge.notes.len() && notes.len() > 1 && used.is_disjoint(&numbers);
        let sources: Vec<&String> = notes.iter().filter_map(|note| origins.get(*note)).collect();
        // What others wrote must not get into the words of the person.
        let is_one_kind = sources.is_empty() || sources.len() == notes.len();
        let most: usize = notes.iter().map(|note| note.chars().count()).sum();
        let is_sound = !text.is_empty()
            && text.chars().count() <= most
            && check_words(&MemoryChange::Add { content: text.clone() }).is_ok();
        let Some(last) = numbers.last().filter(|_| is_whole && is_one_kind && is_sound) else { continue };
        let mut named: Vec<String> = Vec::new();
        for source in sources.into_iter().flat_map(|source| source.split(", ")) {
            if !named.iter().any(|known| known == source) {
                named.push(source.to_owned());
            }
        }
        if let Some(origin) = memory_origin::describe(&named) {
            origins.insert(text.clone(), origin);
        }
        for number in &numbers {
            if let Some(place) = number.checked_sub(1).and_then(|at| after.get_mut(at)) {
                *place = (number == last).then(|| text.clone());
            }
        }
        used.extend(numbers);
    }
    for ContradictedNote { older, newer } in &plan.contradictions {
        let (Some(old), Some(new)) = (entry(*older), entry(*newer)) else { continue };
        let is_later = older < newer && !used.contains(older) && !used.contains(newer);
        let is_of_others = origins.contains_key(new) && !origins.contains_key(old);
        let Some(place) = older.checked_sub(1).and_then(|at| after.get_mut(at)) else { continue };
        if !is_later || is_of_others || old.ends_with(DOUBT) {
            continue;
        }
        let marked = format!("{old}{DOUBT}");
        if let Some(origin) = origins.get(old).cloned() {
            origins.insert(marked.clone(), origin);
        }
        *place = Some(marked);
        used.extend([*older, *newer]);
    }
    let mut kept: Vec<String> = Vec::new();
    for entry in after.into_iter().flatten() {
        if !kept.contains(&entry) {
            kept.push(entry);
        }
    }
    let too_few = kept.len() * 2 < entries.len();
    let too_long = length(&kept) > limit && length(&kept) > length(entries);
    if kept == entries || too_few || too_long {
        return None;
    }
    origins.retain(|entry, _| kept.contains(entry));
    Some((kept, origins))
}
