//! From what a job says about its delivery to chats that can be written to.

use std::collections::BTreeSet;

use hermes_schedule::{Job, PLATFORMS, Target, targets};
use hermes_types::{ChatKind, Place};
use serde_json::Value;

use crate::chat_names;
use crate::gateway::Gateway;
use crate::settings::Settings;

/// A chat of a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) platform: String,
    pub(crate) place: Place,
}

impl Address {
    pub(crate) fn new(platform: &str, chat: impl Into<String>, thread: Option<String>) -> Self {
        Self {
            platform: platform.to_owned(),
            place: Place { thread_id: thread, ..Place::new(ChatKind::Dm, chat) },
        }
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        let key = |address: &Self| {
            (address.platform.clone(), address.place.chat_id.clone(), address.place.thread_id.clone())
        };
        key(self) == key(other)
    }
}

/// Where a job is delivered, and what could not be found.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    pub(super) found: Vec<Address>,
    pub(super) problems: Vec<String>,
}

impl Gateway {
    /// Every chat once. What cannot be found is said and never fails the job.
    pub(super) async fn addresses(&self, job: &Job) -> Addresses {
        let mut addresses = Addresses::default();
        let settings = self.live.now();
        for target in targets(&job.deliver()) {
            match self.find(&target, job, &settings) {
                Ok(found) => {
                    for address in found {
                        if !addresses.found.iter().any(|known| known.same(&address)) {
                            addresses.found.push(address);
                        }
                    }
                }
                Err(problem) => addresses.problems.push(problem),
            }
        }
        for address in &mut addresses.found {
            self.know_better(address).await;
        }
        addresses
    }

    fn find(&self, target: &Target, job: &Job, settings: &Settings) -> Result<Vec<Address>, String> {
        match target {
            Target::Local => Ok(Vec::new()),
            Target::Origin => origin(job)
                .map(|address| vec![address])
                .ok_or_else(|| "this job was not created in a chat, so `origin` is nowhere".to_owned()),
            Target::All => Ok(self.all_homes(settings)),
            Target::Platform(platform) => {
                self.known(platform)?;
                origin(job)
                    .filter(|origin| origin.platform == *platform)
                    .or_else(|| home(settings, platform))
                    .map(|address| vec![address])
                    .ok_or_else(|| format!("{platform} has no home channel; /sethome in a chat makes it one"))
            }
            Target::Chat { platform, chat, thread } => {
                self.known(platform)?;
                let is_set_up = self.delivery.channel(platform).is_some()
                    || self.ports.services.is_set_up(platform)
                    || home(settings, platform).is_some()
                    || origin(job).is_some_and(|origin| origin.platform == *platform);
                if !is_set_up {
                    return Err(format!("{platform} is not connected"));
                }
                let (chat, thread) = match self.by_name(platform, chat)? {
                    Some((chat, of_name)) => (chat, thread.clone().or(of_name)),
                    None => (chat.clone(), thread.clone()),
                };
                Ok(vec![Address::new(platform, chat, thread)])
            }
        }
    }

    fn known(&self, platform: &str) -> Result<(), String> {
        let known = PLATFORMS.contains(&platform) || self.delivery.channel(platform).is_some();
        known.then_some(()).ok_or_else(|| format!("there is no platform '{platform}'"))
    }

    fn all_homes(&self, settings: &Settings) -> Vec<Address> {
        let names: BTreeSet<String> =
            PLATFORMS.iter().map(|name| (*name).to_owned()).chain(self.platforms()).collect();
        names.iter().filter_map(|platform| home(settings, platform)).collect()
    }

    /// A chat by its name in the directory. What has no `#` before it may be an id, and is taken for one where no chat
    /// has that name.
    pub(crate) fn by_name(
        &self,
        platform: &str,
        chat: &str,
    ) -> Result<Option<(String, Option<String>)>, String> {
        let text = std::fs::read_to_string(self.live.home().channel_directory()).unwrap_or_default();
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

    /// What is known about a chat from its conversations: its kind, its name.
    pub(crate) async fn know_better(&self, address: &mut Address) {
        let Ok(entries) = self.index.all().await else { return };
        let here = entries
            .into_iter()
            .filter_map(|entry| entry.origin)
            .find(|origin| origin.platform == address.platform && origin.chat_id == address.place.chat_id);
        if let Some(origin) = here {
            let thread_id = address.place.thread_id.take();
            address.place = Place { thread_id, ..origin.place() };
        }
    }
}

fn origin(job: &Job) -> Option<Address> {
    let origin = job.origin.as_ref().filter(|origin| !origin.chat_id.is_empty())?;
    let mut address = Address::new(&origin.platform, origin.chat_id.clone(), origin.thread_id.clone());
    address.place.chat_name.clone_from(&origin.chat_name);
    Some(address)
}

pub(crate) fn home(settings: &Settings, platform: &str) -> Option<Address> {
    let chat = settings.home_channel(platform)?;
    let thread = settings.env.get(&format!("{}_HOME_CHANNEL_THREAD_ID", platform.to_uppercase()));
    Some(Address::new(platform, chat, thread.map(str::to_owned)))
}
