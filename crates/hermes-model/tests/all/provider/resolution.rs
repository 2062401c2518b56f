//! Resolution of one choice to one target.

use serde_json::json;

use super::{Case, check, codex_login, nous_login};

const ROUTER: &str = "openrouter anthropic/claude-opus-4.6 https://openrouter.ai/api/v1 chat_completions";

#[test]
fn nothing_at_all_is_offline() {
    check(&Case::default(), "offline");
    check(
        &Case { provider: Some("offline"), env: &[("OPENROUTER_API_KEY", "sk-or-1")], ..Case::default() },
        "offline",
    );
    // Placeholders are not keys.
    check(
        &Case { env: &[("OPENROUTER_API_KEY", "your_api_key"), ("GLM_API_KEY", "***")], ..Case::default() },
        "offline",
    );
    // GitHub tokens are common and do not select Copilot.
    check(&Case { env: &[("GITHUB_TOKEN", "gho_123")], ..Case::default() }, "offline");
}

#[test]
fn automatic_choice() {
    check(
        &Case { env: &[("OPENROUTER_API_KEY", "sk-or-1")], ..Case::default() },
        &format!("{ROUTER} | bearer sk-or-1"),
    );
    check(
        &Case { env: &[("OPENROUTER_API_KEY", "sk-or-1"), ("OPENAI_API_KEY", "sk-2")], ..Case::default() },
        &format!("{ROUTER} | bearer sk-or-1"),
    );
    check(
        &Case { env: &[("OPENAI_API_KEY", "sk-or-2")], ..Case::default() },
        &format!("{ROUTER} | bearer sk-or-2"),
    );
    // An OpenAI key alone selects OpenAI.
    check(
        &Case { env: &[("OPENAI_API_KEY", "sk-2")], ..Case::default() },
        "openai gpt-5.4 https://api.openai.com/v1 codex_responses | bearer sk-2",
    );
    check(
        &Case {
            env: &[("OPENAI_API_KEY", "sk-2"), ("OPENAI_BASE_URL", "http://box:8000/v1/")],
            ..Case::default()
        },
        "custom anthropic/claude-opus-4.6 http://box:8000/v1 chat_completions | bearer sk-2",
    );
    check(
        &Case { env: &[("DEEPSEEK_API_KEY", "d-123"), ("ZAI_API_KEY", "z-123")], ..Case::default() },
        "zai glm-5 https://api.z.ai/api/paas/v4 chat_completions | bearer z-123",
    );
    check(
        &Case { env: &[("ANTHROPIC_API_KEY", "sk-ant-api03-x")], ..Case::default() },
        "anthropic claude-opus-4-6 https://api.anthropic.com anthropic_messages | x-api-key sk-ant-api03-x",
    );
    check(
        &Case {
            env: &[("ANTHROPIC_TOKEN", "sk-ant-oat01-x"), ("ANTHROPIC_API_KEY", "sk-ant-api03-x")],
            ..Case::default()
        },
        "anthropic claude-opus-4-6 https://api.anthropic.com anthropic_messages | bearer sk-ant-oat01-x",
    );
    check(
        &Case {
            env: &[("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "eu-west-1")],
            config: "model: us.anthropic.claude-sonnet-4-6",
            ..Case::default()
        },
        "bedrock us.anthropic.claude-sonnet-4-6 https://bedrock-runtime.eu-west-1.amazonaws.com anthropic_messages | aws AWS_ACCESS_KEY_ID",
    );
    // A key or an address on the command line takes the OpenRouter path.
    check(
        &Case { api_key: Some("sk-or-9"), env: &[("GLM_API_KEY", "z-123")], ..Case::default() },
        &format!("{ROUTER} | bearer sk-or-9"),
    );
    check(
        &Case {
            base_url: Some("http://localhost:9/v1"),
            env: &[("OPENROUTER_API_KEY", "sk-or-1")],
            ..Case::default()
        },
        "custom anthropic/claude-opus-4.6 http://localhost:9/v1 chat_completions | nothing",
    );
}

#[test]
fn the_order_of_who_asks() {
    let both = "model: {provider: deepseek, default: deepseek-chat}";
    let env: &[(&str, &str)] =
        &[("HERMES_INFERENCE_PROVIDER", "zai"), ("GLM_API_KEY", "z-123"), ("DEEPSEEK_API_KEY", "d-123")];
    check(
        &Case { config: both, env, ..Case::default() },
        "deepseek deepseek-chat https://api.deepseek.com/v1 chat_completions | bearer d-123",
    );
    check(
        &Case { env, ..Case::default() },
        "zai glm-5 https://api.z.ai/api/paas/v4 chat_completions | bearer z-123",
    );
    check(
        &Case { config: both, env, provider: Some("GLM"), model: Some("glm-4.7"), ..Case::default() },
        "zai glm-4.7 https://api.z.ai/api/paas/v4 chat_completions | bearer z-123",
    );
    check(
        &Case { config: both, env, model: Some("glm:glm-4.7"), ..Case::default() },
        "zai glm-4.7 https://api.z.ai/api/paas/v4 chat_completions | bearer z-123",
    );
    check(
        &Case { config: both, env, model: Some("deepseek:7b"), ..Case::default() },
        "deepseek deepseek:7b https://api.deepseek.com/v1 chat_completions | bearer d-123",
    );
    // A sign-in comes before keys.
    check(
        &Case { auth: nous_login(&json!({})), env: &[("OPENROUTER_API_KEY", "sk-or-1")], ..Case::default() },
        "nous anthropic/claude-opus-4.6 https://inference-api.nousresearch.com/v1 chat_completions | nous",
    );
    // But not an entry without usable state.
    check(
        &Case {
            auth: json!({"active_provider": "nous"}),
            env: &[("OPENROUTER_API_KEY", "sk-or-1")],
            ..Case::default()
        },
        &format!("{ROUTER} | bearer sk-or-1"),
    );
}

#[test]
fn a_named_provider_is_never_replaced() {
    let env: &[(&str, &str)] = &[("OPENROUTER_API_KEY", "sk-or-1")];
    let error = |id: &str, variable: &str| {
        format!("error: Provider '{id}' has no credentials. Set its key: hermes config set {variable} KEY")
    };
    check(
        &Case { provider: Some("deepseek"), env, ..Case::default() },
        &error("deepseek", "DEEPSEEK_API_KEY"),
    );
    check(
        &Case { provider: Some("anthropic"), env, ..Case::default() },
        &error("anthropic", "ANTHROPIC_API_KEY"),
    );
    check(
        &Case { provider: Some("copilot"), env, ..Case::default() },
        &error("copilot", "COPILOT_GITHUB_TOKEN"),
    );
    check(
        &Case { provider: Some("openrouter"), env: &[("GLM_API_KEY", "z-123")], ..Case::default() },
        &error("openrouter", "OPENROUTER_API_KEY"),
    );
    check(&Case { provider: Some("openai"), env, ..Case::default() }, &error("openai", "OPENAI_API_KEY"));
    check(&Case { provider: Some("mystery"), env, ..Case::default() }, "error: Unknown provider 'mystery'.");
    check(
        &Case { provider: Some("custom:gone"), env, ..Case::default() },
        "error: Unknown provider 'custom:gone'.",
    );
    check(
        &Case { provider: Some("nous"), env, ..Case::default() },
        "error: You are not signed in to 'nous'. Sign in: hermes login --provider nous",
    );
    check(
        &Case { provider: Some("custom"), env, ..Case::default() },
        "error: Provider 'custom' has no address. Set it: hermes config set model.base_url URL",
    );
    check(
        &Case { provider: Some("arcee"), env: &[("ARCEE_API_KEY", "a-123")], ..Case::default() },
        "error: Provider 'arcee' has no address. Set it: hermes config set model.base_url URL",
    );
    let classic = Case { provider: Some("github"), env: &[("GH_TOKEN", "ghp_1234")], ..Case::default() };
    let told = classic.resolve().unwrap_err();
    assert!(told.contains("ghp_…") && told.contains("GH_TOKEN") && !told.contains("1234"), "{told}");
}

#[test]
fn a_process_is_not_a_model() {
    for name in ["copilot-acp", "github-copilot-acp", "copilot-acp-agent"] {
        let case = Case { provider: Some(name), env: &[("GH_TOKEN", "gho_1234")], ..Case::default() };
        check(
            &case,
            "error: The Copilot agent process cannot be used as a model here. Use provider `copilot` with the same \
             GitHub account: set COPILOT_GITHUB_TOKEN, or run `hermes model`.",
        );
    }
}

#[test]
fn trap_12_keys_stay_with_their_hosts() {
    let router: &[(&str, &str)] = &[("OPENROUTER_API_KEY", "sk-or-1")];
    // A foreign host gets no OpenRouter key.
    check(
        &Case {
            config: "model: {provider: custom, base_url: 'https://llm.example/v1', default: m}",
            env: router,
            ..Case::default()
        },
        "custom m https://llm.example/v1 chat_completions | bearer no-key-required",
    );
    check(
        &Case {
            env: &[("OPENROUTER_API_KEY", "sk-or-1"), ("OPENAI_BASE_URL", "https://llm.example/v1")],
            ..Case::default()
        },
        "custom anthropic/claude-opus-4.6 https://llm.example/v1 chat_completions | bearer no-key-required",
    );
    // A host that only resembles OpenRouter's gets none either.
    check(
        &Case { base_url: Some("https://openrouter.ai.evil.example/v1"), env: router, ..Case::default() },
        "custom anthropic/claude-opus-4.6 https://openrouter.ai.evil.example/v1 chat_completions | bearer no-key-required",
    );
    // The address that was set for OpenRouter gets it.
    check(
        &Case {
            env: &[("OPENROUTER_API_KEY", "sk-or-1"), ("OPENROUTER_BASE_URL", "https://proxy.example/v1/")],
            ..Case::default()
        },
        "openrouter anthropic/claude-opus-4.6 https://proxy.example/v1 chat_completions | bearer sk-or-1",
    );
    // A leftover address in the file does not.
    check(
        &Case {
            config: "model: {provider: openrouter, base_url: 'https://llm.example/v1'}",
            env: router,
            ..Case::default()
        },
        &format!("{ROUTER} | bearer sk-or-1"),
    );
    // A configured provider's key is not sent to an address from the command line.
    check(
        &Case {
            config: "model: {provider: zai, default: glm-5}",
            env: &[("GLM_API_KEY", "z-123")],
            base_url: Some("http://localhost:9/v1"),
            ..Case::default()
        },
        "custom glm-5 http://localhost:9/v1 chat_completions | nothing",
    );
    // Anthropic's credentials are not sent to another host's `/anthropic` path.
    check(
        &Case {
            config: "model: {provider: anthropic, base_url: 'https://api.minimax.io/anthropic', default: m}",
            env: &[("ANTHROPIC_API_KEY", "sk-ant-api03-x")],
            ..Case::default()
        },
        "error: api.minimax.io is not run by Anthropic and needs a key of its own: set model.api_key.",
    );
    check(
        &Case {
            config: "model: {provider: anthropic, base_url: 'https://api.minimax.io/anthropic', default: m, api_key: mm-123}",
            env: &[("ANTHROPIC_API_KEY", "sk-ant-api03-x")],
            ..Case::default()
        },
        "anthropic m https://api.minimax.io/anthropic anthropic_messages | bearer mm-123",
    );
    check(
        &Case {
            provider: Some("minimax"),
            env: &[("MINIMAX_API_KEY", "mm-123"), ("ANTHROPIC_API_KEY", "sk-ant-api03-x")],
            ..Case::default()
        },
        "minimax MiniMax-M2.7 https://api.minimax.io/anthropic anthropic_messages | bearer mm-123",
    );
}

#[test]
fn trap_13_custom_endpoints() {
    let config = "model: {provider: custom, base_url: 'http://10.0.0.5:11434/v1', default: 'qwen3:27b'}";
    check(
        &Case { config, ..Case::default() },
        "custom qwen3:27b http://10.0.0.5:11434/v1 chat_completions | nothing",
    );
    check(
        &Case {
            config,
            env: &[("OPENAI_BASE_URL", "https://stale.example/v1"), ("OPENAI_API_KEY", "sk-2")],
            ..Case::default()
        },
        "custom qwen3:27b http://10.0.0.5:11434/v1 chat_completions | bearer sk-2",
    );
    check(
        &Case {
            provider: Some("openrouter"),
            env: &[("OPENAI_BASE_URL", "http://localhost:1/v1"), ("OPENROUTER_API_KEY", "sk-or-1")],
            ..Case::default()
        },
        &format!("{ROUTER} | bearer sk-or-1"),
    );
    // An alias, and an address without its version.
    check(
        &Case {
            config: "model: {provider: ollama, base_url: 'http://localhost:11434', default: 'llama3:8b'}",
            ..Case::default()
        },
        "custom llama3:8b http://localhost:11434/v1 chat_completions | nothing",
    );
    check(
        &Case {
            config: "model: {base_url: 'http://localhost:11434', default: 'llama3:8b'}",
            auth: nous_login(&json!({})),
            ..Case::default()
        },
        "custom llama3:8b http://localhost:11434/v1 chat_completions | nothing",
    );
    check(
        &Case {
            config: "model: {provider: custom, base_url: 'http://localhost:4000', api_mode: anthropic_messages, default: m, api: k-123}",
            ..Case::default()
        },
        "custom m http://localhost:4000 anthropic_messages | bearer k-123",
    );
    check(
        &Case {
            provider: Some("lmstudio"),
            model: Some("m"),
            env: &[("LM_API_KEY", "lm-12")],
            ..Case::default()
        },
        "custom m http://127.0.0.1:1234/v1 chat_completions | bearer lm-12",
    );
    // The exact output of a deployment tool.
    check(
        &Case {
            config: "model:\n  provider: openrouter\n  base_url: https://openrouter.ai/api/v1\n  default: openai/gpt-5.4\n",
            env: &[("HERMES_INFERENCE_PROVIDER", "openrouter"), ("OPENROUTER_API_KEY", "sk-or-1")],
            ..Case::default()
        },
        "openrouter openai/gpt-5.4 https://openrouter.ai/api/v1 chat_completions | bearer sk-or-1",
    );
}

#[test]
fn an_address_left_over_from_another_provider_is_dropped() {
    let config = "model: {provider: custom, base_url: 'http://localhost:9/v1', default: m, api_mode: chat_completions}";
    check(
        &Case {
            config,
            provider: Some("anthropic"),
            model: Some("claude-opus-4.6"),
            env: &[("ANTHROPIC_API_KEY", "sk-ant-api03-x")],
            ..Case::default()
        },
        "anthropic claude-opus-4-6 https://api.anthropic.com anthropic_messages | x-api-key sk-ant-api03-x",
    );
    check(
        &Case {
            config: "model: {provider: openrouter, default: anthropic/claude-opus-4.6}",
            provider: Some("deepseek"),
            env: &[("DEEPSEEK_API_KEY", "d-123")],
            ..Case::default()
        },
        "deepseek deepseek-chat https://api.deepseek.com/v1 chat_completions | bearer d-123",
    );
}

#[test]
fn named_endpoints() {
    const CONFIG: &str = "
custom_providers:
  - {name: My Box, base_url: 'http://box:8000/v1/', api_key: box-123, models: {big: {context_length: 65536}}}
  - {name: zai, base_url: 'http://fake/v1'}
  - {name: plain, base_url: 'https://plain.example', model: standard}
";
    let case = |provider, model| Case {
        config: CONFIG,
        provider: Some(provider),
        model,
        env: &[("OPENAI_API_KEY", "sk-2"), ("GLM_API_KEY", "z-123")],
        ..Case::default()
    };
    check(&case("my-box", Some("big")), "custom big http://box:8000/v1 chat_completions | bearer box-123");
    check(
        &case("custom:my box", Some("big")),
        "custom big http://box:8000/v1 chat_completions | bearer box-123",
    );
    // A key is sent to the host it was configured for, and to no other.
    check(
        &case("plain", None),
        "custom standard https://plain.example/v1 chat_completions | bearer no-key-required",
    );
    // Built-in names win, unless the prefix selects the custom one.
    check(
        &case("zai", Some("glm-5")),
        "zai glm-5 https://api.z.ai/api/paas/v4 chat_completions | bearer z-123",
    );
    check(&case("custom:zai", Some("x")), "custom x http://fake/v1 chat_completions | nothing");
    check(
        &Case { config: CONFIG, model: Some("custom:my-box:big"), ..Case::default() },
        "custom big http://box:8000/v1 chat_completions | bearer box-123",
    );
    // Its key is not sent to another address.
    let moved = Case {
        config: CONFIG,
        provider: Some("my-box"),
        model: Some("big"),
        base_url: Some("https://evil.example/v1"),
        ..Case::default()
    };
    check(&moved, "custom big https://evil.example/v1 chat_completions | bearer no-key-required");
    assert_eq!(case("my-box", Some("big")).target().context_window, 65_536);
    assert_eq!(case("my-box", Some("claude-opus-4-6")).target().context_window, 128_000);
}

#[test]
fn habits_of_single_providers() {
    check(
        &Case {
            provider: Some("gemini"),
            model: Some("g"),
            env: &[("GEMINI_API_KEY", "g-123")],
            ..Case::default()
        },
        "gemini g https://generativelanguage.googleapis.com/v1beta/openai chat_completions | bearer g-123",
    );
    let kimi = |key: &'static [(&'static str, &'static str)]| Case {
        provider: Some("kimi"),
        model: Some("k"),
        env: key,
        ..Case::default()
    };
    check(
        &kimi(&[("KIMI_API_KEY", "sk-123")]),
        "kimi-coding k https://api.moonshot.ai/v1 chat_completions | bearer sk-123",
    );
    check(
        &kimi(&[("KIMI_API_KEY", "sk-kimi-1")]),
        "kimi-coding k https://api.kimi.com/coding/v1 chat_completions | bearer sk-kimi-1",
    );
    check(
        &kimi(&[("KIMI_API_KEY", "sk-kimi-1"), ("KIMI_BASE_URL", "http://k/v1")]),
        "kimi-coding k http://k/v1 chat_completions | bearer sk-kimi-1",
    );
    check(
        &Case {
            provider: Some("minimax"),
            env: &[("MINIMAX_API_KEY", "mm-123"), ("MINIMAX_BASE_URL", "https://api.minimax.io/v1")],
            ..Case::default()
        },
        "minimax MiniMax-M2.7 https://api.minimax.io/v1 chat_completions | bearer mm-123",
    );
    check(
        &Case {
            provider: Some("aws"),
            model: Some("anthropic.claude-3"),
            env: &[("AWS_BEARER_TOKEN_BEDROCK", "b-123")],
            ..Case::default()
        },
        "bedrock anthropic.claude-3 https://bedrock-runtime.us-east-1.amazonaws.com bedrock_converse | aws AWS_BEARER_TOKEN_BEDROCK",
    );
    // An explicit choice relies on the credential chain; its failure is reported at the first use.
    check(
        &Case {
            provider: Some("bedrock"),
            model: Some("amazon.nova-pro-v1:0"),
            config: "bedrock: {region: eu-central-1}",
            ..Case::default()
        },
        "bedrock amazon.nova-pro-v1:0 https://bedrock-runtime.eu-central-1.amazonaws.com bedrock_converse | aws the machine's role",
    );
    check(
        &Case { provider: Some("codex"), auth: codex_login(), ..Case::default() },
        "openai-codex gpt-5.3-codex https://chatgpt.com/backend-api/codex codex_responses | codex",
    );
    check(
        &Case {
            provider: Some("nous"),
            auth: nous_login(&json!({"inference_base_url": "https://i.nousresearch.com/v1/"})),
            env: &[("NOUS_INFERENCE_BASE_URL", "https://env.example/v1")],
            model: Some("m"),
            ..Case::default()
        },
        "nous m https://i.nousresearch.com/v1 chat_completions | nous",
    );
    check(
        &Case {
            provider: Some("nous"),
            auth: nous_login(&json!({})),
            env: &[("NOUS_BASE_URL", "https://older.example/v1/")],
            model: Some("m"),
            ..Case::default()
        },
        "nous m https://older.example/v1 chat_completions | nous",
    );
    check(
        &Case {
            provider: Some("deepseek"),
            auth: json!({"credential_pool": {"deepseek": [{"id": "1", "access_token": "d-111"}]}}),
            ..Case::default()
        },
        "deepseek deepseek-chat https://api.deepseek.com/v1 chat_completions | pool deepseek",
    );
}

#[test]
fn windows() {
    let size = |case: Case| case.target().context_window;
    let router: &[(&str, &str)] = &[("OPENROUTER_API_KEY", "sk-or-1")];
    assert_eq!(size(Case { env: router, ..Case::default() }), 1_000_000);
    assert_eq!(
        size(Case { env: router, config: "model: {default: x/y, context_length: 9000}", ..Case::default() }),
        9_000
    );
    // The setting applies to the configured model only.
    assert_eq!(
        size(Case {
            env: router,
            config: "model: {default: x/y, context_length: 9000}",
            model: Some("z-ai/glm-5"),
            ..Case::default()
        }),
        202_752
    );
    let learnt = "context_lengths: {'x/y@https://openrouter.ai/api/v1': 7000}";
    assert_eq!(size(Case { env: router, config: "model: x/y", learnt, ..Case::default() }), 7_000);
    assert_eq!(
        size(Case {
            config: "model: {provider: custom, base_url: 'http://b/v1', default: claude-opus-4-6}",
            ..Case::default()
        }),
        128_000
    );
}

#[test]
fn what_the_wire_is_told() {
    use hermes_model::caching::CachePolicy;
    use hermes_model::wire::CredentialKind;
    let router: &[(&str, &str)] = &[("OPENROUTER_API_KEY", "sk-or-1")];
    let config = "provider_routing: {sort: price, only: [a, b], require_parameters: true}\nprompt_caching: {cache_ttl: 1h}";
    let target = Case { env: router, config, ..Case::default() }.target();
    assert_eq!((target.wire.routing.sort.as_deref(), target.wire.routing.only.len()), (Some("price"), 2));
    assert_eq!(target.wire.cache, CachePolicy::OneHour);
    let nous = Case { auth: nous_login(&json!({})), config, ..Case::default() }.target();
    assert_eq!(
        (nous.wire.tags.as_slice(), nous.wire.routing.only.len()),
        (["product=hermes-agent".to_owned()].as_slice(), 0)
    );
    let token = Case { env: &[("ANTHROPIC_TOKEN", "eyJ.x.y")], ..Case::default() }.target();
    assert_eq!((token.wire.credential, token.wire.cache), (CredentialKind::OAuth, CachePolicy::FiveMinutes));
    let key = Case { env: &[("ANTHROPIC_API_KEY", "sk-ant-api03-x")], ..Case::default() }.target();
    assert_eq!(key.wire.credential, CredentialKind::ApiKey);
}

#[test]
fn nothing_secret_is_shown() {
    let case = Case {
        env: &[("OPENROUTER_API_KEY", "sk-or-hidden")],
        api_key: Some("sk-or-hidden"),
        ..Case::default()
    };
    let shown = format!("{:?} {:?} {:?}", case.facts(), case.choice(), case.target());
    assert!(!shown.contains("hidden"), "{shown}");
}

/// Whatever the source of the address, no stored key is sent to a host it was not configured for.
#[test]
fn keys_stay_with_their_hosts() {
    const ENV: &[(&str, &str)] = &[
        ("OPENAI_API_KEY", "sk-2"),
        ("OPENROUTER_API_KEY", "sk-or-1"),
        ("ANTHROPIC_API_KEY", "sk-ant-api03-x"),
        ("GLM_API_KEY", "z-123"),
        ("DEEPSEEK_API_KEY", "ds-123"),
        ("AWS_BEARER_TOKEN_BEDROCK", "aws-123"),
    ];
    let config = "model: {provider: openrouter, api_key: cfg-123}";
    for provider in [
        None,
        Some("auto"),
        Some("custom"),
        Some("openai"),
        Some("openrouter"),
        Some("anthropic"),
        Some("zai"),
        Some("deepseek"),
        Some("bedrock"),
    ] {
        for url in
            ["https://evil.example/v1", "http://127.0.0.1:9/v1", "https://openrouter.ai.evil.example/api/v1"]
        {
            let case =
                Case { config, env: ENV, provider, model: Some("m"), base_url: Some(url), ..Case::default() };
            let shown = case.shown();
            assert!(
                shown.ends_with("| bearer no-key-required")
                    || shown.ends_with("| nothing")
                    || !shown.contains(" | "),
                "{provider:?} {url}: {shown}"
            );
        }
    }
    let own = Case {
        env: ENV,
        provider: Some("openai"),
        base_url: Some("https://api.openai.com/v1"),
        ..Case::default()
    };
    assert!(own.shown().ends_with("bearer sk-2"), "{}", own.shown());
}
