//! Selects one of the four wires for a provider.

pub use hermes_types::ApiMode;

use super::base_url::BaseUrl;

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

impl ModelRoute<'_> {
    /// Returns the wire format of the route: the configured one, or the one its provider, address and model need.
    pub fn api_mode(&self) -> ApiMode {
        if let Some(mode) = self.explicit.and_then(ApiMode::parse) {
            return mode;
        }
        let base = BaseUrl::parse(self.base_url);
        let provider = self.provider.trim().to_ascii_lowercase();
        match provider.as_str() {
            "openai-codex" => return ApiMode::Responses,
            "anthropic" => return ApiMode::Anthropic,
            "openai" | "openai-api" if base.host().is_empty() => return ApiMode::Responses,
            "bedrock" => {
                let messages = is_bedrock_claude(self.model) && self.aws == AwsAuth::Signed;
                return if messages { ApiMode::Anthropic } else { ApiMode::Converse };
            }
            "copilot" => return for_copilot(self),
            "minimax" | "minimax-cn" if !base.path().ends_with("/v1") => return ApiMode::Anthropic,
            _ => {}
        }
        if base.host() == "api.openai.com" || is_codex_backend(&base) {
            return ApiMode::Responses;
        }
        if base.host() == "api.anthropic.com" || base.path().ends_with("/anthropic") {
            return ApiMode::Anthropic;
        }
        if base.is_under("githubcopilot.com") {
            return for_copilot(self);
        }
        ApiMode::Chat
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
        assert_eq!(route.api_mode(), mode, "{provider} {base_url} {model}");
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
        assert_eq!(route("chat_completions").api_mode(), ApiMode::Chat);
        assert_eq!(route("chat").api_mode(), ApiMode::Anthropic);
    }

    #[test]
    fn other_facts_count() {
        let bearer = ModelRoute {
            provider: "bedrock",
            model: "anthropic.claude-3-haiku",
            aws: AwsAuth::Bearer,
            ..ModelRoute::default()
        };
        assert_eq!(bearer.api_mode(), ApiMode::Converse);
        let only_messages = ModelRoute {
            provider: "copilot",
            model: "c",
            endpoints: &["/v1/messages"],
            ..ModelRoute::default()
        };
        assert_eq!(only_messages.api_mode(), ApiMode::Anthropic);
    }
}
