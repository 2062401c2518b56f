//! Roles that a platform grants: to a token, to a container, to a machine.

use std::path::Path;
use std::time::Duration;

use hermes_config::Env;
use hermes_net::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use hermes_net::{HttpRequest, Method, Url};
use hermes_types::{Cancel, Secret};

use super::super::CredentialContext;
use super::fetch::{direct_client, fetch, read_keys, read_keys_in_xml};
use super::{TemporaryKeys, unavailable_error};
use crate::client::CredentialUnavailable;
use crate::wire::BaseUrl;

const TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout of the metadata service, which answers at once or not at all.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// The role to assume, and the token file that identifies the caller.
pub(super) struct WebIdentity<'a> {
    pub(super) role: &'a str,
    pub(super) token_file: &'a Path,
    pub(super) session: &'a str,
    pub(super) region: &'a str,
}

/// Exchanges the token in a file, which the platform renews, for keys.
pub(super) async fn web_identity(
    means: &CredentialContext,
    identity: &WebIdentity<'_>,
    cancel: &Cancel,
) -> Result<TemporaryKeys, CredentialUnavailable> {
    let file = identity.token_file;
    let token = std::fs::read_to_string(file)
        .map_err(|error| unavailable_error(&format!("{} cannot be read: {error}", file.display())))?;
    let form = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", identity.role),
            ("RoleSessionName", identity.session),
            ("WebIdentityToken", token.trim()),
        ])
        .finish();
    let site = regional_url(&means.urls.aws_sts, identity.region);
    let request = HttpRequest::post(&format!("{site}/"))
        .and_then(|request| request.header(CONTENT_TYPE, "application/x-www-form-urlencoded"))
        .and_then(|request| request.header(ACCEPT, "application/xml"))
        .map_err(|error| unavailable_error(&error.to_string()))?
        .body(form);
    let refused =
        |why: String| unavailable_error(&format!("the role {} was not granted: {why}", identity.role));
    let body = fetch(means, &means.net, request, TIMEOUT, cancel).await.map_err(refused)?;
    read_keys_in_xml(&body)
        .or_else(|| read_keys(&body))
        .ok_or_else(|| unavailable_error("the token service's answer holds no keys"))
}

/// Returns an AWS address in a region; regions in China have another domain.
pub(super) fn regional_url(site: &str, region: &str) -> String {
    let site = site.replace("{region}", region);
    if region.starts_with("cn-") && site.ends_with(".amazonaws.com") { format!("{site}.cn") } else { site }
}

/// Returns the address of the container role's keys from the environment: a path at the default host, or a full
/// URL.
pub(super) fn container_address(env: &Env) -> Option<(bool, &str)> {
    env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        .map(|path| (false, path))
        .or_else(|| env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(|url| (true, url)))
}

pub(super) async fn container(
    means: &CredentialContext,
    cancel: &Cancel,
) -> Result<TemporaryKeys, CredentialUnavailable> {
    let nothing = || unavailable_error("the container has no role");
    let (whole, text) = container_address(&means.env).ok_or_else(nothing)?;
    let address = if whole {
        text.trim().to_owned()
    } else {
        format!("{}/{}", means.urls.aws_container, text.trim().trim_start_matches('/'))
    };
    let url = Url::parse(&address)
        .map_err(|_| unavailable_error("the address of the container's role is not one"))?;
    if whole && !may_hold_keys(&url) {
        return Err(unavailable_error(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither secure nor on this machine",
        ));
    }
    let mut request = HttpRequest::new(Method::GET, url);
    let token = match means.env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            Some(text.map_err(|error| unavailable_error(&format!("{file} cannot be read: {error}")))?)
        }
        None => means.env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
    };
    if let Some(token) = token {
        request = request
            .secret_header(AUTHORIZATION, &Secret::new(token.trim()))
            .map_err(|error| unavailable_error(&error.to_string()))?;
    }
    let client = direct_client(means).ok_or_else(nothing)?;
    let refused = |why: String| unavailable_error(&format!("the container's role was not granted: {why}"));
    let body = fetch(means, &client, request, METADATA_TIMEOUT, cancel).await.map_err(refused)?;
    read_keys(&body).ok_or_else(|| unavailable_error("the container's role holds no keys"))
}

/// Tells whether keys may be fetched from a URL: TLS, this machine, or an address that only a container's host has.
fn may_hold_keys(url: &Url) -> bool {
    let base = BaseUrl::parse(url.as_str());
    let host = base.host().trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "https" || loopback || matches!(host, "169.254.170.2" | "169.254.170.23" | "fd00:ec2::23")
}

/// Obtains keys for the machine's role, by version 2 of the metadata service only.
pub(super) async fn instance(
    means: &CredentialContext,
    cancel: &Cancel,
) -> Result<TemporaryKeys, CredentialUnavailable> {
    const ROLE: &str = "latest/meta-data/iam/security-credentials/";
    let nothing = |_: String| unavailable_error("no profile holds keys, and this machine has no role");
    let client = direct_client(means).ok_or_else(|| nothing(String::new()))?;
    let site = &means.urls.aws_metadata;
    let ask = async |method: Method, path: &str, header: &'static str, value: &Secret| {
        let url = Url::parse(&format!("{site}/{path}")).map_err(|error| error.to_string())?;
        let request = HttpRequest::new(method, url)
            .secret_header(HeaderName::from_static(header), value)
            .map_err(|error| error.to_string())?;
        let body = fetch(means, &client, request, METADATA_TIMEOUT, cancel).await?;
        Ok::<String, String>(String::from_utf8_lossy(&body).trim().to_owned())
    };
    let life = Secret::new("21600");
    let token = ask(Method::PUT, "latest/api/token", "x-aws-ec2-metadata-token-ttl-seconds", &life)
        .await
        .map_err(nothing)?;
    let (token, header) = (Secret::new(token), "x-aws-ec2-metadata-token");
    let roles = ask(Method::GET, ROLE, header, &token).await.map_err(nothing)?;
    let role = roles.lines().next().map(str::trim).filter(|role| is_name(role));
    let role = role.ok_or_else(|| nothing(String::new()))?;
    let body = ask(Method::GET, &format!("{ROLE}{role}"), header, &token).await.map_err(nothing)?;
    read_keys(body.as_bytes()).ok_or_else(|| unavailable_error("the machine's role holds no keys"))
}

/// Tells whether a text is a plain role name; anything else could change the path.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c))
}
