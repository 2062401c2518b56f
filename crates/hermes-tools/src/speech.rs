//! `text_to_speech`: writes speech to a file, by a service or by a program on this machine.
//!
//! A file appears when it is complete. Where ffmpeg is installed, formats that no chat shows as a voice message become
//! Opus.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_config::settings::{SpeechProvider, SpeechSettings};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_net::{HeaderName, HttpRequest};
use hermes_text::head;
use hermes_types::{
    BoxFuture, Cancel, CivilTime, Clock, Deadline, OutcomeStatus, Provenance, ResultAuthor, Secret,
    Timestamp, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec, ToolUser,
};
use serde_json::{Value, json};

use crate::argument::{missing, spec, text};
use crate::web::LazyHttpClient;

/// The longest text that is spoken, in characters.
const LONGEST_TEXT: usize = 4_000;
const SERVICE_TIMEOUT: Duration = Duration::from_mins(1);
const PROGRAM_TIMEOUT: Duration = Duration::from_mins(2);
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);
const LARGEST: usize = 64 * 1024 * 1024;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "text_to_speech",
    toolset: "tts",
    summary: "Speaks a text into a file",
    condition: "a voice is configured",
    icon: "🔊",
    verb: "speak",
    preview_arguments: &["text"],
    result_author: ResultAuthor::Tool,
    withheld_from: &[ToolUser::ApiClient, ToolUser::Editor],
    ..ToolDescriptor::unknown("")
};

/// Speaks texts.
#[derive(Debug, Clone)]
pub struct Speaker {
    pub settings: SpeechSettings,
    pub http: LazyHttpClient,
    pub programs: ProgramRunner,
    pub clock: Arc<dyn Clock>,
    pub local_time: fn(Timestamp) -> CivilTime,
    /// The folder of the files.
    pub folder: PathBuf,
}

/// A file with speech.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenFile {
    pub path: PathBuf,
    /// Tells whether chats can show it as a voice message.
    pub is_voice_message: bool,
}

impl Speaker {
    /// Returns the provider, or what to configure.
    pub fn provider(&self) -> Result<SpeechProvider, String> {
        let settings = &self.settings;
        match settings.provider.clone()? {
            SpeechProvider::ElevenLabs if settings.elevenlabs_key.is_none() => {
                Err("ELEVENLABS_API_KEY is not set".to_owned())
            }
            SpeechProvider::OpenAi if settings.openai_key.is_none() => {
                Err("VOICE_TOOLS_OPENAI_KEY is not set".to_owned())
            }
            SpeechProvider::Espeak if self.espeak().is_none() => Err("espeak-ng is not installed".to_owned()),
            SpeechProvider::Piper if self.programs.find("piper").is_none() => {
                Err("piper is not installed".to_owned())
            }
            SpeechProvider::Piper if settings.piper_model.is_none() => {
                Err("tts.piper.model is not set: it is the path of a voice (.onnx)".to_owned())
            }
            provider => Ok(provider),
        }
    }

    fn espeak(&self) -> Option<PathBuf> {
        ["espeak-ng", "espeak"].iter().find_map(|name| self.programs.find(name))
    }

    /// Speaks a text into a file.
    pub async fn speak(
        &self,
        words: &str,
        output: Option<&Path>,
        cancel: &Cancel,
    ) -> Result<SpokenFile, String> {
        let provider = self.provider()?;
        let words = head(words.trim(), LONGEST_TEXT);
        match self.speak_with(provider, words, output, cancel).await {
            // That service is not documented and may be gone tomorrow.
            Err(reason)
                if provider == SpeechProvider::Edge && self.espeak().is_some() && !cancel.is_cancelled() =>
            {
                tracing::warn!(reason, "the voice of Edge failed; espeak-ng speaks instead");
                self.speak_with(SpeechProvider::Espeak, words, output, cancel).await
            }
            outcome => outcome,
        }
    }

