//! The table of known providers.
//!
//! Data only; names and aliases are in `hermes-config`. A provider without a default address needs one from the
//! user.

use hermes_config::canonical_provider;

use crate::wire::{ApiMode, BaseUrl};

/// The way a provider is paid for and signed in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    ApiKey,
    /// One key for models of many vendors, named `vendor/model`.
    Aggregator,
    /// A sign-in through a browser.
    OAuth,
    Anthropic,
    Copilot,
    Aws,
    /// A process on this machine instead of an address.
    Process,
    Custom,
    Offline,
}

/// Tells whether a provider may be selected because its key happens to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectionPolicy {
    Allowed,
    /// The variable is in many environments for other reasons, or only newer homes know the provider.
    OnlyByName,
}

/// One provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    pub id: &'static str,
    /// The default address; empty when the user must set it.
    pub base_url: &'static str,
    /// The variables that may contain its key; the first usable one wins.
    pub keys: &'static [&'static str],
    /// The variable that overrides the address; empty when there is none.
    pub base_variable: &'static str,
    /// The default wire; the address and the model may select another.
    pub mode: ApiMode,
    pub kind: ProviderKind,
    /// The vendor prefix that aggregators use for its models; empty when there is none.
    pub vendor: &'static str,
    /// Its model for side tasks; empty when there is none.
    pub auxiliary_model: &'static str,
    pub detection: DetectionPolicy,
}

const fn api(
    id: &'static str,
    base_url: &'static str,
    keys: &'static [&'static str],
    base_variable: &'static str,
) -> Provider {
    Provider {
        id,
        base_url,
        keys,
        base_variable,
        mode: ApiMode::Chat,
        kind: ProviderKind::ApiKey,
        vendor: "",
        auxiliary_model: "",
        detection: DetectionPolicy::OnlyByName,
    }
}

impl Provider {
    const fn mode(self, mode: ApiMode) -> Self {
        Self { mode, ..self }
    }

    const fn kind(self, kind: ProviderKind) -> Self {
        Self { kind, ..self }
    }

    const fn vendor(self, vendor: &'static str) -> Self {
        Self { vendor, ..self }
    }

    const fn auxiliary(self, auxiliary_model: &'static str) -> Self {
        Self { auxiliary_model, ..self }
    }

    const fn detected(self) -> Self {
        Self { detection: DetectionPolicy::Allowed, ..self }
    }

    /// Tells whether models are named `vendor/model` here.
    pub fn uses_vendor_prefix(&self) -> bool {
        matches!(self.kind, ProviderKind::Aggregator | ProviderKind::Custom)
            || matches!(self.id, "nous" | "huggingface")
    }
}

#[rustfmt::skip]
pub(super) const OPENROUTER: &Provider = &api("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY", "OPENAI_API_KEY"], "OPENROUTER_BASE_URL")
        .kind(ProviderKind::Aggregator).auxiliary("google/gemini-3-flash-preview");

#[rustfmt::skip]
pub(super) const OPENAI: &Provider = &api("openai", "https://api.openai.com/v1", &["OPENAI_API_KEY"], "OPENAI_BASE_URL")
        .mode(ApiMode::Responses).vendor("openai").auxiliary("gpt-4o-mini");

#[rustfmt::skip]
pub(crate) const CUSTOM: &Provider = &api("custom", "", &["OPENAI_API_KEY"], "OPENAI_BASE_URL").kind(ProviderKind::Custom).auxiliary("gpt-4o-mini");

