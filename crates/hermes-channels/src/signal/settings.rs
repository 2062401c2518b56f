//! The user's Signal settings.

use hermes_net::Url;

use crate::options::Options;
use crate::rest::base_url;

#[derive(Debug, Clone)]
pub(super) struct SignalSettings {
    /// The address of the daemon, with a trailing slash.
    pub(super) base: Url,
    /// The number of the account.
    pub(super) account: String,
    /// The groups that are listened to; `*` means all.
    pub(super) groups: Vec<String>,
    pub(super) ignore_stories: bool,
    pub(super) require_mention: bool,
    pub(super) reactions: bool,
}

impl SignalSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let given = options.extra_text("base_url").or_else(|| options.text("SIGNAL_HTTP_URL"));
        let account = options.text("SIGNAL_ACCOUNT").ok_or("SIGNAL_ACCOUNT is not set")?;
        let digits = account.strip_prefix('+').unwrap_or_default();
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
            return Err("SIGNAL_ACCOUNT is not a number in the form +15551234567".to_owned());
        }
        Ok(Self {
            base: base_url(given.ok_or("SIGNAL_HTTP_URL is not set")?, "SIGNAL_HTTP_URL")?,
            account: account.to_owned(),
            groups: options.list("SIGNAL_GROUP_ALLOWED_USERS"),
            ignore_stories: options.flag("SIGNAL_IGNORE_STORIES", true),
            require_mention: options.flag("SIGNAL_REQUIRE_MENTION", false),
            reactions: options.flag("SIGNAL_REACTIONS", false),
        })
    }

    /// Tells whether a group is listened to.
    pub(super) fn allows_group(&self, id: &str) -> bool {
        self.groups
            .iter()
            .any(|listed| listed == "*" || listed.strip_prefix("group:").unwrap_or(listed) == id)
    }
}
