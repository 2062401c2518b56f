//! An editor that talks to `hermes acp`, with the published client of the protocol.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, EmbeddedResource, EmbeddedResourceResource, ForkSessionRequest,
    ImageContent, InitializeRequest, ListSessionsRequest, LoadSessionRequest, NewSessionRequest,
    PromptRequest, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionConfigOptionValue, SessionId,
    SessionNotification, SessionUpdate, SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason,
    TextContent, TextResourceContents, ToolCallContent, ToolCallStatus,
};
use agent_client_protocol::{AcpAgent, Agent, Client};
use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::json;

const LIMIT: Duration = Duration::from_mins(1);

/// What the editor saw.
#[derive(Debug, Clone, Default)]
struct Seen {
    updates: Arc<Mutex<Vec<SessionUpdate>>>,
    permissions: Arc<Mutex<Vec<RequestPermissionRequest>>>,
}

impl Seen {
    fn updates(&self) -> Vec<SessionUpdate> {
        self.updates.lock().unwrap().clone()
    }

    fn answer(&self) -> String {
        let text = |update| match update {
            SessionUpdate::AgentMessageChunk(chunk) => match chunk.content {
                ContentBlock::Text(text) => text.text,
                _ => String::new(),
            },
            _ => String::new(),
        };
        self.updates().into_iter().map(text).collect()
    }
}

struct EditorHome {
    server: ModelServer,
    home: TempHome,
    folder: tempfile::TempDir,
}

impl EditorHome {
    fn new(script: &str) -> Self {
        let server = ModelServer::start_blocking(ModelScript::from_yaml("acp", script).unwrap()).unwrap();
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
        });
        let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
        Self { server, home, folder: tempfile::tempdir().unwrap() }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs an editor that answers every request for permission with this option.
    fn edit<F>(&self, option: &str, work: impl FnOnce(ConnectionTo<Agent>) -> F + Send + 'static) -> Seen
    where
        F: Future<Output = agent_client_protocol::Result<()>> + Send,
    {
        let seen = Seen::default();
        let (updates, permissions) = (seen.updates.clone(), seen.permissions.clone());
        let (home, user) = (self.home.path().display(), self.home.join("user"));
        let command = format!(
            "/usr/bin/env -i HERMES_HOME={home} HOME={} PATH=/usr/bin:/bin TZ=UTC {} acp",
            user.display(),
            super::support::program()
        );
        let option = option.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = runtime.block_on(async {
            let editor = Client
                .v1()
                .on_receive_notification(
                    async move |notification: SessionNotification, _cx| {
                        updates.lock().unwrap().push(notification.update);
                        Ok(())
                    },
                    agent_client_protocol::on_receive_notification!(),
                )
                .on_receive_request(
                    async move |request: RequestPermissionRequest, responder, _cx| {
                        permissions.lock().unwrap().push(request);
                        let outcome = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
                            option.clone(),
                        ));
                        responder.respond(RequestPermissionResponse::new(outcome))
                    },
                    agent_client_protocol::on_receive_request!(),
                )
                .connect_with(AcpAgent::from_str(&command).unwrap(), async |connection| {
                    let begun = connection
                        .send_request(InitializeRequest::new(ProtocolVersion::V1))
                        .block_task()
                        .await?;
                    assert_eq!(begun.agent_info.unwrap().name, "hermes-agent");
                    assert!(begun.agent_capabilities.load_session);
                    work(connection).await
                });
            tokio::time::timeout(LIMIT, editor).await
        });
        done.unwrap().unwrap();
        seen
    }
}

async fn new_session(
    connection: &ConnectionTo<Agent>,
    folder: PathBuf,
) -> agent_client_protocol::Result<SessionId> {
    Ok(connection.send_request(NewSessionRequest::new(folder)).block_task().await?.session_id)
}

async fn prompt(
    connection: &ConnectionTo<Agent>,
    session: &SessionId,
    text: &str,
) -> agent_client_protocol::Result<StopReason> {
    let blocks = vec![ContentBlock::Text(TextContent::new(text))];
    let done = connection.send_request(PromptRequest::new(session.clone(), blocks)).block_task().await?;
    Ok(done.stop_reason)
}

