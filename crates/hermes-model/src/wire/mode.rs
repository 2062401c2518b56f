//! Which of the four wires a provider is spoken to on.

use super::base::Base;

/// A way of talking to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    Chat,
    Responses,
    Anthropic,
    Converse,
}

/// How a request to AWS is authorised; it decides which of its wires can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AwsAuth {
    #[default]
    Signed,
    Bearer,
}

/// What is known about a route when its wire is chosen.
#[derive(Debug, Clone, Default)]
pub struct Route<'a> {
    pub provider: &'a str,
    pub base_url: &'a str,
    pub model: &'a str,
    /// `api_mode` as configured; anything that is not a mode is ignored.
    pub explicit: Option<&'a str>,
    /// Endpoints a catalogue names for the model, such as `/v1/messages`; empty when unknown.
    pub endpoints: &'a [&'a str],
    pub aws: AwsAuth,
}

impl Mode {
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Converse];

    /// The name used in configuration files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat_completions",
            Self::Responses => "codex_responses",
            Self::Anthropic => "anthropic_messages",
            Self::Converse => "bedrock_converse",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }

    pub fn choose(route: &Route<'_>) -> Self {
        if let Some(mode) = route.explicit.and_then(Self::parse) {
            return mode;
        }
        let base = Base::parse(route.base_url);
        let provider = route.provider.trim().to_ascii_lowercase();
        match provider.as_str() {
            "openai-codex" => return Self::Responses,
            "anthropic" => return Self::Anthropic,
            "openai" | "openai-api" if base.host().is_empty() => return Self::Responses,
            "bedrock" => {
                let messages = is_bedrock_claude(route.model) && route.aws == AwsAuth::Signed;
                return if messages { Self::Anthropic } else { Self::Converse };
            }
            "copilot" => return for_copilot(route),
            "minimax" | "minimax-cn" if !base.path().ends_with("/v1") => return Self::Anthropic,
            _ => {}
        }
        if base.host() == "api.openai.com" || is_codex_backend(&base) {
            return Self::Responses;
        }
        if base.host() == "api.anthropic.com" || base.path().ends_with("/anthropic") {
            return Self::Anthropic;
        }
        if base.is_under("githubcopilot.com") {
            return for_copilot(route);
        }
        Self::Chat
    }
}

pub(crate) fn is_codex_backend(base: &Base) -> bool {
    base.host() == "chatgpt.com" && base.path().starts_with("/backend-api/codex")
}

/// `[region.]anthropic.claude…`: spoken to with the Messages body.
pub fn is_bedrock_claude(model: &str) -> bool {
    const REGIONS: [&str; 11] = ["global", "us", "eu", "apac", "ap", "au", "jp", "ca", "sa", "me", "af"];
    let model = model.trim().to_ascii_lowercase();
    let rest = match model.split_once('.') {
        Some((region, rest)) if REGIONS.contains(&region) => rest,
        _ => model.as_str(),
    };
    rest.starts_with("anthropic.claude")
}

fn for_copilot(route: &Route<'_>) -> Mode {
    if !route.endpoints.is_empty() && route.endpoints.iter().all(|path| *path == "/v1/messages") {
        return Mode::Anthropic;
    }
    let model = route.model.trim().to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or_default();
    let major: u32 = name
        .strip_prefix("gpt-")
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0);
    if major >= 5 && !name.starts_with("gpt-5-mini") { Mode::Responses } else { Mode::Chat }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(provider: &str, base_url: &str, model: &str, mode: Mode) {
        let route = Route { provider, base_url, model, ..Route::default() };
        assert_eq!(Mode::choose(&route), mode, "{provider} {base_url} {model}");
    }

    #[test]
    fn by_provider_and_host() {
        check("openrouter", "https://openrouter.ai/api/v1", "openai/gpt-5", Mode::Chat);
        check("custom", "https://openrouter.ai/api/v1?via=api.openai.com", "x", Mode::Chat);
        check("custom", "https://api.openai.com.evil.example/v1", "x", Mode::Chat);
        check("custom", "https://api.openai.com/v1", "gpt-5", Mode::Responses);
        check("openai", "", "gpt-5", Mode::Responses);
        check("openai", "http://localhost:8000/v1", "x", Mode::Chat);
        check("openai-codex", "", "gpt-5.2-codex", Mode::Responses);
        check("custom", "https://chatgpt.com/backend-api/codex", "x", Mode::Responses);
        check("anthropic", "https://proxy.example", "x", Mode::Anthropic);
        check("custom", "https://api.anthropic.com", "x", Mode::Anthropic);
        check("alibaba", "https://dashscope.aliyuncs.com/apps/anthropic/", "x", Mode::Anthropic);
        check("alibaba", "https://coding-intl.dashscope.aliyuncs.com/v1", "x", Mode::Chat);
        check("minimax", "https://api.minimax.io/anthropic", "x", Mode::Anthropic);
        check("minimax", "https://api.minimax.io/v1", "x", Mode::Chat);
        check("bedrock", "", "us.anthropic.claude-sonnet-4-6", Mode::Anthropic);
        check("bedrock", "", "amazon.nova-pro-v1:0", Mode::Converse);
        check("copilot", "https://api.githubcopilot.com", "gpt-5.1", Mode::Responses);
        check("copilot", "https://api.githubcopilot.com", "gpt-5-mini-2", Mode::Chat);
        check("copilot", "https://api.githubcopilot.com", "gpt-4.1", Mode::Chat);
        check("copilot", "https://api.githubcopilot.com", "claude-sonnet-4", Mode::Chat);
    }

    #[test]
    fn a_valid_explicit_mode_wins_and_an_invalid_one_is_ignored() {
        let route = |explicit| Route { provider: "anthropic", explicit: Some(explicit), ..Route::default() };
        assert_eq!(Mode::choose(&route("chat_completions")), Mode::Chat);
        assert_eq!(Mode::choose(&route("chat")), Mode::Anthropic);
    }

    #[test]
    fn other_facts_count() {
        let bearer = Route {
            provider: "bedrock",
            model: "anthropic.claude-3-haiku",
            aws: AwsAuth::Bearer,
            ..Route::default()
        };
        assert_eq!(Mode::choose(&bearer), Mode::Converse);
        let only_messages =
            Route { provider: "copilot", model: "c", endpoints: &["/v1/messages"], ..Route::default() };
        assert_eq!(Mode::choose(&only_messages), Mode::Anthropic);
    }
}
