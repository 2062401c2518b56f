//! The user's Mattermost settings.

use hermes_net::Url;
use hermes_types::Secret;

use crate::options::Options;
use crate::rest::base_url;

/// Says where answers in channels go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyMode {
    /// Into the channel.
    Channel,
    /// Into a thread of each question.
    Thread,
}

#[derive(Debug, Clone)]
pub(super) struct MattermostSettings {
    /// The address of the REST API, with a trailing slash.
    pub(super) api: Url,
    pub(super) token: Secret,
    pub(super) reply_mode: ReplyMode,
    pub(super) require_mention: bool,
    pub(super) free_channels: Vec<String>,
    /// The allowed channels; empty means all.
    pub(super) allowed_channels: Vec<String>,
    pub(super) reactions: bool,
}

impl MattermostSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let given = options.extra_text("base_url").or_else(|| options.text("MATTERMOST_URL"));
        let base = base_url(given.ok_or("MATTERMOST_URL is not set")?, "MATTERMOST_URL")?;
        let api = base.join("api/v4/").map_err(|_| "MATTERMOST_URL is not a web address".to_owned())?;
        let mode = options.text("MATTERMOST_REPLY_MODE").or_else(|| options.extra_text("reply_mode"));
        let reply_mode = match mode.unwrap_or("off").to_lowercase().as_str() {
            "off" | "false" | "none" => ReplyMode::Channel,
            "thread" => ReplyMode::Thread,
            other => return Err(format!("MATTERMOST_REPLY_MODE is {other}; it can be off or thread")),
        };
        Ok(Self {
            api,
            token: options.secret("MATTERMOST_TOKEN").ok_or("MATTERMOST_TOKEN is not set")?,
            reply_mode,
            require_mention: options.flag("MATTERMOST_REQUIRE_MENTION", true),
            free_channels: options.list("MATTERMOST_FREE_RESPONSE_CHANNELS"),
            allowed_channels: options.list("MATTERMOST_ALLOWED_CHANNELS"),
            reactions: options.flag("MATTERMOST_REACTIONS", true),
        })
    }

    /// Returns the address of the WebSocket.
    pub(super) fn socket(&self) -> Option<Url> {
        let mut url = self.api.join("websocket").ok()?;
        url.set_scheme(if url.scheme() == "https" { "wss" } else { "ws" }).ok()?;
        Some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let read = |url: &str| {
            let pairs = [("MATTERMOST_URL", url), ("MATTERMOST_TOKEN", "t")];
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            MattermostSettings::read(&Options::new(pairs.into_iter().collect(), serde_json::Value::Null))
        };
        let settings = read("https://chat.example.org/team/").unwrap();
        assert_eq!(settings.api.as_str(), "https://chat.example.org/team/api/v4/");
        assert_eq!(settings.socket().unwrap().as_str(), "wss://chat.example.org/team/api/v4/websocket");
        assert_eq!(read("chat.example.org").unwrap_err(), "MATTERMOST_URL is not a web address");
    }
}
