//! Browsers that a service rents: Browserbase and Browser Use.
//!
//! Invariant: a browser that was rented is given back when its session is closed.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::header::HeaderName;
use hermes_net::{HttpClient, HttpRequest, Method, Url};
use hermes_types::{Cancel, Clock, Deadline, Secret};
use serde_json::{Value, json};

use crate::browser::text_of;
use crate::error::BrowserError;
use crate::session::SessionFeatures;

const START_TIMEOUT: Duration = Duration::from_mins(1);
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_ANSWER: usize = 1024 * 1024;

const NO_PROXIES: &str = "the browser uses no residential proxies; sites may take it for a bot";

/// A service that rents browsers.
#[derive(Debug, Clone)]
pub enum CloudService {
    Browserbase(BrowserbaseOptions),
    BrowserUse {
        key: Secret,
        /// The address of its API.
        base: String,
    },
}

/// What a browser of Browserbase is asked for.
#[derive(Debug, Clone)]
pub struct BrowserbaseOptions {
    pub key: Secret,
    pub project: String,
    pub keep_alive: bool,
    pub proxies: bool,
    pub advanced_stealth: bool,
    /// The longest life of a session, in milliseconds.
    pub timeout: Option<u64>,
    /// The address of its API.
    pub base: String,
}

/// A rented browser.
#[derive(Debug)]
pub(crate) struct CloudBrowser {
    pub(crate) address: String,
    pub(crate) lease: CloudLease,
    pub(crate) features: SessionFeatures,
}

/// The duty to give a browser back.
#[derive(Debug)]
pub(crate) struct CloudLease {
    service: CloudService,
    id: String,
    http: HttpClient,
    clock: Arc<dyn Clock>,
}

/// The answer of a service.
struct ServiceAnswer {
    status: u16,
    body: Value,
}

impl CloudService {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Browserbase(_) => "Browserbase",
            Self::BrowserUse { .. } => "Browser Use",
        }
    }

    /// Rents a browser.
    pub(crate) async fn rent(
        &self,
        http: &HttpClient,
        clock: &Arc<dyn Clock>,
        cancel: &Cancel,
    ) -> Result<CloudBrowser, BrowserError> {
        let (answer, features) = match self {
            Self::Browserbase(options) => options.rent(self, http, clock, cancel).await?,
            Self::BrowserUse { base, .. } => {
                let url = format!("{base}/browsers");
                let answer = self.request(Method::POST, &url, &json!({}), http, clock, cancel).await?;
                (answer, SessionFeatures { names: vec!["browser_use"], ..SessionFeatures::default() })
            }
        };
        let address_field = if matches!(self, Self::Browserbase(_)) { "connectUrl" } else { "cdpUrl" };
        let (id, address) = (text_of(&answer.body, "id"), text_of(&answer.body, address_field));
        if answer.status >= 300 || id.is_empty() || address.is_empty() {
            return Err(self.refusal(&answer));
        }
        let lease = CloudLease { service: self.clone(), id, http: http.clone(), clock: clock.clone() };
        Ok(CloudBrowser { address, lease, features })
    }

    fn key(&self) -> &Secret {
        match self {
            Self::Browserbase(options) => &options.key,
            Self::BrowserUse { key, .. } => key,
        }
    }

    fn refusal(&self, answer: &ServiceAnswer) -> BrowserError {
        let said = ["message", "error", "detail"].iter().find_map(|name| answer.body[*name].as_str());
        // Some services repeat the key that they refuse.
        let said = said.unwrap_or_default().replace(self.key().expose(), "***");
        let said: String = said.chars().take(200).collect();
        let hint = match answer.status {
            401 | 403 => ". Check the key",
            402 => ". The plan of your account does not include it, or is used up",
            429 => ". Its limit of sessions is reached; close one, or try again later",
            _ => "",
        };
        let name = self.name();
        BrowserError::Unavailable(format!("{name} gave no browser: HTTP {} {said}{hint}", answer.status))
    }

    async fn request(
        &self,
        method: Method,
        url: &str,
        body: &Value,
        http: &HttpClient,
        clock: &Arc<dyn Clock>,
        cancel: &Cancel,
    ) -> Result<ServiceAnswer, BrowserError> {
        let unavailable = |error: hermes_net::Error| match error {
            hermes_net::Error::Cancelled => BrowserError::Cancelled,
            error => BrowserError::Unavailable(format!("{}: {error}", self.name())),
        };
        let header = HeaderName::from_static(match self {
            Self::Browserbase(_) => "x-bb-api-key",
            Self::BrowserUse { .. } => "x-browser-use-api-key",
        });
        let url = Url::parse(url).map_err(|_| unavailable(hermes_net::Error::InvalidUrl))?;
        let request = HttpRequest::new(method, url)
            .secret_header(header, self.key())
            .and_then(|request| request.json(body))
            .map_err(unavailable)?
            .response_timeout(START_TIMEOUT);
        let deadline = Deadline::after(&**clock, START_TIMEOUT);
        let answer = http.send(request, deadline, cancel).await.map_err(unavailable)?;
        let status = answer.status().as_u16();
        let bytes = answer.bytes(LONGEST_ANSWER).await.map_err(unavailable)?;
        Ok(ServiceAnswer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }
}

