//! Finds the authorization server of an MCP server, and registers this client there.
//!
//! The MCP server's address is the user's word. What it names is not: another host is checked like any address from
//! outside.

use hermes_net::{HttpClient, HttpRequest, Url};
use hermes_types::{Cancel, Clock, Deadline};
use serde_json::{Value, json};
use std::time::Duration;

use super::token_files::ClientRegistration;

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const LARGEST_ANSWER: usize = 256 * 1024;
const MOST_REDIRECTS: usize = 3;

/// The endpoints of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthorizationServer {
    pub(crate) authorization: Url,
    pub(crate) token: Url,
    pub(crate) registration: Option<Url>,
    /// The identifier of the protected resource.
    pub(crate) resource: String,
}

/// Finds the endpoints that issue tokens for an MCP server.
pub(crate) async fn discover(
    http: &HttpClient,
    clock: &dyn Clock,
    server: &Url,
) -> Result<AuthorizationServer, String> {
    let lookup = Lookup { http, clock, host: server.host_str().unwrap_or_default() };
    let mut resource = server.to_string();
    let mut issuer = origin_of(server);
    for address in well_known(server, "oauth-protected-resource") {
        let Some(found) = lookup.json(&address).await else { continue };
        if let Some(named) = found.get("resource").and_then(Value::as_str) {
            named.clone_into(&mut resource);
        }
        let first = found.get("authorization_servers").and_then(|servers| servers.get(0)?.as_str());
        if let Some(named) = first.and_then(|text| Url::parse(text).ok()) {
            issuer = named;
        }
        break;
    }
    let addresses = well_known(&issuer, "oauth-authorization-server")
        .into_iter()
        .chain(well_known(&issuer, "openid-configuration"));
    for address in addresses {
        let Some(found) = lookup.json(&address).await else { continue };
        let url = |name: &str| found.get(name).and_then(Value::as_str).and_then(|text| Url::parse(text).ok());
        let (Some(authorization), Some(token)) = (url("authorization_endpoint"), url("token_endpoint"))
        else {
            continue;
        };
        let methods = found.get("code_challenge_methods_supported").and_then(Value::as_array);
        if methods.is_some_and(|methods| !methods.iter().any(|method| method == "S256")) {
            return Err("its authorization server does not support PKCE with S256".to_owned());
        }
        return checked(AuthorizationServer {
            authorization,
            token,
            registration: url("registration_endpoint"),
            resource,
        });
    }
    // Older servers describe nothing and have the endpoints under these names.
    let below = |path: &str| issuer.join(path).map_err(|error| error.to_string());
    checked(AuthorizationServer {
        authorization: below("/authorize")?,
        token: below("/token")?,
        registration: Some(below("/register")?),
        resource,
    })
}

/// Registers this client, for redirects to `redirect`.
pub(crate) async fn register(
    http: &HttpClient,
    clock: &dyn Clock,
    found: &AuthorizationServer,
    redirect: &str,
    scope: &str,
) -> Result<ClientRegistration, String> {
    let Some(endpoint) = &found.registration else {
        return Err("its authorization server lets no client register itself".to_owned());
    };
    let wanted = json!({
        "client_name": "Hermes Agent",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": scope,
    });
    let request = HttpRequest::post(endpoint.as_str())
        .and_then(|request| request.json(&wanted))
        .map_err(|error| error.to_string())?;
    let response = http
        .send(request, Deadline::after(clock, TIMEOUT), &Cancel::new())
        .await
        .map_err(|error| error.to_string())?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("the registration was refused with HTTP {}", status.as_u16()));
    }
    let client: ClientRegistration =
        response.json(LARGEST_ANSWER).await.map_err(|error| error.to_string())?;
    Ok(ClientRegistration {
        redirect_uris: vec![redirect.to_owned()],
        token_endpoint: Some(found.token.to_string()),
        ..client
    })
}

/// Accepts endpoints that are reached with TLS, and those of this machine.
fn checked(found: AuthorizationServer) -> Result<AuthorizationServer, String> {
    let is_safe = |url: &Url| {
        url.scheme() == "https"
            || url.scheme() == "http" && matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
    };
    let all = [Some(&found.authorization), Some(&found.token), found.registration.as_ref()];
    let unsafe_one =
        all.into_iter().flatten().find(|url| !is_safe(url)).map(|url| url.authority().to_owned());
    match unsafe_one {
        Some(host) => Err(format!("its authorization server has an endpoint without TLS, at {host}")),
        None => Ok(found),
    }
}

/// Reads descriptions of servers.
struct Lookup<'a> {
    http: &'a HttpClient,
    clock: &'a dyn Clock,
    /// The host the user configured.
    host: &'a str,
}

impl Lookup<'_> {
    async fn json(&self, address: &Url) -> Option<Value> {
        let mut request = HttpRequest::get(address.as_str()).ok()?.follow_redirects(MOST_REDIRECTS);
        if address.host_str() != Some(self.host) {
            request = request.untrusted();
        }
        let deadline = Deadline::after(self.clock, TIMEOUT);
        let response = self.http.send(request, deadline, &Cancel::new()).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        response.json(LARGEST_ANSWER).await.ok()
    }
}

fn origin_of(url: &Url) -> Url {
    let mut origin = url.clone();
    origin.set_path("/");
    origin.set_query(None);
    origin.set_fragment(None);
    origin
}

/// Lists the addresses of a description: with the path of what is described, and without.
fn well_known(url: &Url, name: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let root = format!("/.well-known/{name}");
    let mut paths = vec![format!("{root}{path}")];
    if !path.is_empty() {
        if name == "openid-configuration" {
            paths.push(format!("{path}{root}"));
        }
        paths.push(root);
    }
    paths.iter().filter_map(|path| origin_of(url).join(path).ok()).collect()
}
