//! The configured MCP servers.

use std::fmt;
use std::time::Duration;

use crate::Config;
use crate::load::text_list;
use crate::yaml::{YamlMap, YamlValue};

/// The transport to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)> },
    Http { url: String, headers: Vec<(String, String)>, oauth: bool },
}

/// Prints names only, because variables and headers contain keys.
impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match self {
            Self::Stdio { command, args, env } => {
                write!(f, "Stdio {{ {command:?}, {} args, env {:?} }}", args.len(), names(env))
            }
            Self::Http { headers, oauth, .. } => {
                write!(f, "Http {{ headers {:?}, oauth {oauth} }}", names(headers))
            }
        }
    }
}

/// The limits of a server's requests to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct McpSampling {
    pub enabled: bool,
    pub model: Option<String>,
    pub max_tokens_cap: u64,
    pub timeout: Duration,
    pub max_rpm: u64,
    pub allowed_models: Vec<String>,
    pub max_tool_rounds: u64,
    pub log_level: String,
}

/// One entry of `mcp_servers`.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per key")]
pub struct McpServer {
    pub name: String,
    pub enabled: bool,
    pub transport: McpTransport,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    /// The tools to include; takes precedence over `exclude` when both are set.
    pub include: Option<Vec<String>>,
    pub exclude: Vec<String>,
    /// Whether the server's own tools are offered, beside those for resources and prompts.
    pub native: bool,
    pub resources: bool,
    pub prompts: bool,
    pub sampling: McpSampling,
}

impl McpServer {
    /// Returns every entry that names a command or a URL, in file order.
    pub fn all(config: &Config) -> Vec<Self> {
        config
            .map("mcp_servers")
            .iter()
            .filter_map(|(name, value)| Self::read(name, value.as_map()?))
            .collect()
    }

    /// Tells whether one of the server's own tools passes the filter.
    pub fn offers(&self, tool: &str) -> bool {
        let lists = |names: &[String]| names.iter().any(|name| name == tool);
        match self.include.as_deref() {
            _ if !self.native => false,
            // An empty list is no filter.
            Some(included) if !included.is_empty() => lists(included),
            _ => !lists(&self.exclude),
        }
    }

    /// Reads one entry; `None` if it names neither a command nor a URL.
    pub fn read(name: &str, map: &YamlMap) -> Option<Self> {
        let empty = YamlMap::new();
        let section =
            |key: &str| map.get(key).and_then(YamlValue::as_map).cloned().unwrap_or_else(|| empty.clone());
        let tools = section("tools");
        Some(Self {
            name: name.to_owned(),
            enabled: flag(map, "enabled", true),
            transport: transport(map)?,
            timeout: seconds(map, "timeout", 120),
            connect_timeout: seconds(map, "connect_timeout", 60),
            include: tools.get("include").filter(|value| !value.is_null()).map(text_list),
            exclude: tools.get("exclude").map(text_list).unwrap_or_default(),
            native: flag(&tools, "native", true),
            resources: flag(&tools, "resources", true),
            prompts: flag(&tools, "prompts", true),
            sampling: sampling(&section("sampling")),
        })
    }
}

fn transport(map: &YamlMap) -> Option<McpTransport> {
    if let Some(url) = text(map, "url") {
        if text(map, "command").is_some() {
            tracing::warn!("an entry of mcp_servers has both url and command; url is used");
        }
        let oauth = text(map, "auth").is_some_and(|auth| auth.eq_ignore_ascii_case("oauth"));
        return Some(McpTransport::Http { url, headers: pairs(map, "headers"), oauth });
    }
    let command = text(map, "command")?;
    let args = match map.get("args") {
        // A single text is one argument, spaces included; only a list holds several.
        Some(YamlValue::Seq(items)) => items.iter().filter_map(YamlValue::scalar_text).collect(),
        Some(other) => other.scalar_text().filter(|text| !text.is_empty()).into_iter().collect(),
        None => Vec::new(),
    };
    Some(McpTransport::Stdio { command, args, env: pairs(map, "env") })
}

fn sampling(map: &YamlMap) -> McpSampling {
    McpSampling {
        enabled: flag(map, "enabled", true),
        model: text(map, "model"),
        max_tokens_cap: count(map, "max_tokens_cap", 4096, 1),
        timeout: seconds(map, "timeout", 30),
        max_rpm: count(map, "max_rpm", 10, 1),
        allowed_models: map.get("allowed_models").map(text_list).unwrap_or_default(),
        max_tool_rounds: count(map, "max_tool_rounds", 5, 0),
        log_level: text(map, "log_level").unwrap_or_else(|| "info".to_owned()),
    }
}

fn text(map: &YamlMap, key: &str) -> Option<String> {
    map.get(key)
        .and_then(YamlValue::scalar_text)
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

fn pairs(map: &YamlMap, key: &str) -> Vec<(String, String)> {
    let inner = map.get(key).and_then(YamlValue::as_map);
    inner
        .into_iter()
        .flat_map(YamlMap::iter)
        .filter_map(|(name, value)| Some((name.to_owned(), value.scalar_text()?)))
        .collect()
}

fn flag(map: &YamlMap, key: &str, default: bool) -> bool {
    map.get(key).and_then(YamlValue::as_bool).unwrap_or(default)
}

/// Reads a whole number, which may be written as a text or with a fraction. One that is no number or too small is the
/// default.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a small number")]
fn count(map: &YamlMap, key: &str, default: u64, least: u64) -> u64 {
    map.get(key)
        .and_then(YamlValue::scalar_text)
        .and_then(|text| text.trim().parse::<f64>().ok())
        .filter(|number| number.is_finite() && (0.0..1e15).contains(number))
        .map(|number| number.trunc() as u64)
        .filter(|number| *number >= least)
        .unwrap_or(default)
}

fn seconds(map: &YamlMap, key: &str, default: u64) -> Duration {
    map.get(key)
        .and_then(|value| value.as_float().or_else(|| value.scalar_text()?.trim().parse().ok()))
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(Duration::from_secs(default))
}
