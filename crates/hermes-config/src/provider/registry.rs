// table: exempt from the length limit
//! The table of known model providers: names, addresses, key variables and models.
//!
//! Data only. A provider without a default address needs one from the user. Model lists are for defaults and for
//! guessing a provider; they do not guarantee that a model still exists.

use hermes_types::ApiMode;

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
    /// The name for users.
    pub label: &'static str,
    /// Other spellings of the id.
    pub aliases: &'static [&'static str],
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
    /// The models it is known to serve; the first is its default.
    pub models: &'static [&'static str],
}

const fn api(
    id: &'static str,
    label: &'static str,
    base_url: &'static str,
    keys: &'static [&'static str],
    base_variable: &'static str,
) -> Provider {
    Provider {
        id,
        label,
        aliases: &[],
        base_url,
        keys,
        base_variable,
        mode: ApiMode::Chat,
        kind: ProviderKind::ApiKey,
        vendor: "",
        auxiliary_model: "",
        detection: DetectionPolicy::OnlyByName,
        models: &[],
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

    const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn models(self, models: &'static [&'static str]) -> Self {
        Self { models, ..self }
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

const AGGREGATED: &[&str] = &[
    "anthropic/claude-opus-4.6",
    "anthropic/claude-sonnet-4.5",
    "anthropic/claude-haiku-4.5",
    "openai/gpt-5.4",
    "openai/gpt-5.4-mini",
    "openai/gpt-5.4-pro",
    "openai/gpt-5.4-nano",
    "openai/gpt-5.3-codex",
    "google/gemini-3-pro-preview",
    "google/gemini-3-flash-preview",
    "qwen/qwen3.5-plus-02-15",
    "qwen/qwen3.5-35b-a3b",
    "stepfun/step-3.5-flash",
    "minimax/minimax-m2.7",
    "minimax/minimax-m2.5",
    "z-ai/glm-5",
    "z-ai/glm-5-turbo",
    "moonshotai/kimi-k2.5",
    "x-ai/grok-4.20-beta",
    "xiaomi/mimo-v2-pro",
    "nvidia/nemotron-3-super-120b-a12b",
    "nvidia/nemotron-3-super-120b-a12b:free",
    "arcee-ai/trinity-large-preview:free",
];

const MINIMAX: &[&str] =
    &["MiniMax-M2.7", "MiniMax-M2.7-highspeed", "MiniMax-M2.5", "MiniMax-M2.5-highspeed", "MiniMax-M2.1"];

const KIMI: &[&str] = &[
    "kimi-for-coding",
    "kimi-k2.5",
    "kimi-k2-thinking",
    "kimi-k2-thinking-turbo",
    "kimi-k2-turbo-preview",
    "kimi-k2-0905-preview",
];

#[rustfmt::skip]
pub const OPENROUTER: &Provider = &api("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY", "OPENAI_API_KEY"], "OPENROUTER_BASE_URL")
        .models(AGGREGATED)
        .kind(ProviderKind::Aggregator).auxiliary("google/gemini-3-flash-preview");

#[rustfmt::skip]
pub const OPENAI: &Provider = &api("openai", "OpenAI", "https://api.openai.com/v1", &["OPENAI_API_KEY"], "OPENAI_BASE_URL")
        .aliases(&["openai-api"])
        .models(&["gpt-5.4", "gpt-5.4-mini", "gpt-5.4-pro", "gpt-5.4-nano", "gpt-4.1", "gpt-4o", "gpt-4o-mini"])
        .mode(ApiMode::Responses).vendor("openai").auxiliary("gpt-4o-mini");

#[rustfmt::skip]
pub const CUSTOM: &Provider = &api("custom", "custom endpoint", "", &["OPENAI_API_KEY"], "OPENAI_BASE_URL")
        .aliases(&["ollama", "vllm", "sglang", "llamacpp", "llama.cpp", "llama-cpp", "lmstudio", "local"]).kind(ProviderKind::Custom).auxiliary("gpt-4o-mini");

/// The known providers. Those that can be detected are in the order in which detection tries them.
#[rustfmt::skip]
pub const REGISTRY: &[Provider] = &[
    *OPENROUTER,
    api("nous", "Nous", "https://inference-api.nousresearch.com/v1", &["NOUS_API_KEY"], "NOUS_INFERENCE_BASE_URL")
        .models(AGGREGATED)
        .kind(ProviderKind::OAuth).auxiliary("google/gemini-3-flash-preview"),
    *OPENAI,
    api("openai-codex", "Codex", "https://chatgpt.com/backend-api/codex", &[], "HERMES_CODEX_BASE_URL")
        .aliases(&["codex"])
        .models(&["gpt-5.3-codex", "gpt-5.2-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini"])
        .mode(ApiMode::Responses).kind(ProviderKind::OAuth).vendor("openai").auxiliary("gpt-5.2-codex"),
    api("zai", "z.ai", "https://api.z.ai/api/paas/v4", &["GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"], "GLM_BASE_URL")
        .aliases(&["glm", "z-ai", "z.ai", "zhipu"])
        .models(&["glm-5", "glm-5-turbo", "glm-4.7", "glm-4.5", "glm-4.5-flash"])
        .vendor("z-ai").auxiliary("glm-4.5-flash").detected(),
    api("kimi-coding", "Kimi", "https://api.moonshot.ai/v1", &["KIMI_API_KEY"], "KIMI_BASE_URL")
        .aliases(&["kimi", "moonshot"])
        .models(KIMI)
        .vendor("moonshotai").auxiliary("kimi-k2-turbo-preview").detected(),
    api("minimax", "MiniMax", "https://api.minimax.io/anthropic", &["MINIMAX_API_KEY"], "MINIMAX_BASE_URL")
        .models(MINIMAX)
        .mode(ApiMode::Anthropic).vendor("minimax").auxiliary("MiniMax-M2.7-highspeed").detected(),
    api("anthropic", "Anthropic", "https://api.anthropic.com", &["ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"], "")
        .aliases(&["claude", "claude-code"])
        .models(&["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-opus-4-20250514", "claude-sonnet-4-20250514", "claude-haiku-4-5-20251001"])
        .mode(ApiMode::Anthropic).kind(ProviderKind::Anthropic).vendor("anthropic").auxiliary("claude-haiku-4-5-20251001").detected(),
    api("alibaba", "Alibaba Cloud", "https://coding-intl.dashscope.aliyuncs.com/v1", &["DASHSCOPE_API_KEY"], "DASHSCOPE_BASE_URL")
        .aliases(&["dashscope", "aliyun", "qwen", "alibaba-cloud"])
        .models(&["qwen3.5-plus", "qwen3-coder-plus", "qwen3-coder-next", "glm-5", "glm-4.7", "kimi-k2.5", "MiniMax-M2.5"])
        .vendor("qwen").detected(),
    api("minimax-cn", "MiniMax in China", "https://api.minimaxi.com/anthropic", &["MINIMAX_CN_API_KEY"], "MINIMAX_CN_BASE_URL")
        .aliases(&["minimax-china", "minimax_cn"])
        .models(MINIMAX)
        .mode(ApiMode::Anthropic).vendor("minimax").auxiliary("MiniMax-M2.7-highspeed").detected(),
    api("deepseek", "DeepSeek", "https://api.deepseek.com/v1", &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL")
        .aliases(&["deep-seek"])
        .models(&["deepseek-chat", "deepseek-reasoner"])
        .vendor("deepseek").detected(),
    api("ai-gateway", "Vercel AI Gateway", "https://ai-gateway.vercel.sh/v1", &["AI_GATEWAY_API_KEY"], "AI_GATEWAY_BASE_URL")
        .aliases(&["aigateway", "vercel", "vercel-ai-gateway"])
        .models(AGGREGATED)
        .kind(ProviderKind::Aggregator).auxiliary("google/gemini-3-flash").detected(),
    api("opencode-zen", "OpenCode Zen", "https://opencode.ai/zen/v1", &["OPENCODE_ZEN_API_KEY"], "OPENCODE_ZEN_BASE_URL")
        .aliases(&["opencode", "zen"])
        .models(&["gpt-5.4-pro"])
        .auxiliary("gemini-3-flash").detected(),
    api("opencode-go", "OpenCode Go", "https://opencode.ai/zen/go/v1", &["OPENCODE_GO_API_KEY"], "OPENCODE_GO_BASE_URL")
        .aliases(&["go", "opencode-go-sub"])
        .models(&["glm-5", "kimi-k2.5", "minimax-m2.5"])
        .auxiliary("glm-5").detected(),
    api("kilocode", "Kilo Code", "https://api.kilo.ai/api/gateway", &["KILOCODE_API_KEY"], "KILOCODE_BASE_URL")
        .aliases(&["kilo", "kilo-code", "kilo-gateway"])
        .models(AGGREGATED)
        .kind(ProviderKind::Aggregator).auxiliary("google/gemini-3-flash-preview").detected(),
    api("huggingface", "Hugging Face", "https://router.huggingface.co/v1", &["HF_TOKEN"], "HF_BASE_URL")
        .aliases(&["hf", "hugging-face", "huggingface-hub"])
        .models(&["Qwen/Qwen3.5-397B-A17B", "Qwen/Qwen3.5-35B-A3B", "deepseek-ai/DeepSeek-V3.2", "moonshotai/Kimi-K2.5", "MiniMaxAI/MiniMax-M2.5", "zai-org/GLM-5"]).detected(),
    api("copilot", "GitHub Copilot", "https://api.githubcopilot.com", &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"], "")
        .aliases(&["github", "github-copilot", "github-models", "github-model"])
        .models(&["gpt-5.4", "gpt-5.4-mini", "gpt-5-mini", "gpt-5.3-codex", "gpt-5.2-codex", "gpt-4.1", "gpt-4o", "gpt-4o-mini", "claude-opus-4.6", "claude-sonnet-4.6", "claude-sonnet-4.5", "claude-haiku-4.5", "gemini-2.5-pro", "grok-code-fast-1"])
        .kind(ProviderKind::Copilot).vendor("openai"),
    api("copilot-acp", "Copilot agent", "acp://copilot", &[], "COPILOT_ACP_BASE_URL")
        .aliases(&["github-copilot-acp", "copilot-acp-agent"]).kind(ProviderKind::Process),
    api("bedrock", "Bedrock", "", &[], "BEDROCK_BASE_URL")
        .aliases(&["aws", "aws-bedrock", "amazon-bedrock", "amazon"]).mode(ApiMode::Converse).kind(ProviderKind::Aws),
    *CUSTOM,
    api("gemini", "Gemini", "https://generativelanguage.googleapis.com/v1beta", &["GOOGLE_API_KEY", "GEMINI_API_KEY"], "GEMINI_BASE_URL")
        .vendor("google"),
    api("xai", "xAI", "https://api.x.ai/v1", &["XAI_API_KEY"], "XAI_BASE_URL").vendor("x-ai"),
    api("nvidia", "NVIDIA", "https://integrate.api.nvidia.com/v1", &["NVIDIA_API_KEY"], "NVIDIA_BASE_URL"),
    api("kimi-coding-cn", "Kimi in China", "https://api.moonshot.cn/v1", &["KIMI_CN_API_KEY"], "KIMI_CN_BASE_URL").vendor("moonshotai"),
    api("ollama-cloud", "Ollama Cloud", "https://ollama.com/v1", &["OLLAMA_API_KEY"], "OLLAMA_BASE_URL"),
    api("alibaba-coding-plan", "Alibaba coding plan", "", &["ALIBABA_CODING_PLAN_API_KEY"], "ALIBABA_CODING_PLAN_BASE_URL").vendor("qwen"),
    api("arcee", "Arcee", "", &["ARCEE_API_KEY"], "ARCEE_BASE_URL"),
    api("gmi", "GMI", "", &["GMI_API_KEY"], "GMI_BASE_URL"),
    api("stepfun", "StepFun", "", &["STEPFUN_API_KEY"], "STEPFUN_BASE_URL"),
    api("xiaomi", "Xiaomi", "", &["XIAOMI_API_KEY"], "XIAOMI_BASE_URL"),
    api("tencent-tokenhub", "Tencent TokenHub", "", &["TENCENT_TOKENHUB_API_KEY"], "TENCENT_TOKENHUB_BASE_URL"),
    api("azure-foundry", "Azure Foundry", "", &["AZURE_FOUNDRY_API_KEY"], "AZURE_FOUNDRY_BASE_URL"),
    api("offline", "offline model", "", &[], "").kind(ProviderKind::Offline),
];

/// LM Studio: a custom endpoint with a well-known address.
pub const LM_STUDIO: (&str, &str, &str) = ("lmstudio", "http://127.0.0.1:1234/v1", "LM_API_KEY");

/// The prefix of keys that belong to the coding plan, and that plan's host.
pub const KIMI_PLAN: (&str, &str) = ("sk-kimi-", "https://api.kimi.com/coding/v1");

/// Finds a provider by its canonical id.
pub fn find(id: &str) -> Option<&'static Provider> {
    REGISTRY.iter().find(|provider| provider.id == id)
}

/// Finds a provider by any of its spellings. Names are compared trimmed and lower-cased.
pub fn find_named(name: &str) -> Option<&'static Provider> {
    let wanted = name.trim().to_lowercase();
    find(&wanted).or_else(|| REGISTRY.iter().find(|provider| provider.aliases.contains(&wanted.as_str())))
}

/// Returns the models that a provider is known to serve; the first is its default.
pub fn models(id: &str) -> &'static [&'static str] {
    find(id).map_or(&[], |provider| provider.models)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_names_two_providers() {
        let mut seen = std::collections::HashSet::new();
        for provider in REGISTRY {
            for name in std::iter::once(&provider.id).chain(provider.aliases) {
                assert!(seen.insert(*name), "{name} twice");
            }
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
