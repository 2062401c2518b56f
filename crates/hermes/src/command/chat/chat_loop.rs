//! The interactive chat: reads a line, runs a turn, shows the answer, reads the next line.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use hermes_agent::{
    Agent, Conversation, ReviewDue, TurnInput, TurnOutcome, TurnRequest, TurnResult, TurnWork,
};
use hermes_store::EndReason;
use hermes_task::TaskGroup;
use hermes_tools::Yolo;
use hermes_types::Cancel;

use super::input::{ChatInput, is_command};
use super::opening::{self, OpenedConversation};
use super::references::{ReferenceOutcome, with_references};
use super::signals::{ChatSignal, ChatSignals};
use super::slash::{self, CommandEffect};
use super::summary;
use super::terminal::{
    DisplayMode, DrivenTurn, QuestionTimeouts, TerminalFrontend, TypedLinePolicy, display_settings, drive,
};
use crate::cli::{self, ChatArguments};
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::AgentRuntime;

/// Limits the wait for background work when the chat ends.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A running chat.
pub(crate) struct ChatLoop<'a> {
    pub(crate) runtime: &'a mut AgentRuntime,
    pub(crate) opened: OpenedConversation,
    pub(crate) output: &'a Console,
    pub(crate) context: &'a ProgramContext,
    pub(crate) terminal: TerminalFrontend<'a>,
    pub(crate) input: ChatInput,
    pub(crate) signals: ChatSignals,
    /// Title generation and reviews, which run in the background.
    follow_up_tasks: TaskGroup,
    started_at: hermes_types::Timestamp,
    /// The lines typed while a turn ran, in order.
    pub(crate) queue: std::collections::VecDeque<String>,
    /// The setting that says whether dangerous commands run without approval.
    pub(crate) yolo: Yolo,
}

pub(crate) async fn run(
    wired: &mut AgentRuntime,
    opened: OpenedConversation,
    arguments: &ChatArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let display = display_settings(wired, arguments, context);
    let recap = display.resume_display != "minimal";
    let input = ChatInput::person();
    let (patience, clock) = (QuestionTimeouts::from_config(&wired.config), wired.agent.clock().clone());
    let terminal = TerminalFrontend::new(output, DisplayMode::Full, display, clock, patience, &input);
    let began = wired.agent.clock().now();
    let mut chat = ChatLoop {
        runtime: wired,
        opened,
        output,
        context,
        terminal,
        input,
        signals: ChatSignals::listen()?,
        follow_up_tasks: TaskGroup::new(&Cancel::new()),
        started_at: began,
        queue: std::collections::VecDeque::new(),
        yolo: if arguments.yolo { Yolo::On } else { Yolo::Off },
    };
    chat.greet(recap && !arguments.quiet).await?;
    chat.run_loop().await?;
    chat.close().await
}

/// Runs a turn, or continues an interrupted one.
pub(super) async fn drive_turn(
    agent: &Agent,
    conversation: &mut Conversation,
    work: TurnWork,
    terminal: &TerminalFrontend<'_>,
    cancel: &Cancel,
) -> Result<TurnResult, hermes_agent::Error> {
    let session = conversation.session().clone();
    let request = TurnRequest { work, frontend: terminal, cancel, grace: None };
    match agent.drive(conversation, request).await? {
        TurnOutcome::Ended(result) => Ok(*result),
        // Another process has ended it after this one looked.
        TurnOutcome::Abandoned | TurnOutcome::Parked(_) => Err(hermes_agent::Error::NotFound(session)),
    }
}

