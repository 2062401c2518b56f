//! The REST API: calls, the bot's own account, names of people.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hermes_net::{Error, HttpRequest, Method, Url, header};
use hermes_types::{ChannelError, Secret};
use serde_json::Value;

use super::settings::MattermostSettings;
use crate::host::ChannelContext;
use crate::multipart::MultipartForm;
use crate::rest::{RestClient, RestError};

const MAX_NAMES: usize = 5000;

/// The bot's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MattermostIdentity {
    pub(super) id: String,
    pub(super) username: String,
}

pub(super) struct MattermostApi {
    pub(super) rest: RestClient,
    base: Url,
    token: Secret,
    me: Mutex<Option<MattermostIdentity>>,
    /// The user names, by id.
    names: Mutex<HashMap<String, String>>,
}

impl MattermostApi {
    pub(super) fn new(settings: &MattermostSettings, context: &ChannelContext) -> Self {
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let rest = RestClient { client, clock, label: "Mattermost", reason };
        let (base, token) = (settings.api.clone(), settings.token.clone());
        Self { rest, base, token, me: Mutex::default(), names: Mutex::default() }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, RestError> {
        self.call(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, RestError> {
        self.call(Method::POST, path, Some(body)).await
    }

    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, RestError> {
        let request = self.request(method, path).and_then(|request| match body {
            Some(body) => request.json(body),
            None => Ok(request),
        });
        let request = request.map_err(|error| RestError::network(&error))?;
        self.rest.call(request).await.map_err(explain)
    }

    /// Uploads files, which may be repeated: nobody sees them before their post.
    pub(super) async fn upload(&self, form: MultipartForm) -> Result<Value, RestError> {
        let (kind, body) = form.finish();
        let request = self
            .request(Method::POST, "files")
            .and_then(|request| Ok(request.header(header::CONTENT_TYPE, &kind)?.body(body)));
        let request = request.map_err(|error| RestError::network(&error))?;
        self.rest.call(request).await.map_err(explain)
    }

    pub(super) fn request(&self, method: Method, path: &str) -> Result<HttpRequest, Error> {
        let url = self.base.join(path).map_err(|_| Error::InvalidUrl)?;
        HttpRequest::new(method, url).bearer(&self.token)
    }

    pub(super) fn token(&self) -> &Secret {
        &self.token
    }

    /// Returns the bot's account, asking once.
    pub(super) async fn identity(&self) -> Result<MattermostIdentity, RestError> {
        let known = lock(&self.me).clone();
        match known {
            Some(me) => Ok(me),
            None => self.fetch_identity().await,
        }
    }

    /// Asks for the bot's account, which also checks the token.
    pub(super) async fn fetch_identity(&self) -> Result<MattermostIdentity, RestError> {
        let answer = self.get("users/me").await?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(id), Some(username)) = (text("id"), text("username")) else {
            let error = ChannelError::Refused("Mattermost: users/me names no user".to_owned());
            return Err(RestError::new(error));
        };
        let me = MattermostIdentity { id: id.to_owned(), username: username.to_owned() };
        *lock(&self.me) = Some(me.clone());
        Ok(me)
    }

    /// Returns the name of a user; a failure costs only the name.
    pub(super) async fn user_name(&self, id: &str) -> Option<String> {
        if let Some(known) = lock(&self.names).get(id) {
            return Some(known.clone());
        }
        if !is_id(id) {
            return None;
        }
        let answer = self.get(&format!("users/{id}")).await.ok()?;
        let name = answer.get("username").and_then(Value::as_str)?.to_owned();
        self.remember_name(id, &name);
        Some(name)
    }

    pub(super) fn remember_name(&self, id: &str, name: &str) {
        let mut names = lock(&self.names);
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        names.insert(id.to_owned(), name.to_owned());
    }
}

/// Tells whether a text can be an id, which becomes part of a path.
pub(super) fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reason(body: &Value) -> Option<String> {
    body.get("message").and_then(Value::as_str).map(str::to_owned)
}

fn explain(mut failure: RestError) -> RestError {
    if failure.status == Some(401) {
        let text = "Mattermost does not take MATTERMOST_TOKEN; create a new token for the bot";
        failure.error = ChannelError::Reauthorise(text.to_owned());
    }
    failure
}
