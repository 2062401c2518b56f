//! The threads the bot takes part in, where it needs no mention.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::host::ChannelHost;

const FILE: &str = "discord_threads.json";
const MAX_ENTRIES: usize = 500;

/// The newest of these threads, stored across restarts.
pub(super) struct DiscordThreads {
    host: Arc<dyn ChannelHost>,
    known: Mutex<VecDeque<String>>,
}

impl DiscordThreads {
    pub(super) fn load(host: Arc<dyn ChannelHost>) -> Self {
        let listed = host.load_document(FILE);
        let listed = listed.as_ref().and_then(Value::as_array).into_iter().flatten();
        // Other releases may have written numbers.
        let read =
            |id: &Value| id.as_str().map(str::to_owned).or_else(|| id.as_u64().map(|id| id.to_string()));
        let known: VecDeque<String> = listed.filter_map(read).collect();
        Self { host, known: Mutex::new(known) }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|known| known == id)
    }

    pub(super) fn insert(&self, id: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().any(|known| known == id) {
            return;
        }
        known.push_back(id.to_owned());
        while known.len() > MAX_ENTRIES {
            known.pop_front();
        }
        let list: Value = known.iter().cloned().collect();
        self.host.save_document(FILE, &list);
    }
}
