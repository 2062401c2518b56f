//! The gateway: builds its parts, starts and stops them.

use std::sync::Arc;

use hermes_agent::Calendar;
use hermes_store::{Error, Store};
use hermes_task::TaskGroup;
use hermes_types::{Cancel, Clock, HolderId};

use crate::active_conversations::ActiveConversations;
use crate::channel_supervisor::ChannelSupervisor;
use crate::chat_agents::ChatAgents;
use crate::chat_sessions::ChatSessions;
use crate::cron::{Scheduler, SchedulerParts};
use crate::deliver::Delivery;
use crate::inbox::Inbox;
use crate::intake::MessageIntake;
use crate::maintenance::Maintenance;
use crate::message_sender::ChatMessageSender;
use crate::ports::GatewayPorts;
use crate::questions::ChatQuestions;
use crate::resources::{DrainSwitch, GatewayResources};
use crate::sender_access::SenderAccess;
use crate::session::SessionIndex;
use crate::slash::{ChatCommands, CommandParts};
use crate::turn::{MessageReader, TurnDisplay, TurnParts, TurnRunner};
use crate::worker::{ConversationWorkers, WorkerParts};

/// A handle to the gateway. Clones refer to the same gateway.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Gateway {
    store: Store,
    clock: Arc<dyn Clock>,
    index: Arc<SessionIndex>,
    delivery: Delivery,
    workers: Arc<ConversationWorkers>,
    intake: MessageIntake,
    channels: Arc<ChannelSupervisor>,
    scheduler: Arc<Scheduler>,
    maintenance: Arc<Maintenance>,
    status: GatewayStatus,
    tasks: Arc<TaskGroup>,
    /// The tasks of turns; they end first: turns stop where they are and are resumed at the next start.
    turns: Arc<TaskGroup>,
}

impl Gateway {
    /// Builds a gateway that sends through `sender`. Nothing runs yet.
    pub fn new(
        sender: &ChatMessageSender,
        calendar: Calendar,
        ports: &GatewayPorts,
        cancel: &Cancel,
    ) -> Self {
        let resources = GatewayResources {
            store: sender.store().clone(),
            clock: sender.clock().clone(),
            calendar,
            settings: sender.settings().clone(),
            observer: ports.observer.clone(),
            holder: HolderId::generate(),
            draining: DrainSwitch::default(),
            tasks: Arc::new(TaskGroup::new(cancel)),
            turns: Arc::new(TaskGroup::new(cancel)),
        };
        let (store, clock, settings) = (&resources.store, &resources.clock, &resources.settings);
        let (delivery, outbox, index) = (sender.delivery(), sender.outbox(), sender.index());
        let conversations = Arc::new(ActiveConversations::default());
        let access = SenderAccess::new(settings.clone());
        let inbox = Inbox::new(store.clone(), clock.clone(), outbox.clone());
        let questions = ChatQuestions::new(&resources, conversations.clone(), outbox.clone());
        let agents = ChatAgents::new(ports.agents.clone(), settings.clone(), delivery.clone());
        let sessions = Arc::new(ChatSessions::new(
            &resources,
            index.clone(),
            agents.clone(),
            outbox.clone(),
            ports.processes.clone(),
        ));
        let commands = CommandParts {
            access: access.clone(),
            conversations: conversations.clone(),
            agents: agents.clone(),
            sessions: sessions.clone(),
            questions: questions.clone(),
            delivery: delivery.clone(),
        };
        let turn = TurnParts {
            conversations: conversations.clone(),
            agents,
            sessions: sessions.clone(),
            inbox: inbox.clone(),
            outbox: outbox.clone(),
            display: TurnDisplay::new(&resources, delivery.clone(), questions.clone()),
            messages: MessageReader::new(ports.skills.clone(), ports.expansion.clone()),
        };
        let work = WorkerParts {
            conversations: conversations.clone(),
            inbox,
            outbox: outbox.clone(),
            questions,
            commands: ChatCommands::new(&resources, commands, ports),
            runner: TurnRunner::new(&resources, turn),
        };
        let workers = Arc::new(ConversationWorkers::new(&resources, work));
        let intake = MessageIntake::new(&resources, access, outbox.clone(), workers.clone());
        let jobs = SchedulerParts {
            destinations: sender.destinations().clone(),
            delivery: delivery.clone(),
            outbox: outbox.clone(),
        };
        let (directory, tasks) = (sender.directory().clone(), resources.tasks.clone());
        let channels = ChannelSupervisor::new(intake.clone(), delivery.clone(), clock.clone(), tasks);
        let maintenance =
            Maintenance::new(&resources, index.clone(), sessions, conversations.clone(), directory);
        let draining = resources.draining.clone();
        Self {
            channels: Arc::new(channels),
            scheduler: Arc::new(Scheduler::new(&resources, jobs, ports)),
            maintenance: Arc::new(maintenance),
            status: GatewayStatus { conversations, delivery: delivery.clone(), draining },
            index: index.clone(),
            delivery: delivery.clone(),
            workers,
            intake,
            store: resources.store,
            clock: resources.clock,
            tasks: resources.tasks,
            turns: resources.turns,
        }
    }

