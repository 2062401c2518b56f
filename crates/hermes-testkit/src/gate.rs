//! Named gates at which replies wait until the test releases them.
//!
//! A release that comes before the reply arrives is kept, so the order in which test and server arrive is
//! irrelevant.

use std::collections::HashMap;

use crate::watched_value::WatchedValue;

#[derive(Debug, Default)]
struct Gate {
    /// The number of unused releases.
    permits: usize,
    open: bool,
    waiting: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Gates(WatchedValue<HashMap<String, Gate>>);

impl Gates {
    /// Waits for a release. The future may be dropped while waiting.
    pub(crate) async fn pass(&self, name: &str) {
        let place = self.enter(name);
        self.0
            .until(|gates| {
                let gate = gates.get_mut(name)?;
                if !gate.open {
                    gate.permits = gate.permits.checked_sub(1)?;
                }
                Some(())
            })
            .await;
        drop(place);
    }

    pub(crate) fn release(&self, name: &str) {
        self.0.update(|gates| gates.entry(name.to_owned()).or_default().permits += 1);
    }

    pub(crate) fn open(&self, name: &str) {
        self.0.update(|gates| gates.entry(name.to_owned()).or_default().open = true);
    }

    pub(crate) async fn until_waiting(&self, name: &str, count: usize) {
        self.0.until(|gates| (gates.get(name)?.waiting >= count).then_some(())).await;
    }

    #[track_caller]
    pub(crate) fn until_waiting_blocking(&self, name: &str, count: usize) {
        let what = format!("{count} replies at gate `{name}`");
        self.0.until_blocking(&what, |gates| (gates.get(name)?.waiting >= count).then_some(()));
    }

    fn enter<'a>(&'a self, name: &'a str) -> GateWaiter<'a> {
        self.0.update(|gates| gates.entry(name.to_owned()).or_default().waiting += 1);
        GateWaiter { gates: self, name }
    }
}

/// Decrements the number of waiters when dropped, however the wait ended.
struct GateWaiter<'a> {
    gates: &'a Gates,
    name: &'a str,
}

impl Drop for GateWaiter<'_> {
    fn drop(&mut self) {
        self.gates.0.update(|gates| {
            if let Some(gate) = gates.get_mut(self.name) {
                gate.waiting = gate.waiting.saturating_sub(1);
            }
        });
    }
}
