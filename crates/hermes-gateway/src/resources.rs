//! What the parts of a gateway are made from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_agent::Calendar;
use hermes_store::Store;
use hermes_task::TaskGroup;
use hermes_types::{Clock, HolderId};

use crate::ports::EventObserver;
use crate::settings::LiveSettings;

/// The values most parts need. It exists only while a gateway is built: each part keeps what it uses.
pub(crate) struct GatewayResources {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) calendar: Calendar,
    pub(crate) settings: LiveSettings,
    pub(crate) observer: Arc<dyn EventObserver>,
    pub(crate) holder: HolderId,
    pub(crate) draining: DrainSwitch,
    pub(crate) tasks: Arc<TaskGroup>,
    /// The tasks of turns; they end first: turns stop where they are and are resumed at the next start.
    pub(crate) turns: Arc<TaskGroup>,
}

/// Says whether new messages are kept for the next process. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct DrainSwitch(Arc<AtomicBool>);

impl DrainSwitch {
    /// Stops new turns from starting.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
