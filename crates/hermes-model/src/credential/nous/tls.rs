//! The TLS settings for the portal that the user chose: stored with the sign-in as `tls`.

use std::path::PathBuf;

use hermes_net::CertificateVerification;
use serde_json::{Map, Value, json};

use super::super::CredentialContext;
use super::super::error::SignInError;

/// The settings of `--insecure` and `--ca-bundle`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOverrides {
    pub ca_bundle: Option<PathBuf>,
    pub verification: CertificateVerification,
}

impl TlsOverrides {
    pub(super) fn read(stored: &Map<String, Value>) -> Self {
        let tls = stored.get("tls");
        let insecure = tls.and_then(|tls| tls.get("insecure")?.as_bool()) == Some(true);
        let bundle = tls.and_then(|tls| tls.get("ca_bundle")?.as_str()).map(str::trim);
        Self {
            ca_bundle: bundle.filter(|path| !path.is_empty()).map(PathBuf::from),
            verification: if insecure {
                CertificateVerification::Skipped
            } else {
                CertificateVerification::Required
            },
        }
    }

    pub(super) fn write(&self) -> Value {
        let bundle = self.ca_bundle.as_ref().map(|path| path.to_string_lossy().into_owned());
        json!({"insecure": self.verification == CertificateVerification::Skipped, "ca_bundle": bundle})
    }
}

/// Returns the context with the TLS settings of a sign-in.
pub(super) fn apply(
    means: &CredentialContext,
    stored: &Map<String, Value>,
) -> Result<CredentialContext, SignInError> {
    let tls = TlsOverrides::read(stored);
    if tls == TlsOverrides::default() {
        return Ok(means.clone());
    }
    let net = means.net.with_verification(tls.ca_bundle, tls.verification);
    let net = net.map_err(|error| SignInError::Storage(format!("{error}.")))?;
    Ok(CredentialContext { net, ..means.clone() })
}
