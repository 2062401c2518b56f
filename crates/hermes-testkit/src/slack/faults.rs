//! What goes wrong on demand.

use serde_json::Value;

/// How the next call of a method goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum SlackFault {
    /// `{"ok": false, "error": …}`.
    Refuse(String),
    /// 429 with this many seconds to wait.
    Limit(u64),
    /// A plain status without a useful body.
    Status(u16),
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

/// What is to be done on an open socket.
#[derive(Debug, Clone, PartialEq)]
pub enum SlackSocketAction {
    Send(Value),
    /// Text that need not be JSON.
    SendText(String),
    /// Says that the connection is to be renewed, with this reason, and closes it.
    Disconnect(String),
    /// The connection breaks off without a word.
    Drop,
}
