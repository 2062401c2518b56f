//! Who agrees to a dangerous command.
//!
//! Holds what was agreed to, for this conversation and for good, and puts the question. What is dangerous is decided in
//! `hermes-guard`; keeping an approval for good is the caller's, through a callback. Invariant: a command on the list of
//! those never run is refused before anything else is looked at.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_guard::{Judgement, Places, Redaction, covers, is_like, is_same_key, judge, redact};
use hermes_types::{Answer, Approval, Clock, Danger, Question, SideModel, TaskId, ToolContext};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as MutexGuardAsync};

use super::scan::{self, Scanner};
use super::smart::{Judge, Opinion};

/// `approvals.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalMode {
    #[default]
    Manual,
    /// A model decides first; where it is not sure, a person.
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

/// Whether the call that asks has done something already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionStage {
    BeforeActing,
    AfterActing,
}

/// What a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Yes,
    No,
    /// Somebody was asked, and did not answer in time.
    Nothing,
    /// Nobody could be asked.
    Nobody,
}

type Keep = Box<dyn Fn(&str) + Send + Sync>;

/// What was agreed to. One for all conversations.
pub struct Approvals {
    mode: ApprovalMode,
    denied: Vec<String>,
    yolo: AtomicBool,
    /// Conversations whose users want no questions.
    fearless: Mutex<HashSet<TaskId>>,
    permanent: Mutex<BTreeSet<String>>,
    sessions: Mutex<HashMap<TaskId, HashSet<String>>>,
    keep: Keep,
    judge: Option<Judge>,
    scanner: Option<Scanner>,
    /// Where one person sits before one screen, questions of parallel agents come one after the other. Where there are many
    /// chats, one that does not answer must not hold up the others.
    asking: Option<AsyncMutex<()>>,
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
            fearless: Mutex::default(),
            permanent: Mutex::new(allowed.into_iter().collect()),
            sessions: Mutex::default(),
            keep: Box::new(keep),
            judge: None,
            scanner: None,
            asking: Some(AsyncMutex::default()),
        }
    }

    /// For a process with many chats: each is asked by itself.
    #[must_use]
    pub fn for_many_chats(self) -> Self {
        Self { asking: None, ..self }
    }

    /// Patterns of commands that are always refused: `approvals.deny`.
    #[must_use]
    pub fn denying(self, denied: Vec<String>) -> Self {
        Self { denied, ..self }
    }

    /// Who decides in smart mode.
    #[must_use]
    pub fn judged_by(self, side: SideModel, clock: Arc<dyn Clock>) -> Self {
        Self { judge: Some(Judge { side, clock }), ..self }
    }

    async fn my_turn(&self) -> Option<MutexGuardAsync<'_, ()>> {
        match &self.asking {
            Some(asking) => Some(asking.lock().await),
            None => None,
        }
    }

    /// A program that looks at commands too.
    #[must_use]
    pub fn scanned_by(self, scanner: Option<Scanner>) -> Self {
        Self { scanner, ..self }
    }

    pub fn set_yolo(&self, yolo: Yolo) {
        self.yolo.store(yolo == Yolo::On, Ordering::Relaxed);
    }

    /// The same for one conversation.
    pub fn set_yolo_in(&self, task: &TaskId, yolo: Yolo) {
        let mut fearless = lock(&self.fearless);
        match yolo {
            Yolo::On => fearless.insert(task.clone()),
            Yolo::Off => fearless.remove(task),
        };
    }

    fn asks_nothing(&self, task: &TaskId) -> bool {
        self.mode == ApprovalMode::Off
            || self.yolo.load(Ordering::Relaxed)
            || lock(&self.fearless).contains(task)
    }

    /// A conversation has ended or begun anew: what was agreed to in it no longer holds.
    pub fn forget(&self, task: &TaskId) {
        lock(&self.fearless).remove(task);
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
        let mut dangers = match judge(command, places) {
            Judgement::Allow => Vec::new(),
            Judgement::Deny(danger) => return Decision::Blocked(refusal(&danger)),
            Judgement::Ask(dangers) => dangers,
        };
        if self.asks_nothing(task) {
            return Decision::Run;
        }
        if let Some(scanner) = &self.scanner {
            dangers.extend(scanner.look(command, context.cancel).await);
        }
        if dangers.is_empty() {
            return Decision::Run;
        }
        let _turn = self.my_turn().await;
        // Looked at only now: the question before this one may have settled it.
        let open = self.open(dangers, command, task);
        let Some(first) = open.first() else { return Decision::Run };
        let reason = open.iter().map(|danger| danger.reason.as_str()).collect::<Vec<_>>().join("; ");
        if let (ApprovalMode::Smart, Some(judge)) = (self.mode, &self.judge) {
            match judge.ask(command, &open, context).await {
                Opinion::Approve => return Decision::Run,
                Opinion::Deny => return Decision::Blocked(smart_refusal(&reason)),
                Opinion::Unsure => {}
            }
        }
        let shown = redact(command, Redaction::default()).into_owned();
        let danger =
            Danger { key: first.key.clone(), reason: redact(&reason, Redaction::default()).into_owned() };
        let question = Question::Approve { command: shown, danger };
        match self.put(question, &open, task, context, QuestionStage::BeforeActing).await {
            Said::Yes => Decision::Agreed(reason),
            Said::Nobody => Decision::Blocked(nobody(&open)),
            Said::Nothing => Decision::Blocked(format!(
                "BLOCKED: this needs the user's approval ({reason}), and nobody answered in time. It was not run. Do not \
                 retry it or reach the same end another way; go on without it, and say that it waits for an approval."
            )),
            Said::No => Decision::Blocked(format!(
                "BLOCKED: the user denied this command ({reason}). Do not retry it or reach the same end another way; \
                 go on without it or ask what to do."
            )),
        }
    }

    /// Whether somebody agreed before that this command runs outside the sandbox.
    pub(crate) fn lets_out(&self, command: &str, task: &TaskId) -> bool {
        let key = outside(command);
        let held = lock(&self.sessions).get(task).is_some_and(|keys| keys.contains(&key));
        held || lock(&self.permanent).contains(&key)
    }

    /// Asks whether a command the sandbox refused something may run again without it. Never answers yes by itself:
    /// where no questions are asked, commands stay inside.
    pub(crate) async fn may_leave(
        &self,
        command: &str,
        refused: &str,
        task: &TaskId,
        context: ToolContext<'_>,
    ) -> bool {
        if self.asks_nothing(task) {
            return false;
        }
        let _turn = self.my_turn().await;
        if self.lets_out(command, task) {
            return true;
        }
        let reason = format!("run again outside the sandbox; inside it ran once and was refused {refused}");
        let danger =
            Danger { key: outside(command), reason: redact(&reason, Redaction::default()).into_owned() };
        let shown = redact(command, Redaction::default()).into_owned();
        let question = Question::Approve { command: shown, danger: danger.clone() };
        self.put(question, &[danger], task, context, QuestionStage::AfterActing).await == Said::Yes
    }

    /// Asks whether a tool may write a file outside the project. The error is what the model reads. Never answers yes by
    /// itself: where no questions are asked, files outside stay as they are.
    pub(crate) async fn may_write(
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
        if self.asks_nothing(task) {
            return Err(format!(
                "Write denied: '{shown}': {reason}, and no questions are asked here; {setting}."
            ));
        }
        let _turn = self.my_turn().await;
        let known = lock(&self.sessions).get(task).is_some_and(|keys| keys.contains(&key))
            || lock(&self.permanent).contains(&key);
        if known {
            return Ok(());
        }
        let danger = Danger { key, reason: format!("{reason}; this is asked for this file alone") };
        let question = Question::Approve { command: format!("{tool} {shown}"), danger: danger.clone() };
        match self.put(question, &[danger], task, context, QuestionStage::BeforeActing).await {
            Said::Yes => Ok(()),
            Said::No => Err(format!(
                "Write denied: the user does not want '{shown}' written. Do not retry it or reach the same end another way."
            )),
            Said::Nothing => Err(format!("Write denied: '{shown}': {reason}, and nobody answered in time.")),
            Said::Nobody => {
                Err(format!("Write denied: '{shown}': {reason}, and nobody could be asked; {setting}."))
            }
        }
    }

    /// Asks, and holds what was agreed to as far as it reaches.
    async fn put(
        &self,
        question: Question,
        open: &[Danger],
        task: &TaskId,
        context: ToolContext<'_>,
        stage: QuestionStage,
    ) -> Said {
        let answer = match stage {
            QuestionStage::BeforeActing => context.frontend.ask_before_acting(question, context.cancel),
            QuestionStage::AfterActing => context.frontend.ask(question, context.cancel),
        };
        match answer.await {
            Answer::Approval(Approval::Once) => {}
            Answer::Approval(Approval::Session) => self.hold(task, open),
            Answer::Approval(Approval::Always) => {
                self.hold(task, open);
                // What a scan found is agreed to for this conversation at most: the next may find more behind the same name.
                let lasts = |danger: &&Danger| !danger.key.starts_with(scan::KEY) && may_last(&danger.key);
                for danger in open.iter().filter(lasts) {
                    if lock(&self.permanent).insert(danger.key.clone()) {
                        (self.keep)(&danger.key);
                    }
                }
            }
            Answer::Silence => return Said::Nothing,
            Answer::Unavailable => return Said::Nobody,
            Answer::Approval(Approval::Deny) | Answer::Text(_) | Answer::Secret(_) => return Said::No,
        }
        Said::Yes
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
        let held = dangers.iter().map(|danger| danger.key.clone()).filter(|key| !runs_a_file(key));
        sessions.entry(task.clone()).or_default().extend(held);
    }
}

