//! The requests of an editor.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthenticateRequest, AuthenticateResponse, AvailableCommand, AvailableCommandsUpdate,
    CancelNotification, ConfigOptionUpdate, ForkSessionRequest, ForkSessionResponse, Implementation,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest,
    PromptResponse, ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities, SessionConfigOption,
    SessionForkCapabilities, SessionId, SessionInfo, SessionListCapabilities, SessionMode, SessionModeState,
    SessionNotification, SessionResumeCapabilities, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse, StopReason,
};
use agent_client_protocol::{Agent as AgentRole, Client, ConnectTo, Error};
use hermes_agent::{Agent, Conversation, STOP_GRACE, TurnEnding, TurnOutcome, TurnRequest, TurnWork};
use hermes_store::{NewSession, SessionFilter, Store};
use hermes_types::{BoxFuture, Clock, Message, Role, SessionKind, TaskId};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::content::{input_of, plain_text};
use crate::frontend::{EditorFrontend, chunk};
use crate::model_option::{ChosenModel, EditorModel, MODEL_OPTION};
use crate::session::{EditorSession, EditorSessions};
use crate::tool_call;

/// The source under which sessions of editors are stored.
const SOURCE: &str = "acp";
/// The most prompts that run at once.
const MAX_PROMPTS: usize = 4;
/// The most sessions of a list.
const MAX_LISTED: usize = 100;

/// Whether dangerous commands of a session need a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EditorMode {
    #[default]
    Ask,
    /// Nothing is asked.
    DontAsk,
}

impl EditorMode {
    const ALL: [(Self, &'static str, &'static str, &'static str); 2] = [
        (Self::Ask, "default", "Ask", "Asks before dangerous commands"),
        (Self::DontAsk, "dont_ask", "Don't ask", "Runs every command without asking"),
    ];

    fn id(self) -> &'static str {
        Self::ALL.iter().find(|(mode, ..)| *mode == self).map_or("default", |(_, id, ..)| id)
    }
}

/// What editors need of the program.
pub trait EditorAgents: Send + Sync {
    /// Returns the agent of a prompt, with the configured model or another, or the reason why there is none.
    fn agent(&self, model: Option<&EditorModel>) -> Result<Agent, String>;

    /// Lists the models to choose from. May wait for the network.
    fn models(&self) -> BoxFuture<'static, Vec<EditorModel>>;

    /// Sets the folder of a session's tools.
    fn set_working_folder(&self, task: &TaskId, folder: &Path);

    fn set_mode(&self, task: &TaskId, mode: EditorMode);

    /// Returns the provider whose credentials are there.
    fn provider(&self) -> Option<String>;

    /// Lists the slash commands with their descriptions.
    fn commands(&self) -> Vec<(String, String)>;

    /// Runs a slash command. Returns nothing if there is none of this name.
    fn run_command<'a>(
        &'a self,
        line: &'a str,
        agent: &'a Agent,
        conversation: &'a mut Conversation,
    ) -> BoxFuture<'a, Option<EditorReply>>;
}

/// What a slash command comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorReply {
    Text(String),
    /// A prompt for the model.
    Prompt(String),
}

/// The server of one editor.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct AcpServer {
    agents: Arc<dyn EditorAgents>,
    store: Store,
    clock: Arc<dyn Clock>,
    sessions: EditorSessions,
    prompts: Semaphore,
}

impl AcpServer {
    pub fn new(agents: Arc<dyn EditorAgents>, store: Store, clock: Arc<dyn Clock>) -> Self {
        let (sessions, prompts) = (EditorSessions::default(), Semaphore::new(MAX_PROMPTS));
        Self { agents, store, clock, sessions, prompts }
    }

    /// Serves the editor that started this process, over standard input and output.
    pub async fn serve_stdio(self) -> Result<(), Error> {
        self.serve(agent_client_protocol::Stdio::new()).await
    }

