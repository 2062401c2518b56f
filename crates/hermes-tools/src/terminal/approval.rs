//! Approvals of dangerous commands.
//!
//! This module stores the approvals of each conversation and the permanent ones, and asks the user.
//! `hermes-guard` decides what is dangerous; the caller persists a permanent approval through a callback.
//! Invariant: a command that must never run is refused before any approval or mode is considered.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_guard::{
    CommandJudgement, HomeFolders, Redaction, covers, is_same_key, judge, matches_pattern, redact,
};
use hermes_types::{
    ApprovalDecision, Clock, Danger, SideModel, TaskId, ToolContext, UserAnswer, UserQuestion,
};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as MutexGuardAsync};

use super::approval_reviewer::{ApprovalReviewer, ReviewVerdict};
use super::scan::{self, CommandScanner};

/// The approval mode: `approvals.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandApprovalMode {
    #[default]
    Manual,
    /// A model decides first; if it is unsure, a person decides.
    Smart,
    Off,
}

/// Selects whether approval questions are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yolo {
    On,
    Off,
}

/// The decision about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Run,
    /// A person approved the command; the text names the reason for the question.
    Approved(String),
    /// The text that the model reads instead of a result.
    Blocked(String),
}

/// Tells whether the call that asks has already acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionStage {
    BeforeActing,
    AfterActing,
}

/// The answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalAnswer {
    Yes,
    No,
    /// A person was asked and did not answer in time.
    TimedOut,
    /// No person could be asked.
    Unavailable,
}

type PersistApproval = Box<dyn Fn(&str) + Send + Sync>;

/// The approvals of all conversations.
pub struct Approvals {
    mode: CommandApprovalMode,
    denied: Vec<String>,
    yolo: AtomicBool,
    /// The conversations whose users turned off questions.
    yolo_tasks: Mutex<HashSet<TaskId>>,
    permanent: Mutex<BTreeSet<String>>,
    sessions: Mutex<HashMap<TaskId, HashSet<String>>>,
    persist: PersistApproval,
    reviewer: Option<ApprovalReviewer>,
    scanner: Option<CommandScanner>,
    /// The lock that serializes the questions of parallel agents when one person uses one screen. With many
    /// chats there is none, because a chat that does not answer must not block the others.
    asking: Option<AsyncMutex<()>>,
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Approvals {
    /// Creates the approvals. `allowed` is the `command_allowlist` of the configuration; `keep` adds a key to
    /// it.
    pub fn new(
        mode: CommandApprovalMode,
        allowed: impl IntoIterator<Item = String>,
        keep: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            mode,
            denied: Vec::new(),
            yolo: AtomicBool::new(false),
            yolo_tasks: Mutex::default(),
            permanent: Mutex::new(allowed.into_iter().collect()),
            sessions: Mutex::default(),
            persist: Box::new(keep),
            reviewer: None,
            scanner: None,
            asking: Some(AsyncMutex::default()),
        }
    }

    /// Allows questions in parallel, for a process that serves many chats.
    #[must_use]
    pub fn with_parallel_questions(self) -> Self {
        Self { asking: None, ..self }
    }

    /// Sets the patterns of commands that are always refused: `approvals.deny`.
    #[must_use]
    pub fn with_denied(self, denied: Vec<String>) -> Self {
        Self { denied, ..self }
    }

    /// Sets the model that decides in smart mode.
    #[must_use]
    pub fn with_reviewer(self, side: SideModel, clock: Arc<dyn Clock>) -> Self {
        Self { reviewer: Some(ApprovalReviewer { side, clock }), ..self }
    }

