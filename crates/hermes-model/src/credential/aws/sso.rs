//! A sign-in of AWS's own tools, exchanged for a role's keys.
//!
//! The sign-in is read but never renewed; `aws sso login` does that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_net::HttpRequest;
use hermes_net::header::HeaderName;
use hermes_types::{Cancel, Secret, Timestamp};
use serde_json::Value;

use super::super::{CredentialContext, time};
use super::fetch::{fetch, read_keys};
use super::{TemporaryKeys, role, unavailable_error};
use crate::client::CredentialUnavailable;

const TIMEOUT: Duration = Duration::from_secs(15);

/// The sign-in settings of a profile.
pub(super) struct SsoProfile {
    profile: String,
    start_url: String,
    region: String,
    account: String,
    role: String,
}

impl SsoProfile {
    pub(super) fn read(
        profile: &str,
        files: &[PathBuf],
        fields: &BTreeMap<String, String>,
    ) -> Result<Self, CredentialUnavailable> {
        let session = fields.get("sso_session").map(|name| super::profile::read_session(files, name));
        let session = session.unwrap_or_default();
        let field = |name: &str| {
            let value = fields.get(name).or_else(|| session.get(name)).cloned();
            value.ok_or_else(|| unavailable_error(&format!("the AWS profile `{profile}` lacks {name}")))
        };
        Ok(Self {
            profile: profile.to_owned(),
            start_url: field("sso_start_url")?,
            region: field("sso_region")?,
            account: field("sso_account_id")?,
            role: field("sso_role_name")?,
        })
    }
}

pub(super) async fn exchange(
    means: &CredentialContext,
    cache: &Path,
    wanted: &SsoProfile,
    cancel: &Cancel,
) -> Result<TemporaryKeys, CredentialUnavailable> {
    let again = || {
        unavailable_error(&format!(
            "the sign-in of the AWS profile `{0}` is missing or has run out; run `aws sso login --profile {0}`",
            wanted.profile
        ))
    };
    let token = find_token(cache, &wanted.start_url, means.clock.now()).ok_or_else(again)?;
    let site = role::regional_url(&means.urls.aws_sso, &wanted.region);
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("role_name", wanted.role.as_str()), ("account_id", wanted.account.as_str())])
        .finish();
    let request = HttpRequest::get(&format!("{site}/federation/credentials?{query}"))
        .and_then(|request| request.secret_header(HeaderName::from_static("x-amz-sso_bearer_token"), &token))
        .map_err(|error| unavailable_error(&error.to_string()))?;
    match fetch(means, &means.net, request, TIMEOUT, cancel).await {
        Ok(body) => {
            read_keys(&body).ok_or_else(|| unavailable_error("the sign-in service's answer holds no keys"))
        }
        Err(why) if why.contains("401") => Err(again()),
        Err(why) => Err(unavailable_error(&format!(
            "the role of the AWS profile `{}` was not granted: {why}",
            wanted.profile
        ))),
    }
}

/// Finds the unexpired token for a start URL in any file of the folder.
fn find_token(cache: &Path, start_url: &str, now: Timestamp) -> Option<Secret> {
    let same = |url: &str| url.trim_end_matches(['/', '#']) == start_url.trim_end_matches(['/', '#']);
    let tokens = std::fs::read_dir(cache).ok()?.flatten().filter_map(|entry| {
        let value: Value = serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok()?;
        value.get("startUrl").and_then(Value::as_str).filter(|url| same(url))?;
        let until = value.get("expiresAt").and_then(time::read).filter(|at| at.seconds() > now.seconds())?;
        Some((until.seconds(), Secret::new(value.get("accessToken")?.as_str()?)))
    });
    tokens.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, token)| token)
}