const WORK: &str = r#"
replies:
  - {tool: {name: write_file, arguments: {path: notes.txt, content: "new text"}}}
  - {tool: {name: terminal, arguments: {command: "rm -rf ./made; pwd"}}}
  - {tool: {name: todo, arguments: {todos: [{id: "1", content: first, status: completed}, {id: "2", content: then, status: pending}]}}}
  - {text: all done}
default: {reply: {text: a title}}
"#;

#[test]
fn a_prompt_shows_changes_asks_for_permission_and_answers() {
    let home = EditorHome::new(WORK);
    std::fs::write(home.folder().join("notes.txt"), "old text").unwrap();
    std::fs::create_dir(home.folder().join("made")).unwrap();
    let folder = home.folder().to_owned();
    let seen = home.edit("allow_once", async move |connection| {
        let session = new_session(&connection, folder).await?;
        assert_eq!(prompt(&connection, &session, "do it").await?, StopReason::EndTurn);
        Ok(())
    });
    assert_eq!(std::fs::read_to_string(home.folder().join("notes.txt")).unwrap(), "new text");
    assert!(!home.folder().join("made").exists(), "the permission was given");
    assert_eq!(seen.answer().trim(), "all done");
    let updates = seen.updates();
    let diff = updates.iter().find_map(|update| match update {
        SessionUpdate::ToolCall(call) => call.content.iter().find_map(|content| match content {
            ToolCallContent::Diff(diff) => Some((call.clone(), diff.clone())),
            _ => None,
        }),
        _ => None,
    });
    let (call, diff) = diff.unwrap();
    assert_eq!((diff.old_text.as_deref(), diff.new_text.as_str()), (Some("old text"), "new text"));
    assert_eq!(call.locations[0].path, home.folder().join("notes.txt"));
    let ended = |status| {
        let has = |update: &&SessionUpdate| matches!(update, SessionUpdate::ToolCallUpdate(update) if update.fields.status == Some(status));
        updates.iter().filter(has).count()
    };
    assert_eq!(ended(ToolCallStatus::Completed), 3, "{updates:#?}");
    let plan = updates.iter().find_map(|update| match update {
        SessionUpdate::Plan(plan) => Some(plan.clone()),
        _ => None,
    });
    assert_eq!(plan.unwrap().entries.len(), 2);
    let permissions = seen.permissions.lock().unwrap();
    assert_eq!(permissions.len(), 1);
    assert!(format!("{:?}", permissions[0]).contains("rm -rf ./made"));
}

#[test]
fn a_permission_that_is_refused_stops_the_command() {
    let home = EditorHome::new(WORK);
    std::fs::create_dir(home.folder().join("made")).unwrap();
    let folder = home.folder().to_owned();
    home.edit("deny", async move |connection| {
        let session = new_session(&connection, folder).await?;
        prompt(&connection, &session, "do it").await?;
        Ok(())
    });
    assert!(home.folder().join("made").exists());
}

#[test]
fn in_the_mode_without_questions_nothing_is_asked() {
    let home = EditorHome::new(WORK);
    std::fs::create_dir(home.folder().join("made")).unwrap();
    let folder = home.folder().to_owned();
    let seen = home.edit("deny", async move |connection| {
        let session = new_session(&connection, folder).await?;
        let mode = SetSessionModeRequest::new(session.clone(), "dont_ask");
        connection.send_request(mode).block_task().await?;
        let unknown = SetSessionModeRequest::new(session.clone(), "no-such-mode");
        assert!(connection.send_request(unknown).block_task().await.is_err());
        prompt(&connection, &session, "do it").await?;
        Ok(())
    });
    assert!(!home.folder().join("made").exists());
    assert!(seen.permissions.lock().unwrap().is_empty());
}

