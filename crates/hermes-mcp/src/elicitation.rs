//! Questions of a server to the person (elicitation): asked while one of its tools runs, declined otherwise.
//!
//! Invariants: a person sees which server asks, and can decline; nobody is asked more than a few times in one call; what
//! a server writes is shown without control characters; answers go to the server and not to the model.

use std::sync::{Mutex, PoisonError};

use hermes_types::{ToolContext, UserAnswer, UserQuestion};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Number, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::foreign_text::clean;

/// The most questions of one call.
const MAX_QUESTIONS: u32 = 5;
const MAX_FIELDS: usize = 20;
const MAX_ATTEMPTS: u32 = 3;
const LONGEST_TEXT: usize = 1_000;
const LONGEST_LABEL: usize = 200;
const ANSWER: &str = "Answer";
const DECLINE: &str = "Decline";
const LEAVE_OUT: &str = "-";

/// A question that waits for a person.
pub(crate) struct PendingElicitation {
    params: ElicitRequestParams,
    reply: oneshot::Sender<ElicitResult>,
}

/// Passes questions of a server to the call during which they came, the latest one if there are several.
#[derive(Default)]
pub(crate) struct ElicitationRouter(Mutex<Vec<(u64, UnboundedSender<PendingElicitation>)>>);

/// The questions that come during one call. Dropping it ends that.
pub(crate) struct ElicitationListener<'a> {
    router: &'a ElicitationRouter,
    id: u64,
    receiver: UnboundedReceiver<PendingElicitation>,
    asked: u32,
}

impl ElicitationRouter {
    pub(crate) fn listen(&self) -> ElicitationListener<'_> {
        let (sender, receiver) = unbounded_channel();
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = calls.last().map_or(1, |(last, _)| last + 1);
        calls.push((id, sender));
        ElicitationListener { router: self, id, receiver, asked: 0 }
    }

    /// Returns the answer of the person, or that the question was declined because no call is running.
    pub(crate) async fn ask(&self, params: ElicitRequestParams) -> ElicitResult {
        let sender = {
            let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            calls.last().map(|(_, sender)| sender.clone())
        };
        let (reply, answer) = oneshot::channel();
        let sent = sender.is_some_and(|sender| sender.send(PendingElicitation { params, reply }).is_ok());
        let declined = ElicitResult::new(ElicitationAction::Decline);
        if sent { answer.await.unwrap_or(declined) } else { declined }
    }
}

impl Drop for ElicitationListener<'_> {
    fn drop(&mut self) {
        let mut calls = self.router.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|(id, _)| *id != self.id);
    }
}

impl ElicitationListener<'_> {
    /// Waits for a question.
    pub(crate) async fn next(&mut self) -> Option<PendingElicitation> {
        self.receiver.recv().await
    }

    /// Shows a question to the person, and passes the answer on.
    pub(crate) async fn handle(
        &mut self,
        question: PendingElicitation,
        server: &str,
        context: &ToolContext<'_>,
    ) {
        self.asked += 1;
        let PendingElicitation { params, reply } = question;
        let result = if self.asked > MAX_QUESTIONS {
            ElicitResult::new(ElicitationAction::Decline)
        } else {
            Dialog { server, context }.run(&params).await
        };
        // The connection may have ended meanwhile.
        let _ = reply.send(result);
    }
}

/// The reason why a question has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoAnswer {
    Declined,
    /// Nobody is there, or nobody answered.
    Cancelled,
}

impl From<NoAnswer> for ElicitResult {
    fn from(reason: NoAnswer) -> Self {
        Self::new(match reason {
            NoAnswer::Declined => ElicitationAction::Decline,
            NoAnswer::Cancelled => ElicitationAction::Cancel,
        })
    }
}

struct Dialog<'a> {
    server: &'a str,
    context: &'a ToolContext<'a>,
}

