//! The ports: object-safe traits through which crates call each other without depending on each other.
//!
//! Holds the traits and their parameter types, and no implementations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::envelope::{ChatAddress, ChatKind, DeliveryCertainty, DeliveryReceipt, Envelope, OutgoingMessage};
use crate::event::{TurnEvent, UserAnswer, UserQuestion};
use crate::hook::HookEvent;
use crate::id::{SessionId, TaskId};
use crate::model::{Completion, Delta, ModelError, ModelRequest};
use crate::tool::{CallPolicy, OutcomeStatus, ToolEvent, ToolInvocation, ToolOutcome, ToolSpec};
use crate::tool_descriptor::ToolDescriptor;
use crate::usage::Usage;
use crate::{BoxFuture, Cancel, Deadline, Timestamp};

/// The callback that receives the pieces of an answer as they arrive. It must not block.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// A model that answers requests: a provider with its retries and fallbacks, or the offline model.
pub trait Model: Send + Sync {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>>;

    /// Returns the context window in tokens, as far as it is known without a network request.
    fn context_window(&self, model: &str) -> u64;

    /// Returns another model whose calls count in the budget of this one, if this one has a budget.
    fn within_budget(&self, other: Arc<dyn Model>) -> Arc<dyn Model> {
        other
    }
}

/// A tool the model may call.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// Returns the facts about the tool that are not for the model.
    fn descriptor(&self) -> ToolDescriptor<'_> {
        ToolDescriptor::unknown(&self.spec().name)
    }

    /// Runs the call. Never fails: a failure is an outcome the model reads.
    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome>;

    /// Returns how a call with these arguments runs beside the other calls of the same answer, and its kind in the
    /// turn.
    fn call_policy(&self, arguments: &serde_json::Map<String, serde_json::Value>) -> CallPolicy {
        let _ = arguments;
        CallPolicy::default()
    }

    /// Notifies a tool that keeps state of an event around it. Must not block.
    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        let _ = (task, occasion);
    }

    /// Ends the background work a subagent started, because the subagent has ended and no one else manages it.
    /// Must not block.
    fn end_background_work(&self, task: &TaskId) {
        let _ = task;
    }

    /// Translates a call made under a name this tool had in older releases into the arguments of today. Old names
    /// are not offered to the model.
    fn upgrade_legacy_call(
        &self,
        name: &str,
        arguments: &serde_json::Map<String, serde_json::Value>,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        let _ = (name, arguments);
        None
    }

    /// Returns the part of the tool's state that must stay visible to the model when older messages are
    /// summarised.
    fn carry_over(&self, task: &TaskId) -> Option<String> {
        let _ = task;
        None
    }
}

/// A model for side tasks such as summaries, titles and judgements. It gets no tools and does not stream.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SideModel {
    pub model: Arc<dyn Model>,
    pub name: String,
    /// The time limit of one request.
    pub timeout: Duration,
}

/// The ports and limits available to a running tool.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it only borrows ports")]
pub struct ToolContext<'a> {
    pub frontend: &'a dyn Frontend,
    pub cancel: &'a Cancel,
    pub deadline: Deadline,
    /// The spawner of subagents; absent where no subagents may be started.
    pub spawn: Option<&'a dyn SubagentSpawner>,
    /// The model of the turn, whose budget also covers what a tool asks other models; absent outside turns.
    pub turn_model: Option<&'a dyn Model>,
}

/// An environment in which shell commands run.
pub trait Environment: Send + Sync {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>>;
}

/// A command to run in an environment.
#[derive(Debug, Clone, Copy)]
pub struct ShellCommand<'a> {
    pub shell: &'a str,
    pub directory: Option<&'a Path>,
    pub stdin: Option<&'a [u8]>,
    pub timeout: Duration,
}

/// The output and exit code of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    pub output: String,
    pub exit_code: i32,
}

/// The reason why a command could not be run at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("the environment is not available: {0}")]
    Unavailable(String),
    #[error("the sandbox refused it: {0}")]
    Refused(String),
}

/// A chat platform. It translates between the platform's protocol and envelopes, and does nothing else.
pub trait Channel: Send + Sync {
    fn platform(&self) -> &str;

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities::default()
    }

    /// Checks the credentials by a call that changes nothing, where the platform has one.
    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Receives messages until cancelled. `intake` resolves once the envelope is committed; only then may the
    /// channel acknowledge the message to the platform.
    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>>;

    /// Sends one part of an answer. The caller has already split texts that are longer than the platform accepts.
    fn send<'a>(&'a self, reply: &'a OutgoingMessage)
    -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>>;

    /// Sends a part that an earlier attempt may have delivered. Where the platform can tell, it is not sent twice.
    /// No attempt was made before `since`; some platforms can tell for a limited time only.
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

    /// Posts a message that may be lost, such as a progress notice, and returns the platform's id of it.
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

    /// Replaces the text of a posted message.
    fn edit<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        let _ = (place, message, text);
        Box::pin(std::future::ready(Err(ChannelError::Refused("this platform has no edits".to_owned()))))
    }

    /// Shows a typing indicator; it does no harm if the indicator is lost.
    fn show_typing<'a>(&'a self, place: &'a ChatAddress) -> BoxFuture<'a, ()>;

    /// Shows the status of a user's message on that message; it does no harm if the status is lost.
    fn show_message_status<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        mark: MessageStatus,
    ) -> BoxFuture<'a, ()> {
        let _ = (place, message, mark);
        Box::pin(std::future::ready(()))
    }

    /// Returns the chats the platform itself knows, in addition to those a user has written from.
    fn chats(&self) -> BoxFuture<'_, Vec<ChatAddress>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// The status of a user's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStatus {
    /// The turn for it is running.
    Processing,
    Answered,
    /// The turn ended without an answer.
    Failed,
}

