//! Finds the chats that names and platforms stand for.

use hermes_schedule::{DeliveryTarget, parse_targets};
use hermes_types::{ChatAddress, ChatKind};

use super::directory::ChatDirectory;
use crate::settings::LiveSettings;

/// A chat of a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatDestination {
    pub(crate) platform: String,
    pub(crate) place: ChatAddress,
}

impl ChatDestination {
    pub(crate) fn new(platform: &str, chat: impl Into<String>, thread: Option<String>) -> Self {
        Self {
            platform: platform.to_owned(),
            place: ChatAddress { thread_id: thread, ..ChatAddress::new(ChatKind::Dm, chat) },
        }
    }

    pub(crate) fn is_same_chat(&self, other: &Self) -> bool {
        let key = |address: &Self| {
            (address.platform.clone(), address.place.chat_id.clone(), address.place.thread_id.clone())
        };
        key(self) == key(other)
    }
}

/// Resolves targets by the settings and the directory.
#[derive(Clone)]
pub(crate) struct ChatDestinations {
    settings: LiveSettings,
    directory: ChatDirectory,
}

impl ChatDestinations {
    pub(crate) fn new(settings: LiveSettings, directory: ChatDirectory) -> Self {
        Self { settings, directory }
    }

    /// Returns the home channel of a platform.
    pub(crate) fn home(&self, platform: &str) -> Option<ChatDestination> {
        let settings = self.settings.current();
        let chat = settings.home_channel(platform)?;
        let thread = settings.env.get(&format!("{}_HOME_CHANNEL_THREAD_ID", platform.to_uppercase()));
        Some(ChatDestination::new(platform, chat, thread.map(str::to_owned)))
    }

    /// Returns a chat by its id, or by its name in the directory.
    pub(crate) fn chat(
        &self,
        platform: &str,
        chat: &str,
        thread: Option<&str>,
    ) -> Result<ChatDestination, String> {
        let (chat, of_name) = match self.directory.find(platform, chat)? {
            Some((chat, thread)) => (chat, thread),
            None => (chat.to_owned(), None),
        };
        Ok(ChatDestination::new(platform, chat, thread.map(str::to_owned).or(of_name)))
    }

    /// Resolves a target as a person writes it; a platform alone means its home channel. Also returns a note about
    /// what was chosen.
    pub(crate) async fn resolve(&self, target: &str) -> Result<(ChatDestination, Option<String>), String> {
        let (mut found, note) = match parse_targets(target).into_iter().next() {
            Some(DeliveryTarget::Platform(platform)) => {
                let home = self.home(&platform)
                    .ok_or_else(|| format!("{platform} has no home channel; name a chat as {platform}:ID, or send /sethome in one"))?;
                let note = format!("Sent to {platform} home channel (chat_id: {})", home.place.chat_id);
                (home, Some(note))
            }
            Some(DeliveryTarget::Chat { platform, chat, thread }) => {
                (self.chat(&platform, &chat, thread.as_deref())?, None)
            }
            _ => {
                return Err(format!(
                    "`{target}` is no place to send to; write platform, platform:ID or platform:#name"
                ));
            }
        };
        self.fill_chat_metadata(&mut found).await;
        Ok((found, note))
    }

    /// Fills in a chat's kind and name from its conversations.
    pub(crate) async fn fill_chat_metadata(&self, address: &mut ChatDestination) {
        if let Some(origin) = self.directory.origin(&address.platform, &address.place.chat_id).await {
            let thread_id = address.place.thread_id.take();
            address.place = ChatAddress { thread_id, ..origin.place() };
        }
    }
}
