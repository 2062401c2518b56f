//! The settings for turning recordings into text.

use hermes_types::Secret;

use crate::{Config, Env, expand_tilde};

/// A way to turn a recording into text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptionProvider {
    /// A model in this process, or a command on this machine.
    Local,
    /// A command on this machine.
    LocalCommand,
    Groq,
    OpenAi,
}

/// The `stt` section, with the keys of the services.
#[derive(Debug, Clone)]
pub struct TranscriptionSettings {
    pub enabled: bool,
    /// The configured provider. Without one, the first that can be used.
    pub provider: Option<TranscriptionProvider>,
    /// The template of the local command, with `{input_path} {output_dir} {language} {model}`.
    pub command: Option<String>,
    pub language: String,
    /// The name of a model, or the path of a folder with one.
    pub local_model: String,
    pub groq_key: Option<Secret>,
    pub groq_url: String,
    pub groq_model: String,
    pub openai_key: Option<Secret>,
    pub openai_url: String,
    pub openai_model: String,
}

const GROQ_URL: &str = "https://api.groq.com/openai/v1";
const GROQ_MODEL: &str = "whisper-large-v3-turbo";
const OPENAI_URL: &str = "https://api.openai.com/v1";
const OPENAI_MODEL: &str = "whisper-1";
const OPENAI_MODELS: [&str; 3] = ["whisper-1", "gpt-4o-mini-transcribe", "gpt-4o-transcribe"];
const GROQ_MODELS: [&str; 3] = ["whisper-large-v3-turbo", "whisper-large-v3", "distil-whisper-large-v3-en"];

impl TranscriptionSettings {
    /// Resolves the settings. An unknown provider is an error that names the known ones.
    pub fn resolve(config: &Config, env: &Env) -> Result<Self, String> {
        let provider = match config.non_empty_text("stt.provider").as_deref() {
            None | Some("auto") => None,
            Some("local") => Some(TranscriptionProvider::Local),
            Some("local_command") => Some(TranscriptionProvider::LocalCommand),
            Some("groq") => Some(TranscriptionProvider::Groq),
            Some("openai") => Some(TranscriptionProvider::OpenAi),
            Some(other) => {
                return Err(format!("stt.provider: '{other}' is none of local, local_command, groq, openai"));
            }
        };
        let text = |name: &str, default: &str| env.get(name).unwrap_or(default).to_owned();
        let address = |name: &str, default: &str| text(name, default).trim_end_matches('/').to_owned();
        let own_address = env.get("STT_OPENAI_BASE_URL").is_some();
        // The key of OpenAI's own endpoint goes nowhere else.
        let general_key = env.get("OPENAI_API_KEY").filter(|_| !own_address);
        let configured =
            config.non_empty_text("stt.openai.model").or_else(|| config.non_empty_text("stt.model"));
        let openai_model = env.get("STT_OPENAI_MODEL").map(str::to_owned).or(configured);
        // A model's name that only the other service has would be refused.
        let groq_model = text("STT_GROQ_MODEL", GROQ_MODEL);
        let openai_model = openai_model.unwrap_or_else(|| OPENAI_MODEL.to_owned());
        let local_model = config.non_empty_text("stt.local.model").unwrap_or_else(|| "base".to_owned());
        let local_model = match expand_tilde(&local_model, env) {
            Ok(path) if path.is_absolute() => path.to_string_lossy().into_owned(),
            _ => local_model,
        };
        let is_cloud = |model: &str| OPENAI_MODELS.contains(&model) || GROQ_MODELS.contains(&model);
        Ok(Self {
            enabled: config.flag("stt.enabled"),
            provider,
            command: env.get("HERMES_LOCAL_STT_COMMAND").map(str::to_owned),
            language: text("HERMES_LOCAL_STT_LANGUAGE", "en"),
            local_model: if is_cloud(&local_model) { "base".to_owned() } else { local_model },
            groq_key: env.get("GROQ_API_KEY").map(Secret::new),
            groq_url: address("GROQ_BASE_URL", GROQ_URL),
            groq_model: if OPENAI_MODELS.contains(&groq_model.as_str()) {
                GROQ_MODEL.to_owned()
            } else {
                groq_model
            },
            openai_key: env.get("VOICE_TOOLS_OPENAI_KEY").or(general_key).map(Secret::new),
            openai_url: address("STT_OPENAI_BASE_URL", OPENAI_URL),
            openai_model: if GROQ_MODELS.contains(&openai_model.as_str()) {
                OPENAI_MODEL.to_owned()
            } else {
                openai_model
            },
        })
    }
}
