//! Rollouts: one item, a group of conversations about it at the same time, each judged in the state it left.
//!
//! Invariant: what a rollout used is cleaned up, however it ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use hermes_net::HttpClient;
use hermes_task::TaskGroup;
use hermes_text::{ToolCallParser, head};
use hermes_types::{Cancel, Clock, TaskId, Tool, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::agent_loop::{AgentLoop, AgentLoopResult, RolloutToolError};
use super::chat::{ChatOptions, ChatPartner, MessageChat, ProxyChat, TokenChat};
use super::definition::{JudgedRollout, TrainingEnvironment};
use super::group::{ScoredGroup, ScoredRollout};
use super::judge::ModelJudge;
use super::result_budget::ResultBudget;
use super::rollout_tools::RolloutTools;
use super::sequence::{SequenceTracker, TokenSequence};
use super::servers::{ModelServers, RequestPurpose};
use super::settings::EnvironmentSettings;
use super::task_images::TaskImageBuilder;
use super::tokenizer::ChatTokenizer;
use crate::batch::{DatasetRow, DistributionSampler, RolloutAgents, find_distribution};
use crate::error::Error;

/// The toolsets for code that judges, whatever the model has.
const JUDGE_TOOLSETS: [&str; 4] = ["terminal", "file", "web", "browser"];

/// What rollouts need of the program.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct EnvironmentMeans {
    /// The tools, and the places where commands run.
    pub agents: Arc<dyn RolloutAgents>,
    /// The names of all toolsets.
    pub toolsets: Vec<String>,
    pub servers: Arc<ModelServers>,
    pub net: HttpClient,
    pub tokenizer: Option<Arc<dyn ChatTokenizer>>,
    /// Builds images of tasks, where their commands run in containers of this machine.
    pub images: Option<Arc<TaskImageBuilder>>,
    pub clock: Arc<dyn Clock>,
}

/// Holds the rollouts of an environment.
#[derive(Clone)]
pub(crate) struct RolloutPool {
    pub(crate) environment: Arc<dyn TrainingEnvironment>,
    pub(crate) means: EnvironmentMeans,
    pub(crate) settings: Arc<EnvironmentSettings>,
    parser: ToolCallParser,
    sampler: Option<Arc<DistributionSampler>>,
    judge_tools: Arc<[Arc<dyn Tool>]>,
    permits: Arc<Semaphore>,
    judge: ModelJudge,
}

/// A rollout, judged.
#[derive(Debug, Clone)]
pub(crate) struct JudgedResult {
    pub(crate) result: AgentLoopResult,
    pub(crate) sequence: Option<TokenSequence>,
    pub(crate) score: f64,
}

/// The tools a model has.
struct ModelTools {
    names: Vec<String>,
    schemas: Arc<[Value]>,
    tools: Vec<Arc<dyn Tool>>,
}

impl RolloutPool {
    /// Checks the settings and builds the tools. Makes no request.
    pub(crate) fn new(
        environment: Arc<dyn TrainingEnvironment>,
        means: EnvironmentMeans,
        settings: Arc<EnvironmentSettings>,
    ) -> Result<Self, Error> {
        let parser = ToolCallParser::named(&settings.tool_call_parser);
        let parser = parser.map_err(|error| Error::Unusable(format!("env.tool_call_parser: {error}")))?;
        let exists = |name: &str| means.toolsets.iter().any(|known| known == name);
        let sampler = match settings.distribution.as_deref() {
            None => None,
            Some(name) => {
                let found = find_distribution(name);
                let unknown =
                    || Error::Unusable(format!("env.distribution: there is no distribution `{name}`"));
                Some(Arc::new(DistributionSampler::new(found.ok_or_else(unknown)?, None, exists)))
            }
        };
        let named = settings.enabled_toolsets.iter().chain(&settings.disabled_toolsets).flatten();
        for name in named {
            if !exists(name) {
                return Err(Error::Unusable(format!(
                    "there is no toolset `{name}`; there are {}",
                    means.toolsets.join(", ")
                )));
            }
        }
        let server = means.servers.first();
        if server.server_type.is_exact() && server.proxy_url.is_none() && means.tokenizer.is_none() {
            return Err(Error::Unusable(
                "servers of the types vllm and sglang take tokens: set openai.tokenizer_name to a folder with tokenizer.json and \
                 tokenizer_config.json, in a build with the feature `tokenizers`, or openai.proxy_url to a proxy that keeps \
                 the tokens of conversations"
                    .to_owned(),
            ));
        }
        let judge_tools = means.agents.agent(&JUDGE_TOOLSETS).map_err(Error::Unusable)?;
        Ok(Self {
            judge: ModelJudge::new(&means.servers),
            judge_tools: judge_tools.tools().into(),
            permits: Arc::new(Semaphore::new(settings.tool_pool_size)),
            environment,
            means,
            settings,
            parser,
            sampler,
        })
    }

