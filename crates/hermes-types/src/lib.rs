//! What passes between the steps of a turn, and the ports the steps meet at.
//!
//! Holds data and traits only: no I/O, no runtime, no policy. Everything here either crosses a crate border or is
//! written to disk, so its serialised shape is a contract with existing homes.

mod call;
mod civil;
mod clock;
mod descriptors;
mod envelope;
mod event;
mod id;
mod message;
mod model;
mod port;
mod provenance;
mod raw;
mod secret;
mod tool;
mod turn;
mod usage;

use std::future::Future;
use std::pin::Pin;

pub use call::{CallIds, ToolCall};
pub use civil::CivilTime;
pub use clock::{Clock, Deadline, Timestamp, WallClock};
pub use descriptors::{OUT_OF_DESCRIPTORS, is_out_of_descriptors};
pub use envelope::{
    Attachment, AttachmentKind, Certainty, ChatKind, Choice, Envelope, Picture, Piece, Place, Receipt, Reply,
    Sender,
};
pub use event::{Answer, Approval, Event, NoticeKind, Question};
pub use id::{
    CallId, HolderId, InboxId, JobRunId, MessageId, OutboxId, SessionId, SessionKind, TaskId, TurnId,
    random_hex,
};
pub use message::{Content, FinishReason, Message, Part, Role};
pub use model::{Completion, Delta, Effort, ModelError, Request};
pub use port::{
    Abilities, Accepted, Channel, ChannelError, Command, Connection, Courier, DeltaSink, Dispatch,
    Environment, ExternalMemory, Finished, Frontend, Hooks, Intake, Job, JobEnd, LengthUnit, Mark, Model,
    Report, RunError, SideModel, Spawn, Tool, ToolContext, Trace,
};
pub use provenance::{ContextItem, Provenance};
pub use raw::{Fields, Raw};
pub use secret::Secret;
pub use tool::{
    Beside, Call, Danger, Manner, Occasion, Outcome, OutcomeStatus, ResultSize, ToolSpec, Verdict, Work,
};
pub use turn::{Turn, TurnState};
pub use usage::{Cost, CostStatus, SpendingCap, Usage};

/// Reaches everything a turn started: model stream, tools, child processes, subagents.
pub use tokio_util::sync::CancellationToken as Cancel;

/// What every asynchronous port returns: object-safe, sendable, and without a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
