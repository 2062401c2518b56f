//! The user's Slack settings.

use hermes_net::Url;
use hermes_types::Secret;
use regex::Regex;

use crate::options::Options;

const OFFICIAL: &str = "https://slack.com/api/";

/// Says which messages of other bots are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlackBotPolicy {
    None,
    Mentioning,
    All,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(super) struct SlackSettings {
    pub(super) bot_token: Secret,
    pub(super) app_token: Secret,
    /// The base URL, with a trailing slash.
    pub(super) base: Url,
    pub(super) require_mention: bool,
    /// Requires a mention even in a thread the bot takes part in.
    pub(super) strict_mention: bool,
    pub(super) free_channels: Vec<String>,
    /// The allowed channels; empty means all.
    pub(super) allowed_channels: Vec<String>,
    pub(super) patterns: Vec<Regex>,
    pub(super) bots: SlackBotPolicy,
    pub(super) reactions: bool,
    pub(super) reply_broadcast: bool,
    pub(super) connections: usize,
}

impl SlackSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let token = |variable: &str, prefix: &str, what: &str| {
            let text = options.text(variable).ok_or_else(|| format!("{variable} is not set"))?;
            // Of several workspaces only the first is used.
            let text = text.split(',').next().unwrap_or_default().trim();
            if text.starts_with(prefix) {
                Ok(Secret::new(text))
            } else {
                Err(format!("{variable} is no {what}: it begins with {prefix}"))
            }
        };
        let mut patterns = Vec::new();
        for pattern in options.list("SLACK_MENTION_PATTERNS") {
            patterns.push(
                Regex::new(&pattern)
                    .map_err(|_| format!("SLACK_MENTION_PATTERNS: `{pattern}` is no pattern"))?,
            );
        }
        Ok(Self {
            bot_token: token("SLACK_BOT_TOKEN", "xoxb-", "bot token")?,
            app_token: token("SLACK_APP_TOKEN", "xapp-", "app token")?,
            base: base(options.extra_text("base_url"))?,
            require_mention: options.flag("SLACK_REQUIRE_MENTION", true),
            strict_mention: options.flag("SLACK_STRICT_MENTION", false),
            free_channels: options.list("SLACK_FREE_RESPONSE_CHANNELS"),
            allowed_channels: options.list("SLACK_ALLOWED_CHANNELS"),
            patterns,
            bots: match options.text("SLACK_ALLOW_BOTS").map(str::to_lowercase).as_deref() {
                Some("all" | "true" | "1" | "yes") => SlackBotPolicy::All,
                Some("mentions") => SlackBotPolicy::Mentioning,
                _ => SlackBotPolicy::None,
            },
            reactions: options.flag("SLACK_REACTIONS", true),
            reply_broadcast: options
                .extra("reply_broadcast")
                .and_then(serde_json::Value::as_bool)
                .unwrap_or(false),
            connections: connections(options),
        })
    }
}

/// Returns the number of connections; by default two, so that one is open while the other is renewed.
fn connections(options: &Options) -> usize {
    let said = options.extra("connections").and_then(serde_json::Value::as_u64);
    said.and_then(|count| usize::try_from(count).ok()).unwrap_or(2).clamp(1, 10)
}

fn base(given: Option<&str>) -> Result<Url, String> {
    let wrong = || "platforms.slack.extra.base_url is no address".to_owned();
    let Some(given) = given else { return Url::parse(OFFICIAL).map_err(|_| wrong()) };
    let mut url = Url::parse(given).map_err(|_| wrong())?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if path.is_empty() { "/api/".to_owned() } else { format!("{path}/") });
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)], extra: serde_json::Value) -> Options {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Options::new(pairs.collect(), extra)
    }

    #[test]
    fn wrong_tokens_are_named() {
        let both = [("SLACK_BOT_TOKEN", "xoxb-1"), ("SLACK_APP_TOKEN", "xapp-1")];
        assert!(SlackSettings::read(&options(&both, serde_json::Value::Null)).is_ok());
        let swapped = [("SLACK_BOT_TOKEN", "xapp-1"), ("SLACK_APP_TOKEN", "xoxb-1")];
        let error = SlackSettings::read(&options(&swapped, serde_json::Value::Null)).unwrap_err();
        assert_eq!(error, "SLACK_BOT_TOKEN is no bot token: it begins with xoxb-");
        assert!(
            SlackSettings::read(&options(&both[..1], serde_json::Value::Null))
                .unwrap_err()
                .contains("SLACK_APP_TOKEN")
        );
    }

    #[test]
    fn the_address_may_be_given_with_or_without_its_path() {
        for given in
            ["http://127.0.0.1:9", "http://127.0.0.1:9/", "http://127.0.0.1:9/api", "http://127.0.0.1:9/api/"]
        {
            assert_eq!(base(Some(given)).unwrap().as_str(), "http://127.0.0.1:9/api/");
        }
        assert_eq!(base(None).unwrap().as_str(), OFFICIAL);
    }
}