impl Dialog<'_> {
    async fn run(&self, params: &ElicitRequestParams) -> ElicitResult {
        // Read as JSON, because servers send more than the protocol's types hold.
        let params = serde_json::to_value(params).unwrap_or_default();
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = clean(text("message"), LONGEST_TEXT);
        if !text("url").is_empty() {
            return self.visit(&message, text("url")).await;
        }
        let schema = params.get("requestedSchema").cloned().unwrap_or_default();
        self.fill_in(&message, &schema).await.map_or_else(ElicitResult::from, |content| {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
        })
    }

    /// Asks the person to open an address.
    async fn visit(&self, message: &str, url: &str) -> ElicitResult {
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return ElicitResult::new(ElicitationAction::Decline);
        }
        let shown = clean(url, LONGEST_TEXT);
        let question = format!(
            "The MCP server {} asks you to open this address:\n{shown}\n\n{message}\n\nOpen it in your browser only if you \
             expected this.",
            self.server
        );
        match self.choose(question, &["Opened", DECLINE]).await {
            Ok(choice) if choice == "Opened" => ElicitResult::new(ElicitationAction::Accept),
            Ok(_) => NoAnswer::Declined.into(),
            Err(reason) => reason.into(),
        }
    }

    /// Asks for each field of a form.
    async fn fill_in(&self, message: &str, schema: &Value) -> Result<Map<String, Value>, NoAnswer> {
        let empty = Map::new();
        let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        if fields.len() > MAX_FIELDS {
            return Err(NoAnswer::Declined);
        }
        let names: Vec<String> = fields.iter().map(|(name, field)| label(name, field)).collect();
        let wants =
            if names.is_empty() { String::new() } else { format!("\nIt wants: {}", names.join(", ")) };
        let question = format!(
            "The MCP server {} asks: {message}{wants}\n\nYour answer goes to this server. Do not give it passwords or keys.",
            self.server
        );
        if self.choose(question, &[ANSWER, DECLINE]).await? != ANSWER {
            return Err(NoAnswer::Declined);
        }
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut content = Map::new();
        for (name, field) in fields {
            let is_required = required.iter().any(|known| known.as_str() == Some(name));
            if let Some(value) = self.ask_field(name, field, is_required).await? {
                content.insert(name.clone(), value);
            }
        }
        Ok(content)
    }

    async fn ask_field(
        &self,
        name: &str,
        field: &Value,
        is_required: bool,
    ) -> Result<Option<Value>, NoAnswer> {
        let about = field.get("description").and_then(Value::as_str).map(|text| clean(text, LONGEST_LABEL));
        let about = about.map(|text| format!(" ({text})")).unwrap_or_default();
        let hint = if is_required { "" } else { " Answer `-` to leave it out." };
        let choices = choices(field);
        let mut wrong = String::new();
        for _ in 0..MAX_ATTEMPTS {
            let question = format!("{wrong}{}: {}{about}?{hint}", self.server, label(name, field));
            let shown: Vec<&str> = choices.iter().map(|(shown, _)| shown.as_str()).collect();
            let answer = self.choose(question, &shown).await?;
            if answer.trim() == LEAVE_OUT && !is_required {
                return Ok(None);
            }
            match read_answer(answer.trim(), field, &choices) {
                Ok(value) => return Ok(Some(value)),
                Err(reason) => wrong = format!("{reason} "),
            }
        }
        Err(NoAnswer::Cancelled)
    }

    async fn choose(&self, question: String, choices: &[&str]) -> Result<String, NoAnswer> {
        let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
        let question = UserQuestion::Clarify { question, choices };
        match self.context.frontend.ask(question, self.context.cancel).await {
            UserAnswer::Text(text) => Ok(text),
            _ => Err(NoAnswer::Cancelled),
        }
    }
}

fn label(name: &str, field: &Value) -> String {
    let title = field.get("title").and_then(Value::as_str).unwrap_or(name);
    clean(title, LONGEST_LABEL)
}

