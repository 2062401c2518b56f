//! The options of a route that the provider layer knows and a request does not contain.
//!
//! Data only. The same options shape the body, the headers, the URL and the decoding of the answer, so that one
//! value is used for a call from start to end; remedies add to `dropped` and build the request again.

use hermes_types::ReasoningEffort;

use super::base_url::BaseUrl;
use super::mode::{ApiMode, AwsAuth, is_codex_backend};
use crate::caching::CachePolicy;

/// The operator of an endpoint, where it needs special treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointVendor {
    OpenRouter,
    Nous,
    AiGateway,
    OpenAi,
    Codex,
    Copilot,
    GithubModels,
    Anthropic,
    Dashscope,
    Bedrock,
    #[default]
    Other,
}

impl EndpointVendor {
    /// Determines the vendor by the host; by the provider id only for operators whose address users change.
    pub fn of(provider: &str, base: &BaseUrl) -> Self {
        match provider.trim().to_ascii_lowercase().as_str() {
            "nous" => return Self::Nous,
            "ai-gateway" => return Self::AiGateway,
            "copilot" => return Self::Copilot,
            "openai-codex" => return Self::Codex,
            "bedrock" => return Self::Bedrock,
            _ => {}
        }
        let hosts = [
            ("openrouter.ai", Self::OpenRouter),
            ("nousresearch.com", Self::Nous),
            ("ai-gateway.vercel.sh", Self::AiGateway),
            ("githubcopilot.com", Self::Copilot),
            ("models.github.ai", Self::GithubModels),
            ("models.inference.ai.azure.com", Self::GithubModels),
            ("aliyuncs.com", Self::Dashscope),
        ];
        if let Some((_, vendor)) = hosts.into_iter().find(|(domain, _)| base.is_under(domain)) {
            return vendor;
        }
        match base.host() {
            "api.openai.com" => Self::OpenAi,
            "api.anthropic.com" => Self::Anthropic,
            host if host.starts_with("bedrock-runtime.") && base.is_under("amazonaws.com") => Self::Bedrock,
            _ if is_codex_backend(base) => Self::Codex,
            _ => Self::Other,
        }
    }
}

/// Tells whether the answer is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamingMode {
    Streamed,
    Plain,
}

/// Tells whether the model may or must call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    #[default]
    Auto,
    Required,
    None,
    Named(String),
}

/// `provider_routing`: the upstreams that OpenRouter may use. Empty settings are not sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamRouting {
    pub only: Vec<String>,
    pub ignore: Vec<String>,
    pub order: Vec<String>,
    pub sort: Option<String>,
    pub parameters: ParameterSupport,
    pub data_collection: Option<String>,
}

/// Tells whether an upstream may be used that ignores some of the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParameterSupport {
    #[default]
    Any,
    Required,
}

/// The setting `bedrock.guardrail`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guardrail {
    pub identifier: String,
    pub version: String,
    pub stream_processing_mode: Option<String>,
    pub trace: Option<String>,
}

/// The form of the credential, as far as other headers depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CredentialKind {
    #[default]
    ApiKey,
    OAuth,
}

/// A part of a request that an endpoint refused and that is left out, or renamed, from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestField {
    /// `max_tokens` becomes `max_completion_tokens`.
    MaxTokensName,
    MaxTokens,
    Temperature,
    /// The effort setting, whatever its name on the wire.
    Reasoning,
    /// Earlier reasoning that is sent back: details, thinking blocks, encrypted items.
    ReasoningReplay,
    /// The answer is requested in one piece from then on.
    Streaming,
    StreamOptions,
    ParallelToolCalls,
    CacheControl,
    ToolChoice,
    Tools,
    /// The pictures in messages.
    Pictures,
    ServiceTier,
}

/// The settings besides the request that shape its body.
#[derive(Debug, Clone)]
pub struct WireOptions {
    pub mode: ApiMode,
    /// The provider's id in the registry.
    pub provider: String,
    pub base: BaseUrl,
    pub vendor: EndpointVendor,
    pub credential: CredentialKind,
    pub aws: AwsAuth,
    pub cache: CachePolicy,
    pub routing: UpstreamRouting,
    /// Tags that are sent to Nous.
    pub tags: Vec<String>,
    /// The levels that a catalogue lists for the model; absent when it lists none.
    pub effort_levels: Option<Vec<ReasoningEffort>>,
    /// The configured context window; an output limit must stay below it.
    pub context_length: Option<u64>,
    /// The window that a local Ollama server is asked to use.
    pub ollama_num_ctx: Option<u64>,
    pub tool_choice: ToolChoice,
    pub guardrail: Option<Guardrail>,
    /// The tier that is asked for, where the wire has tiers.
    pub service_tier: Option<String>,
    pub dropped: Vec<RequestField>,
    /// Headers that are sent last, so that they win over ours.
    pub extra_headers: Vec<(String, String)>,
}

impl WireOptions {
    pub fn new(mode: ApiMode, provider: &str, base_url: &str) -> Self {
        let base = BaseUrl::parse(base_url);
        Self {
            mode,
            provider: provider.to_owned(),
            vendor: EndpointVendor::of(provider, &base),
            base,
            credential: CredentialKind::default(),
            aws: AwsAuth::default(),
            cache: CachePolicy::Off,
            routing: UpstreamRouting::default(),
            tags: Vec::new(),
            effort_levels: None,
            context_length: None,
            ollama_num_ctx: None,
            tool_choice: ToolChoice::Auto,
            guardrail: None,
            service_tier: None,
            dropped: Vec::new(),
            extra_headers: Vec::new(),
        }
    }

    /// Tells whether Messages bodies are sent in AWS's own envelope.
    pub fn is_bedrock_messages(&self) -> bool {
        self.mode == ApiMode::Anthropic && self.vendor == EndpointVendor::Bedrock
    }

    /// Returns the tier to ask for, unless the endpoint refused to be asked.
    pub(crate) fn tier(&self) -> Option<&str> {
        self.service_tier.as_deref().filter(|_| self.sends(RequestField::ServiceTier))
    }

    pub(crate) fn sends(&self, field: RequestField) -> bool {
        !self.dropped.contains(&field)
    }

    /// Returns the family of endpoints that can check a thinking block's signature. Claude's are valid wherever
    /// Claude runs; others only at their own endpoint.
    pub(crate) fn signature_family(&self) -> &str {
        match self.vendor {
            EndpointVendor::Anthropic | EndpointVendor::Bedrock | EndpointVendor::Copilot => CLAUDE_FAMILY,
            _ => self.base.host(),
        }
    }
}

pub(crate) const CLAUDE_FAMILY: &str = "claude";
