//! The user's Telegram settings, read once and validated.

use std::net::Ipv4Addr;
use std::time::Duration;

use hermes_net::{ProxyMode, Url};
use hermes_types::Secret;
use regex::{Regex, RegexBuilder};

use crate::options::Options;

const DEFAULT_BASE: &str = "https://api.telegram.org";
const DEFAULT_WEBHOOK_PORT: u16 = 8443;

/// The settings. An invalid value is an error that names its variable.
#[derive(Debug, Clone)]
pub(super) struct TelegramSettings {
    pub(super) token: Secret,
    /// The base URL, without a trailing slash.
    pub(super) base: String,
    pub(super) file_base: String,
    /// True when the base URL is Telegram's own.
    pub(super) is_official_server: bool,
    pub(super) quote_mode: QuoteMode,
    pub(super) text_debounce: Duration,
    pub(super) media_debounce: Duration,
    pub(super) gate: GateSettings,
    pub(super) bots: TelegramBotPolicy,
    pub(super) reactions: bool,
    pub(super) webhook: Option<WebhookConfig>,
    pub(super) fallbacks: Vec<Ipv4Addr>,
    pub(super) proxies: Option<ProxyMode>,
}

/// Says which parts of an answer quote the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuoteMode {
    Off,
    First,
    All,
}

/// Says which messages of other bots are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TelegramBotPolicy {
    None,
    Mentions,
    All,
}

/// The rules for groups.
#[derive(Debug, Clone, Default)]
pub(super) struct GateSettings {
    pub(super) require_mention: bool,
    pub(super) patterns: Vec<Regex>,
    pub(super) free_chats: Vec<String>,
    pub(super) allowed_chats: Vec<String>,
    pub(super) allowed_topics: Vec<String>,
    pub(super) ignored_threads: Vec<String>,
}

/// The webhook to which Telegram sends updates, instead of polling.
#[derive(Debug, Clone)]
pub(super) struct WebhookConfig {
    pub(super) url: Url,
    pub(super) address: String,
    pub(super) secret: Secret,
}

impl TelegramSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let given = options.extra_text("base_url");
        let base = base(given.unwrap_or(DEFAULT_BASE), "base_url")?;
        let file_base = match options.extra_text("base_file_url") {
            Some(url) => {
                let url = self::base(url, "base_file_url")?;
                url.strip_suffix("/file").unwrap_or(&url).to_owned()
            }
            None => base.clone(),
        };
        Ok(Self {
            token: token(options)?,
            is_official_server: base == DEFAULT_BASE,
            base,
            file_base,
            quote_mode: quoting(options)?,
            text_debounce: options.seconds("HERMES_TELEGRAM_TEXT_BATCH_DELAY_SECONDS", 0.6),
            media_debounce: options.seconds("HERMES_TELEGRAM_MEDIA_BATCH_DELAY_SECONDS", 0.8),
            gate: GateSettings {
                require_mention: options.flag("TELEGRAM_REQUIRE_MENTION", false),
                patterns: patterns(options)?,
                free_chats: options.list("TELEGRAM_FREE_RESPONSE_CHATS"),
                allowed_chats: options.list("TELEGRAM_ALLOWED_CHATS"),
                allowed_topics: options.list("TELEGRAM_ALLOWED_TOPICS"),
                ignored_threads: options.list("TELEGRAM_IGNORED_THREADS"),
            },
            bots: bots(options)?,
            reactions: options.flag("TELEGRAM_REACTIONS", false),
            webhook: webhook(options)?,
            fallbacks: fallbacks(options)?,
            proxies: proxies(options)?,
        })
    }
}

fn token(options: &Options) -> Result<Secret, String> {
    let token = options
        .secret("TELEGRAM_BOT_TOKEN")
        .ok_or("TELEGRAM_BOT_TOKEN is not set; @BotFather gives you one")?;
    let shaped = token.expose().split_once(':').is_some_and(|(id, rest)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_digit())
            && !rest.is_empty()
            && rest.chars().all(plain)
    });
    if shaped {
        return Ok(token);
    }
    Err("TELEGRAM_BOT_TOKEN is not a bot token; @BotFather shows it as 123456789:letters-and-digits"
        .to_owned())
}

/// Parses `http://h:p`, with or without a trailing slash or `/bot`.
fn base(url: &str, key: &str) -> Result<String, String> {
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix("/bot").unwrap_or(url).trim_end_matches('/');
    match Url::parse(url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => Ok(url.to_owned()),
        _ => Err(format!("platforms.telegram.extra.{key} is not a web address")),
    }
}

fn quoting(options: &Options) -> Result<QuoteMode, String> {
    match options.text("TELEGRAM_REPLY_TO_MODE").unwrap_or("first").to_lowercase().as_str() {
        "off" | "none" | "false" => Ok(QuoteMode::Off),
        "first" => Ok(QuoteMode::First),
        "all" => Ok(QuoteMode::All),
        other => Err(format!("TELEGRAM_REPLY_TO_MODE is {other}; it can be off, first or all")),
    }
}

fn bots(options: &Options) -> Result<TelegramBotPolicy, String> {
    match options.text("TELEGRAM_ALLOW_BOTS").unwrap_or("none").to_lowercase().as_str() {
        "none" | "false" | "no" | "0" => Ok(TelegramBotPolicy::None),
        "mentions" => Ok(TelegramBotPolicy::Mentions),
        "all" | "true" | "yes" | "1" => Ok(TelegramBotPolicy::All),
        other => Err(format!("TELEGRAM_ALLOW_BOTS is {other}; it can be none, mentions or all")),
    }
}

