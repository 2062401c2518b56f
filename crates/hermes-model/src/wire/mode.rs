//! Selects one of the four wires for a provider.

use super::base_url::BaseUrl;

/// An API format of a model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApiMode {
    Chat,
    Responses,
    Anthropic,
    Converse,
}

/// The authorization of requests to AWS; it decides which of its wires can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AwsAuth {
    #[default]
    Signed,
    Bearer,
}

/// The known facts about a route when its wire is chosen.
#[derive(Debug, Clone, Default)]
pub struct ModelRoute<'a> {
    pub provider: &'a str,
    pub base_url: &'a str,
    pub model: &'a str,
    /// `api_mode` as configured; a value that is not a mode is ignored.
    pub explicit: Option<&'a str>,
    /// The endpoints that a catalogue names for the model, such as `/v1/messages`; empty when unknown.
    pub endpoints: &'a [&'a str],
    pub aws: AwsAuth,
}

impl ApiMode {
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Converse];

    /// Returns the name used in configuration files.
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

    pub fn choose(route: &ModelRoute<'_>) -> Self {
        if let Some(mode) = route.explicit.and_then(Self::parse) {
            return mode;
        }
        let base = BaseUrl::parse(route.base_url);
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

pub(crate) fn is_codex_backend(base: &BaseUrl) -> bool {
    base.host() == "chatgpt.com" && base.path().starts_with("/backend-api/codex")
}

/// Tells whether a model is `[region.]anthropic.claude…`, which takes the Messages body.
pub fn is_bedrock_claude(model: &str) -> bool {
    const REGIONS: [&str; 11] = ["global", "us", "eu", "apac", "ap", "au", "jp", "ca", "sa", "me", "af"];
    let model = model.trim().to_ascii_lowercase();
    let rest = match model.split_once('.') {
        Some((region, rest)) if REGIONS.contains(&region) => rest,
        _ => model.as_str(),
    };
    rest.starts_with("anthropic.claude")
}

fn for_copilot(route: &ModelRoute<'_>) -> ApiMode {
    if !route.endpoints.is_empty() && route.endpoints.iter().all(|path| *path == "/v1/messages") {
        return ApiMode::Anthropic;
    }
    let model = route.model.trim().to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or_default();
    let major: u32 = name
        .strip_prefix("gpt-")
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0);
    if major >= 5 && !name.starts_with("gpt-5-mini") { ApiMode::Responses } else { ApiMode::Chat }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(provider: &str, base_url: &str, model: &str, mode: ApiMode) {
        let route = ModelRoute { provider, base_url, model, ..ModelRoute::default() };
        assert_eq!(ApiMode::choose(&route), mode, "{provider} {base_url} {model}");
    }

    #[test]
    fn by_provider_and_host() {
        check("openrouter", "https://openrouter.ai/api/v1", "openai/gpt-5", ApiMode::Chat);
        check("custom", "https://openrouter.ai/api/v1?via=api.openai.com", "x", ApiMode::Chat);
        check("custom", "https://api.openai.com.evil.example/v1", "x", ApiMode::Chat);
        check("custom", "https://api.openai.com/v1", "gpt-5", ApiMode::Responses);
        check("openai", "", "gpt-5", ApiMode::Responses);
        check("openai", "http://localhost:8000/v1", "x", ApiMode::Chat);
        check("openai-codex", "", "gpt-5.2-codex", ApiMode::Responses);
        check("custom", "https://chatgpt.com/backend-api/codex", "x", ApiMode::Responses);
        check("anthropic", "https://proxy.example", "x", ApiMode::Anthropic);
        check("custom", "https://api.anthropic.com", "x", ApiMode::Anthropic);
        check("alibaba", "https://dashscope.aliyuncs.com/apps/anthropic/", "x", ApiMode::Anthropic);
        check("alibaba", "https://coding-intl.dashscope.aliyuncs.com/v1", "x", ApiMode::Chat);
        check("minimax", "https://api.minimax.io/anthropic", "x", ApiMode::Anthropic);
        check("minimax", "https://api.minimax.io/v1", "x", ApiMode::Chat);
        check("bedrock", "", "us.anthropic.claude-sonnet-4-6", ApiMode::Anthropic);
        check("bedrock", "", "amazon.nova-pro-v1:0", ApiMode::Converse);
        check("copilot", "https://api.githubcopilot.com", "gpt-5.1", ApiMode::Responses);
        check("copilot", "https://api.githubcopilot.com", "gpt-5-mini-2", ApiMode::Chat);
        check("copilot", "https://api.githubcopilot.com", "gpt-4.1", ApiMode::Chat);
        check("copilot", "https://api.githubcopilot.com", "claude-sonnet-4", ApiMode::Chat);
    }

    #[test]
    fn a_valid_explicit_mode_wins_and_an_invalid_one_is_ignored() {
        let route = |explicit| ModelRoute {
            provider: "anthropic",
            explicit: Some(explicit),
            ..ModelRoute::default()
        };
        assert_eq!(ApiMode::choose(&route("chat_completions")), ApiMode::Chat);
        assert_eq!(ApiMode::choose(&route("chat")), ApiMode::Anthropic);
    }

    #[test]
    fn other_facts_count() {
        let bearer = ModelRoute {
            provider: "bedrock",
            model: "anthropic.claude-3-haiku",
            aws: AwsAuth::Bearer,
            ..ModelRoute::default()
        };
        assert_eq!(ApiMode::choose(&bearer), ApiMode::Converse);
        let only_messages = ModelRoute {
            provider: "copilot",
            model: "c",
            endpoints: &["/v1/messages"],
            ..ModelRoute::default()
        };
        assert_eq!(ApiMode::choose(&only_messages), ApiMode::Anthropic);
    }
}
