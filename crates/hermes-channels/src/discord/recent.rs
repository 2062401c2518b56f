//! Short-term memory that may be lost: handled messages and pressed buttons.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

const MAX_MESSAGES: usize = 2000;
const MAX_PRESSES: usize = 100;

/// The committed messages. The gateway detects duplicates too; this saves downloading files again.
#[derive(Debug, Default)]
pub(super) struct RecentMessages(Mutex<(HashSet<String>, VecDeque<String>)>);

impl RecentMessages {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.contains(id)
    }

    pub(super) fn insert(&self, id: String) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, order) = &mut *held;
        if known.insert(id.clone()) {
            order.push_back(id);
        }
        if order.len() > MAX_MESSAGES
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
    }
}

/// The messages whose buttons were pressed, by channel.
#[derive(Debug, Default)]
pub(super) struct PressedButtons(Mutex<VecDeque<(String, String)>>);

impl PressedButtons {
    pub(super) fn insert(&self, channel: &str, message: &str) {
        let mut presses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        presses.push_back((channel.to_owned(), message.to_owned()));
        if presses.len() > MAX_PRESSES {
            presses.pop_front();
        }
    }

    /// Removes and returns the messages of a channel.
    pub(super) fn take(&self, channel: &str) -> Vec<String> {
        let mut presses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ours, others): (VecDeque<_>, VecDeque<_>) = presses.drain(..).partition(|(of, _)| of == channel);
        *presses = others;
        let mut messages: Vec<String> = ours.into_iter().map(|(_, message)| message).collect();
        messages.dedup();
        messages
    }
}
