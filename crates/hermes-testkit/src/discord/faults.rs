//! Faults on request.

use serde_json::Value;

/// Says how the next matching REST call fails.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscordFault {
    /// Discord refuses the call with this status, code and text.
    Refuse { status: u16, code: u64, message: String },
    /// The call exceeds a rate limit.
    Limit { after: f64, scope: RateLimitScope },
    /// The connection ends before the call has an effect.
    Cut,
    /// The call has its effect, but the connection ends before the response.
    DoAndCut,
    /// The call has no effect until the gate is released.
    WaitBefore(String),
    /// The call has its effect, but the response waits for the gate.
    WaitAfter(String),
    /// The response is not JSON.
    Garbage,
}

/// The scope of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitScope {
    Route,
    Everything,
}

/// An action on an open socket.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscordSocketAction {
    /// Sends any JSON.
    Send(Value),
    /// Sends a text that need not be JSON.
    SendText(String),
    /// Tells the client to reconnect.
    Reconnect,
    /// Tells the client that the session is invalid.
    Invalidate(SessionResumption),
    Close(u16),
    /// Drops the connection without a close frame.
    Drop,
}

/// Says whether an invalid session can be resumed all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionResumption {
    Yes,
    No,
}

/// Says which sessions survive a restart of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRetention {
    Kept,
    Lost,
}