/// Returns what a field can be, as it is shown and as the server wants it; nothing for a field with free text.
fn choices(field: &Value) -> Vec<(String, Value)> {
    if field.get("type").and_then(Value::as_str) == Some("boolean") {
        return vec![("Yes".to_owned(), true.into()), ("No".to_owned(), false.into())];
    }
    let named = field.get("oneOf").or_else(|| field.get("anyOf")).and_then(Value::as_array);
    let pair = |option: &Value| {
        let value = option.get("const")?.clone();
        let title = option.get("title").and_then(Value::as_str).or(value.as_str())?;
        Some((clean(title, LONGEST_LABEL), value))
    };
    if let Some(options) = named {
        return options.iter().filter_map(pair).collect();
    }
    let names = field.get("enumNames").and_then(Value::as_array).cloned().unwrap_or_default();
    let values = field.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
    let values = values.into_iter().enumerate();
    values
        .filter_map(|(at, value)| {
            let shown = names.get(at).and_then(Value::as_str).or(value.as_str())?;
            Some((clean(shown, LONGEST_LABEL), value))
        })
        .collect()
}

/// Reads a typed answer as the type of its field.
fn read_answer(answer: &str, field: &Value, choices: &[(String, Value)]) -> Result<Value, String> {
    if !choices.is_empty() {
        let is_meant = |shown: &str, value: &Value| {
            shown.eq_ignore_ascii_case(answer)
                || value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(answer))
        };
        let found = choices.iter().find(|(shown, value)| is_meant(shown, value));
        return found
            .map(|(_, value)| value.clone())
            .ok_or_else(|| "That is none of the choices.".to_owned());
    }
    let bound = |key: &str| field.get(key).and_then(Value::as_f64);
    match field.get("type").and_then(Value::as_str).unwrap_or("string") {
        "integer" => {
            let number: i64 = answer.parse().map_err(|_| "That is not a whole number.".to_owned())?;
            #[expect(clippy::cast_precision_loss, reason = "only compared with bounds")]
            in_bounds(number as f64, bound("minimum"), bound("maximum"))?;
            Ok(number.into())
        }
        "number" => {
            let number: f64 = answer.parse().map_err(|_| "That is not a number.".to_owned())?;
            in_bounds(number, bound("minimum"), bound("maximum"))?;
            Number::from_f64(number).map(Value::Number).ok_or_else(|| "That is not a number.".to_owned())
        }
        "array" => Ok(answer.split(',').map(|part| Value::from(part.trim())).collect()),
        _ => {
            #[expect(clippy::cast_precision_loss, reason = "only compared with bounds")]
            let length = answer.chars().count() as f64;
            in_bounds(length, bound("minLength"), bound("maxLength"))
                .map_err(|_| "That is too short or too long.".to_owned())?;
            Ok(answer.into())
        }
    }
}

fn in_bounds(value: f64, least: Option<f64>, most: Option<f64>) -> Result<(), String> {
    match (least, most) {
        (Some(least), _) if value < least => Err(format!("It has to be at least {least}.")),
        (_, Some(most)) if value > most => Err(format!("It has to be at most {most}.")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(field: &Value, answer: &str, expected: Option<&Value>) {
        assert_eq!(read_answer(answer, field, &choices(field)).ok().as_ref(), expected, "{field} {answer}");
    }

    #[test]
    fn answers_get_the_type_of_their_field() {
        check(&json!({"type": "string"}), "x", Some(&json!("x")));
        check(&json!({"type": "string", "minLength": 2}), "x", None);
        check(&json!({"type": "integer", "maximum": 9}), "7", Some(&json!(7)));
        check(&json!({"type": "integer", "maximum": 9}), "10", None);
        check(&json!({"type": "integer"}), "seven", None);
        check(&json!({"type": "number"}), "2.5", Some(&json!(2.5)));
        check(&json!({"type": "number"}), "nan", None);
        check(&json!({"type": "boolean"}), "yes", Some(&json!(true)));
        check(&json!({"enum": ["a", "b"], "enumNames": ["Alpha", "Beta"]}), "beta", Some(&json!("b")));
        check(&json!({"enum": ["a", "b"]}), "c", None);
        check(&json!({"oneOf": [{"const": "x", "title": "Ex"}]}), "Ex", Some(&json!("x")));
    }
}
