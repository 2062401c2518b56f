//! Which settings of OpenClaw correspond to which of Hermes.

use hermes_config::yaml::{KeyPath, YamlMap, YamlValue};
use serde_json::Value;

use super::source::OpenClaw;

/// A setting that is taken over.
pub(super) struct ImportedSetting {
    pub(super) kind: &'static str,
    pub(super) from: String,
    pub(super) key: KeyPath,
    pub(super) value: YamlValue,
}

/// A variable that is taken over.
pub(super) struct ImportedVariable {
    pub(super) kind: &'static str,
    pub(super) from: String,
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) is_secret: bool,
}

/// Settings whose value is kept: kind of the item, path, key.
const SAME: [(&str, &str, &str); 7] = [
    ("agent-config", "/agents/defaults/userTimezone", "timezone"),
    ("agent-config", "/agents/defaults/compaction/model", "auxiliary.compression.model"),
    ("tools-config", "/tools/exec/timeoutSec", "terminal.timeout"),
    ("agent-config", "/agents/defaults/sandbox/docker/image", "terminal.docker_image"),
    ("session-config", "/session/reset/mode", "session_reset.mode"),
    ("session-config", "/session/reset/atHour", "session_reset.at_hour"),
    ("session-config", "/session/reset/idleMinutes", "session_reset.idle_minutes"),
];

/// Keys and tokens: kind of the item, variable, where the configuration may have it.
const SECRETS: [(&str, &str, &[&str]); 10] = [
    ("provider-keys", "OPENROUTER_API_KEY", &["/models/providers/openrouter/apiKey"]),
    ("provider-keys", "OPENAI_API_KEY", &["/models/providers/openai/apiKey"]),
    ("provider-keys", "ANTHROPIC_API_KEY", &["/models/providers/anthropic/apiKey"]),
    ("provider-keys", "ELEVENLABS_API_KEY", &["/messages/tts/providers/elevenlabs/apiKey", "/talk/apiKey"]),
    ("provider-keys", "VOICE_TOOLS_OPENAI_KEY", &["/messages/tts/providers/openai/apiKey"]),
    (
        "messaging-settings",
        "TELEGRAM_BOT_TOKEN",
        &["/channels/telegram/botToken", "/channels/telegram/accounts/default/botToken"],
    ),
    (
        "discord-settings",
        "DISCORD_BOT_TOKEN",
        &["/channels/discord/token", "/channels/discord/accounts/default/token"],
    ),
    (
        "slack-settings",
        "SLACK_BOT_TOKEN",
        &["/channels/slack/botToken", "/channels/slack/accounts/default/botToken"],
    ),
    (
        "slack-settings",
        "SLACK_APP_TOKEN",
        &["/channels/slack/appToken", "/channels/slack/accounts/default/appToken"],
    ),
    (
        "signal-settings",
        "SIGNAL_ACCOUNT",
        &["/channels/signal/account", "/channels/signal/accounts/default/account"],
    ),
];

/// Who may talk to the agent: kind of the item, variable, platform.
const ALLOWED: [(&str, &str, &str); 5] = [
    ("messaging-settings", "TELEGRAM_ALLOWED_USERS", "telegram"),
    ("discord-settings", "DISCORD_ALLOWED_USERS", "discord"),
    ("slack-settings", "SLACK_ALLOWED_USERS", "slack"),
    ("whatsapp-settings", "WHATSAPP_ALLOWED_USERS", "whatsapp"),
    ("signal-settings", "SIGNAL_ALLOWED_USERS", "signal"),
];

pub(super) fn settings(claw: &OpenClaw) -> Vec<ImportedSetting> {
    let mut found = Vec::new();
    let mut add = |kind: &'static str, pointer: &str, key: &str, value: YamlValue| {
        let Some(key) = KeyPath::parse(key) else { return };
        found.push(ImportedSetting { kind, from: dotted(pointer), key, value });
    };
    for (kind, pointer, key) in SAME {
        if let Some(value) = claw.get(pointer).filter(|value| value.is_string() || value.is_number()) {
            add(kind, pointer, key, YamlValue::from_json(value));
        }
    }
    for pointer in ["/agents/defaults/model/primary", "/agents/defaults/model"] {
        if let Some(model) = claw.get(pointer).and_then(Value::as_str) {
            let (provider, name) = model_name(model);
            add("model-config", pointer, "model.default", YamlValue::from(name));
            if let Some(provider) = provider {
                add("model-config", pointer, "model.provider", YamlValue::from(provider));
            }
            break;
        }
    }
    let defaults = |name: &str| claw.text(&format!("/agents/defaults/{name}"));
    if let Some(effort) = defaults("thinkingDefault").and_then(|text| effort(&text)) {
        add(
            "agent-config",
            "/agents/defaults/thinkingDefault",
            "agent.reasoning_effort",
            YamlValue::from(effort),
        );
    }
    if let Some(mode) = claw.text("/agents/defaults/compaction/mode") {
        add(
            "agent-config",
            "/agents/defaults/compaction/mode",
            "compression.enabled",
            YamlValue::Bool(mode != "off"),
        );
    }
    if claw.text("/agents/defaults/sandbox/backend").as_deref() == Some("docker") {
        add(
            "agent-config",
            "/agents/defaults/sandbox/backend",
            "terminal.backend",
            YamlValue::from("docker"),
        );
    }
    // A mode without approvals is not taken over: nobody should get it without choosing it here.
    let mode = claw.text("/approvals/exec/mode");
    if let Some(mode) = mode.as_deref().and_then(|mode| match mode {
        "always" => Some("manual"),
        "smart" => Some("smart"),
        _ => None,
    }) {
        add("approvals-config", "/approvals/exec/mode", "approvals.mode", YamlValue::from(mode));
    }
    for (name, server) in claw.get("/mcp/servers").and_then(Value::as_object).into_iter().flatten() {
        let Some(value) = mcp_server(server) else { continue };
        let key = KeyPath::from_segments(["mcp_servers", name.as_str()]);
        found.push(ImportedSetting { kind: "mcp-servers", from: format!("mcp.servers.{name}"), key, value });
    }
    found
}

