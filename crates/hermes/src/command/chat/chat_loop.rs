//! The interactive chat: reads a line, runs a turn, shows the answer, reads the next line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hermes_agent::{Agent, Conversation, Naming, TurnInput, TurnOutcome, TurnRequest, TurnResult, TurnWork};
use hermes_exec::release_program_pages;
use hermes_plugins::PluginMessage;
use hermes_store::EndReason;
use hermes_task::TaskGroup;
use hermes_tools::Yolo;
use hermes_tui::{Operation, ScreenHandle, StatusFields};
use hermes_types::{Cancel, Frontend as _, MessageContent, UserAnswer, UserQuestion};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::background::{BackgroundPrompts, BackgroundReport};
use super::banner;
use super::drive::{DrivenTurn, TypedLinePolicy, drive};
use super::frontend::{ChatFrontend, ChatView, RunningWork};
use super::goal::{self, DueGoalWork};
use super::images::{ChatImages, add_images};
use super::input::{ChatEvent, ChatInput};
use super::message::TypedMessage;
use super::opening::{self, OpenedConversation};
use super::references::{ReferenceOutcome, with_references};
use super::signals::{ChatSignal, ChatSignals};
use super::slash::{self, CommandEffect};
use super::terminal::{DisplayMode, QuestionTimeouts, TerminalFrontend, display_settings};
use super::voice::{self, VoiceMode};
use super::{pictures, screen, skins, summary};
use crate::cli::ChatArguments;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::{AgentRuntime, working_folder};

/// Limits the wait for background work when the chat ends.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A running chat.
pub(crate) struct ChatLoop<'a> {
    pub(crate) runtime: &'a mut AgentRuntime,
    pub(crate) opened: OpenedConversation,
    pub(crate) output: &'a Console,
    pub(crate) context: &'a ProgramContext,
    pub(crate) terminal: ChatFrontend<'a>,
    pub(crate) input: ChatInput,
    pub(crate) signals: ChatSignals,
    /// Title generation and reviews, which run in the background.
    follow_up_tasks: TaskGroup,
    /// What reviews stored, in lines for the user.
    review_notes: (UnboundedSender<String>, UnboundedReceiver<String>),
    started_at: hermes_types::Timestamp,
    /// How long the next turn waits for MCP servers: only the first one does.
    pub(crate) server_wait: Duration,
    /// The lines typed while a turn ran, in order.
    pub(crate) queue: std::collections::VecDeque<TypedMessage>,
    /// Where pictures are found.
    pub(crate) images: Arc<ChatImages>,
    /// The pictures that go with the next message of the line interface.
    pub(crate) pending_images: Vec<PathBuf>,
    pub(crate) background: BackgroundPrompts,
    /// What plugins say in place of the user.
    plugin_messages: Option<UnboundedReceiver<PluginMessage>>,
    /// The tokens of the last request.
    last_request: Option<u64>,
    /// The cost of the turns of this run, as far as it is known.
    spent_micro_usd: Option<u64>,
    /// The setting that says whether dangerous commands run without approval.
    pub(crate) yolo: Yolo,
    pub(super) due_goal_work: DueGoalWork,
    pub(super) voice: VoiceMode,
}

