//! The open API: tokens, robot messages, files, and the address of the stream.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_net::{Bytes, Error, HeaderName, HttpRequest, Method, Url, header};
use hermes_types::{ChannelError, Secret};
use serde_json::{Value, json};

use super::settings::DingTalkSettings;
use crate::host::ChannelContext;
use crate::media::LARGEST_DOCUMENT;
use crate::multipart::MultipartForm;
use crate::rest::{RestClient, RestError, encode_form};

const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-acs-dingtalk-access-token");
/// The time before its end at which a token is renewed.
const TOKEN_MARGIN: Duration = Duration::from_mins(5);
/// The topic of messages to the robot.
const TOPIC: &str = "/v1.0/im/bot/messages/get";
const AGENT: &str = concat!("hermes/", env!("CARGO_PKG_VERSION"));

pub(super) struct DingTalkApi {
    rest: RestClient,
    settings: DingTalkSettings,
    /// The access token, and until when it is used.
    token: Mutex<Option<(Secret, Duration)>>,
}

/// The kind of an uploaded file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DingTalkFileKind {
    Image,
    File,
}

impl DingTalkApi {
    pub(super) fn new(settings: &DingTalkSettings, context: &ChannelContext) -> Self {
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let rest = RestClient { client, clock, label: "DingTalk", reason };
        Self { rest, settings: settings.clone(), token: Mutex::default() }
    }

    /// Asks for the address of a stream, which also checks the credentials.
    pub(super) async fn open_connection(&self) -> Result<Url, RestError> {
        let body = json!({
            "clientId": self.settings.client_id, "clientSecret": self.settings.client_secret.expose(),
            "subscriptions": [{"type": "CALLBACK", "topic": TOPIC}], "ua": AGENT, "localIp": "127.0.0.1",
        });
        let answer = self.post("v1.0/gateway/connections/open", &body, None).await.map_err(credentials)?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let url = text("endpoint").and_then(|url| Url::parse(url).ok()).zip(text("ticket"));
        let Some((mut url, ticket)) = url else {
            let reason = "DingTalk returned no address of a stream".to_owned();
            return Err(RestError::new(ChannelError::Retry { after: None, reason }));
        };
        url.query_pairs_mut().append_pair("ticket", ticket);
        Ok(url)
    }

    /// Calls a method of the open API with an access token. One that is no longer taken is renewed once.
    pub(super) async fn call(&self, path: &str, body: &Value) -> Result<Value, RestError> {
        let token = self.access_token().await?;
        match self.post(path, body, Some(&token)).await {
            Err(failure) if failure.status == Some(401) => {
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let token = self.access_token().await?;
                self.post(path, body, Some(&token)).await.map_err(credentials)
            }
            other => other,
        }
    }

    async fn post(&self, path: &str, body: &Value, token: Option<&Secret>) -> Result<Value, RestError> {
        let url = self.settings.base.join(path).map_err(|_| RestError::network(&Error::InvalidUrl))?;
        let request = HttpRequest::new(Method::POST, url).json(body).and_then(|request| match token {
            Some(token) => request.secret_header(TOKEN_HEADER, token),
            None => Ok(request),
        });
        self.rest.call(request.map_err(|error| RestError::network(&error))?).await
    }

    pub(super) async fn check_credentials(&self) -> Result<(), ChannelError> {
        Ok(self.access_token().await.map(drop)?)
    }

    async fn access_token(&self) -> Result<Secret, RestError> {
        let now = self.rest.clock.monotonic();
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((token, until)) = known
            && now < until
        {
            return Ok(token);
        }
        let DingTalkSettings { client_id, client_secret, .. } = &self.settings;
        let body = json!({"appKey": client_id, "appSecret": client_secret.expose()});
        let answer = self.post("v1.0/oauth2/accessToken", &body, None).await.map_err(credentials)?;
        let token = answer.get("accessToken").and_then(Value::as_str).map(Secret::new);
        let token = token.ok_or_else(|| {
            RestError::new(ChannelError::Refused("DingTalk returned no access token".to_owned()))
        })?;
        let seconds = answer.get("expireIn").and_then(Value::as_u64).unwrap_or(7200);
        let until = now.saturating_add(Duration::from_secs(seconds)).saturating_sub(TOKEN_MARGIN);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some((token.clone(), until));
        Ok(token)
    }