    async fn speak_with(
        &self,
        provider: SpeechProvider,
        words: &str,
        output: Option<&Path>,
        cancel: &Cancel,
    ) -> Result<SpokenFile, String> {
        let path = self.path(provider, output)?;
        let settings = &self.settings;
        match provider {
            SpeechProvider::Edge => {
                let http = self.http.get()?;
                let (voice, url) = (&settings.edge_voice, &settings.edge_url);
                let sound = crate::edge_voice::speak(words, voice, url, &http, &self.clock, cancel).await?;
                hermes_config::write::replace(&path, &sound).map_err(|error| error.to_string())?;
            }
            SpeechProvider::OpenAi => {
                let body = json!({
                    "model": settings.openai_model, "voice": settings.openai_voice, "input": words,
                    "response_format": if is_opus(&path) { "opus" } else { "mp3" },
                });
                let address = format!("{}/audio/speech", settings.openai_url);
                let request = HttpRequest::post(&address).and_then(|request| request.json(&body));
                let key = key(settings.openai_key.as_ref(), "VOICE_TOOLS_OPENAI_KEY")?;
                let request =
                    request.and_then(|request| request.bearer(key)).map_err(|error| error.to_string())?;
                self.download(request, &path, cancel).await?;
            }
            SpeechProvider::ElevenLabs => {
                let format = if is_opus(&path) { "opus_48000_64" } else { "mp3_44100_128" };
                let address = format!(
                    "{}/v1/text-to-speech/{}?output_format={format}",
                    settings.elevenlabs_url, settings.elevenlabs_voice
                );
                let body = json!({"text": words, "model_id": settings.elevenlabs_model});
                let key = key(settings.elevenlabs_key.as_ref(), "ELEVENLABS_API_KEY")?;
                let request = HttpRequest::post(&address)
                    .and_then(|request| request.json(&body))
                    .and_then(|request| request.secret_header(HeaderName::from_static("xi-api-key"), key))
                    .map_err(|error| error.to_string())?;
                self.download(request, &path, cancel).await?;
            }
            SpeechProvider::Espeak => {
                let espeak = self.espeak().ok_or("espeak-ng is not installed")?;
                let mut arguments: Vec<OsString> = vec!["-w".into(), path.clone().into()];
                if let Some(voice) = &settings.espeak_voice {
                    arguments.extend(["-v".into(), voice.into()]);
                }
                // What follows is text, whatever it begins with.
                arguments.extend(["--".into(), words.into()]);
                self.run(&espeak.to_string_lossy(), arguments, PROGRAM_TIMEOUT, cancel).await?;
            }
            SpeechProvider::Piper => {
                let model = settings.piper_model.clone().unwrap_or_default();
                // Piper reads the text from its input; the shell passes it on without looking at it.
                let script = "printf '%s\\n' \"$1\" | piper --model \"$2\" --output_file \"$3\"";
                let arguments = ["-c".into(), script.into(), "sh".into(), words.into(), model.into()];
                let arguments = arguments.into_iter().chain([path.clone().into()]).collect();
                self.run("sh", arguments, PROGRAM_TIMEOUT, cancel).await?;
            }
        }
        let size = std::fs::metadata(&path).map_or(0, |details| details.len());
        if size == 0 {
            let _ = std::fs::remove_file(&path);
            return Err("the voice wrote nothing".to_owned());
        }
        let path =
            if is_opus(&path) { path } else { self.as_opus(&path, output, cancel).await.unwrap_or(path) };
        Ok(SpokenFile { is_voice_message: is_opus(&path), path })
    }

    /// Converts a file to Opus, where ffmpeg is installed and the file's name was not chosen by the caller.
    async fn as_opus(&self, path: &Path, output: Option<&Path>, cancel: &Cancel) -> Option<PathBuf> {
        if output.is_some() {
            return None;
        }
        self.programs.find("ffmpeg")?;
        let opus = path.with_extension("ogg");
        let mut arguments: Vec<OsString> = vec!["-loglevel".into(), "error".into(), "-i".into(), path.into()];
        arguments.extend(["-acodec", "libopus", "-ac", "1", "-b:a", "64k", "-vbr", "off"].map(Into::into));
        arguments.extend([opus.clone().into(), "-y".into()]);
        match self.run("ffmpeg", arguments, CONVERSION_TIMEOUT, cancel).await {
            Ok(()) => {
                let _ = std::fs::remove_file(path);
                Some(opus)
            }
            Err(reason) => {
                tracing::warn!(reason, "speech could not be converted to a voice message");
                None
            }
        }
    }

