//! Complete HTTP responses: scripted verbatim, or refusals in each wire's error format.

use serde_json::{Value, json};

use super::{ReplyContext, ResponsePiece, ResponsePlan, Wire, around, plain_text, turn};
use crate::script::{ScriptedFailure, ScriptedHttpResponse, ScriptedReply};

pub(crate) fn plan(reply: &ScriptedReply, ask: &ReplyContext) -> ResponsePlan {
    let mut plan = match (&reply.http, &reply.fail) {
        (Some(http), _) => scripted(http),
        (None, Some(failure)) => refusal(failure, ask.wire),
        (None, None) => ResponsePlan::of_json(500, &Value::Null),
    };
    let flow: Vec<ResponsePiece> = reply.events.iter().filter_map(turn::flow).collect();
    let body = plan.pieces.into_iter().find_map(|piece| match piece {
        ResponsePiece::Bytes(bytes) => Some(bytes),
        _ => None,
    });
    plan.pieces = around(flow.iter(), body.unwrap_or_default());
    plan
}

/// Builds an error body in the wire's format.
pub(crate) fn body(wire: Wire, message: &str, kind: &str, code: &Value) -> Value {
    match wire {
        Wire::Chat | Wire::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
        Wire::Converse => json!({"message": message, "__type": kind}),
        Wire::Messages => {
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"})
        }
    }
}

fn scripted(http: &ScriptedHttpResponse) -> ResponsePlan {
    let mut plan = ResponsePlan::of_json(http.status, &http.body);
    match &http.body {
        Value::Null => plan.pieces = vec![ResponsePiece::Bytes(Vec::new())],
        Value::String(text) => {
            plan.pieces = vec![ResponsePiece::Bytes(text.clone().into_bytes())];
            plan.set_header("content-type", "text/plain; charset=utf-8".into());
        }
        _ => {}
    }
    for (name, value) in &http.headers {
        plan.set_header(name, plain_text(value));
    }
    plan
}

fn refusal(failure: &ScriptedFailure, wire: Wire) -> ResponsePlan {
    let (kind, message, code) = usual(failure.status, wire);
    let kind = failure.kind.as_deref().unwrap_or(kind);
    let message = failure.message.as_deref().unwrap_or(message);
    let code = failure.code.clone().unwrap_or_else(|| code.map_or(Value::Null, Value::from));
    let mut plan = ResponsePlan::of_json(failure.status, &body(wire, message, kind, &code));
    if let Some(after) = &failure.retry_after {
        plan.set_header("retry-after", plain_text(after));
    }
    plan
}

/// Returns the kind, text and code that the providers use for a status.
fn usual(status: u16, wire: Wire) -> (&'static str, &'static str, Option<&'static str>) {
    let openai = matches!(wire, Wire::Chat | Wire::Responses);
    match status {
        403 if wire == Wire::Converse => {
            ("AccessDeniedException", "You don't have access to the model.", None)
        }
        429 if wire == Wire::Converse => ("ThrottlingException", "Too many requests.", None),
        400 if wire == Wire::Converse => ("ValidationException", "The request is not valid.", None),
        401 if openai => ("invalid_request_error", "Incorrect API key provided.", Some("invalid_api_key")),
        401 => ("authentication_error", "invalid x-api-key", None),
        402 => ("billing_error", "Insufficient credits.", None),
        403 => ("permission_error", "You do not have access to this resource.", None),
        404 if openai => ("invalid_request_error", "The model does not exist.", Some("model_not_found")),
        404 => ("not_found_error", "model not found", None),
        413 => ("request_too_large", "Request entity too large", None),
        429 if openai => ("requests", "Rate limit reached.", Some("rate_limit_exceeded")),
        429 => ("rate_limit_error", "This request would exceed your rate limit.", None),
        529 => ("overloaded_error", "Overloaded", None),
        500.. if openai => ("server_error", "The server had an error while processing your request.", None),
        500.. => ("api_error", "Internal server error", None),
        _ => ("invalid_request_error", "The request is not valid.", None),
    }
}