pub(crate) async fn run(
    wired: &mut AgentRuntime,
    opened: OpenedConversation,
    arguments: &ChatArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let display = display_settings(wired, arguments, context);
    let folder = working_folder(context, &wired.config)?;
    let clock = wired.agent.clock().clone();
    let images = Arc::new(ChatImages::new(context.home.clone(), context.env.clone(), folder, clock));
    let mut pending_images = Vec::new();
    for typed in &arguments.images {
        pending_images.push(images.resolve(typed).map_err(anyhow::Error::msg)?);
    }
    let recap = display.resume_display != "minimal";
    let (view, input) = if screen::is_wanted(arguments, &context.env) {
        let (handle, operations) = {
            let pictures = screen::picture_support(&display, context).await;
            screen::open(wired, &display, &images, pictures, context)?
        };
        output.show_on(Some(handle.clone()));
        pending_images.drain(..).for_each(|image| handle.attach(image));
        (ChatView::Screen(handle), ChatInput::Screen(operations))
    } else {
        let input = ChatInput::person();
        let (patience, clock) = (QuestionTimeouts::from_config(&wired.config), wired.agent.clock().clone());
        let lines =
            TerminalFrontend::new(output, DisplayMode::Full, display.clone(), clock, patience, &input);
        (ChatView::Lines(Box::new(lines)), input)
    };
    let background = BackgroundPrompts::new();
    let work = RunningWork {
        background: background.list(),
        processes: wired.command_runtime.processes.clone(),
        clock: wired.agent.clock().clone(),
    };
    let terminal = ChatFrontend::new(view, display).with_work(work).with_trajectories(&wired.config);
    let began = wired.agent.clock().now();
    let voice = VoiceMode::new(&wired.config, context, wired.agent.clock(), terminal.screen().cloned());
    let server_wait = wired.discovery_timeout(context);
    let mut chat = ChatLoop {
        plugin_messages: wired.extensions().plugins.take_messages(),
        runtime: wired,
        server_wait,
        opened,
        output,
        context,
        terminal,
        input,
        signals: ChatSignals::listen()?,
        follow_up_tasks: TaskGroup::new(&Cancel::new()),
        review_notes: unbounded_channel(),
        started_at: began,
        queue: std::collections::VecDeque::new(),
        images,
        pending_images,
        background,
        last_request: None,
        spent_micro_usd: None,
        yolo: if arguments.yolo { Yolo::On } else { Yolo::Off },
        due_goal_work: DueGoalWork::Nothing,
        voice,
    };
    let done = match chat.greet(recap && !arguments.quiet).await {
        Ok(()) => chat.run_loop().await,
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        chat.leave_screen().await;
        return Err(error);
    }
    chat.close().await
}

/// Runs a turn, or continues an interrupted one.
pub(super) async fn drive_turn(
    agent: &Agent,
    conversation: &mut Conversation,
    work: TurnWork,
    terminal: &ChatFrontend<'_>,
    cancel: &Cancel,
) -> Result<TurnResult, hermes_agent::Error> {
    let session = conversation.session().clone();
    let request = TurnRequest { work, frontend: terminal, cancel, grace: None };
    match agent.drive(conversation, request).await? {
        TurnOutcome::Ended(result) => {
            terminal.save_trajectory(agent, conversation, &result);
            Ok(*result)
        }
        // Another process has ended it after this one looked.
        TurnOutcome::Abandoned | TurnOutcome::Parked(_) => Err(hermes_agent::Error::NotFound(session)),
    }
}

