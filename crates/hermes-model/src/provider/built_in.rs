//! Address and key of the providers in the registry, kind by kind.
//!
//! Each function handles the special cases of its kind. Invariant: credentials that were issued for one host are
//! not combined with the address of another.

use super::error::ResolveError;
use super::inputs::FoundKey;
use super::registry::{KIMI_PLAN, Provider, ProviderKind};
use super::resolve::TargetResolver;
use super::target::TargetParts;
use crate::client::PresentedCredential;
use crate::credential::{KeySource, anthropic, aws, codex, copilot, nous};
use crate::wire::{AwsAuth, BaseUrl, CredentialKind};

impl TargetResolver<'_> {
    pub(super) fn api_key(
        &self,
        provider: &'static Provider,
        parts: &mut TargetParts,
    ) -> Result<(), ResolveError> {
        let key =
            self.choice.key().or_else(|| self.inputs.key_in(provider.keys)).or_else(|| self.configured_key());
        parts.base_url = self.base_of(provider);
        let plan = key.as_ref().is_some_and(|found| found.key.expose().starts_with(KIMI_PLAN.0));
        if provider.id == "kimi-coding" && plan && parts.base_url == provider.base_url {
            KIMI_PLAN.1.clone_into(&mut parts.base_url);
        }
        if provider.id == "gemini" && parts.base_url.ends_with("/v1beta") {
            // Google's own API is at the bare URL; the chat wire is one level below.
            parts.base_url.push_str("/openai");
        }
        if key.is_none() && !self.inputs.has_pool(provider.id) {
            return Err(ResolveError::no_key(provider.id, provider.keys.first().copied()));
        }
        self.set_key(parts, key, provider.id);
        Ok(())
    }

    pub(super) fn anthropic(
        &self,
        provider: &'static Provider,
        parts: &mut TargetParts,
    ) -> Result<(), ResolveError> {
        parts.base_url = self.base_of(provider);
        let base = BaseUrl::parse(&parts.base_url);
        let explicit =
            self.choice.key().or_else(|| self.configured_key().filter(|_| !base.is_under("anthropic.com")));
        if let Some(found) = explicit {
            self.set_key(parts, Some(found), "");
        } else if base.path().ends_with("/anthropic") && !base.is_under("anthropic.com") {
            // This endpoint is not Anthropic's, so Anthropic's credentials must not be sent to it.
            return Err(ResolveError::Unusable {
                provider: provider.id.to_owned(),
                why: format!(
                    "{} is not run by Anthropic and needs a key of its own: set model.api_key.",
                    base.host()
                ),
            });
        } else {
            match anthropic::find(&self.inputs.env) {
                Some(anthropic::AnthropicCredentialSource::Key { key, variable }) => {
                    let found = FoundKey { key, origin: variable.to_owned() };
                    self.set_key(parts, Some(found), "anthropic");
                }
                Some(anthropic::AnthropicCredentialSource::File(path)) => {
                    parts.key_origin = Some(path.display().to_string());
                    parts.key_source = KeySource::AnthropicFile(path);
                }
                None if self.inputs.has_pool("anthropic") => self.set_key(parts, None, "anthropic"),
                None => match self.configured_key() {
                    Some(found) => self.set_key(parts, Some(found), ""),
                    None => return Err(ResolveError::no_key(provider.id, Some("ANTHROPIC_API_KEY"))),
                },
            }
        }
        let token = match &parts.key_source {
            KeySource::Fixed(PresentedCredential::Bearer(key)) => !anthropic::is_api_key(key),
            KeySource::AnthropicFile(_) => true,
            _ => false,
        };
        if token && base.is_under("anthropic.com") {
            parts.credential = CredentialKind::OAuth;
        }
        Ok(())
    }

    pub(super) fn oauth(
        &self,
        provider: &'static Provider,
        parts: &mut TargetParts,
    ) -> Result<(), ResolveError> {
        parts.base_url = self.base_of(provider);
        if let Some(found) = self.choice.key() {
            self.set_key(parts, Some(found), "");
            return Ok(());
        }
        let state = self.inputs.auth.provider(provider.id);
        let signed_in = match provider.id {
            "nous" => state.is_some_and(nous::is_signed_in),
            _ => state.is_some_and(codex::is_signed_in) || codex::can_import(&self.inputs.env),
        };
        parts.credential = CredentialKind::OAuth;
        if signed_in {
            if provider.id == "nous" {
                // The inference URL that the portal named wins over the environment.
                if let Some(stored) = state.and_then(nous::stored_inference_url)
                    && self.choice.base_url.is_none()
                {
                    parts.base_url = stored;
                }
                parts.key_source = KeySource::Nous;
            } else {
                parts.key_source = KeySource::Codex;
            }
            parts.key_origin = Some("auth.json".to_owned());
            return Ok(());
        }
        let key = self.inputs.key_in(provider.keys);
        if key.is_none() && !self.inputs.has_pool(provider.id) {
            return Err(ResolveError::NotSignedIn { provider: provider.id.to_owned(), hint: String::new() });
        }
        self.set_key(parts, key, provider.id);
        Ok(())
    }

    pub(super) fn copilot(
        &self,
        provider: &'static Provider,
        parts: &mut TargetParts,
    ) -> Result<(), ResolveError> {
        parts.base_url = self.base_of(provider);
        let found = match self.choice.key() {
            Some(found) => Ok(found),
            None => copilot::find(&self.inputs.env, self.inputs.auth.provider("copilot"))
                .map(|(key, origin)| FoundKey { key, origin }),
        };
        match found {
            Ok(found) => self.set_key(parts, Some(found), ""),
            Err(_) if copilot::has_gh(&self.inputs.env) => {
                parts.key_origin = Some("gh auth token".to_owned());
                parts.key_source = KeySource::Gh;
            }
            Err(copilot::CopilotTokenError::Nothing) => {
                return Err(ResolveError::no_key(provider.id, Some("COPILOT_GITHUB_TOKEN")));
            }
            Err(copilot::CopilotTokenError::ClassicToken { variable }) => {
                return Err(ResolveError::Unusable {
                    provider: provider.id.to_owned(),
                    why: format!(
                        "Copilot does not accept classic GitHub tokens (ghp_…), and {variable} holds one. \
                         Use a fine-grained token with the Copilot permission, or run `hermes model`."
                    ),
                });
            }
        }
        Ok(())
    }

    pub(super) fn aws(&self, parts: &mut TargetParts) {
        let source = aws::AwsCredentialSource::find(&self.inputs.config, &self.inputs.env);
        let region = source.region().to_owned();
        parts.base_url = self
            .choice
            .base_url
            .clone()
            .or_else(|| self.configured_base())
            .or_else(|| self.inputs.address_in("BEDROCK_BASE_URL"))
            .unwrap_or_else(|| format!("https://bedrock-runtime.{region}.amazonaws.com"));
        parts.aws = if source.is_bearer() { AwsAuth::Bearer } else { AwsAuth::Signed };
        parts.key_origin = Some(source.origin());
        parts.key_source = KeySource::Aws(source);
    }

    /// Returns the base URL from the flag, the file, the variable, or the provider's default.
    fn base_of(&self, provider: &Provider) -> String {
        let chosen = self.choice.base_url.clone().or_else(|| self.configured_base());
        chosen.or_else(|| self.base_in_environment(provider)).unwrap_or_else(|| provider.base_url.to_owned())
    }

    /// Returns the base URL in the provider's variable; Nous has an older variable, too.
    fn base_in_environment(&self, provider: &Provider) -> Option<String> {
        let older = || self.inputs.address_in("NOUS_BASE_URL").filter(|_| provider.id == "nous");
        self.inputs.address_in(provider.base_variable).or_else(older)
    }

    /// Tells whether the provider's key may be sent to a URL.
    pub(super) fn is_key_address(&self, provider: &Provider, url: &str) -> bool {
        let host = |text: &str| BaseUrl::parse(text).host().to_owned();
        let known =
            [Some(provider.base_url.to_owned()), self.configured_base(), self.base_in_environment(provider)];
        let at_aws = provider.kind == ProviderKind::Aws && BaseUrl::parse(url).is_under("amazonaws.com");
        at_aws || known.into_iter().flatten().any(|own| host(&own) == host(url))
    }
}
