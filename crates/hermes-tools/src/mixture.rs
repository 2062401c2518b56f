//! `mixture_of_agents`: several models answer, and one merges their answers.
//!
//! Invariant: every call is charged to the turn it belongs to, and none is made once the turn's budget is used up.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::future::join_all;
use hermes_store::{ModelCharge, Store};
use hermes_text::strip_think;
use hermes_types::{
    BoxFuture, Clock, Message, MessageContent, ModelError, ModelRequest, OutcomeStatus, Provenance,
    ReasoningEffort, SideModel, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Value, json};

use crate::argument::{missing, spec, text};

const REFERENCE_TEMPERATURE: f32 = 0.6;
const AGGREGATOR_TEMPERATURE: f32 = 0.4;
const AGGREGATOR_PROMPT: &str = include_str!("texts/mixture_aggregator.md");
/// The attempts of the aggregator for an answer that is not empty.
const AGGREGATOR_ANSWERS: u32 = 2;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "mixture_of_agents",
    toolset: "moa",
    summary: "Asks several models and merges their answers",
    condition: "`OPENROUTER_API_KEY` is set, and the toolset is switched on",
    icon: "🧠",
    verb: "reason",
    preview_arguments: &["user_prompt"],
    ..ToolDescriptor::unknown("")
};

/// The models of a mixture.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct MixtureModels {
    pub references: Vec<SideModel>,
    pub aggregator: SideModel,
    /// How many references must answer.
    pub min_successes: usize,
}

/// The `mixture_of_agents` tool.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct MixtureTool {
    spec: ToolSpec,
    models: Option<MixtureModels>,
    store: Store,
    clock: Arc<dyn Clock>,
}

/// The reason why there is no answer.
enum MixtureFailure {
    Cancelled,
    Failed(String),
}

/// One question to one model.
struct Question<'a> {
    model: &'a SideModel,
    system: String,
    prompt: &'a str,
    temperature: f32,
}

