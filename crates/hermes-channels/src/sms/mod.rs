//! SMS through Twilio: webhooks in, the REST API out.
//!
//! Invariants: nothing of a request is read before its signature is verified; Twilio is answered after the intake has
//! accepted the message; what it could not pass on is read from its list; no error contains the token.
//! SMS has no markup, no edits and no typing indicator.

mod catch_up;
mod inbound;
mod media;
mod outbound;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, ConnectionStatus,
    DeliveryReceipt, Intake, LengthUnit, OutgoingMessage, PlatformRequest, PlatformResponse, Timestamp,
};

use crate::host::ChannelContext;
use crate::http_listener::RequestHandler;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};
use crate::rest::RestClient;
use crate::webhook_mounts::RequestEntrance;
use media::OfferedFiles;
use settings::{SmsSettings, WebhookCheck};

const NAME: &str = "sms";
/// The path Twilio sends messages to.
const PATH: &str = "/webhooks/twilio";
const LARGEST_BODY: usize = 64 * 1024;

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "TWILIO_ACCOUNT_SID",
            prompt: "Account SID (AC…)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "TWILIO_AUTH_TOKEN",
            prompt: "Auth token",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "TWILIO_PHONE_NUMBER",
            prompt: "The number messages come from, as +15551234567",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "SMS_WEBHOOK_URL",
            prompt: "The public address Twilio sends messages to (https://…/webhooks/twilio)",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "SMS_ALLOWED_USERS",
            prompt: "Numbers that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "SMS_HOME_CHANNEL",
            prompt: "Number for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &["TWILIO_"],
    lock: Some(("twilio-number", "TWILIO_PHONE_NUMBER")),
    person_is_chat: true,
    uses_shared_server: settings::uses_shared_server,
    abilities: ChannelCapabilities {
        max_length: 1600,
        unit: LengthUnit::Scalars,
        edits: false,
        web_images: false,
        typing_interval: Duration::from_mins(1),
    },
    open,
};

struct SmsChannel {
    settings: SmsSettings,
    rest: RestClient,
    context: ChannelContext,
    /// The files of answers that Twilio may fetch.
    offers: OfferedFiles,
    /// Set while requests are received: then Twilio can fetch files.
    listens: AtomicBool,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = SmsSettings::read(options)?;
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let rest = RestClient { client, clock, label: "Twilio", reason: outbound::reason };
    let (offers, listens) = (OfferedFiles::default(), AtomicBool::new(false));
    Ok(Arc::new(SmsChannel { settings, rest, context, offers, listens }))
}

impl SmsChannel {
    async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        if self.settings.check == WebhookCheck::Impossible {
            return Err(ChannelError::Refused(
                "SMS_WEBHOOK_URL is not set: without the address that Twilio signs, anybody could send messages in \
                 the name of others. Set it to the public address of this gateway, as in Twilio's console"
                    .to_owned(),
            ));
        }
        self.check_credentials().await?;
        let handler = SmsRequests { sms: self, intake };
        let entrance = RequestEntrance {
            source: &self.settings.source,
            path: PATH,
            body_limit: LARGEST_BODY,
            handler: &handler,
        };
        let ready = || {
            self.listens.store(true, Ordering::SeqCst);
            intake.report_connection(NAME, ConnectionStatus::Up);
        };
        let received = self.context.mounts.receive(entrance, &*self.context.clock, cancel, ready);
        let ended = tokio::select! {
            // First, so that requests arrive before the list is read.
            biased;
            ended = received => ended,
            () = self.keep_up(intake, cancel) => Ok(()),
        };
        self.listens.store(false, Ordering::SeqCst);
        ended
    }
}

/// Handles Twilio's requests.
struct SmsRequests<'a> {
    sms: &'a SmsChannel,
    intake: &'a dyn Intake,
}

impl RequestHandler for SmsRequests<'_> {
    fn handle(&self, request: PlatformRequest) -> BoxFuture<'_, PlatformResponse> {
        Box::pin(async move {
            match request.method.as_str() {
                "POST" => {}
                "GET" => return self.sms.offers.hand_out(&request.query, &*self.sms.context.clock),
                _ => return PlatformResponse::status(405),
            }
            let settings = &self.sms.settings;
            let Some(form) = inbound::read_form(&request.body) else { return PlatformResponse::status(400) };
            if !inbound::is_genuine(&form, request.header("x-twilio-signature"), settings) {
                tracing::warn!("a request that Twilio did not sign was refused");
                return PlatformResponse::status(403);
            }
            let now = self.sms.context.clock.now();
            let taken = match self.sms.read_message(&form, now).await {
                Some(envelope) => self.intake.accept(envelope).await.map(drop),
                None => Ok(()),
            };
            match taken {
                Ok(()) => inbound::empty_answer(),
                Err(error) => {
                    tracing::warn!(%error, "a message could not be taken");
                    PlatformResponse::status(503)
                }
            }
        })
    }
}

impl Channel for SmsChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(self.check_credentials())
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(self.run(intake, cancel))
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply))
    }

    fn send_again<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver_again(reply, since))
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Returns a phone number for logs: its beginning and its end.
fn masked(number: &str) -> String {
    let tail = number.len().saturating_sub(4);
    format!("{}****{}", hermes_text::head(number, 4), number.get(tail..).unwrap_or_default())
}
