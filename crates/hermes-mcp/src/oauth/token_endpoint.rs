//! Requests to a token endpoint.

use hermes_net::header::CONTENT_TYPE;
use hermes_net::{HttpClient, HttpRequest};
use hermes_types::{Cancel, Clock, Deadline};
use url::form_urlencoded;

use super::discovery::{LARGEST_ANSWER, TIMEOUT};
use super::token_files::{ClientRegistration, StoredTokens};
use crate::foreign_text::clean;

/// What tokens are requested for.
#[derive(Clone, Copy)]
pub(crate) enum TokenGrant<'a> {
    Code { code: &'a str, verifier: &'a str, redirect: &'a str, resource: &'a str },
    Refresh { refresh_token: &'a str },
}

/// Requests tokens. The error contains no secret.
pub(crate) async fn request_tokens(
    http: &HttpClient,
    clock: &dyn Clock,
    endpoint: &str,
    client: &ClientRegistration,
    grant: TokenGrant<'_>,
) -> Result<StoredTokens, String> {
    let request = HttpRequest::post(endpoint)
        .and_then(|request| request.header(CONTENT_TYPE, "application/x-www-form-urlencoded"))
        .map_err(|error| error.to_string())?
        .body(form_of(client, grant));
    let response = http
        .send(request, Deadline::after(clock, TIMEOUT), &Cancel::new())
        .await
        .map_err(|error| error.to_string())?;
    let status = response.status();
    let answer: serde_json::Value = response.json(LARGEST_ANSWER).await.map_err(|error| error.to_string())?;
    if !status.is_success() {
        let text =
            |name: &str| answer.get(name).and_then(serde_json::Value::as_str).map(|text| clean(text, 200));
        let reason = text("error_description").or_else(|| text("error")).unwrap_or_default();
        return Err(format!("the token endpoint answered HTTP {}: {reason}", status.as_u16()));
    }
    let tokens: StoredTokens = serde_json::from_value(answer)
        .map_err(|_| "the token endpoint returned no access token".to_owned())?;
    let expires_at = tokens.expires_in.map(|seconds| clock.now().seconds() + seconds);
    Ok(StoredTokens { expires_at, ..tokens })
}

fn form_of(client: &ClientRegistration, grant: TokenGrant<'_>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("client_id", &client.client_id);
    if let Some(secret) = &client.client_secret {
        form.append_pair("client_secret", secret);
    }
    match grant {
        TokenGrant::Code { code, verifier, redirect, resource } => {
            form.append_pair("grant_type", "authorization_code")
                .append_pair("code", code)
                .append_pair("code_verifier", verifier)
                .append_pair("redirect_uri", redirect)
                .append_pair("resource", resource);
        }
        TokenGrant::Refresh { refresh_token } => {
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh_token);
        }
    }
    form.finish()
}
