//! AWS credentials for Bedrock: a bearer token, keys in variables, a profile, or a role granted by a service.
//!
//! Profile files are read at each use, because other programs renew their content; keys of a role are cached until
//! shortly before they expire. Invariant: keys of a role are requested only over TLS, from this machine, or from
//! the addresses that only the machine's own host answers.

mod fetch;
mod process;
mod profile;
mod role;
mod sso;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_config::{Config, Env, user_home};
use hermes_types::{BoxFuture, Cancel, Secret, Timestamp};

use super::CredentialContext;
use crate::client::{AwsKeys, CredentialProvider, CredentialUnavailable, KeyRefusal, PresentedCredential};
use role::WebIdentity;

const DEFAULT_REGION: &str = "us-east-1";
/// The remaining lifetime below which keys are renewed before use.
const RENEWAL_MARGIN: Duration = Duration::from_mins(5);

/// The place where the credentials are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwsCredentialSource {
    Bearer {
        token: Secret,
        region: String,
    },
    Keys(AwsKeys),
    Profile {
        name: String,
        files: Vec<PathBuf>,
        region: String,
    },
    /// A token in a file, exchanged for a role's keys.
    WebIdentity {
        role: String,
        token_file: PathBuf,
        session: String,
        region: String,
    },
    /// The role of the container in which the process runs.
    Container {
        region: String,
    },
    /// The role of the machine on which the process runs.
    Instance {
        region: String,
    },
}

/// Tells whether the environment alone shows that there are credentials.
pub fn is_detectable(env: &Env) -> bool {
    env.is_set("AWS_BEARER_TOKEN_BEDROCK")
        || (env.is_set("AWS_ACCESS_KEY_ID") && env.is_set("AWS_SECRET_ACCESS_KEY"))
        || env.is_set("AWS_PROFILE")
        || (env.is_set("AWS_WEB_IDENTITY_TOKEN_FILE") && env.is_set("AWS_ROLE_ARN"))
        || role::container_address(env).is_some()
}

impl AwsCredentialSource {
    pub fn find(config: &Config, env: &Env) -> Self {
        let named = env.get("AWS_PROFILE");
        let name = named.unwrap_or("default").to_owned();
        let files = profile::files(env);
        let mut fields = profile::read(&files, &name);
        let region = config
            .non_empty_text("bedrock.region")
            .or_else(|| {
                ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|v| env.get(v)).map(str::to_owned)
            })
            .or_else(|| fields.remove("region"))
            .unwrap_or_else(|| DEFAULT_REGION.to_owned());
        if let Some(token) = env.get("AWS_BEARER_TOKEN_BEDROCK") {
            return Self::Bearer { token: Secret::new(token.trim()), region };
        }
        if let (Some(access), Some(secret)) = (env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY"))
        {
            return Self::Keys(AwsKeys {
                access_key: access.trim().to_owned(),
                secret_key: Secret::new(secret.trim()),
                session_token: env.get("AWS_SESSION_TOKEN").map(|token| Secret::new(token.trim())),
                region,
            });
        }
        if named.is_some() {
            return Self::Profile { name, files, region };
        }
        if let (Some(role), Some(file)) = (env.get("AWS_ROLE_ARN"), env.get("AWS_WEB_IDENTITY_TOKEN_FILE")) {
            let session = env.get("AWS_ROLE_SESSION_NAME").unwrap_or("hermes").to_owned();
            return Self::WebIdentity { role: role.to_owned(), token_file: file.into(), session, region };
        }
        if role::container_address(env).is_some() {
            return Self::Container { region };
        }
        let off = env.bool("AWS_EC2_METADATA_DISABLED") == Some(true);
        if off || grants_something(&fields) {
            return Self::Profile { name, files, region };
        }
        Self::Instance { region }
    }

    pub fn region(&self) -> &str {
        match self {
            Self::Bearer { region, .. }
            | Self::Profile { region, .. }
            | Self::WebIdentity { region, .. }
            | Self::Container { region }
            | Self::Instance { region } => region,
            Self::Keys(keys) => &keys.region,
        }
    }

    pub fn is_bearer(&self) -> bool {
        matches!(self, Self::Bearer { .. })
    }

    /// Returns a description of the source, for messages.
    pub fn origin(&self) -> String {
        match self {
            Self::Bearer { .. } => "AWS_BEARER_TOKEN_BEDROCK".to_owned(),
            Self::Keys(_) => "AWS_ACCESS_KEY_ID".to_owned(),
            Self::Profile { name, .. } => format!("AWS profile {name}"),
            Self::WebIdentity { .. } => "AWS_WEB_IDENTITY_TOKEN_FILE".to_owned(),
            Self::Container { .. } => "the container's role".to_owned(),
            Self::Instance { .. } => "the machine's role".to_owned(),
        }
    }
}

fn grants_something(profile: &BTreeMap<String, String>) -> bool {
    ["aws_access_key_id", "credential_process", "sso_session", "sso_start_url", "role_arn"]
        .into_iter()
        .any(|name| profile.contains_key(name))
}

/// Keys with their expiry.
#[derive(Debug, Clone)]
struct TemporaryKeys {
    access_key: String,
    secret_key: Secret,
    session_token: Option<Secret>,
    /// The expiry; absent for keys that do not expire.
    expires_at: Option<Timestamp>,
}

