//! Signing in to Nous Portal.

use std::time::Duration;

use hermes_types::Cancel;
use serde_json::{Map, Value};

use super::super::device::{Listener, Progress, Rhythm, seconds};
use super::super::error::SignInError;
use super::super::{HeldAuth, Means};
use super::portal::Portal;
use super::{Need, PROVIDER, SCOPE, obtain};

/// Shows a code, waits until it is confirmed, stores the sign-in, and fetches a first key.
///
/// An account without a subscription is signed in all the same; the note says what is missing.
pub(in super::super) async fn login(
    means: &Means,
    listener: Listener<'_>,
    cancel: &Cancel,
) -> Result<(), SignInError> {
    let portal = Portal::new(means, &Map::new());
    let code = portal.device_code(cancel).await?;
    let needed = |name: &str| code.text(name).ok_or_else(|| incomplete(name));
    let device_code = needed("device_code")?.to_owned();
    let lifetime = seconds(code.number("expires_in"), 900, 3_600);
    listener(Progress::Code {
        url: needed("verification_uri")?.to_owned(),
        complete_url: code.text("verification_uri_complete").map(str::to_owned),
        user_code: needed("user_code")?.to_owned(),
        expires_in: lifetime,
    });
    let pause = seconds(code.number("interval"), 1, 1).max(Duration::from_secs(1));
    let mut rhythm = Rhythm::new(&*means.clock, pause, Duration::from_secs(1), lifetime);
    let tokens = loop {
        rhythm.wait(cancel).await?;
        let reply = portal.poll(&device_code, cancel).await?;
        if reply.is_success() && reply.text("access_token").is_some() {
            break portal.tokens(&reply);
        }
        match reply.refusal().as_str() {
            "authorization_pending" => {}
            "slow_down" => rhythm.slow_down(),
            "expired_token" => return Err(SignInError::Expired),
            "access_denied" => return Err(SignInError::Denied),
            _ => return Err(reply.failure("The sign-in")),
        }
    };
    listener(Progress::Confirmed);
    store(means, &portal, tokens).await?;
    if let Err(error) = obtain(means, Need::Key, cancel).await {
        listener(Progress::Note(error.to_string()));
    }
    Ok(())
}

fn incomplete(name: &str) -> SignInError {
    SignInError::TryLater(format!("The portal's answer lacks `{name}`. Try again shortly."))
}

async fn store(means: &Means, portal: &Portal<'_>, tokens: Map<String, Value>) -> Result<(), SignInError> {
    let (base, client) = (portal.base().to_owned(), portal.client().to_owned());
    let held = HeldAuth::take(&means.auth).await?;
    held.update(move |auth| {
        let mut state = match auth.provider(PROVIDER) {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        };
        // The key of whoever was signed in before is not this account's.
        state.retain(|name, _| !name.starts_with("agent_key"));
        state.insert("portal_base_url".to_owned(), Value::from(base));
        state.insert("client_id".to_owned(), Value::from(client));
        state.insert("scope".to_owned(), Value::from(SCOPE));
        state.extend(tokens);
        auth.set_provider(PROVIDER, Value::Object(state));
        auth.set_active_provider(Some(PROVIDER));
    })
    .await
}
