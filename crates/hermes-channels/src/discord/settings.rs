//! The user's Discord settings, read once.

use hermes_net::Url;
use hermes_types::Secret;
use serde_json::{Value, json};

use crate::options::Options;

const API: &str = "https://discord.com/api/v10";

#[derive(Debug)]
pub(super) struct DiscordSettings {
    pub(super) token: Secret,
    /// The base URL of the API, with its version and without a trailing slash.
    pub(super) api: String,
    pub(super) rules: MentionRules,
    pub(super) auto_thread: bool,
    /// The channels where no threads are created.
    pub(super) no_thread_channels: Vec<String>,
    pub(super) reactions: bool,
    /// True when answers quote the message they answer.
    pub(super) quote_replies: bool,
    /// The users an answer may notify, in the API's format.
    pub(super) allowed_mentions: Value,
}

/// The rules that say which messages in servers are meant for the bot.
#[derive(Debug, Default)]
pub(super) struct MentionRules {
    pub(super) require_mention: bool,
    /// Requires a mention even in a thread the bot takes part in.
    pub(super) thread_require_mention: bool,
    /// Ignores messages that mention others and not the bot.
    pub(super) ignore_no_mention: bool,
    pub(super) free_channels: Vec<String>,
    /// The allowed channels; empty means all.
    pub(super) allowed_channels: Vec<String>,
    pub(super) ignored_channels: Vec<String>,
    pub(super) bots: DiscordBotPolicy,
}

/// Says which messages of other bots are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum DiscordBotPolicy {
    #[default]
    Nothing,
    Mentions,
    Everything,
}

impl DiscordSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let token = options.secret("DISCORD_BOT_TOKEN").ok_or(
            "DISCORD_BOT_TOKEN is not set. Copy the token from the Bot page of your application at \
             https://discord.com/developers/applications",
        )?;
        if token.expose().contains(char::is_whitespace) || token.expose().starts_with("Bot") {
            return Err(
                "DISCORD_BOT_TOKEN: give the token alone, without `Bot` and without spaces".to_owned()
            );
        }
        let quotes = match options.text("DISCORD_REPLY_TO_MODE").map(str::to_lowercase).as_deref() {
            Some("off") => false,
            None | Some("first" | "all") => true,
            Some(_) => return Err("DISCORD_REPLY_TO_MODE must be `off`, `first` or `all`".to_owned()),
        };
        Ok(Self {
            token,
            api: api(options.extra_text("base_url"))?,
            rules: MentionRules::read(options)?,
            auto_thread: options.flag("DISCORD_AUTO_THREAD", true),
            no_thread_channels: options.list("DISCORD_NO_THREAD_CHANNELS"),
            reactions: options.flag("DISCORD_REACTIONS", true),
            quote_replies: quotes,
            allowed_mentions: allowed_mentions(options),
        })
    }
}

impl MentionRules {
    fn read(options: &Options) -> Result<Self, String> {
        let bots = match options.text("DISCORD_ALLOW_BOTS").map(str::to_lowercase).as_deref() {
            None | Some("none") => DiscordBotPolicy::Nothing,
            Some("mentions") => DiscordBotPolicy::Mentions,
            Some("all") => DiscordBotPolicy::Everything,
            Some(_) => return Err("DISCORD_ALLOW_BOTS must be `none`, `mentions` or `all`".to_owned()),
        };
        Ok(Self {
            require_mention: options.flag("DISCORD_REQUIRE_MENTION", true),
            thread_require_mention: options.flag("DISCORD_THREAD_REQUIRE_MENTION", false),
            ignore_no_mention: options.flag("DISCORD_IGNORE_NO_MENTION", true),
            free_channels: options.list("DISCORD_FREE_RESPONSE_CHANNELS"),
            allowed_channels: options.list("DISCORD_ALLOWED_CHANNELS"),
            ignored_channels: options.list("DISCORD_IGNORED_CHANNELS"),
            bots,
        })
    }
}

/// Returns the base URL of the API from the user's value, with or without `/api` and the version.
fn api(base: Option<&str>) -> Result<String, String> {
    let Some(base) = base else { return Ok(API.to_owned()) };
    let wrong = || {
        format!(
            "platforms.discord.extra.base_url: `{base}` is not an address; give one like http://127.0.0.1:8080"
        )
    };
    let url = Url::parse(base).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() || url.query().is_some() {
        return Err(wrong());
    }
    let base = url.as_str().trim_end_matches('/');
    Ok(if base.ends_with("/api/v10") {
        base.to_owned()
    } else if base.ends_with("/api") {
        format!("{base}/v10")
    } else {
        format!("{base}/api/v10")
    })
}

/// Builds the allowed mentions. A model can be talked into writing `@everyone`; an answer may notify the user it
/// answers, not the whole server.
fn allowed_mentions(options: &Options) -> Value {
    let kinds = [("users", "USERS", true), ("roles", "ROLES", false), ("everyone", "EVERYONE", false)];
    let allowed = kinds.into_iter().filter(|(_, variable, default)| {
        options.flag(&format!("DISCORD_ALLOW_MENTION_{variable}"), *default)
    });
    let parse: Vec<&str> = allowed.map(|(kind, ..)| kind).collect();
    json!({"parse": parse, "replied_user": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_every_form() {
        for base in ["http://h:1", "http://h:1/", "http://h:1/api", "http://h:1/api/", "http://h:1/api/v10/"]
        {
            assert_eq!(api(Some(base)).unwrap(), "http://h:1/api/v10", "{base}");
        }
        assert_eq!(api(None).unwrap(), API);
        for base in ["h:1", "ftp://h", "http://h/?x=1", ""] {
            assert!(api(Some(base)).unwrap_err().contains("base_url"), "{base}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let read = |name: &str, value: &str| {
            let mut variables = std::collections::BTreeMap::new();
            variables.insert("DISCORD_BOT_TOKEN".to_owned(), "t".to_owned());
            variables.insert(name.to_owned(), value.to_owned());
            DiscordSettings::read(&Options::new(variables, Value::Null))
                .map(|settings| settings.allowed_mentions)
        };
        for (name, value) in [
            ("DISCORD_BOT_TOKEN", "Bot abc"),
            ("DISCORD_BOT_TOKEN", ""),
            ("DISCORD_ALLOW_BOTS", "some"),
            ("DISCORD_REPLY_TO_MODE", "x"),
        ] {
            assert!(read(name, value).unwrap_err().contains(name), "{name}={value}");
        }
        assert_eq!(read("A", "b").unwrap(), json!({"parse": ["users"], "replied_user": true}));
        let with_everyone = read("DISCORD_ALLOW_MENTION_EVERYONE", "true").unwrap();
        assert_eq!(with_everyone["parse"], json!(["users", "everyone"]));
    }
}
