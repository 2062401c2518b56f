//! Test support: a gateway in a temporary home, with a platform and a model inside the test.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_agent::{Agent, AgentModels, PromptSource, RequestOptions, ReviewIntervals};
use hermes_config::{Env, Home};
use hermes_gateway::{
    AgentProvider, AgentRequest, ChatMessageSender, DeliveryPorts, EventObserver, FileSendPolicy, Gateway,
    GatewayPorts, HelperPrograms, LiveSettings, MessageExpansion, NoServices, PlatformCatalog, ProcessInfo,
    SkillPrompts,
};
use hermes_store::Store;
use hermes_task::SystemClock;
use hermes_testkit::{EndRecordingTool, FakeChannel, PlainTool, RiskyTool, TestClock};
pub(crate) use hermes_testkit::{ModelStep, TestModel};
use hermes_types::{Cancel, Channel, CivilTime, Clock, ToolRole};
use tempfile::TempDir;

pub(crate) struct TestAgentProvider {
    witness: Arc<EndRecordingTool>,
    pub(crate) model: Arc<TestModel>,
    store: Store,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    /// The result of the plain tool.
    says: Option<String>,
    /// The agent requests, as text.
    wishes: Arc<Mutex<Vec<String>>>,
}

impl AgentProvider for TestAgentProvider {
    fn agent(&self, wish: &AgentRequest<'_>) -> Result<Agent, String> {
        self.wishes.lock().unwrap().push(format!("{wish:?}"));
        let prompt = PromptSource::new(Home::new(&self.folder), self.folder.join("project"));
        let models = AgentModels::new(self.model.clone(), "m");
        let plain = self.says.as_deref().map_or_else(PlainTool::new, |says| PlainTool::new().saying(says));
        let mut agent = Agent::builder(models, self.store.clone(), self.clock.clone(), prompt)
            .tools(vec![Arc::new(RiskyTool::new()), Arc::new(plain), self.witness.clone()])
            .request_options(RequestOptions { ephemeral: wish.context.clone(), ..RequestOptions::default() });
        if wish.platform == "cron" {
            agent = agent.tool(Arc::new(PlainTool::named("send_message").saying("sent")));
        }
        if wish.platform == "noted" {
            agent = agent
                .tool(Arc::new(PlainTool::named("memory").with_role(ToolRole::Memory)))
                .review_intervals(ReviewIntervals { flush_after: 1, ..ReviewIntervals::default() });
        }
        Ok(agent.build())
    }
}

/// An observer that records the names of events.
#[derive(Default)]
pub(crate) struct EventRecorder(pub(crate) Mutex<Vec<String>>);

impl EventObserver for EventRecorder {
    fn emit(&self, event: &str, _: serde_json::Value) {
        self.0.lock().unwrap().push(event.to_owned());
    }
}

pub(crate) struct GatewayFixture {
    pub(crate) events: Arc<EventRecorder>,
    pub(crate) witness: Arc<EndRecordingTool>,
    pub(crate) gateway: Gateway,
    pub(crate) sender: ChatMessageSender,
    pub(crate) channel: FakeChannel,
    pub(crate) model: Arc<TestModel>,
    pub(crate) clock: TestClock,
    pub(crate) store: Store,
    pub(crate) cancel: Cancel,
    pub(crate) folder: Arc<TempDir>,
    pub(crate) wishes: Arc<Mutex<Vec<String>>>,
}

/// The starting state of a fixture.
pub(crate) struct GatewayFixturePlan {
    pub(crate) model: Arc<TestModel>,
    pub(crate) config: &'static str,
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) channel: FakeChannel,
    pub(crate) clock: TestClock,
    /// The result of the plain tool.
    pub(crate) says: Option<String>,
    pub(crate) platforms: Arc<dyn PlatformCatalog>,
    pub(crate) files: Arc<dyn FileSendPolicy>,
    pub(crate) skills: Arc<dyn SkillPrompts>,
    pub(crate) processes: Arc<dyn ProcessInfo>,
    pub(crate) programs: Arc<dyn HelperPrograms>,
    pub(crate) expansion: Arc<dyn MessageExpansion>,
}

impl GatewayFixturePlan {
    pub(crate) fn new(model: Arc<TestModel>) -> Self {
        Self {
            model,
            config: "",
            env: &[
                ("FAKE_ALLOW_ALL_USERS", "1"),
                ("FAKE_ALLOWED_USERS", "ann"),
                ("FAKE_HOME_CHANNEL", "home"),
            ],
            channel: FakeChannel::new("fake"),
            clock: TestClock::new(),
            says: None,
            platforms: Arc::new(NoServices),
            files: Arc::new(NoServices),
            skills: Arc::new(NoServices),
            processes: Arc::new(NoServices),
            programs: Arc::new(NoServices),
            expansion: Arc::new(NoServices),
        }
    }

    pub(crate) async fn start(self) -> GatewayFixture {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        self.start_in(folder).await
    }

