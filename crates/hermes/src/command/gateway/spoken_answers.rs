//! Answers of chats that are spoken, too: `/voice`.
//!
//! The mode of each chat is in `gateway_voice_mode.json`, where existing installations look for it. Invariant: an answer whose
//! recording fails is sent as text.

use std::sync::Arc;

use hermes_config::settings::{SpeechProvider, SpeechSettings};
use hermes_config::{Config, ProgramSurface, write};
use hermes_gateway::AnswerToSpeak;
use hermes_store::WaitingMessage;
use hermes_types::{Clock, Envelope};
use serde_json::{Map, Value};

use crate::context::ProgramContext;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::web;

/// Speaks answers as their chats want it.
pub(super) struct SpokenAnswers {
    pub(super) context: ProgramContext,
    pub(super) config: Config,
    pub(super) clock: Arc<dyn Clock>,
}

/// Which answers of a chat are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VoiceMode {
    Off,
    /// Answers to voice messages.
    VoiceOnly,
    All,
}

impl VoiceMode {
    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::VoiceOnly => "voice_only",
            Self::All => "all",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Off, Self::VoiceOnly, Self::All].into_iter().find(|mode| mode.name() == name)
    }
}

impl SpokenAnswers {
    /// Changes or shows the mode of a chat; returns what the user is told.
    pub(super) fn set_mode(&self, wanted: &str, from: &WaitingMessage) -> String {
        let mut modes = self.modes();
        let known = mode_of(&modes, &from.envelope);
        let mode = match wanted {
            "status" => return self.status(known),
            "" if known.is_some_and(|mode| mode != VoiceMode::Off) => VoiceMode::Off,
            "" | "on" => VoiceMode::VoiceOnly,
            "tts" => VoiceMode::All,
            "off" => VoiceMode::Off,
            other => return format!("`{other}` is none of on, off, tts, status."),
        };
        let [own, chat] = keys(&from.envelope);
        modes.remove(&own);
        modes.insert(chat, mode.name().into());
        let file = self.context.home.join("gateway_voice_mode.json");
        if let Err(error) = write::replace(&file, Value::Object(modes).to_string().as_bytes()) {
            return format!("⚠️ {error}");
        }
        let said = match mode {
            VoiceMode::Off => return "🔇 Answers here are text only.".to_owned(),
            VoiceMode::All => "🔊 Every answer here is spoken, too",
            VoiceMode::VoiceOnly => "🔊 Voice messages here are answered with speech",
        };
        match self.voice() {
            Ok(voice) => format!("{said} ({voice})."),
            Err(reason) => format!("{said}, once a voice is set up: {reason}."),
        }
    }

    fn status(&self, known: Option<VoiceMode>) -> String {
        let mode = known.map_or("off", VoiceMode::name);
        match self.voice() {
            Ok(voice) => format!("🔊 Voice: {mode} ({voice})"),
            Err(reason) => format!("🔊 Voice: {mode}; {reason}"),
        }
    }

    /// Speaks an answer; returns the lines that send the recording.
    pub(super) async fn speak(&self, answer: AnswerToSpeak<'_>) -> Option<String> {
        let is_wanted = match mode_of(&self.modes(), answer.question) {
            Some(VoiceMode::Off) => false,
            Some(VoiceMode::All) => true,
            Some(VoiceMode::VoiceOnly) => answer.answers_voice,
            // Nobody asked for it: the text goes only to a service that the user chose.
            None => answer.answers_voice && self.settings().is_chosen,
        };
        // An answer with a file has its recording already, or is about that file.
        if !is_wanted || answer.text.contains("MEDIA:") {
            return None;
        }
        let words = hermes_text::spoken_words(answer.text);
        if words.trim().is_empty() {
            return None;
        }
        let speaker = web::speaker(ProgramSurface::Gateway, &self.clock, self.from());
        match speaker.speak(&words, None, answer.cancel).await {
            Ok(file) => {
                let mark = if file.is_voice_message { "[[audio_as_voice]]\n" } else { "" };
                Some(format!("{mark}MEDIA:{}", file.path.display()))
            }
            Err(reason) => {
                tracing::warn!(reason, "an answer was not spoken");
                None
            }
        }
    }

    /// Names the voice, or says what is missing.
    fn voice(&self) -> Result<&'static str, String> {
        let speaker = web::speaker(ProgramSurface::Gateway, &self.clock, self.from());
        speaker.provider().map(SpeechProvider::name)
    }

    fn settings(&self) -> SpeechSettings {
        SpeechSettings::resolve(&self.config, &self.context.env)
    }

    fn from(&self) -> ProgramConfig<'_> {
        ProgramConfig { context: &self.context, config: &self.config }
    }

    fn modes(&self) -> Map<String, Value> {
        let file = self.context.home.join("gateway_voice_mode.json");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

/// Returns the keys of a chat in the file; newer installations add the platform.
fn keys(envelope: &Envelope) -> [String; 2] {
    let chat = envelope.place.chat_id.clone();
    [format!("{}:{chat}", envelope.platform), chat]
}

fn mode_of(modes: &Map<String, Value>, envelope: &Envelope) -> Option<VoiceMode> {
    keys(envelope).iter().find_map(|key| VoiceMode::parse(modes.get(key)?.as_str()?))
}
