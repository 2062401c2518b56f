//! The four wires: how a request is written and an answer read.
//!
//! Pure: requests go in as types and come out as a JSON tree, answers go in as chunks of bytes and come out as
//! deltas and one assembled message. The client opens connections, waits and retries.

mod base_url;
mod claude;
mod decode;
mod details;
mod effort;
mod endpoint;
pub(crate) mod fields;
mod mode;
mod node;
mod options;
mod remedy;
mod request;

pub use base_url::BaseUrl;
pub use claude::output_limit as claude_output_limit;
pub use decode::{AnswerDecoder, DecodedAnswer, PartialAnswer, StreamEnding, decode_plain};
pub use effort::{clamp as clamp_effort, supports_chat_reasoning};
pub use endpoint::{headers, path_for, url_for};
pub use mode::{ApiMode, AwsAuth, ModelRoute, is_bedrock_claude};
pub use node::{JsonNode, JsonObject};
pub use options::{
    CredentialKind, EndpointVendor, Guardrail, ParameterSupport, RequestField, StreamingMode, ToolChoice,
    UpstreamRouting, WireOptions,
};
pub use remedy::{
    FailureCause, FailureContext, FailureDiagnosis, FallbackAvailability, PoolAvailability, ProviderFailure,
    Remedy, TokenRefresh, backoff, classify, invalid_response_backoff, is_connection_loss, limit_in_text,
};
pub use request::build_body;
