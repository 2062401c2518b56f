//! Pictures and recordings of chats, and the web: what the model gets of them.

use std::path::Path;

use hermes_testkit::{
    ModelScript, ModelServer, TempHome, TestWebsite, WEB_SERVICE_KEY, WebServiceFault, WebServices,
};
use serde_json::{Value, json};

use super::life::hermes;
use super::sending::{ANN, TelegramHome};
use super::support::until_found;

/// A picture of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0,
    1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 10, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63, 0x68, 0,
    0, 0, 0x82, 0, 0x81, 0x77, 0xcd, 0x72, 0xb6, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];
const PIXEL_URL: &str = "data:image/png;base64,iVBORw0KGgo";

fn body(fixture: &TelegramHome, wanted: &str) -> String {
    let requests = fixture.server.requests();
    let found =
        requests.iter().map(|request| request.body_text().into_owned()).find(|body| body.contains(wanted));
    found.unwrap_or_else(|| panic!("no request with {wanted}"))
}

#[test]
fn a_photo_reaches_a_model_that_sees() {
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "what is this"}, "text": "A grey pixel."},
        {"when": {"user_contains": "and now"}, "text": "Still grey."},
    ]));
    assert_eq!(fixture.run(&["config", "set", "model.default", "gpt-4o"]).0, 0);
    let gateway = fixture.start();
    let ann = fixture.telegram.person(ANN, "Ann");
    ann.sends_photo(ANN, PIXEL, Some("what is this"));
    fixture.telegram.until_said_blocking(ANN, "A grey pixel.");
    let first = body(&fixture, "what is this");
    assert!(first.contains(PIXEL_URL) && first.contains("vision_analyze"), "{first}");
    ann.says(ANN, "and now");
    fixture.telegram.until_said_blocking(ANN, "Still grey.");
    let second = body(&fixture, "and now");
    assert!(!second.contains("data:image") && second.contains("which is attached"), "{second}");
    drop(gateway);
}

#[test]
fn a_photo_is_described_for_a_model_that_does_not_see() {
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "Describe this picture"}, "text": "one grey pixel"},
        {"when": {"user_contains": "what is this"}, "text": "I am told."},
    ]));
    for (key, value) in [
        ("auxiliary.vision.base_url", fixture.server.base_url()),
        ("auxiliary.vision.model", "eye".to_owned()),
        ("auxiliary.vision.api_key", "k-123456".to_owned()),
    ] {
        assert_eq!(fixture.run(&["config", "set", key, &value]).0, 0, "{key}");
    }
    let gateway = fixture.start();
    fixture.telegram.person(ANN, "Ann").sends_photo(ANN, PIXEL, Some("what is this"));
    fixture.telegram.until_said_blocking(ANN, "I am told.");
    let asked = body(&fixture, "Describe this picture");
    assert!(asked.contains(PIXEL_URL) && asked.contains("\"model\":\"eye\""), "{asked}");
    let answered = body(&fixture, "what is this");
    assert!(answered.contains("one grey pixel") && !answered.contains("data:image"), "{answered}");
    drop(gateway);
}

#[test]
fn a_voice_message_is_transcribed_by_the_users_command_and_kept() {
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "buy a boat"}, "text": "Which one?"},
        {"when": {"user_contains": "could not be transcribed"}, "text": "I cannot hear."},
    ]));
    let env = fixture.home.join(".env");
    let before = std::fs::read_to_string(&env).unwrap();
    let gateway = fixture.start();
    let ann = fixture.telegram.person(ANN, "Ann");
    ann.sends_voice(ANN, b"OggS noise");
    fixture.telegram.until_said_blocking(ANN, "I cannot hear.");
    assert!(body(&fixture, "could not be transcribed").contains("no speech recognition is set up"));
    drop(gateway);
    let command = "HERMES_LOCAL_STT_COMMAND=printf 'buy a boat' > {output_dir}/said.txt\n";
    std::fs::write(&env, format!("{before}{command}")).unwrap();
    let gateway = fixture.start();
    ann.sends_voice(ANN, b"OggS words");
    fixture.telegram.until_said_blocking(ANN, "Which one?");
    let heard = body(&fixture, "buy a boat");
    let path = heard.split("The recording is at: ").nth(1).unwrap().split(']').next().unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"OggS words", "the recording is kept");
    drop(gateway);
}