    /// Returns the intake, to which messages are passed.
    pub fn intake(&self) -> &MessageIntake {
        &self.intake
    }

    /// Returns the supervisor of the channels.
    pub fn channels(&self) -> &Arc<ChannelSupervisor> {
        &self.channels
    }

    /// Returns the scheduler of jobs.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// Returns a handle that tells what the gateway is doing.
    pub fn status(&self) -> &GatewayStatus {
        &self.status
    }

    /// Recovers what an earlier process left, before any platform is connected, so that a reply it was sending is
    /// not confused with one that is being sent now.
    pub async fn recover(&self) -> Result<(), Error> {
        self.index.import(self.clock.now()).await?;
        self.index.import_transcripts(self.clock.now()).await?;
        let unsure = self.store.recover_outbox().await?;
        if unsure > 0 {
            tracing::info!(
                count = unsure,
                "replies were being sent when the last process ended; they are sent again"
            );
        }
        Ok(())
    }

    /// Continues with waiting messages and cut-off turns, after the platforms are connected.
    pub async fn resume_work(&self) -> Result<(), Error> {
        self.workers.resume().await
    }

    /// Starts periodic maintenance.
    pub fn start_maintenance(&self) {
        self.maintenance.start();
    }

    /// Updates the files for other programs; called periodically.
    pub async fn export_files(&self) {
        self.maintenance.export_files().await;
    }

    /// Stops new turns from starting: incoming messages are stored and wait for the next process.
    pub fn drain(&self) {
        self.status.draining.begin();
    }

    /// Stops everything cleanly. Turns that still run are left to the next process, which resumes them; that does
    /// not count as a cut-off.
    pub async fn stop(&self) {
        self.abort().await;
        match self.store.release_turns().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "turns are left to the next start"),
            Err(error) => tracing::warn!(%error, "turns that run count as cut off at the next start"),
        }
        self.export_files().await;
    }

    /// Stops everything immediately, as the death of the process would.
    pub async fn abort(&self) {
        self.turns.shut_down().await;
        self.tasks.shut_down().await;
        self.delivery.stop().await;
    }
}

/// Tells what a gateway is doing. Clones tell about the same gateway.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct GatewayStatus {
    conversations: Arc<ActiveConversations>,
    delivery: Delivery,
    draining: DrainSwitch,
}

impl GatewayStatus {
    /// Returns the connected platforms.
    pub fn platforms(&self) -> Vec<String> {
        self.delivery.platforms()
    }

    /// Returns the number of turns that are running or about to.
    pub fn active_turns(&self) -> usize {
        self.conversations.len()
    }

    /// Tells whether new messages are kept for the next process.
    pub fn is_draining(&self) -> bool {
        self.draining.is_draining()
    }
}
