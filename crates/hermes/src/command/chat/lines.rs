//! A conversation line by line: a prompt, an answer, the next prompt.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use hermes_agent::{
    Agent, Conversation, CutOff, ReviewDue, Said, TurnOutcome, TurnRequest, TurnResult, TurnWork,
};
use hermes_store::EndReason;
use hermes_task::Tasks;
use hermes_tools::{Notice, Yolo};
use hermes_types::Cancel;
use tokio::sync::mpsc::UnboundedReceiver;

use super::input::{Input, is_command};
use super::opening::{self, Opened};
use super::referring::{Referring, with_references};
use super::signals::{Heard, Signals};
use super::slash::{self, After};
use super::summary;
use super::terminal::{Driven, Patience, Shown, Terminal, WhileRunning, display_settings, drive};
use crate::cli::{self, ChatArguments};
use crate::context::Context;
use crate::output::Output;
use crate::wiring::Wired;

/// Work beside the conversation is waited for this long at the end.
const LAST_WAIT: Duration = Duration::from_secs(20);

/// A chat under way.
pub(crate) struct Talk<'a> {
    pub(crate) wired: &'a mut Wired,
    pub(crate) opened: Opened,
    pub(crate) output: &'a Output,
    pub(crate) context: &'a Context,
    pub(crate) terminal: Terminal<'a>,
    pub(crate) input: Input,
    pub(crate) signals: Signals,
    /// Titles and reviews, done beside.
    beside: Tasks,
    began: hermes_types::Timestamp,
    /// What was typed while a turn ran, in order.
    pub(crate) queue: std::collections::VecDeque<String>,
    /// Whether dangerous commands run without a question.
    pub(crate) yolo: Yolo,
}

pub(crate) async fn run(
    wired: &mut Wired,
    opened: Opened,
    arguments: &ChatArguments,
    context: &Context,
    output: &Output,
) -> Result<ExitCode> {
    let display = display_settings(wired, arguments, context);
    let recap = display.resume_display != "minimal";
    let input = Input::person();
    let (patience, clock) = (Patience::from_config(&wired.config), wired.agent.clock.clone());
    let terminal = Terminal::new(output, Shown::Everything, display, clock, patience, &input);
    let began = wired.agent.clock.now();
    let mut talk = Talk {
        wired,
        opened,
        output,
        context,
        terminal,
        input,
        signals: Signals::listen()?,
        beside: Tasks::new(&Cancel::new()),
        began,
        queue: std::collections::VecDeque::new(),
        yolo: if arguments.yolo { Yolo::On } else { Yolo::Off },
    };
    talk.greet(recap && !arguments.quiet).await?;
    talk.go().await?;
    talk.leave().await
}

/// Goes on with a turn that was cut off.
async fn resume(
    agent: &Agent,
    conversation: &mut Conversation,
    cut_off: CutOff,
    terminal: &Terminal<'_>,
    cancel: &Cancel,
) -> Result<TurnResult, hermes_agent::Error> {
    let session = conversation.session().clone();
    let work = TurnWork::Resume(cut_off);
    let request = TurnRequest { work, frontend: terminal, cancel, grace: None };
    match agent.drive(conversation, request).await? {
        TurnOutcome::Ended(result) => Ok(*result),
        // Another process has ended it between the look and the answer.
        TurnOutcome::Abandoned | TurnOutcome::Parked(_) => Err(hermes_agent::Error::NotFound(session)),
    }
}

/// What a background process has to say; for ever nothing where nobody would.
async fn next_notice(notices: &mut Option<UnboundedReceiver<Notice>>) -> Option<Notice> {
    match notices {
        Some(notices) => notices.recv().await,
        None => std::future::pending().await,
    }
}

