//! Faults of calls on request.

/// Says how the next call of a method fails.
#[derive(Debug, Clone)]
pub enum TelegramFault {
    /// The call has no effect, and the API refuses it.
    Refuse { code: u16, description: String, retry_after: Option<u64> },
    /// The call has no effect, and the connection ends.
    Drop,
    /// The call has its effect, and the connection ends before the response.
    DropAfter,
    /// The call waits at this gate before it has an effect.
    Hang(String),
    /// The call has its effect, and the response waits at the gate.
    HangAfter(String),
    /// The response is the HTML page of a proxy.
    Garbage,
}

impl TelegramFault {
    pub fn refuse(code: u16, description: &str) -> Self {
        Self::Refuse { code, description: description.to_owned(), retry_after: None }
    }

    pub fn too_many(seconds: u64) -> Self {
        let description = format!("Too Many Requests: retry after {seconds}");
        Self::Refuse { code: 429, description, retry_after: Some(seconds) }
    }
}
