//! The active conversations: one slot for each conversation that has a worker.
//!
//! Holds what must be known at once (is a turn running, how is it stopped, which questions are open); everything
//! else is in the database. Invariant: a conversation has a slot exactly while a worker serves it, and only one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hermes_types::{Cancel, InboxId, Timestamp, UserAnswer, random_hex};
use tokio::sync::oneshot;

/// The number of interrupts in a row after which a new message waits instead.
const MAX_INTERRUPTS: u32 = 3;

/// The phase of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerPhase {
    /// The worker prepares something that cannot be stopped midway.
    Starting,
    Running,
}

/// The reason why a turn was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A new message arrived.
    NewMessage,
    /// The user requested it.
    UserRequest,
}

/// The kind of a question to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuestionKind {
    Approval,
    Clarification,
}

struct OpenQuestion {
    id: u64,
    /// The tag that buttons name the question by; unique among all questions.
    tag: String,
    kind: QuestionKind,
    answer: oneshot::Sender<UserAnswer>,
}

/// A question that was asked and waits for its answer.
pub(crate) struct PendingQuestion {
    pub(crate) id: u64,
    pub(crate) tag: String,
    pub(crate) answer: oneshot::Receiver<UserAnswer>,
}

struct ConversationSlot {
    phase: WorkerPhase,
    /// The time at which the running turn was resumed after a restart.
    resumed_at: Option<Timestamp>,
    cancel: Cancel,
    stopped: Option<StopReason>,
    interrupts: u32,
    /// The number of arrivals, so that a worker does not end while a message comes in.
    arrivals: u64,
    /// Rows that are handled outside the worker.
    side_rows: HashSet<InboxId>,
    questions: VecDeque<OpenQuestion>,
}

/// The slots of all active conversations.
#[derive(Default)]
pub(crate) struct ActiveConversations {
    slots: Mutex<HashMap<String, ConversationSlot>>,
    next_question: Mutex<u64>,
}

/// Says what happens to a message that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrivalAction {
    /// The conversation has no worker: one must be started.
    StartWorker,
    /// The running worker will handle it.
    Queued,
}

/// The state of a busy conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BusyState {
    pub(crate) phase: WorkerPhase,
    /// The time at which the running turn was resumed after a restart; earlier messages do not interrupt it.
    pub(crate) resumed_at: Option<Timestamp>,
    pub(crate) question: Option<QuestionKind>,
}

impl ActiveConversations {
    /// Records an arrival; the first one needs a worker.
    pub(crate) fn record_arrival(&self, key: &str) -> ArrivalAction {
        let mut slots = self.lock();
        if let Some(slot) = slots.get_mut(key) {
            slot.arrivals += 1;
            return ArrivalAction::Queued;
        }
        slots.insert(key.to_owned(), ConversationSlot::new());
        ArrivalAction::StartWorker
    }

    pub(crate) fn busy_state(&self, key: &str) -> Option<BusyState> {
        let slots = self.lock();
        let slot = slots.get(key)?;
        Some(BusyState {
            phase: slot.phase,
            resumed_at: slot.resumed_at,
            question: slot.questions.front().map(|open| open.kind),
        })
    }