    /// Holds the rollouts of one item at the same time. What fails counts nothing.
    pub(crate) async fn group(
        &self,
        number: usize,
        item: &Value,
        cancel: &Cancel,
    ) -> Result<(ScoredGroup, Vec<RolloutToolError>), String> {
        let tools = Arc::new(self.model_tools(number)?);
        let tasks: Vec<_> = (0..self.settings.group_size)
            .map(|_| {
                let (pool, tools, item, cancel) = (self.clone(), tools.clone(), item.clone(), cancel.clone());
                // Not dropped at an await: what it used has to be cleaned up.
                let group = TaskGroup::new(&cancel);
                let task = group.spawn_cooperative("rollout", move |cancel| async move {
                    pool.rollout(&tools, &item, RequestPurpose::Training, &cancel).await
                });
                (group, task)
            })
            .collect();
        let (mut scored, mut errors) = (ScoredGroup::default(), Vec::new());
        for (_group, task) in tasks {
            match task.await {
                Ok(Ok(judged)) => {
                    let tokenizer = self.means.tokenizer.as_deref();
                    errors.extend(judged.result.tool_errors.iter().cloned());
                    scored.rollouts.push(ScoredRollout::new(
                        &judged.result,
                        judged.sequence,
                        judged.score,
                        tokenizer,
                    ));
                }
                Ok(Err(reason)) => tracing::warn!(reason, "a rollout failed"),
                Err(error) => tracing::warn!(%error, "a rollout failed"),
            }
        }
        if cancel.is_cancelled() { Err("cancelled".to_owned()) } else { Ok((scored, errors)) }
    }

    /// Holds one rollout for an evaluation.
    pub(crate) async fn evaluate(
        &self,
        number: usize,
        item: &Value,
        cancel: &Cancel,
    ) -> Result<JudgedResult, String> {
        let tools = self.model_tools(number)?;
        self.rollout(&tools, item, RequestPurpose::Evaluation, cancel).await
    }

    /// Returns the tools of a group: drawn, or the configured ones.
    fn model_tools(&self, number: usize) -> Result<ModelTools, String> {
        let drawn: Vec<String> = match (&self.sampler, &self.settings.enabled_toolsets) {
            (Some(sampler), _) => sampler.sample(number).into_iter().map(str::to_owned).collect(),
            (None, Some(named)) => named.clone(),
            (None, None) => self.means.toolsets.clone(),
        };
        let without: BTreeSet<&String> = self.settings.disabled_toolsets.iter().flatten().collect();
        let names: Vec<&str> =
            drawn.iter().filter(|name| !without.contains(name)).map(String::as_str).collect();
        let agent = self.means.agents.agent(&names)?;
        let tools: Vec<Arc<dyn Tool>> = agent.tools().to_vec();
        let schemas = tools.iter().map(|tool| schema(tool.spec())).collect();
        Ok(ModelTools { names: tools.iter().map(|tool| tool.spec().name.clone()).collect(), schemas, tools })
    }

    async fn rollout(
        &self,
        tools: &ModelTools,
        item: &Value,
        purpose: RequestPurpose,
        cancel: &Cancel,
    ) -> Result<JudgedResult, String> {
        let task = TaskId::generate();
        let judged = self.rollout_in(&task, tools, item, purpose, cancel).await;
        for tool in tools.tools.iter().chain(self.judge_tools.iter()) {
            tool.on_event(&task, hermes_types::ToolEvent::Ended);
            tool.end_background_work(&task);
        }
        self.means.agents.release(&task);
        judged
    }

