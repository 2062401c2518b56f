//! Faults on request.

use serde_json::Value;

/// Says how the next call of a method fails.
#[derive(Debug, Clone, PartialEq)]
pub enum SlackFault {
    /// The response is `{"ok": false, "error": …}`.
    Refuse(String),
    /// The response is 429 with this many seconds to wait.
    Limit(u64),
    /// The response is a status without a useful body.
    Status(u16),
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

/// An action on an open socket.
#[derive(Debug, Clone, PartialEq)]
pub enum SlackSocketAction {
    Send(Value),
    /// Sends a text that need not be JSON.
    SendText(String),
    /// Tells the client to renew the connection, with this reason, and closes it.
    Disconnect(String),
    /// Drops the connection without a close frame.
    Drop,
}
