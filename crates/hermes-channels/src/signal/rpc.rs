//! JSON-RPC calls of the daemon, and their errors.

use std::time::Duration;

use hermes_net::{HttpRequest, HttpResponse, Method, Url};
use hermes_types::{Cancel, ChannelError, Deadline, random_hex};
use serde_json::{Map, Value, json};

use super::settings::SignalSettings;
use crate::host::ChannelContext;
use crate::rest::{RestClient, RestError, encode_form};

const TIMEOUT: Duration = Duration::from_secs(30);
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// A document of 20 MB in base64, and what surrounds it.
const LARGEST_ANSWER: usize = 30 * 1024 * 1024;
const LIFETIME: Duration = Duration::from_hours(24 * 365);

/// The daemon's codes: a network failure, a changed safety number, a limit.
const IO_ERROR: i64 = -3;
const UNTRUSTED_KEY: i64 = -4;
const RATE_LIMIT: i64 = -5;

pub(super) struct SignalRpc {
    rest: RestClient,
    base: Url,
    account: String,
}

/// The parameters of a call.
pub(super) type RpcParameters = Map<String, Value>;

impl SignalRpc {
    pub(super) fn new(settings: &SignalSettings, context: &ChannelContext) -> Self {
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let rest = RestClient { client, clock, label: "signal-cli", reason: |_| None };
        Self { rest, base: settings.base.clone(), account: settings.account.clone() }
    }

    /// Calls a method for the account.
    pub(super) async fn call(&self, method: &str, mut parameters: RpcParameters) -> Result<Value, RestError> {
        parameters.insert("account".to_owned(), json!(self.account));
        let body = json!({"jsonrpc": "2.0", "id": random_hex(16), "method": method, "params": parameters});
        let url = self.url("api/v1/rpc")?;
        let request =
            HttpRequest::new(Method::POST, url).json(&body).map_err(|error| RestError::network(&error))?;
        let response = self.rest.send(request, TIMEOUT).await?;
        let answer: Value =
            response.json(LARGEST_ANSWER).await.map_err(|error| RestError::network(&error))?;
        match answer.get("error").filter(|error| !error.is_null()) {
            Some(error) => Err(refusal(method, error)),
            None => Ok(answer.get("result").cloned().unwrap_or_default()),
        }
    }

    /// Checks that the daemon runs.
    pub(super) async fn check(&self) -> Result<(), RestError> {
        let request = HttpRequest::new(Method::GET, self.url("api/v1/check")?);
        self.rest.send(request, CHECK_TIMEOUT).await.map(drop)
    }

    /// Opens the stream of events, whose reads end after this much silence.
    pub(super) async fn events(&self, silence: Duration) -> Result<HttpResponse, RestError> {
        let query = encode_form(&[("account", &self.account)]);
        let url = self.url(&format!("api/v1/events?{query}"))?;
        let request = HttpRequest::new(Method::GET, url).stall_timeout(silence).response_timeout(TIMEOUT);
        let deadline = Deadline::after(&*self.rest.clock, LIFETIME);
        let sent = self.rest.client.send(request, deadline, &Cancel::new()).await;
        let response = sent.map_err(|error| RestError::network(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let reason = format!("signal-cli answered with status {}", status.as_u16());
        let error = if status.is_client_error() {
            ChannelError::Refused(format!("{reason}; does it run with this account (SIGNAL_ACCOUNT)?"))
        } else {
            ChannelError::Retry { after: None, reason }
        };
        Err(RestError::new(error))
    }

    fn url(&self, path: &str) -> Result<Url, RestError> {
        self.base.join(path).map_err(|_| RestError::network(&hermes_net::Error::InvalidUrl))
    }
}

/// Names an error for what can be done about it.
fn refusal(method: &str, error: &Value) -> RestError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let said = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let lower = said.to_lowercase();
    let reason = format!("signal-cli: {method}: {said}");
    let is_gone = ["is not registered", "authorization failed", "account does not exist", "not linked"];
    let error = if is_gone.iter().any(|words| lower.contains(words)) {
        let text =
            "Signal does not know the account any more; register it again, or link it with `signal-cli link`";
        ChannelError::Reauthorise(text.to_owned())
    } else {
        match code {
            RATE_LIMIT => ChannelError::Retry { after: wait(error), reason },
            IO_ERROR => ChannelError::Retry { after: None, reason },
            UNTRUSTED_KEY => ChannelError::Refused(
                "the safety number of the recipient has changed; confirm it with `signal-cli trust`"
                    .to_owned(),
            ),
            _ => ChannelError::Refused(reason),
        }
    };
    RestError { may_have_succeeded: code == IO_ERROR, ..RestError::new(error) }
}

/// Finds how long to wait, which stands in the result of each recipient.
fn wait(error: &Value) -> Option<Duration> {
    let results = error.pointer("/data/response/results").and_then(Value::as_array);
    let seconds =
        results.into_iter().flatten().filter_map(|result| result.get("retryAfterSeconds")?.as_u64());
    seconds.max().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_named_for_what_can_be_done() {
        let of = |code: i64, message: &str| refusal("send", &json!({"code": code, "message": message})).error;
        assert!(matches!(of(-1, "User +1 is not registered."), ChannelError::Reauthorise(_)));
        assert!(matches!(of(-1, "Invalid group id"), ChannelError::Refused(_)));
        assert!(matches!(of(-3, "timeout"), ChannelError::Retry { .. }));
        let limited = json!({"code": -5, "message": "limit", "data": {"response": {"results": [{"retryAfterSeconds": 9}]}}});
        let after = Some(Duration::from_secs(9));
        assert!(
            matches!(refusal("send", &limited).error, ChannelError::Retry { after: given, .. } if given == after)
        );
    }
}