    /// Returns the number of active conversations.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn arrivals(&self, key: &str) -> u64 {
        self.lock().get(key).map_or(0, |slot| slot.arrivals)
    }

    /// Ends a worker that has found nothing more to do. Returns false when something arrived meanwhile.
    pub(crate) fn end_worker_if_idle(&self, key: &str, seen: u64) -> bool {
        let mut slots = self.lock();
        if slots.get(key).is_some_and(|slot| slot.arrivals != seen) {
            return false;
        }
        slots.remove(key);
        true
    }

    /// Removes a worker, whatever is left to do.
    pub(crate) fn remove_worker(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Marks the worker as preparing: arrivals wait.
    pub(crate) fn start_preparing(&self, key: &str) {
        if let Some(slot) = self.lock().get_mut(key) {
            slot.phase = WorkerPhase::Starting;
        }
    }

    /// Records that a turn begins or resumes under this token.
    pub(crate) fn start_turn(&self, key: &str, cancel: Cancel, resumed_at: Option<Timestamp>) {
        if let Some(slot) = self.lock().get_mut(key) {
            slot.phase = WorkerPhase::Running;
            slot.resumed_at = resumed_at;
            slot.cancel = cancel;
            slot.stopped = None;
        }
    }

    /// Records the end of a turn and returns why it was stopped, if it was. A turn that was not stopped resets
    /// the interrupt count.
    pub(crate) fn end_turn(&self, key: &str) -> Option<StopReason> {
        let mut slots = self.lock();
        let slot = slots.get_mut(key)?;
        slot.phase = WorkerPhase::Starting;
        slot.questions.clear();
        let stopped = slot.stopped.take();
        if stopped != Some(StopReason::NewMessage) {
            slot.interrupts = 0;
        }
        stopped
    }

    /// Stops the running turn if it may be stopped for this reason.
    pub(crate) fn stop_turn(&self, key: &str, why: StopReason) -> bool {
        let mut slots = self.lock();
        let Some(slot) = slots.get_mut(key).filter(|slot| slot.phase == WorkerPhase::Running) else {
            return false;
        };
        if why == StopReason::NewMessage {
            if slot.interrupts >= MAX_INTERRUPTS {
                return false;
            }
            slot.interrupts += 1;
        }
        slot.stopped.get_or_insert(why);
        if why == StopReason::UserRequest {
            slot.stopped = Some(why);
        }
        slot.questions.clear();
        slot.cancel.cancel();
        true
    }

    /// Marks a row as handled outside the worker.
    pub(crate) fn mark_side_row(&self, key: &str, row: InboxId) {
        if let Some(slot) = self.lock().get_mut(key) {
            slot.side_rows.insert(row);
        }
    }

    pub(crate) fn is_side_row(&self, key: &str, row: InboxId) -> bool {
        self.lock().get(key).is_some_and(|slot| slot.side_rows.contains(&row))
    }

    pub(crate) fn clear_side_row(&self, key: &str, row: InboxId) {
        if let Some(slot) = self.lock().get_mut(key) {
            slot.side_rows.remove(&row);
        }
    }

    /// Opens a question; its answer comes through the receiver, which closes without one when the turn ends.
    pub(crate) fn ask(&self, key: &str, kind: QuestionKind) -> Option<PendingQuestion> {
        let id = {
            let mut next = self.next_question.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        let (answer, receiver) = oneshot::channel();
        let mut slots = self.lock();
        let tag = random_hex(8);
        slots.get_mut(key)?.questions.push_back(OpenQuestion { id, tag: tag.clone(), kind, answer });
        Some(PendingQuestion { id, tag, answer: receiver })
    }

    /// Withdraws a question that was not answered.
    pub(crate) fn withdraw(&self, key: &str, id: u64) {
        if let Some(slot) = self.lock().get_mut(key) {
            slot.questions.retain(|open| open.id != id);
        }
    }

    /// Answers the oldest question of a kind, or the one with this tag. Returns false when there is none.
    pub(crate) fn answer(
        &self,
        key: &str,
        kind: QuestionKind,
        tag: Option<&str>,
        answer: UserAnswer,
    ) -> bool {
        let mut slots = self.lock();
        let Some(slot) = slots.get_mut(key) else { return false };
        let meant = |open: &OpenQuestion| open.kind == kind && tag.is_none_or(|tag| open.tag == tag);
        let Some(at) = slot.questions.iter().position(meant) else { return false };
        let Some(open) = slot.questions.remove(at) else { return false };
        open.answer.send(answer).is_ok()
    }

    /// Tells whether a question with this tag is open in any conversation.
    pub(crate) fn is_open(&self, tag: &str) -> bool {
        self.lock().values().any(|slot| slot.questions.iter().any(|open| open.tag == tag))
    }

    /// Tells whether a conversation waits for an approval.
    pub(crate) fn asks_approval(&self, key: &str) -> bool {
        self.lock()
            .get(key)
            .is_some_and(|slot| slot.questions.iter().any(|open| open.kind == QuestionKind::Approval))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ConversationSlot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConversationSlot {
    fn new() -> Self {
        Self {
            phase: WorkerPhase::Starting,
            resumed_at: None,
            cancel: Cancel::new(),
            stopped: None,
            interrupts: 0,
            arrivals: 0,
            side_rows: HashSet::new(),
            questions: VecDeque::new(),
        }
    }
}