    /// Posts to the webhook of a conversation or a robot. The answer is a 200 even for a refusal.
    pub(super) async fn post_to_webhook(&self, url: &str, body: &Value) -> Result<(), RestError> {
        let url = self.settings.webhook_url(url).ok_or_else(|| {
            RestError::new(ChannelError::Refused(
                "the webhook of the conversation is not at DingTalk".to_owned(),
            ))
        })?;
        let request =
            HttpRequest::new(Method::POST, url).json(body).map_err(|error| RestError::network(&error))?;
        let answer = self.rest.call(request).await?;
        match answer.get("errcode").and_then(Value::as_i64).unwrap_or_default() {
            0 => Ok(()),
            code => Err(webhook_refusal(code, &answer)),
        }
    }

    /// Downloads a file of a message.
    pub(super) async fn download(&self, code: &str, robot: &str) -> Result<Bytes, RestError> {
        let body = json!({"downloadCode": code, "robotCode": robot});
        let answer = self.call("v1.0/robot/messageFiles/download", &body).await?;
        let url = answer.get("downloadUrl").and_then(Value::as_str).unwrap_or_default();
        let request = HttpRequest::get(url).map_err(|error| RestError::network(&error))?;
        // The address is at a storage service: it gets no token, and must be one the policy allows.
        let is_ours = self.settings.webhook_url(url).is_some();
        let request = if is_ours { request } else { request.untrusted() };
        self.rest.download(request, LARGEST_DOCUMENT).await
    }

    /// Uploads a file and returns its id.
    pub(super) async fn upload(
        &self,
        kind: DingTalkFileKind,
        name: &str,
        mime: &str,
        bytes: &[u8],
    ) -> Result<String, RestError> {
        let token = self.access_token().await?;
        let kind = if kind == DingTalkFileKind::Image { "image" } else { "file" };
        let query = encode_form(&[("access_token", token.expose()), ("type", kind)]);
        let url = self.settings.files.join(&format!("media/upload?{query}"));
        let url = url.map_err(|_| RestError::network(&Error::InvalidUrl))?;
        let (content_type, body) = MultipartForm::new().file("media", name, mime, bytes).finish();
        let request = HttpRequest::new(Method::POST, url).header(header::CONTENT_TYPE, &content_type);
        let request = request.map_err(|error| RestError::network(&error))?.body(body);
        let answer = self.rest.call(request).await?;
        let id = answer.get("media_id").and_then(Value::as_str).map(str::to_owned);
        id.ok_or_else(|| {
            let said = answer.get("errmsg").and_then(Value::as_str).unwrap_or("no reason given");
            RestError::new(ChannelError::Refused(format!("DingTalk did not take the file: {said}")))
        })
    }
}

/// Returns what the open API says about a refusal.
fn reason(body: &Value) -> Option<String> {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    match (text("code"), text("message")) {
        (Some(code), Some(message)) => Some(format!("{message} ({code})")),
        (_, message) => message.map(str::to_owned),
    }
}

/// Names a refusal of the credentials themselves.
fn credentials(mut failure: RestError) -> RestError {
    let code = failure.body.get("code").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let wrong = ["authfailed", "invalidauthentication", "invalidclientidorsecret", "invalidappkey"];
    if failure.status == Some(401) || wrong.iter().any(|known| code.contains(known)) {
        let text =
            "DingTalk does not take the credentials; check DINGTALK_CLIENT_ID and DINGTALK_CLIENT_SECRET";
        failure.error = ChannelError::Reauthorise(text.to_owned());
    }
    failure
}

/// Names the refusal of a webhook by its code.
fn webhook_refusal(code: i64, answer: &Value) -> RestError {
    let said = answer.get("errmsg").and_then(Value::as_str).unwrap_or("no reason given");
    let reason = format!("DingTalk: {said} (error {code})");
    RestError::new(match code {
        // Busy, or more than twenty messages in a minute.
        -1 | 130_101 | 130_102 | 410_100 => ChannelError::Retry { after: None, reason },
        _ => ChannelError::Refused(reason),
    })
}
