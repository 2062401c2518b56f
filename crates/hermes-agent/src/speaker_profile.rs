//! The profile of the person who speaks, in conversations that several people share.
//!
//! Their prompt is the same for all of them, so that the profile goes along with each message instead. Invariant:
//! the profile of nobody else is read.

use std::sync::Arc;

use hermes_knowledge::{MemoryFile, MemoryStore};
use hermes_types::{
    BoxFuture, ExternalMemory, FinishedTurn, MemoryPlace, MemorySessionChange, MemoryWrite, Message, Tool,
};

/// A memory that adds the profile of the speaker to what another memory recalls.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct SpeakerProfile {
    profile: MemoryStore,
    memory: Option<Arc<dyn ExternalMemory>>,
}

impl SpeakerProfile {
    pub fn new(profile: MemoryStore, memory: Option<Arc<dyn ExternalMemory>>) -> Self {
        Self { profile, memory }
    }
}

impl ExternalMemory for SpeakerProfile {
    fn name(&self) -> &str {
        self.memory.as_ref().map_or("profile", |memory| memory.name())
    }

    fn prompt_block(&self) -> Option<String> {
        self.memory.as_ref()?.prompt_block()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.memory.as_ref().map(|memory| memory.tools()).unwrap_or_default()
    }

    fn recall<'a>(&'a self, place: MemoryPlace<'a>, words: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let recalled = match &self.memory {
                Some(memory) => memory.recall(place, words).await,
                None => None,
            };
            let profile = self.profile.prompt_block(MemoryFile::User);
            let parts: Vec<String> = profile.into_iter().chain(recalled).collect();
            (!parts.is_empty()).then(|| parts.join("\n\n"))
        })
    }

    fn store_turn(&self, place: MemoryPlace<'_>, turn: FinishedTurn<'_>) {
        if let Some(memory) = &self.memory {
            memory.store_turn(place, turn);
        }
    }

    fn before_compression<'a>(
        &'a self,
        place: MemoryPlace<'a>,
        messages: &'a [Message],
    ) -> BoxFuture<'a, Option<String>> {
        match &self.memory {
            Some(memory) => memory.before_compression(place, messages),
            None => Box::pin(std::future::ready(None)),
        }
    }

    fn memory_changed(&self, place: MemoryPlace<'_>, write: &MemoryWrite) {
        if let Some(memory) = &self.memory {
            memory.memory_changed(place, write);
        }
    }

    fn session_changed(&self, change: MemorySessionChange<'_>) {
        if let Some(memory) = &self.memory {
            memory.session_changed(change);
        }
    }

    fn session_ended(&self, place: MemoryPlace<'_>, messages: &[Message]) {
        if let Some(memory) = &self.memory {
            memory.session_ended(place, messages);
        }
    }

    fn delegated(&self, place: MemoryPlace<'_>, task: &str, answer: &str) {
        if let Some(memory) = &self.memory {
            memory.delegated(place, task, answer);
        }
    }

    fn take_notice(&self) -> Option<String> {
        self.memory.as_ref()?.take_notice()
    }
}
