//! Recordings become text: by a command, by a service, and what is said when neither can.

use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::settings::TranscriptionSettings;
use hermes_config::{Config, Env};
use hermes_exec::{ProgramRunner, Variables};
use hermes_net::{Config as NetConfig, HttpClient};
use hermes_testkit::{RealClock, WEB_SERVICE_KEY, WebServiceFault, WebServices};
use hermes_tools::{LazyHttpClient, Transcriber};
use hermes_types::{Cancel, Clock};
use tempfile::TempDir;

struct Recording {
    folder: TempDir,
    services: WebServices,
}

impl Recording {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), services: WebServices::start().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, b"OggS the sound of a boat").unwrap();
        path
    }

    async fn transcribe(&self, file: &str, yaml: &str, env: &[(&str, &str)]) -> Result<String, String> {
        let env = Env::from_pairs(env.iter().copied());
        let config = Config::from_text(std::path::Path::new("config.yaml"), yaml, &env);
        let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
        let net = NetConfig::new(clock.clone());
        let path = [("PATH", "/usr/bin:/bin")];
        let transcriber = Transcriber {
            settings: TranscriptionSettings::resolve(&config, &env)?,
            http: LazyHttpClient::new(move || {
                HttpClient::new(net.clone()).map_err(|error| error.to_string())
            }),
            programs: ProgramRunner::new(Variables::for_commands(path, &[], &[]), clock.clone()),
            clock,
            scratch: self.folder.path().join("scratch"),
            models: self.folder.path().join("models"),
            model_hub: self.services.base("models"),
            progress: Arc::new(|_| {}),
        };
        let result = transcriber.transcribe(&self.file(file), &Cancel::new()).await;
        let left = std::fs::read_dir(self.folder.path().join("scratch")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "nothing is left behind");
        assert!(self.folder.path().join(file).exists(), "the recording stays");
        result
    }
}

#[tokio::test]
async fn a_command_of_the_user_transcribes() {
    let recording = Recording::new();
    let command =
        "cat {input_path} > {output_dir}/it.txt; echo ' in' {language} with {model} >> {output_dir}/it.txt";
    let env = [("HERMES_LOCAL_STT_COMMAND", command), ("HERMES_LOCAL_STT_LANGUAGE", "de; rm -rf /")];
    let said = recording.transcribe("a b's.wav", "stt: {local: {model: tiny}}", &env).await.unwrap();
    assert_eq!(said, "OggS the sound of a boat in de; rm -rf / with tiny");
    let fails = [("HERMES_LOCAL_STT_COMMAND", "echo no microphone >&2; exit 3")];
    let error = recording.transcribe("a.wav", "", &fails).await.unwrap_err();
    assert!(error.contains("ended with 3") && error.contains("no microphone"), "{error}");
    let silent = [("HERMES_LOCAL_STT_COMMAND", "true")];
    assert!(recording.transcribe("a.wav", "", &silent).await.unwrap_err().contains("no .txt file"));
}

#[tokio::test]
async fn a_service_transcribes() {
    let recording = Recording::new();
    let base = recording.services.base("speech");
    let groq = [
        ("GROQ_API_KEY", WEB_SERVICE_KEY),
        ("GROQ_BASE_URL", base.as_str()),
        ("STT_GROQ_MODEL", "whisper-1"),
    ];
    let yaml = "stt: {provider: groq}";
    assert_eq!(
        recording.transcribe("said.ogg", yaml, &groq).await.unwrap(),
        "words of said.ogg by whisper-large-v3-turbo"
    );
    let openai = [("VOICE_TOOLS_OPENAI_KEY", WEB_SERVICE_KEY), ("STT_OPENAI_BASE_URL", base.as_str())];
    let said = recording.transcribe("said.oga", "stt: {provider: openai}", &openai).await.unwrap();
    assert_eq!(said, "words of said.ogg by whisper-1");
    let requests = recording.services.requests();
    assert_eq!(requests[0].target, "/speech/audio/transcriptions");
    assert_eq!(requests[0].header("authorization"), Some(format!("Bearer {WEB_SERVICE_KEY}").as_str()));
    let refuse = |status| {
        recording.services.fail_next(WebServiceFault::Refuse {
            status,
            retry_after: None,
            body: "{}".to_owned(),
        });
    };
    refuse(401);
    assert!(
        recording.transcribe("a.ogg", yaml, &groq).await.unwrap_err().contains("does not accept the key")
    );
    refuse(500);
    assert!(recording.transcribe("a.ogg", yaml, &groq).await.unwrap_err().contains("HTTP 500"));
}

#[tokio::test]
async fn a_general_key_goes_only_to_its_own_service() {
    let recording = Recording::new();
    let base = recording.services.base("speech");
    let env = [("OPENAI_API_KEY", WEB_SERVICE_KEY), ("STT_OPENAI_BASE_URL", base.as_str())];
    let error = recording.transcribe("a.ogg", "stt: {provider: openai}", &env).await.unwrap_err();
    assert!(error.contains("VOICE_TOOLS_OPENAI_KEY"), "{error}");
    assert!(recording.services.requests().is_empty());
}

#[tokio::test]
async fn what_cannot_be_transcribed_is_said() {
    let recording = Recording::new();
    for (file, yaml, wanted) in [
        ("a.ogg", "", "no speech recognition is set up"),
        ("a.ogg", "stt: {enabled: false}", "stt.enabled"),
        ("a.flac", "", ".flac is none of"),
        ("a.ogg", "stt: {provider: groq}", "GROQ_API_KEY is not"),
        ("a.ogg", "stt: {provider: parrot}", "'parrot' is none of"),
        #[cfg(not(feature = "whisper"))]
        ("a.ogg", "stt: {provider: local}", "install whisper"),
        ("a.ogg", "stt: {provider: local_command}", "install whisper"),
    ] {
        let error = recording.transcribe(file, yaml, &[]).await.unwrap_err();
        assert!(error.contains(wanted), "{file} {yaml}: {error}");
    }
}
