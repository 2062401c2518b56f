//! The URL of a request, and the headers that do not carry credentials.

use std::fmt::Write as _;

use hermes_types::{ContentPart, MessageContent, ModelRequest};

use super::base_url::BaseUrl;
use super::claude::is_claude;
use super::mode::ApiMode;
use super::options::{CredentialKind, EndpointVendor, StreamingMode, WireOptions};

const FINE_GRAINED: &str = "fine-grained-tool-streaming-2025-05-14";
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";
const OAUTH: &str = "oauth-2025-04-20";

/// Returns the path appended to a base URL on a wire whose path does not depend on the model.
///
/// A base that already ends with the path, or with its `/v1`, does not get it twice.
pub fn path_for(mode: ApiMode, base: &BaseUrl) -> &'static str {
    let ends = |tail: &str| base.path().ends_with(tail);
    match mode {
        ApiMode::Chat if ends("/chat/completions") => "",
        ApiMode::Chat => "/chat/completions",
        ApiMode::Responses if ends("/responses") => "",
        ApiMode::Responses => "/responses",
        ApiMode::Anthropic if ends("/v1/messages") => "",
        ApiMode::Anthropic if ends("/v1") => "/messages",
        ApiMode::Anthropic => "/v1/messages",
        ApiMode::Converse => "",
    }
}

/// Returns the full URL of a request.
pub fn url_for(options: &WireOptions, model: &str, streaming: StreamingMode) -> String {
    let base = options.base.as_str();
    let action = match (options.mode, streaming) {
        (ApiMode::Converse, StreamingMode::Plain) => "converse",
        (ApiMode::Converse, StreamingMode::Streamed) => "converse-stream",
        (_, StreamingMode::Plain) if options.is_bedrock_messages() => "invoke",
        (_, StreamingMode::Streamed) if options.is_bedrock_messages() => "invoke-with-response-stream",
        (mode, _) => {
            let path = path_for(mode, &options.base);
            // A query, as Azure requires one, stays after the path.
            return match base.split_once('?') {
                Some((front, query)) => format!("{}{path}?{query}", front.trim_end_matches('/')),
                None => format!("{base}{path}"),
            };
        }
    };
    format!("{base}/model/{}/{action}", escape(model))
}

/// Escapes a model id; ids of AWS may contain `:` and, as ARNs, `/`.
fn escape(model: &str) -> String {
    let mut out = String::with_capacity(model.len());
    for byte in model.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Returns the headers of the wire and the vendor. The client adds credentials and the user agent; requests never
/// impersonate another program.
pub fn headers(options: &WireOptions, request: &ModelRequest) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: &str| set(&mut headers, name, value);
    match options.vendor {
        EndpointVendor::OpenRouter => {
            put("HTTP-Referer", "https://hermes-agent.nousresearch.com");
            put("X-OpenRouter-Title", "Hermes Agent");
            put("X-OpenRouter-Categories", "productivity,cli-agent");
            if is_claude(&request.model) {
                put("x-anthropic-beta", FINE_GRAINED);
            }
        }
        EndpointVendor::Copilot => {
            put("Editor-Version", concat!("HermesAgent/", env!("CARGO_PKG_VERSION")));
            put("Openai-Intent", "conversation-edits");
            put("x-initiator", "agent");
            if has_images(request) {
                put("Copilot-Vision-Request", "true");
            }
        }
        _ => {}
    }
    if options.mode == ApiMode::Anthropic && !options.is_bedrock_messages() {
        put("anthropic-version", "2023-06-01");
        let mut betas = vec![INTERLEAVED, FINE_GRAINED];
        if options.credential == CredentialKind::OAuth {
            betas.push(OAUTH);
        }
        put("anthropic-beta", &betas.join(","));
    }
    for (name, value) in &options.extra_headers {
        // Beta lists are joined; any other header of the same name is replaced.
        let so_far = headers
            .iter()
            .find(|(known, _)| {
                known.eq_ignore_ascii_case(name) && name.to_ascii_lowercase().ends_with("anthropic-beta")
            })
            .map(|(_, value)| value.clone());
        let value = match so_far {
            Some(so_far) if so_far.split(',').any(|beta| beta.trim() == value.trim()) => so_far,
            Some(so_far) => format!("{so_far},{value}"),
            None => value.clone(),
        };
        set(&mut headers, name, &value);
    }
    headers
}

fn set(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, slot)) => value.clone_into(slot),
        None => headers.push((name.to_owned(), value.to_owned())),
    }
}

fn has_images(request: &ModelRequest) -> bool {
    request.messages.iter().any(|message| match &message.content {
        MessageContent::Parts(parts) => parts.iter().any(|part| matches!(part, ContentPart::Image { .. })),
        MessageContent::Text(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mode: ApiMode, base: &str, url: &str) {
        let options = WireOptions::new(mode, "custom", base);
        assert_eq!(url_for(&options, "m", StreamingMode::Streamed), url);
    }

    #[test]
    fn v1_is_never_doubled() {
        check(
            ApiMode::Chat,
            "https://openrouter.ai/api/v1/",
            "https://openrouter.ai/api/v1/chat/completions",
        );
        check(ApiMode::Chat, "http://h/v1/chat/completions", "http://h/v1/chat/completions");
        check(ApiMode::Chat, "https://a/d/?api-version=1", "https://a/d/chat/completions?api-version=1");
        check(ApiMode::Responses, "https://api.openai.com/v1", "https://api.openai.com/v1/responses");
        check(ApiMode::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages");
        check(ApiMode::Anthropic, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages");
        check(
            ApiMode::Anthropic,
            "https://api.minimax.io/anthropic",
            "https://api.minimax.io/anthropic/v1/messages",
        );
    }

    #[test]
    fn aws_paths_carry_the_model() {
        let base = "https://bedrock-runtime.us-east-1.amazonaws.com";
        let options = WireOptions::new(ApiMode::Converse, "bedrock", base);
        assert_eq!(
            url_for(&options, "amazon.nova-pro-v1:0", StreamingMode::Streamed),
            format!("{base}/model/amazon.nova-pro-v1%3A0/converse-stream")
        );
        let options = WireOptions::new(ApiMode::Anthropic, "bedrock", base);
        assert_eq!(
            url_for(&options, "us.anthropic.claude-x", StreamingMode::Plain),
            format!("{base}/model/us.anthropic.claude-x/invoke")
        );
    }
}
