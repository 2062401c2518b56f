//! Which models read pictures, by their names.
//!
//! A model that is not recognized gets a description instead, which every model can read. One that is recognized and
//! refuses pictures nevertheless gets the request without them.

/// The beginnings of the names of models that read pictures, without the vendor.
const READERS: [&str; 33] = [
    "claude-3",
    "claude-4",
    "claude-opus",
    "claude-sonnet",
    "claude-haiku",
    "claude-fable",
    "gpt-4o",
    "gpt-4.1",
    "gpt-4-turbo",
    "gpt-4.5",
    "gpt-5",
    "chatgpt-4o",
    "o1",
    "o3",
    "o4",
    "gemini",
    "gemma-3",
    "gemma3",
    "grok-4",
    "grok-2-vision",
    "llama-4",
    "llama4",
    "llama-3.2-11b-vision",
    "llama-3.2-90b-vision",
    "llama3.2-vision",
    "pixtral",
    "mistral-small-3",
    "mistral-medium-3",
    "mistral-large-3",
    "kimi-k2.5",
    "nova-lite",
    "nova-pro",
    "llava",
];
/// Parts of names that say so.
const MARKS: [&str; 5] = ["-vl", "vision", "multimodal", "glm-4.5v", "glm-4.6v"];
/// Beginnings of names of the same families that read text only.
const BLIND: [&str; 4] = ["o1-mini", "o1-preview", "o3-mini", "claude-3-5-haiku"];

/// Tells whether a model is known to read pictures.
pub fn reads_pictures(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    // Bedrock's names begin with a region and a vendor.
    let name =
        name.rsplit_once("anthropic.").or_else(|| name.rsplit_once("amazon.")).map_or(name, |(_, rest)| rest);
    if BLIND.iter().any(|start| name.starts_with(start)) {
        return false;
    }
    READERS.iter().any(|start| name.starts_with(start)) || MARKS.iter().any(|mark| name.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_known_by_name() {
        for model in [
            "anthropic/claude-opus-4.6",
            "claude-sonnet-4-5-20250929",
            "gpt-5.2-codex",
            "google/gemini-3-flash-preview",
            "qwen/qwen2.5-vl-72b-instruct",
            "us.anthropic.claude-sonnet-4-20250514-v1:0",
            "Gemma3:12b",
        ] {
            assert!(reads_pictures(model), "{model}");
        }
        for model in ["deepseek/deepseek-v3.2", "o3-mini", "gpt-3.5-turbo", "local-model", "", "qwen3-coder"]
        {
            assert!(!reads_pictures(model), "{model}");
        }
    }
}
