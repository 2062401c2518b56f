//! Resolves a job's delivery setting to chats.

use std::collections::BTreeSet;

use hermes_schedule::{DeliveryTarget, Job, parse_targets};
use hermes_types::{ChatAddress, ChatKind, chat_platforms};
use serde_json::Value;

use crate::chat_names;
use crate::gateway::Gateway;
use crate::settings::GatewaySettings;

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

    pub(super) fn is_same_chat(&self, other: &Self) -> bool {
        let key = |address: &Self| {
            (address.platform.clone(), address.place.chat_id.clone(), address.place.thread_id.clone())
        };
        key(self) == key(other)
    }
}

/// The chats a job is delivered to, and the problems with those that were not found.
#[derive(Debug, Default)]
pub(super) struct JobDestinations {
    pub(super) found: Vec<ChatDestination>,
    pub(super) problems: Vec<String>,
}

impl Gateway {
    /// Returns every chat once. A chat that cannot be found is reported and never fails the job.
    pub(super) async fn job_destinations(&self, job: &Job) -> JobDestinations {
        let mut addresses = JobDestinations::default();
        let settings = self.settings.current();
        for target in parse_targets(&job.deliver()) {
            match self.resolve_job_target(&target, job, &settings) {
                Ok(found) => {
                    for address in found {
                        if !addresses.found.iter().any(|known| known.is_same_chat(&address)) {
                            addresses.found.push(address);
                        }
                    }
                }
                Err(problem) => addresses.problems.push(problem),
            }
        }
        for address in &mut addresses.found {
            self.fill_chat_metadata(address).await;
        }
        addresses
    }

    fn resolve_job_target(
        &self,
        target: &DeliveryTarget,
        job: &Job,
        settings: &GatewaySettings,
    ) -> Result<Vec<ChatDestination>, String> {
        match target {
            DeliveryTarget::Local => Ok(Vec::new()),
            DeliveryTarget::Origin => origin_destination(job)
                .map(|address| vec![address])
                .ok_or_else(|| "this job was not created in a chat, so `origin` is nowhere".to_owned()),
            DeliveryTarget::All => Ok(self.home_destinations(settings)),
            DeliveryTarget::Platform(platform) => {
                self.require_known_platform(platform)?;
                origin_destination(job)
                    .filter(|origin| origin.platform == *platform)
                    .or_else(|| home_destination(settings, platform))
                    .map(|address| vec![address])
                    .ok_or_else(|| format!("{platform} has no home channel; /sethome in a chat makes it one"))
            }
            DeliveryTarget::Chat { platform, chat, thread } => {
                self.require_known_platform(platform)?;
                let is_set_up = self.delivery.channel(platform).is_some()
                    || self.ports.services.is_set_up(platform)
                    || home_destination(settings, platform).is_some()
                    || origin_destination(job).is_some_and(|origin| origin.platform == *platform);
                if !is_set_up {
                    return Err(format!("{platform} is not connected"));
                }
                let (chat, thread) = match self.find_chat_by_name(platform, chat)? {
                    Some((chat, of_name)) => (chat, thread.clone().or(of_name)),
                    None => (chat.clone(), thread.clone()),
                };
                Ok(vec![ChatDestination::new(platform, chat, thread)])
            }
        }
    }

    fn require_known_platform(&self, platform: &str) -> Result<(), String> {
        let known =
            chat_platforms().any(|name| name == platform) || self.delivery.channel(platform).is_some();
        known.then_some(()).ok_or_else(|| format!("there is no platform '{platform}'"))
    }

    fn home_destinations(&self, settings: &GatewaySettings) -> Vec<ChatDestination> {
        let names: BTreeSet<String> = chat_platforms().map(str::to_owned).chain(self.platforms()).collect();
        names.iter().filter_map(|platform| home_destination(settings, platform)).collect()
    }

    /// Returns a chat by its name in the directory. A name without `#` may be an id, and is used as one where no
    /// chat has that name.
    pub(crate) fn find_chat_by_name(
        &self,
        platform: &str,
        chat: &str,
    ) -> Result<Option<(String, Option<String>)>, String> {
        let text = std::fs::read_to_string(self.settings.home().channel_directory()).unwrap_or_default();
        let directory: Value = serde_json::from_str(&text).unwrap_or_default();
        let entries = directory.pointer(&format!("/platforms/{platform}")).and_then(Value::as_array);
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        let is_id = entries.iter().any(|entry| entry.get("id").and_then(Value::as_str) == Some(chat));
        match chat_names::find(entries, chat).filter(|_| !is_id) {
            None if chat.starts_with('#') => Err(format!(
                "{platform} has no channel '{chat}'; `hermes send --list` shows those that are known"
            )),
            found => Ok(found),
        }
    }

    /// Fills in a chat's kind and name from its conversations.
    pub(crate) async fn fill_chat_metadata(&self, address: &mut ChatDestination) {
        let Ok(entries) = self.index.all().await else { return };
        let here = entries
            .into_iter()
            .filter_map(|entry| entry.origin)
            .find(|origin| origin.platform == address.platform && origin.chat_id == address.place.chat_id);
        if let Some(origin) = here {
            let thread_id = address.place.thread_id.take();
            address.place = ChatAddress { thread_id, ..origin.place() };
        }
    }
}

fn origin_destination(job: &Job) -> Option<ChatDestination> {
    let origin = job.origin.as_ref().filter(|origin| !origin.chat_id.is_empty())?;
    let mut address =
        ChatDestination::new(&origin.platform, origin.chat_id.clone(), origin.thread_id.clone());
    address.place.chat_name.clone_from(&origin.chat_name);
    Some(address)
}

pub(crate) fn home_destination(settings: &GatewaySettings, platform: &str) -> Option<ChatDestination> {
    let chat = settings.home_channel(platform)?;
    let thread = settings.env.get(&format!("{}_HOME_CHANNEL_THREAD_ID", platform.to_uppercase()));
    Some(ChatDestination::new(platform, chat, thread.map(str::to_owned)))
}