impl ChatLoop<'_> {
    async fn greet(&mut self, recap: bool) -> Result<()> {
        let agent = &self.runtime.agent;
        let skin = skins::load(&self.terminal.display().skin, &self.context.home);
        match self.terminal.screen() {
            Some(screen) => screen.print_banner(banner::describe(self, &skin)),
            None => self.output.line(&format!(
                "{} · {} · {} tools · /help for commands",
                banner::title(&skin),
                agent.models().name,
                agent.tools().len()
            )),
        }
        if !skin.welcome.is_empty() {
            self.output.line(&skin.welcome);
        }
        if let Some(notice) = self.runtime.command_runtime.sandbox_notice() {
            self.output.line(&notice);
        }
        if !self.runtime.preloaded_skills.is_empty() {
            self.output.line(&format!("Activated skills: {}", self.runtime.preloaded_skills.join(", ")));
        }
        if !self.opened.resumed
            && let Some(session) = agent.find_unfinished_session(self.opened.conversation.source()).await?
        {
            self.output.line(&format!(
                "The last turn of session {session} was cut off before it ended; `hermes -c` goes on with it."
            ));
        }
        if self.opened.resumed {
            self.output.line(&opening::greeting(&self.opened));
            if recap && !self.opened.conversation.messages().is_empty() {
                let text =
                    summary::recap(self.opened.conversation.messages(), &self.terminal.display().recap);
                match self.terminal.screen() {
                    Some(screen) => screen.notice(text),
                    None => self.output.text(&text),
                }
            }
        }
        let Some(cut_off) = self.opened.unfinished_turn.take() else { return Ok(()) };
        self.output.line(&opening::describe_unfinished_turn(&cut_off));
        if cut_off.parked {
            return Ok(agent.drop_turn(&cut_off).await?);
        }
        let answer = match self.terminal.screen().cloned() {
            Some(screen) => self.ask_on(&screen).await,
            None => self.ask_in_lines().await,
        };
        // A signal does not ask to discard the turn either.
        let Some(goes_on) = answer else { return Ok(()) };
        if goes_on {
            let cancel = Cancel::new();
            let (agent, conversation) = (&self.runtime.agent, &mut self.opened.conversation);
            let work = TurnWork::Resume(cut_off);
            let turn = drive_turn(agent, conversation, work, &self.terminal, &cancel);
            let driven = drive(
                turn,
                &self.terminal,
                &mut self.input,
                &mut self.signals,
                &cancel,
                TypedLinePolicy::Interrupt,
            )
            .await;
            self.finish_turn(driven)?;
        } else {
            self.runtime.agent.drop_turn(&cut_off).await?;
        }
        Ok(())
    }

    /// Asks whether a turn goes on. Returns nothing when a signal ends the chat.
    async fn ask_on(&mut self, screen: &ScreenHandle) -> Option<bool> {
        let question = UserQuestion::Clarify {
            question: "Go on with it now?".to_owned(),
            choices: vec!["Yes".to_owned(), "No".to_owned()],
        };
        let cancel = Cancel::new();
        tokio::select! {
            biased;
            _ = self.signals.next() => None,
            answer = screen.ask(question, &cancel) => Some(answer == UserAnswer::Text("Yes".to_owned())),
        }
    }

    async fn ask_in_lines(&mut self) -> Option<bool> {
        self.output.text("Go on with it now? [Y/n] ");
        tokio::select! {
            biased;
            heard = self.signals.next() => match heard {
                ChatSignal::End => None,
                ChatSignal::Interrupt => Some(false),
            },
            event = self.input.next() => Some(match event {
                Some(ChatEvent::Line(line)) => {
                    matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes")
                }
                Some(ChatEvent::Screen(_)) | None => false,
            }),
        }
    }

    async fn run_loop(&mut self) -> Result<()> {
        loop {
            self.show_status();
            if let Some(prompt) = goal::next_prompt(self).await? {
                self.run_turn(TurnInput::text(prompt)).await?;
                continue;
            }
            // A chat that waits for its user needs little of the program.
            release_program_pages();
            let Some(message) = self.next_message().await else { return Ok(()) };
            if message.is_blank() {
                continue;
            }
            if message.is_command() {
                match slash::run(self, message.text.trim()).await? {
                    CommandEffect::Quit => return Ok(()),
                    CommandEffect::Continue => {}
                    CommandEffect::Say(text) => self.send_message(text.into()).await?,
                    CommandEffect::Invoke(words) => self.run_turn(TurnInput::text(words)).await?,
                }
            } else {
                let text = message.text.trim().to_owned();
                self.send_message(TypedMessage { text, ..message }).await?;
            }
        }
    }

    /// Returns the next queued message, else the next typed one; `None` when the chat is to end. Ctrl-C on an empty
    /// line leaves only when it is pressed twice.
    async fn next_message(&mut self) -> Option<TypedMessage> {
        if self.signals.exit_code().is_some() {
            return None;
        }
        if let Some(message) = self.queue.pop_front() {
            // The screen shows what waits by itself.
            if self.terminal.screen().is_none() {
                self.output.line(&format!("📨 Queued: '{}'", message.text));
            }
            return Some(message);
        }
        let mut warned = false;
        self.voice.resume();
        loop {
            if self.terminal.screen().is_none() {
                self.output.text("❯ ");
            }
            tokio::select! {
                biased;
                heard = self.signals.next() => {
                    if warned || heard == ChatSignal::End {
                        return None;
                    }
                    warned = true;
                    if let Some(typing) = self.input.typing() {
                        typing.discard_line();
                    }
                    self.output.line("\n(press Ctrl-C again, or type /quit, to leave)");
                }
                event = self.input.next() => match event? {
                    ChatEvent::Line(line) => return Some(line.into()),
                    ChatEvent::Screen(operation) => match operation {
                        Operation::Submit(text) | Operation::Queue(text) | Operation::Steer(text) => {
                            return Some(text.into());
                        }
                        Operation::Command(line) => return Some(line.into()),
                        Operation::Interrupt => {}
                        Operation::Record => self.voice.press_key(),
                        Operation::CancelRecording => self.voice.cancel_recording(),
                        Operation::Quit | Operation::ForceQuit => return None,
                    },
                },
                text = self.voice.next() => {
                    return Some(TypedMessage { text, is_spoken: true, ..TypedMessage::default() });
                }
                Some(done) = self.background.next() => {
                    let BackgroundReport { line, answer, remark } = done.describe();
                    self.output.line(&format!("\n{line}"));
                    match (answer, self.terminal.screen()) {
                        (Some(answer), Some(screen)) => screen.print_answer(remark, answer),
                        (Some(answer), None) => {
                            self.output.line(&hermes_text::escape_terminal(answer));
                            if self.terminal.display().bell_on_complete {
                                self.output.ring();
                            }
                        }
                        (None, _) => {}
                    }
                    self.show_status();
                }
                Some(message) = next_plugin_message(&mut self.plugin_messages) => {
                    let text = hermes_text::escape_terminal(&message.text).into_owned();
                    self.output.line(&format!("\n🔌 {}: {text}", message.plugin));
                    return Some(message.text.into());
                }
                Some(notice) = self.runtime.notices.recv() => {
                    self.output.line(&format!("\n{}", notice.text));
                }
                Some(note) = self.review_notes.1.recv() => self.output.line(&format!("\n{note}")),
            }
        }
    }

    pub(crate) async fn send_message(&mut self, message: TypedMessage) -> Result<()> {
        let TypedMessage { text, mut images, is_spoken } = message;
        images.splice(0..0, self.pending_images.drain(..));
        let (agent, conversation) = (&self.runtime.agent, &self.opened.conversation);
        let mut said =
            match with_references(text, agent, conversation, self.context, &self.runtime.config).await? {
                ReferenceOutcome::Resolved { input: said, status } => {
                    if let Some(status) = status {
                        self.output.line(&status);
                    }
                    said
                }
                ReferenceOutcome::TooLarge(words) => {
                    self.output.error(&words);
                    return Ok(());
                }
            };
        if let Err(reason) = add_images(&mut said, &images, &self.runtime.agent) {
            self.output.error(&format!("{reason}; the message was not sent"));
            return Ok(());
        }
        if is_spoken && let MessageContent::Text(text) = &said.content {
            let told = MessageContent::Text(voice::with_instruction(text));
            let plain = std::mem::replace(&mut said.content, told);
            said.stored.get_or_insert(plain);
        }
        self.run_turn(said).await
    }

    async fn run_turn(&mut self, said: TurnInput) -> Result<()> {
        let wait = std::mem::take(&mut self.server_wait);
        for notice in self.runtime.take_up_servers(self.context, wait).await {
            self.output.notice(&notice);
        }
        self.runtime.renew_budget();
        self.voice.stop();
        let cancel = Cancel::new();
        let (agent, conversation) = (&self.runtime.agent, &mut self.opened.conversation);
        let work = TurnWork::begin(said);
        let turn = drive_turn(agent, conversation, work, &self.terminal, &cancel);
        let driven = drive(
            turn,
            &self.terminal,
            &mut self.input,
            &mut self.signals,
            &cancel,
            TypedLinePolicy::Interrupt,
        )
        .await;
        self.finish_turn(driven)
    }

    /// Shows how a turn ended and starts the follow-up tasks.
    fn finish_turn(&mut self, driven: DrivenTurn<Result<TurnResult, hermes_agent::Error>>) -> Result<()> {
        self.queue.extend(driven.typed);
        let result = match driven.result {
            Ok(result) => result,
            Err(error @ hermes_agent::Error::Busy { .. }) => {
                self.terminal.finish(None);
                self.output.error(&error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.terminal.finish(result.response.as_deref());
        self.show_pictures(result.response.as_deref());
        self.voice.speak(result.response.as_deref().unwrap_or_default());
        self.last_request = Some(result.last_prompt_tokens).filter(|tokens| *tokens > 0);
        self.spent_micro_usd = match (self.spent_micro_usd, result.cost.micro_usd) {
            (Some(before), Some(now)) => Some(before + now),
            (before, now) => before.or(now),
        };
        self.due_goal_work = DueGoalWork::after(&result);
        if let Some(error) = &result.error {
            self.output.notice(&format!("Error: {error}"));
        }
        if result.completed() {
            self.start_follow_up();
        }
        Ok(())
    }

    /// Draws the pictures that the answer or its tools name.
    fn show_pictures(&self, response: Option<&str>) {
        let (Some(screen), Some(response)) = (self.terminal.screen(), response) else { return };
        let messages = self.opened.conversation.messages();
        let found = hermes_gateway::pictures_of_answer(response, messages, self.runtime.agent.tools());
        pictures::show(screen, found);
    }

    fn start_follow_up(&mut self) {
        let agent = self.runtime.agent.clone();
        let conversation = self.opened.conversation.clone();
        // The offline model can neither title nor review a conversation.
        if agent.models().provider == "offline" {
            return;
        }
        let (cancel, notes) = (self.follow_up_tasks.cancel_token().clone(), self.review_notes.0.clone());
        self.follow_up_tasks.spawn("after-turn", async move {
            if let Some(note) = agent.follow_up(&conversation, Naming::Automatic, &cancel).await {
                // There is no receiver any more when the chat has ended.
                let _ = notes.send(note);
            }
        });
    }

    /// Shows the state of the conversation in the status bar.
    pub(crate) fn show_status(&self) {
        if self.terminal.screen().is_none() {
            return;
        }
        let agent = &self.runtime.agent;
        self.terminal.set_status(StatusFields {
            model: agent.models().name.clone(),
            context_used: self.last_request,
            context_window: Some(agent.window(&self.opened.conversation)),
            cost: self.terminal.display().show_cost.then(|| format_cost(self.spent_micro_usd)),
            mode: (self.yolo == Yolo::On).then(|| "yolo".to_owned()),
            background_tasks: self.background.running(),
        });
    }

    /// Gives the terminal back.
    async fn leave_screen(&self) {
        if let Some(screen) = self.terminal.screen() {
            screen.close().await;
            self.output.show_on(None);
        }
    }

    async fn close(mut self) -> Result<ExitCode> {
        let agent = &self.runtime.agent;
        let conversation = &self.opened.conversation;
        // After a signal, the exit waits only for what must be stored.
        if self.signals.exit_code().is_none() {
            if agent.flush_due(conversation) {
                self.output.line("Saving what is worth remembering…");
                let cancel = Cancel::new();
                tokio::select! {
                    () = agent.flush_memories(conversation, &cancel) => {}
                    _ = self.signals.next() => {}
                }
            }
            tokio::select! {
                () = self.follow_up_tasks.join() => {}
                () = agent.clock().sleep(EXIT_TIMEOUT) => {}
                _ = self.signals.next() => {}
            }
        }
        while let Ok(note) = self.review_notes.1.try_recv() {
            self.output.line(&note);
        }
        agent.end_conversation(conversation, EndReason::CliClose).await?;
        let title = agent.store().session(conversation.session()).await?.and_then(|row| row.title);
        let seconds = agent.clock().now().since(self.started_at).as_secs();
        self.leave_screen().await;
        if conversation.messages().is_empty() {
            let skin = skins::load(&self.terminal.display().skin, &self.context.home);
            if !skin.goodbye.is_empty() {
                self.output.line(&skin.goodbye);
            }
        }
        self.output.text(&summary::exit_summary(conversation, title.as_deref(), seconds));
        Ok(self.signals.exit_code().unwrap_or(ExitCode::SUCCESS))
    }
}

/// Waits for a message of a plugin.
async fn next_plugin_message(
    messages: &mut Option<UnboundedReceiver<PluginMessage>>,
) -> Option<PluginMessage> {
    match messages {
        Some(messages) => messages.recv().await,
        None => std::future::pending().await,
    }
}

fn format_cost(micro_usd: Option<u64>) -> String {
    match micro_usd {
        Some(micro) => format!("${}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000),
        None => "n/a".to_owned(),
    }
}