    async fn lock_question(&self) -> Option<MutexGuardAsync<'_, ()>> {
        match &self.asking {
            Some(asking) => Some(asking.lock().await),
            None => None,
        }
    }

    /// Sets a program that also checks commands.
    #[must_use]
    pub fn with_scanner(self, scanner: Option<CommandScanner>) -> Self {
        Self { scanner, ..self }
    }

    pub fn set_yolo(&self, yolo: Yolo) {
        self.yolo.store(yolo == Yolo::On, Ordering::Relaxed);
    }

    /// Turns questions off or on for one conversation.
    pub fn set_yolo_in(&self, task: &TaskId, yolo: Yolo) {
        let mut fearless = lock(&self.yolo_tasks);
        match yolo {
            Yolo::On => fearless.insert(task.clone()),
            Yolo::Off => fearless.remove(task),
        };
    }

    fn skips_questions(&self, task: &TaskId) -> bool {
        self.mode == CommandApprovalMode::Off
            || self.yolo.load(Ordering::Relaxed)
            || lock(&self.yolo_tasks).contains(task)
    }

    /// Removes the approvals of a conversation that has ended or was reset.
    pub fn forget(&self, task: &TaskId) {
        lock(&self.yolo_tasks).remove(task);
        lock(&self.sessions).remove(task);
    }

    pub(crate) async fn decide(
        &self,
        command: &str,
        task: &TaskId,
        places: HomeFolders<'_>,
        context: ToolContext<'_>,
    ) -> Decision {
        if let Some(pattern) = self.denied.iter().find(|pattern| matches_pattern(pattern, command)) {
            return Decision::Blocked(format!(
                "BLOCKED: `approvals.deny` has `{pattern}`. Do not retry it or work around it."
            ));
        }
        let mut dangers = match judge(command, places) {
            CommandJudgement::Allow => Vec::new(),
            CommandJudgement::Deny(danger) => return Decision::Blocked(refusal(&danger)),
            CommandJudgement::Ask(dangers) => dangers,
        };
        if self.skips_questions(task) {
            return Decision::Run;
        }
        if let Some(scanner) = &self.scanner {
            dangers.extend(scanner.scan(command, context.cancel).await);
        }
        if dangers.is_empty() {
            return Decision::Run;
        }
        let _turn = self.lock_question().await;
        // Checked only now, because the previous question may have approved it.
        let open = self.unapproved(dangers, command, task);
        let Some(first) = open.first() else { return Decision::Run };
        let reason = open.iter().map(|danger| danger.reason.as_str()).collect::<Vec<_>>().join("; ");
        if let (CommandApprovalMode::Smart, Some(judge)) = (self.mode, &self.reviewer) {
            match judge.ask(command, &open, context).await {
                ReviewVerdict::Approve => return Decision::Run,
                ReviewVerdict::Deny => return Decision::Blocked(smart_refusal(&reason)),
                ReviewVerdict::Unsure => {}
            }
        }
        let shown = redact(command, Redaction::default()).into_owned();
        let danger =
            Danger { key: first.key.clone(), reason: redact(&reason, Redaction::default()).into_owned() };
        let question = UserQuestion::Approve { command: shown, danger };
        match self.ask_user(question, &open, task, context, QuestionStage::BeforeActing).await {
            ApprovalAnswer::Yes => Decision::Approved(reason),
            ApprovalAnswer::Unavailable => Decision::Blocked(nobody(&open)),
            ApprovalAnswer::TimedOut => Decision::Blocked(format!(
                "BLOCKED: this needs the user's approval ({reason}), and no answer came in time. It was not run. Do not \
                 retry it or reach the same end another way; go on without it, and say that it waits for an approval."
            )),
            ApprovalAnswer::No => Decision::Blocked(format!(
                "BLOCKED: the user denied this command ({reason}). Do not retry it or reach the same end another way; \
                 go on without it or ask what to do."
            )),
        }
    }

    /// Tells whether a person has already approved running this command outside the sandbox.
    pub(crate) fn may_run_unsandboxed(&self, command: &str, task: &TaskId) -> bool {
        let key = unsandboxed_key(command);
        let held = lock(&self.sessions).get(task).is_some_and(|keys| keys.contains(&key));
        held || lock(&self.permanent).contains(&key)
    }

    /// Asks whether a command may run again outside the sandbox after the sandbox refused it something. Never
    /// approves by itself: if questions are skipped, commands stay inside.
    pub(crate) async fn ask_unsandboxed(
        &self,
        command: &str,
        refused: &str,
        task: &TaskId,
        context: ToolContext<'_>,
    ) -> bool {
        if self.skips_questions(task) {
            return false;
        }
        let _turn = self.lock_question().await;
        if self.may_run_unsandboxed(command, task) {
            return true;
        }
        let reason = format!("run again outside the sandbox; inside it ran once and was refused {refused}");
        let danger = Danger {
            key: unsandboxed_key(command),
            reason: redact(&reason, Redaction::default()).into_owned(),
        };
        let shown = redact(command, Redaction::default()).into_owned();
        let question = UserQuestion::Approve { command: shown, danger: danger.clone() };
        self.ask_user(question, &[danger], task, context, QuestionStage::AfterActing).await
            == ApprovalAnswer::Yes
    }

    /// Asks whether a tool may write a file outside the project. The error is worded for the model. Never
    /// approves by itself: if questions are skipped, files outside the project stay unchanged.
    pub(crate) async fn ask_write(
        &self,
        tool: &str,
        path: &Path,
        reason: &str,
        task: &TaskId,
        context: ToolContext<'_>,
    ) -> Result<(), String> {
        let shown = path.display();
        let key = format!("write outside the project: {shown}");
        let setting = format!(
            "`terminal.sandbox_writable: [{}]` in config.yaml would allow it",
            path.parent().unwrap_or(path).display()
        );
        if self.skips_questions(task) {
            return Err(format!(
                "Write denied: '{shown}': {reason}, and no questions are asked here; {setting}."
            ));
        }
        let _turn = self.lock_question().await;
        let known = lock(&self.sessions).get(task).is_some_and(|keys| keys.contains(&key))
            || lock(&self.permanent).contains(&key);
        if known {
            return Ok(());
        }
        let danger = Danger { key, reason: format!("{reason}; this is asked for this file alone") };
        let question = UserQuestion::Approve { command: format!("{tool} {shown}"), danger: danger.clone() };
        match self.ask_user(question, &[danger], task, context, QuestionStage::BeforeActing).await {
            ApprovalAnswer::Yes => Ok(()),
            ApprovalAnswer::No => Err(format!(
                "Write denied: the user does not want '{shown}' written. Do not retry it or reach the same end another way."
            )),
            ApprovalAnswer::TimedOut => {
                Err(format!("Write denied: '{shown}': {reason}, and no answer came in time."))
            }
            ApprovalAnswer::Unavailable => {
                Err(format!("Write denied: '{shown}': {reason}, and there is no one to ask; {setting}."))
            }
        }
    }

    /// Asks the user and stores an approval for as long as it is valid.
    async fn ask_user(
        &self,
        question: UserQuestion,
        open: &[Danger],
        task: &TaskId,
        context: ToolContext<'_>,
        stage: QuestionStage,
    ) -> ApprovalAnswer {
        let answer = match stage {
            QuestionStage::BeforeActing => context.frontend.ask_before_acting(question, context.cancel),
            QuestionStage::AfterActing => context.frontend.ask(question, context.cancel),
        };
        match answer.await {
            UserAnswer::Approval(ApprovalDecision::Once) => {}
            UserAnswer::Approval(ApprovalDecision::Session) => self.record_approval(task, open),
            UserAnswer::Approval(ApprovalDecision::Always) => {
                self.record_approval(task, open);
                // An approval of a scan finding lasts for this conversation at most, because a later scan may
                // report something else under the same rule.
                let lasts =
                    |danger: &&Danger| !danger.key.starts_with(scan::KEY) && can_be_permanent(&danger.key);
                for danger in open.iter().filter(lasts) {
                    if lock(&self.permanent).insert(danger.key.clone()) {
                        (self.persist)(&danger.key);
                    }
                }
            }
            UserAnswer::TimedOut => return ApprovalAnswer::TimedOut,
            UserAnswer::Unavailable => return ApprovalAnswer::Unavailable,
            UserAnswer::Approval(ApprovalDecision::Deny) | UserAnswer::Text(_) | UserAnswer::Secret(_) => {
                return ApprovalAnswer::No;
            }
        }
        ApprovalAnswer::Yes
    }

    /// Returns the dangers that no approval covers.
    fn unapproved(&self, dangers: Vec<Danger>, command: &str, task: &TaskId) -> Vec<Danger> {
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

    fn record_approval(&self, task: &TaskId, dangers: &[Danger]) {
        let mut sessions = lock(&self.sessions);
        let held = dangers.iter().map(|danger| danger.key.clone()).filter(|key| !runs_a_file(key));
        sessions.entry(task.clone()).or_default().extend(held);
    }
}

