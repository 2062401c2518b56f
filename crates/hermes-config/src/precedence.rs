//! The precedence of flags, the file, the environment and the defaults.

use std::path::PathBuf;

use crate::keys::DEFAULT_MODEL;
use crate::{Config, Env, Home, canonical_provider, custom_slug, expand_tilde};

/// The program that reads the settings; each program consults different variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramSurface {
    Cli,
    /// The gateway and cron.
    Gateway,
}

/// Returns the model to use. The terminal program ignores `LLM_MODEL` and similar variables.
pub fn model(config: &Config, env: &Env, surface: ProgramSurface, flag: Option<&str>) -> String {
    let configured = || config.non_empty_text("model.default").filter(|_| config.is_user_set("model"));
    let said = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let by_variable = || {
        let names: &[&str] = match surface {
            ProgramSurface::Cli => &[],
            ProgramSurface::Gateway => &["HERMES_MODEL", "LLM_MODEL"],
        };
        names.iter().find_map(|name| env.get(name)).map(str::to_owned)
    };
    let newest = || match surface {
        ProgramSurface::Cli => None,
        ProgramSurface::Gateway => said(env.get("HERMES_INFERENCE_MODEL")),
    };
    said(flag)
        .or_else(newest)
        .or_else(configured)
        .or_else(by_variable)
        .unwrap_or_else(|| DEFAULT_MODEL.to_owned())
}

/// Returns the requested provider, or `auto` when none is requested. Aliases and custom names are returned as
/// written.
pub fn provider(config: &Config, env: &Env, flag: Option<&str>) -> String {
    let named = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    flag.and_then(|text| named(text.to_owned()))
        .or_else(|| config.non_empty_text("model.provider").filter(|name| !name.eq_ignore_ascii_case("auto")))
        .or_else(|| env.get("HERMES_INFERENCE_PROVIDER").and_then(|text| named(text.to_owned())))
        .unwrap_or_else(|| "auto".to_owned())
}

/// Returns the configured endpoint, unless a provider other than the configured one was chosen: the endpoint
/// belongs to the configured provider.
pub fn base_url(config: &Config, chosen: &str) -> Option<String> {
    let url = config.non_empty_text("model.base_url")?;
    let configured = config.non_empty_text("model.provider").unwrap_or_else(|| "auto".to_owned());
    let same = match (canonical_provider(&configured), canonical_provider(chosen)) {
        (Ok(a), Ok(b)) => a == b || a == "auto" && matches!(b, "custom" | "auto"),
        _ => custom_slug(&configured) == custom_slug(chosen),
    };
    same.then(|| url.trim_end_matches('/').to_owned())
}

/// Returns the maximum number of tool-loop iterations per turn.
pub fn max_iterations(config: &Config, env: &Env, flag: Option<usize>) -> usize {
    let positive = |count: usize| Some(count).filter(|count| *count > 0);
    flag.and_then(positive)
        .or_else(|| {
            config.is_user_set("agent.max_turns").then(|| config.count("agent.max_turns")).and_then(positive)
        })
        .or_else(|| env.get("HERMES_MAX_ITERATIONS")?.trim().parse().ok().and_then(positive))
        .unwrap_or(60)
}

/// Returns the addition to the system prompt that is never stored.
pub fn ephemeral_prompt(config: &Config, env: &Env) -> Option<String> {
    env.get("HERMES_EPHEMERAL_SYSTEM_PROMPT")
        .map(str::to_owned)
        .or_else(|| config.non_empty_text("agent.system_prompt"))
}

/// Returns the file of messages that precede each conversation; relative paths start at the home.
pub fn prefill_file(config: &Config, env: &Env, home: &Home) -> Option<PathBuf> {
    let given = env
        .get("HERMES_PREFILL_MESSAGES_FILE")
        .map(str::to_owned)
        .or_else(|| config.non_empty_text("prefill_messages_file"))
        .or_else(|| config.non_empty_text("agent.prefill_messages_file"))?;
    let path = expand_tilde(&given, env).unwrap_or_else(|_| PathBuf::from(&given));
    Some(if path.is_relative() { home.join(path) } else { path })
}

/// Returns an IANA name; `None` means the machine's own zone. The caller checks whether the name exists.
pub fn timezone(config: &Config, env: &Env) -> Option<String> {
    env.get("HERMES_TIMEZONE")
        .map(|name| name.trim().to_owned())
        .or_else(|| config.non_empty_text("timezone"))
}

/// Returns which tool calls are shown. The deprecated variables count only if the file does not set it.
pub fn tool_progress(config: &Config, env: &Env) -> String {
    if config.is_user_set("display.tool_progress") {
        return config.text("display.tool_progress");
    }
    old_tool_progress(env).unwrap_or_else(|| config.text("display.tool_progress"))
}

/// Returns the value the deprecated variables request.
pub(crate) fn old_tool_progress(env: &Env) -> Option<String> {
    if env.bool("HERMES_TOOL_PROGRESS") == Some(false) {
        return Some("off".to_owned());
    }
    let mode = env.get("HERMES_TOOL_PROGRESS_MODE")?.trim().to_lowercase();
    matches!(mode.as_str(), "new" | "all").then_some(mode)
}

/// Returns which background results are announced; the variable takes precedence.
pub fn background_notifications(config: &Config, env: &Env) -> String {
    env.get("HERMES_BACKGROUND_NOTIFICATIONS")
        .map(|mode| mode.trim().to_lowercase())
        .filter(|mode| matches!(mode.as_str(), "all" | "result" | "error" | "off"))
        .unwrap_or_else(|| config.text("display.background_process_notifications"))
}

/// Returns the reasoning effort. The variable is for the gateway and cron, and only if the file does not set it.
pub fn reasoning_effort(config: &Config, env: &Env, surface: ProgramSurface) -> Option<String> {
    let by_variable = match surface {
        ProgramSurface::Cli => None,
        ProgramSurface::Gateway => {
            env.get("HERMES_REASONING_EFFORT").map(|effort| effort.trim().to_lowercase())
        }
    };
    config.non_empty_text("agent.reasoning_effort").or(by_variable)
}
