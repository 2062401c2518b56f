//! How hard a model is asked to think, in the terms of each wire.

use hermes_types::Effort;

use super::options::Vendor;

/// What a model gets when nothing is configured.
pub(crate) const DEFAULT: Effort = Effort::Medium;

/// Models on OpenRouter that take the `reasoning` field.
const OPENROUTER_PREFIXES: [&str; 6] =
    ["deepseek/", "anthropic/", "openai/", "x-ai/", "google/gemini-2", "qwen/qwen3"];

/// Whether a chat endpoint takes `reasoning`; strict servers refuse a field they do not know.
pub fn supports_chat_reasoning(vendor: Vendor, model: &str, levels: Option<&[Effort]>) -> bool {
    match vendor {
        Vendor::Nous | Vendor::AiGateway => true,
        Vendor::Copilot | Vendor::GithubModels => levels.is_some_and(|levels| !levels.is_empty()),
        Vendor::OpenRouter => {
            let model = model.to_ascii_lowercase();
            OPENROUTER_PREFIXES.iter().any(|prefix| model.starts_with(prefix))
        }
        _ => false,
    }
}

/// The nearest level that a catalogue lists: `xhigh` becomes `high`, anything else unknown becomes `medium`.
pub fn clamp(effort: Effort, levels: Option<&[Effort]>) -> Effort {
    let Some(levels) = levels.filter(|levels| !levels.is_empty()) else {
        return effort;
    };
    if levels.contains(&effort) {
        return effort;
    }
    let wanted = if effort == Effort::Xhigh { Effort::High } else { Effort::Medium };
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
        check(Vendor::Nous, "any", true);
        check(Vendor::OpenRouter, "anthropic/claude-sonnet-4", true);
        check(Vendor::OpenRouter, "google/gemini-3-flash", false);
        check(Vendor::Other, "openai/gpt-5", false);
        check(Vendor::Copilot, "gpt-5", false);
        assert!(supports_chat_reasoning(Vendor::Copilot, "gpt-5", Some(&[Effort::Low])));
    }

    #[test]
    fn clamping() {
        let levels = [Effort::Low, Effort::Medium, Effort::High];
        assert_eq!(clamp(Effort::Xhigh, Some(&levels)), Effort::High);
        assert_eq!(clamp(Effort::Minimal, Some(&levels)), Effort::Medium);
        assert_eq!(clamp(Effort::Minimal, None), Effort::Minimal);
        assert_eq!(clamp(Effort::Minimal, Some(&[Effort::High])), Effort::High);
    }
}
