//! How a call goes wrong on request.

/// What becomes of the next call of a method.
#[derive(Debug, Clone)]
pub enum TelegramFault {
    /// It is not done, and the API says so.
    Refuse { code: u16, description: String, retry_after: Option<u64> },
    /// It is not done, and the connection ends.
    Drop,
    /// It is done, and the connection ends before anything is said.
    DropAfter,
    /// It waits at the gate of that name before it is done.
    Hang(String),
    /// It is done and waits at the gate before anything is said.
    HangAfter(String),
    /// The answer is a page of some server in between.
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
