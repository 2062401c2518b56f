//! The settings for speaking texts.

use hermes_types::Secret;

use crate::{Config, Env};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeechProvider {
    /// The read-aloud service of Microsoft Edge, which needs no key.
    Edge,
    ElevenLabs,
    /// OpenAI, or a server with the same protocol.
    OpenAi,
    /// `espeak-ng` on this machine.
    Espeak,
    /// `piper` on this machine.
    Piper,
}

impl SpeechProvider {
    pub fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::ElevenLabs => "elevenlabs",
            Self::OpenAi => "openai",
            Self::Espeak => "espeak",
            Self::Piper => "piper",
        }
    }
}

/// The `tts` section, with the keys of the services.
#[derive(Debug, Clone)]
pub struct SpeechSettings {
    /// The provider, or why the configured one cannot be used.
    pub provider: Result<SpeechProvider, String>,
    /// Tells whether the user chose the provider, by its name or by a key for it.
    pub is_chosen: bool,
    pub edge_url: String,
    pub edge_voice: String,
    pub elevenlabs_key: Option<Secret>,
    pub elevenlabs_url: String,
    pub elevenlabs_voice: String,
    pub elevenlabs_model: String,
    pub openai_key: Option<Secret>,
    pub openai_url: String,
    pub openai_model: String,
    pub openai_voice: String,
    pub espeak_voice: Option<String>,
    pub piper_model: Option<String>,
}

const EDGE_URL: &str = "wss://speech.platform.bing.com/consumer/speech/synthesize/readaloud/edge/v1";
const ELEVENLABS_URL: &str = "https://api.elevenlabs.io";
const OPENAI_URL: &str = "https://api.openai.com/v1";

impl SpeechSettings {
    pub fn resolve(config: &Config, env: &Env) -> Self {
        let own_url = config.non_empty_text("tts.openai.base_url");
        // The key of OpenAI's own endpoint goes nowhere else.
        let general_key = env.get("OPENAI_API_KEY").filter(|_| own_url.is_none());
        let elevenlabs_key = env.get("ELEVENLABS_API_KEY").map(Secret::new);
        let openai_key = env.get("VOICE_TOOLS_OPENAI_KEY").or(general_key).map(Secret::new);
        let named = config.non_empty_text("tts.provider").filter(|_| config.is_user_set("tts.provider"));
        let provider = match named.as_deref() {
            Some("edge") => Ok(SpeechProvider::Edge),
            Some("elevenlabs") => Ok(SpeechProvider::ElevenLabs),
            Some("openai") => Ok(SpeechProvider::OpenAi),
            Some("espeak" | "espeak-ng") => Ok(SpeechProvider::Espeak),
            Some("piper") => Ok(SpeechProvider::Piper),
            // The services of the original program that are missing here do not hide one that is configured.
            _ if elevenlabs_key.is_some() => Ok(SpeechProvider::ElevenLabs),
            _ if openai_key.is_some() => Ok(SpeechProvider::OpenAi),
            Some(other) => {
                Err(format!("tts.provider: '{other}' is none of edge, elevenlabs, openai, espeak, piper"))
            }
            None => Ok(SpeechProvider::Edge),
        };
        let is_chosen = named.is_some() || provider != Ok(SpeechProvider::Edge);
        Self {
            provider,
            is_chosen,
            edge_url: EDGE_URL.to_owned(),
            edge_voice: config.text("tts.edge.voice"),
            elevenlabs_key,
            elevenlabs_url: ELEVENLABS_URL.to_owned(),
            elevenlabs_voice: config.text("tts.elevenlabs.voice_id"),
            elevenlabs_model: config.text("tts.elevenlabs.model_id"),
            openai_key,
            openai_url: own_url
                .map_or_else(|| OPENAI_URL.to_owned(), |url| url.trim_end_matches('/').to_owned()),
            openai_model: config.text("tts.openai.model"),
            openai_voice: config.text("tts.openai.voice"),
            espeak_voice: config.non_empty_text("tts.espeak.voice"),
            piper_model: config.non_empty_text("tts.piper.model"),
        }
    }
}
