//! `text_to_speech` and `image_generate`: services, programs of this machine, and failures.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::settings::{ImageSettings, SpeechSettings};
use hermes_config::{Config, Env};
use hermes_exec::{ProgramRunner, Variables};
use hermes_net::{Config as NetConfig, HttpClient};
use hermes_testkit::{EdgeVoice, EdgeVoiceMood, RealClock, WEB_SERVICE_KEY, WebServiceFault, WebServices};
use hermes_tools::{ImageMaker, ImageTool, LazyHttpClient, Speaker, SpeechTool};
use hermes_types::{Cancel, CivilTime, Clock, Deadline, OutcomeStatus, Tool, ToolContext, ToolInvocation};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::UnattendedUser;

struct MediaFixture {
    folder: TempDir,
    services: WebServices,
    env: Env,
    config: Config,
    edge_url: String,
}

impl MediaFixture {
    fn new(yaml: &str, env: &[(&str, &str)]) -> Self {
        let services = WebServices::start().unwrap();
        let env = Env::from_pairs(env.iter().copied());
        let yaml = yaml.replace("SPEECH", &services.base("speech"));
        let config = Config::from_text(Path::new("config.yaml"), &yaml, &env);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        Self { folder, services, env, config, edge_url: "ws://127.0.0.1:9".to_owned() }
    }

    /// Adds a program that the voice of this machine calls.
    fn program(&self, name: &str, script: &str) {
        let path = self.folder.path().join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn http() -> (LazyHttpClient, Arc<dyn Clock>) {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
        let net = NetConfig::new(clock.clone());
        (LazyHttpClient::new(move || HttpClient::new(net.clone()).map_err(|error| error.to_string())), clock)
    }

    fn speaker(&self) -> Speaker {
        let (http, clock) = Self::http();
        let path = self.folder.path().join("bin").display().to_string();
        let variables = [("PATH", path.as_str())];
        let settings = SpeechSettings::resolve(&self.config, &self.env);
        Speaker {
            settings: SpeechSettings {
                elevenlabs_url: self.services.base("elevenlabs"),
                edge_url: self.edge_url.clone(),
                ..settings
            },
            http,
            programs: ProgramRunner::new(Variables::for_commands(variables, &[], &[]), clock.clone()),
            clock,
            local_time: CivilTime::utc,
            folder: self.folder.path().join("audio"),
        }
    }

    fn maker(&self) -> ImageMaker {
        let (http, clock) = Self::http();
        ImageMaker {
            settings: ImageSettings::resolve(&self.config, &self.env),
            http,
            clock,
            folder: self.folder.path().join("images"),
            fal_url: self.services.base("fal"),
        }
    }

    async fn speak(&self, words: &str) -> Value {
        call(&SpeechTool::new(self.speaker()), json!({"text": words})).await
    }

    async fn draw(&self, arguments: Value) -> Value {
        call(&ImageTool::new(self.maker()), arguments).await
    }
}

async fn call(tool: &dyn Tool, arguments: Value) -> Value {
    let clock = RealClock::default();
    let cancel = Cancel::new();
    let deadline = Deadline::after(&clock, Duration::from_mins(1));
    let context =
        ToolContext { frontend: &UnattendedUser, cancel: &cancel, deadline, spawn: None, turn_model: None };
    let call = ToolInvocation {
        id: "c".into(),
        name: tool.spec().name.clone(),
        arguments: arguments.as_object().unwrap().clone(),
        session: "s".into(),
        turn: "t".into(),
        task: "t".into(),
    };
    let outcome = tool.run(&call, context).await;
    let value: Value = serde_json::from_str(&outcome.content).unwrap();
    assert_eq!(value["success"] == true, outcome.status == OutcomeStatus::Done, "{value}");
    value
}

#[tokio::test]
async fn services_speak_into_voice_messages() {
    let openai = MediaFixture::new(
        "tts: {provider: openai, openai: {base_url: 'SPEECH'}}",
        &[("VOICE_TOOLS_OPENAI_KEY", WEB_SERVICE_KEY)],
    );
    let said = openai.speak("Hello there").await;
    let path = said["file_path"].as_str().unwrap();
    assert!(
        Path::new(path).extension().is_some_and(|suffix| suffix == "ogg") && path.contains("/audio/tts_"),
        "{said}"
    );
    assert_eq!(said["media_tag"], format!("[[audio_as_voice]]\nMEDIA:{path}"));
    assert_eq!((&said["provider"], &said["voice_compatible"]), (&json!("openai"), &json!(true)));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "sound of Hello there");
    let body = &openai.services.requests()[0].body;
    assert_eq!(
        (&body["model"], &body["voice"], &body["response_format"]),
        (&json!("gpt-4o-mini-tts"), &json!("alloy"), &json!("opus"))
    );

