//! What goes wrong on demand.

use serde_json::Value;

/// How the next matching REST call goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscordFault {
    /// It is refused with this status, code and text.
    Refuse { status: u16, code: u64, message: String },
    /// It came too often.
    Limit { after: f64, scope: RateLimitScope },
    /// The connection ends before anything was done.
    Cut,
    /// It is done, but the connection ends before the answer.
    DoAndCut,
    /// Nothing is done until the gate is opened.
    WaitBefore(String),
    /// It is done, but the answer waits for the gate.
    WaitAfter(String),
    /// The answer is no JSON.
    Garbage,
}

/// Whom a limit concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitScope {
    Route,
    Everything,
}

/// What is to be done on an open socket.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscordSocketAction {
    /// Anything at all.
    Send(Value),
    /// Text that need not be JSON.
    SendText(String),
    /// Says that the client should connect again.
    Reconnect,
    /// Says that the session is invalid.
    Invalidate(SessionResumption),
    Close(u16),
    /// The connection breaks off without a word.
    Drop,
}

/// Whether an invalid session can be resumed all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionResumption {
    Yes,
    No,
}

/// What of it survives when the server starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRetention {
    Kept,
    Lost,
}