/// The known providers. Those that can be detected are in the order in which detection tries them.
#[rustfmt::skip]
pub const REGISTRY: &[Provider] = &[
    *OPENROUTER,
    api("nous", "https://inference-api.nousresearch.com/v1", &["NOUS_API_KEY"], "NOUS_INFERENCE_BASE_URL")
        .kind(ProviderKind::OAuth).auxiliary("google/gemini-3-flash-preview"),
    *OPENAI,
    api("openai-codex", "https://chatgpt.com/backend-api/codex", &[], "HERMES_CODEX_BASE_URL")
        .mode(ApiMode::Responses).kind(ProviderKind::OAuth).vendor("openai").auxiliary("gpt-5.2-codex"),
    api("zai", "https://api.z.ai/api/paas/v4", &["GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"], "GLM_BASE_URL")
        .vendor("z-ai").auxiliary("glm-4.5-flash").detected(),
    api("kimi-coding", "https://api.moonshot.ai/v1", &["KIMI_API_KEY"], "KIMI_BASE_URL")
        .vendor("moonshotai").auxiliary("kimi-k2-turbo-preview").detected(),
    api("minimax", "https://api.minimax.io/anthropic", &["MINIMAX_API_KEY"], "MINIMAX_BASE_URL")
        .mode(ApiMode::Anthropic).vendor("minimax").auxiliary("MiniMax-M2.7-highspeed").detected(),
    api("anthropic", "https://api.anthropic.com", &["ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"], "")
        .mode(ApiMode::Anthropic).kind(ProviderKind::Anthropic).vendor("anthropic").auxiliary("claude-haiku-4-5-20251001").detected(),
    api("alibaba", "https://coding-intl.dashscope.aliyuncs.com/v1", &["DASHSCOPE_API_KEY"], "DASHSCOPE_BASE_URL")
        .vendor("qwen").detected(),
    api("minimax-cn", "https://api.minimaxi.com/anthropic", &["MINIMAX_CN_API_KEY"], "MINIMAX_CN_BASE_URL")
        .mode(ApiMode::Anthropic).vendor("minimax").auxiliary("MiniMax-M2.7-highspeed").detected(),
    api("deepseek", "https://api.deepseek.com/v1", &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL")
        .vendor("deepseek").detected(),
    api("ai-gateway", "https://ai-gateway.vercel.sh/v1", &["AI_GATEWAY_API_KEY"], "AI_GATEWAY_BASE_URL")
        .kind(ProviderKind::Aggregator).auxiliary("google/gemini-3-flash").detected(),
    api("opencode-zen", "https://opencode.ai/zen/v1", &["OPENCODE_ZEN_API_KEY"], "OPENCODE_ZEN_BASE_URL")
        .auxiliary("gemini-3-flash").detected(),
    api("opencode-go", "https://opencode.ai/zen/go/v1", &["OPENCODE_GO_API_KEY"], "OPENCODE_GO_BASE_URL")
        .auxiliary("glm-5").detected(),
    api("kilocode", "https://api.kilo.ai/api/gateway", &["KILOCODE_API_KEY"], "KILOCODE_BASE_URL")
        .kind(ProviderKind::Aggregator).auxiliary("google/gemini-3-flash-preview").detected(),
    api("huggingface", "https://router.huggingface.co/v1", &["HF_TOKEN"], "HF_BASE_URL").detected(),
    api("copilot", "https://api.githubcopilot.com", &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"], "")
        .kind(ProviderKind::Copilot).vendor("openai"),
    api("copilot-acp", "acp://copilot", &[], "COPILOT_ACP_BASE_URL").kind(ProviderKind::Process),
    api("bedrock", "", &[], "BEDROCK_BASE_URL").mode(ApiMode::Converse).kind(ProviderKind::Aws),
    *CUSTOM,
    api("gemini", "https://generativelanguage.googleapis.com/v1beta", &["GOOGLE_API_KEY", "GEMINI_API_KEY"], "GEMINI_BASE_URL")
        .vendor("google"),
    api("xai", "https://api.x.ai/v1", &["XAI_API_KEY"], "XAI_BASE_URL").vendor("x-ai"),
    api("nvidia", "https://integrate.api.nvidia.com/v1", &["NVIDIA_API_KEY"], "NVIDIA_BASE_URL"),
    api("kimi-coding-cn", "https://api.moonshot.cn/v1", &["KIMI_CN_API_KEY"], "KIMI_CN_BASE_URL").vendor("moonshotai"),
    api("ollama-cloud", "https://ollama.com/v1", &["OLLAMA_API_KEY"], "OLLAMA_BASE_URL"),
    api("alibaba-coding-plan", "", &["ALIBABA_CODING_PLAN_API_KEY"], "ALIBABA_CODING_PLAN_BASE_URL").vendor("qwen"),
    api("arcee", "", &["ARCEE_API_KEY"], "ARCEE_BASE_URL"),
    api("gmi", "", &["GMI_API_KEY"], "GMI_BASE_URL"),
    api("stepfun", "", &["STEPFUN_API_KEY"], "STEPFUN_BASE_URL"),
    api("xiaomi", "", &["XIAOMI_API_KEY"], "XIAOMI_BASE_URL"),
    api("tencent-tokenhub", "", &["TENCENT_TOKENHUB_API_KEY"], "TENCENT_TOKENHUB_BASE_URL"),
    api("azure-foundry", "", &["AZURE_FOUNDRY_API_KEY"], "AZURE_FOUNDRY_BASE_URL"),
    api("offline", "", &[], "").kind(ProviderKind::Offline),
];

/// LM Studio: a custom endpoint with a well-known address.
pub(super) const LM_STUDIO: (&str, &str, &str) = ("lmstudio", "http://127.0.0.1:1234/v1", "LM_API_KEY");

/// The prefix of keys that belong to the coding plan, and that plan's host.
pub(super) const KIMI_PLAN: (&str, &str) = ("sk-kimi-", "https://api.kimi.com/coding/v1");

/// Finds a provider by any of its spellings.
pub(crate) fn find_named(name: &str) -> Option<&'static Provider> {
    canonical_provider(name).ok().and_then(find)
}

/// Finds the provider of a host.
pub(crate) fn find_by_host(host: &str) -> Option<&'static Provider> {
    let lives = |provider: &&Provider| {
        !provider.base_url.is_empty() && BaseUrl::parse(provider.base_url).host() == host && !host.is_empty()
    };
    REGISTRY.iter().find(lives)
}

/// Finds a provider by its canonical id.
pub fn find(id: &str) -> Option<&'static Provider> {
    REGISTRY.iter().find(|provider| provider.id == id)
}

#[cfg(test)]
mod tests {
    use hermes_config::{ADDITIONAL_PROVIDERS, PROVIDERS};

    use super::*;

    #[test]
    fn every_name_the_configuration_accepts_has_a_row() {
        for id in PROVIDERS.iter().chain(ADDITIONAL_PROVIDERS) {
            assert!(find(id).is_some(), "{id} has no row");
        }
        for (at, provider) in REGISTRY.iter().enumerate() {
            assert!(
                REGISTRY.iter().skip(at + 1).all(|other| other.id != provider.id),
                "{} twice",
                provider.id
            );
            assert!(!provider.base_url.ends_with('/'), "{}", provider.id);
        }
    }

    #[test]
    fn detection_keeps_the_documented_order() {
        let order: Vec<&str> =
            REGISTRY.iter().filter(|p| p.detection == DetectionPolicy::Allowed).map(|p| p.id).collect();
        let documented = "zai kimi-coding minimax anthropic alibaba minimax-cn deepseek ai-gateway opencode-zen \
                          opencode-go kilocode huggingface";
        assert_eq!(order.join(" "), documented);
    }
}
