//! The ports: object-safe traits at which crates meet without knowing each other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::envelope::{ChatAddress, DeliveryCertainty, DeliveryReceipt, Envelope, OutgoingMessage};
use crate::event::{TurnEvent, UserAnswer, UserQuestion};
use crate::id::{SessionId, TaskId};
use crate::message::Message;
use crate::model::{Completion, Delta, ModelError, ModelRequest};
use crate::tool::{CallPolicy, OutcomeStatus, ToolEvent, ToolInvocation, ToolOutcome, ToolSpec};
use crate::usage::Usage;
use crate::{BoxFuture, Cancel, Deadline, Timestamp};

/// Takes the pieces of an answer as they arrive. Must not block.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// Something that answers requests: a provider with its retries and fallbacks, or the offline model.
pub trait Model: Send + Sync {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>>;

    /// The context window in tokens, as far as it is known without asking the network.
    fn context_window(&self, model: &str) -> u64;
}

/// Something the model may call.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// Never fails: a failure is an outcome the model reads.
    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome>;

    /// How a call with these arguments behaves towards the other calls of its answer, and in the turn.
    fn call_policy(&self, arguments: &serde_json::Map<String, serde_json::Value>) -> CallPolicy {
        let _ = arguments;
        CallPolicy::default()
    }

    /// Tells a tool with a state of its own what happened around it. Must not block.
    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        let _ = (task, occasion);
    }

    /// A subagent is over, and nobody is left to look after what it started: that ends too. Must not block.
    fn end_background_work(&self, task: &TaskId) {
        let _ = task;
    }

    /// A call under a name this tool had in older releases, as it is made today. Such names are not offered.
    fn upgrade_legacy_call(
        &self,
        name: &str,
        arguments: &serde_json::Map<String, serde_json::Value>,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        let _ = (name, arguments);
        None
    }

    /// What of its state must stay before the model when older messages are summarised away.
    fn carry_over(&self, task: &TaskId) -> Option<String> {
        let _ = task;
        None
    }
}

/// A model for side tasks: summaries, titles, judgements. No tools, no stream.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SideModel {
    pub model: Arc<dyn Model>,
    pub name: String,
    /// The longest one question may take.
    pub timeout: Duration,
}

/// What a running tool may reach.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it only borrows ports")]
pub struct ToolContext<'a> {
    pub frontend: &'a dyn Frontend,
    pub cancel: &'a Cancel,
    pub deadline: Deadline,
    /// Absent where no subagents may be started.
    pub spawn: Option<&'a dyn SubagentSpawner>,
}

/// Where commands run.
pub trait Environment: Send + Sync {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>>;
}

/// A command for an environment.
#[derive(Debug, Clone, Copy)]
pub struct ShellCommand<'a> {
    pub shell: &'a str,
    pub directory: Option<&'a Path>,
    pub stdin: Option<&'a [u8]>,
    pub timeout: Duration,
}

/// What a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    pub output: String,
    pub exit_code: i32,
}

/// Why a command could not be run at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("the environment is not available: {0}")]
    Unavailable(String),
    #[error("the sandbox refused it: {0}")]
    Refused(String),
}

