//! Resolves a job's delivery setting to chats.

use std::collections::BTreeSet;

use hermes_schedule::{DeliveryTarget, Job, parse_targets};
use hermes_types::chat_platforms;

use crate::deliver::{ChatDestination, ChatDestinations, Delivery};

/// The chats a job is delivered to, and the problems with those that were not found.
#[derive(Debug, Default)]
pub(super) struct JobDestinations {
    pub(super) found: Vec<ChatDestination>,
    pub(super) problems: Vec<String>,
}

/// Finds the chats of jobs.
#[derive(Clone)]
pub(super) struct JobAddressing {
    destinations: ChatDestinations,
    delivery: Delivery,
}

impl JobAddressing {
    pub(super) fn new(destinations: ChatDestinations, delivery: Delivery) -> Self {
        Self { destinations, delivery }
    }

    /// Returns every chat of a job once. A chat that cannot be found is reported and never fails the job.
    pub(super) async fn resolve(&self, job: &Job) -> JobDestinations {
        let mut addresses = JobDestinations::default();
        for target in parse_targets(&job.deliver()) {
            match self.resolve_target(&target, job) {
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
            self.destinations.fill_chat_metadata(address).await;
        }
        addresses
    }

    fn resolve_target(&self, target: &DeliveryTarget, job: &Job) -> Result<Vec<ChatDestination>, String> {
        match target {
            DeliveryTarget::Local => Ok(Vec::new()),
            DeliveryTarget::Origin => origin_destination(job)
                .map(|address| vec![address])
                .ok_or_else(|| "this job was not created in a chat, so `origin` is nowhere".to_owned()),
            DeliveryTarget::All => Ok(self.home_destinations()),
            DeliveryTarget::Platform(platform) => {
                self.require_known_platform(platform)?;
                origin_destination(job)
                    .filter(|origin| origin.platform == *platform)
                    .or_else(|| self.destinations.home(platform))
                    .map(|address| vec![address])
                    .ok_or_else(|| format!("{platform} has no home channel; /sethome in a chat makes it one"))
            }
            DeliveryTarget::Chat { platform, chat, thread } => {
                self.require_known_platform(platform)?;
                let is_set_up = self.delivery.is_set_up(platform)
                    || self.destinations.home(platform).is_some()
                    || origin_destination(job).is_some_and(|origin| origin.platform == *platform);
                if !is_set_up {
                    return Err(format!("{platform} is not connected"));
                }
                self.destinations.chat(platform, chat, thread.as_deref()).map(|address| vec![address])
            }
        }
    }

    fn require_known_platform(&self, platform: &str) -> Result<(), String> {
        let known =
            chat_platforms().any(|name| name == platform) || self.delivery.channel(platform).is_some();
        known.then_some(()).ok_or_else(|| format!("there is no platform '{platform}'"))
    }

    fn home_destinations(&self) -> Vec<ChatDestination> {
        let names: BTreeSet<String> =
            chat_platforms().map(str::to_owned).chain(self.delivery.platforms()).collect();
        names.iter().filter_map(|platform| self.destinations.home(platform)).collect()
    }
}

fn origin_destination(job: &Job) -> Option<ChatDestination> {
    let origin = job.origin.as_ref().filter(|origin| !origin.chat_id.is_empty())?;
    let mut address =
        ChatDestination::new(&origin.platform, origin.chat_id.clone(), origin.thread_id.clone());
    address.place.chat_name.clone_from(&origin.chat_name);
    Some(address)
}
