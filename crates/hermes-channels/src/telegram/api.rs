//! Calls of the Bot API.
//!
//! Holds the functions for calls, uploads and downloads. The token is part of every URL, so no error here may
//! contain a URL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hermes_net::header::{CONTENT_TYPE, USER_AGENT};
use hermes_net::{Error as NetError, HttpClient, HttpRequest, TimeoutPhase};
use hermes_types::{Cancel, ChannelError, Clock, Deadline, Secret};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fallback::FallbackAddresses;
use super::settings::TelegramSettings;
use super::wire::{ApiResponse, FilePath, ResponseParameters};
use crate::media::LARGEST_DOCUMENT;
use crate::multipart::MultipartForm;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Limits an upload, which takes longer than other calls.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(5);
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;
/// The delays before further attempts at a download.
const DOWNLOAD_PAUSES: [Duration; 2] = [Duration::from_millis(1500), Duration::from_secs(3)];

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TelegramError {
    /// The request was not sent.
    #[error("{0}")]
    Unreachable(String),
    /// The request was sent; whether it had an effect is unknown.
    #[error("{0}; Telegram did not confirm the request")]
    Unclear(String),
    #[error("Telegram is busy: {0}")]
    Server(String),
    #[error("too many messages; Telegram asks to wait {} s", .0.as_secs())]
    Flood(Duration),
    #[error("Telegram rejected the token in TELEGRAM_BOT_TOKEN; get a valid one from @BotFather")]
    Unauthorised,
    #[error("{description}")]
    Refused { code: u16, description: String, migrate_to: Option<i64> },
}

impl TelegramError {
    /// Tells whether the refusal's description contains this text.
    pub(super) fn description_contains(&self, words: &str) -> bool {
        matches!(self, Self::Refused { description, .. } if description.to_lowercase().contains(words))
    }

    /// Tells whether the server does not know the method, as emulators do.
    pub(super) fn is_unknown_method(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. } | Self::Server(_))
    }
}

impl From<TelegramError> for ChannelError {
    fn from(error: TelegramError) -> Self {
        match error {
            TelegramError::Flood(after) => Self::Retry { after: Some(after), reason: error.to_string() },
            TelegramError::Unclear(_) => Self::DeliveryUnknown(error.to_string()),
            TelegramError::Unreachable(_) | TelegramError::Server(_) => {
                Self::Retry { after: None, reason: error.to_string() }
            }
            TelegramError::Unauthorised => Self::Reauthorise(error.to_string()),
            TelegramError::Refused { .. } => Self::Refused(error.to_string()),
        }
    }
}

/// A client of the API for one bot.
#[derive(Debug)]
pub(super) struct TelegramApi {
    token: Secret,
    base: String,
    file_base: String,
    clock: Arc<dyn Clock>,
    /// The client that last succeeded.
    client: Mutex<HttpClient>,
    fallback: FallbackAddresses,
}

/// The body of a request.
#[derive(Clone)]
struct EncodedBody {
    kind: String,
    bytes: Bytes,
}