/// The prefix of the key of an approval to leave the sandbox.
const OUTSIDE: &str = "outside the sandbox: ";

/// Programs whose effect depends only on their arguments, not on files of the project.
const PLAIN: [&str; 20] = [
    "basename", "cat", "chmod", "chown", "cp", "date", "dirname", "echo", "head", "install", "ln", "ls",
    "mkdir", "mv", "printf", "rm", "rmdir", "tail", "tee", "touch",
];

/// Tells whether an approval may outlast its conversation. An approval to leave the sandbox covers the command
/// line but not what it runs: a script, a make rule or a test could be changed afterwards. It may therefore be
/// permanent only for programs that run no such file.
fn can_be_permanent(key: &str) -> bool {
    let Some(command) = key.strip_prefix(OUTSIDE) else { return true };
    let heads =
        command.split(['\n', ';', '|', '&']).map(|part| part.split_whitespace().next().unwrap_or_default());
    !command.contains(['`', '$', '(', '<'])
        && heads.filter(|head| !head.is_empty()).all(|head| PLAIN.contains(&head))
}

/// Tells whether a command outside the sandbox names a file that it would run, because that file may change at
/// any time.
fn runs_a_file(key: &str) -> bool {
    const SCRIPTS: [&str; 9] = [".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php"];
    let Some(command) = key.strip_prefix(OUTSIDE) else { return false };
    if can_be_permanent(key) {
        return false;
    }
    let is_file = |word: &str| {
        let word = word.trim_matches(['"', '\'', ';', '&', '|', '(', ')']);
        word.contains("./") || SCRIPTS.iter().any(|ending| word.ends_with(ending))
    };
    command.split_whitespace().any(is_file)
}

