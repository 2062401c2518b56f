//! `/background`: prompts that run in sessions of their own while the chat goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_agent::{Agent, TurnInput};
use hermes_task::TaskGroup;
use hermes_tui::ScreenHandle;
use hermes_types::{
    BoxFuture, Cancel, Frontend, SessionId, SessionKind, Timestamp, TurnEvent, UserAnswer, UserQuestion,
};
use tokio::sync::mpsc;

use super::summary::format_duration;
use crate::random;

const MAX_PROMPT_CHARS: usize = 60;

/// The prompts that run in the background.
pub(crate) struct BackgroundPrompts {
    tasks: TaskGroup,
    count: usize,
    results: mpsc::UnboundedSender<BackgroundResult>,
    finished: mpsc::UnboundedReceiver<BackgroundResult>,
    list: BackgroundList,
}

/// The prompts that run now.
#[derive(Clone, Default)]
pub(crate) struct BackgroundList(Arc<Mutex<Vec<BackgroundEntry>>>);

/// A prompt that runs.
struct BackgroundEntry {
    number: usize,
    prompt: String,
    started: Timestamp,
}

impl BackgroundList {
    fn entries(&self) -> MutexGuard<'_, Vec<BackgroundEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes each prompt in a line.
    pub(crate) fn describe(&self, now: Timestamp) -> Vec<String> {
        let describe = |entry: &BackgroundEntry| {
            let took = format_duration(now.since(entry.started).as_secs());
            format!("🔄 #{} · {took} · {}", entry.number, shortened(&entry.prompt))
        };
        self.entries().iter().map(describe).collect()
    }
}

/// What is shown when a prompt has ended.
pub(crate) struct BackgroundReport<'a> {
    pub(crate) line: String,
    pub(crate) answer: Option<&'a str>,
    /// The remark beside the label of the answer.
    pub(crate) remark: String,
}

/// The end of a prompt that ran in the background.
pub(crate) struct BackgroundResult {
    number: usize,
    prompt: String,
    outcome: Result<String, String>,
}

impl BackgroundPrompts {
    pub(crate) fn new() -> Self {
        let (results, finished) = mpsc::unbounded_channel();
        Self {
            tasks: TaskGroup::new(&Cancel::new()),
            count: 0,
            results,
            finished,
            list: BackgroundList::default(),
        }
    }

    /// Starts a prompt and returns what is said about it.
    pub(crate) fn start(
        &mut self,
        agent: &Agent,
        prompt: &str,
        screen: Option<ScreenHandle>,
    ) -> anyhow::Result<String> {
        self.count += 1;
        let (number, cancel) = (self.count, self.tasks.cancel_token().clone());
        let (agent, results, list) = (agent.clone(), self.results.clone(), self.list.clone());
        let text = prompt.to_owned();
        let started = agent.clock().now();
        list.entries().push(BackgroundEntry { number, prompt: text.clone(), started });
        self.tasks.spawn("background-prompt", async move {
            let mut conversation = agent.new_conversation("cli", SessionKind::Local);
            let frontend = Unattended { label: format!("bg #{number}"), screen };
            let input = TurnInput::text(text.clone());
            let ran = agent.run_turn(&mut conversation, input, &frontend, &cancel).await;
            let outcome = match ran {
                Ok(result) => match (result.response, result.error) {
                    (Some(response), _) if !response.is_empty() => Ok(response),
                    (_, Some(error)) => Err(error),
                    (_, None) => Ok("(no answer)".to_owned()),
                },
                Err(error) => Err(error.to_string()),
            };
            list.entries().retain(|entry| entry.number != number);
            frontend.end(conversation.session());
            // The chat has ended when nobody receives this.
            let _ = results.send(BackgroundResult { number, prompt: text, outcome });
        });
        let at = crate::context::local_time(crate::context::now());
        let id = format!("bg_{:02}{:02}{:02}_{}", at.hour, at.minute, at.second, random::hex::<3>()?);
        Ok(format!("🔄 Background task #{number} started: \"{}\"\n   Task ID: {id}", shortened(prompt)))
    }

    /// Waits for the next prompt that ends.
    pub(crate) async fn next(&mut self) -> Option<BackgroundResult> {
        self.finished.recv().await
    }

    pub(crate) fn running(&self) -> usize {
        self.list.entries().len()
    }

    pub(crate) fn list(&self) -> BackgroundList {
        self.list.clone()
    }

    /// Stops what still runs.
    pub(crate) fn stop(&self) {
        self.tasks.cancel_token().cancel();
    }
}

impl BackgroundResult {
    /// Describes how it ended.
    pub(crate) fn describe(&self) -> BackgroundReport<'_> {
        let Self { number, prompt, outcome } = self;
        let (line, answer) = match outcome {
            Ok(answer) => (
                format!("✅ Background task #{number} complete: \"{}\"", shortened(prompt)),
                Some(answer.as_str()),
            ),
            Err(error) => (format!("❌ Background task #{number} failed: {error}"), None),
        };
        BackgroundReport { line, answer, remark: format!("(background #{number})") }
    }
}

fn shortened(prompt: &str) -> String {
    hermes_text::ellipsize(&hermes_text::single_line(prompt), MAX_PROMPT_CHARS).into_owned()
}

/// Nobody watches a prompt in the background, and nobody can be asked.
struct Unattended {
    label: String,
    /// The screen that shows what the prompt does.
    screen: Option<ScreenHandle>,
}

impl Unattended {
    /// Takes the prompt off the screen, however it ended.
    fn end(&self, session: &SessionId) {
        self.show(TurnEvent::TurnEnded { session: session.clone() });
    }
}

impl Frontend for Unattended {
    fn show(&self, event: TurnEvent) {
        if let Some(screen) = &self.screen {
            screen.show_background(self.label.clone(), event);
        }
    }

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}
