//! Model names for defaults and for guessing a provider. The list does not guarantee that they still exist.

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

const CATALOGUES: &[(&str, &[&str])] = &[
    ("openrouter", AGGREGATED),
    ("nous", AGGREGATED),
    ("ai-gateway", AGGREGATED),
    ("kilocode", AGGREGATED),
    (
        "openai",
        &["gpt-5.4", "gpt-5.4-mini", "gpt-5.4-pro", "gpt-5.4-nano", "gpt-4.1", "gpt-4o", "gpt-4o-mini"],
    ),
    ("openai-codex", &["gpt-5.3-codex", "gpt-5.2-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini"]),
    (
        "anthropic",
        &[
            "claude-opus-4-6",
            "claude-sonnet-4-6",
            "claude-opus-4-5-20251101",
            "claude-sonnet-4-5-20250929",
            "claude-opus-4-20250514",
            "claude-sonnet-4-20250514",
            "claude-haiku-4-5-20251001",
        ],
    ),
    (
        "copilot",
        &[
            "gpt-5.4",
            "gpt-5.4-mini",
            "gpt-5-mini",
            "gpt-5.3-codex",
            "gpt-5.2-codex",
            "gpt-4.1",
            "gpt-4o",
            "gpt-4o-mini",
            "claude-opus-4.6",
            "claude-sonnet-4.6",
            "claude-sonnet-4.5",
            "claude-haiku-4.5",
            "gemini-2.5-pro",
            "grok-code-fast-1",
        ],
    ),
    ("zai", &["glm-5", "glm-5-turbo", "glm-4.7", "glm-4.5", "glm-4.5-flash"]),
    ("kimi-coding", KIMI),
    ("minimax", MINIMAX),
    ("minimax-cn", MINIMAX),
    (
        "alibaba",
        &[
            "qwen3.5-plus",
            "qwen3-coder-plus",
            "qwen3-coder-next",
            "glm-5",
            "glm-4.7",
            "kimi-k2.5",
            "MiniMax-M2.5",
        ],
    ),
    ("deepseek", &["deepseek-chat", "deepseek-reasoner"]),
    ("opencode-zen", &["gpt-5.4-pro"]),
    ("opencode-go", &["glm-5", "kimi-k2.5", "minimax-m2.5"]),
    (
        "huggingface",
        &[
            "Qwen/Qwen3.5-397B-A17B",
            "Qwen/Qwen3.5-35B-A3B",
            "deepseek-ai/DeepSeek-V3.2",
            "moonshotai/Kimi-K2.5",
            "MiniMaxAI/MiniMax-M2.5",
            "zai-org/GLM-5",
        ],
    ),
];

/// Returns the models that a provider is known to serve; the first is its default.
pub fn models(provider: &str) -> &'static [&'static str] {
    CATALOGUES.iter().find(|(id, _)| *id == provider).map_or(&[], |(_, models)| models)
}
