//! `hermes mcp login`: signs in to an HTTP server in the browser.

use std::time::Duration;

use hermes_config::settings::{McpServer, McpTransport};
use hermes_net::Url;
use hermes_types::BoxFuture;

use crate::error::Error;
use crate::oauth::{
    CallbackListener, ClientRegistration, PkceChallenge, TokenFiles, TokenGrant, discover, pasted_code,
    register, request_tokens,
};
use crate::options::McpOptions;

const SCOPE: &str = "openid profile email offline_access";
/// The time in which the browser is expected back before the user is asked for the code.
const CALLBACK_TIMEOUT: Duration = Duration::from_mins(2);

/// The terminal of a sign-in.
pub trait LoginSurface: Send + Sync {
    /// Shows the address to open, and opens it in a browser where there is one.
    fn show_address(&self, address: &str);

    /// Asks for the code, or for the address that the browser shows at the end. `None` where nobody can be asked.
    fn ask_code(&self) -> BoxFuture<'_, Option<String>>;
}

/// Signs in to a server and stores its tokens.
pub async fn sign_in(
    server: &McpServer,
    options: &McpOptions,
    surface: &dyn LoginSurface,
) -> Result<(), Error> {
    let failed = |reason: String| Error::Unavailable(reason);
    let McpTransport::Http { url, .. } = &server.transport else {
        return Err(Error::Configuration(format!("{} is a program; it needs no sign-in", server.name)));
    };
    let url = Url::parse(url).map_err(|_| Error::Configuration("its url is not a valid URL".to_owned()))?;
    let (http, clock) = (&options.http, &*options.clock);
    let found = discover(http, clock, &url).await.map_err(failed)?;
    let files = TokenFiles::new(&options.home);
    let (listener, known) =
        listen(files.client(&server.name)).await.map_err(|error| failed(error.to_string()))?;
    let redirect = listener.redirect();
    let client = match known {
        Some(client) => ClientRegistration { token_endpoint: Some(found.token.to_string()), ..client },
        None => register(http, clock, &found, &redirect, SCOPE).await.map_err(failed)?,
    };
    let challenge = PkceChallenge::generate().map_err(|error| failed(error.to_string()))?;
    let mut address = found.authorization.clone();
    address
        .query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.client_id)
        .append_pair("redirect_uri", &redirect)
        .append_pair("scope", SCOPE)
        .append_pair("state", &challenge.state)
        .append_pair("code_challenge", &challenge.challenge())
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &found.resource);
    surface.show_address(address.as_str());
    let code = tokio::select! {
        biased;
        code = listener.code(&challenge.state) => code,
        () = clock.sleep(CALLBACK_TIMEOUT) => match surface.ask_code().await {
            Some(pasted) => pasted_code(&pasted, &challenge.state),
            None => Err("the browser did not come back in time".to_owned()),
        },
    };
    let code = code.map_err(failed)?;
    let grant = TokenGrant::Code {
        code: &code,
        verifier: &challenge.verifier,
        redirect: &redirect,
        resource: &found.resource,
    };
    let tokens = request_tokens(http, clock, found.token.as_str(), &client, grant).await.map_err(failed)?;
    let unwritable = |error: hermes_config::Error| Error::Configuration(error.to_string());
    files.save_client(&server.name, &client).map_err(unwritable)?;
    files.save_tokens(&server.name, &tokens).map_err(unwritable)
}

/// Listens where the client is registered to be sent back to. Where that port is taken, the client is registered anew
/// for another.
async fn listen(
    known: Option<ClientRegistration>,
) -> std::io::Result<(CallbackListener, Option<ClientRegistration>)> {
    let port = known.as_ref().and_then(|client| Url::parse(client.redirect_uris.first()?).ok()?.port());
    if let Some(port) = port
        && let Ok(listener) = CallbackListener::bind(Some(port)).await
    {
        let fits = known.as_ref().is_some_and(|client| client.redirect_uris.contains(&listener.redirect()));
        return Ok((listener, known.filter(|_| fits)));
    }
    Ok((CallbackListener::bind(None).await?, None))
}
