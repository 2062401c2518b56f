//! Messages that Twilio could not pass on: it lists them, and tries only once or twice to send them.
//!
//! Invariant: the point up to which messages are known advances only past messages that the intake has accepted.

use std::time::Duration;

use hermes_net::parse_date;
use hermes_types::{Cancel, ChannelError, Intake, Timestamp};
use serde_json::{Value, json};

use super::SmsChannel;
use super::inbound::SmsForm;
use crate::incoming_file::{SubmitOutcome, submit};
use crate::rest::encode_form;

const DOCUMENT: &str = "sms_seen.json";
/// The time before the point that is read again: Twilio's clock and this one may differ.
const OVERLAP: Duration = Duration::from_mins(2);
const LOOK_EVERY: Duration = Duration::from_mins(5);
const AFTER_FAILURE: Duration = Duration::from_secs(10);
const PAGE: &str = "200";
/// Limits how far back is looked, whatever the point is.
const LONGEST: Duration = Duration::from_hours(24 * 7);

impl SmsChannel {
    /// Takes what did not get through, now and from time to time. Ends only when cancelled.
    ///
    /// Requests arrive meanwhile, so that nothing falls between the list and the first of them.
    pub(super) async fn keep_up(&self, intake: &dyn Intake, cancel: &Cancel) {
        loop {
            let pause = match self.catch_up(intake, cancel).await {
                Ok(()) => LOOK_EVERY,
                Err(error) => {
                    tracing::debug!(%error, "the list of received SMS was not read; Hermes tries again");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = self.context.clock.sleep(pause) => {}
                () = cancel.cancelled() => return,
            }
        }
    }

    /// Takes the messages since the point, the oldest first; those that are known already are recognised by the intake.
    /// Without a point there is nothing to catch up with: the number may have been used before.
    async fn catch_up(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let clock = &*self.context.clock;
        let now = clock.now();
        let stored = self.context.host.load_document(DOCUMENT);
        let point = stored.and_then(|value| value.get("at").and_then(Value::as_f64)).map(Timestamp);
        if let Some(point) = point {
            let since = Timestamp(point.minus(OVERLAP).seconds().max(now.minus(LONGEST).seconds()));
            for (sent, mut form) in self.list_received(since).await? {
                self.add_media(&mut form).await?;
                let Some(envelope) = self.read_message(&form, sent).await else { continue };
                if submit(intake, envelope, clock, cancel).await == SubmitOutcome::Cancelled {
                    return Ok(());
                }
            }
        }
        self.context.host.save_document(DOCUMENT, &json!({"at": now.seconds()}));
        Ok(())
    }

    /// Lists what the number received since a time, in the form of requests.
    async fn list_received(&self, since: Timestamp) -> Result<Vec<(Timestamp, SmsForm)>, ChannelError> {
        let query = encode_form(&[("To", &self.settings.number), ("PageSize", PAGE)]);
        let answer = self.list_messages(&query).await?;
        let mut found: Vec<(Timestamp, SmsForm)> = Vec::new();
        for message in answer.get("messages").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
            let sent = parse_date(text("date_sent")).or_else(|| parse_date(text("date_created")));
            let Some(sent) =
                sent.filter(|at| text("direction") == "inbound" && at.seconds() >= since.seconds())
            else {
                continue;
            };
            let fields =
                [("MessageSid", "sid"), ("From", "from"), ("Body", "body"), ("NumMedia", "num_media")];
            let form = fields.map(|(name, key)| (name.to_owned(), text(key).to_owned()));
            found.push((sent, form.to_vec()));
        }
        // Twilio lists the newest first.
        found.reverse();
        found.sort_by(|(a, _), (b, _)| a.seconds().total_cmp(&b.seconds()));
        Ok(found)
    }
}