    /// Starts in the same home, as after a restart.
    pub(crate) async fn start_in(self, folder: Arc<TempDir>) -> GatewayFixture {
        std::fs::create_dir_all(folder.path().join("project")).unwrap();
        std::fs::create_dir_all(folder.path().join("sessions")).unwrap();
        std::fs::write(folder.path().join("config.yaml"), self.config).unwrap();
        let home = Home::new(folder.path());
        let store = Store::open(&folder.path().join("state.db")).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let live =
            LiveSettings::new(home, Env::from_pairs(self.env.iter().copied()), folder.path().join("project"));
        let wishes = Arc::default();
        let witness = EndRecordingTool::new();
        let agents = Arc::new(TestAgentProvider {
            witness: witness.clone(),
            says: self.says.clone(),
            wishes: Arc::clone(&wishes),
            model: self.model.clone(),
            store: store.clone(),
            clock: clock.clone(),
            folder: folder.path().to_owned(),
        });
        let events = Arc::new(EventRecorder::default());
        let cancel = Cancel::new();
        let sender = ChatMessageSender::new(
            store.clone(),
            clock,
            Arc::new(CivilTime::utc),
            live,
            DeliveryPorts { platforms: self.platforms.clone(), files: self.files.clone() },
            &cancel,
        );
        let ports = GatewayPorts {
            skills: self.skills.clone(),
            processes: self.processes.clone(),
            programs: self.programs.clone(),
            expansion: self.expansion.clone(),
            observer: events.clone(),
            ..GatewayPorts::new(agents)
        };
        let gateway = Gateway::new(&sender, Arc::new(CivilTime::utc), &ports, &cancel);
        gateway.recover().await.unwrap();
        sender.delivery().connect(Arc::new(self.channel.clone()));
        let (listener, intake, stop) = (self.channel.clone(), gateway.intake().clone(), cancel.clone());
        drop(hermes_task::spawn_named("listening", &cancel, async move {
            let _ = listener.listen(&intake, &stop).await;
        }));
        gateway.resume_work().await.unwrap();
        GatewayFixture {
            events,
            witness,
            gateway,
            sender,
            channel: self.channel,
            model: self.model,
            clock: self.clock,
            store,
            cancel,
            folder,
            wishes,
        }
    }
}

impl GatewayFixture {
    pub(crate) async fn with(model: Arc<TestModel>) -> Self {
        GatewayFixturePlan::new(model).start().await
    }

    /// Waits until the model has been called this often.
    pub(crate) async fn until_asked(&self, count: usize) {
        let clock = SystemClock::new();
        while self.model.requests.lock().unwrap().len() < count {
            clock.sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until no conversation is active and no message waits.
    pub(crate) async fn until_quiet(&self) {
        let clock = SystemClock::new();
        loop {
            let inbox = self.store.inbox_depth().await.unwrap().waiting;
            let outbox = self.store.outbox_depth().await.unwrap().waiting;
            if inbox == 0 && outbox == 0 && self.gateway.status().active_turns() == 0 {
                return;
            }
            clock.sleep(Duration::from_millis(2)).await;
        }
    }

    /// Ends the process immediately.
    pub(crate) async fn kill(self) -> Arc<TempDir> {
        self.cancel.cancel();
        self.gateway.abort().await;
        self.store.close().await.unwrap();
        self.folder
    }

    /// Ends the process cleanly.
    pub(crate) async fn end(self) -> Arc<TempDir> {
        self.gateway.stop().await;
        self.cancel.cancel();
        self.store.close().await.unwrap();
        self.folder
    }
}

/// Starts a gateway with the system clock, as a separate process does.
pub(crate) async fn start_for_real(home: &Path, model: Arc<TestModel>, channel: Arc<dyn Channel>) -> Gateway {
    std::fs::create_dir_all(home.join("project")).unwrap();
    std::fs::create_dir_all(home.join("sessions")).unwrap();
    let store = Store::open(&home.join("state.db")).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let env = Env::from_pairs([("FAKE_ALLOW_ALL_USERS", "1"), ("FAKE_HOME_CHANNEL", "home")]);
    let live = LiveSettings::new(Home::new(home), env, home.join("project"));
    let agents = Arc::new(TestAgentProvider {
        witness: EndRecordingTool::new(),
        says: None,
        model,
        store: store.clone(),
        clock: clock.clone(),
        folder: home.to_owned(),
        wishes: Arc::default(),
    });
    let cancel = Cancel::new();
    let none = Arc::new(NoServices);
    let sender = ChatMessageSender::new(
        store,
        clock,
        Arc::new(CivilTime::utc),
        live,
        DeliveryPorts { platforms: none.clone(), files: none },
        &cancel,
    );
    let gateway = Gateway::new(&sender, Arc::new(CivilTime::utc), &GatewayPorts::new(agents), &cancel);
    gateway.recover().await.unwrap();
    sender.delivery().connect(channel.clone());
    gateway.resume_work().await.unwrap();
    let intake = gateway.intake().clone();
    drop(hermes_task::spawn_named("listening", &cancel, async move {
        let _ = channel.listen(&intake, &Cancel::new()).await;
    }));
    gateway
}
