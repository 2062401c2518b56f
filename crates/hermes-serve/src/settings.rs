//! The server's settings: `API_SERVER_*` and `platforms.api_server.extra`.

use hermes_config::yaml::YamlValue;
use hermes_config::{Config, Env};
use hermes_types::Secret;

use crate::error::StartError;

/// The most turns at once: many streams may wait for a slow model, and each costs little.
const MAX_TURNS: usize = 2048;
const LARGEST_BODY: usize = 1_000_000;
/// The largest body with images: a phone's photo as a data URL fits.
const LARGEST_WITH_IMAGES: usize = 20_000_000;

/// The settings of the server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub host: String,
    pub port: u16,
    /// The API key; without one the server does not start.
    pub key: Option<Secret>,
    /// The allowed origins; `*` is every origin.
    pub cors_origins: Vec<String>,
    pub model_name: String,
    pub max_turns: usize,
    pub max_body_bytes: usize,
    /// The largest body that holds an image.
    pub max_image_body_bytes: usize,
    /// Set when streams report which tools run.
    pub tool_progress: bool,
    pub tool_items: ToolItems,
}

/// The form in which `/v1/responses` reports tools that ran on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolItems {
    /// Calls to a server's own tools, which clients only show.
    McpCall,
    /// Calls a client would have to run; for clients made for earlier releases.
    FunctionCall,
}

impl ServerSettings {
    /// The default port, which existing clients expect.
    pub const PORT: u16 = 8642;

    /// Resolves the settings. Returns `None` when the server is not enabled.
    pub fn resolve(config: &Config, env: &Env) -> Option<Self> {
        let extra = |key: &str| config.get(&format!("platforms.api_server.extra.{key}"));
        let text = |key: &str, name: &str| {
            env.get(name)
                .map(str::to_owned)
                .or_else(|| extra(key).as_ref().and_then(as_text))
                .filter(|text| !text.is_empty())
        };
        let key = text("key", "API_SERVER_KEY");
        let wanted = env.bool("API_SERVER_ENABLED").unwrap_or(false)
            || config.flag("platforms.api_server.enabled")
            || key.is_some();
        if !wanted {
            return None;
        }
        let number = |dotted: &str| config.int(dotted).and_then(|number| usize::try_from(number).ok());
        let origins = env.get("API_SERVER_CORS_ORIGINS").map(hermes_config::env::split_list);
        let most = number("gateway.api_server.max_concurrent_runs");
        Some(Self {
            host: text("host", "API_SERVER_HOST").unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: text("port", "API_SERVER_PORT")
                .and_then(|port| port.trim().parse().ok())
                .unwrap_or(Self::PORT),
            key: key.map(Secret::new),
            cors_origins: origins.unwrap_or_else(|| config.list("platforms.api_server.extra.cors_origins")),
            model_name: text("model_name", "API_SERVER_MODEL_NAME")
                .unwrap_or_else(|| "hermes-agent".to_owned()),
            max_turns: match most {
                Some(0) => usize::MAX >> 4,
                Some(most) => most,
                None => MAX_TURNS,
            },
            max_body_bytes: number("platforms.api_server.extra.max_body_bytes").unwrap_or(LARGEST_BODY),
            max_image_body_bytes: number("platforms.api_server.extra.max_body_bytes")
                .unwrap_or(LARGEST_WITH_IMAGES),
            tool_items: match extra("tool_items").as_ref().and_then(as_text).as_deref() {
                Some("function_call") => ToolItems::FunctionCall,
                _ => ToolItems::McpCall,
            },
            tool_progress: !matches!(extra("tool_progress"), Some(YamlValue::Bool(false))),
        })
    }

    /// Rejects a server without a key: every program on this machine, and every command the agent runs, could use
    /// it.
    pub fn check(&self) -> Result<(), StartError> {
        if self.key.as_ref().is_none_or(|key| key.expose().trim().is_empty()) {
            return Err(StartError::NoKey);
        }
        Ok(())
    }
}

fn as_text(value: &YamlValue) -> Option<String> {
    match value {
        YamlValue::Str(text) => Some(text.clone()),
        YamlValue::Int(number) => Some(number.to_string()),
        _ => None,
    }
}
