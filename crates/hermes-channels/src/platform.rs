//! The table of platforms. Set-up, status and the gateway all read it: a new platform is a module and a line here.

use std::sync::Arc;

use hermes_types::{Channel, ChannelCapabilities};

use crate::host::ChannelContext;
use crate::options::Options;

/// A chat platform as the rest of the program knows it.
#[derive(Debug, Clone, Copy)]
pub struct Platform {
    /// As in session keys and configuration: `telegram`.
    pub name: &'static str,
    /// As people write it: `Telegram`.
    pub label: &'static str,
    /// What has to be done on the platform's side first, step by step.
    pub guide: &'static str,
    /// What set-up asks for, in this order.
    pub variables: &'static [PlatformVariable],
    /// What must not be used by two gateways at once: a scope and a variable, as in `telegram-bot-token`.
    pub lock: Option<(&'static str, &'static str)>,
    /// Whether a person's id is also the id of the direct chat with them.
    pub person_is_chat: bool,
    /// What it can do, connected or not.
    pub abilities: ChannelCapabilities,
    /// Opens it, or says in words for the user what is wrong with the settings.
    pub open: OpenChannelFn,
}

/// What opens a platform.
pub type OpenChannelFn = fn(&Options, ChannelContext) -> Result<Arc<dyn Channel>, String>;

/// A setting that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct PlatformVariable {
    pub name: &'static str,
    /// The question.
    pub prompt: &'static str,
    pub kind: VariableKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableKind {
    /// Without it the platform is not there; never shown.
    RequiredSecret,
    Required,
    Optional,
}

impl Platform {
    /// Whether all is set that must be.
    pub fn is_configured(&self, options: &Options) -> bool {
        let mut required = self.variables.iter().filter(|variable| variable.kind != VariableKind::Optional);
        required.all(|variable| options.text(variable.name).is_some())
    }
}

/// All of them, in the order people see.
pub const PLATFORMS: &[Platform] =
    &[crate::telegram::PLATFORM, crate::discord::PLATFORM, crate::slack::PLATFORM];

/// The platform of that name.
pub fn platform(name: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.name == name)
}
