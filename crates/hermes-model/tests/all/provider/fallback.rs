//! Fallback models.

use hermes_config::ProgramSurface;
use hermes_model::provider::fallback;

use super::{Case, show};

#[test]
fn the_fallback_chain() {
    let case = Case {
        config: "
model: {provider: openrouter, default: a/b}
fallback_providers:
  - {provider: zai, model: glm-5}
  - {provider: openrouter, model: a/b}
fallback_model:
  - {provider: zai, model: glm-5}
  - {provider: deepseek, model: deepseek-chat}
  - {provider: custom, model: m, base_url: 'http://b:1/v1', api_key_env: BOX_KEY}
  - {provider: custom, model: other, base_url: 'https://c.example/v1'}
  - {provider: zai}
",
        env: &[("OPENROUTER_API_KEY", "sk-or-1"), ("GLM_API_KEY", "z-123"), ("BOX_KEY", "box-1")],
        ..Case::default()
    };
    let (targets, skipped) = fallback::chain(&case.facts(), Some(&case.target()), ProgramSurface::Cli);
    let shown: Vec<String> = targets.iter().map(show).collect();
    assert_eq!(
        shown,
        [
            "zai glm-5 https://api.z.ai/api/paas/v4 chat_completions | bearer z-123",
            "custom m http://b:1/v1 chat_completions | bearer box-1",
            "custom other https://c.example/v1 chat_completions | bearer no-key-required",
        ]
    );
    assert_eq!(skipped.iter().map(|one| one.provider.as_str()).collect::<Vec<_>>(), ["deepseek"]);
}