#[test]
fn a_session_is_listed_and_loaded_by_the_next_process() {
    let script = r"
replies:
  - {when: {user_contains: first}, text: the first answer}
  - {when: {user_contains: second, body_contains: the first answer}, text: it goes on}
default: {reply: {text: a title}}
";
    let home = EditorHome::new(script);
    let folder = home.folder().to_owned();
    home.edit("deny", async move |connection| {
        let session = new_session(&connection, folder).await?;
        prompt(&connection, &session, "first").await?;
        Ok(())
    });
    let folder = home.folder().to_owned();
    let seen = home.edit("deny", async move |connection| {
        let listed = connection.send_request(ListSessionsRequest::new()).block_task().await?.sessions;
        assert_eq!((listed.len(), listed[0].cwd.clone()), (1, folder.clone()), "{listed:#?}");
        let session = listed[0].session_id.clone();
        connection
            .send_request(LoadSessionRequest::new(session.clone(), folder.clone()))
            .block_task()
            .await?;
        prompt(&connection, &session, "second").await?;
        let unknown = LoadSessionRequest::new("no-such-session", folder);
        assert!(connection.send_request(unknown).block_task().await.is_err());
        let refused = prompt(&connection, &SessionId::new("no-such-session"), "hello").await?;
        assert_eq!(refused, StopReason::Refusal);
        Ok(())
    });
    assert!(seen.answer().contains("the first answer") && seen.answer().contains("it goes on"), "{seen:?}");
    let user = |update: &SessionUpdate| matches!(update, SessionUpdate::UserMessageChunk(_));
    assert!(seen.updates().iter().any(user), "what was said is shown again");
}

#[test]
fn a_prompt_can_be_cancelled_and_files_are_embedded() {
    let script = r#"
replies:
  - events: [{text: "thinking about it"}, {wait: middle}, {text: never}]
  - {when: {user_contains: the embedded text}, text: read it}
default: {reply: {text: a title}}
"#;
    let home = Arc::new(EditorHome::new(script));
    let folder = home.folder().to_owned();
    let inside = home.clone();
    let seen = home.edit("deny", async move |connection| {
        let session = new_session(&connection, folder).await?;
        let stops = session.clone();
        let other = connection.clone();
        let (stopped, ()) = tokio::join!(prompt(&connection, &session, "begin"), async {
            inside.server.wait_until_at("middle", 1).await;
            other.send_notification(CancelNotification::new(stops)).unwrap();
        });
        assert_eq!(stopped?, StopReason::Cancelled);
        let file = TextResourceContents::new("the embedded text", "file:///notes.md");
        let blocks = vec![
            ContentBlock::Text(TextContent::new("look at this")),
            ContentBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(
                file,
            ))),
        ];
        connection.send_request(PromptRequest::new(session.clone(), blocks)).block_task().await?;
        assert_eq!(prompt(&connection, &session, "  ").await?, StopReason::EndTurn);
        prompt(&connection, &session, "/version").await?;
        prompt(&connection, &session, "/help").await?;
        Ok(())
    });
    let answer = seen.answer();
    assert!(
        answer.contains("read it") && answer.contains("Hermes Agent v") && answer.contains("`/compress`"),
        "{answer}"
    );
    assert!(!answer.contains("never"));
    let commands = |update: &SessionUpdate| matches!(update, SessionUpdate::AvailableCommandsUpdate(_));
    assert!(seen.updates().iter().any(commands));
}

