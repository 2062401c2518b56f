//! The user's DingTalk settings.

use hermes_net::Url;
use hermes_types::Secret;
use regex::Regex;

use crate::options::Options;
use crate::rest::base_url;

const OFFICIAL: &str = "https://api.dingtalk.com";
const OFFICIAL_FILES: &str = "https://oapi.dingtalk.com";
/// The hosts that webhooks may be at.
const WEBHOOK_HOSTS: [&str; 2] = ["api.dingtalk.com", "oapi.dingtalk.com"];

#[derive(Debug, Clone)]
pub(super) struct DingTalkSettings {
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    /// The address of the API, with a trailing slash.
    pub(super) base: Url,
    /// The address that files are uploaded to.
    pub(super) files: Url,
    /// The webhook of a group's own robot, for chats that are not known.
    pub(super) webhook: Option<Secret>,
    pub(super) require_mention: bool,
    pub(super) patterns: Vec<Regex>,
    pub(super) free_chats: Vec<String>,
    /// The allowed groups; empty means all.
    pub(super) allowed_chats: Vec<String>,
}

impl DingTalkSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let client_id = options.text("DINGTALK_CLIENT_ID").ok_or("DINGTALK_CLIENT_ID is not set")?;
        let secret = options.secret("DINGTALK_CLIENT_SECRET").ok_or("DINGTALK_CLIENT_SECRET is not set")?;
        let given = options.extra_text("base_url").or_else(|| options.text("DINGTALK_OPENAPI_ENDPOINT"));
        let base = base_url(given.unwrap_or(OFFICIAL), "DINGTALK_OPENAPI_ENDPOINT")?;
        let mut patterns = Vec::new();
        for pattern in options.list("DINGTALK_MENTION_PATTERNS") {
            let wrong = |_| format!("DINGTALK_MENTION_PATTERNS: `{pattern}` is not a regular expression");
            patterns.push(Regex::new(&pattern).map_err(wrong)?);
        }
        let mut settings = Self {
            client_id: client_id.to_owned(),
            client_secret: secret,
            files: base_url(given.unwrap_or(OFFICIAL_FILES), "platforms.dingtalk.extra.base_url")?,
            base,
            webhook: None,
            require_mention: options.flag("DINGTALK_REQUIRE_MENTION", false),
            patterns,
            free_chats: options.list("DINGTALK_FREE_RESPONSE_CHATS"),
            allowed_chats: options.list("DINGTALK_ALLOWED_CHATS"),
        };
        if let Some(url) = options.text("DINGTALK_WEBHOOK_URL") {
            if settings.webhook_url(url).is_none() {
                return Err("DINGTALK_WEBHOOK_URL is not an address at https://oapi.dingtalk.com".to_owned());
            }
            settings.webhook = Some(Secret::new(url));
        }
        Ok(settings)
    }

    /// Returns the address of a webhook, if it is one of DingTalk's: it comes with messages.
    pub(super) fn webhook_url(&self, url: &str) -> Option<Url> {
        let url = Url::parse(url).ok()?;
        let official =
            url.scheme() == "https" && WEBHOOK_HOSTS.contains(&url.host_str()?) && url.port().is_none();
        let ours = |base: &Url| {
            url.scheme() == base.scheme() && url.host_str() == base.host_str() && url.port() == base.port()
        };
        (official || ours(&self.base)).then_some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_at_dingtalk() {
        let pairs = [("DINGTALK_CLIENT_ID", "a"), ("DINGTALK_CLIENT_SECRET", "b")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = Options::new(pairs.into_iter().collect(), serde_json::Value::Null);
        let settings = DingTalkSettings::read(&options).unwrap();
        for (url, good) in [
            ("https://oapi.dingtalk.com/robot/sendBySession?session=x", true),
            ("https://api.dingtalk.com/robot", true),
            ("http://oapi.dingtalk.com/robot", false),
            ("https://oapi.dingtalk.com:8443/robot", false),
            ("https://oapi.dingtalk.com.evil.org/robot", false),
            ("https://evil.org/?oapi.dingtalk.com", false),
        ] {
            assert_eq!(settings.webhook_url(url).is_some(), good, "{url}");
        }
    }
}
