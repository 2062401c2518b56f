//! Turns recordings into text: by a model in this process, by a command on this machine, or by a service that speaks OpenAI's
//! protocol.
//!
//! The recording is only read; what a command writes goes into a folder of its own that is removed afterwards.

#[cfg(feature = "whisper")]
mod local_model;
#[cfg(feature = "whisper")]
mod model_download;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use hermes_config::settings::{TranscriptionProvider, TranscriptionSettings};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_net::{HttpRequest, header};
use hermes_types::{Cancel, Clock, Deadline, Secret};
use sha2::{Digest as _, Sha256};

use crate::web::LazyHttpClient;

const SUFFIXES: [&str; 9] = ["mp3", "mp4", "mpeg", "mpga", "m4a", "wav", "webm", "ogg", "oga"];
/// The largest recording, which is the limit of the services.
const LARGEST: u64 = 25 * 1024 * 1024;
const SERVICE_TIMEOUT: Duration = Duration::from_secs(30);
/// A model on this machine may be slow.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(5);
const CONVERSION_TIMEOUT: Duration = Duration::from_mins(1);
const LONGEST_ANSWER: usize = 1024 * 1024;
const WHISPER_PLACES: [&str; 3] = ["whisper", "/opt/homebrew/bin/whisper", "/usr/local/bin/whisper"];

/// Turns recordings into text.
#[derive(Clone)]
pub struct Transcriber {
    pub settings: TranscriptionSettings,
    pub http: LazyHttpClient,
    pub programs: ProgramRunner,
    pub clock: Arc<dyn Clock>,
    /// The folder for what a command writes.
    pub scratch: PathBuf,
    /// The folder of downloaded speech models.
    pub models: PathBuf,
    /// Where speech models are downloaded from.
    pub model_hub: String,
    /// Told how far a download is.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Transcriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transcriber").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Transcriber {
    /// Returns the words of a recording, or why there are none.
    pub async fn transcribe(&self, recording: &Path, cancel: &Cancel) -> Result<String, String> {
        self.require_enabled()?;
        let details = fs::metadata(recording).map_err(|error| format!("{}: {error}", recording.display()))?;
        if !details.is_file() {
            return Err(format!("{} is not a file", recording.display()));
        }
        let suffix =
            recording.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default().to_lowercase();
        if !SUFFIXES.contains(&suffix.as_str()) && suffix != "opus" {
            return Err(format!(".{suffix} is none of {}", SUFFIXES.join(", ")));
        }
        if details.len() > LARGEST {
            return Err("the recording is larger than 25 MB".to_owned());
        }
        let words = match self.provider()? {
            #[cfg(feature = "whisper")]
            TranscriptionProvider::Local if self.uses_model() => {
                self.by_model(recording, &suffix, cancel).await?
            }
            TranscriptionProvider::Local | TranscriptionProvider::LocalCommand => {
                self.by_command(recording, &suffix, cancel).await?
            }
            TranscriptionProvider::Groq => {
                let settings = &self.settings;
                let key = key(settings.groq_key.as_ref(), "GROQ_API_KEY")?;
                self.by_service(recording, &settings.groq_url, &settings.groq_model, key, cancel).await?
            }
            TranscriptionProvider::OpenAi => {
                let settings = &self.settings;
                let key = key(settings.openai_key.as_ref(), "VOICE_TOOLS_OPENAI_KEY")?;
                self.by_service(recording, &settings.openai_url, &settings.openai_model, key, cancel).await?
            }
        };
        let words = words.trim().to_owned();
        if words.is_empty() { Err("no words were recognized".to_owned()) } else { Ok(words) }
    }

    /// Says what is missing, if recordings cannot be turned into text.
    pub fn check(&self) -> Result<(), String> {
        self.require_enabled()?;
        match self.provider()? {
            #[cfg(feature = "whisper")]
            TranscriptionProvider::Local if self.uses_model() => self.check_model(),
            _ => Ok(()),
        }
    }

    /// Tells whether the model in this process transcribes: its files are here, or no command could do it instead.
    #[cfg(feature = "whisper")]
    fn uses_model(&self) -> bool {
        self.has_model() || !self.has_command()
    }

    fn has_command(&self) -> bool {
        self.settings.command.is_some() || self.whisper().is_some()
    }