pub(super) fn variables(claw: &OpenClaw) -> Vec<ImportedVariable> {
    let mut found = Vec::new();
    for (kind, name, pointers) in SECRETS {
        let in_config = pointers.iter().find_map(|pointer| Some((dotted(pointer), claw.secret(pointer)?)));
        let value = in_config.or_else(|| Some((format!(".env: {name}"), claw.variable(name)?.clone())));
        if let Some((from, value)) = value {
            let is_secret = name != "SIGNAL_ACCOUNT";
            found.push(ImportedVariable { kind, from, name, value, is_secret });
        }
    }
    for (kind, name, platform) in ALLOWED {
        let users = allowed_users(claw, platform);
        if !users.is_empty() {
            let from = format!("channels.{platform}.allowFrom");
            found.push(ImportedVariable { kind, from, name, value: users.join(","), is_secret: false });
        }
    }
    found
}

/// Returns the users that a platform lets in. A star, which is everybody, is not taken over.
fn allowed_users(claw: &OpenClaw, platform: &str) -> Vec<String> {
    let paths = [
        format!("/channels/{platform}/allowFrom"),
        format!("/channels/{platform}/accounts/default/allowFrom"),
    ];
    let mut listed: Vec<Value> =
        paths.iter().find_map(|path| claw.get(path).and_then(Value::as_array).cloned()).unwrap_or_default();
    let file = claw.folder.join(format!("credentials/{platform}-default-allowFrom.json"));
    let stored =
        std::fs::read_to_string(file).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let stored = stored.map(|value| value.get("allowFrom").cloned().unwrap_or(value));
    listed.extend(stored.and_then(|value| value.as_array().cloned()).unwrap_or_default());
    let mut users: Vec<String> = Vec::new();
    for user in listed {
        let user = user.as_str().map_or_else(|| user.to_string(), str::to_owned);
        let user = user.trim().to_owned();
        let is_plain = !user.is_empty() && user != "*" && !user.contains([',', '\n', '\r', '{', '[']);
        if is_plain && !users.contains(&user) {
            users.push(user);
        }
    }
    users
}

/// Splits `provider/model` into the provider, where Hermes has it by that name, and the model.
fn model_name(model: &str) -> (Option<&'static str>, &str) {
    let Some((provider, name)) = model.split_once('/') else { return (None, model) };
    match hermes_config::provider::registry::find(provider) {
        Some(known) => (Some(known.id), name),
        None => (None, model),
    }
}

fn effort(text: &str) -> Option<&'static str> {
    Some(match text {
        "always" | "high" | "xhigh" => "high",
        "auto" | "medium" | "adaptive" => "medium",
        "off" | "low" | "none" | "minimal" => "low",
        _ => return None,
    })
}

/// Returns an entry of `mcp_servers`. Variables that hold keys are named, not copied.
fn mcp_server(server: &Value) -> Option<YamlValue> {
    let mut entry = YamlMap::new();
    for key in ["command", "args", "cwd", "url", "tools"] {
        if let Some(value) = server.get(key).filter(|value| !value.is_null()) {
            entry.insert(key, YamlValue::from_json(value));
        }
    }
    let mut env = YamlMap::new();
    for (name, value) in server.get("env").and_then(Value::as_object).into_iter().flatten() {
        let value = match value.as_str() {
            Some(text) if hermes_config::secrets::is_secret_name(name) && !text.starts_with("${") => {
                format!("${{{name}}}")
            }
            Some(text) => text.to_owned(),
            None => value.to_string(),
        };
        env.insert(name.as_str(), YamlValue::Str(value));
    }
    if !env.is_empty() {
        entry.insert("env", YamlValue::Map(env));
    }
    let is_usable = entry.contains("command") || entry.contains("url");
    is_usable.then_some(YamlValue::Map(entry))
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}
