//! What a server may ask of and tell the client: sampling, elicitation, progress, changes of its lists, log messages.
// Sampling is deprecated in the newest protocol, and servers of today use it.
#![expect(deprecated, reason = "servers that sample are still in use")]

use std::sync::{Arc, Weak};

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability,
    Implementation, LoggingMessageNotificationParam, ProgressNotificationParam, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};

use crate::foreign_text::{LONGEST_MESSAGE, clean};
use crate::link::ServerLink;

/// The receiver of a server's requests and notifications.
pub(crate) struct EventHandler {
    /// The link, which a probe has none of.
    link: Weak<ServerLink>,
    may_sample: bool,
}

impl EventHandler {
    pub(crate) fn new(link: &Arc<ServerLink>) -> Self {
        Self { link: Arc::downgrade(link), may_sample: link.sampling.is_open() }
    }

    /// Returns a handler that refuses requests and ignores notifications, for a connection that only reads lists.
    pub(crate) fn without_link() -> Self {
        Self { link: Weak::new(), may_sample: false }
    }
}

impl ClientHandler for EventHandler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = if self.may_sample {
            ClientCapabilities::builder().enable_sampling().enable_sampling_tools().build()
        } else {
            ClientCapabilities::default()
        };
        if self.link.strong_count() > 0 {
            let mut elicitation = ElicitationCapability::default();
            elicitation.form = Some(FormElicitationCapability::new());
            elicitation.url = Some(UrlElicitationCapability::new());
            capabilities.elicitation = Some(elicitation);
        }
        ClientConfig::new(capabilities, Implementation::new("hermes", env!("CARGO_PKG_VERSION")))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(link) = self.link.upgrade() else {
            return Err(ErrorData::new(rmcp::model::ErrorCode(-1), "Sampling is not available", None));
        };
        link.sampling.answer(&link.server.name, params, &context.ct).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.link.upgrade() {
            Some(link) => Ok(link.elicitations.ask(params).await),
            None => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let Some(link) = self.link.upgrade() else { return };
        let amount = match params.total.filter(|total| *total > 0.0) {
            Some(total) => format!("{} of {total}", params.progress),
            None => params.progress.to_string(),
        };
        let text = match params.message.as_deref().map(|message| clean(message, 200)) {
            Some(message) if !message.is_empty() => format!("{message} ({amount})"),
            _ => amount,
        };
        link.progress.pass_on(&params.progress_token, text);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        if let Some(link) = self.link.upgrade() {
            link.list_changed.notify_one();
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(link) = self.link.upgrade() {
            let text = clean(&params.data.to_string(), LONGEST_MESSAGE);
            tracing::debug!(server = link.server.name, text, "an MCP server logs");
        }
    }
}