impl ChatLoop<'_> {
    async fn greet(&mut self, recap: bool) -> Result<()> {
        let agent = &self.runtime.agent;
        self.output.line(&format!(
            "{} · {} · {} tools · /help for commands",
            cli::version(),
            agent.models().name,
            agent.tools().len()
        ));
        if let Some(notice) = self.runtime.command_runtime.sandbox_notice() {
            self.output.line(&notice);
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
                self.output.text(&summary::recap(self.opened.conversation.messages()));
            }
        }
        let Some(cut_off) = self.opened.unfinished_turn.take() else { return Ok(()) };
        self.output.line(&opening::describe_unfinished_turn(&cut_off));
        if cut_off.parked {
            return Ok(agent.drop_turn(&cut_off).await?);
        }
        self.output.text("Go on with it now? [Y/n] ");
        let answer = tokio::select! {
            biased;
            heard = self.signals.next() => match heard {
                // The signal does not ask to discard the turn either.
                ChatSignal::End => return Ok(()),
                ChatSignal::Interrupt => None,
            },
            line = self.input.next() => line,
        };
        let answer = answer.unwrap_or_else(|| "n".to_owned());
        if matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
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
            agent.drop_turn(&cut_off).await?;
        }
        Ok(())
    }

    async fn run_loop(&mut self) -> Result<()> {
        loop {
            let Some(line) = self.next_line().await else { return Ok(()) };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            if is_command(line) {
                match slash::run(self, line).await? {
                    CommandEffect::Quit => return Ok(()),
                    CommandEffect::Continue => {}
                    CommandEffect::Say(text) => self.send_message(text).await?,
                    CommandEffect::Invoke(words) => self.run_turn(TurnInput::text(words)).await?,
                }
            } else {
                self.send_message(line.to_owned()).await?;
            }
        }
    }

    /// Returns the next queued line, else the next typed one; `None` when the chat is to end. Ctrl-C on an empty
    /// line leaves only when it is pressed twice.
    async fn next_line(&mut self) -> Option<String> {
        if self.signals.exit_code().is_some() {
            return None;
        }
        if let Some(line) = self.queue.pop_front() {
            self.output.line(&format!("📨 Queued: '{line}'"));
            return Some(line);
        }
        let mut warned = false;
        loop {
            self.output.text("❯ ");
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
                line = self.input.next() => return line,
                Some(notice) = self.runtime.notices.recv() => {
                    self.output.line(&format!("\n{}", notice.text));
                }
            }
        }
    }

    pub(crate) async fn send_message(&mut self, text: String) -> Result<()> {
        let (agent, conversation) = (&self.runtime.agent, &self.opened.conversation);
        let said =
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
        self.run_turn(said).await
    }

    async fn run_turn(&mut self, said: TurnInput) -> Result<()> {
        self.runtime.renew_budget();
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
        if !driven.typed.is_empty() {
            self.queue.push_back(driven.typed.join("\n"));
        }
        let result = match driven.result {
            Ok(result) => result,
            Err(error @ hermes_agent::Error::Busy { .. }) => {
                self.output.error(&error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(response) = result.response.as_deref().filter(|response| !response.is_empty()) {
            self.terminal.finish(response);
        }
        if let Some(error) = &result.error {
            self.output.notice(&format!("Error: {error}"));
        }
        if result.completed() {
            self.start_follow_up();
        }
        Ok(())
    }

    fn start_follow_up(&mut self) {
        let agent = self.runtime.agent.clone();
        let conversation = self.opened.conversation.clone();
        let due = agent.review_due(&conversation);
        let unnamed = self.opened.title.is_none();
        // The offline model can neither title nor review a conversation.
        if agent.models().provider == "offline" || (due == ReviewDue::default() && !unnamed) {
            return;
        }
        let cancel = self.follow_up_tasks.cancel_token().clone();
        self.follow_up_tasks.spawn("after-turn", async move {
            agent.title_conversation(&conversation, &cancel).await;
            if due.is_any() {
                agent.review(&conversation, due, &cancel).await;
            }
        });
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
        agent.end_conversation(conversation, EndReason::CliClose).await?;
        let title = agent.store().session(conversation.session()).await?.and_then(|row| row.title);
        let seconds = agent.clock().now().since(self.started_at).as_secs();
        self.output.text(&summary::exit_summary(conversation, title.as_deref(), seconds));
        Ok(self.signals.exit_code().unwrap_or(ExitCode::SUCCESS))
    }
}