impl Talk<'_> {
    async fn greet(&mut self, recap: bool) -> Result<()> {
        let agent = &self.wired.agent;
        self.output.line(&format!(
            "{} · {} · {} tools · /help for commands",
            cli::version(),
            agent.model_name,
            agent.tools.len()
        ));
        if let Some(notice) = self.wired.hands.sandbox_notice() {
            self.output.line(&notice);
        }
        if !self.opened.resumed
            && let Some(session) = agent.left_unfinished(self.opened.conversation.source()).await?
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
        let Some(cut_off) = self.opened.cut_off.take() else { return Ok(()) };
        self.output.line(&opening::about_cut_off(&cut_off));
        if cut_off.parked {
            return Ok(agent.drop_turn(&cut_off).await?);
        }
        self.output.text("Go on with it now? [Y/n] ");
        let answer = tokio::select! {
            biased;
            heard = self.signals.next() => match heard {
                // Not asked to drop it either.
                Heard::End => return Ok(()),
                Heard::Interrupt => None,
            },
            line = self.input.next() => line,
        };
        let answer = answer.unwrap_or_else(|| "n".to_owned());
        if matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
            let cancel = Cancel::new();
            let (agent, conversation) = (&self.wired.agent, &mut self.opened.conversation);
            let turn = resume(agent, conversation, cut_off, &self.terminal, &cancel);
            let driven = drive(
                turn,
                &self.terminal,
                &mut self.input,
                &mut self.signals,
                &cancel,
                WhileRunning::Interrupt,
            )
            .await;
            self.take(driven)?;
        } else {
            agent.drop_turn(&cut_off).await?;
        }
        Ok(())
    }

    async fn go(&mut self) -> Result<()> {
        loop {
            let Some(line) = self.next_line().await else { return Ok(()) };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            if is_command(line) {
                match slash::run(self, line).await? {
                    After::Quit => return Ok(()),
                    After::Go => {}
                    After::Say(text) => self.say(text).await?,
                    After::Invoke(words) => self.turn(Said::text(words)).await?,
                }
            } else {
                self.say(line.to_owned()).await?;
            }
        }
    }

    /// What was queued, else what is typed; nothing when the chat is to end. Ctrl-C on an empty line asks for a second one
    /// to leave.
    async fn next_line(&mut self) -> Option<String> {
        if self.signals.ending().is_some() {
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
                    if warned || heard == Heard::End {
                        return None;
                    }
                    warned = true;
                    if let Some(typing) = self.input.typing() {
                        typing.discard_line();
                    }
                    self.output.line("\n(press Ctrl-C again, or type /quit, to leave)");
                }
                line = self.input.next() => return line,
                Some(notice) = next_notice(&mut self.wired.notices) => {
                    self.output.line(&format!("\n{}", notice.text));
                }
            }
        }
    }

    pub(crate) async fn say(&mut self, text: String) -> Result<()> {
        let (agent, conversation) = (&self.wired.agent, &self.opened.conversation);
        let said = match with_references(text, agent, conversation, self.context, &self.wired.config).await? {
            Referring::Said { said, status } => {
                if let Some(status) = status {
                    self.output.line(&status);
                }
                said
            }
            Referring::TooMuch(words) => {
                self.output.error(&words);
                return Ok(());
            }
        };
        self.turn(said).await
    }

    async fn turn(&mut self, said: Said) -> Result<()> {
        self.wired.renew_budget();
        let cancel = Cancel::new();
        let (agent, conversation) = (&self.wired.agent, &mut self.opened.conversation);
        let turn = agent.run(conversation, said, &self.terminal, &cancel);
        let driven =
            drive(turn, &self.terminal, &mut self.input, &mut self.signals, &cancel, WhileRunning::Interrupt)
                .await;
        self.take(driven)
    }

    /// Shows how a turn ended and starts what is done after one.
    fn take(&mut self, driven: Driven<Result<TurnResult, hermes_agent::Error>>) -> Result<()> {
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
            self.start_beside();
        }
        Ok(())
    }

    fn start_beside(&mut self) {
        let agent = self.wired.agent.clone();
        let conversation = self.opened.conversation.clone();
        let due = agent.review_due(&conversation);
        let unnamed = self.opened.title.is_none();
        // The offline model can neither name a conversation nor look back at one.
        if agent.prompt.provider == "offline" || (due == ReviewDue::default() && !unnamed) {
            return;
        }
        let cancel = self.beside.cancel_token().clone();
        self.beside.spawn("after-turn", async move {
            agent.name_conversation(&conversation, &cancel).await;
            if due.is_any() {
                agent.review(&conversation, due, &cancel).await;
            }
        });
    }

    async fn leave(mut self) -> Result<ExitCode> {
        let agent = &self.wired.agent;
        let conversation = &self.opened.conversation;
        // Whoever ended the chat by a signal does not wait for more than what must be kept.
        if self.signals.ending().is_none() {
            if agent.flush_due(conversation) {
                self.output.line("Saving what is worth remembering…");
                let cancel = Cancel::new();
                tokio::select! {
                    () = agent.flush_memories(conversation, &cancel) => {}
                    _ = self.signals.next() => {}
                }
            }
            tokio::select! {
                () = self.beside.join() => {}
                () = agent.clock.sleep(LAST_WAIT) => {}
                _ = self.signals.next() => {}
            }
        }
        agent.end(conversation, EndReason::CliClose).await?;
        let title = agent.store.session(conversation.session()).await?.and_then(|row| row.title);
        let seconds = agent.clock.now().since(self.began).as_secs();
        self.output.text(&summary::farewell(conversation, title.as_deref(), seconds));
        Ok(self.signals.ending().unwrap_or(ExitCode::SUCCESS))
    }
}
