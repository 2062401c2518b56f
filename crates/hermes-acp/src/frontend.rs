//! The frontend of a prompt: events become updates of the session, approvals become requests for permission.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, PermissionOption, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, SessionId, SessionNotification, SessionUpdate, TextContent, ToolCall,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use hermes_text::head;
use hermes_types::{
    ApprovalDecision, BoxFuture, CallId, Cancel, Clock, Delta, Frontend, OutcomeStatus, TurnEvent,
    UserAnswer, UserQuestion,
};

use crate::tool_call::{self, MAX_RESULT_CHARS};

/// How long a permission is waited for.
const PERMISSION_LIMIT: Duration = Duration::from_mins(1);

/// The frontend of one prompt.
pub(crate) struct EditorFrontend {
    connection: ConnectionTo<Client>,
    session: SessionId,
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    state: Mutex<FrontendState>,
}

#[derive(Default)]
struct FrontendState {
    /// The ids under which the editor knows the calls.
    calls: HashMap<CallId, String>,
    count: usize,
    permissions: usize,
    /// The text that was sent since the last tool call.
    sent: String,
}

impl EditorFrontend {
    pub(crate) fn new(
        connection: ConnectionTo<Client>,
        session: SessionId,
        folder: PathBuf,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { connection, session, folder, clock, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, FrontendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, update: SessionUpdate) {
        let notification = SessionNotification::new(self.session.clone(), update);
        if let Err(error) = self.connection.send_notification(notification) {
            tracing::debug!(%error, "the editor is gone");
        }
    }

    /// Sends a part of the answer.
    pub(crate) fn say(&self, text: &str) {
        self.send(SessionUpdate::AgentMessageChunk(chunk(text)));
    }

    /// Sends what is missing of the answer.
    pub(crate) fn finish(&self, response: &str) {
        let sent = std::mem::take(&mut self.state().sent);
        if sent.trim() != response.trim() {
            let rest = response.strip_prefix(sent.as_str()).unwrap_or(response);
            self.say(rest);
        }
    }

    fn tool_ended(&self, id: &CallId, name: &str, status: OutcomeStatus, result: &str) {
        let Some(known) = self.state().calls.remove(id) else { return };
        let status = match status {
            OutcomeStatus::Done => ToolCallStatus::Completed,
            OutcomeStatus::Failed | OutcomeStatus::Cancelled | OutcomeStatus::Unknown => {
                ToolCallStatus::Failed
            }
        };
        let shown: ToolCallContent = head(result, MAX_RESULT_CHARS).to_owned().into();
        let mut fields = ToolCallUpdateFields::new().status(status);
        // The diff of a change says more than its result.
        if !matches!(name, "patch" | "write_file") || status == ToolCallStatus::Failed {
            fields = fields.content(vec![shown]);
        }
        self.send(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(known, fields)));
        if let Some(plan) = tool_call::plan(name, result) {
            self.send(SessionUpdate::Plan(plan));
        }
    }

    async fn ask_permission(&self, command: &str, reason: &str, cancel: &Cancel) -> UserAnswer {
        let number = {
            let mut state = self.state();
            state.permissions += 1;
            state.permissions
        };
        let id = if number == 1 { "perm-check".to_owned() } else { format!("perm-check-{number}") };
        let call =
            ToolCall::new(id, hermes_text::ellipsize(&format!("{reason}: {command}"), 200).into_owned())
                .kind(ToolKind::Execute)
                .status(ToolCallStatus::Pending)
                .content(vec![format!("$ {command}").into()]);
        let option = |id: &str, name: &str, kind| PermissionOption::new(id.to_owned(), name.to_owned(), kind);
        let options = vec![
            option("allow_once", "Allow once", PermissionOptionKind::AllowOnce),
            option("allow_session", "Allow for this session", PermissionOptionKind::AllowAlways),
            option("allow_always", "Allow always", PermissionOptionKind::AllowAlways),
            option("deny", "Deny", PermissionOptionKind::RejectOnce),
        ];
        let request =
            RequestPermissionRequest::new(self.session.clone(), ToolCallUpdate::from(call), options);
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return UserAnswer::Unavailable,
            answer = self.connection.send_request(request).block_task() => answer,
            () = self.clock.sleep(PERMISSION_LIMIT) => return UserAnswer::TimedOut,
        };
        let chosen = match answer {
            Ok(response) => match response.outcome {
                RequestPermissionOutcome::Selected(selected) => selected.option_id.to_string(),
                _ => String::new(),
            },
            Err(error) => {
                tracing::debug!(%error, "the editor cannot be asked");
                String::new()
            }
        };
        UserAnswer::Approval(match chosen.as_str() {
            "allow_once" => ApprovalDecision::Once,
            "allow_session" => ApprovalDecision::Session,
            "allow_always" => ApprovalDecision::Always,
            _ => ApprovalDecision::Deny,
        })
    }
}

pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

impl Frontend for EditorFrontend {
    fn show(&self, event: TurnEvent) {
        match event {
            TurnEvent::Delta(Delta::Text(text)) => {
                self.state().sent.push_str(&text);
                self.say(&text);
            }
            TurnEvent::Delta(Delta::Reasoning(text)) => {
                self.send(SessionUpdate::AgentThoughtChunk(chunk(&text)));
            }
            TurnEvent::Delta(Delta::Restart) => {
                self.state().sent.clear();
                self.say("\n\n(the connection was lost; the answer starts again)\n\n");
            }
            TurnEvent::ToolStarted { id, name, preview, arguments, .. } => {
                let known = {
                    let mut state = self.state();
                    state.count += 1;
                    state.sent.clear();
                    let known = format!("tc-{:012x}", state.count);
                    state.calls.insert(id, known.clone());
                    known
                };
                let call = tool_call::started(&known, &name, &arguments, &preview, &self.folder);
                self.send(SessionUpdate::ToolCall(call));
            }
            TurnEvent::ToolEnded { id, name, status, result } => self.tool_ended(&id, &name, status, &result),
            TurnEvent::Notice { text, .. } | TurnEvent::Delta(Delta::Status(text)) => {
                self.send(SessionUpdate::AgentThoughtChunk(chunk(&format!("{text}\n"))));
            }
            TurnEvent::TurnStarted { .. }
            | TurnEvent::Step { .. }
            | TurnEvent::SegmentEnded
            | TurnEvent::Delta(Delta::ToolStarted { .. })
            | TurnEvent::Spent { .. }
            | TurnEvent::TurnEnded { .. }
            | TurnEvent::Child { .. } => {}
        }
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(async move {
            match question {
                UserQuestion::Approve { command, danger } => {
                    self.ask_permission(&command, &danger.reason, cancel).await
                }
                UserQuestion::Clarify { .. } | UserQuestion::Secret { .. } => UserAnswer::Unavailable,
            }
        })
    }
}
