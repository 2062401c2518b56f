//! A Whisper model in this process: where its files are, how they get there, and what it hears.
//!
//! One recording is transcribed at a time, because a model takes hundreds of megabytes and every processor. It is read for a
//! recording and forgotten after it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hermes_types::Cancel;
use hermes_whisper::{SpokenLanguage, WhisperFiles, WhisperModel, wav_samples};

use super::Transcriber;
use super::model_download::{MODEL_FILES, ModelDownload};
use crate::off_thread::off_thread;

/// Taken while a recording is transcribed.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Transcriber {
    /// Returns the folder of the configured model: one that is named by its path, or the one of a name.
    fn model_folder(&self) -> PathBuf {
        let named = Path::new(&self.settings.local_model);
        if named.is_absolute() { named.to_owned() } else { self.models.join(self.model_name()) }
    }

    fn model_name(&self) -> &str {
        let name = &self.settings.local_model;
        name.strip_prefix("openai/whisper-").unwrap_or(name)
    }

    /// Tells whether the files of the model are here.
    pub(super) fn has_model(&self) -> bool {
        let folder = self.model_folder();
        MODEL_FILES.iter().all(|file| folder.join(file).is_file())
    }

    /// Tells whether a missing model may be downloaded: a name may, a path may not.
    pub(super) fn check_model(&self) -> Result<(), String> {
        if self.has_model() {
            return Ok(());
        }
        let folder = self.model_folder();
        if Path::new(&self.settings.local_model).is_absolute() {
            return Err(format!("{} lacks one of {}", folder.display(), MODEL_FILES.join(", ")));
        }
        ModelDownload::repository(self.model_name()).map(drop)
    }

    /// Returns the words of a recording. A model that is not here is downloaded first.
    pub(super) async fn by_model(
        &self,
        recording: &Path,
        suffix: &str,
        cancel: &Cancel,
    ) -> Result<String, String> {
        let _one = tokio::select! {
            one = ONE_AT_A_TIME.lock() => one,
            () = cancel.cancelled() => return Err("interrupted".to_owned()),
        };
        self.check_model()?;
        let folder = self.model_folder();
        if !self.has_model() {
            let download = ModelDownload {
                http: &self.http,
                clock: &self.clock,
                hub: &self.model_hub,
                folder: &folder,
                progress: &*self.progress,
            };
            download.fetch(self.model_name(), cancel).await?;
        }
        let samples = self.samples(recording, suffix, cancel).await?;
        let language = match self.settings.language.as_str() {
            "auto" => SpokenLanguage::Detect,
            code => SpokenLanguage::Code(code.to_owned()),
        };
        // Dropping this future ends the work as well.
        let ended = cancel.child_token();
        let _end = ended.clone().drop_guard();
        let work = off_thread("speech recognition", move || words_of(&folder, &samples, &language, &ended));
        work.await.map_err(|outcome| outcome.content)?
    }

    /// Returns what can be heard in a recording. Only WAV files of the right form are read without ffmpeg.
    async fn samples(&self, recording: &Path, suffix: &str, cancel: &Cancel) -> Result<Vec<f32>, String> {
        let read = |path: &Path| {
            let file = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            wav_samples(&file).map_err(|error| error.to_string())
        };
        let reason = if suffix == "wav" {
            match read(recording) {
                Ok(samples) => return Ok(samples),
                Err(reason) => reason,
            }
        } else {
            format!(".{suffix} must be converted")
        };
        if self.programs.find("ffmpeg").is_none() {
            return Err(format!("{reason}; install ffmpeg"));
        }
        let output = super::ScratchFolder::create(&self.scratch, recording)?;
        let converted = self.convert(recording, &output.path, cancel).await?;
        read(&converted)
    }
}

fn words_of(
    folder: &Path,
    samples: &[f32],
    language: &SpokenLanguage,
    ended: &Cancel,
) -> Result<String, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let weights = folder.join("model.safetensors");
    let files = WhisperFiles {
        config: &read("config.json")?,
        tokenizer: &read("tokenizer.json")?,
        weights: File::open(&weights).map_err(|error| format!("{}: {error}", weights.display()))?,
    };
    let broken = |error| format!("the speech model in {}: {error}", folder.display());
    let model = WhisperModel::read(files).map_err(broken)?;
    model.transcribe(samples, language, &|| ended.is_cancelled()).map_err(|error| match error {
        hermes_whisper::WhisperError::Language(reason) => format!("HERMES_LOCAL_STT_LANGUAGE: {reason}"),
        hermes_whisper::WhisperError::Cancelled => "interrupted".to_owned(),
        error => broken(error),
    })
}
