//! Models for side tasks.

use hermes_config::ProgramSurface;
use hermes_model::provider::auxiliary::{SideTask, find_model};
use hermes_model::provider::{ProviderChoice, ResolvedModel, resolve};

use super::{Case, codex_login, show};

#[test]
fn side_tasks() {
    #[track_caller]
    fn check(task: SideTask, case: &Case, expected: &str) {
        let main = resolve(&case.facts(), &ProviderChoice::default(), ProgramSurface::Cli)
            .ok()
            .and_then(ResolvedModel::target);
        let shown = match find_model(&case.facts(), task, &case.choice(), main.as_ref(), ProgramSurface::Cli)
        {
            Ok(None) => "none".to_owned(),
            Ok(Some(found)) => show(&found.target),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }
    let router: &[(&str, &str)] = &[("OPENROUTER_API_KEY", "sk-or-1")];
    let flash =
        "google/gemini-3-flash-preview https://openrouter.ai/api/v1 chat_completions | bearer sk-or-1";
    check(SideTask::Compression, &Case::default(), "none");
    check(SideTask::Compression, &Case { env: router, ..Case::default() }, &format!("openrouter {flash}"));
    check(
        SideTask::Title,
        &Case { env: router, config: "auxiliary: {compression: {model: x/y}}", ..Case::default() },
        "openrouter x/y https://openrouter.ai/api/v1 chat_completions | bearer sk-or-1",
    );
    let local = "model: {provider: custom, base_url: 'http://b:1/v1', default: m}";
    check(
        SideTask::WebExtract,
        &Case { config: local, ..Case::default() },
        "custom m http://b:1/v1 chat_completions | nothing",
    );
    check(
        SideTask::WebExtract,
        &Case {
            config: "model: {provider: zai, default: glm-5}",
            env: &[("GLM_API_KEY", "z-123"), ("AUXILIARY_WEB_EXTRACT_MODEL", "x/y")],
            ..Case::default()
        },
        "zai glm-4.5-flash https://api.z.ai/api/paas/v4 chat_completions | bearer z-123",
    );
    // The task's own address gets its own key or OpenAI's, never OpenRouter's.
    check(
        SideTask::Vision,
        &Case {
            config: "auxiliary: {vision: {base_url: 'https://v.example/v1', model: see}}",
            env: router,
            ..Case::default()
        },
        "custom see https://v.example/v1 chat_completions | bearer no-key-required",
    );
    check(
        SideTask::Vision,
        &Case {
            config: "auxiliary: {vision: {base_url: 'https://v.example/v1', model: see, api_key: v-123}}",
            env: router,
            ..Case::default()
        },
        "custom see https://v.example/v1 chat_completions | bearer v-123",
    );
    // Images prefer the main provider, and tolerate a provider that cannot be used.
    let both: &[(&str, &str)] = &[("OPENROUTER_API_KEY", "sk-or-1"), ("ANTHROPIC_API_KEY", "sk-ant-api03-x")];
    check(
        SideTask::Vision,
        &Case {
            config: "model: {provider: anthropic, default: claude-opus-4-6}",
            env: both,
            ..Case::default()
        },
        "anthropic claude-haiku-4-5-20251001 https://api.anthropic.com anthropic_messages | x-api-key sk-ant-api03-x",
    );
    check(
        SideTask::Vision,
        &Case { config: "auxiliary: {vision: {provider: deepseek}}", env: router, ..Case::default() },
        &format!("openrouter {flash}"),
    );
    check(
        SideTask::Approval,
        &Case { config: "auxiliary: {approval: {provider: deepseek}}", env: router, ..Case::default() },
        "Provider 'deepseek' has no credentials. Set its key: hermes config set DEEPSEEK_API_KEY KEY",
    );
    check(
        SideTask::Approval,
        &Case { provider: Some("codex"), auth: codex_login(), ..Case::default() },
        "openai-codex gpt-5.2-codex https://chatgpt.com/backend-api/codex codex_responses | codex",
    );
    check(
        SideTask::Mcp,
        &Case {
            config: "auxiliary: {mcp: {provider: main}}",
            env: &[("OPENROUTER_API_KEY", "sk-or-1"), ("DEEPSEEK_API_KEY", "d-123")],
            ..Case::default()
        },
        "deepseek deepseek-chat https://api.deepseek.com/v1 chat_completions | bearer d-123",
    );
}
