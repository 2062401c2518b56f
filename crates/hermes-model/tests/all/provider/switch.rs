//! Switching the model during a conversation: which provider a name means, and the notices about it.

use hermes_config::ProgramSurface;
use hermes_model::discovery::{ModelDiscovery, ModelListError, ZaiEndpoint};
use hermes_model::provider::switch::{SwitchNote, plan, validate};
use hermes_model::provider::{ModelTarget, ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_model::wire::{ApiMode, WireOptions};
use hermes_types::{Cancel, ReasoningEffort, Secret};
use serde_json::{Value, json};

use super::super::issuer_fixture::IssuerFixture;
use super::{Case, show};

#[track_caller]
fn check(case: &Case, typed: &str, expected: &str) {
    let facts = case.facts();
    let current = resolve(&facts, &case.choice(), ProgramSurface::Cli).unwrap().target();
    let shown = match plan(&facts, current.as_ref(), typed, ProgramSurface::Cli) {
        Ok(ResolvedModel::Offline) => "offline".to_owned(),
        Ok(ResolvedModel::Target(target)) => show(&target),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(shown, expected, "{typed}");
}

const KEYS: &[(&str, &str)] =
    &[("GLM_API_KEY", "z-123"), ("OPENROUTER_API_KEY", "sk-or-1"), ("DEEPSEEK_API_KEY", "d-123")];

fn on(provider: &'static str) -> Case {
    Case { provider: Some(provider), env: KEYS, ..Case::default() }
}

const ROUTER: &str = "https://openrouter.ai/api/v1 chat_completions | bearer sk-or-1";
const ZAI: &str = "https://api.z.ai/api/paas/v4 chat_completions | bearer z-123";
const DEEPSEEK: &str = "https://api.deepseek.com/v1 chat_completions | bearer d-123";

#[test]
fn names_find_their_providers() {
    check(
        &on("zai"),
        "",
        "error: Name a model, for example: hermes model openrouter:anthropic/claude-opus-4.6",
    );
    check(&on("zai"), "two words", "error: Model names must not contain spaces.");
    check(&on("zai"), "deepseek:deepseek-chat", &format!("deepseek deepseek-chat {DEEPSEEK}"));
    // A provider's name alone selects its first model.
    check(&on("zai"), "deepseek", &format!("deepseek deepseek-chat {DEEPSEEK}"));
    // The current provider's own model stays with it, even if another provider has one of that name.
    check(&on("zai"), "glm-4.7", &format!("zai glm-4.7 {ZAI}"));
    // A direct provider with a key.
    check(&on("zai"), "deepseek-reasoner", &format!("deepseek deepseek-reasoner {DEEPSEEK}"));
    // A direct provider without a key: the same model at OpenRouter, under its name there.
    check(&on("zai"), "claude-opus-4-6", &format!("openrouter anthropic/claude-opus-4.6 {ROUTER}"));
    check(&on("zai"), "openai/gpt-5.4", &format!("openrouter openai/gpt-5.4 {ROUTER}"));
    // A name that no catalogue contains is a model of the current provider.
    check(&on("zai"), "glm-9", &format!("zai glm-9 {ZAI}"));
    check(
        &on("openrouter"),
        "anthropic/claude-3.5-sonnet:beta",
        &format!("openrouter anthropic/claude-3.5-sonnet:beta {ROUTER}"),
    );
    check(&on("openrouter"), "kimi-k2.5", &format!("openrouter moonshotai/kimi-k2.5 {ROUTER}"));
    check(&on("openrouter"), "glm-5", &format!("zai glm-5 {ZAI}"));
    check(
        &on("zai"),
        "kimi:kimi-k2.5",
        "error: Provider 'kimi-coding' has no credentials. Set its key: hermes config set KIMI_API_KEY KEY",
    );
}

#[test]
fn at_home_a_name_is_a_model() {
    let case = Case {
        config: "
model: {provider: box, default: m}
custom_providers:
  - {name: box, base_url: 'http://b:1/v1', models: {qwen: {context_length: 9000}}}
",
        env: KEYS,
        ..Case::default()
    };
    check(&case, "deepseek", "custom deepseek http://b:1/v1 chat_completions | nothing");
    check(&case, "qwen3:27b", "custom qwen3:27b http://b:1/v1 chat_completions | nothing");
    check(&case, "zai:glm-5", &format!("zai glm-5 {ZAI}"));
    let facts = case.facts();
    let Ok(ResolvedModel::Target(target)) = plan(&facts, Some(&case.target()), "qwen", ProgramSurface::Cli)
    else {
        panic!()
    };
    assert_eq!(target.context_window, 9_000);
    let window = |config: &'static str, typed: &str| {
        let case = Case { config, env: KEYS, ..Case::default() };
        let target =
            plan(&case.facts(), Some(&case.target()), typed, ProgramSurface::Cli).unwrap().target().unwrap();
        target.context_window
    };
    let said = "model: {provider: zai, default: glm-5, context_length: 50000}";
    assert_eq!((window(said, "glm-5"), window(said, "glm-4.7")), (50_000, 202_752));
}

fn target_at(stage: &IssuerFixture, provider: &str, model: &str) -> ModelTarget {
    let config =
        hermes_config::Config::from_text(std::path::Path::new("config.yaml"), "", &stage.context.env);
    let facts = ProviderInputs::read(&stage.home(), config, stage.context.env.clone());
    let choice =
        ProviderChoice { base_url: Some(stage.server.base_url()), ..ProviderChoice::of("custom", model) };
    let mut target = resolve(&facts, &choice, ProgramSurface::Cli).unwrap().target().unwrap();
    target.wire = WireOptions::new(ApiMode::Chat, provider, &stage.server.base_url());
    target
}

fn lists(path: &str, body: &Value) -> String {
    format!(
        "  - when: {{path: {path}, method: GET}}\n    repeat: forever\n    http: {{status: 200, body: {body}}}\n"
    )
}

#[tokio::test]
async fn a_model_is_looked_up_and_taken_all_the_same() {
    async fn check(replies: &str, model: &str, expected: Option<&str>) {
        let stage = IssuerFixture::still(replies, &[]).await;
        let mut target = target_at(&stage, "custom", model);
        let lookup = ModelDiscovery::new(stage.context.clone(), stage.home());
        let note = validate(&lookup, &mut target, &Cancel::new()).await;
        assert_eq!(note.map(|note| note.to_string()).as_deref(), expected, "{model}");
        assert_eq!(target.model, model);
    }
    let served = lists(
        "/v1/models",
        &json!({"data": [{"id": "qwen3:27b"}, {"id": "qwen3:8b"}, {"id": "llama"}, {"id": "qwen2"}, {"id": "qwen3:4b"}]}),
    );
    check(&served, "qwen3:27b", None).await;
    check(
        &served,
        "qwen3:14b",
        Some("`qwen3:14b` is not among the models that custom lists; it may still work. Similar: qwen3:4b, qwen3:8b, qwen3:27b."),
    )
    .await;
    check(&served, "zzz", Some("`zzz` is not among the models that custom lists; it may still work.")).await;
    // The same list without the version in its URL.
    let failing = "  - when: {path: /v1/models}\n    repeat: forever\n    http: {status: 404, body: {}}\n";
    check(&format!("{failing}{}", lists("/models", &json!([{"id": "a"}]))), "a", None).await;
    let without = format!("{failing}  - when: {{path: /models}}\n    http: {{status: 403, body: {{}}}}\n");
    check(&without, "a", Some("`a` was not checked: 127.0.0.1 answered with HTTP 403.")).await;
    check(
        &lists("/v1/models", &json!("soon")),
        "a",
        Some("`a` was not checked: 127.0.0.1 publishes no list of models."),
    )
    .await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_said() {
    let stage = IssuerFixture::still("", &[]).await;
    let mut target = target_at(&stage, "custom", "m");
    let lookup = ModelDiscovery::new(stage.context.clone(), stage.home());
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    target.wire = WireOptions::new(ApiMode::Chat, "custom", &format!("http://{address}/v1"));
    let note = validate(&lookup, &mut target, &Cancel::new()).await;
    let why = ModelListError::Unreachable { host: "127.0.0.1".to_owned() };
    assert_eq!(note, Some(SwitchNote::Unchecked { model: "m".to_owned(), why }));
}

#[tokio::test]
async fn copilots_catalogue_chooses_the_wire() {
    let body = json!({"data": [{
        "id": "claude-x", "supported_endpoints": ["/v1/messages"],
        "capabilities": {"type": "chat", "supports": {"reasoning_effort": ["low", "high"]}},
    }]});
    let stage = IssuerFixture::still(&lists("/v1/models", &body), &[]).await;
    let mut target = target_at(&stage, "copilot", "claude-x");
    let lookup = ModelDiscovery::new(stage.context.clone(), stage.home());
    assert_eq!(validate(&lookup, &mut target, &Cancel::new()).await, None);
    assert_eq!(
        (target.wire.mode, target.wire.effort_levels),
        (ApiMode::Anthropic, Some(vec![ReasoningEffort::Low, ReasoningEffort::High]))
    );
}

#[tokio::test]
async fn the_home_of_a_zai_key() {
    let refused = |site: &str| {
        format!("  - when: {{path: /{site}/chat/completions}}\n    http: {{status: 401, body: {{}}}}\n")
    };
    let fine = "  - when: {path: /two/chat/completions, json: {/model: model-two, /max_tokens: 1}}\n    http: {status: 200, body: {}}\n";
    let stage = IssuerFixture::still(&format!("{}{fine}", refused("one")), &[]).await;
    let lookup = ModelDiscovery::new(stage.context.clone(), stage.home());
    let found = lookup.find_zai(&Secret::new("z-123"), &Cancel::new()).await;
    let two = ZaiEndpoint { base_url: format!("{}/two", stage.server.url()), model: "model-two".to_owned() };
    assert_eq!(found, Some(two));
    let stage = IssuerFixture::still(&["one", "two", "three"].map(refused).concat(), &[]).await;
    let lookup = ModelDiscovery::new(stage.context.clone(), stage.home());
    assert_eq!(lookup.find_zai(&Secret::new("z-123"), &Cancel::new()).await, None);
    stage.server.assert_requests(3);
}
