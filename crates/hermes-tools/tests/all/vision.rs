//! `vision_analyze`: where pictures come from, what the model gets, and what failures say.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::settings::SecuritySettings;
use hermes_config::{Config, Env, Home};
use hermes_net::{Config as NetConfig, HttpClient, PrivateAddresses};
use hermes_store::Store;
use hermes_testkit::{RealClock, TestWebsite};
use hermes_tools::{
    FileGuard, FileOptions, FileTools, LazyHttpClient, PictureReader, VisionTool, WebsitePolicy,
};
use hermes_types::{
    BoxFuture, Cancel, Clock, Completion, ContentPart, Cost, Deadline, DeltaSink, Message, MessageContent,
    Model, ModelError, ModelRequest, OutcomeStatus, SideModel, Tool, ToolContext, ToolInvocation,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::UnattendedUser;

/// A picture of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0,
    1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 10, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63, 0x68, 0,
    0, 0, 0x82, 0, 0x81, 0x77, 0xcd, 0x72, 0xb6, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A model that gives scripted answers and keeps the pictures and questions it got.
#[derive(Default)]
struct Eye {
    answers: Mutex<Vec<Result<&'static str, &'static str>>>,
    seen: Mutex<Vec<(String, String)>>,
}

impl Model for Eye {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let MessageContent::Parts(parts) = &request.messages[0].content else { panic!("no parts") };
        let [ContentPart::Text(text), ContentPart::Image { url }] = parts.as_slice() else {
            panic!("{parts:?}")
        };
        self.seen.lock().unwrap().push((text.clone(), url.clone()));
        let answer = match self.answers.lock().unwrap().pop() {
            None => Ok(completion("a red boat")),
            Some(Ok(text)) => Ok(completion(text)),
            Some(Err(text)) => Err(ModelError::GiveUp { message: text.to_owned(), status: None }),
        };
        Box::pin(std::future::ready(answer))
    }

    fn context_window(&self, _: &str) -> u64 {
        100_000
    }
}

fn completion(text: &str) -> Completion {
    Completion {
        message: Message::assistant(text),
        usage: None,
        cost: Cost::UNKNOWN,
        model: "eye".to_owned(),
        provider: "test".to_owned(),
        response_id: None,
        provider_items: None,
    }
}

struct VisionFixture {
    folder: TempDir,
    eye: Arc<Eye>,
    tool: VisionTool,
}

