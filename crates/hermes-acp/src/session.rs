//! The sessions of an editor.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::v1::schema::SessionId;
use hermes_agent::Conversation;
use hermes_types::{Cancel, TaskId};

use crate::model_option::ChosenModel;

/// A session that an editor has open.
pub(crate) struct EditorSession {
    pub(crate) task: TaskId,
    pub(crate) folder: PathBuf,
    /// Locked while a prompt runs.
    pub(crate) conversation: tokio::sync::Mutex<Conversation>,
    running: Mutex<Cancel>,
    pub(crate) model: ChosenModel,
}

impl EditorSession {
    pub(crate) fn new(task: TaskId, folder: PathBuf, conversation: Conversation, model: ChosenModel) -> Self {
        Self {
            task,
            folder,
            conversation: tokio::sync::Mutex::new(conversation),
            running: Mutex::new(Cancel::new()),
            model,
        }
    }

    /// Returns the token of a prompt that begins.
    pub(crate) fn begin(&self) -> Cancel {
        let cancel = Cancel::new();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = cancel.clone();
        cancel
    }

    /// Stops the running prompt, if there is one.
    pub(crate) fn cancel(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}

/// The open sessions, by the id the editor knows.
#[derive(Default)]
pub(crate) struct EditorSessions(Mutex<HashMap<String, Arc<EditorSession>>>);

impl EditorSessions {
    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<EditorSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&*id.0).cloned()
    }

    pub(crate) fn insert(&self, id: &SessionId, session: EditorSession) -> Arc<EditorSession> {
        let session = Arc::new(session);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(id.0.to_string(), session.clone());
        session
    }

    pub(crate) fn cancel_all(&self) {
        for session in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            session.cancel();
        }
    }
}
