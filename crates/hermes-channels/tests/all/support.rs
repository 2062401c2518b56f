//! Test doubles for channels: a host that stores documents in memory, and an intake that records envelopes.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hermes_channels::{
    ChannelContext, ChannelHost, HelperError, HelperRequest, IncomingFile, MenuCommand, Options,
    RunningHelper, WebhookMounts, platform,
};
use hermes_net::{Config, HttpClient, PrivateAddresses};
use hermes_types::{
    Attachment, BoxFuture, Cancel, Channel, ChannelError, ChatAddress, ChatKind, ChatPart, Clock,
    ConnectionStatus, Envelope, Intake, IntakeOutcome, InvitationDecision, OutgoingMessage, QuickReply,
    WebImage,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;

/// A host that keeps documents in memory and files on disk.
pub(crate) struct MemoryHost {
    private: PrivateAddresses,
    folder: TempDir,
    documents: Mutex<BTreeMap<String, Value>>,
    helper: Mutex<Option<HelperScript>>,
    settings: Mutex<BTreeMap<String, Value>>,
}

impl MemoryHost {
    pub(crate) fn new() -> Arc<Self> {
        Self::reaching(PrivateAddresses::Allow)
    }

    pub(crate) fn reaching(private: PrivateAddresses) -> Arc<Self> {
        Arc::new(Self {
            private,
            folder: tempfile::tempdir().unwrap(),
            documents: Mutex::default(),
            helper: Mutex::default(),
            settings: Mutex::default(),
        })
    }

    pub(crate) fn document(&self, name: &str) -> Option<Value> {
        self.documents.lock().unwrap().get(name).cloned()
    }

    /// Waits until a document was written.
    pub(crate) async fn until_document(&self, name: &str) {
        while self.document(name).is_none() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn set_setting(&self, platform: &str, key: &str, value: Value) {
        self.settings.lock().unwrap().insert(format!("{platform}.{key}"), value);
    }

    /// Starts this in place of helper programs.
    pub(crate) fn set_helper(&self, script: HelperScript) {
        *self.helper.lock().unwrap() = Some(script);
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl ChannelHost for MemoryHost {
    fn save_file<'a>(&'a self, file: IncomingFile<'a>) -> BoxFuture<'a, Result<Attachment, String>> {
        Box::pin(async move {
            let path =
                self.file(&format!("kept-{}{}", hermes_types::random_hex(8), file.extension), file.bytes);
            let (name, mime) = (file.name.map(str::to_owned), file.mime.map(str::to_owned));
            Ok(Attachment { kind: file.kind, path, name, mime })
        })
    }

    fn load_document(&self, name: &str) -> Option<Value> {
        self.document(name)
    }

    fn save_document(&self, name: &str, value: &Value) {
        self.documents.lock().unwrap().insert(name.to_owned(), value.clone());
    }

    fn private_folder(&self, platform: &str) -> Result<PathBuf, String> {
        let folder = self.folder.path().join("private").join(platform);
        std::fs::create_dir_all(&folder).unwrap();
        Ok(folder)
    }

    fn setting(&self, platform: &str, key: &str) -> Option<Value> {
        self.settings.lock().unwrap().get(&format!("{platform}.{key}")).cloned()
    }

    fn start_helper<'a>(
        &'a self,
        request: HelperRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn RunningHelper>, HelperError>> {
        Box::pin(async move {
            let script = self.helper.lock().unwrap().clone();
            let script = script.ok_or(HelperError::Missing("Node is not installed".to_owned()))?;
            script.0.lock().unwrap().first_lines.push(request.first_line.to_owned());
            Ok(Box::new(script) as Box<dyn RunningHelper>)
        })
    }

    fn save_setting(&self, platform: &str, key: &str, value: &Value) -> Result<(), String> {
        self.set_setting(platform, key, value.clone());
        Ok(())
    }
}

/// A helper program that says what the test wants, whoever started it.
#[derive(Clone, Default)]
pub(crate) struct HelperScript(Arc<Mutex<HelperState>>, Arc<Notify>);

#[derive(Default)]
struct HelperState {
    /// The lines to come; `None` is the end of the program.
    lines: VecDeque<Option<String>>,
    first_lines: Vec<String>,
    stops: usize,
}

impl HelperScript {
    pub(crate) fn say(&self, line: &Value) {
        self.0.lock().unwrap().lines.push_back(Some(line.to_string()));
        self.1.notify_one();
    }

    /// Ends the program.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap().lines.push_back(None);
        self.1.notify_one();
    }

    /// Returns the line that was written to each program that was started.
    pub(crate) fn first_lines(&self) -> Vec<String> {
        self.0.lock().unwrap().first_lines.clone()
    }

    pub(crate) fn stops(&self) -> usize {
        self.0.lock().unwrap().stops
    }
}

impl RunningHelper for HelperScript {
    fn next_line(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            loop {
                let next = self.0.lock().unwrap().lines.pop_front();
                if let Some(line) = next {
                    return line;
                }
                self.1.notified().await;
            }
        })
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().stops += 1;
        Box::pin(std::future::ready(()))
    }
}

/// Records envelopes, each key once, and refuses on request.
#[derive(Default)]
pub(crate) struct RecordingIntake {
    taken: Mutex<RecordedMessages>,
    changed: Notify,
}

#[derive(Default)]
struct RecordedMessages {
    envelopes: Vec<Envelope>,
    duplicates: usize,
    refusals: VecDeque<ChannelError>,
    connections: Vec<ConnectionStatus>,
    /// True while no envelope is accepted.
    paused: bool,
    /// The number of envelopes submitted, accepted or not.
    attempts: usize,
    /// The users whose invitations are accepted.
    welcome: Vec<String>,
}

impl RecordingIntake {
    /// Refuses the next message.
    pub(crate) fn refuse_next(&self) {
        let error = ChannelError::Retry { after: None, reason: "the disk is full".to_owned() };
        self.taken.lock().unwrap().refusals.push_back(error);
    }

    /// Makes submissions wait until the intake is resumed.
    pub(crate) fn set_paused(&self, shut: bool) {
        self.taken.lock().unwrap().paused = shut;
        self.changed.notify_waiters();
    }

    /// Accepts the invitations of a user.
    pub(crate) fn welcome(&self, user: &str) {
        self.taken.lock().unwrap().welcome.push(user.to_owned());
    }

    pub(crate) fn envelopes(&self) -> Vec<Envelope> {
        self.taken.lock().unwrap().envelopes.clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.envelopes().iter().map(Envelope::text).collect()
    }

    pub(crate) fn duplicates(&self) -> usize {
        self.taken.lock().unwrap().duplicates
    }

    pub(crate) fn connections(&self) -> Vec<ConnectionStatus> {
        self.taken.lock().unwrap().connections.clone()
    }

    /// Waits until the texts of the messages are as wanted.
    pub(crate) async fn until_texts(&self, wanted: impl Fn(&[String]) -> bool) {
        let texts = |taken: &RecordedMessages| {
            let texts: Vec<String> = taken.envelopes.iter().map(Envelope::text).collect();
            wanted(&texts).then_some(())
        };
        self.until(texts).await;
    }

    async fn until<R>(&self, mut look: impl FnMut(&RecordedMessages) -> Option<R>) -> R {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&self.taken.lock().unwrap()) {
                return found;
            }
            changed.await;
        }
    }

    /// Waits for this many messages.
    pub(crate) async fn until_taken(&self, count: usize) -> Vec<Envelope> {
        self.until(|taken| (taken.envelopes.len() >= count).then(|| taken.envelopes.clone())).await
    }

    /// Waits until this many messages were submitted, accepted or not.
    pub(crate) async fn until_attempted(&self, count: usize) {
        self.until(|taken| (taken.attempts >= count).then_some(())).await;
    }

    pub(crate) async fn until_duplicates(&self, count: usize) {
        self.until(|taken| (taken.duplicates >= count).then_some(())).await;
    }

    pub(crate) async fn until_connections(&self, count: usize) -> Vec<ConnectionStatus> {
        self.until(|taken| (taken.connections.len() >= count).then(|| taken.connections.clone())).await
    }
}