/// Returns the key of an approval to leave the sandbox, which covers exactly this command.
fn unsandboxed_key(command: &str) -> String {
    format!("{OUTSIDE}{}", command.trim())
}

fn refusal(danger: &Danger) -> String {
    format!(
        "BLOCKED (hardline): {}. This is never run, whatever was agreed to. Do not retry it or work around it.",
        danger.reason
    )
}

fn smart_refusal(reason: &str) -> String {
    format!(
        "BLOCKED by smart approval ({reason}). Do not retry it or reach the same end another way; go on without it or ask \
         the user what to do."
    )
}

fn nobody(dangers: &[Danger]) -> String {
    let keys: Vec<String> = dangers.iter().map(|danger| format!("`{}`", danger.key)).collect();
    format!(
        "BLOCKED: this needs a person's approval ({}) and there is no one to ask. Do not retry it. The user can allow it by \
         adding the words in back quotes to `command_allowlist` in config.yaml, or by running it in a session where \
         approvals can be answered.",
        keys.join(", ")
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_the_sandbox_is_agreed_to_for_good_only_where_the_line_is_all_there_is() {
        for (command, lasts, held) in [
            ("echo x > ../out/a", true, true),
            ("mkdir -p /srv/x && cp a /srv/x", true, true),
            ("./run.sh", false, false),
            ("bash tools/deploy.sh --now", false, false),
            ("python3 setup.py install", false, false),
            ("make install", false, true),
            ("npm test", false, true),
            ("echo $(./x)", false, false),
            ("cat <(./run.sh)", false, false),
        ] {
            let key = unsandboxed_key(command);
            assert_eq!((can_be_permanent(&key), !runs_a_file(&key)), (lasts, held), "{command}");
        }
        assert!(
            can_be_permanent("recursive delete") && !runs_a_file("recursive delete"),
            "other keys name a kind of danger"
        );
    }
}