    let eleven = MediaFixture::new("tts: {provider: elevenlabs}", &[("ELEVENLABS_API_KEY", WEB_SERVICE_KEY)]);
    let long = "x".repeat(5000);
    let said = eleven.speak(&long).await;
    assert_eq!(said["success"], true, "{said}");
    let request = &eleven.services.requests()[0];
    assert!(
        request.target.contains("/v1/text-to-speech/pNInz6obpgDQGcFmaJgB?output_format=opus_48000_64"),
        "{request:?}"
    );
    assert_eq!(request.body["text"].as_str().unwrap().len(), 4000);
    eleven.services.fail_next(WebServiceFault::Refuse {
        status: 401,
        retry_after: None,
        body: String::new(),
    });
    let refused = eleven.speak("x").await;
    assert_eq!(refused["error"], "TTS generation failed (elevenlabs): the service does not accept the key");
    eleven.services.fail_next(WebServiceFault::Refuse {
        status: 200,
        retry_after: None,
        body: String::new(),
    });
    assert!(eleven.speak("x").await["error"].as_str().unwrap().contains("wrote nothing"));
}

#[tokio::test]
async fn the_voice_of_edge_speaks_without_a_key_and_another_one_when_it_fails() {
    let service = EdgeVoice::start().unwrap();
    let mut fixture = MediaFixture::new("tts: {edge: {voice: de-DE-KatjaNeural}}", &[]);
    fixture.edge_url = service.url();
    // Without it, what the service returned is kept as it is.
    fixture.program("ffmpeg", "exit 1");
    let said = fixture.speak("Tom & <Jerry>'s\nfirst").await;
    assert_eq!(said["provider"], "edge", "{said}");
    let path = said["file_path"].as_str().unwrap().to_owned();
    assert!(Path::new(&path).extension().is_some_and(|suffix| suffix == "mp3"), "{path}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "Tom &amp; &lt;Jerry&gt;&apos;s first");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let markup = &service.spoken()[0];
    assert!(markup.contains("xml:lang='de-DE'><voice name='de-DE-KatjaNeural'>"), "{markup}");
    let long = format!("{} end", "wörd ".repeat(1_500));
    let said = fixture.speak(&long).await;
    let whole = std::fs::read_to_string(said["file_path"].as_str().unwrap()).unwrap();
    assert!(
        whole.starts_with("wörd ") && whole.chars().count() == 4_000,
        "several requests: {}",
        whole.len()
    );
    assert_eq!(service.spoken().len(), 3, "two requests for the long text");

    fixture.program("espeak-ng", r#"printf 'spoken' > "$2""#);
    for mood in [EdgeVoiceMood::Refuses, EdgeVoiceMood::Silent] {
        service.set_mood(mood);
        let said = fixture.speak("again").await;
        let path = said["file_path"].as_str().unwrap_or_else(|| panic!("{mood:?}: {said}"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "spoken", "{mood:?}");
    }
    service.set_mood(EdgeVoiceMood::Speaks);
    let wrong = MediaFixture::new("tts: {provider: edge, edge: {voice: \"x'/>\"}}", &[]);
    let wrong = MediaFixture { edge_url: service.url(), ..wrong };
    wrong.program("espeak-ng", "exit 1");
    let before = service.spoken().len();
    assert_eq!(wrong.speak("x").await["success"], false);
    assert_eq!(service.spoken().len(), before, "no name of a voice enters the markup");
}

#[tokio::test]
async fn programs_of_this_machine_speak() {
    let fixture = MediaFixture::new("tts: {provider: espeak, espeak: {voice: de}}", &[]);
    // Programs are also looked for where systems keep them.
    if !["/usr/bin/espeak-ng", "/usr/local/bin/espeak-ng"].iter().any(|path| Path::new(path).exists()) {
        assert!(!SpeechTool::is_usable(&fixture.speaker()));
        assert!(fixture.speak("x").await["error"].as_str().unwrap().contains("espeak-ng is not installed"));
    }
    fixture.program("espeak-ng", r#"printf '%s|' "$@" > "$2""#);
    assert!(SpeechTool::is_usable(&fixture.speaker()));
    let said = fixture.speak("--help me; $(id)").await;
    let path = said["file_path"].as_str().unwrap().to_owned();
    let is_wav = Path::new(&path).extension().is_some_and(|suffix| suffix == "wav");
    assert_eq!((is_wav, &said["voice_compatible"]), (true, &json!(false)), "{said}");
    assert_eq!(said["media_tag"], format!("MEDIA:{path}"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("-w|{path}|-v|de|--|--help me; $(id)|"));
    // With ffmpeg it becomes a voice message.
    fixture.program("ffmpeg", r#"for last; do out="$prev"; prev="$last"; done; echo opus > "$out""#);
    let said = fixture.speak("again").await;
    assert_eq!(said["voice_compatible"], true, "{said}");
    assert_eq!(std::fs::read_to_string(said["file_path"].as_str().unwrap()).unwrap(), "opus\n");
    let piper = MediaFixture::new("tts: {provider: piper, piper: {model: /voices/a.onnx}}", &[]);
    piper.program("piper", r#"cat > "$4"; echo "$2" >> "$4""#);
    let said = piper.speak("it's $HOME").await;
    assert_eq!(
        std::fs::read_to_string(said["file_path"].as_str().unwrap()).unwrap(),
        "it's $HOME\n/voices/a.onnx\n"
    );
    let unknown = MediaFixture::new("tts: {provider: parrot}", &[]);
    assert!(unknown.speak("x").await["error"].as_str().unwrap().contains("'parrot' is none of edge"));
}

#[tokio::test]
async fn fal_makes_and_enlarges_pictures() {
    let fixture = MediaFixture::new("", &[("FAL_KEY", WEB_SERVICE_KEY)]);
    let made = fixture.draw(json!({"prompt": "a boat", "aspect_ratio": "portrait"})).await;
    assert_eq!(made, json!({"success": true, "image": "https://fal.media/large.png"}));
    let requests = fixture.services.requests();
    let body = &requests[0].body;
    assert_eq!(requests[0].target, "/fal/fal-ai/flux-2-pro");
    assert_eq!(
        (&body["image_size"], &body["safety_tolerance"], &body["num_inference_steps"]),
        (&json!("portrait_16_9"), &json!("5"), &json!(50))
    );
    assert_eq!(requests[0].header("authorization"), Some(format!("Key {WEB_SERVICE_KEY}").as_str()));
    let enlarged = requests.iter().find(|request| request.target == "/fal/fal-ai/clarity-upscaler").unwrap();
    assert_eq!(
        (&enlarged.body["image_url"], &enlarged.body["upscale_factor"]),
        (&json!("https://fal.media/small.png"), &json!(2))
    );
    let wrong = MediaFixture::new("", &[("FAL_KEY", "wrong-key-000000")]);
    let failed = wrong.draw(json!({"prompt": "a boat"})).await;
    assert_eq!((&failed["success"], &failed["image"]), (&json!(false), &Value::Null));
    assert!(!failed.to_string().contains("wrong-key"), "{failed}");
    assert!(fixture.draw(json!({"prompt": " "})).await["error"].is_string());
}

#[tokio::test]
async fn a_server_with_the_images_endpoint_makes_pictures() {
    let fixture = MediaFixture::new(
        "image_gen: {base_url: 'SPEECH', api_key: right-key-0123456789abcdef, model: sd}",
        &[("OPENAI_API_KEY", "general-key-111111")],
    );
    let made = fixture.draw(json!({"prompt": "a boat", "aspect_ratio": "square"})).await;
    let path = made["image"].as_str().unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"\x89PNG");
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let request = &fixture.services.requests()[0];
    assert_eq!(request.body, json!({"model": "sd", "prompt": "a boat", "n": 1, "size": "1024x1024"}));
    assert_eq!(request.header("authorization"), Some(format!("Bearer {WEB_SERVICE_KEY}").as_str()));
    assert!(!ImageTool::is_usable(&MediaFixture::new("", &[]).maker()));
}