impl TemporaryKeys {
    fn keys(&self, region: &str) -> AwsKeys {
        AwsKeys {
            access_key: self.access_key.clone(),
            secret_key: self.secret_key.clone(),
            session_token: self.session_token.clone(),
            region: region.to_owned(),
        }
    }
}

/// Returns the error for the user, with what to set instead.
fn unavailable_error(what: &str) -> CredentialUnavailable {
    CredentialUnavailable(format!(
        "Provider 'bedrock' has no credentials: {what}. Set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; or run `hermes model`"
    ))
}

/// Credentials that are looked up at each use.
#[derive(Debug)]
pub struct AwsCredentials {
    context: CredentialContext,
    source: AwsCredentialSource,
    /// The keys that a role granted, until they expire.
    cached_keys: Mutex<Option<TemporaryKeys>>,
}

impl AwsCredentials {
    pub fn new(context: CredentialContext, source: AwsCredentialSource) -> Self {
        Self { context, source, cached_keys: Mutex::new(None) }
    }

    fn cached_keys(&self) -> Option<TemporaryKeys> {
        let now = self.context.clock.now().plus(RENEWAL_MARGIN);
        let held = self.cached_keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.filter(|granted| granted.expires_at.is_some_and(|until| until.seconds() > now.seconds()))
    }

    async fn present(&self, cancel: &Cancel) -> Result<PresentedCredential, CredentialUnavailable> {
        match &self.source {
            AwsCredentialSource::Bearer { token, .. } => {
                return Ok(PresentedCredential::Bearer(token.clone()));
            }
            AwsCredentialSource::Keys(keys) => return Ok(PresentedCredential::Aws(keys.clone())),
            _ => {}
        }
        let region = self.source.region();
        if let Some(granted) = self.cached_keys() {
            return Ok(PresentedCredential::Aws(granted.keys(region)));
        }
        let granted = self.fetch_keys(cancel).await?;
        let keys = granted.keys(region);
        *self.cached_keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(granted);
        Ok(PresentedCredential::Aws(keys))
    }

    async fn fetch_keys(&self, cancel: &Cancel) -> Result<TemporaryKeys, CredentialUnavailable> {
        let means = &self.context;
        match &self.source {
            AwsCredentialSource::Profile { name, files, region } => {
                self.fetch_profile_keys(name, files, region, cancel).await
            }
            AwsCredentialSource::WebIdentity { role, token_file, session, region } => {
                let identity = WebIdentity { role, token_file, session, region };
                role::web_identity(means, &identity, cancel).await
            }
            AwsCredentialSource::Container { .. } => role::container(means, cancel).await,
            _ => role::instance(means, cancel).await,
        }
    }

    async fn fetch_profile_keys(
        &self,
        name: &str,
        files: &[PathBuf],
        region: &str,
        cancel: &Cancel,
    ) -> Result<TemporaryKeys, CredentialUnavailable> {
        let mut fields = profile::read(files, name);
        if let Some((access_key, secret)) =
            fields.remove("aws_access_key_id").zip(fields.remove("aws_secret_access_key"))
        {
            let session_token = fields.remove("aws_session_token").map(Secret::new);
            return Ok(TemporaryKeys {
                access_key,
                secret_key: Secret::new(secret),
                session_token,
                expires_at: None,
            });
        }
        if let Some(command) = fields.get("credential_process") {
            return process::run(&self.context, name, command, cancel).await;
        }
        if fields.contains_key("sso_session") || fields.contains_key("sso_start_url") {
            let home = user_home(&self.context.env).map_err(|error| unavailable_error(&error.to_string()))?;
            let wanted = sso::SsoProfile::read(name, files, &fields)?;
            return sso::exchange(&self.context, &home.join(".aws/sso/cache"), &wanted, cancel).await;
        }
        match (fields.get("role_arn"), fields.get("web_identity_token_file")) {
            (Some(role), Some(file)) => {
                let session = fields.get("role_session_name").map_or("hermes", String::as_str);
                let identity = WebIdentity { role, token_file: file.as_ref(), session, region };
                role::web_identity(&self.context, &identity, cancel).await
            }
            (Some(_), None) => Err(unavailable_error(&format!(
                "the AWS profile `{name}` takes a role from another profile, which is not supported; \
                 `aws configure export-credentials --profile {name}` prints keys that are"
            ))),
            _ => Err(unavailable_error(&format!("the AWS profile `{name}` holds no keys"))),
        }
    }
}

impl CredentialProvider for AwsCredentials {
    fn current<'a>(
        &'a self,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        Box::pin(self.present(cancel))
    }

    fn renew<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        Box::pin(async move {
            if !self.can_renew() {
                let words =
                    format!("AWS refused the credentials from {}; renew them there", self.source.origin());
                return Err(CredentialUnavailable(words));
            }
            *self.cached_keys.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.present(cancel).await.map(|_| ())
        })
    }

    fn rotate(&self, _: &KeyRefusal) -> bool {
        false
    }

    fn can_renew(&self) -> bool {
        !matches!(self.source, AwsCredentialSource::Bearer { .. } | AwsCredentialSource::Keys(_))
    }

    fn has_another(&self) -> bool {
        false
    }
}
