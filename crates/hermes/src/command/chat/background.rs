//! `/background`: prompts that run in sessions of their own while the chat goes on.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::{Agent, TurnInput};
use hermes_task::TaskGroup;
use hermes_types::{BoxFuture, Cancel, Frontend, SessionKind, TurnEvent, UserAnswer, UserQuestion};
use tokio::sync::mpsc;

use crate::random;

const MAX_PROMPT_CHARS: usize = 60;

/// The prompts that run in the background.
pub(crate) struct BackgroundPrompts {
    tasks: TaskGroup,
    count: usize,
    results: mpsc::UnboundedSender<BackgroundResult>,
    finished: mpsc::UnboundedReceiver<BackgroundResult>,
    running: Arc<Mutex<usize>>,
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
        Self { tasks: TaskGroup::new(&Cancel::new()), count: 0, results, finished, running: Arc::default() }
    }

    /// Starts a prompt and returns what is said about it.
    pub(crate) fn start(&mut self, agent: &Agent, prompt: &str) -> anyhow::Result<String> {
        self.count += 1;
        let (number, cancel) = (self.count, self.tasks.cancel_token().clone());
        let (agent, results, running) = (agent.clone(), self.results.clone(), self.running.clone());
        let text = prompt.to_owned();
        *running.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.tasks.spawn("background-prompt", async move {
            let mut conversation = agent.new_conversation("cli", SessionKind::Local);
            let ran =
                agent.run_turn(&mut conversation, TurnInput::text(text.clone()), &Unattended, &cancel).await;
            let outcome = match ran {
                Ok(result) => match (result.response, result.error) {
                    (Some(response), _) if !response.is_empty() => Ok(response),
                    (_, Some(error)) => Err(error),
                    (_, None) => Ok("(no answer)".to_owned()),
                },
                Err(error) => Err(error.to_string()),
            };
            *running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
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
        *self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops what still runs.
    pub(crate) fn stop(&self) {
        self.tasks.cancel_token().cancel();
    }
}

impl BackgroundResult {
    /// Returns the line that says how it ended, and the answer.
    pub(crate) fn describe(&self) -> (String, Option<&str>) {
        let Self { number, prompt, outcome } = self;
        match outcome {
            Ok(answer) => {
                (format!("✅ Background task #{number} complete: \"{}\"", shortened(prompt)), Some(answer))
            }
            Err(error) => (format!("❌ Background task #{number} failed: {error}"), None),
        }
    }
}

fn shortened(prompt: &str) -> String {
    hermes_text::ellipsize(&hermes_text::single_line(prompt), MAX_PROMPT_CHARS).into_owned()
}

/// Nobody watches a prompt in the background, and nobody can be asked.
struct Unattended;

impl Frontend for Unattended {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}