impl MixtureTool {
    /// Creates the tool. Without models it only returns an error.
    pub fn new(models: Option<MixtureModels>, store: Store, clock: Arc<dyn Clock>) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("texts/mixture_of_agents.md"),
            include_str!("texts/mixture_of_agents.json"),
        );
        Self { spec, models, store, clock }
    }

    async fn mix(
        &self,
        models: &MixtureModels,
        prompt: &str,
        call: &ToolInvocation,
        context: &ToolContext<'_>,
    ) -> Result<String, MixtureFailure> {
        let asked = models.references.iter().map(|model| {
            let question =
                Question { model, system: String::new(), prompt, temperature: REFERENCE_TEMPERATURE };
            self.ask(question, call, context)
        });
        let mut answers = Vec::new();
        let mut failures = Vec::new();
        for (model, outcome) in models.references.iter().zip(join_all(asked).await) {
            match outcome {
                Ok(answer) if !answer.is_empty() => answers.push(answer),
                Ok(_) => failures.push(format!("{}: an empty answer", model.name)),
                Err(MixtureFailure::Cancelled) => return Err(MixtureFailure::Cancelled),
                Err(MixtureFailure::Failed(reason)) => failures.push(format!("{}: {reason}", model.name)),
            }
        }
        if answers.len() < models.min_successes.max(1) {
            return Err(MixtureFailure::Failed(format!(
                "{} of {} models answered, {} are needed. {}",
                answers.len(),
                models.references.len(),
                models.min_successes.max(1),
                failures.join("; ")
            )));
        }
        self.merge(models, &answers, prompt, call, context).await
    }

    async fn merge(
        &self,
        models: &MixtureModels,
        answers: &[String],
        prompt: &str,
        call: &ToolInvocation,
        context: &ToolContext<'_>,
    ) -> Result<String, MixtureFailure> {
        let mut system = AGGREGATOR_PROMPT.trim().to_owned();
        for (index, answer) in answers.iter().enumerate() {
            // Writing to a `String` cannot fail.
            let _ = write!(system, "\n\n{}. {answer}", index + 1);
        }
        for _ in 0..AGGREGATOR_ANSWERS {
            let question = Question {
                model: &models.aggregator,
                system: system.clone(),
                prompt,
                temperature: AGGREGATOR_TEMPERATURE,
            };
            let answer = self.ask(question, call, context).await?;
            if !answer.is_empty() {
                return Ok(answer);
            }
        }
        Err(MixtureFailure::Failed(format!("{} gave an empty answer", models.aggregator.name)))
    }

    /// Asks one model.
    async fn ask(
        &self,
        question: Question<'_>,
        call: &ToolInvocation,
        context: &ToolContext<'_>,
    ) -> Result<String, MixtureFailure> {
        let side = question.model;
        let model = match context.turn_model {
            Some(of_turn) => of_turn.within_budget(side.model.clone()),
            None => side.model.clone(),
        };
        let request = self.request(&question, context);
        // The client repeats what a provider could not answer just then.
        match model.complete(&request, &mut |_| {}).await {
            Ok(completion) => {
                drop(self.store.record_charge(ModelCharge {
                    at: self.clock.now(),
                    session: call.session.clone(),
                    turn: Some(call.turn.clone()),
                    root_turn: None,
                    job: None,
                    provider: completion.provider.clone(),
                    model: completion.model.clone(),
                    usage: completion.usage.unwrap_or_default(),
                    cost: completion.cost,
                }));
                let said = completion.message.content.text();
                Ok(strip_think(&said).trim().to_owned())
            }
            Err(ModelError::Cancelled) => Err(MixtureFailure::Cancelled),
            Err(error) => Err(MixtureFailure::Failed(error.to_string())),
        }
    }

    fn request(&self, question: &Question<'_>, context: &ToolContext<'_>) -> ModelRequest {
        let side = question.model;
        ModelRequest {
            model: side.name.clone(),
            system: question.system.clone(),
            messages: vec![Message::user(MessageContent::Text(question.prompt.to_owned()))],
            tools: Arc::new([]),
            max_tokens: None,
            temperature: takes_temperature(&side.name).then_some(question.temperature),
            effort: Some(ReasoningEffort::Xhigh),
            session: None,
            deadline: context.deadline.at_most(&*self.clock, side.timeout),
            cancel: context.cancel.clone(),
        }
    }
}

/// Tells whether a model accepts a temperature.
fn takes_temperature(name: &str) -> bool {
    !name.rsplit('/').next().unwrap_or_default().starts_with("gpt-")
}

impl Tool for MixtureTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(prompt) = text(&call.arguments, "user_prompt") else {
                return missing("mixture_of_agents", "user_prompt");
            };
            let Some(models) = &self.models else {
                return failure("OPENROUTER_API_KEY is not set", &Value::Null, OutcomeStatus::Failed);
            };
            let names: Vec<&str> = models.references.iter().map(|side| side.name.as_str()).collect();
            let used = json!({"reference_models": names, "aggregator_model": models.aggregator.name});
            match self.mix(models, prompt, call, &context).await {
                Ok(response) => {
                    let answer = json!({"success": true, "response": response, "models_used": used});
                    outcome(&answer, OutcomeStatus::Done)
                }
                Err(MixtureFailure::Cancelled) => failure("interrupted", &used, OutcomeStatus::Cancelled),
                Err(MixtureFailure::Failed(reason)) => failure(&reason, &used, OutcomeStatus::Failed),
            }
        })
    }
}

fn failure(reason: &str, used: &Value, status: OutcomeStatus) -> ToolOutcome {
    let error = format!("Error in MoA processing: {reason}");
    outcome(&json!({"success": false, "response": "", "models_used": used, "error": error}), status)
}

fn outcome(value: &Value, status: OutcomeStatus) -> ToolOutcome {
    let content = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    ToolOutcome { content, status, provenance: Provenance::Tool }
}
