//! Signing in to Nous Portal.

use std::time::Duration;

use hermes_types::Cancel;
use serde_json::{Map, Value};

use super::super::device::{DeviceCode, DeviceCodeFormat, SignInListener, SignInProgress, check_pending};
use super::super::error::SignInError;
use super::super::{CredentialContext, LockedAuthFile};
use super::portal::NousPortal;
use super::tls::TlsOverrides;
use super::{KeyRequirement, PROVIDER, SCOPE, obtain};

/// The options that flags of `hermes login` set; they are stored with the sign-in and apply from then on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NousLoginOptions {
    pub portal_url: Option<String>,
    pub inference_url: Option<String>,
    pub client_id: Option<String>,
    pub scope: Option<String>,
    pub tls: TlsOverrides,
}

impl NousLoginOptions {
    /// Returns the options as fields of the sign-in.
    fn fields(&self) -> Map<String, Value> {
        let address =
            |url: &Option<String>| url.as_deref().map(|url| url.trim().trim_end_matches('/').to_owned());
        let named = [
            ("portal_base_url", address(&self.portal_url)),
            ("inference_base_url", address(&self.inference_url)),
            ("client_id", self.client_id.clone()),
        ];
        let given =
            named.into_iter().filter_map(|(name, value)| Some((name, value.filter(|v| !v.is_empty())?)));
        let mut fields: Map<String, Value> =
            given.map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        fields.insert("tls".to_owned(), self.tls.write());
        fields
    }
}

/// Shows a code, waits until it is confirmed, stores the sign-in, and fetches a first key.
///
/// An account without a subscription is signed in all the same; the note says what is missing.
pub(in super::super) async fn login(
    means: &CredentialContext,
    options: &NousLoginOptions,
    listener: SignInListener<'_>,
    cancel: &Cancel,
) -> Result<(), SignInError> {
    let mut fields = options.fields();
    let portal = NousPortal::new(means, &fields)?;
    let scope = options.scope.as_deref().unwrap_or(SCOPE);
    let shape = DeviceCodeFormat {
        device: "device_code",
        page: None,
        lifetime: None,
        poll_interval_bounds: (Duration::from_secs(1), Duration::from_secs(1)),
    };
    let code = DeviceCode::show(&portal.device_code(scope, cancel).await?, &shape, listener)?;
    let mut rhythm = code.poller(&*means.clock, Duration::from_secs(1));
    let tokens = loop {
        rhythm.wait(cancel).await?;
        let reply = portal.poll(&code.device, cancel).await?;
        if reply.is_success() && reply.text("access_token").is_some() {
            break portal.tokens(&reply);
        }
        check_pending(&reply, &mut rhythm)?;
    };
    listener(SignInProgress::Confirmed);
    fields.insert("portal_base_url".to_owned(), Value::from(portal.base()));
    fields.insert("client_id".to_owned(), Value::from(portal.client()));
    fields.insert("scope".to_owned(), Value::from(scope));
    fields.extend(tokens);
    store(means, fields).await?;
    if let Err(error) = obtain(means, KeyRequirement::Key, cancel).await {
        listener(SignInProgress::Note(error.to_string()));
    }
    Ok(())
}

async fn store(means: &CredentialContext, fields: Map<String, Value>) -> Result<(), SignInError> {
    let held = LockedAuthFile::lock(&means.auth).await?;
    held.update(move |auth| {
        let mut state = match auth.provider(PROVIDER) {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        };
        // The key of the previous sign-in does not belong to this account.
        state.retain(|name, _| !name.starts_with("agent_key"));
        state.extend(fields);
        auth.set_provider(PROVIDER, Value::Object(state));
        auth.set_active_provider(Some(PROVIDER));
    })
    .await
}