    fn require_enabled(&self) -> Result<(), String> {
        if self.settings.enabled { Ok(()) } else { Err("speech recognition is off (stt.enabled)".to_owned()) }
    }

    /// Returns the configured provider, or the first that can be used. A configured one is never replaced by a service.
    fn provider(&self) -> Result<TranscriptionProvider, String> {
        let settings = &self.settings;
        if let Some(provider) = settings.provider {
            return Ok(provider);
        }
        #[cfg(feature = "whisper")]
        if self.has_model() {
            return Ok(TranscriptionProvider::Local);
        }
        if self.has_command() {
            return Ok(TranscriptionProvider::Local);
        }
        if settings.groq_key.is_some() {
            return Ok(TranscriptionProvider::Groq);
        }
        if settings.openai_key.is_some() {
            return Ok(TranscriptionProvider::OpenAi);
        }
        let local = if cfg!(feature = "whisper") { "set stt.provider to local" } else { "install whisper" };
        Err(format!(
            "no speech recognition is set up: {local}, set HERMES_LOCAL_STT_COMMAND, or store GROQ_API_KEY or \
             VOICE_TOOLS_OPENAI_KEY"
        ))
    }

    fn whisper(&self) -> Option<PathBuf> {
        WHISPER_PLACES.iter().find_map(|place| self.programs.find(place))
    }

    async fn by_command(&self, recording: &Path, suffix: &str, cancel: &Cancel) -> Result<String, String> {
        let whisper = self.whisper();
        if self.settings.command.is_none() && whisper.is_none() {
            let built = if cfg!(feature = "whisper") { "" } else { " (this build has no model of its own)" };
            return Err(format!(
                "no local speech recognition: install whisper or set HERMES_LOCAL_STT_COMMAND{built}"
            ));
        }
        let output = ScratchFolder::create(&self.scratch, recording)?;
        let mut input = recording.to_owned();
        if !matches!(suffix, "wav" | "aiff") && self.programs.find("ffmpeg").is_some() {
            match self.convert(recording, &output.path, cancel).await {
                Ok(converted) => input = converted,
                Err(reason) if cancel.is_cancelled() => return Err(reason),
                // The recognizer may know what ffmpeg does not.
                Err(reason) => tracing::debug!(reason, "a recording was not converted"),
            }
        }
        let settings = &self.settings;
        if let Some(template) = &settings.command {
            let values = [
                ("{input_path}", input.to_string_lossy()),
                ("{output_dir}", output.path.to_string_lossy()),
                ("{language}", settings.language.as_str().into()),
                ("{model}", settings.local_model.as_str().into()),
            ];
            let command = filled(template, &values);
            self.run("sh", vec!["-c".into(), command.into()], &output.path, COMMAND_TIMEOUT, cancel).await?;
        } else if let Some(whisper) = whisper {
            let named = |name: &str, value: &str| [name.into(), value.into()];
            let mut arguments = vec![input.into_os_string()];
            arguments.extend(named("--model", &settings.local_model));
            arguments.extend(named("--output_format", "txt"));
            arguments.extend(["--output_dir".into(), output.path.clone().into_os_string()]);
            arguments.extend(named("--language", &settings.language));
            self.run(&whisper.to_string_lossy(), arguments, &output.path, COMMAND_TIMEOUT, cancel).await?;
        }
        output.first_text()
    }

    /// Converts a recording to WAV as recognizers want it, into a folder.
    async fn convert(&self, recording: &Path, folder: &Path, cancel: &Cancel) -> Result<PathBuf, String> {
        let converted = folder.join("recording.wav");
        let arguments = ["-loglevel", "error", "-i"].map(Into::into).into_iter();
        let arguments = arguments.chain([recording.into()]);
        let arguments = arguments.chain(["-ac", "1", "-ar", "16000", "-c:a", "pcm_s16le"].map(Into::into));
        let arguments = arguments.chain([converted.clone().into(), "-y".into()]).collect();
        self.run("ffmpeg", arguments, folder, CONVERSION_TIMEOUT, cancel).await?;
        Ok(converted)
    }

