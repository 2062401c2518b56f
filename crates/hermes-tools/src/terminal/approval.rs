//! Who agrees to a dangerous command.
//!
//! Holds what was agreed to, for this conversation and for good, and puts the question. What is dangerous is decided in
//! `hermes-guard`; keeping an approval for good is the caller's, through a callback. Invariant: a command on the list of
//! those never run is refused before anything else is looked at.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hermes_guard::{Judgement, Places, Redaction, covers, is_like, is_same_key, judge, redact};
use hermes_types::{Answer, Approval, Danger, Question, TaskId, ToolContext};
use tokio::sync::Mutex as AsyncMutex;

/// `approvals.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalMode {
    #[default]
    Manual,
    /// A model is to decide first; until it can, a person is asked.
    Smart,
    Off,
}

/// Whether questions are skipped for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yolo {
    On,
    Off,
}

/// What becomes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Run,
    /// Somebody agreed; what to.
    Agreed(String),
    /// What the model reads instead of a result.
    Blocked(String),
}

type Keep = Box<dyn Fn(&str) + Send + Sync>;

/// What was agreed to. One for all conversations.
pub struct Approvals {
    mode: ApprovalMode,
    denied: Vec<String>,
    yolo: AtomicBool,
    permanent: Mutex<BTreeSet<String>>,
    sessions: Mutex<HashMap<TaskId, HashSet<String>>>,
    keep: Keep,
    /// Questions of parallel agents come one after the other.
    asking: AsyncMutex<()>,
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Approvals {
    /// `allowed` is the config's `command_allowlist`; `keep` adds a key to it.
    pub fn new(
        mode: ApprovalMode,
        allowed: impl IntoIterator<Item = String>,
        keep: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            mode,
            denied: Vec::new(),
            yolo: AtomicBool::new(false),
            permanent: Mutex::new(allowed.into_iter().collect()),
            sessions: Mutex::default(),
            keep: Box::new(keep),
            asking: AsyncMutex::default(),
        }
    }

    /// Patterns of commands that are always refused: `approvals.deny`.
    #[must_use]
    pub fn denying(self, denied: Vec<String>) -> Self {
        Self { denied, ..self }
    }

    pub fn set_yolo(&self, yolo: Yolo) {
        self.yolo.store(yolo == Yolo::On, Ordering::Relaxed);
    }

    /// A conversation has ended or begun anew: what was agreed to in it no longer holds.
    pub fn forget(&self, task: &TaskId) {
        lock(&self.sessions).remove(task);
    }

    pub(crate) async fn decide(
        &self,
        command: &str,
        task: &TaskId,
        places: Places<'_>,
        context: ToolContext<'_>,
    ) -> Decision {
        if let Some(pattern) = self.denied.iter().find(|pattern| is_like(pattern, command)) {
            return Decision::Blocked(format!(
                "BLOCKED: `approvals.deny` has `{pattern}`. Do not retry it or work around it."
            ));
        }
        let dangers = match judge(command, places) {
            Judgement::Allow => return Decision::Run,
            Judgement::Deny(danger) => return Decision::Blocked(refusal(&danger)),
            Judgement::Ask(dangers) => dangers,
        };
        if self.mode == ApprovalMode::Off || self.yolo.load(Ordering::Relaxed) {
            return Decision::Run;
        }
        let _turn = self.asking.lock().await;
        // Looked at only now: the question before this one may have settled it.
        let open = self.open(dangers, command, task);
        let Some(first) = open.first() else { return Decision::Run };
        let reason = open.iter().map(|danger| danger.reason.as_str()).collect::<Vec<_>>().join("; ");
        let shown = redact(command, Redaction::default()).into_owned();
        let danger =
            Danger { key: first.key.clone(), reason: redact(&reason, Redaction::default()).into_owned() };
        let question = Question::Approve { command: shown, danger };
        match context.frontend.ask(question, context.cancel).await {
            Answer::Approval(Approval::Once) => {}
            Answer::Approval(Approval::Session) => self.hold(task, &open),
            Answer::Approval(Approval::Always) => {
                self.hold(task, &open);
                for danger in &open {
                    if lock(&self.permanent).insert(danger.key.clone()) {
                        (self.keep)(&danger.key);
                    }
                }
            }
            Answer::Unavailable => return Decision::Blocked(nobody(&open)),
            Answer::Approval(Approval::Deny) | Answer::Text(_) | Answer::Secret(_) => {
                return Decision::Blocked(format!(
                    "BLOCKED: the user denied this command ({reason}). Do not retry it or reach the same end another way; \
                     go on without it or ask what to do."
                ));
            }
        }
        Decision::Agreed(reason)
    }

    /// The dangers nobody has agreed to yet.
    fn open(&self, dangers: Vec<Danger>, command: &str, task: &TaskId) -> Vec<Danger> {
        let permanent = lock(&self.permanent);
        if permanent.iter().any(|entry| covers(entry, command)) {
            return Vec::new();
        }
        let sessions = lock(&self.sessions);
        let agreed = |danger: &Danger| {
            permanent.iter().any(|entry| is_same_key(entry, &danger.key))
                || sessions.get(task).is_some_and(|keys| keys.contains(&danger.key))
        };
        dangers.into_iter().filter(|danger| !agreed(danger)).collect()
    }

    fn hold(&self, task: &TaskId, dangers: &[Danger]) {
        let mut sessions = lock(&self.sessions);
        sessions.entry(task.clone()).or_default().extend(dangers.iter().map(|danger| danger.key.clone()));
    }
}

fn refusal(danger: &Danger) -> String {
    format!(
        "BLOCKED (hardline): {}. This is never run, whatever was agreed to. Do not retry it or work around it.",
        danger.reason
    )
}

fn nobody(dangers: &[Danger]) -> String {
    let keys: Vec<String> = dangers.iter().map(|danger| format!("`{}`", danger.key)).collect();
    format!(
        "BLOCKED: this needs a person's approval ({}) and nobody could be asked. Do not retry it. The user can allow it by \
         adding the words in back quotes to `command_allowlist` in config.yaml, or by running it in a session where \
         approvals can be answered.",
        keys.join(", ")
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
