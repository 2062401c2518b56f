//! Files by MMS. Those of people are fetched from Twilio; those of answers wait below the webhook's address until Twilio fetches them.
//!
//! Invariants: the token goes to the configured server only, and no address but Twilio's is fetched; a file is handed out only under a
//! name that nobody can guess, and for a limited time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use hermes_net::{Bytes, Method, Url};
use hermes_types::{
    Attachment, ChannelError, ChatPart, Clock, Envelope, PlatformResponse, Timestamp, random_hex,
};
use serde_json::Value;

use super::SmsChannel;
use super::inbound::{self, SmsForm};
use super::settings::WebhookCheck;
use crate::fetch::sniff_extension;
use crate::incoming_file::DescribedFile;
use crate::media::{LARGEST_DOCUMENT, mime_of};
use crate::rest::{RestError, decode_form};

/// The field of the webhook's address that names an offered file.
const FIELD: &str = "media";
/// Twilio takes messages of at most 5 MB.
const LARGEST_MMS: u64 = 5 * 1024 * 1024;
/// How long a file is offered; Twilio fetches it at once.
const OFFER_TIME: Duration = Duration::from_hours(1);
const MAX_OFFERS: usize = 100;
/// Twilio waits 15 seconds for the answer to its request.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
const HOPS: usize = 3;

/// The files of answers that Twilio may fetch.
#[derive(Debug, Default)]
pub(super) struct OfferedFiles(Mutex<VecDeque<OfferedFile>>);

#[derive(Debug, Clone)]
struct OfferedFile {
    token: String,
    path: String,
    mime: &'static str,
    until: Timestamp,
}

impl OfferedFiles {
    /// Offers a file, and returns the name under which it can be fetched.
    fn offer(&self, file: &Attachment, clock: &dyn Clock) -> String {
        let now = clock.now();
        let token = random_hex(64);
        let mut offers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        offers.retain(|offer| offer.until.seconds() > now.seconds());
        if offers.len() >= MAX_OFFERS {
            offers.pop_front();
        }
        let until = Timestamp(now.seconds() + OFFER_TIME.as_secs_f64());
        let mime = mime_of(&file.path);
        offers.push_back(OfferedFile { token: token.clone(), path: file.path.clone(), mime, until });
        token
    }

    /// Answers a request for a file.
    pub(super) fn hand_out(&self, query: &str, clock: &dyn Clock) -> PlatformResponse {
        let fields = decode_form(query);
        let token = fields.iter().find(|(name, _)| name == FIELD).map(|(_, value)| value.as_str());
        let Some(token) = token else { return PlatformResponse::status(405) };
        let offers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.now().seconds();
        let offer = offers.iter().find(|offer| offer.token == token && offer.until.seconds() > now).cloned();
        drop(offers);
        let bytes = offer.as_ref().and_then(|offer| read_small(&offer.path).ok());
        match (offer, bytes) {
            (Some(offer), Some(body)) => PlatformResponse { status: 200, content_type: offer.mime, body },
            _ => PlatformResponse::status(404),
        }
    }
}

/// Reads a file that fits into an MMS.
fn read_small(path: &str) -> Result<Vec<u8>, String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() || found.len() > LARGEST_MMS {
        return Err("it is larger than the 5 MB of an MMS".to_owned());
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

impl SmsChannel {
    /// Converts a form to a message, with its files.
    pub(super) async fn read_message(&self, form: &SmsForm, received_at: Timestamp) -> Option<Envelope> {
        let mut envelope = inbound::envelope(form, &self.settings, received_at)?;
        let files = inbound::files(form);
        envelope.parts.extend(join_all(files.iter().map(|file| self.fetch_media(file))).await);
        Some(envelope)
    }

    async fn fetch_media(&self, file: &inbound::SmsFile) -> ChatPart {
        let described = DescribedFile { name: None, mime: file.mime.as_deref(), size: None, kind: None };
        let clock = &*self.context.clock;
        let download = async {
            let bytes = tokio::select! {
                loaded = self.download_media(file.url.as_deref().unwrap_or_default()) => loaded?,
                () = clock.sleep(FETCH_TIMEOUT) => return Err(refused("it took too long")),
            };
            let claims_picture = file.mime.as_deref().is_some_and(|mime| mime.starts_with("image/"));
            if claims_picture && sniff_extension(&bytes).is_none() {
                return Err(refused("what is there is no picture"));
            }
            Ok(bytes)
        };
        described.take(&*self.context.host, clock, download).await
    }

    /// Downloads a file from the account's own part of Twilio's API, which may redirect to where files are kept; the credentials
    /// do not follow.
    async fn download_media(&self, url: &str) -> Result<Bytes, RestError> {
        let own = format!("2010-04-01/Accounts/{}/", self.settings.account);
        let path = Url::parse(url).ok().filter(|url| self.settings.is_of_twilio(url));
        let path = path.as_ref().and_then(|url| url.path().find(&own).and_then(|at| url.path().get(at..)));
        let path = path.ok_or_else(|| refused("its address is not one of Twilio's"))?;
        let request = self.request(Method::GET, path, None)?.follow_redirects(HOPS);
        self.rest.download(request, LARGEST_DOCUMENT).await
    }

    /// Adds the addresses of a message's files, which lists of messages do not have.
    pub(super) async fn add_media(&self, form: &mut SmsForm) -> Result<(), ChannelError> {
        let Some(id) = inbound::message_id(form).filter(|_| inbound::file_count(form) > 0) else {
            return Ok(());
        };
        if !id.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Ok(());
        }
        let path = format!("2010-04-01/Accounts/{}/Messages/{id}/Media.json", self.settings.account);
        let answer = match self.call(Method::GET, &path, None).await {
            Ok(answer) => answer,
            Err(failure) if matches!(failure.error, ChannelError::Refused(_)) => return Ok(()),
            Err(failure) => return Err(failure.error),
        };
        let listed = answer.get("media_list").and_then(Value::as_array);
        for (at, media) in listed.into_iter().flatten().enumerate() {
            let text = |key: &str| media.get(key).and_then(Value::as_str).unwrap_or_default();
            let path = text("uri").trim_start_matches('/').trim_end_matches(".json").to_owned();
            if let Ok(url) = self.settings.base.join(&path) {
                form.push((format!("MediaUrl{at}"), url.into()));
                form.push((format!("MediaContentType{at}"), text("content_type").to_owned()));
            }
        }
        Ok(())
    }

    /// Offers a file to Twilio and returns its public address, or the reason why it cannot be sent.
    pub(super) fn offer(&self, file: &Attachment) -> Result<String, String> {
        let WebhookCheck::Signature(public) = &self.settings.check else {
            return Err("SMS takes no files".to_owned());
        };
        if !self.settings.sends_files {
            return Err("SMS takes no files".to_owned());
        }
        if !self.listens.load(std::sync::atomic::Ordering::SeqCst) {
            return Err("only the gateway can send files by MMS".to_owned());
        }
        read_small(&file.path)?;
        let token = self.offers.offer(file, &*self.context.clock);
        let mut url = public.clone();
        url.query_pairs_mut().append_pair(FIELD, &token);
        Ok(url.into())
    }
}

fn refused(why: &str) -> RestError {
    RestError::new(ChannelError::Refused(why.to_owned()))
}
