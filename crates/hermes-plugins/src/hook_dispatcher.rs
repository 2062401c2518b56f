//! Passes the steps of turns on to the shell hooks and the plugins.
//!
//! Steps that nothing waits for go through one bounded queue, in order. Invariant: what is queued when the program ends
//! has a few seconds to be passed on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_task::{Task, spawn_named};
use hermes_types::{BoxFuture, Cancel, Clock, HookEvent, HookReply, TurnHooks};
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::plugin_host::PluginHost;
use crate::shell_hook::{ShellHook, TOOL_EVENTS};
use crate::shell_hook_runner::ShellHookRunner;

const MAX_QUEUED: usize = 1_000;
const FINAL_LIMIT: Duration = Duration::from_secs(5);

type Step = (HookEvent, Map<String, Value>);

/// What runs at the steps of turns.
#[derive(Debug, Clone)]
pub struct HookSources {
    /// The approved hooks of the configuration, in its order.
    pub hooks: Vec<ShellHook>,
    pub runner: ShellHookRunner,
    pub plugins: Option<PluginHost>,
}

/// Runs the hooks of a process. Clones share the queue.
#[derive(Clone)]
pub struct HookDispatcher(Arc<DispatcherState>);

struct DispatcherState {
    sources: Mutex<HookSources>,
    clock: Arc<dyn Clock>,
    cancel: Cancel,
    queue: Mutex<Option<(Sender<Step>, Task<()>)>>,
}

impl std::fmt::Debug for HookDispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookDispatcher").field("hooks", &self.sources().hooks.len()).finish_non_exhaustive()
    }
}

impl HookDispatcher {
    pub fn new(sources: HookSources, clock: Arc<dyn Clock>) -> Self {
        let (cancel, queue) = (Cancel::new(), Mutex::default());
        Self(Arc::new(DispatcherState { sources: Mutex::new(sources), clock, cancel, queue }))
    }

    /// Adds hooks that were approved after the start.
    pub fn add_hooks(&self, hooks: Vec<ShellHook>) {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).hooks.extend(hooks);
    }

    fn sources(&self) -> HookSources {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Passes on what is queued, within a few seconds.
    pub async fn shut_down(&self) {
        let queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((sender, worker)) = queue else { return };
        drop(sender);
        tokio::select! {
            // A worker that panicked has logged why.
            _ = worker => {}
            () = self.0.clock.sleep(FINAL_LIMIT) => self.0.cancel.cancel(),
        }
    }
}

impl TurnHooks for HookDispatcher {
    fn wants(&self, event: HookEvent) -> bool {
        let sources = self.0.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.hooks.iter().any(|hook| hook.event == event)
            || sources.plugins.as_ref().is_some_and(|plugins| plugins.wants(event))
    }

    fn notify(&self, event: HookEvent, input: Map<String, Value>) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, _) = queue.get_or_insert_with(|| {
            let (sender, steps) = channel(MAX_QUEUED);
            (sender, spawn_named("hooks", &self.0.cancel, pass_on(self.sources(), steps)))
        });
        if sender.try_send((event, input)).is_err() {
            tracing::warn!(event = event.name(), "too many steps wait for hooks; one was left out");
        }
    }

    fn ask(&self, event: HookEvent, input: Map<String, Value>) -> BoxFuture<'_, Option<String>> {
        let sources = self.sources();
        Box::pin(async move { sources.run(event, input).await })
    }
}

async fn pass_on(sources: HookSources, mut steps: Receiver<Step>) {
    while let Some((event, input)) = steps.recv().await {
        sources.run(event, input).await;
    }
}

impl HookSources {
    /// Runs all hooks of a step, those of the configuration first, and returns what their answers come to: the first
    /// refusal, all additions, the last replacement.
    async fn run(&self, event: HookEvent, mut input: Map<String, Value>) -> Option<String> {
        let reply = event.facts().reply;
        let tool = input.get("tool_name").and_then(Value::as_str).map(str::to_owned);
        let is_meant = |hook: &&ShellHook| {
            hook.event == event
                && (!TOOL_EVENTS.contains(&event)
                    || tool.as_deref().is_some_and(|tool| hook.is_for_tool(tool)))
        };
        let mut texts: Vec<String> = Vec::new();
        for hook in self.hooks.iter().filter(is_meant) {
            match self.runner.run(hook, &input).await.answer {
                Ok(Some(text)) => {
                    if reply == HookReply::Block {
                        return Some(text);
                    }
                    if reply == HookReply::Replacement {
                        let replaced = ["result", "output", "response_text"];
                        if let Some(key) = replaced.into_iter().find(|key| input.contains_key(*key)) {
                            input.insert(key.to_owned(), text.clone().into());
                        }
                    }
                    texts.push(text);
                }
                Ok(None) => {}
                Err(reason) => {
                    tracing::warn!(event = event.name(), command = hook.command, "a hook failed: {reason}");
                }
            }
        }
        if let Some(plugins) = self.plugins.as_ref().filter(|plugins| plugins.wants(event)) {
            texts.extend(plugins.run_hooks(event, &input).await);
        }
        match reply {
            HookReply::Ignored => None,
            HookReply::Block => texts.into_iter().next(),
            HookReply::Context => (!texts.is_empty()).then(|| texts.join("\n\n")),
            HookReply::Replacement => texts.pop(),
        }
    }
}
