//! The reasoning effort, in the terms of each wire.

use hermes_types::ReasoningEffort;

use super::options::EndpointVendor;

/// The effort when nothing is configured.
pub(crate) const DEFAULT: ReasoningEffort = ReasoningEffort::Medium;

/// The models on OpenRouter that accept the `reasoning` field.
const OPENROUTER_PREFIXES: [&str; 6] =
    ["deepseek/", "anthropic/", "openai/", "x-ai/", "google/gemini-2", "qwen/qwen3"];

/// Tells whether a chat endpoint accepts `reasoning`; strict servers refuse unknown fields.
pub fn supports_chat_reasoning(
    vendor: EndpointVendor,
    model: &str,
    levels: Option<&[ReasoningEffort]>,
) -> bool {
    match vendor {
        EndpointVendor::Nous | EndpointVendor::AiGateway => true,
        EndpointVendor::Copilot | EndpointVendor::GithubModels => {
            levels.is_some_and(|levels| !levels.is_empty())
        }
        EndpointVendor::OpenRouter => {
            let model = model.to_ascii_lowercase();
            OPENROUTER_PREFIXES.iter().any(|prefix| model.starts_with(prefix))
        }
        _ => false,
    }
}

/// Returns the nearest level that a catalogue lists: `xhigh` becomes `high`, any other unlisted one becomes
/// `medium`.
pub fn clamp(effort: ReasoningEffort, levels: Option<&[ReasoningEffort]>) -> ReasoningEffort {
    let Some(levels) = levels.filter(|levels| !levels.is_empty()) else {
        return effort;
    };
    if levels.contains(&effort) {
        return effort;
    }
    let wanted =
        if effort == ReasoningEffort::Xhigh { ReasoningEffort::High } else { ReasoningEffort::Medium };
    if levels.contains(&wanted) { wanted } else { levels.first().copied().unwrap_or(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_endpoints_get_the_field() {
        let check = |vendor, model: &str, expected| {
            assert_eq!(supports_chat_reasoning(vendor, model, None), expected, "{vendor:?} {model}");
        };
        check(EndpointVendor::Nous, "any", true);
        check(EndpointVendor::OpenRouter, "anthropic/claude-sonnet-4", true);
        check(EndpointVendor::OpenRouter, "google/gemini-3-flash", false);
        check(EndpointVendor::Other, "openai/gpt-5", false);
        check(EndpointVendor::Copilot, "gpt-5", false);
        assert!(supports_chat_reasoning(EndpointVendor::Copilot, "gpt-5", Some(&[ReasoningEffort::Low])));
    }

    #[test]
    fn clamping() {
        let levels = [ReasoningEffort::Low, ReasoningEffort::Medium, ReasoningEffort::High];
        assert_eq!(clamp(ReasoningEffort::Xhigh, Some(&levels)), ReasoningEffort::High);
        assert_eq!(clamp(ReasoningEffort::Minimal, Some(&levels)), ReasoningEffort::Medium);
        assert_eq!(clamp(ReasoningEffort::Minimal, None), ReasoningEffort::Minimal);
        assert_eq!(clamp(ReasoningEffort::Minimal, Some(&[ReasoningEffort::High])), ReasoningEffort::High);
    }
}
