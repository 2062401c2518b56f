//! `clarify`: asks the user a question.

use hermes_types::{
    BoxFuture, ResultAuthor, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec,
    ToolUser, UserAnswer, UserQuestion,
};
use serde_json::{Value, json};

use crate::answer;
use crate::argument::{missing, spec, text};

const MOST_CHOICES: usize = 4;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "clarify",
    toolset: "clarify",
    summary: "Asks the user a question",
    icon: "❓",
    verb: "clarify",
    preview_arguments: &["question"],
    withheld_from: &[ToolUser::Editor, ToolUser::ApiClient, ToolUser::Job, ToolUser::Subagent],
    result_author: ResultAuthor::Tool,
    ..ToolDescriptor::unknown("")
};

/// The `clarify` tool.
#[derive(Debug)]
pub struct ClarifyTool {
    spec: ToolSpec,
}

impl Default for ClarifyTool {
    fn default() -> Self {
        Self::new()
    }
}

impl ClarifyTool {
    pub fn new() -> Self {
        Self { spec: spec(&DESCRIPTOR, include_str!("texts/clarify.md"), include_str!("texts/clarify.json")) }
    }
}

impl Tool for ClarifyTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(question) = text(&call.arguments, "question") else {
                return missing("clarify", "question");
            };
            let (question, choices) = (question.trim().to_owned(), choices(call.arguments.get("choices")));
            let asked = UserQuestion::Clarify { question: question.clone(), choices: choices.clone() };
            let offered = if choices.is_empty() { Value::Null } else { json!(choices) };
            match context.frontend.ask_before_acting(asked, context.cancel).await {
                UserAnswer::Text(response) => answer::success_json(&json!({
                    "question": question, "choices_offered": offered, "user_response": response,
                })),
                // No user is present, or none answered in time.
                _ => answer::failure_json(&json!({
                    "error": "Clarify tool is not available in this execution context.",
                    "user_response": "No answer came. Decide yourself what fits best, go on, and say what you assumed.",
                })),
            }
        })
    }
}

/// Returns the choices to show: the first few that are not blank.
fn choices(given: Option<&Value>) -> Vec<String> {
    let given = given.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts = given.iter().filter_map(|choice| match choice {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    texts.filter(|text| !text.is_empty()).take(MOST_CHOICES).collect()
}
