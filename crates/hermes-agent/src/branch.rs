//! Copies a conversation to a new session, which goes on independently of the original.

use std::path::Path;

use hermes_store::{NewMessage, NewSession};
use serde_json::json;

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::error::Error;

impl Agent {
    /// Copies a conversation to a new session. The original stays as it is.
    /// `folder` is the working folder of the copy, where it differs from that of the program.
    pub async fn branch_conversation(
        &self,
        original: &Conversation,
        folder: Option<&Path>,
    ) -> Result<Conversation, Error> {
        let mut branch = self.new_conversation(original.source.clone(), original.kind);
        branch.user_id.clone_from(&original.user_id);
        // The same prompt and messages, so that the provider's cache serves both.
        branch.system.clone_from(&original.system);
        branch.messages.clone_from(&original.messages);
        branch.window = original.window;
        let now = self.clock.now();
        let mut row = NewSession::new(branch.session.clone(), branch.source.clone(), now);
        row.user_id.clone_from(&branch.user_id);
        row.system_prompt.clone_from(&branch.system);
        row.model = Some(self.models.name.clone());
        let mut config = json!({ "_branched_from": original.session.as_str() });
        if let Some(folder) = folder.map(Path::to_string_lossy) {
            config["cwd"] = json!(folder);
            row.cwd = Some(folder.into_owned());
        }
        row.model_config = Some(config.to_string());
        row.parent = Some(original.session.clone());
        let messages = branch.messages.iter().map(|message| NewMessage::new(message.clone(), now));
        self.store.append_creating(row, messages.collect()).await?;
        Ok(branch)
    }
}
