//! Chooses the reply to a request.
//!
//! Holds the only mutable state of a script: how often each reply may still be given.

use std::sync::{Arc, Mutex, PoisonError};

use super::{ModelScript, ReplyOrder, ReplyRepeat, ScriptFallback, ScriptedReply};
use crate::request_log::RecordedRequest;

#[derive(Debug)]
pub(crate) struct Player {
    script: Arc<ModelScript>,
    replies: Vec<Arc<ScriptedReply>>,
    left: Mutex<Vec<ReplyRepeat>>,
}

#[derive(Debug, Clone)]
pub(crate) enum ReplyChoice {
    Play(Arc<ScriptedReply>),
    Echo,
    /// No reply matches; the text says what was expected.
    Unmatched(String),
}

impl Player {
    pub(crate) fn new(script: ModelScript) -> Self {
        let replies: Vec<_> = script.replies.iter().cloned().map(Arc::new).collect();
        let left = Mutex::new(replies.iter().map(|reply| reply.repeat).collect());
        Self { script: Arc::new(script), replies, left }
    }

    pub(crate) fn script(&self) -> &ModelScript {
        &self.script
    }

    /// Takes the reply to `request`, counting it as given.
    pub(crate) fn choose(&self, request: &RecordedRequest) -> ReplyChoice {
        if let Some(reply) = self.take(request) {
            return ReplyChoice::Play(reply);
        }
        match &self.script.default {
            ScriptFallback::Reply(reply) => ReplyChoice::Play(Arc::new(reply.as_ref().clone())),
            ScriptFallback::Echo => ReplyChoice::Echo,
            ScriptFallback::Error => ReplyChoice::Unmatched(self.describe_expected()),
        }
    }

    /// Tells whether a reply is scripted for this path.
    pub(crate) fn names_path(&self, path: &str) -> bool {
        self.replies.iter().any(|reply| reply.when.path.as_deref() == Some(path))
    }

    /// Takes a reply for a path that is not a model endpoint: only replies that name a path count.
    pub(crate) fn take_for_path(&self, request: &RecordedRequest) -> Option<Arc<ScriptedReply>> {
        self.take_where(|reply| reply.when.path.is_some() && reply.when.holds(request))
    }

    /// Returns the replies that a finished script should have given but did not.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let open = left.iter().enumerate().filter_map(|(index, left)| match left {
            ReplyRepeat::Times(times) if *times > 0 => {
                Some(format!("{} ({times} times)", self.describe(index)))
            }
            _ => None,
        });
        open.collect()
    }

    fn take(&self, request: &RecordedRequest) -> Option<Arc<ScriptedReply>> {
        let mut blocked = false;
        self.take_where(|reply| {
            let fits = !blocked && reply.when.holds(request);
            blocked |= self.script.order == ReplyOrder::Strict;
            fits
        })
    }

    fn take_where(&self, mut fits: impl FnMut(&ScriptedReply) -> bool) -> Option<Arc<ScriptedReply>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        for (reply, left) in self.replies.iter().zip(left.iter_mut()) {
            if matches!(left, ReplyRepeat::Times(0)) || !fits(reply) {
                continue;
            }
            if let ReplyRepeat::Times(times) = left {
                *times -= 1;
            }
            return Some(reply.clone());
        }
        None
    }

    fn describe_expected(&self) -> String {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        match left.iter().position(|left| !matches!(left, ReplyRepeat::Times(0))) {
            Some(index) => format!("expected {}", self.describe(index)),
            None => format!("all {} replies of the script have been given", self.replies.len()),
        }
    }

    fn describe(&self, index: usize) -> String {
        let Some(reply) = self.replies.get(index) else {
            return String::new();
        };
        let name = reply.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        format!("reply {}{name} for {}", index + 1, reply.when)
    }
}