    fn path(&self, provider: SpeechProvider, output: Option<&Path>) -> Result<PathBuf, String> {
        use std::os::unix::fs::DirBuilderExt as _;
        if let Some(output) = output {
            return Ok(output.to_owned());
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let at = (self.local_time)(self.clock.now());
        let suffix = match provider {
            SpeechProvider::Edge => "mp3",
            SpeechProvider::Espeak | SpeechProvider::Piper => "wav",
            SpeechProvider::OpenAi | SpeechProvider::ElevenLabs => "ogg",
        };
        let stem = format!(
            "tts_{:04}{:02}{:02}_{:02}{:02}{:02}",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        );
        let free = |n: u32| {
            let name = if n == 1 { format!("{stem}.{suffix}") } else { format!("{stem}_{n}.{suffix}") };
            let path = self.folder.join(name);
            let is_free = !path.exists() && !path.with_extension("ogg").exists();
            is_free.then_some(path)
        };
        (1..100).find_map(free).ok_or_else(|| "too many files in this second".to_owned())
    }

    async fn download(&self, request: HttpRequest, path: &Path, cancel: &Cancel) -> Result<(), String> {
        let deadline = Deadline::after(&*self.clock, SERVICE_TIMEOUT);
        let request = request.response_timeout(SERVICE_TIMEOUT);
        let http = self.http.get()?;
        let answer = http.send(request, deadline, cancel).await.map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            200..=299 => {}
            401 | 403 => return Err("the service does not accept the key".to_owned()),
            402 => return Err("the credits are used up".to_owned()),
            429 => return Err("the service limits requests; try again later".to_owned()),
            status => return Err(format!("the service failed (HTTP {status})")),
        }
        let bytes = answer.bytes(LARGEST).await.map_err(|error| error.to_string())?;
        hermes_config::write::replace(path, &bytes).map_err(|error| error.to_string())
    }

    async fn run(
        &self,
        name: &str,
        arguments: Vec<OsString>,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<(), String> {
        let program = Program { name, arguments, directory: &self.folder, limit, stderr: StderrMode::Merge };
        match self.programs.output(program, cancel).await {
            Ok((_, ProgramExit::Exited(0))) => Ok(()),
            Ok((said, ProgramExit::Exited(code))) => {
                Err(format!("{name} ended with {code}: {}", hermes_text::tail(said.trim(), 300)))
            }
            Ok((_, ProgramExit::TimedOut)) => Err(format!("{name} took longer than {} s", limit.as_secs())),
            Ok((_, ProgramExit::Cancelled)) => Err("interrupted".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn key<'k>(key: Option<&'k Secret>, name: &str) -> Result<&'k Secret, String> {
    key.ok_or_else(|| format!("{name} is not set"))
}

fn is_opus(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "ogg" || suffix == "opus")
}

/// The `text_to_speech` tool.
#[derive(Debug)]
pub struct SpeechTool {
    spec: ToolSpec,
    speaker: Speaker,
}

impl SpeechTool {
    pub fn new(speaker: Speaker) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("texts/text_to_speech.md"),
            include_str!("texts/text_to_speech.json"),
        );
        Self { spec, speaker }
    }

    /// Tells whether a voice is configured.
    pub fn is_usable(speaker: &Speaker) -> bool {
        speaker.provider().is_ok()
    }
}

impl Tool for SpeechTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(words) = text(&call.arguments, "text") else { return missing("text_to_speech", "text") };
            let name = self.speaker.settings.provider.as_ref().map_or("?", |provider| provider.name());
            match self.speaker.speak(words, None, context.cancel).await {
                Ok(file) => {
                    let path = file.path.display().to_string();
                    let mark = if file.is_voice_message { "[[audio_as_voice]]\n" } else { "" };
                    let answer = json!({
                        "success": true, "file_path": path, "media_tag": format!("{mark}MEDIA:{path}"),
                        "provider": name, "voice_compatible": file.is_voice_message,
                    });
                    outcome(&answer, OutcomeStatus::Done)
                }
                Err(reason) => {
                    let error = format!("TTS generation failed ({name}): {reason}");
                    outcome(&json!({"success": false, "error": error}), OutcomeStatus::Failed)
                }
            }
        })
    }
}

fn outcome(value: &Value, status: OutcomeStatus) -> ToolOutcome {
    let content = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    ToolOutcome { content, status, provenance: Provenance::Tool }
}
