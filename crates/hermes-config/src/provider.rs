//! The names of model providers: the canonical ones, and their aliases.

use crate::{Error, Result};

/// The provider ids of the baseline, in the order they are documented.
pub const PROVIDERS: &[&str] = &[
    "openrouter",
    "nous",
    "openai-codex",
    "anthropic",
    "openai",
    "copilot",
    "copilot-acp",
    "zai",
    "kimi-coding",
    "minimax",
    "minimax-cn",
    "alibaba",
    "deepseek",
    "huggingface",
    "kilocode",
    "ai-gateway",
    "opencode-zen",
    "opencode-go",
    "bedrock",
    "custom",
];

/// The ids that only newer homes use, and the offline model of this program.
pub const ADDITIONAL_PROVIDERS: &[&str] = &[
    "gemini",
    "xai",
    "nvidia",
    "kimi-coding-cn",
    "ollama-cloud",
    "alibaba-coding-plan",
    "arcee",
    "gmi",
    "stepfun",
    "xiaomi",
    "tencent-tokenhub",
    "azure-foundry",
    "offline",
];

/// The aliases, each with its canonical id.
pub const ALIASES: &[(&str, &str)] = &[
    ("ollama", "custom"),
    ("vllm", "custom"),
    ("sglang", "custom"),
    ("llamacpp", "custom"),
    ("llama.cpp", "custom"),
    ("llama-cpp", "custom"),
    ("lmstudio", "custom"),
    ("local", "custom"),
    ("openai-api", "openai"),
    ("glm", "zai"),
    ("z-ai", "zai"),
    ("z.ai", "zai"),
    ("zhipu", "zai"),
    ("kimi", "kimi-coding"),
    ("moonshot", "kimi-coding"),
    ("minimax-china", "minimax-cn"),
    ("minimax_cn", "minimax-cn"),
    ("claude", "anthropic"),
    ("claude-code", "anthropic"),
    ("github", "copilot"),
    ("github-copilot", "copilot"),
    ("github-models", "copilot"),
    ("github-model", "copilot"),
    ("github-copilot-acp", "copilot-acp"),
    ("copilot-acp-agent", "copilot-acp"),
    ("aigateway", "ai-gateway"),
    ("vercel", "ai-gateway"),
    ("vercel-ai-gateway", "ai-gateway"),
    ("opencode", "opencode-zen"),
    ("zen", "opencode-zen"),
    ("go", "opencode-go"),
    ("opencode-go-sub", "opencode-go"),
    ("hf", "huggingface"),
    ("hugging-face", "huggingface"),
    ("huggingface-hub", "huggingface"),
    ("kilo", "kilocode"),
    ("kilo-code", "kilocode"),
    ("kilo-gateway", "kilocode"),
    ("deep-seek", "deepseek"),
    ("dashscope", "alibaba"),
    ("aliyun", "alibaba"),
    ("qwen", "alibaba"),
    ("alibaba-cloud", "alibaba"),
    ("aws", "bedrock"),
    ("aws-bedrock", "bedrock"),
    ("amazon-bedrock", "bedrock"),
    ("amazon", "bedrock"),
    ("codex", "openai-codex"),
];

/// Returns the canonical id of a built-in provider, `auto` included. Names are compared trimmed and lower-cased.
pub fn canonical_provider(name: &str) -> Result<&'static str> {
    let wanted = name.trim().to_lowercase();
    if wanted == "auto" {
        return Ok("auto");
    }
    PROVIDERS
        .iter()
        .chain(ADDITIONAL_PROVIDERS)
        .find(|id| **id == wanted)
        .or_else(|| ALIASES.iter().find(|(alias, _)| *alias == wanted).map(|(_, id)| id))
        .copied()
        .ok_or_else(|| Error::UnknownProvider { name: name.trim().to_owned() })
}

/// Returns the normalised name of a custom provider: lower case, spaces as dashes, without the prefix `custom:`.
pub fn custom_slug(name: &str) -> String {
    let name = name.trim();
    name.strip_prefix("custom:").unwrap_or(name).trim().to_lowercase().replace(' ', "-")
}

/// Tells whether a text can be a key, rather than a placeholder of a template.
pub fn is_usable_key(key: &str) -> bool {
    const FILLERS: [&str; 12] = [
        "*",
        "**",
        "***",
        "changeme",
        "your_api_key",
        "your-api-key",
        "placeholder",
        "example",
        "dummy",
        "null",
        "none",
        "",
    ];
    let key = key.trim();
    key.len() >= 4 && !FILLERS.contains(&key.to_lowercase().as_str())
}