/// A chat platform: translates between its wire and envelopes, nothing else.
pub trait Channel: Send + Sync {
    fn platform(&self) -> &str;

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities::default()
    }

    /// Runs until cancelled. `intake` resolves once the envelope is committed; only then may the platform be told.
    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>>;

    /// Sends one part of an answer; what is longer than the platform takes was split before.
    fn send<'a>(&'a self, reply: &'a OutgoingMessage)
    -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>>;

    /// Sends a part of which an earlier attempt may have arrived: where the platform can tell, it is not said twice. No
    /// attempt was made before `since`; some platforms can tell for a while only.
    fn send_again<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        let _ = since;
        Box::pin(async move {
            let receipt = self.send(reply).await?;
            Ok(DeliveryReceipt { certainty: DeliveryCertainty::AtLeastOnce, ..receipt })
        })
    }

    /// Posts something that may be lost, such as a sign of progress, and says what the platform calls it.
    fn post<'a>(
        &'a self,
        place: &'a ChatAddress,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, ChannelError>> {
        let _ = (place, text);
        Box::pin(std::future::ready(Err(ChannelError::Refused(
            "this platform has no such messages".to_owned(),
        ))))
    }

    /// Gives a posted message another text.
    fn edit<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        let _ = (place, message, text);
        Box::pin(std::future::ready(Err(ChannelError::Refused("this platform has no edits".to_owned()))))
    }

    /// Shows that something is being done; losing it does no harm.
    fn show_typing<'a>(&'a self, place: &'a ChatAddress) -> BoxFuture<'a, ()>;

    /// Shows at a person's message what becomes of it; losing it does no harm.
    fn show_message_status<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        mark: MessageStatus,
    ) -> BoxFuture<'a, ()> {
        let _ = (place, message, mark);
        Box::pin(std::future::ready(()))
    }

    /// Chats the platform itself knows of, beyond those somebody has written from.
    fn chats(&self) -> BoxFuture<'_, Vec<ChatAddress>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// What becomes of a person's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStatus {
    /// It is being worked on.
    Processing,
    Answered,
    /// No answer came of it.
    Failed,
}

/// What a platform can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelCapabilities {
    /// The longest text of one message.
    pub max_length: usize,
    pub unit: LengthUnit,
    /// Whether a posted message can be given another text.
    pub edits: bool,
    /// Whether a picture on the web can be shown; else its address stays in the text.
    pub web_images: bool,
    /// How often the sign of being busy has to be renewed.
    pub typing_interval: Duration,
}

impl Default for ChannelCapabilities {
    fn default() -> Self {
        Self {
            max_length: 4000,
            unit: LengthUnit::Scalars,
            edits: false,
            web_images: false,
            typing_interval: Duration::from_secs(2),
        }
    }
}

/// What a platform counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthUnit {
    Scalars,
    Utf16,
}

/// Takes envelopes in.
pub trait Intake: Send + Sync {
    fn accept(&self, envelope: Envelope) -> BoxFuture<'_, Result<IntakeOutcome, ChannelError>>;

    /// A channel tells how its connection is; people see it. Must not block.
    fn report_connection(&self, platform: &str, connection: ConnectionStatus) {
        let _ = (platform, connection);
    }
}

/// How a channel's connection to its platform is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// Messages come in.
    Up,
    /// They do not for the moment; the channel tries again by itself.
    Down(String),
}

/// What intake did with an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakeOutcome {
    New,
    /// Seen before: acknowledge it again, do nothing.
    Duplicate,
}

/// Why a platform did not do as asked, named for what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("try again{}: {reason}", .after.map(|d| format!(" in {} s", d.as_secs())).unwrap_or_default())]
    Retry { after: Option<Duration>, reason: String },
    /// The connection died in the middle: trying again may do it twice.
    #[error("nobody knows whether it arrived: {0}")]
    DeliveryUnknown(String),
    #[error("sign in again: {0}")]
    Reauthorise(String),
    /// Another program is connected in our place; one of the two has to go.
    #[error("somebody else is connected with the same account: {0}")]
    Conflict(String),
    #[error("the platform refused it: {0}")]
    Refused(String),
}

/// A surface: events go out to it, questions get their answers from it.
pub trait Frontend: Send + Sync {
    fn show(&self, event: TurnEvent);

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer>;

    /// Asks before the call has done anything. Where the process ends while the question is open, the call can be run anew,
    /// which asks again.
    fn ask_before_acting<'a>(
        &'a self,
        question: UserQuestion,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, UserAnswer> {
        self.ask(question, cancel)
    }
}

/// Starts subagents. They share their parent's deadline, budget and cancellation.
pub trait SubagentSpawner: Send + Sync {
    /// Never fails: a subagent that does not come to its end reports why.
    fn run(&self, job: SubagentTask) -> BoxFuture<'_, SubagentReport>;
}

