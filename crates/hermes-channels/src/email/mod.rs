//! Mail: IMAP in, SMTP out, one conversation per address.
//!
//! Invariants: a mail counts as seen only after the intake has accepted it; only a mail whose sender the receiving server has
//! authenticated becomes a message, unless the user turned that off; mail of machines and lists is never answered; the
//! password leaves only over an encrypted connection, or to a server on this machine when configured so.
//!
//! Both clients are our own: what is needed of IMAP and SMTP is a few commands over the TLS that is in the program already.
//! The structure of mails is read by a library, because broken ones are the rule there.

mod address;
mod authentication;
mod automatic;
mod body;
mod compose;
mod imap;
mod imap_response;
mod incoming;
mod mailbox;
mod outbound;
mod settings;
mod smtp;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, DeliveryCertainty,
    DeliveryReceipt, Intake, LengthUnit, OutgoingMessage, Timestamp,
};

use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};
use settings::EmailSettings;
use threads::ThreadBook;

const NAME: &str = "email";
/// The subject of a mail that answers none.
const SUBJECT: &str = "Hermes Agent";
/// The beginning of the ids of the agent's own mails.
const OWN_ID_START: &str = "hermes-";

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "EMAIL_ADDRESS",
            prompt: "Address of the agent's own mailbox",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "EMAIL_PASSWORD",
            prompt: "Password, for many providers an app password",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "EMAIL_IMAP_HOST",
            prompt: "IMAP server (imap.gmail.com)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "EMAIL_SMTP_HOST",
            prompt: "SMTP server (smtp.gmail.com)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "EMAIL_AUTHSERV_ID",
            prompt: "First word after \"Authentication-Results:\" in a received mail (not needed for Gmail and Fastmail)",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "EMAIL_ALLOWED_USERS",
            prompt: "Addresses that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "EMAIL_HOME_ADDRESS",
            prompt: "Address for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("email-address", "EMAIL_ADDRESS")),
    person_is_chat: true,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 50_000,
        unit: LengthUnit::Scalars,
        edits: false,
        web_images: false,
        typing_interval: Duration::from_mins(1),
    },
    open,
};

struct EmailChannel {
    settings: EmailSettings,
    context: ChannelContext,
    threads: ThreadBook,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = EmailSettings::read(options)?;
    Ok(Arc::new(EmailChannel { settings, context, threads: ThreadBook::default() }))
}

impl Channel for EmailChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(self.check_sign_in())
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
        Box::pin(self.deliver(reply, DeliveryCertainty::Once))
    }

    /// Sends a mail again under the same id, by which many mail programs recognise it.
    fn send_again<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply, DeliveryCertainty::AtLeastOnce))
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Returns an address for logs: the first letter, and the domain.
fn masked(address: &str) -> String {
    format!("{}***@{}", hermes_text::head(address, 1), address::domain_of(address))
}
