//! GitHub tokens for Copilot.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_config::{Env, is_usable_key, user_home};
use hermes_types::{BoxFuture, Cancel, Secret};
use serde_json::{Value, json};

use super::command::{ProgramInvocation, run_command};
use super::device::{DeviceCode, DeviceCodeFormat, SignInListener, SignInProgress, check_pending};
use super::error::SignInError;
use super::http::{TokenRequestBody, post};
use super::{CredentialContext, LockedAuthFile, time};
use crate::client::{CredentialProvider, CredentialUnavailable, KeyRefusal, PresentedCredential};

pub(super) const PROVIDER: &str = "copilot";
const CLIENT: &str = "Ov23li8tweQw6odWQebz";
const TIMEOUT: Duration = Duration::from_secs(15);
const VARIABLES: [&str; 3] = ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];

/// The reason why there is no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopilotTokenError {
    Nothing,
    /// The only token is a classic personal access token, which Copilot refuses.
    ClassicToken {
        variable: String,
    },
}

/// Returns the first usable token and its source: a variable, then our own sign-in.
pub fn find(env: &Env, stored: Option<&Value>) -> Result<(Secret, String), CopilotTokenError> {
    let mut classic = None;
    for variable in VARIABLES {
        let Some(token) = env.get(variable).map(str::trim).filter(|token| is_usable_key(token)) else {
            continue;
        };
        if is_classic(token) {
            classic = classic.or(Some(variable));
        } else if is_accepted(token) {
            return Ok((Secret::new(token), variable.to_owned()));
        }
    }
    let signed_in =
        stored.and_then(|state| state.get("access_token")?.as_str()).filter(|token| is_accepted(token));
    match (signed_in, classic) {
        (Some(token), _) => Ok((Secret::new(token), "auth.json".to_owned())),
        (None, Some(variable)) => Err(CopilotTokenError::ClassicToken { variable: variable.to_owned() }),
        (None, None) => Err(CopilotTokenError::Nothing),
    }
}

/// Tells whether the files of GitHub's own program show a sign-in.
pub fn has_gh(env: &Env) -> bool {
    let folder = env.get("GH_CONFIG_DIR").map(PathBuf::from).or_else(|| {
        let config = env.get("XDG_CONFIG_HOME").map(PathBuf::from);
        config.or_else(|| user_home(env).ok().map(|home| home.join(".config"))).map(|path| path.join("gh"))
    });
    folder.is_some_and(|folder| folder.join("hosts.yml").is_file())
}

/// The token of GitHub's own program, which is run once.
#[derive(Debug)]
pub struct GhCliToken {
    context: CredentialContext,
    token: Mutex<Option<Secret>>,
}

impl GhCliToken {
    pub fn new(context: CredentialContext) -> Self {
        Self { context, token: Mutex::new(None) }
    }

    async fn fetch(&self, cancel: &Cancel) -> Result<Secret, CredentialUnavailable> {
        let held = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(token) = held {
            return Ok(token);
        }
        let advice = "Set COPILOT_GITHUB_TOKEN, or run `hermes model` and choose Copilot";
        let line = ProgramInvocation::new("gh", &["auth", "token"]);
        let printed = run_command(&self.context, &line, cancel)
            .await
            .map_err(|why| CredentialUnavailable(format!("`gh auth token` {why}. {advice}")))?;
        let printed = String::from_utf8_lossy(&printed);
        let token = printed.trim();
        if !is_accepted(token) {
            let kind = if is_classic(token) { "a classic token, which Copilot refuses" } else { "no token" };
            return Err(CredentialUnavailable(format!("`gh auth token` printed {kind}. {advice}")));
        }
        let token = Secret::new(token);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(token)
    }
}

impl CredentialProvider for GhCliToken {
    fn current<'a>(
        &'a self,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        Box::pin(async move { Ok(PresentedCredential::Bearer(self.fetch(cancel).await?)) })
    }

    fn renew<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        Box::pin(async move {
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.fetch(cancel).await.map(|_| ())
        })
    }

    fn rotate(&self, _: &KeyRefusal) -> bool {
        false
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn has_another(&self) -> bool {
        false
    }
}

fn is_classic(token: &str) -> bool {
    token.starts_with("ghp_")
}

fn is_accepted(token: &str) -> bool {
    ["gho_", "github_pat_", "ghu_"].into_iter().any(|prefix| token.starts_with(prefix))
}

/// Runs GitHub's device flow; the token is stored in `auth.json`.
pub(super) async fn login(
    means: &CredentialContext,
    listener: SignInListener<'_>,
    cancel: &Cancel,
) -> Result<(), SignInError> {
    let site = &means.urls.github;
    let form = [("client_id", CLIENT), ("scope", "read:user")];
    let url = format!("{site}/login/device/code");
    let begun = post(means, &url, None, TokenRequestBody::Form(&form), TIMEOUT, cancel).await?;
    let shape = DeviceCodeFormat {
        device: "device_code",
        page: None,
        lifetime: None,
        poll_interval_bounds: (Duration::from_secs(1), Duration::from_mins(1)),
    };
    let code = DeviceCode::show(&begun, &shape, listener)?;
    let mut rhythm = code.poller(&*means.clock, Duration::from_secs(5));
    let form = [
        ("client_id", CLIENT),
        ("device_code", code.device.as_str()),
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
    ];
    let token = loop {
        rhythm.wait(cancel).await?;
        let url = format!("{site}/login/oauth/access_token");
        let reply = post(means, &url, None, TokenRequestBody::Form(&form), TIMEOUT, cancel).await?;
        if let Some(token) = reply.secret("access_token") {
            break token;
        }
        check_pending(&reply, &mut rhythm)?;
    };
    listener(SignInProgress::Confirmed);
    let state = json!({
        "access_token": token.expose(), "token_type": "bearer", "obtained_at": time::iso(means.clock.now()),
    });
    let held = LockedAuthFile::lock(&means.auth).await?;
    held.update(move |auth| {
        auth.set_provider(PROVIDER, state);
        auth.set_active_provider(Some(PROVIDER));
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        #[track_caller]
        fn check(pairs: &[(&str, &str)], stored: Option<&Value>, expected: Result<&str, CopilotTokenError>) {
            let env = Env::from_pairs(pairs.iter().copied());
            let found = find(&env, stored).map(|(_, origin)| origin);
            assert_eq!(found, expected.map(str::to_owned));
        }
        let classic = |name: &str| Err(CopilotTokenError::ClassicToken { variable: name.to_owned() });
        check(&[("GITHUB_TOKEN", "gho_1"), ("GH_TOKEN", "github_pat_2")], None, Ok("GH_TOKEN"));
        check(&[("COPILOT_GITHUB_TOKEN", "ghp_1"), ("GITHUB_TOKEN", "ghu_2")], None, Ok("GITHUB_TOKEN"));
        check(&[("GH_TOKEN", "ghp_12")], None, classic("GH_TOKEN"));
        check(&[("GH_TOKEN", "ghp_12")], Some(&json!({"access_token": "gho_3"})), Ok("auth.json"));
        check(&[("GH_TOKEN", "something")], None, Err(CopilotTokenError::Nothing));
        check(&[], None, Err(CopilotTokenError::Nothing));
    }
}
