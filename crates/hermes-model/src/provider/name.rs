//! Model strings as users type them: `model`, `provider:model`, `custom:name:model`.

use hermes_config::settings::CustomProvider;
use hermes_config::{canonical_provider, custom_slug};

use super::inputs::ProviderInputs;
use super::registry::Provider;

/// The provider and model that a typed string names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReference {
    /// The provider as typed; absent when the string names only a model.
    pub provider: Option<String>,
    pub model: String,
}

/// Splits at the first colon only where the left side is a provider and the right side is not the tag of a local
/// model. `custom:a:b` names the user's own endpoint `a` if there is one, and else the model `a:b` of the
/// configured endpoint.
pub fn parse(text: &str, facts: &ProviderInputs) -> ModelReference {
    let own = || CustomProvider::all(&facts.config).into_iter().map(|entry| custom_slug(&entry.name));
    split(text, |name| own().any(|slug| slug == custom_slug(name)))
}

fn split(text: &str, is_own: impl Fn(&str) -> bool) -> ModelReference {
    let text = text.trim();
    let whole = || ModelReference { provider: None, model: text.to_owned() };
    let Some((left, right)) = text.split_once(':') else { return whole() };
    let (left, right) = (left.trim(), right.trim());
    if right.is_empty() || left.contains('/') {
        return whole();
    }
    if left.eq_ignore_ascii_case("custom")
        && let Some((name, model)) = right.split_once(':')
        && !name.trim().is_empty()
        && !model.trim().is_empty()
        && (is_own(name.trim()) || !is_tag(model.trim()))
    {
        return ModelReference {
            provider: Some(format!("custom:{}", name.trim())),
            model: model.trim().to_owned(),
        };
    }
    match canonical_provider(left) {
        Ok("auto") | Err(_) => whole(),
        Ok(_) if is_tag(right) => whole(),
        Ok(_) => ModelReference { provider: Some(left.to_lowercase()), model: right.to_owned() },
    }
}

/// Tells whether a text is the tag of an Ollama model: a size, a quantisation, a variant.
fn is_tag(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "latest", "instruct", "chat", "text", "base", "code", "vision", "cloud", "mini", "small", "medium",
        "large",
    ];
    let text = text.to_ascii_lowercase();
    let first = text.split(['-', '_']).next().unwrap_or_default();
    let sized = |unit: char| {
        first.strip_suffix(unit).is_some_and(|number| {
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'x'))
        })
    };
    let quantised = |mark: &str| {
        first.strip_prefix(mark).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    WORDS.contains(&first)
        || sized('b')
        || sized('m')
        || ["q", "iq", "fp", "bf", "f", "int", "v"].into_iter().any(quantised)
}

/// Returns the provider's own name for the model: a direct provider gets no vendor prefix.
pub(super) fn for_provider(provider: &Provider, model: &str) -> String {
    let model = model.trim();
    let own = match model.split_once('/') {
        Some((vendor, rest))
            if !provider.vendor.is_empty() && vendor.eq_ignore_ascii_case(provider.vendor) =>
        {
            rest
        }
        _ => model,
    };
    if provider.id == "anthropic" && own.to_ascii_lowercase().starts_with("claude-") {
        return own.replace('.', "-");
    }
    own.to_owned()
}

/// Tells whether a text is one of the spellings of a provider.
pub fn is_provider(text: &str) -> bool {
    canonical_provider(text).is_ok_and(|id| id != "auto")
}

#[cfg(test)]
mod tests {
    use super::super::registry::find;
    use super::*;

    #[test]
    fn model_strings() {
        #[track_caller]
        fn check(text: &str, provider: Option<&str>, model: &str) {
            let wanted = ModelReference { provider: provider.map(str::to_owned), model: model.to_owned() };
            assert_eq!(split(text, |name| name == "my box"), wanted, "{text}");
        }
        check("gpt-5.4", None, "gpt-5.4");
        check("anthropic:claude-opus-4-6", Some("anthropic"), "claude-opus-4-6");
        check(" Kimi : kimi-k2.5 ", Some("kimi"), "kimi-k2.5");
        check(
            "openrouter:anthropic/claude-3.5-sonnet:beta",
            Some("openrouter"),
            "anthropic/claude-3.5-sonnet:beta",
        );
        check("anthropic/claude-3.5-sonnet:beta", None, "anthropic/claude-3.5-sonnet:beta");
        check("nvidia/nemotron:free", None, "nvidia/nemotron:free");
        check("custom:my box:qwen3:27b", Some("custom:my box"), "qwen3:27b");
        check("custom:my box:8b", Some("custom:my box"), "8b");
        check("custom:qwen3:8b", Some("custom"), "qwen3:8b");
        check("custom:llama3.2:latest", Some("custom"), "llama3.2:latest");
        check("custom:hf.co/x/y:Q4_K_M", Some("custom"), "hf.co/x/y:Q4_K_M");
        check("custom:nowhere:model", Some("custom:nowhere"), "model");
        check("custom:llama3", Some("custom"), "llama3");
        check("qwen3.5:27b", None, "qwen3.5:27b");
        // A known prefix in front of a tag is a model of a local server.
        check("qwen:7b", None, "qwen:7b");
        check("deepseek:latest", None, "deepseek:latest");
        check("qwen:q4_K_M", None, "qwen:q4_K_M");
        check("qwen:8x7b-instruct", None, "qwen:8x7b-instruct");
        check("glm:fp16", None, "glm:fp16");
        check("deepseek:deepseek-chat", Some("deepseek"), "deepseek-chat");
        check("auto:x", None, "auto:x");
        check("zai:", None, "zai:");
        check("mystery:model", None, "mystery:model");
    }

    #[test]
    fn a_direct_provider_hears_its_own_names() {
        #[track_caller]
        fn check(id: &str, model: &str, expected: &str) {
            assert_eq!(for_provider(find(id).unwrap(), model), expected);
        }
        check("anthropic", "anthropic/claude-opus-4.6", "claude-opus-4-6");
        check("anthropic", "claude-opus-4.6", "claude-opus-4-6");
        check("openai", "openai/gpt-5.4", "gpt-5.4");
        check("openrouter", "anthropic/claude-opus-4.6", "anthropic/claude-opus-4.6");
        check("copilot", "claude-opus-4.6", "claude-opus-4.6");
        check("huggingface", "Qwen/Qwen3.5", "Qwen/Qwen3.5");
    }
}