impl VisionFixture {
    fn new(private: PrivateAddresses) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        let env = Env::from_pairs(Vec::<(String, String)>::new());
        let yaml = format!("security: {{allow_private_urls: {}}}", private == PrivateAddresses::Allow);
        let config = Config::from_text(std::path::Path::new("config.yaml"), &yaml, &env);
        let security = SecuritySettings::resolve(&config, &env);
        let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
        let mut net = NetConfig::new(clock.clone());
        net.policy.private = private;
        let eye = Arc::new(Eye::default());
        let reader = PictureReader {
            side: SideModel { model: eye.clone(), name: "eye".to_owned(), timeout: Duration::from_mins(1) },
            store: Store::open(&folder.path().join("state.db")).unwrap(),
            http: LazyHttpClient::new(move || {
                HttpClient::new(net.clone()).map_err(|error| error.to_string())
            }),
            policy: WebsitePolicy::new(&security, home.clone(), clock.clone()),
            clock,
            download_timeout: Duration::from_secs(30),
        };
        let root = folder.path().to_owned();
        let files = FileTools::new(FileGuard::new(root.clone(), root, &home), FileOptions::default());
        Self { folder, eye, tool: VisionTool::new(files, Some(reader)) }
    }

    async fn look(&self, picture: &str) -> (OutcomeStatus, Value) {
        let clock = RealClock::default();
        let cancel = Cancel::new();
        let deadline = Deadline::after(&clock, Duration::from_mins(1));
        let context = ToolContext {
            frontend: &UnattendedUser,
            cancel: &cancel,
            deadline,
            spawn: None,
            turn_model: None,
        };
        let arguments = json!({"image_url": picture, "question": "What is it?"});
        let call = ToolInvocation {
            id: "c".into(),
            name: "vision_analyze".to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            session: "s".into(),
            turn: "t".into(),
            task: "t".into(),
        };
        let outcome = self.tool.run(&call, context).await;
        (outcome.status, serde_json::from_str(&outcome.content).unwrap())
    }

    fn seen(&self) -> Vec<(String, String)> {
        self.eye.seen.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_picture_is_seen_from_a_file_the_web_and_a_data_url() {
    let fixture = VisionFixture::new(PrivateAddresses::Allow);
    std::fs::write(fixture.folder.path().join("boat.png"), PIXEL).unwrap();
    let site = TestWebsite::start().unwrap();
    let url = site.put("/boat", "image/png", PIXEL);
    let moved = site.redirect("/moved", "/boat");
    let data = format!("data:image/png;base64,{}", data_encoding::BASE64.encode(PIXEL));
    let path = format!("file://{}", fixture.folder.path().join("boat.png").display());
    for picture in ["boat.png", &path, &url, &moved, &data] {
        let (status, answer) = fixture.look(picture).await;
        assert_eq!(
            (status, answer),
            (OutcomeStatus::Done, json!({"success": true, "analysis": "a red boat"})),
            "{picture}"
        );
    }
    let seen = fixture.seen();
    assert_eq!(seen.len(), 5);
    for (question, picture) in seen {
        assert!(
            question.ends_with("What is it?") && question.contains("Describe this picture"),
            "{question}"
        );
        assert_eq!(picture, data);
    }
}

#[tokio::test]
async fn only_pictures_leave_the_machine_and_only_allowed_addresses_are_asked() {
    let fixture = VisionFixture::new(PrivateAddresses::Refuse);
    let root = fixture.folder.path();
    std::fs::create_dir_all(root.join("home/pairing")).unwrap();
    std::fs::write(root.join("key.png"), "-----BEGIN OPENSSH PRIVATE KEY-----").unwrap();
    std::fs::write(root.join("home/.env"), PIXEL).unwrap();
    std::fs::write(root.join("home/auth.json"), PIXEL).unwrap();
    std::fs::write(root.join("home/pairing/x.png"), PIXEL).unwrap();
    std::os::unix::fs::symlink(root.join("home/.env"), root.join("link.png")).unwrap();
    let site = TestWebsite::start().unwrap();
    let url = site.put("/boat", "image/png", PIXEL);
    for (picture, wanted) in [
        ("key.png", "not a PNG"),
        ("home/.env", ""),
        ("home/auth.json", "Access denied"),
        ("link.png", ""),
        ("missing.png", "cannot read"),
        (url.as_str(), "private or internal network address"),
        ("data:image/png;base64,???", "not base64"),
    ] {
        let (status, answer) = fixture.look(picture).await;
        assert_eq!(
            (status, &answer["success"]),
            (OutcomeStatus::Failed, &json!(false)),
            "{picture}: {answer}"
        );
        let error = answer["error"].as_str().unwrap();
        assert!(error.starts_with("Error analyzing image: ") && error.contains(wanted), "{picture}: {error}");
    }
    assert!(fixture.seen().is_empty() && site.visits().is_empty());
}

#[tokio::test]
async fn failures_of_the_model_say_what_they_mean() {
    let fixture = VisionFixture::new(PrivateAddresses::Refuse);
    std::fs::write(fixture.folder.path().join("a.png"), PIXEL).unwrap();
    for (said, wanted) in [
        ("HTTP 402: Insufficient credits", "credits"),
        ("this model does not support image input", "does not accept pictures"),
        ("the server is on fire", "was not analyzed."),
    ] {
        fixture.eye.answers.lock().unwrap().push(Err(said));
        let (_, answer) = fixture.look("a.png").await;
        assert!(answer["analysis"].as_str().unwrap().contains(wanted), "{answer}");
    }
    // An empty answer is asked for once more.
    *fixture.eye.answers.lock().unwrap() = vec![Ok("second"), Ok(" ")];
    assert_eq!(fixture.look("a.png").await.1["analysis"], "second");
}
