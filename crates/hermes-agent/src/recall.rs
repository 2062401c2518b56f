//! The built-in memory of past conversations: finds what was said earlier about the words of a new message.
//!
//! It runs beside the start of a turn and has a time limit; a turn never waits longer, and never fails because of it.
//! Invariant: it reads only the conversations of the person it was made for.

use std::sync::Arc;
use std::time::Duration;

use hermes_knowledge::{MemoryFile, MemoryStore, Statement, choose_recalled, recall_words, render_recalled};
use hermes_store::{Error, PendingResult, RecallCandidate, RecallCandidates, RecallScope, Store};
use hermes_types::{BoxFuture, CivilTime, Clock, ExternalMemory, SessionId, Timestamp};

/// The longest time that a turn waits.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// Recalls from the transcripts of a home.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct TranscriptRecall {
    store: Store,
    clock: Arc<dyn Clock>,
    scope: RecallScope,
    profile: Option<MemoryStore>,
}

impl TranscriptRecall {
    pub fn new(store: Store, clock: Arc<dyn Clock>, scope: RecallScope) -> Self {
        Self { store, clock, scope, profile: None }
    }

    /// Adds the profile of the person who speaks to each message, for conversations that several people share: their
    /// prompt is the same for all of them.
    #[must_use]
    pub fn with_profile(self, profile: Option<MemoryStore>) -> Self {
        Self { profile, ..self }
    }

    /// Finds statements of earlier conversations about these words, and waits for them without a runtime.
    pub fn search_blocking(&self, words: &str) -> Result<Option<String>, Error> {
        let Some((wanted, pending)) = self.start_search(words, None) else { return Ok(None) };
        Ok(self.render(&wanted, pending.wait()?))
    }

    /// Starts the search for the words that say something; there may be none.
    fn start_search(
        &self,
        words: &str,
        current: Option<&SessionId>,
    ) -> Option<(Vec<String>, PendingResult<RecallCandidates>)> {
        let wanted = recall_words(words);
        if wanted.is_empty() || (self.scope.people.is_empty() && self.scope.own_sources.is_empty()) {
            return None;
        }
        let scope = RecallScope { current: current.cloned(), ..self.scope.clone() };
        let pending = self.store.recall(wanted.clone(), scope);
        Some((wanted, pending))
    }

    fn render(&self, wanted: &[String], found: RecallCandidates) -> Option<String> {
        let statements = found.messages.into_iter().map(statement).collect();
        let chosen = choose_recalled(wanted, &found.weights, statements, self.clock.now().seconds());
        render_recalled(&chosen, |at| day(Timestamp(at)))
    }

    async fn note(&self, session: &SessionId, words: &str) -> Option<String> {
        let (wanted, pending) = self.start_search(words, Some(session))?;
        let searched = tokio::select! {
            biased;
            searched = pending => searched,
            () = self.clock.sleep(TIME_LIMIT) => return None,
        };
        match searched {
            Ok(found) => self.render(&wanted, found),
            Err(error) => {
                tracing::debug!(%error, "nothing is recalled");
                None
            }
        }
    }
}

impl ExternalMemory for TranscriptRecall {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn recall<'a>(&'a self, session: &'a SessionId, words: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let profile = self.profile.as_ref().and_then(|profile| profile.prompt_block(MemoryFile::User));
            let parts: Vec<String> = profile.into_iter().chain(self.note(session, words).await).collect();
            (!parts.is_empty()).then(|| parts.join("\n\n"))
        })
    }

    /// Does nothing: the transcript already holds the turn.
    fn store_turn<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn statement(found: RecallCandidate) -> Statement {
    Statement {
        conversation: found.session.as_str().to_owned(),
        by_user: found.role == "user",
        source: found.source,
        at: found.at.seconds(),
        text: found.text,
    }
}

fn day(at: Timestamp) -> String {
    let CivilTime { year, month, day, .. } = CivilTime::utc(at);
    format!("{year:04}-{month:02}-{day:02}")
}
