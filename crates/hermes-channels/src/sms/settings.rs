//! The user's settings for SMS.

use hermes_net::Url;
use hermes_types::Secret;

use crate::options::Options;
use crate::rest::base_url;
use crate::webhook_mounts::RequestSource;

const OFFICIAL: &str = "https://api.twilio.com/";

/// Says how requests are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WebhookCheck {
    /// By their signature over this address.
    Signature(Url),
    /// Not at all: the user turned it off.
    Off,
    /// The address that is signed is not known.
    Impossible,
}

#[derive(Debug, Clone)]
pub(super) struct SmsSettings {
    pub(super) account: String,
    pub(super) token: Secret,
    /// The number messages are sent from.
    pub(super) number: String,
    pub(super) base: Url,
    pub(super) source: RequestSource,
    pub(super) check: WebhookCheck,
    /// Files of answers are sent by MMS.
    pub(super) sends_files: bool,
}

impl SmsSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let required =
            |name: &str| options.text(name).map(str::to_owned).ok_or_else(|| format!("{name} is not set"));
        let account = required("TWILIO_ACCOUNT_SID")?;
        if !account.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err("TWILIO_ACCOUNT_SID is not an account SID; it begins with AC".to_owned());
        }
        let number = required("TWILIO_PHONE_NUMBER")?;
        let digits = number.strip_prefix('+').unwrap_or_default();
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
            return Err("TWILIO_PHONE_NUMBER is not a number in the form +15551234567".to_owned());
        }
        let check = match options.text("SMS_WEBHOOK_URL") {
            Some(url) => match Url::parse(url) {
                Ok(url) if matches!(url.scheme(), "http" | "https") => WebhookCheck::Signature(url),
                _ => return Err("SMS_WEBHOOK_URL is not a web address".to_owned()),
            },
            None if options.flag("SMS_INSECURE_NO_SIGNATURE", false) => WebhookCheck::Off,
            None => WebhookCheck::Impossible,
        };
        Ok(Self {
            account,
            token: Secret::new(required("TWILIO_AUTH_TOKEN")?),
            number,
            base: base_url(
                options.extra_text("base_url").unwrap_or(OFFICIAL),
                "platforms.sms.extra.base_url",
            )?,
            source: source(options)?,
            check,
            sends_files: options.flag("SMS_MMS", false),
        })
    }
}

impl SmsSettings {
    /// Tells whether an address is one of Twilio's, or of the server that takes its place.
    pub(super) fn is_of_twilio(&self, url: &Url) -> bool {
        let official = Url::parse(OFFICIAL).ok();
        url.origin() == self.base.origin()
            || official.is_some_and(|official| url.origin() == official.origin())
    }
}

fn source(options: &Options) -> Result<RequestSource, String> {
    RequestSource::read(options, "SMS_WEBHOOK_PORT", "SMS_WEBHOOK_HOST")
}

/// Tells whether requests arrive at the gateway's server.
pub(super) fn uses_shared_server(options: &Options) -> bool {
    source(options) == Ok(RequestSource::Shared)
}