#[test]
fn answers_are_spoken_where_the_chat_wants_it() {
    let services = WebServices::start().unwrap();
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "quietly"}, "text": "Only text."},
        {"when": {"user_contains": "aloud"}, "text": "**Hello** from `here`"},
        {"when": {"user_contains": "buy a boat"}, "text": "Which one?"},
        {"when": {"user_contains": "at last"}, "text": "Still here."},
    ]));
    for (key, value) in [("tts.provider", "openai"), ("tts.openai.base_url", &services.base("speech"))] {
        assert_eq!(fixture.run(&["config", "set", key, value]).0, 0, "{key}");
    }
    let env = fixture.home.join(".env");
    let before = std::fs::read_to_string(&env).unwrap();
    let heard = "HERMES_LOCAL_STT_COMMAND=printf 'buy a boat' > {output_dir}/said.txt";
    std::fs::write(&env, format!("{before}VOICE_TOOLS_OPENAI_KEY={WEB_SERVICE_KEY}\n{heard}\n")).unwrap();
    let gateway = fixture.start();
    let ann = fixture.telegram.person(ANN, "Ann");
    ann.says(ANN, "quietly");
    fixture.telegram.until_said_blocking(ANN, "Only text.");
    ann.says(ANN, "/voice tts");
    fixture.telegram.until_said_blocking(ANN, "Every answer here is spoken, too (openai).");
    ann.says(ANN, "aloud");
    assert_eq!(fixture.telegram.until_called_blocking("sendVoice", 1).len(), 1);
    fixture.telegram.until_said_blocking(ANN, "Hello");
    assert_eq!(services.requests()[0].body["input"].as_str().unwrap().trim(), "Hello from here");
    // A voice message goes through the whole gateway to an answer with a voice bubble.
    ann.says(ANN, "/voice on");
    fixture.telegram.until_said_blocking(ANN, "Voice messages here are answered with speech (openai).");
    ann.sends_voice(ANN, b"OggS words");
    fixture.telegram.until_said_blocking(ANN, "Which one?");
    assert_eq!(fixture.telegram.until_called_blocking("sendVoice", 2).len(), 2);
    ann.says(ANN, "/voice off");
    fixture.telegram.until_said_blocking(ANN, "Answers here are text only.");
    let modes = std::fs::read_to_string(fixture.home.join("gateway_voice_mode.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&modes).unwrap(), json!({ANN.to_string(): "off"}));
    drop(gateway);
    // A voice that fails costs nothing but the recording.
    std::fs::write(fixture.home.join("gateway_voice_mode.json"), json!({ANN.to_string(): "all"}).to_string())
        .unwrap();
    services.fail_next(WebServiceFault::Refuse { status: 500, retry_after: None, body: String::new() });
    let gateway = fixture.start();
    ann.says(ANN, "at last");
    fixture.telegram.until_said_blocking(ANN, "Still here.");
    assert_eq!(fixture.telegram.calls("sendVoice").len(), 2);
    drop(gateway);
}

/// Runs one of the programs for sound on this machine.
#[expect(clippy::disallowed_methods, reason = "the test looks at sound with the system's programs")]
fn sound_program(name: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(name).args(arguments).output().ok()?;
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns codec, channels and length of a recording, as ffprobe sees it.
fn probe(file: &Path) -> String {
    let arguments =
        ["-v", "error", "-of", "csv=p=0", "-show_entries", "stream=codec_name,channels:format=duration"];
    let arguments: Vec<&str> = arguments.into_iter().chain([file.to_str().unwrap()]).collect();
    sound_program("ffprobe", &arguments).unwrap()
}

#[test]
fn peer_speech_of_real_programs_goes_through_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (spoken, question) = (file("spoken.wav"), file("question.ogg"));
    let words = "When does the tide come in at the harbour";
    if sound_program("espeak-ng", &["-w", &spoken, words]).is_none()
        || sound_program("ffmpeg", &["-v", "error", "-i", &spoken, "-c:a", "libopus", &question]).is_none()
    {
        return hermes_testkit::peer_is_missing("espeak-ng and ffmpeg");
    }
    let fixture = TelegramHome::new(&json!([
        {"when": {"user_contains": "tide come in"}, "text": "High water is at **noon**, two metres above the mark."},
    ]));
    assert_eq!(fixture.run(&["config", "set", "tts.provider", "espeak"]).0, 0);
    let env = fixture.home.join(".env");
    let before = std::fs::read_to_string(&env).unwrap();
    // A stand-in for a recognizer: it takes what whisper would take, 16,000 samples a second of one channel.
    let recognizer = "/usr/bin/python3 -c 'import sys,wave; w=wave.open(sys.argv[1]); \
                      assert (w.getframerate(), w.getnchannels()) == (16000, 1) and w.getnframes() > 16000; \
                      print(\"When does the tide come in?\")' {input_path} > {output_dir}/said.txt";
    std::fs::write(&env, format!("{before}HERMES_LOCAL_STT_COMMAND={recognizer}\n")).unwrap();
    let gateway = fixture.start();
    let ann = fixture.telegram.person(ANN, "Ann");
    ann.says(ANN, "/voice on");
    fixture.telegram.until_said_blocking(ANN, "Voice messages here are answered with speech (espeak).");
    ann.sends_voice(ANN, &std::fs::read(&question).unwrap());
    fixture.telegram.until_said_blocking(ANN, "High water is at noon");
    let bubble = until_found(
        || "an answer with a voice bubble".to_owned(),
        || fixture.said().into_iter().find(|message| message.kind == "voice"),
    );
    let answer = folder.path().join("answer.ogg");
    std::fs::write(&answer, bubble.file.unwrap().1).unwrap();
    let (asked, answered) = (probe(Path::new(&question)), probe(&answer));
    for (what, found) in [("the question", &asked), ("the answer", &answered)] {
        let seconds: f64 = found.lines().nth(1).unwrap().trim().parse().unwrap();
        assert!(found.starts_with("opus,1\n") && (1.0..10.0).contains(&seconds), "{what}: {found}");
    }
    drop(gateway);
}

/// Runs one question in a home with this configuration besides the model, and returns the requests.
fn ask(replies: &Value, more: &Value, question: &str) -> (String, Vec<String>) {
    let script = json!({"replies": replies, "default": "echo"});
    let server =
        ModelServer::start_blocking(ModelScript::from_yaml("web", &script.to_string()).unwrap()).unwrap();
    let mut config = json!({
        "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
        "terminal": {"sandbox": "off"},
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file("").build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    let output = hermes(&home, &["chat", "-q", question]).output().unwrap();
    let bodies = server.requests().iter().map(|request| request.body_text().into_owned()).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr), bodies)
}

#[test]
fn a_page_is_read_without_a_key_and_searching_is_not_offered_without_a_service() {
    let site = TestWebsite::start().unwrap();
    let page = site.put(
        "/tide.html",
        "text/html",
        b"<title>Tide</title><nav>menu</nav><p>High water at <b>noon</b>.</p>",
    );
    let call = json!({"name": "web_extract", "id": "call_w", "arguments": {"urls": [page]}});
    let replies = json!([
        {"when": {"tool_result": "call_w"}, "text": "At noon."},
        {"when": {"user_contains": "tide"}, "tool": call},
    ]);
    let open = json!({"security": {"allow_private_urls": true}});
    let (said, bodies) = ask(&replies, &open, "when is the tide");
    assert!(said.contains("At noon."), "{said}");
    assert!(bodies[0].contains("\"web_extract\"") && !bodies[0].contains("\"web_search\""), "{}", bodies[0]);
    assert!(bodies[1].contains("High water at **noon**.") && !bodies[1].contains("menu"), "{}", bodies[1]);
    // Without the setting the address is refused before anything is sent.
    let visits = site.visits().len();
    let (_, bodies) = ask(&replies, &json!({}), "when is the tide");
    assert!(bodies[1].contains("private or internal network address"), "{}", bodies[1]);
    assert_eq!(site.visits().len(), visits);
    let (_, bodies) = ask(&replies, &json!({"web": {"searxng_url": "http://127.0.0.1:9"}}), "hello");
    assert!(bodies[0].contains("\"web_search\""), "{}", bodies[0]);
}