impl BrowserbaseOptions {
    /// Rents a browser with what the plan includes: without a feature where the service wants more money for it.
    async fn rent(
        &self,
        service: &CloudService,
        http: &HttpClient,
        clock: &Arc<dyn Clock>,
        cancel: &Cancel,
    ) -> Result<(ServiceAnswer, SessionFeatures), BrowserError> {
        let mut attempts = vec![(self.keep_alive, self.proxies)];
        if self.keep_alive {
            attempts.push((false, self.proxies));
        }
        if self.proxies {
            attempts.push((false, false));
        }
        let url = format!("{}/v1/sessions", self.base);
        let mut last = None;
        for (keep_alive, proxies) in attempts {
            let body = self.body(keep_alive, proxies);
            let answer = service.request(Method::POST, &url, &body, http, clock, cancel).await?;
            let is_refused = answer.status == 402;
            let mut names = vec!["browserbase"];
            names.extend(keep_alive.then_some("keep_alive"));
            names.extend(proxies.then_some("proxies"));
            names.extend(self.advanced_stealth.then_some("advanced_stealth"));
            let warning = (!proxies).then_some(NO_PROXIES);
            last = Some((answer, SessionFeatures { names, warning, recording_problem: None }));
            if !is_refused {
                break;
            }
        }
        last.ok_or_else(|| BrowserError::Unavailable("Browserbase was not asked".to_owned()))
    }

    fn body(&self, keep_alive: bool, proxies: bool) -> Value {
        let mut body = json!({"projectId": self.project});
        if keep_alive {
            body["keepAlive"] = true.into();
        }
        if proxies {
            body["proxies"] = true.into();
        }
        if let Some(timeout) = self.timeout {
            body["timeout"] = timeout.into();
        }
        if self.advanced_stealth {
            body["browserSettings"] = json!({"advancedStealth": true});
        }
        body
    }
}

impl CloudLease {
    /// Gives the browser back.
    pub(crate) async fn release(&self) {
        let (method, url, body) = match &self.service {
            CloudService::Browserbase(options) => (
                Method::POST,
                format!("{}/v1/sessions/{}", options.base, self.id),
                json!({"projectId": options.project, "status": "REQUEST_RELEASE"}),
            ),
            CloudService::BrowserUse { base, .. } => {
                (Method::PATCH, format!("{base}/browsers/{}", self.id), json!({"action": "stop"}))
            }
        };
        let cancel = Cancel::new();
        let asked = self.service.request(method, &url, &body, &self.http, &self.clock, &cancel);
        let outcome = tokio::select! {
            answer = asked => answer.and_then(|answer| {
                if answer.status < 300 { Ok(()) } else { Err(self.service.refusal(&answer)) }
            }),
            () = self.clock.sleep(RELEASE_TIMEOUT) => Err(BrowserError::TimedOut(RELEASE_TIMEOUT)),
        };
        if let Err(error) = outcome {
            tracing::warn!(service = self.service.name(), %error, "a rented browser was not given back");
        }
    }
}
