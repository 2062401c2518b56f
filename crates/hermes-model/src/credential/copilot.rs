//! GitHub tokens for Copilot.

use std::time::Duration;

use hermes_config::{Env, is_usable_key};
use hermes_types::{Cancel, Secret};
use serde_json::{Value, json};

use super::device::{Listener, Progress, Rhythm, seconds};
use super::error::SignInError;
use super::http::{Body, post};
use super::{HeldAuth, Means, time};

pub(super) const PROVIDER: &str = "copilot";
const CLIENT: &str = "Ov23li8tweQw6odWQebz";
const PATIENCE: Duration = Duration::from_secs(15);
const VARIABLES: [&str; 3] = ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    Nothing,
    /// Only a classic personal token, which Copilot refuses.
    ClassicToken {
        variable: String,
    },
}

/// The first usable token and where it is: a variable, then our own sign-in.
pub fn find(env: &Env, stored: Option<&Value>) -> Result<(Secret, String), Missing> {
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
        (None, Some(variable)) => Err(Missing::ClassicToken { variable: variable.to_owned() }),
        (None, None) => Err(Missing::Nothing),
    }
}

fn is_classic(token: &str) -> bool {
    token.starts_with("ghp_")
}

fn is_accepted(token: &str) -> bool {
    ["gho_", "github_pat_", "ghu_"].into_iter().any(|prefix| token.starts_with(prefix))
}

/// GitHub's device flow; the token is kept in `auth.json`.
pub(super) async fn login(means: &Means, listener: Listener<'_>, cancel: &Cancel) -> Result<(), SignInError> {
    let site = &means.sites.github;
    let form = [("client_id", CLIENT), ("scope", "read:user")];
    let code =
        post(means, &format!("{site}/login/device/code"), None, Body::Form(&form), PATIENCE, cancel).await?;
    let incomplete = || SignInError::TryLater("GitHub's answer is incomplete. Try again shortly.".to_owned());
    if !code.is_success() {
        return Err(code.failure("Starting the sign-in"));
    }
    let device = code.text("device_code").ok_or_else(incomplete)?;
    let lifetime = seconds(code.number("expires_in"), 900, 3_600);
    listener(Progress::Code {
        url: code.text("verification_uri").ok_or_else(incomplete)?.to_owned(),
        complete_url: code.text("verification_uri_complete").map(str::to_owned),
        user_code: code.text("user_code").ok_or_else(incomplete)?.to_owned(),
        expires_in: lifetime,
    });
    let pause = seconds(code.number("interval"), 5, 60).max(Duration::from_secs(1));
    let mut rhythm = Rhythm::new(&*means.clock, pause, Duration::from_secs(5), lifetime);
    let form = [
        ("client_id", CLIENT),
        ("device_code", device),
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
    ];
    let token = loop {
        rhythm.wait(cancel).await?;
        let url = format!("{site}/login/oauth/access_token");
        let reply = post(means, &url, None, Body::Form(&form), PATIENCE, cancel).await?;
        if let Some(token) = reply.secret("access_token") {
            break token;
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
    let state = json!({
        "access_token": token.expose(), "token_type": "bearer", "obtained_at": time::iso(means.clock.now()),
    });
    let held = HeldAuth::take(&means.auth).await?;
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
        fn check(pairs: &[(&str, &str)], stored: Option<&Value>, expected: Result<&str, Missing>) {
            let env = Env::from_pairs(pairs.iter().copied());
            let found = find(&env, stored).map(|(_, origin)| origin);
            assert_eq!(found, expected.map(str::to_owned));
        }
        let classic = |name: &str| Err(Missing::ClassicToken { variable: name.to_owned() });
        check(&[("GITHUB_TOKEN", "gho_1"), ("GH_TOKEN", "github_pat_2")], None, Ok("GH_TOKEN"));
        check(&[("COPILOT_GITHUB_TOKEN", "ghp_1"), ("GITHUB_TOKEN", "ghu_2")], None, Ok("GITHUB_TOKEN"));
        check(&[("GH_TOKEN", "ghp_12")], None, classic("GH_TOKEN"));
        check(&[("GH_TOKEN", "ghp_12")], Some(&json!({"access_token": "gho_3"})), Ok("auth.json"));
        check(&[("GH_TOKEN", "something")], None, Err(Missing::Nothing));
        check(&[], None, Err(Missing::Nothing));
    }
}