/// How the key of an approval to leave the sandbox begins.
const OUTSIDE: &str = "outside the sandbox: ";

/// Programs that do what their line says and nothing a file of the project adds to it.
const PLAIN: [&str; 20] = [
    "basename", "cat", "chmod", "chown", "cp", "date", "dirname", "echo", "head", "install", "ln", "ls",
    "mkdir", "mv", "printf", "rm", "rmdir", "tail", "tee", "touch",
];

/// Whether an approval may last beyond its conversation. One to leave the sandbox binds the line and not what the line
/// runs: a script, a make rule or a test could be changed afterwards, so it may only where there is nothing of the kind.
fn may_last(key: &str) -> bool {
    let Some(command) = key.strip_prefix(OUTSIDE) else { return true };
    let heads =
        command.split(['\n', ';', '|', '&']).map(|part| part.split_whitespace().next().unwrap_or_default());
    !command.contains(['`', '$', '(', '<'])
        && heads.filter(|head| !head.is_empty()).all(|head| PLAIN.contains(&head))
}

/// Whether a line outside the sandbox names a file that would be run: it can be another one a moment later.
fn runs_a_file(key: &str) -> bool {
    const SCRIPTS: [&str; 9] = [".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php"];
    let Some(command) = key.strip_prefix(OUTSIDE) else { return false };
    if may_last(key) {
        return false;
    }
    let is_file = |word: &str| {
        let word = word.trim_matches(['"', '\'', ';', '&', '|', '(', ')']);
        word.contains("./") || SCRIPTS.iter().any(|ending| word.ends_with(ending))
    };
    command.split_whitespace().any(is_file)
}

/// The key of an approval to leave the sandbox: for this very command and no other.
fn outside(command: &str) -> String {
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
        "BLOCKED: this needs a person's approval ({}) and nobody could be asked. Do not retry it. The user can allow it by \
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
            let key = outside(command);
            assert_eq!((may_last(&key), !runs_a_file(&key)), (lasts, held), "{command}");
        }
        assert!(
            may_last("recursive delete") && !runs_a_file("recursive delete"),
            "other keys name a kind of danger"
        );
    }
}