impl Intake for RecordingIntake {
    fn accept(&self, envelope: Envelope) -> BoxFuture<'_, Result<IntakeOutcome, ChannelError>> {
        Box::pin(async move {
            self.taken.lock().unwrap().attempts += 1;
            self.changed.notify_waiters();
            self.until(|taken| (!taken.paused).then_some(())).await;
            let mut taken = self.taken.lock().unwrap();
            let refused = taken.refusals.pop_front();
            let known = taken.envelopes.iter().any(|known| known.platform_key == envelope.platform_key);
            let accepted = match (refused, known) {
                (Some(error), _) => Err(error),
                (None, true) => {
                    taken.duplicates += 1;
                    Ok(IntakeOutcome::Duplicate)
                }
                (None, false) => {
                    taken.envelopes.push(envelope);
                    Ok(IntakeOutcome::New)
                }
            };
            drop(taken);
            self.changed.notify_waiters();
            accepted
        })
    }

    fn decide_invitation(&self, _: &str, user: &str, _: ChatKind) -> InvitationDecision {
        let taken = self.taken.lock().unwrap();
        if taken.welcome.iter().any(|known| known == user) {
            InvitationDecision::Accept
        } else {
            InvitationDecision::Decline
        }
    }

    fn report_connection(&self, _: &str, connection: ConnectionStatus) {
        self.taken.lock().unwrap().connections.push(connection);
        self.changed.notify_waiters();
    }
}

