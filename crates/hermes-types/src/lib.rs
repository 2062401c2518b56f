//! The data types that the steps of a turn exchange, and the ports between the crates.
//!
//! Holds data and traits only: no I/O, no runtime, no policy. Every type here either crosses a crate boundary or
//! is written to disk, so its serialised form must stay compatible with existing homes.

mod api_mode;
mod call;
mod civil_time;
mod clock;
mod descriptors;
mod envelope;
mod event;
mod external_memory;
mod hook;
mod id;
mod message;
mod model;
mod platform;
mod platform_request;
mod port;
mod provenance;
mod raw_json;
mod secret;
mod tool;
mod tool_descriptor;
mod turn;
mod usage;

use std::future::Future;
use std::pin::Pin;

pub use api_mode::ApiMode;
pub use call::{CallIds, ToolCall};
pub use civil_time::CivilTime;
pub use clock::{Clock, Deadline, Timestamp, WallClock, doubling_wait};
pub use descriptors::{OUT_OF_DESCRIPTORS, is_out_of_descriptors};
pub use envelope::{
    Attachment, AttachmentKind, ChatAddress, ChatKind, ChatPart, DeliveryCertainty, DeliveryReceipt,
    Envelope, OutgoingMessage, QuickReply, Sender, WebImage,
};
pub use event::{ApprovalDecision, TurnEvent, TurnNoticeKind, UserAnswer, UserQuestion};
pub use external_memory::{
    EmbeddingError, ExternalMemory, FinishedTurn, MemoryPlace, MemorySessionChange, MemoryWrite, TextEmbedder,
};
pub use hook::{HOOK_FACTS, HookEvent, HookFacts, HookReply};
pub use id::{
    CallId, HolderId, InboxId, JobRunId, MessageId, OutboxId, SessionId, SessionKind, TaskId, TurnId,
    random_hex,
};
pub use message::{ContentPart, FinishReason, Message, MessageContent, Role};
pub use model::{Completion, Delta, ModelError, ModelRequest, ReasoningEffort};
pub use platform::{
    PLATFORM_FACTS, PlatformFacts, PlatformKind, PlatformTrait, TextForm, chat_platforms, platform_facts,
    platform_has, platform_label,
};
pub use platform_request::{PlatformRequest, PlatformRequests, PlatformResponse};
pub use port::{
    Channel, ChannelCapabilities, ChannelError, CommandOutput, ConnectionStatus, DeltaSink, Environment,
    Frontend, Intake, IntakeOutcome, InvitationDecision, LengthUnit, MessageSender, MessageStatus, Model,
    RunError, SendOutcome, ShellCommand, SideModel, SubagentOutcome, SubagentReport, SubagentSpawner,
    SubagentTask, SubagentToolCall, Tool, ToolContext, TurnHooks,
};
pub use provenance::{ContextItem, Provenance};
pub use raw_json::{JsonFields, RawJson};
pub use secret::Secret;
pub use tool::{
    CallKind, CallPolicy, Concurrency, Danger, OutcomeStatus, ResultSize, ToolEvent, ToolInvocation,
    ToolOutcome, ToolSpec,
};
pub use tool_descriptor::{PreviewKind, ResultAuthor, ToolDescriptor, ToolDisplay, ToolRole, ToolUser};
pub use turn::{Turn, TurnState};
pub use usage::{Cost, CostStatus, SpendingCap, Usage};

/// The cancellation token that reaches everything a turn started: model stream, tools, child processes, subagents.
pub use tokio_util::sync::CancellationToken as Cancel;

/// The return type of every asynchronous port method: object-safe, `Send`, and written without a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
