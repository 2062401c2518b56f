//! The bridge: a program beside the gateway that holds the connection to WhatsApp, and HTTP requests to it.
//!
//! Invariant: one bridge at most runs for this channel; whoever needs one while none runs starts it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_net::{HttpRequest, Method, ProxyMode, Url, header};
use hermes_types::{ChannelError, Secret, random_hex};
use serde_json::{Value, json};

use super::settings::WhatsAppSettings;
use crate::host::{ChannelContext, HelperError, HelperRequest, RunningHelper};
use crate::rest::{RestClient, RestError};

/// The time a bridge has to listen.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(70);
/// A file is encrypted and uploaded by the bridge.
const FILE_TIMEOUT: Duration = Duration::from_secs(130);

/// Where the running bridge listens.
#[derive(Debug, Clone)]
struct BridgeAddress {
    base: Url,
    token: Secret,
}

pub(super) struct Bridge {
    rest: RestClient,
    address: Mutex<Option<BridgeAddress>>,
    /// The program, while nobody reads its lines.
    pub(super) helper: tokio::sync::Mutex<Option<Box<dyn RunningHelper>>>,
}

impl Bridge {
    pub(super) fn new(context: &ChannelContext) -> Result<Self, String> {
        // It listens on this computer, where no proxy is in between.
        let client = context.client.with_proxies(ProxyMode::Direct).map_err(|error| error.to_string())?;
        let reason = |body: &Value| body.get("error").and_then(Value::as_str).map(str::to_owned);
        let rest = RestClient { client, clock: context.clock.clone(), label: "the WhatsApp bridge", reason };
        Ok(Self { rest, address: Mutex::default(), helper: tokio::sync::Mutex::default() })
    }

    pub(super) fn is_running(&self) -> bool {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn forget(&self) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts a bridge and waits until it listens.
    pub(super) async fn start(
        &self,
        settings: &WhatsAppSettings,
        context: &ChannelContext,
    ) -> Result<Box<dyn RunningHelper>, ChannelError> {
        let token = random_hex(32);
        let first_line = json!({"token": token}).to_string();
        let request = HelperRequest {
            name: super::NAME,
            arguments: ["--port", "0", "--stdin", "--mode", &settings.mode].map(str::to_owned).to_vec(),
            variables: settings.variables(),
            first_line: &first_line,
        };
        let mut helper = context.host.start_helper(request).await.map_err(|error| match error {
            HelperError::Missing(why) => ChannelError::Refused(why),
            HelperError::Failed(reason) => ChannelError::Retry { after: None, reason },
        })?;
        let mut late = context.clock.sleep(START_TIMEOUT);
        loop {
            let line = tokio::select! {
                line = helper.next_line() => line,
                () = &mut late => {
                    let reason = "the WhatsApp bridge did not start in time".to_owned();
                    return Err(ChannelError::Retry { after: None, reason });
                }
            };
            let Some(event) = line.map(|line| parse_line(&line)) else {
                let reason =
                    "the WhatsApp bridge ended while it started; its log is bridge.log beside the session"
                        .to_owned();
                return Err(ChannelError::Retry { after: None, reason });
            };
            if let Some(error) = ending(&event) {
                return Err(error);
            }
            let port = event.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
            if let Some(port) = port.filter(|_| event["event"] == "listening") {
                let base = Url::parse(&format!("http://127.0.0.1:{port}/"));
                let base = base.map_err(|_| ChannelError::Refused("no address".to_owned()))?;
                *self.address.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(BridgeAddress { base, token: Secret::new(token) });
                return Ok(helper);
            }
        }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, RestError> {
        self.request(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, RestError> {
        self.request(Method::POST, path, Some(body)).await
    }

    async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, RestError> {
        let found = self.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(address) = found else {
            let reason = "the WhatsApp bridge does not run".to_owned();
            return Err(RestError::new(ChannelError::Retry { after: None, reason }));
        };
        let invalid = |error: hermes_net::Error| RestError::network(&error);
        let url = address.base.join(path).map_err(|_| invalid(hermes_net::Error::InvalidUrl))?;
        let bearer = Secret::new(format!("Bearer {}", address.token.expose()));
        let request =
            HttpRequest::new(method, url).secret_header(header::AUTHORIZATION, &bearer).map_err(invalid)?;
        let request = match body {
            Some(body) => request.json(body).map_err(invalid)?,
            None => request,
        };
        let patience = if path == "send-media" { FILE_TIMEOUT } else { TIMEOUT };
        let response = self.rest.send(request, patience).await.map_err(restarted)?;
        response.json(LARGEST_ANSWER).await.map_err(invalid)
    }
}

/// A token that is refused belongs to a bridge that has been replaced meanwhile.
fn restarted(failure: RestError) -> RestError {
    match failure.error {
        ChannelError::Reauthorise(reason) => {
            RestError { error: ChannelError::Retry { after: None, reason }, ..failure }
        }
        _ => failure,
    }
}

/// Parses a line; what is none counts as an event without a name.
pub(super) fn parse_line(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

/// Names the end of a bridge for what can be done about it, if an event announces one that another start does not mend.
pub(super) fn ending(event: &Value) -> Option<ChannelError> {
    let text = || event.get("text").and_then(Value::as_str).unwrap_or("no reason given").to_owned();
    Some(match event.get("event").and_then(Value::as_str)? {
        "logged_out" => ChannelError::Reauthorise(
            "the phone has removed this device; link it again with `hermes whatsapp`".to_owned(),
        ),
        "unlinked" => {
            ChannelError::Reauthorise("no phone is linked; run `hermes whatsapp` to link one".to_owned())
        }
        "refused" => ChannelError::Refused(format!("WhatsApp refuses the account: {}", text())),
        "session_in_use" => ChannelError::Conflict(format!("another bridge uses the session: {}", text())),
        "no_library" => ChannelError::Refused(
            "the packages of the WhatsApp bridge are missing; run `hermes whatsapp` to install them"
                .to_owned(),
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let of = |name: &str| ending(&json!({"event": name, "text": "x"}));
        assert!(matches!(of("logged_out"), Some(ChannelError::Reauthorise(_))));
        assert!(matches!(of("session_in_use"), Some(ChannelError::Conflict(_))));
        assert!(matches!(of("refused"), Some(ChannelError::Refused(_))));
        assert_eq!(of("connected"), None);
        assert_eq!(ending(&parse_line("no json")), None);
    }
}
