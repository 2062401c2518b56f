//! The built-in memory of past conversations: finds what was said earlier about the words of a new message, and, where
//! an endpoint for embeddings is configured, what means something alike.
//!
//! It runs beside the start of a turn and has a time limit; a turn never waits longer, and never fails because of it.
//! What arrived by then is used. Invariant: it reads only the conversations it was made for.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_knowledge::{
    RecallEvidence, SimilarStatement, Statement, choose_recalled, recall_words, render_recalled,
};
use hermes_store::{
    Error, PendingResult, RecallCandidate, RecallCandidates, RecallScope, SimilarMessage, Store,
};
use hermes_types::{
    BoxFuture, CivilTime, Clock, ExternalMemory, FinishedTurn, MemoryPlace, SessionId, Timestamp,
};

use crate::vector_index::VectorIndex;

/// The longest time that a turn waits.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// Recalls from the transcripts of a home.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct TranscriptRecall {
    store: Store,
    clock: Arc<dyn Clock>,
    scope: RecallScope,
    vectors: Option<Arc<VectorIndex>>,
    /// What the user is to be told, by whichever conversation takes it.
    notice: Option<Arc<Mutex<Option<String>>>>,
}

impl TranscriptRecall {
    pub fn new(store: Store, clock: Arc<dyn Clock>, scope: RecallScope) -> Self {
        Self { store, clock, scope, vectors: None, notice: None }
    }

    /// Recalls by meaning as well.
    #[must_use]
    pub fn with_vectors(self, vectors: Option<Arc<VectorIndex>>) -> Self {
        Self { vectors, ..self }
    }

    /// Sets what the user is to be told, by whichever conversation takes it.
    #[must_use]
    pub fn with_notice(self, notice: Arc<Mutex<Option<String>>>) -> Self {
        Self { notice: Some(notice), ..self }
    }

    /// Finds statements of earlier conversations about these words, and waits for them without a runtime.
    pub fn search_blocking(&self, words: &str) -> Result<Option<String>, Error> {
        let Some((wanted, pending)) = self.start_search(words, None) else { return Ok(None) };
        Ok(self.render(wanted, Some(pending.wait()?), Vec::new()))
    }

    /// Finds statements of earlier conversations about these words, and waits for all of them up to a limit.
    pub async fn search(&self, words: &str, limit: Duration) -> Result<Option<String>, Error> {
        self.find(words, None, limit).await
    }

    fn reads_anything(&self) -> bool {
        let RecallScope { people, own_sources, chat, .. } = &self.scope;
        !people.is_empty() || !own_sources.is_empty() || chat.is_some()
    }

    /// Starts the search for the words that say something; there may be none.
    fn start_search(
        &self,
        words: &str,
        current: Option<&SessionId>,
    ) -> Option<(Vec<String>, PendingResult<RecallCandidates>)> {
        let wanted = recall_words(words);
        if wanted.is_empty() || !self.reads_anything() {
            return None;
        }
        let scope = RecallScope { current: current.cloned(), ..self.scope.clone() };
        let pending = self.store.recall(wanted.clone(), scope);
        Some((wanted, pending))
    }

    fn render(
        &self,
        words: Vec<String>,
        found: Option<RecallCandidates>,
        similar: Vec<SimilarMessage>,
    ) -> Option<String> {
        let RecallCandidates { messages, weights } = found.unwrap_or_default();
        let as_similar = |found: SimilarMessage| SimilarStatement {
            statement: statement(found.message),
            similarity: f64::from(found.similarity),
            vector: found.vector,
        };
        let evidence = RecallEvidence {
            words,
            weights,
            by_words: messages.into_iter().map(statement).collect(),
            by_meaning: similar.into_iter().map(as_similar).collect(),
            min_similarity: self.vectors.as_ref().map_or(1.0, |vectors| vectors.min_similarity),
        };
        let chosen = choose_recalled(evidence, self.clock.now().seconds());
        render_recalled(&chosen, |at| day(Timestamp(at)))
    }

    /// Asks for both at the same time, and uses what arrived within the limit.
    async fn find(
        &self,
        text: &str,
        current: Option<&SessionId>,
        limit: Duration,
    ) -> Result<Option<String>, Error> {
        let Some((words, pending)) = self.start_search(text, current) else { return Ok(None) };
        let scope = RecallScope { current: current.cloned(), ..self.scope.clone() };
        let by_meaning = async {
            match &self.vectors {
                Some(vectors) => vectors.similar(text, scope).await,
                None => Ok(Vec::new()),
            }
        };
        let mut by_words = pin!(pending);
        let mut by_meaning = pin!(by_meaning);
        let mut over = self.clock.sleep(limit);
        let (mut found, mut similar) = (None, None);
        while found.is_none() || similar.is_none() {
            tokio::select! {
                biased;
                searched = &mut by_words, if found.is_none() => found = Some(searched?),
                searched = &mut by_meaning, if similar.is_none() => similar = Some(searched?),
                () = &mut over => break,
            }
        }
        Ok(self.render(words, found, similar.unwrap_or_default()))
    }

    async fn note(&self, session: &SessionId, words: &str) -> Option<String> {
        match self.find(words, Some(session), TIME_LIMIT).await {
            Ok(note) => note,
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

    fn recall<'a>(&'a self, place: MemoryPlace<'a>, words: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(self.note(place.session, words))
    }

    /// Computes missing vectors; the transcript itself already holds the turn.
    fn store_turn(&self, _: MemoryPlace<'_>, _: FinishedTurn<'_>) {
        if let Some(vectors) = &self.vectors {
            vectors.update_later();
        }
    }

    fn take_notice(&self) -> Option<String> {
        let notice = self.notice.as_ref()?;
        let notice = notice.lock().unwrap_or_else(PoisonError::into_inner).take();
        notice.or_else(|| self.vectors.as_ref()?.take_notice())
    }
}

fn statement(found: RecallCandidate) -> Statement {
    Statement {
        id: found.id.0,
        conversation: found.session.as_str().to_owned(),
        by_user: found.role == "user",
        source: found.source,
        at: found.at.seconds(),
        text: found.text,
        follows_tools: found.follows_tools,
    }
}

fn day(at: Timestamp) -> String {
    let CivilTime { year, month, day, .. } = CivilTime::utc(at);
    format!("{year:04}-{month:02}-{day:02}")
}