#[test]
fn a_session_is_forked_resumed_and_gets_another_model() {
    let script = r"
models: [{id: test-model}, {id: other-model}]
replies:
  - {when: {user_contains: alphaword}, text: the first answer}
  - {when: {user_contains: betaword, body_contains: the first answer, model: other-model}, text: in the fork}
  - {when: {user_contains: gammaword, body_contains: the first answer, model: test-model}, text: in the original}
  - {when: {user_contains: deltaword}, text: begun anew}
default: {reply: {text: a title}}
";
    let home = EditorHome::new(script);
    let folder = home.folder().to_owned();
    let seen = home.edit("deny", async move |connection| {
        let original = new_session(&connection, folder.clone()).await?;
        prompt(&connection, &original, "alphaword").await?;
        let fork = ForkSessionRequest::new(original.clone(), folder.clone());
        let forked = connection.send_request(fork).block_task().await?;
        assert_ne!(forked.session_id, original);
        let choose = |value: &'static str| {
            let value = SessionConfigOptionValue::value_id(value);
            connection.send_request(SetSessionConfigOptionRequest::new(
                forked.session_id.clone(),
                "model",
                value,
            ))
        };
        assert!(choose("custom:no-such-model").block_task().await.is_err());
        // The models are listed in the background.
        let mut chosen = choose("custom:other-model").block_task().await;
        while chosen.is_err() {
            prompt(&connection, &forked.session_id, "/version").await?;
            chosen = choose("custom:other-model").block_task().await;
        }
        assert!(format!("{:?}", chosen?.config_options).contains("custom:other-model"));
        prompt(&connection, &forked.session_id, "betaword").await?;
        prompt(&connection, &original, "gammaword").await?;
        let listed = connection.send_request(ListSessionsRequest::new()).block_task().await?.sessions;
        assert_eq!(listed.len(), 2, "{listed:#?}");
        assert!(listed.iter().all(|session| session.cwd == folder), "{listed:#?}");
        Ok(())
    });
    assert!(seen.answer().contains("in the fork") && seen.answer().contains("in the original"), "{seen:?}");
    let offers = |update: &SessionUpdate| matches!(update, SessionUpdate::ConfigOptionUpdate(_));
    assert!(seen.updates().iter().any(offers), "the models were announced");
    let folder = home.folder().to_owned();
    let seen = home.edit("deny", async move |connection| {
        let listed = connection.send_request(ListSessionsRequest::new()).block_task().await?.sessions;
        let resume = ResumeSessionRequest::new(listed[0].session_id.clone(), folder.clone());
        connection.send_request(resume).block_task().await?;
        let unknown = ResumeSessionRequest::new("kept-by-the-editor", folder.clone());
        connection.send_request(unknown).block_task().await?;
        prompt(&connection, &SessionId::new("kept-by-the-editor"), "deltaword").await?;
        let bad = ResumeSessionRequest::new("../evil", folder);
        assert!(connection.send_request(bad).block_task().await.is_err());
        Ok(())
    });
    assert_eq!(seen.answer().trim(), "begun anew", "resuming shows nothing again");
}

#[test]
fn a_picture_in_a_prompt_reaches_the_model() {
    let home = EditorHome::new("replies:\n  - {text: seen}\ndefault: {reply: {text: a title}}\n");
    let folder = home.folder().to_owned();
    home.edit("deny", async move |connection| {
        let session = new_session(&connection, folder).await?;
        let blocks = vec![
            ContentBlock::Text(TextContent::new("what is it?")),
            ContentBlock::Image(ImageContent::new("iVBORw0KGgo=", "image/png")),
        ];
        connection.send_request(PromptRequest::new(session, blocks)).block_task().await?;
        Ok(())
    });
    let requests = home.server.requests();
    let has_picture = |request: &hermes_testkit::RecordedRequest| {
        request.body_text().contains("data:image/png;base64,iVBORw0KGgo=")
    };
    assert!(requests.iter().any(has_picture));
}

const EDITOR: &str = r#"
models: [{id: test-model}, {id: other-model}]
replies:
  - {when: {user_contains: pictureword, body_contains: "data:image/png"}, text: a picture}
  - {when: {user_contains: fileword, body_contains: the embedded text}, text: read the file}
  - {when: {user_contains: denyword}, tool: {name: terminal, arguments: {command: "rm -rf ./made"}}}
  - {when: {user_contains: denyword}, text: it stays}
  - {when: {user_contains: allowword}, tool: {name: terminal, arguments: {command: "rm -rf ./made"}}}
  - {when: {user_contains: allowword}, text: it is gone}
  - {when: {user_contains: slowword}, events: [{text: "slow begins"}, stall]}
  - {when: {user_contains: modelword, model: other-model}, text: from the other model}
  - {when: {user_contains: forkword}, text: in the fork}
default: {reply: {text: a title}}
"#;

#[test]
fn peer_the_published_client_speaks_with_us() {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let python = peers.join("acp/bin/python");
    if !python.exists() {
        hermes_testkit::peer_is_missing("the package agent-client-protocol is not installed");
        return;
    }
    let home = EditorHome::new(EDITOR);
    let output = std::process::Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/acp_editor.py"))
        .arg(super::support::program())
        .args([home.home.path(), home.folder()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.trim_end().ends_with("all well"), "{said}");
}
