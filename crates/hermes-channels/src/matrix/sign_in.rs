//! The session with the homeserver: its token, its user and its device.
//!
//! Invariant: a session that was made with the password is on disk before it is used, and a new one is made for the same device.

use hermes_net::Method;
use hermes_types::{ChannelError, Secret};
use serde_json::{Value, json};

use super::MatrixChannel;
use super::api::code;
use super::settings::MatrixLogin;
use crate::rest::RestError;

const DOCUMENT: &str = "matrix_session.json";

/// A session that the server has confirmed.
#[derive(Debug, Clone)]
pub(super) struct MatrixSession {
    pub(super) token: Secret,
    pub(super) user: String,
    /// Absent for tokens that belong to no device.
    pub(super) device: Option<String>,
}

impl MatrixChannel {
    /// Returns the session, signing in if there is none.
    pub(super) async fn session(&self) -> Result<MatrixSession, ChannelError> {
        let mut session = self.api.session.lock().await;
        if let Some(session) = &*session {
            return Ok(session.clone());
        }
        let made = match &self.settings.login {
            MatrixLogin::Token(token) => {
                self.confirm(token).await.map_err(|failure| match failure.error {
                    ChannelError::Reauthorise(_) => revoked(),
                    error => error,
                })?
            }
            MatrixLogin::Password { user, password } => self.restore_or_log_in(user, password).await?,
        };
        *session = Some(made.clone());
        Ok(made)
    }

    /// Checks an access token. A password is not tried: each sign-in is another device.
    pub(super) async fn check_token(&self) -> Result<(), ChannelError> {
        match &self.settings.login {
            MatrixLogin::Token(token) => match self.confirm(token).await {
                Ok(_) => Ok(()),
                Err(failure) if matches!(failure.error, ChannelError::Reauthorise(_)) => Err(revoked()),
                Err(failure) => Err(failure.error),
            },
            MatrixLogin::Password { .. } => Ok(()),
        }
    }

    /// Forgets a session whose token the server refused; the next call signs in again, where there is a password.
    pub(super) async fn refused_session(&self, error: ChannelError) -> ChannelError {
        match &self.settings.login {
            MatrixLogin::Token(_) => revoked(),
            MatrixLogin::Password { .. } => match self.api.session.lock().await.take() {
                Some(_) => ChannelError::Retry { after: None, reason: error.to_string() },
                // The password itself was refused.
                None => error,
            },
        }
    }

    /// Asks whose token this is, which also checks it.
    async fn confirm(&self, token: &Secret) -> Result<MatrixSession, RestError> {
        let answer = self.api.call(token, Method::GET, "v3/account/whoami", None).await?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(user) = text("user_id") else {
            let error = ChannelError::Refused("Matrix: whoami names no user".to_owned());
            return Err(RestError::new(error));
        };
        let device = text("device_id").or_else(|| self.settings.device.clone());
        Ok(MatrixSession { token: token.clone(), user, device })
    }

    async fn restore_or_log_in(&self, user: &str, password: &Secret) -> Result<MatrixSession, ChannelError> {
        let host = &*self.context.host;
        let stored = host.load_document(DOCUMENT).filter(|stored| {
            stored.get("server").and_then(Value::as_str) == Some(self.settings.server.as_str())
                && stored.get("login").and_then(Value::as_str) == Some(user)
        });
        let stored_text = |key: &str| stored.as_ref()?.get(key)?.as_str().map(str::to_owned);
        if let Some(token) = stored_text("access_token") {
            match self.confirm(&Secret::new(&token)).await {
                Ok(session) => return Ok(session),
                Err(RestError { error: ChannelError::Reauthorise(_), .. }) => {
                    tracing::warn!("the Matrix session has ended; signing in again");
                }
                Err(failure) => return Err(failure.error),
            }
        }
        // The device of the stored keys stays in use, so that rooms need no new one.
        let device = self.settings.device.clone().or_else(|| stored_text("device_id"));
        let device = device.or_else(|| self.device_of_stored_keys(user));
        let mut body = json!({
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": user},
            "password": password.expose(),
            "initial_device_display_name": "Hermes Agent",
        });
        if let Some(device) = device {
            body["device_id"] = json!(device);
        }
        let answer =
            self.api.call_openly("v3/login", &body).await.map_err(|failure| match code(&failure) {
                Some("M_FORBIDDEN" | "M_USER_DEACTIVATED" | "M_INVALID_USERNAME") => {
                    let text = "Matrix does not take MATRIX_USER_ID with MATRIX_PASSWORD; check both";
                    ChannelError::Reauthorise(text.to_owned())
                }
                _ => failure.error,
            })?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(token), Some(id)) = (text("access_token"), text("user_id")) else {
            return Err(ChannelError::Refused("Matrix: the login has no token".to_owned()));
        };
        let document = json!({
            "server": self.settings.server.as_str(), "login": user, "user_id": id,
            "device_id": text("device_id"), "access_token": token,
        });
        host.save_document(DOCUMENT, &document);
        Ok(MatrixSession { token: Secret::new(&token), user: id, device: text("device_id") })
    }
}

fn revoked() -> ChannelError {
    let text = "Matrix does not take MATRIX_ACCESS_TOKEN; sign in again and set the new token";
    ChannelError::Reauthorise(text.to_owned())
}
