//! How far a run has come.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Gets what a person should read of a run.
pub trait BatchObserver: Send + Sync {
    fn notice(&self, text: &str);
}

/// Counts what happens in a run; read while it happens.
#[derive(Debug, Default)]
pub struct BatchProgress {
    pub(crate) total: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) batches_done: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) discarded: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) micro_usd: AtomicU64,
    pub(crate) unpriced: AtomicU64,
}

/// The state of a run at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// The prompts of this invocation.
    pub total: u64,
    pub batches: u64,
    pub batches_done: u64,
    pub running: u64,
    pub written: u64,
    pub discarded: u64,
    pub failed: u64,
    /// The known cost so far, in millionths of a dollar.
    pub micro_usd: u64,
    /// The calls whose price is not known.
    pub unpriced: u64,
}

impl ProgressSnapshot {
    /// Returns the number of prompts whose conversation has ended.
    pub fn done(&self) -> u64 {
        self.written + self.discarded + self.failed
    }
}

impl BatchProgress {
    pub fn snapshot(&self) -> ProgressSnapshot {
        ProgressSnapshot {
            total: self.total.load(Relaxed),
            batches: self.batches.load(Relaxed),
            batches_done: self.batches_done.load(Relaxed),
            running: self.running.load(Relaxed),
            written: self.written.load(Relaxed),
            discarded: self.discarded.load(Relaxed),
            failed: self.failed.load(Relaxed),
            micro_usd: self.micro_usd.load(Relaxed),
            unpriced: self.unpriced.load(Relaxed),
        }
    }
}