    async fn run(
        &self,
        name: &str,
        arguments: Vec<std::ffi::OsString>,
        directory: &Path,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<(), String> {
        let program = Program { name, arguments, directory, limit, stderr: StderrMode::Merge };
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

    async fn by_service(
        &self,
        recording: &Path,
        base: &str,
        model: &str,
        key: &Secret,
        cancel: &Cancel,
    ) -> Result<String, String> {
        let bytes = fs::read(recording).map_err(|error| error.to_string())?;
        let name = recording.file_name().unwrap_or_default().to_string_lossy();
        // Services know the suffix of the container, not of its coding.
        let name = name.replace(['"', '\r', '\n'], "_").replace(".opus", ".ogg").replace(".oga", ".ogg");
        let boundary = format!("hermes-{}", HEXLOWER.encode(&Sha256::digest(&bytes)));
        let form = form(&boundary, &[("model", model), ("response_format", "text")], &name, &bytes);
        let http = self.http.get()?;
        let request = HttpRequest::post(&format!("{base}/audio/transcriptions"))
            .and_then(|request| request.bearer(key))
            .and_then(|request| {
                request.header(header::CONTENT_TYPE, &format!("multipart/form-data; boundary={boundary}"))
            })
            .map_err(|error| error.to_string())?
            .body(form)
            .response_timeout(SERVICE_TIMEOUT);
        let deadline = Deadline::after(&*self.clock, SERVICE_TIMEOUT * 2);
        let answer = http.send(request, deadline, cancel).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let text = answer.text(LONGEST_ANSWER).await.map_err(|error| error.to_string())?;
        match status.as_u16() {
            200..=299 => Ok(text_of_answer(&text)),
            401 | 403 => Err("the service for speech recognition does not accept the key".to_owned()),
            429 => Err("the service for speech recognition limits requests; try again later".to_owned()),
            status => Err(format!("the service for speech recognition failed (HTTP {status})")),
        }
    }
}

fn key<'k>(key: Option<&'k Secret>, name: &str) -> Result<&'k Secret, String> {
    key.ok_or_else(|| format!("stt.provider is set, but {name} is not"))
}

/// Returns the words of an answer: some servers answer with JSON although text was requested.
fn text_of_answer(answer: &str) -> String {
    let json = serde_json::from_str::<serde_json::Value>(answer).ok();
    let text = json.as_ref().and_then(|json| json.get("text")?.as_str());
    text.unwrap_or(answer).to_owned()
}

fn form(boundary: &str, fields: &[(&str, &str)], name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut form = Vec::with_capacity(bytes.len() + 1024);
    for (field, value) in fields {
        let part =
            format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n");
        form.extend(part.bytes());
    }
    let head = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         content-type: application/octet-stream\r\n\r\n"
    );
    form.extend(head.bytes());
    form.extend(bytes);
    form.extend(format!("\r\n--{boundary}--\r\n").bytes());
    form
}

/// Fills in the values of a command, quoted for a shell. A value is never searched for further names.
fn filled(template: &str, values: &[(&str, std::borrow::Cow<'_, str>)]) -> String {
    let mut command = String::with_capacity(template.len());
    let mut rest = template;
    loop {
        let next = values.iter().filter_map(|(name, value)| Some((rest.find(name)?, *name, value))).min();
        let Some((at, name, value)) = next else { break };
        let (before, after) = rest.split_at(at);
        command.push_str(before);
        command.push_str(&quoted(value));
        rest = after.strip_prefix(name).unwrap_or_default();
    }
    command.push_str(rest);
    command
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// A folder that is removed when it is dropped.
struct ScratchFolder {
    path: PathBuf,
}

impl ScratchFolder {
    fn create(parent: &Path, recording: &Path) -> Result<Self, String> {
        use std::os::unix::fs::DirBuilderExt as _;
        let digest = Sha256::digest(recording.as_os_str().as_encoded_bytes());
        let path = parent.join(HEXLOWER.encode(digest.get(..8).unwrap_or_default()));
        // What an earlier run left must not be taken for its result.
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }

    fn first_text(&self) -> Result<String, String> {
        let entries = fs::read_dir(&self.path).map_err(|error| error.to_string())?;
        let mut texts: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "txt"))
            .collect();
        texts.sort();
        let first = texts.first().ok_or("the command for speech recognition wrote no .txt file")?;
        fs::read_to_string(first).map_err(|error| error.to_string())
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