/// Work handed to a subagent, which knows nothing but what is said here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentTask {
    pub goal: String,
    pub context: String,
    /// The tools it may use of those its parent has; absent is all of them.
    pub tools: Option<Vec<String>>,
    /// Tools it does not get in any case.
    pub excluded_tools: Vec<String>,
    pub max_iterations: u32,
    /// Which of its brothers it is, for people: `2/3`.
    pub label: String,
}

/// What a subagent came to.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentReport {
    pub session: SessionId,
    pub outcome: SubagentOutcome,
    /// Its last word.
    pub summary: Option<String>,
    pub error: Option<String>,
    pub api_calls: u32,
    pub duration: Duration,
    pub model: String,
    pub usage: Usage,
    pub tool_calls: Vec<SubagentToolCall>,
}

/// How a subagent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubagentOutcome {
    Completed,
    /// The limit of its steps was reached.
    IterationLimit,
    Failed,
    Interrupted,
}

/// One tool call of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentToolCall {
    pub tool: String,
    pub argument_bytes: usize,
    pub result_bytes: usize,
    pub status: OutcomeStatus,
}

/// Sends to a chat by name, for the scheduler and the `send_message` tool.
pub trait MessageSender: Send + Sync {
    /// Sends a text; `from` is the session that sends it, and absent where a person does from the shell.
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<SendOutcome, ChannelError>>;

    /// Chats that can be named, in words.
    fn targets(&self) -> BoxFuture<'_, Vec<String>>;
}

/// What became of something sent by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendOutcome {
    pub platform: String,
    pub chat_id: String,
    pub receipt: DeliveryReceipt,
    /// Where it went, when the sender did not say exactly; or why it still waits.
    pub note: Option<String>,
    /// It stands in the chat's conversation, too.
    pub mirrored: bool,
}

/// Another memory beside the files of the home. At most one is active; none of its failures reaches a turn.
pub trait ExternalMemory: Send + Sync {
    fn name(&self) -> &str;

    /// A fixed text for the prompt.
    fn prompt_block(&self) -> Option<String> {
        None
    }

    /// Tools it offers.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// What it knows about the words of a new turn.
    fn recall<'a>(&'a self, words: &'a str) -> BoxFuture<'a, Option<String>>;

    /// Takes in what was said in a turn that ended well.
    fn store_turn<'a>(&'a self, user: &'a str, assistant: &'a str) -> BoxFuture<'a, ()>;

    /// Looks at messages that are about to be summarised; what it answers goes into the summary's material.
    fn before_compression<'a>(&'a self, messages: &'a [Message]) -> BoxFuture<'a, Option<String>> {
        let _ = messages;
        Box::pin(std::future::ready(None))
    }

    /// The agent changed its own memory with these arguments.
    fn memory_changed(&self, arguments: &serde_json::Map<String, serde_json::Value>) {
        let _ = arguments;
    }

    /// The conversation goes on under another id.
    fn session_changed(&self, from: &SessionId, to: &SessionId) {
        let _ = (from, to);
    }

    fn session_ended(&self, session: &SessionId) {
        let _ = session;
    }
}

/// What others want to do at the steps of a turn. A failing hook is its own business.
pub trait TurnHooks: Send + Sync {
    fn session_started(&self, session: &SessionId) {
        let _ = session;
    }

    /// Before a turn's first model call; the answer is added to the system text of this turn only.
    fn before_turn<'a>(&'a self, session: &'a SessionId, words: &'a str) -> BoxFuture<'a, Option<String>> {
        let _ = (session, words);
        Box::pin(std::future::ready(None))
    }

    /// Before a tool runs; an answer keeps it from running and is what the model reads instead.
    fn before_tool<'a>(&'a self, call: &'a ToolInvocation) -> BoxFuture<'a, Option<String>> {
        let _ = call;
        Box::pin(std::future::ready(None))
    }

    fn after_tool(&self, call: &ToolInvocation, outcome: &ToolOutcome) {
        let _ = (call, outcome);
    }

    fn after_turn(&self, session: &SessionId, answer: Option<&str>) {
        let _ = (session, answer);
    }

    fn session_ended(&self, session: &SessionId) {
        let _ = session;
    }
}
