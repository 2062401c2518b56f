//! The provider, address, model and key that a configuration resolves to.

mod auxiliary;
mod fallback;
mod resolution;
mod switch;

use std::path::Path;

use hermes_config::{Config, Env, ProgramSurface};
use hermes_model::client::PresentedCredential;
use hermes_model::credential::KeySource;
use hermes_model::provider::{
    LearntWindows, ModelFactsFile, ModelTarget, ProviderChoice, ProviderInputs, ResolvedModel, resolve,
};
use hermes_types::Secret;
use serde_json::{Value, json};

/// One case: the content of files and environment, and the choice.
#[derive(Default)]
struct Case {
    config: &'static str,
    env: &'static [(&'static str, &'static str)],
    auth: Value,
    learnt: &'static str,
    provider: Option<&'static str>,
    model: Option<&'static str>,
    base_url: Option<&'static str>,
    api_key: Option<&'static str>,
}

impl Case {
    fn facts(&self) -> ProviderInputs {
        // A home folder that does not exist, so that the files of this machine do not count.
        let env = Env::from_pairs([("HOME", "/nonexistent")].into_iter().chain(self.env.iter().copied()));
        let config = Config::from_text(Path::new("config.yaml"), self.config, &env);
        let mut auth = hermes_config::auth::AuthState::default();
        auth.document_mut().extend(self.auth.as_object().cloned().unwrap_or_default());
        ProviderInputs {
            config,
            env,
            auth,
            learnt_windows: LearntWindows::parse(self.learnt),
            model_facts: ModelFactsFile::default(),
        }
    }

    fn choice(&self) -> ProviderChoice {
        let own = |text: Option<&str>| text.map(str::to_owned);
        ProviderChoice {
            provider: own(self.provider),
            model: own(self.model),
            base_url: own(self.base_url),
            api_key: self.api_key.map(Secret::new),
        }
    }

    fn resolve(&self) -> Result<ResolvedModel, String> {
        resolve(&self.facts(), &self.choice(), ProgramSurface::Cli).map_err(|error| error.to_string())
    }

    fn shown(&self) -> String {
        match self.resolve() {
            Ok(ResolvedModel::Offline) => "offline".to_owned(),
            Ok(ResolvedModel::Target(target)) => show(&target),
            Err(error) => format!("error: {error}"),
        }
    }

    fn target(&self) -> ModelTarget {
        self.resolve().unwrap().target().unwrap()
    }
}

fn show(target: &ModelTarget) -> String {
    let key = match &target.key_source {
        KeySource::Fixed(PresentedCredential::Bearer(key)) => format!("bearer {}", key.expose()),
        KeySource::Fixed(PresentedCredential::ApiKeyHeader(key)) => format!("x-api-key {}", key.expose()),
        KeySource::Fixed(PresentedCredential::Anonymous) => "nothing".to_owned(),
        KeySource::Fixed(PresentedCredential::Aws(_)) => "aws".to_owned(),
        KeySource::Pool(pool) => format!("pool {}", pool.name),
        KeySource::Nous => "nous".to_owned(),
        KeySource::Codex => "codex".to_owned(),
        KeySource::AnthropicFile(_) => "file".to_owned(),
        KeySource::Aws(source) => format!("aws {}", source.origin()),
        KeySource::Gh => "gh".to_owned(),
    };
    let mode = target.wire.mode.as_str();
    format!("{} {} {} {mode} | {key}", target.provider(), target.model, target.base_url())
}

#[track_caller]
fn check(case: &Case, expected: &str) {
    assert_eq!(case.shown(), expected);
}

fn codex_login() -> Value {
    json!({"providers": {"openai-codex": {"tokens": {"access_token": "a", "refresh_token": "r"}}}})
}

fn nous_login(extra: &Value) -> Value {
    let mut state = json!({"access_token": "at", "refresh_token": "rt"});
    state.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
    json!({"active_provider": "nous", "providers": {"nous": state}})
}