/// A channel that listens in the background until it is stopped or this is dropped.
pub(crate) struct ListeningChannel {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) inbox: Arc<RecordingIntake>,
    pub(crate) host: Arc<MemoryHost>,
    cancel: Cancel,
    ended: tokio::task::JoinHandle<Result<(), ChannelError>>,
}

impl ListeningChannel {
    /// Returns the result of `listen`.
    pub(crate) async fn ended(self) -> Result<(), ChannelError> {
        self.ended.await.unwrap()
    }

    /// Cancels the channel and waits for its end.
    pub(crate) async fn stop(self) -> (Arc<RecordingIntake>, Arc<MemoryHost>) {
        self.cancel.cancel();
        let _ = self.ended.await;
        (self.inbox, self.host)
    }

    /// Aborts the channel in the middle of its work.
    pub(crate) async fn kill(self) -> (Arc<RecordingIntake>, Arc<MemoryHost>) {
        self.ended.abort();
        let _ = self.ended.await;
        (self.inbox, self.host)
    }
}

/// Builds the settings of a platform.
pub(crate) fn options(variables: &[(&str, &str)], extra: Value) -> Options {
    let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Options::new(pairs.collect(), extra)
}

/// Opens a platform without listening.
pub(crate) fn open(
    name: &str,
    options: &Options,
    host: &Arc<MemoryHost>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Channel>, String> {
    let commands = ["new", "stop", "help", "status", "title", "model"].map(|name| MenuCommand {
        name: name.to_owned(),
        description: format!("what {name} does"),
        arguments: if name == "title" { "[name]".to_owned() } else { String::new() },
    });
    let mut config = Config::new(clock.clone());
    // URLs from the model may point to this machine.
    config.policy.private = host.private;
    let client = HttpClient::new(config).unwrap();
    let around = ChannelContext {
        client,
        clock: clock.clone(),
        host: host.clone(),
        mounts: WebhookMounts::default(),
        commands: Arc::new(commands),
    };
    (platform(name).unwrap().open)(options, around)
}

/// Opens a platform and listens.
pub(crate) fn listen(
    name: &str,
    options: &Options,
    host: &Arc<MemoryHost>,
    inbox: &Arc<RecordingIntake>,
    clock: &Arc<dyn Clock>,
) -> ListeningChannel {
    let channel = open(name, options, host, clock).unwrap();
    let cancel = Cancel::new();
    let (listener, intake, stop) = (channel.clone(), inbox.clone(), cancel.clone());
    let ended = tokio::spawn(async move { listener.listen(&*intake, &stop).await });
    ListeningChannel { channel, inbox: inbox.clone(), host: host.clone(), cancel, ended }
}

/// Builds a question with two choices.
pub(crate) fn question(platform: &str, place: &ChatAddress) -> OutgoingMessage {
    let choice = |label: &str, text: &str| QuickReply { label: label.to_owned(), text: text.to_owned() };
    let mut question = reply(platform, place, "May I?");
    question.choices = vec![choice("Allow once", "/approve #7"), choice("Deny", "/deny #7")];
    question
}

/// Builds a text message for a chat.
pub(crate) fn reply(platform: &str, place: &ChatAddress, text: &str) -> OutgoingMessage {
    OutgoingMessage {
        platform: platform.to_owned(),
        place: place.clone(),
        pieces: vec![ChatPart::Text { text: text.to_owned() }],
        reply_to: None,
        choices: Vec::new(),
        draft: None,
        idempotency_key: format!("key-{}", hermes_types::random_hex(8)),
    }
}

/// Builds an image part with a URL.
pub(crate) fn picture(url: &str, caption: &str) -> ChatPart {
    let caption = Some(caption.to_owned()).filter(|caption| !caption.is_empty());
    ChatPart::Picture(WebImage { url: url.to_owned(), caption })
}

/// The first bytes of image formats, enough to be recognised.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n...";
pub(crate) const GIF: &[u8] = b"GIF89a...";

/// Builds an address without further details.
pub(crate) fn place(kind: ChatKind, chat: &str, thread: Option<&str>) -> ChatAddress {
    let mut place = ChatAddress::new(kind, chat);
    place.thread_id = thread.map(str::to_owned);
    place
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
