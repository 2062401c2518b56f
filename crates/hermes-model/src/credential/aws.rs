//! AWS credentials for Bedrock: a bearer token, keys in variables, or a profile of the shared files.
//!
//! Roles of containers and machines are not asked for. Profile files are read at each use, because other programs renew
//! what is in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_config::{Config, Env, expand_tilde, user_home};
use hermes_types::{BoxFuture, Cancel, Secret};

use crate::client::{AwsKeys, Credentials, Presented, Unavailable};
use crate::wire::Cause;

const DEFAULT_REGION: &str = "us-east-1";

/// Where the credentials are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Bearer { token: Secret, region: String },
    Keys(AwsKeys),
    Profile { name: String, files: Vec<PathBuf>, region: String },
}

/// Whether there are credentials without asking anything but the environment.
pub fn is_detectable(env: &Env) -> bool {
    env.is_set("AWS_BEARER_TOKEN_BEDROCK")
        || (env.is_set("AWS_ACCESS_KEY_ID") && env.is_set("AWS_SECRET_ACCESS_KEY"))
        || env.is_set("AWS_PROFILE")
}

impl Source {
    pub fn find(config: &Config, env: &Env) -> Self {
        let name = env.get("AWS_PROFILE").unwrap_or("default").to_owned();
        let files = profile_files(env);
        let region = config
            .text_if_any("bedrock.region")
            .or_else(|| {
                ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|v| env.get(v)).map(str::to_owned)
            })
            .or_else(|| read_profile(&files, &name).remove("region"))
            .unwrap_or_else(|| DEFAULT_REGION.to_owned());
        if let Some(token) = env.get("AWS_BEARER_TOKEN_BEDROCK") {
            return Self::Bearer { token: Secret::new(token.trim()), region };
        }
        match (env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")) {
            (Some(access), Some(secret)) => Self::Keys(AwsKeys {
                access_key: access.trim().to_owned(),
                secret_key: Secret::new(secret.trim()),
                session_token: env.get("AWS_SESSION_TOKEN").map(|token| Secret::new(token.trim())),
                region,
            }),
            _ => Self::Profile { name, files, region },
        }
    }

    pub fn region(&self) -> &str {
        match self {
            Self::Bearer { region, .. } | Self::Profile { region, .. } => region,
            Self::Keys(keys) => &keys.region,
        }
    }

    pub fn is_bearer(&self) -> bool {
        matches!(self, Self::Bearer { .. })
    }

    /// For messages.
    pub fn origin(&self) -> String {
        match self {
            Self::Bearer { .. } => "AWS_BEARER_TOKEN_BEDROCK".to_owned(),
            Self::Keys(_) => "AWS_ACCESS_KEY_ID".to_owned(),
            Self::Profile { name, .. } => format!("AWS profile {name}"),
        }
    }

    fn present(&self) -> Result<Presented, Unavailable> {
        match self {
            Self::Bearer { token, .. } => Ok(Presented::Bearer(token.clone())),
            Self::Keys(keys) => Ok(Presented::Aws(keys.clone())),
            Self::Profile { name, files, region } => {
                let mut fields = read_profile(files, name);
                let keys = fields.remove("aws_access_key_id").zip(fields.remove("aws_secret_access_key"));
                let (access_key, secret) = keys.ok_or_else(|| Unavailable(missing(name)))?;
                let session_token = fields.remove("aws_session_token").map(Secret::new);
                Ok(Presented::Aws(AwsKeys {
                    access_key,
                    secret_key: Secret::new(secret),
                    session_token,
                    region: region.clone(),
                }))
            }
        }
    }
}

fn missing(profile: &str) -> String {
    format!(
        "Provider 'bedrock' has no credentials: the AWS profile `{profile}` holds no keys. Set \
         AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; or run `hermes model`"
    )
}

/// The credentials file before the configuration file: it wins where both name a key.
fn profile_files(env: &Env) -> Vec<PathBuf> {
    let file = |variable: &str, usual: &str| match env.get(variable) {
        Some(given) => expand_tilde(given, env).ok(),
        None => user_home(env).ok().map(|home| home.join(usual)),
    };
    let files =
        [file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), file("AWS_CONFIG_FILE", ".aws/config")];
    files.into_iter().flatten().collect()
}

fn read_profile(files: &[PathBuf], name: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    for path in files {
        let text = read(path);
        for (key, value) in section(&text, name) {
            fields.entry(key).or_insert(value);
        }
    }
    fields
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The entries of `[name]`, or `[profile name]` as the configuration file writes it. Nested settings are left out.
fn section(text: &str, name: &str) -> Vec<(String, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if let Some(title) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let title = title.trim();
            let short = title.strip_prefix("profile").filter(|rest| rest.starts_with([' ', '\t']));
            inside = title == name || short.is_some_and(|rest| rest.trim() == name);
            continue;
        }
        let nested = line.starts_with([' ', '\t']);
        if !inside || nested || bare.starts_with(['#', ';']) {
            continue;
        }
        if let Some((key, value)) = bare.split_once('=') {
            let value = value.trim();
            if !value.is_empty() {
                found.push((key.trim().to_ascii_lowercase(), value.to_owned()));
            }
        }
    }
    found
}

/// Credentials that are looked up at each use.
#[derive(Debug)]
pub struct AwsCredentials(Source);

impl AwsCredentials {
    pub fn new(source: Source) -> Self {
        Self(source)
    }
}

impl Credentials for AwsCredentials {
    fn current<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<Presented, Unavailable>> {
        Box::pin(std::future::ready(self.0.present()))
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), Unavailable>> {
        let words = format!("AWS refused the credentials from {}; renew them there", self.0.origin());
        Box::pin(std::future::ready(Err(Unavailable(words))))
    }

    fn rotate(&self, _: Cause, _: Option<Duration>) -> bool {
        false
    }

    fn can_renew(&self) -> bool {
        false
    }

    fn has_another(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let text = "\
; shared\n[default]\naws_access_key_id = A\n[profile work]\nregion=eu-west-1\ns3 =\n  max = 3\n# no\n\
             AWS_SECRET_ACCESS_KEY = x=y\n[profiled]\nregion = nowhere\n";
        let check = |name: &str, expected: &[(&str, &str)]| {
            let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(section(text, name), expected, "{name}");
        };
        check("default", &[("aws_access_key_id", "A")]);
        check("work", &[("region", "eu-west-1"), ("aws_secret_access_key", "x=y")]);
        check("d", &[]);
    }
}
