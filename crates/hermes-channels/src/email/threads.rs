//! What is known of the mails that may still be answered: subject and earlier ids. An answer belongs below its question
//! in every mail program, also after a restart.
//!
//! Kept in one small document, not in memory: mails are few. Invariant: a mail is in it before the intake gets it.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::incoming::IncomingMail;
use crate::host::ChannelHost;

const DOCUMENT: &str = "email_threads.json";
/// Limits the mails that are known, the newest.
const MAX_MAILS: usize = 500;
/// Limits the ids before a mail that are kept, the newest; the first one is kept, too.
const MAX_REFERENCES: usize = 8;

/// Where an answer belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MailThread {
    pub(super) subject: String,
    /// The ids before the answer, the oldest first; the last is that of the answered mail.
    pub(super) references: Vec<String>,
}

/// The document; one writer at a time.
#[derive(Debug, Default)]
pub(super) struct ThreadBook(Mutex<()>);

impl ThreadBook {
    /// Writes down a mail.
    pub(super) fn remember(&self, mail: &IncomingMail, host: &dyn ChannelHost) {
        if !mail.has_id {
            return;
        }
        let _writing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mails = load(host);
        let is_known = mails.iter().any(|known| known.get("id").and_then(Value::as_str) == Some(&mail.id));
        if is_known {
            return;
        }
        let mut before = mail.references.clone();
        if let Some(answered) = mail.in_reply_to.as_ref().filter(|id| !before.contains(id)) {
            before.push(answered.clone());
        }
        while before.len() > MAX_REFERENCES {
            before.remove(1);
        }
        mails.push(json!({"id": mail.id, "subject": mail.subject, "before": before}));
        let surplus = mails.len().saturating_sub(MAX_MAILS);
        mails.drain(..surplus);
        host.save_document(DOCUMENT, &json!({"mails": mails}));
    }

    /// Returns where an answer to a mail belongs. Of a mail that is no longer known, that is its id.
    pub(super) fn thread_of(&self, id: &str, host: &dyn ChannelHost) -> MailThread {
        let _reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = load(host).into_iter().find(|mail| mail.get("id").and_then(Value::as_str) == Some(id));
        let known = known.unwrap_or_default();
        let subject = known.get("subject").and_then(Value::as_str).unwrap_or_default().to_owned();
        let before = known.get("before").and_then(Value::as_array).into_iter().flatten();
        let mut references: Vec<String> = before.filter_map(Value::as_str).map(str::to_owned).collect();
        references.retain(|before| before != id);
        references.push(id.to_owned());
        MailThread { subject, references }
    }
}

fn load(host: &dyn ChannelHost) -> Vec<Value> {
    let document = host.load_document(DOCUMENT).unwrap_or_default();
    document.get("mails").and_then(Value::as_array).cloned().unwrap_or_default()
}