/// Parses a JSON list, or patterns separated by commas or line breaks.
fn patterns(options: &Options) -> Result<Vec<Regex>, String> {
    let Some(text) = options.text("TELEGRAM_MENTION_PATTERNS") else { return Ok(Vec::new()) };
    let listed: Option<Vec<String>> = serde_json::from_str(text).ok();
    let split = || text.split([',', '\n']).map(|part| part.trim().to_owned()).collect();
    let sources: Vec<String> = listed.unwrap_or_else(split);
    let compile = |source: &String| {
        RegexBuilder::new(source).case_insensitive(true).build().map_err(|_| {
            format!("TELEGRAM_MENTION_PATTERNS: `{source}` is not a regular expression; patterns with commas go into a JSON list")
        })
    };
    sources.iter().filter(|source| !source.is_empty()).map(compile).collect()
}

fn webhook(options: &Options) -> Result<Option<WebhookConfig>, String> {
    let Some(url) = options.text("TELEGRAM_WEBHOOK_URL") else { return Ok(None) };
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or("TELEGRAM_WEBHOOK_URL is not a web address")?;
    let secret = options
        .secret("TELEGRAM_WEBHOOK_SECRET")
        .ok_or("TELEGRAM_WEBHOOK_SECRET is not set; without it anybody could send messages in your name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if secret.expose().len() > 256 || !secret.expose().chars().all(plain) {
        return Err("TELEGRAM_WEBHOOK_SECRET may have up to 256 letters, digits, _ and -".to_owned());
    }
    let port = match options.text("TELEGRAM_WEBHOOK_PORT") {
        Some(port) => port.parse::<u16>().map_err(|_| "TELEGRAM_WEBHOOK_PORT is not a port".to_owned())?,
        None => DEFAULT_WEBHOOK_PORT,
    };
    let host = options.extra_text("webhook_host").unwrap_or("0.0.0.0");
    Ok(Some(WebhookConfig { url, address: format!("{host}:{port}"), secret }))
}

fn fallbacks(options: &Options) -> Result<Vec<Ipv4Addr>, String> {
    let read = |text: String| {
        text.parse().map_err(|_| format!("TELEGRAM_FALLBACK_IPS: {text} is not an IPv4 address"))
    };
    options.list("TELEGRAM_FALLBACK_IPS").into_iter().map(read).collect()
}

fn proxies(options: &Options) -> Result<Option<ProxyMode>, String> {
    let Some(text) = options.text("TELEGRAM_PROXY") else { return Ok(None) };
    let known = ["http", "https", "socks5", "socks5h"];
    let url = Url::parse(text).ok().filter(|url| known.contains(&url.scheme()) && url.has_host());
    let url = url.ok_or(
        "TELEGRAM_PROXY is not the address of a proxy, as in http://host:3128 or socks5://host:1080",
    )?;
    Ok(Some(ProxyMode::Fixed { http: Some(url.clone()), https: Some(url), bypass: String::new() }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(variables: &[(&str, &str)], extra: serde_json::Value) -> Result<TelegramSettings, String> {
        let mut all: BTreeMap<String, String> = BTreeMap::from([("TELEGRAM_BOT_TOKEN".into(), "1:x".into())]);
        all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        TelegramSettings::read(&Options::new(all, extra))
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (variable, value) in [
            ("TELEGRAM_BOT_TOKEN", "hello"),
            ("TELEGRAM_BOT_TOKEN", ""),
            ("TELEGRAM_REPLY_TO_MODE", "some"),
            ("TELEGRAM_ALLOW_BOTS", "some"),
            ("TELEGRAM_MENTION_PATTERNS", "a, (b"),
            ("TELEGRAM_FALLBACK_IPS", "1.2.3.4, there"),
            ("TELEGRAM_PROXY", "secret-word"),
            ("TELEGRAM_WEBHOOK_URL", "here"),
        ] {
            let error = read(&[(variable, value)], serde_json::Value::Null).unwrap_err();
            assert!(error.starts_with(variable), "{error}");
            assert!(!error.contains("secret-word"), "{error}");
        }
        let hook = ("TELEGRAM_WEBHOOK_URL", "https://me.example/t");
        assert!(read(&[hook], serde_json::Value::Null).unwrap_err().starts_with("TELEGRAM_WEBHOOK_SECRET"));
        let all = [hook, ("TELEGRAM_WEBHOOK_SECRET", "s"), ("TELEGRAM_WEBHOOK_PORT", "x")];
        assert!(read(&all, serde_json::Value::Null).unwrap_err().starts_with("TELEGRAM_WEBHOOK_PORT"));
        let error = read(&[], serde_json::json!({"base_url": "nowhere"})).unwrap_err();
        assert!(error.contains("extra.base_url"), "{error}");
    }

    #[test]
    fn bases_and_patterns() {
        for url in ["http://h:1", "http://h:1/", "http://h:1/bot", "http://h:1/bot/"] {
            let settings = read(&[], serde_json::json!({"base_url": url})).unwrap();
            assert_eq!(
                (settings.base.as_str(), settings.file_base.as_str()),
                ("http://h:1", "http://h:1"),
                "{url}"
            );
            assert!(!settings.is_official_server);
        }
        let files = read(&[], serde_json::json!({"base_file_url": "http://f:2/file/bot"})).unwrap();
        assert_eq!((files.file_base.as_str(), files.is_official_server), ("http://f:2", true));
        let patterns = |text| {
            read(&[("TELEGRAM_MENTION_PATTERNS", text)], serde_json::Value::Null).unwrap().gate.patterns
        };
        assert_eq!(patterns("hey bot, ^hermes").len(), 2);
        assert!(patterns(r#"["^a{1,2}$"]"#).iter().all(|pattern| pattern.is_match("AA")));
    }
}