/// The features and limits of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelCapabilities {
    /// The maximum length of one message, in `unit`s.
    pub max_length: usize,
    pub unit: LengthUnit,
    /// Tells whether the text of a posted message can be replaced.
    pub edits: bool,
    /// Tells whether the platform can show a picture from the web; otherwise the URL stays in the text.
    pub web_images: bool,
    /// The interval at which the typing indicator has to be renewed.
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

/// The unit in which a platform measures the length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthUnit {
    Scalars,
    Utf16,
}

/// What to do about an invitation into a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvitationDecision {
    Accept,
    Decline,
}

/// The receiver of incoming envelopes.
pub trait Intake: Send + Sync {
    fn accept(&self, envelope: Envelope) -> BoxFuture<'_, Result<IntakeOutcome, ChannelError>>;

    /// Decides whether the agent follows somebody into a chat, on platforms where it is asked to. Must not block.
    fn decide_invitation(&self, platform: &str, user: &str, kind: ChatKind) -> InvitationDecision;

    /// Records the state of a channel's connection, which the status output shows. Must not block.
    fn report_connection(&self, platform: &str, connection: ConnectionStatus) {
        let _ = (platform, connection);
    }
}

/// The state of a channel's connection to its platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// The channel receives messages.
    Up,
    /// The channel receives no messages for now and reconnects by itself.
    Down(String),
}

/// The result of handing an envelope to the intake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakeOutcome {
    New,
    /// The envelope was accepted before: the channel acknowledges it again and does nothing else.
    Duplicate,
}

/// The reason why a platform did not do what was requested. The variants follow what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("try again{}: {reason}", .after.map(|d| format!(" in {} s", d.as_secs())).unwrap_or_default())]
    Retry { after: Option<Duration>, reason: String },
    /// The connection was lost during the request, so a retry may do it twice.
    #[error("delivery could not be confirmed: {0}")]
    DeliveryUnknown(String),
    #[error("sign in again: {0}")]
    Reauthorise(String),
    /// Another program is connected with the same account; one of the two has to stop.
    #[error("another program is connected with the same account: {0}")]
    Conflict(String),
    #[error("the platform refused it: {0}")]
    Refused(String),
}

/// A user interface: the turn sends events to it and gets answers to its questions from it.
pub trait Frontend: Send + Sync {
    fn show(&self, event: TurnEvent);

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer>;

    /// Takes what the user said to the running turn since the last call. It reaches the model with the next request.
    fn take_remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Asks before the call has done anything. If the process ends while the question is open, the call can be run
    /// again, and it then asks again.
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
    /// Runs a subagent. Never fails: a subagent that does not finish reports the reason.
    fn run(&self, job: SubagentTask) -> BoxFuture<'_, SubagentReport>;
}

/// The work for a subagent, which knows nothing except what this task contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentTask {
    pub goal: String,
    pub context: String,
    /// The tools it may use of those its parent has; absent means all of them. What is withheld from subagents it
    /// never gets.
    pub tools: Option<Vec<String>>,
    pub max_iterations: u32,
    /// The subagent's position among those started together, for display: `2/3`.
    pub label: String,
}

/// The result of a subagent.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentReport {
    pub session: SessionId,
    pub outcome: SubagentOutcome,
    /// The subagent's final answer.
    pub summary: Option<String>,
    pub error: Option<String>,
    pub api_calls: u32,
    pub duration: Duration,
    pub model: String,
    pub usage: Usage,
    pub tool_calls: Vec<SubagentToolCall>,
}

/// The way a subagent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubagentOutcome {
    Completed,
    /// The subagent reached its iteration limit.
    IterationLimit,
    Failed,
    Interrupted,
}

/// A tool call that a subagent made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentToolCall {
    pub tool: String,
    pub argument_bytes: usize,
    pub result_bytes: usize,
    pub status: OutcomeStatus,
}

/// Sends messages to a chat by name, for the scheduler and the `send_message` tool.
pub trait MessageSender: Send + Sync {
    /// Sends a text. `from` is the sending session; it is absent when a person sends from the command line.
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<SendOutcome, ChannelError>>;

    /// Returns readable descriptions of the chats that can be named as a target.
    fn targets(&self) -> BoxFuture<'_, Vec<String>>;
}

/// The result of sending a message by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendOutcome {
    pub platform: String,
    pub chat_id: String,
    pub receipt: DeliveryReceipt,
    /// A note on where the message went, when the sender did not name the chat exactly, or on why it still waits.
    pub note: Option<String>,
    /// Tells whether the message was also added to the chat's conversation.
    pub mirrored: bool,
}

/// Hooks that run at the steps of a turn. A failing hook does not fail the turn.
///
/// What a hook is told is a mapping, in the words that configurations and plugins know; the step says which.
pub trait TurnHooks: Send + Sync {
    /// Tells whether a hook runs at this step, so that nobody collects what is not wanted.
    fn wants(&self, event: HookEvent) -> bool;

    /// Passes a step on without waiting.
    fn notify(&self, event: HookEvent, input: serde_json::Map<String, serde_json::Value>);

    /// Passes a step on and waits for an answer, whose meaning is in the facts of the step.
    fn ask(
        &self,
        event: HookEvent,
        input: serde_json::Map<String, serde_json::Value>,
    ) -> BoxFuture<'_, Option<String>>;
}