impl TelegramApi {
    pub(super) fn new(
        settings: &TelegramSettings,
        client: &HttpClient,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let unusable = |error: NetError| format!("TELEGRAM_PROXY cannot be used: {error}");
        let client = match &settings.proxies {
            Some(proxies) => client.with_proxies(proxies.clone()).map_err(unusable)?,
            None => client.clone(),
        };
        Ok(Self {
            token: settings.token.clone(),
            base: settings.base.clone(),
            file_base: settings.file_base.clone(),
            fallback: FallbackAddresses::new(settings, client.clone(), clock.clone()),
            client: Mutex::new(client),
            clock,
        })
    }

    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl Serialize,
    ) -> Result<T, TelegramError> {
        self.call_with_timeout(method, parameters, TIMEOUT).await
    }

    pub(super) async fn call_with_timeout<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl Serialize,
        patience: Duration,
    ) -> Result<T, TelegramError> {
        let bytes =
            serde_json::to_vec(parameters).map_err(|error| TelegramError::Unreachable(error.to_string()))?;
        let body = EncodedBody { kind: "application/json".to_owned(), bytes: bytes.into() };
        self.exchange(method, body, patience).await
    }

    /// Makes a call with files.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: MultipartForm,
    ) -> Result<T, TelegramError> {
        let (kind, bytes) = form.finish();
        self.exchange(method, EncodedBody { kind, bytes }, UPLOAD_TIMEOUT).await
    }

    /// Downloads a file that a user sent, with up to three attempts.
    pub(super) async fn download(&self, file_id: &str) -> Result<Bytes, TelegramError> {
        let mut pauses = DOWNLOAD_PAUSES.into_iter();
        loop {
            let error = match self.download_once(file_id).await {
                Ok(bytes) => return Ok(bytes),
                Err(error @ (TelegramError::Refused { .. } | TelegramError::Unauthorised)) => {
                    return Err(error);
                }
                Err(error) => error,
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            self.clock.sleep(pause).await;
        }
    }

    async fn download_once(&self, file_id: &str) -> Result<Bytes, TelegramError> {
        let file: FilePath = self.call("getFile", &serde_json::json!({"file_id": file_id})).await?;
        let refused =
            |why: &str| TelegramError::Refused { code: 400, description: why.to_owned(), migrate_to: None };
        let path = file.file_path.ok_or_else(|| refused("Telegram does not say where the file is"))?;
        let url = format!("{}/file/bot{}/{path}", self.file_base, self.token.expose());
        let request = HttpRequest::get(&url).map_err(|error| refused(&error.to_string()))?;
        let agent = concat!("HermesAgent/1.0 hermes/", env!("CARGO_PKG_VERSION"));
        let request = request.header(USER_AGENT, agent).map_err(|error| refused(&error.to_string()))?;
        let request = request.follow_redirects(5).response_timeout(TIMEOUT);
        let deadline = Deadline::after(&*self.clock, UPLOAD_TIMEOUT);
        let response = self
            .client()
            .send(request, deadline, &Cancel::new())
            .await
            .map_err(|error| network_error(&error))?;
        match response.status().as_u16() {
            200..300 => {}
            429 | 500.. => return Err(TelegramError::Server(response.status().to_string())),
            _ => return Err(refused(&format!("the file server said {}", response.status()))),
        }
        let cap = usize::try_from(LARGEST_DOCUMENT).unwrap_or(usize::MAX);
        match response.bytes(cap).await {
            Err(NetError::TooLarge { .. }) => Err(refused("the file is larger than 20 MB")),
            other => other.map_err(|error| network_error(&error)),
        }
    }

    fn client(&self) -> HttpClient {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        method: &str,
        body: EncodedBody,
        patience: Duration,
    ) -> Result<T, TelegramError> {
        let first = match self.attempt(&self.client(), method, body.clone(), patience).await {
            Err(TelegramError::Unreachable(why)) => TelegramError::Unreachable(why),
            done => return done,
        };
        for client in self.fallback.clients().await {
            match self.attempt(&client, method, body.clone(), patience).await {
                Err(TelegramError::Unreachable(_)) => {}
                done => {
                    tracing::info!("Telegram is reached at another of its addresses");
                    *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
                    return done;
                }
            }
        }
        Err(first)
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        client: &HttpClient,
        method: &str,
        body: EncodedBody,
        patience: Duration,
    ) -> Result<T, TelegramError> {
        let url = format!("{}/bot{}/{method}", self.base, self.token.expose());
        let request = HttpRequest::post(&url).and_then(|request| request.header(CONTENT_TYPE, &body.kind));
        let request =
            request.map_err(|error| network_error(&error))?.body(body.bytes).response_timeout(patience);
        let deadline = Deadline::after(&*self.clock, patience.saturating_add(TIMEOUT));
        let response =
            client.send(request, deadline, &Cancel::new()).await.map_err(|error| network_error(&error))?;
        let status = response.status().as_u16();
        let bytes = response.bytes(LARGEST_ANSWER).await.map_err(|error| network_error(&error))?;
        interpret_response(status, serde_json::from_slice(&bytes).ok())
    }
}

/// Converts a response to a result.
fn interpret_response<T>(status: u16, answer: Option<ApiResponse<T>>) -> Result<T, TelegramError> {
    let Some(answer) = answer else {
        return Err(match status {
            401 => TelegramError::Unauthorised,
            500.. => TelegramError::Server(format!("status {status}")),
            _ => TelegramError::Unclear(format!("the answer, with status {status}, cannot be read")),
        });
    };
    if let (true, Some(result)) = (answer.ok, answer.result) {
        return Ok(result);
    }
    let code = answer.error_code.unwrap_or(status);
    let description = answer.description.unwrap_or_else(|| format!("status {code}"));
    let ResponseParameters { retry_after, migrate_to_chat_id } = answer.parameters.unwrap_or_default();
    Err(match code {
        401 => TelegramError::Unauthorised,
        429 => TelegramError::Flood(Duration::from_secs(retry_after.unwrap_or(1))),
        500.. => TelegramError::Server(description),
        _ => TelegramError::Refused { code, description, migrate_to: migrate_to_chat_id },
    })
}

fn network_error(error: &NetError) -> TelegramError {
    match error {
        NetError::Connect { .. }
        | NetError::Tls { .. }
        | NetError::Proxy { .. }
        | NetError::Denied(_)
        | NetError::InvalidUrl
        | NetError::TimedOut { wait: TimeoutPhase::Connection, .. } => {
            TelegramError::Unreachable(error.to_string())
        }
        _ => TelegramError::Unclear(error.to_string()),
    }
}
