//! The user's settings of WhatsApp through a linked phone.

use regex::Regex;

use crate::options::Options;

#[derive(Debug, Clone)]
pub(super) struct WhatsAppSettings {
    /// `self-chat` where the agent shares the user's number, `bot` where it has its own.
    pub(super) mode: String,
    /// The numbers that may write, as they are in the settings.
    allowed: Option<String>,
    reply_prefix: Option<String>,
    debug: bool,
    pub(super) require_mention: bool,
    pub(super) patterns: Vec<Regex>,
    pub(super) free_chats: Vec<String>,
}

impl WhatsAppSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let mode = options.text("WHATSAPP_MODE").unwrap_or("self-chat");
        if !matches!(mode, "self-chat" | "bot") {
            return Err(format!("WHATSAPP_MODE: `{mode}` is not self-chat or bot"));
        }
        let mut patterns = Vec::new();
        for pattern in options.list("WHATSAPP_MENTION_PATTERNS") {
            let wrong = |_| format!("WHATSAPP_MENTION_PATTERNS: `{pattern}` is not a regular expression");
            patterns.push(Regex::new(&pattern).map_err(wrong)?);
        }
        let prefix = options.extra("reply_prefix").and_then(serde_json::Value::as_str);
        Ok(Self {
            mode: mode.to_owned(),
            allowed: options.text("WHATSAPP_ALLOWED_USERS").map(str::to_owned),
            reply_prefix: prefix.map(str::to_owned),
            debug: options.flag("WHATSAPP_DEBUG", false),
            require_mention: options.flag("WHATSAPP_REQUIRE_MENTION", false),
            patterns,
            free_chats: options.list("WHATSAPP_FREE_RESPONSE_CHATS"),
        })
    }

    /// Tells whether the settings turn the platform on.
    pub(super) fn is_enabled(options: &Options) -> bool {
        options.flag("WHATSAPP_ENABLED", false)
    }

    /// Returns the variables of the bridge.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        // A private number gets everybody's messages: those of others count only with a list. A number of its own
        // leaves the choice to the gateway, which pairs unknown users.
        if let Some(allowed) = self.allowed.as_ref().filter(|_| self.mode == "self-chat") {
            variables.push(("WHATSAPP_ALLOWED_USERS".to_owned(), allowed.clone()));
        }
        if let Some(prefix) = &self.reply_prefix {
            variables.push(("WHATSAPP_REPLY_PREFIX".to_owned(), prefix.clone()));
        }
        if self.debug {
            variables.push(("WHATSAPP_DEBUG".to_owned(), "1".to_owned()));
        }
        variables
    }
}
