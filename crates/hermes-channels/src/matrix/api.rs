//! Calls of the client-server API, and their failures.

use std::time::Duration;

use hermes_net::{Bytes, HttpRequest, Method, Url, header};
use hermes_types::{ChannelError, Secret};
use serde_json::Value;

use super::settings::MatrixSettings;
use super::sign_in::MatrixSession;
use crate::host::ChannelContext;
use crate::rest::{RestClient, RestError};

/// The size limit of the response to a sync.
const LARGEST_SYNC: usize = 64 * 1024 * 1024;
/// The time that a file may take on its way.
const FILE_TIMEOUT: Duration = Duration::from_mins(2);

/// Calls one homeserver.
pub(super) struct MatrixApi {
    pub(super) rest: RestClient,
    server: Url,
    /// The session in use.
    pub(super) session: tokio::sync::Mutex<Option<MatrixSession>>,
}

impl MatrixApi {
    pub(super) fn new(settings: &MatrixSettings, context: &ChannelContext) -> Self {
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let rest = RestClient { client, clock, label: "Matrix", reason };
        Self { rest, server: settings.server.clone(), session: tokio::sync::Mutex::default() }
    }

    /// Calls a path below `_matrix/client/`.
    pub(super) async fn call(
        &self,
        token: &Secret,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, RestError> {
        let request =
            self.request(method, &format!("client/{path}"), Some(token)).and_then(|request| match body {
                Some(body) => request.json(body).map_err(|error| RestError::network(&error)),
                None => Ok(request),
            })?;
        self.rest.call(request).await.map_err(explain)
    }

    /// Returns a document; `None` where there is none.
    pub(super) async fn find(&self, token: &Secret, path: &str) -> Result<Option<Value>, RestError> {
        match self.call(token, Method::GET, path, None).await {
            Ok(content) => Ok(Some(content)),
            Err(failure) if failure.status == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Returns the content of one of the account's settings.
    pub(super) async fn account_data(
        &self,
        session: &MatrixSession,
        kind: &str,
    ) -> Result<Option<Value>, RestError> {
        let target = format!("v3/user/{}/account_data/{}", path(&[&session.user]), path(&[kind]));
        self.find(&session.token, &target).await
    }

    /// Returns the content of a state event without a key.
    pub(super) async fn state(
        &self,
        session: &MatrixSession,
        room: &str,
        kind: &str,
    ) -> Result<Option<Value>, RestError> {
        let target = format!("v3/rooms/{}/state/{}/", path(&[room]), path(&[kind]));
        self.find(&session.token, &target).await
    }

    /// Returns everybody who is in a room or invited, and the names of those who have one.
    pub(super) async fn members(
        &self,
        session: &MatrixSession,
        room: &str,
    ) -> Result<Vec<(String, Option<String>)>, RestError> {
        let target = format!("v3/rooms/{}/members", path(&[room]));
        let answer = self.call(&session.token, Method::GET, &target, None).await?;
        let member = |event: &Value| {
            let content = event.get("content")?;
            let is_there = matches!(content.get("membership")?.as_str(), Some("join" | "invite"));
            let name = content.get("displayname").and_then(Value::as_str).map(str::to_owned);
            is_there.then(|| Some((event.get("state_key")?.as_str()?.to_owned(), name))).flatten()
        };
        let events = answer.get("chunk").and_then(Value::as_array).into_iter().flatten();
        Ok(events.filter_map(member).collect())
    }

    /// Calls a path without a session.
    pub(super) async fn call_openly(&self, path: &str, body: &Value) -> Result<Value, RestError> {
        let request = self.request(Method::POST, &format!("client/{path}"), None)?;
        let request = request.json(body).map_err(|error| RestError::network(&error))?;
        self.rest.call(request).await.map_err(explain)
    }

    /// Waits for what is new, as long as the server holds the request.
    pub(super) async fn sync(
        &self,
        token: &Secret,
        query: &[(&str, &str)],
        patience: Duration,
    ) -> Result<Value, RestError> {
        let path = format!("client/v3/sync?{}", crate::rest::encode_form(query));
        let request = self.request(Method::GET, &path, Some(token))?.body_limit(LARGEST_SYNC);
        let response = self.rest.send(request, patience).await.map_err(explain)?;
        let bytes = response.bytes(LARGEST_SYNC).await.map_err(|error| RestError::network(&error))?;
        serde_json::from_slice(&bytes).map_err(|_| {
            let reason = "Matrix answered a sync with something that is no JSON".to_owned();
            RestError::new(ChannelError::Retry { after: None, reason })
        })
    }

    /// Uploads a file and returns its address on the server. Nobody sees it before its message.
    pub(super) async fn upload(
        &self,
        token: &Secret,
        name: &str,
        mime: &str,
        bytes: Vec<u8>,
    ) -> Result<String, RestError> {
        let path = format!("media/v3/upload?{}", crate::rest::encode_form(&[("filename", name)]));
        let request = self.request(Method::POST, &path, Some(token))?;
        let request =
            request.header(header::CONTENT_TYPE, mime).map_err(|error| RestError::network(&error))?;
        let response = self.rest.send(request.body(bytes), FILE_TIMEOUT).await.map_err(explain)?;
        let answer: Value = response.json(64 * 1024).await.map_err(|error| RestError::network(&error))?;
        let address = answer.get("content_uri").and_then(Value::as_str);
        let refused =
            || RestError::new(ChannelError::Refused("Matrix: the upload has no address".to_owned()));
        address.map(str::to_owned).ok_or_else(refused)
    }

    /// Downloads a file by its address, `mxc://SERVER/ID`.
    pub(super) async fn download(&self, token: &Secret, address: &str, cap: u64) -> Result<Bytes, RestError> {
        let refused =
            || RestError::new(ChannelError::Refused("the address of the file is not valid".to_owned()));
        let (server, id) =
            address.strip_prefix("mxc://").and_then(|rest| rest.split_once('/')).ok_or_else(refused)?;
        let tail = path(&[server, id]);
        let request = self.request(Method::GET, &format!("client/v1/media/download/{tail}"), Some(token))?;
        match self.rest.download(request.follow_redirects(3), cap).await {
            // Servers from before authenticated media.
            Err(failure) if failure.status == Some(404) => {
                let request = self.request(Method::GET, &format!("media/v3/download/{tail}"), Some(token))?;
                self.rest.download(request.follow_redirects(3), cap).await.map_err(explain)
            }
            outcome => outcome.map_err(explain),
        }
    }

    fn request(&self, method: Method, path: &str, token: Option<&Secret>) -> Result<HttpRequest, RestError> {
        let refused = |_| RestError::new(ChannelError::Refused("the address is not valid".to_owned()));
        let url = self.server.join(&format!("_matrix/{path}")).map_err(refused)?;
        let request = HttpRequest::new(method, url);
        match token {
            Some(token) => request.bearer(token).map_err(|error| RestError::network(&error)),
            None => Ok(request),
        }
    }
}

/// Joins segments of a path, each of which may hold any character.
pub(super) fn path(segments: &[&str]) -> String {
    let mut out = String::new();
    for (at, segment) in segments.iter().enumerate() {
        if at > 0 {
            out.push('/');
        }
        for byte in segment.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.extend(["%", &data_encoding::HEXUPPER.encode(&[byte])]);
            }
        }
    }
    out
}

/// Returns the code of a refusal: `M_FORBIDDEN`.
pub(super) fn code(failure: &RestError) -> Option<&str> {
    failure.body.get("errcode").and_then(Value::as_str)
}

fn reason(body: &Value) -> Option<String> {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let said = text("error").filter(|text| !text.is_empty()).or_else(|| text("errcode"))?;
    // What a server says is shown to people.
    Some(said.chars().filter(|c| !c.is_control()).take(300).collect())
}

/// Reads what Matrix says in the body of a refusal.
fn explain(mut failure: RestError) -> RestError {
    let after = failure.body.get("retry_after_ms").and_then(Value::as_u64).map(Duration::from_millis);
    match code(&failure) {
        Some("M_LIMIT_EXCEEDED") => {
            let reason = "Matrix: too many requests".to_owned();
            let known = match &failure.error {
                ChannelError::Retry { after, .. } => *after,
                _ => None,
            };
            failure.error = ChannelError::Retry { after: after.or(known), reason };
        }
        Some("M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN") => {
            let text = "Matrix does not take the access token any more";
            failure.error = ChannelError::Reauthorise(text.to_owned());
        }
        _ => {}
    }
    failure
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn segments_are_escaped() {
        assert_eq!(path(&["!a/b:c.org", "$x", "ü"]), "%21a%2Fb%3Ac.org/%24x/%C3%BC");
    }

    #[test]
    fn refusals_say_what_to_do() {
        let failure = |status: u16, body: Value| {
            let error = ChannelError::Refused("x".to_owned());
            explain(RestError { status: Some(status), body, ..RestError::new(error) }).error
        };
        let limited = failure(429, json!({"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2500}));
        assert!(
            matches!(limited, ChannelError::Retry { after: Some(after), .. } if after == Duration::from_millis(2500))
        );
        assert!(matches!(failure(401, json!({"errcode": "M_UNKNOWN_TOKEN"})), ChannelError::Reauthorise(_)));
        assert!(matches!(failure(403, json!({"errcode": "M_FORBIDDEN"})), ChannelError::Refused(_)));
    }
}
