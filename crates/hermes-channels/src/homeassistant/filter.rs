//! Decides which events are taken.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::event::StateChange;
use super::settings::HomeAssistantSettings;

/// Limits the entities whose last event is remembered.
const MAX_ENTITIES: usize = 10_000;

pub(super) struct EventFilter {
    settings: HomeAssistantSettings,
    /// When the last event of each entity was taken.
    taken: Mutex<HashMap<String, Duration>>,
}

impl EventFilter {
    pub(super) fn new(settings: &HomeAssistantSettings) -> Self {
        Self { settings: settings.clone(), taken: Mutex::default() }
    }

    /// Decides about an event at a time of the monotonic clock.
    pub(super) fn accepts(&self, change: &StateChange, now: Duration) -> bool {
        let settings = &self.settings;
        let domain = change.entity.split('.').next().unwrap_or_default();
        let listed = |list: &[String], name: &str| list.iter().any(|entry| entry == name);
        let wanted = settings.watch_all
            || listed(&settings.watch_domains, domain)
            || listed(&settings.watch_entities, &change.entity);
        if !wanted || listed(&settings.ignore_entities, &change.entity) || change.before == change.after {
            return false;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |at: &Duration| now.saturating_sub(*at) < settings.cooldown;
        if taken.get(&change.entity).is_some_and(is_early) {
            return false;
        }
        if taken.len() >= MAX_ENTITIES {
            taken.retain(|_, at| is_early(at));
        }
        taken.insert(change.entity.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::options::Options;

    fn filter(extra: Value) -> EventFilter {
        let token = [("HASS_TOKEN".to_owned(), "t".to_owned())];
        EventFilter::new(
            &HomeAssistantSettings::read(&Options::new(token.into_iter().collect(), extra)).unwrap(),
        )
    }

    fn change(entity: &str, before: &str, after: &str) -> StateChange {
        StateChange {
            entity: entity.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            attributes: Value::Null,
            key: String::new(),
        }
    }

    #[test]
    fn what_is_not_selected_is_dropped() {
        let at = Duration::from_secs(1);
        assert!(!filter(json!({})).accepts(&change("light.a", "off", "on"), at));
        assert!(filter(json!({"watch_all": true})).accepts(&change("light.a", "off", "on"), at));
        let some = filter(
            json!({"watch_domains": ["light"], "watch_entities": ["sensor.b"], "ignore_entities": ["light.c"]}),
        );
        assert!(some.accepts(&change("light.a", "off", "on"), at));
        assert!(some.accepts(&change("sensor.b", "1", "2"), at));
        assert!(!some.accepts(&change("sensor.c", "1", "2"), at));
        assert!(!some.accepts(&change("light.c", "off", "on"), at), "ignored");
        assert!(!some.accepts(&change("light.d", "on", "on"), at), "only attributes changed");
    }

    #[test]
    fn an_entity_rests_after_an_event() {
        let filter = filter(json!({"watch_all": true, "cooldown_seconds": 10}));
        let door = change("binary_sensor.door", "off", "on");
        assert!(filter.accepts(&door, Duration::from_secs(100)));
        assert!(!filter.accepts(&door, Duration::from_secs(109)));
        assert!(filter.accepts(&change("light.a", "off", "on"), Duration::from_secs(109)));
        assert!(filter.accepts(&door, Duration::from_secs(110)));
    }
}
