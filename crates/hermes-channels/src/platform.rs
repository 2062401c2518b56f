//! The table of platforms. Setup, status and the gateway all read it: a new platform is a module and a line here.

use std::sync::Arc;

use hermes_types::{Channel, ChannelCapabilities, platform_facts};

use crate::host::ChannelContext;
use crate::options::Options;

/// A chat platform as the rest of the program knows it.
#[derive(Debug, Clone, Copy)]
pub struct Platform {
    /// The name in session keys and configuration: `telegram`.
    pub name: &'static str,
    /// The steps to do on the platform's side first.
    pub guide: &'static str,
    /// The variables setup asks for, in this order.
    pub variables: &'static [PlatformVariable],
    /// The beginnings of its variables, apart from its own name: `TWILIO_`.
    pub other_prefixes: &'static [&'static str],
    /// The scope and the variable of the lock that keeps two gateways from using the same account.
    pub lock: Option<(&'static str, &'static str)>,
    /// True when a user's id is also the id of their direct chat.
    pub person_is_chat: bool,
    /// Tells whether these settings need the gateway's server, because the platform sends requests.
    pub uses_shared_server: fn(&Options) -> bool,
    /// The capabilities, connected or not.
    pub abilities: ChannelCapabilities,
    /// Opens the channel, or returns an error for the user that says what is wrong with the settings.
    pub open: OpenChannelFn,
}

/// The type of functions that open a channel.
pub type OpenChannelFn = fn(&Options, ChannelContext) -> Result<Arc<dyn Channel>, String>;

/// A setting that setup asks for.
#[derive(Debug, Clone, Copy)]
pub struct PlatformVariable {
    pub name: &'static str,
    /// The text of the question.
    pub prompt: &'static str,
    pub kind: VariableKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableKind {
    /// A required value that is never shown.
    RequiredSecret,
    Required,
    /// A value that is never shown, and not required where that other variable is set.
    SecretUnless(&'static str),
    /// A required value that must be true.
    Switch,
    Optional,
}

impl Platform {
    /// Returns the name for users.
    pub fn label(&self) -> &'static str {
        platform_facts(self.name).map_or(self.name, |facts| facts.label)
    }

    /// Says that a platform sends no requests to the gateway's server.
    pub(crate) const fn has_no_requests(_: &Options) -> bool {
        false
    }

    /// Tells whether all required variables are set.
    pub fn is_configured(&self, options: &Options) -> bool {
        self.variables.iter().all(|variable| match variable.kind {
            VariableKind::Optional => true,
            VariableKind::Switch => options.flag(variable.name, false),
            VariableKind::SecretUnless(other) => {
                options.text(variable.name).is_some() || options.text(other).is_some()
            }
            VariableKind::Required | VariableKind::RequiredSecret => options.text(variable.name).is_some(),
        })
    }
}

/// All platforms, in the order users see.
pub const PLATFORMS: &[Platform] = &[
    crate::telegram::PLATFORM,
    crate::discord::PLATFORM,
    crate::slack::PLATFORM,
    crate::whatsapp::PLATFORM,
    crate::whatsapp_cloud::PLATFORM,
    crate::signal::PLATFORM,
    crate::matrix::PLATFORM,
    crate::mattermost::PLATFORM,
    crate::homeassistant::PLATFORM,
    crate::dingtalk::PLATFORM,
    crate::email::PLATFORM,
    crate::sms::PLATFORM,
];

/// Returns the platform of that name.
pub fn platform(name: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.name == name)
}