    async fn rollout_in(
        &self,
        task: &TaskId,
        tools: &ModelTools,
        item: &Value,
        purpose: RequestPurpose,
        cancel: &Cancel,
    ) -> Result<JudgedResult, String> {
        let Self { environment, means, settings, .. } = self;
        let mut place = environment.place(item);
        if let Some((packed, reuse)) = environment.packed_image(item, settings) {
            let images = means.images.as_ref().ok_or(
                "an image is built from `environment_tar` only for terminal.backend docker; name one in `docker_image`",
            )?;
            place.image = Some(images.image(packed, reuse, cancel).await?);
        }
        let row = DatasetRow { image: place.image, cwd: place.cwd, ..DatasetRow::default() };
        means.agents.prepare(task, &row, cancel).await?;
        if row.image.is_none() {
            means.agents.begin_in_own_folder(task)?;
        }
        let all: Vec<Arc<dyn Tool>> = self.judge_tools.iter().chain(&tools.tools).cloned().collect();
        let own =
            RolloutTools::new(task.clone(), &all, self.permits.clone(), means.clock.clone(), cancel.clone());
        let prompt = environment.prompt(item).await?;
        environment.prepare(item, &own).await?;
        let mut messages = Vec::new();
        if let Some(system) = &settings.system_prompt {
            messages.push(json!({"role": "system", "content": system}));
        }
        messages.push(json!({"role": "user", "content": prompt}));
        let mut partner = self.partner(tools, purpose);
        let budget = ResultBudget::new(settings);
        let conversation = AgentLoop {
            tools: &own,
            names: &tools.names,
            budget: &budget,
            max_turns: settings.max_agent_turns,
        };
        let result = tokio::select! {
            result = conversation.run(&mut *partner, messages, cancel) => result,
            () = cancel.cancelled() => return Err("cancelled".to_owned()),
        };
        let sequence = partner.finish(cancel).await;
        if let Some(reason) = &result.failure {
            tracing::warn!(reason, "the model server gave no answer");
        }
        // What did nothing is not judged: no place is touched for it.
        if result.is_empty() {
            return Ok(JudgedResult { result, sequence, score: 0.0 });
        }
        let judged =
            JudgedRollout { item, result: &result, tools: &own, judge: &self.judge, settings, cancel };
        let reward = tokio::select! {
            reward = environment.reward(&judged) => reward,
            () = cancel.cancelled() => return Err("cancelled".to_owned()),
        };
        let score = reward.unwrap_or_else(|reason| {
            tracing::warn!(reason, "a rollout could not be judged; it counts as 0");
            0.0
        });
        Ok(JudgedResult { result, sequence, score })
    }

    /// Returns the model's side of a conversation.
    fn partner(&self, tools: &ModelTools, purpose: RequestPurpose) -> Box<dyn ChatPartner> {
        let means = &self.means;
        let options = ChatOptions {
            settings: self.settings.clone(),
            tools: tools.schemas.clone(),
            purpose,
            parser: self.parser,
        };
        let server = means.servers.first();
        if !server.server_type.is_exact() {
            return Box::new(MessageChat { servers: means.servers.clone(), options });
        }
        match (&server.proxy_url, &means.tokenizer) {
            (Some(proxy), _) => Box::new(ProxyChat::new(
                means.net.clone(),
                means.clock.clone(),
                options,
                proxy,
                server.timeout,
            )),
            (None, Some(tokenizer)) => Box::new(TokenChat {
                servers: means.servers.clone(),
                options,
                tokenizer: tokenizer.clone(),
                tracker: SequenceTracker::default(),
            }),
            // Refused when the pool was made.
            (None, None) => Box::new(MessageChat { servers: means.servers.clone(), options }),
        }
    }
}

fn schema(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters.to_value(),
        },
    })
}

/// Writes a conversation for people.
pub(crate) fn display_text(messages: &[Value]) -> String {
    let mut blocks = Vec::new();
    for message in messages {
        let text = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
        let content = text("content");
        match text("role") {
            "system" => blocks.push(format!("[SYSTEM]\n{content}")),
            "user" => blocks.push(format!("[USER]\n{content}")),
            "tool" => blocks.push(format!("[TOOL RESULT] {}", head(content, 500))),
            _ => {
                let reasoning = text("reasoning_content");
                if !reasoning.is_empty() {
                    blocks.push(format!("[ASSISTANT thinking]\n{}", head(reasoning, 300)));
                }
                if !content.is_empty() {
                    blocks.push(format!("[ASSISTANT]\n{content}"));
                }
                for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                    let part = |path: &str| call.pointer(path).and_then(Value::as_str).unwrap_or_default();
                    let (name, arguments) = (part("/function/name"), part("/function/arguments"));
                    blocks.push(format!("[TOOL CALL] {name}({})", head(arguments, 200)));
                }
            }
        }
    }
    blocks.join("\n\n")
}