    /// Serves an editor until it closes the connection.
    pub async fn serve(self, transport: impl ConnectTo<AgentRole> + 'static) -> Result<(), Error> {
        let server = Arc::new(self);
        let done = AgentRole
            .v1()
            .name("hermes")
            .on_receive_request(
                async move |request: InitializeRequest, responder, _connection| {
                    responder.respond(initialize(&request))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |_: AuthenticateRequest, responder, _connection| match server.agents.provider()
                    {
                        Some(_) => responder.respond(AuthenticateResponse::new()),
                        None => responder.respond_with_error(Error::auth_required()),
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: NewSessionRequest, responder, connection| {
                        let (server, to) = (server.clone(), connection.clone());
                        connection.spawn(async move {
                            responder.respond_with_result(server.new_session(request.cwd, &to).await)
                        })
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: LoadSessionRequest, responder, connection| {
                        let (server, to) = (server.clone(), connection.clone());
                        connection.spawn(async move {
                            responder.respond_with_result(server.load_session(request, &to).await)
                        })
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: ResumeSessionRequest, responder, connection| {
                        let (server, to) = (server.clone(), connection.clone());
                        connection.spawn(async move {
                            responder.respond_with_result(server.resume_session(request, &to).await)
                        })
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: ForkSessionRequest, responder, connection| {
                        let (server, to) = (server.clone(), connection.clone());
                        connection.spawn(async move {
                            responder.respond_with_result(server.fork_session(request, &to).await)
                        })
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: SetSessionConfigOptionRequest, responder, _connection| {
                        responder.respond_with_result(server.set_option(&request))
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: ListSessionsRequest, responder, connection| {
                        let server = server.clone();
                        connection.spawn(async move {
                            responder.respond_with_result(server.list_sessions(&request).await)
                        })
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: SetSessionModeRequest, responder, _connection| {
                        responder.respond_with_result(server.set_mode(&request))
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                {
                    let server = server.clone();
                    async move |request: PromptRequest, responder, connection| {
                        let (server, to) = (server.clone(), connection.clone());
                        connection.spawn(async move {
                            responder.respond_with_result(server.prompt(request, to).await)
                        })
                    }
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_notification(
                {
                    let server = server.clone();
                    async move |cancelled: CancelNotification, _connection| {
                        if let Some(session) = server.sessions.get(&cancelled.session_id) {
                            session.cancel();
                        }
                        Ok(())
                    }
                },
                agent_client_protocol::on_receive_notification!(),
            )
            .connect_to(transport)
            .await;
        server.sessions.cancel_all();
        done
    }

    async fn new_session(
        &self,
        folder: PathBuf,
        connection: &ConnectionTo<Client>,
    ) -> Result<NewSessionResponse, Error> {
        let agent = self.agent(None)?;
        let conversation = agent.new_conversation(SOURCE, SessionKind::Local);
        let id = SessionId::new(conversation.session().as_str());
        self.store_session(&agent, &conversation, &folder).await?;
        let options = self.open(&id, folder, &agent, conversation, connection);
        Ok(NewSessionResponse::new(id).modes(modes(EditorMode::Ask)).config_options(options))
    }

    /// Stores the row of a session, so that the editor finds it again before its first prompt.
    async fn store_session(
        &self,
        agent: &Agent,
        conversation: &Conversation,
        folder: &Path,
    ) -> Result<(), Error> {
        let mut row = NewSession::new(conversation.session().clone(), SOURCE, self.clock.now());
        row.cwd = Some(folder.to_string_lossy().into_owned());
        row.model_config = Some(json!({ "cwd": row.cwd, "provider": agent.models().provider }).to_string());
        row.model = Some(agent.models().name.clone());
        self.store.create_session(row).await.map_err(Error::into_internal_error)
    }

    /// Opens a session, tells the editor its commands, and returns its options. The models that are not known yet follow.
    fn open(
        &self,
        id: &SessionId,
        folder: PathBuf,
        agent: &Agent,
        conversation: Conversation,
        connection: &ConnectionTo<Client>,
    ) -> Vec<SessionConfigOption> {
        let task = conversation.task().clone();
        self.agents.set_working_folder(&task, &folder);
        let models = agent.models();
        let current = EditorModel { provider: models.provider.clone(), model: models.name.clone() };
        let choice = ChosenModel::new(current);
        let options = choice.options();
        let session = self.sessions.insert(id, EditorSession::new(task, folder, conversation, choice));
        self.announce_commands(id, connection);
        let (listing, id, to) = (self.agents.models(), id.clone(), connection.clone());
        let announced = connection.spawn(async move {
            session.model.offer(listing.await);
            let update = ConfigOptionUpdate::new(session.model.options());
            to.send_notification(SessionNotification::new(id, SessionUpdate::ConfigOptionUpdate(update)))
        });
        if let Err(error) = announced {
            tracing::debug!(%error, "the editor is gone");
        }
        options
    }

    fn announce_commands(&self, id: &SessionId, connection: &ConnectionTo<Client>) {
        let commands = self.agents.commands().into_iter();
        let commands = commands.map(|(name, about)| AvailableCommand::new(name, about)).collect();
        let update = SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands));
        let notification = SessionNotification::new(id.clone(), update);
        if let Err(error) = connection.send_notification(notification) {
            tracing::debug!(%error, "the editor is gone");
        }
    }

    fn agent(&self, model: Option<&EditorModel>) -> Result<Agent, Error> {
        self.agents.agent(model).map_err(|reason| Error::internal_error().data(reason))
    }

    /// Opens a stored session and shows the editor what was said.
    async fn load_session(
        &self,
        request: LoadSessionRequest,
        connection: &ConnectionTo<Client>,
    ) -> Result<LoadSessionResponse, Error> {
        let id = request.session_id;
        let agent = self.agent(None)?;
        let conversation = self.stored(&id, &agent).await?.ok_or_else(no_such_session)?;
        let frontend = self.frontend(&id, request.cwd.clone(), connection.clone());
        for message in conversation.messages() {
            replay(message, &frontend, &request.cwd);
        }
        let options = self.open(&id, request.cwd, &agent, conversation, connection);
        Ok(LoadSessionResponse::new().modes(modes(EditorMode::Ask)).config_options(options))
    }

    /// Opens a stored session without showing it again. An unknown one begins anew under its id.
    async fn resume_session(
        &self,
        request: ResumeSessionRequest,
        connection: &ConnectionTo<Client>,
    ) -> Result<ResumeSessionResponse, Error> {
        let id = request.session_id;
        let agent = self.agent(None)?;
        let conversation = match self.stored(&id, &agent).await? {
            Some(conversation) => conversation,
            None if is_usable_id(&id) => {
                let stored = hermes_types::SessionId::new(id.0.to_string());
                let conversation = agent.new_conversation_with_id(stored, SOURCE, SessionKind::Local);
                self.store_session(&agent, &conversation, &request.cwd).await?;
                conversation
            }
            None => return Err(no_such_session()),
        };
        let options = self.open(&id, request.cwd, &agent, conversation, connection);
        Ok(ResumeSessionResponse::new().modes(modes(EditorMode::Ask)).config_options(options))
    }

    /// Copies a session to a new one, which goes on independently.
    async fn fork_session(
        &self,
        request: ForkSessionRequest,
        connection: &ConnectionTo<Client>,
    ) -> Result<ForkSessionResponse, Error> {
        let agent = self.agent(None)?;
        let original = match self.sessions.get(&request.session_id) {
            // A prompt that runs is waited for, because a half turn cannot be continued twice.
            Some(open) => open.conversation.lock().await.clone(),
            None => self.stored(&request.session_id, &agent).await?.ok_or_else(no_such_session)?,
        };
        let copied = agent.branch_conversation(&original, Some(&request.cwd)).await;
        let conversation = copied.map_err(Error::into_internal_error)?;
        let id = SessionId::new(conversation.session().as_str());
        let options = self.open(&id, request.cwd, &agent, conversation, connection);
        Ok(ForkSessionResponse::new(id).modes(modes(EditorMode::Ask)).config_options(options))
    }

    /// Loads a stored conversation; a turn in it that was cut off is closed. Returns nothing if there is none.
    async fn stored(&self, id: &SessionId, agent: &Agent) -> Result<Option<Conversation>, Error> {
        let stored = hermes_types::SessionId::new(id.0.to_string());
        if let Some(open) = self.sessions.get(id) {
            open.cancel();
        }
        let loaded = match agent.load_conversation(&stored).await {
            Ok(loaded) => loaded,
            Err(hermes_agent::Error::NotFound(_)) => return Ok(None),
            Err(error) => return Err(Error::into_internal_error(error)),
        };
        if let Some(cut_off) = &loaded.unfinished_turn {
            agent.drop_turn(cut_off).await.map_err(Error::into_internal_error)?;
        }
        Ok(Some(loaded.conversation))
    }

    fn set_option(
        &self,
        request: &SetSessionConfigOptionRequest,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        let session = self.sessions.get(&request.session_id).ok_or_else(no_such_session)?;
        if *request.config_id.0 != *MODEL_OPTION {
            return Err(Error::invalid_params().data("there is no such option"));
        }
        let chosen = session.model.choose(&request.value);
        chosen.ok_or_else(|| Error::invalid_params().data("there is no such model"))?;
        Ok(SetSessionConfigOptionResponse::new(session.model.options()))
    }

    fn frontend(&self, id: &SessionId, folder: PathBuf, to: ConnectionTo<Client>) -> EditorFrontend {
        EditorFrontend::new(to, id.clone(), folder, self.clock.clone())
    }

    async fn list_sessions(&self, request: &ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        let filter = SessionFilter::of_source(SOURCE);
        let listed =
            self.store.list_sessions(filter, MAX_LISTED).await.map_err(Error::into_internal_error)?;
        let mut sessions = Vec::new();
        for session in listed.into_iter().filter(|session| session.message_count > 0) {
            let row = self.store.session(&session.id).await.map_err(Error::into_internal_error)?;
            let config = row.and_then(|row| row.model_config).unwrap_or_default();
            let config: serde_json::Value = serde_json::from_str(&config).unwrap_or_default();
            let folder = PathBuf::from(config["cwd"].as_str().unwrap_or("/"));
            if request.cwd.as_ref().is_some_and(|wanted| *wanted != folder) {
                continue;
            }
            let title = session.title.unwrap_or(session.preview);
            sessions.push(SessionInfo::new(SessionId::new(session.id.as_str()), folder).title(title));
        }
        Ok(ListSessionsResponse::new(sessions))
    }

    fn set_mode(&self, request: &SetSessionModeRequest) -> Result<SetSessionModeResponse, Error> {
        let session = self.sessions.get(&request.session_id).ok_or_else(no_such_session)?;
        let wanted = EditorMode::ALL.iter().find(|(_, id, ..)| **id == *request.mode_id.0);
        let (mode, ..) = wanted.ok_or_else(Error::invalid_params)?;
        self.agents.set_mode(&session.task, *mode);
        Ok(SetSessionModeResponse::new())
    }

    async fn prompt(
        &self,
        request: PromptRequest,
        to: ConnectionTo<Client>,
    ) -> Result<PromptResponse, Error> {
        let id = request.session_id;
        let Some(session) = self.sessions.get(&id) else {
            return Ok(PromptResponse::new(StopReason::Refusal));
        };
        let Some(mut input) = input_of(&request.prompt) else {
            return Ok(PromptResponse::new(StopReason::EndTurn));
        };
        // The semaphore is never closed.
        let _running = self.prompts.acquire().await.map_err(Error::into_internal_error)?;
        let mut conversation = session.conversation.lock().await;
        let cancel = session.begin();
        let agent = self.agent(session.model.chosen().as_ref())?;
        let frontend = self.frontend(&id, session.folder.clone(), to);
        if let Some(line) = plain_text(&request.prompt).filter(|line| line.starts_with('/')) {
            match self.agents.run_command(line, &agent, &mut conversation).await {
                Some(EditorReply::Text(text)) => {
                    frontend.say(&text);
                    return Ok(PromptResponse::new(StopReason::EndTurn));
                }
                Some(EditorReply::Prompt(text)) => input = hermes_agent::TurnInput::text(text),
                None => {}
            }
        }
        let request = TurnRequest {
            work: TurnWork::begin(input),
            frontend: &frontend,
            cancel: &cancel,
            grace: Some(STOP_GRACE),
        };
        let outcome = agent.drive(&mut conversation, request).await.map_err(Error::into_internal_error)?;
        let TurnOutcome::Ended(result) = outcome else {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        };
        let (text, reason) = match result.ending() {
            TurnEnding::Answered(text) | TurnEnding::CutShort(text) => (Some(text), result.error.as_deref()),
            TurnEnding::Interrupted { text } => (text, None),
            TurnEnding::Failed { text, reason, .. } => (text, reason),
            TurnEnding::Silent { reason } => (None, reason),
        };
        if let Some(text) = text {
            frontend.finish(text);
        }
        if cancel.is_cancelled() || result.interrupted() {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        }
        if let Some(reason) = reason {
            frontend.say(&format!("\n\nError: {reason}"));
        }
        Ok(PromptResponse::new(StopReason::EndTurn))
    }
}

fn initialize(request: &InitializeRequest) -> InitializeResponse {
    let version = request.protocol_version.min(ProtocolVersion::V1);
    InitializeResponse::new(version)
        .agent_info(Implementation::new("hermes-agent", env!("CARGO_PKG_VERSION")).title("Hermes Agent"))
        .agent_capabilities(
            AgentCapabilities::new()
                .load_session(true)
                .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
                .session_capabilities(
                    SessionCapabilities::new()
                        .list(SessionListCapabilities::new())
                        .resume(SessionResumeCapabilities::new())
                        .fork(SessionForkCapabilities::new()),
                ),
        )
}

/// Tells whether an id that an editor kept can name a session here.
fn is_usable_id(id: &SessionId) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !id.0.is_empty() && id.0.len() <= 64 && id.0.chars().all(is_plain)
}

fn no_such_session() -> Error {
    Error::new(-32002, "there is no such session")
}

fn modes(current: EditorMode) -> SessionModeState {
    let available = EditorMode::ALL
        .iter()
        .map(|(_, id, name, about)| SessionMode::new(*id, *name).description((*about).to_owned()));
    SessionModeState::new(current.id(), available.collect())
}

/// Shows a stored message again.
fn replay(message: &Message, frontend: &EditorFrontend, folder: &Path) {
    let text = message.content.text();
    match message.role {
        Role::User => frontend.send(SessionUpdate::UserMessageChunk(chunk(&text))),
        Role::Assistant => {
            let text = hermes_text::strip_think(&text);
            if !text.trim().is_empty() {
                frontend.say(&text);
            }
            for call in &message.tool_calls {
                let shown = tool_call::started(call.id.as_str(), &call.name, &call.arguments, "", folder);
                let shown = shown.status(agent_client_protocol::v1::schema::ToolCallStatus::Completed);
                frontend.send(SessionUpdate::ToolCall(shown));
            }
        }
        Role::System | Role::Tool => {}
    }
}
