//! The user's settings for the Cloud API.

use hermes_net::{Error, Url};
use hermes_types::Secret;

use crate::options::Options;
use crate::rest::base_url;
use crate::webhook_mounts::RequestSource;

const OFFICIAL: &str = "https://graph.facebook.com/";
const DEFAULT_PATH: &str = "/whatsapp/webhook";
const DEFAULT_VERSION: &str = "v20.0";

#[derive(Debug, Clone)]
pub(super) struct WhatsAppCloudSettings {
    pub(super) phone_number_id: String,
    pub(super) token: Secret,
    /// The key of the signatures; without it no request is accepted.
    pub(super) app_secret: Option<Secret>,
    /// The word with which Meta verifies the address of the webhook.
    pub(super) verify_token: Option<Secret>,
    pub(super) base: Url,
    pub(super) version: String,
    pub(super) source: RequestSource,
    pub(super) path: String,
}

impl WhatsAppCloudSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let required =
            |name: &str| options.text(name).map(str::to_owned).ok_or_else(|| format!("{name} is not set"));
        let phone_number_id = required("WHATSAPP_CLOUD_PHONE_NUMBER_ID")?;
        if !phone_number_id.chars().all(|c| c.is_ascii_digit()) {
            return Err(
                "WHATSAPP_CLOUD_PHONE_NUMBER_ID must have digits only; it is not the phone number".to_owned()
            );
        }
        let version = options.text("WHATSAPP_CLOUD_API_VERSION").unwrap_or(DEFAULT_VERSION).to_owned();
        if !version.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') {
            return Err("WHATSAPP_CLOUD_API_VERSION is not a version like v20.0".to_owned());
        }
        let path = options.text("WHATSAPP_CLOUD_WEBHOOK_PATH").unwrap_or(DEFAULT_PATH);
        let given = options.extra_text("base_url").unwrap_or(OFFICIAL);
        Ok(Self {
            phone_number_id,
            token: Secret::new(required("WHATSAPP_CLOUD_ACCESS_TOKEN")?),
            app_secret: options.secret("WHATSAPP_CLOUD_APP_SECRET"),
            verify_token: options.secret("WHATSAPP_CLOUD_VERIFY_TOKEN"),
            base: base_url(given, "platforms.whatsapp_cloud.extra.base_url")?,
            version,
            source: source(options)?,
            path: format!("/{}", path.trim_start_matches('/')),
        })
    }

    /// Returns the address of a path below the version.
    pub(super) fn endpoint(&self, path: &str) -> Result<Url, Error> {
        self.base.join(&format!("{}/{path}", self.version)).map_err(|_| Error::InvalidUrl)
    }
}

fn source(options: &Options) -> Result<RequestSource, String> {
    RequestSource::read(options, "WHATSAPP_CLOUD_WEBHOOK_PORT", "WHATSAPP_CLOUD_WEBHOOK_HOST")
}

/// Tells whether requests arrive at the gateway's server.
pub(super) fn uses_shared_server(options: &Options) -> bool {
    source(options) == Ok(RequestSource::Shared)
}
