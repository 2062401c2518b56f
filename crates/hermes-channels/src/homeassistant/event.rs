//! Changes of entities, and how they are told. Pure.

use serde_json::Value;

/// A change of an entity's state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StateChange {
    pub(super) entity: String,
    pub(super) before: String,
    pub(super) after: String,
    /// The attributes after the change.
    pub(super) attributes: Value,
    /// What the event is recognised by.
    pub(super) key: String,
}

/// Parses an event. Returns `None` for what is no change of an existing entity.
pub(super) fn parse_event(event: &Value) -> Option<StateChange> {
    let data = event.get("data")?;
    let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
    let entity = text("/entity_id")?;
    let (before, after) = (text("/old_state/state")?, text("/new_state/state")?);
    let updated = text("/new_state/last_updated").or_else(|| event.get("time_fired").and_then(Value::as_str));
    let context = event.pointer("/context/id").and_then(Value::as_str);
    let moment = updated.map_or_else(|| hermes_types::random_hex(16), str::to_owned);
    Some(StateChange {
        entity: entity.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
        attributes: data.pointer("/new_state/attributes").cloned().unwrap_or_default(),
        key: format!("{entity}:{moment}:{}", context.unwrap_or_default()),
    })
}

/// Describes a change in words.
pub(super) fn describe(change: &StateChange) -> String {
    let StateChange { entity, before, after, attributes, .. } = change;
    let attribute = |name: &str| match attributes.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let name = attribute("friendly_name").unwrap_or_else(|| entity.clone());
    let words = match entity.split('.').next().unwrap_or_default() {
        "climate" => {
            let degrees = |name: &str| attribute(name).unwrap_or_else(|| "unknown".to_owned());
            format!(
                "HVAC mode changed from '{before}' to '{after}' (current: {}, target: {})",
                degrees("current_temperature"),
                degrees("temperature")
            )
        }
        "sensor" => {
            let unit = attribute("unit_of_measurement").unwrap_or_default();
            format!("changed from {before}{unit} to {after}{unit}")
        }
        "binary_sensor" if after == "on" => "triggered".to_owned(),
        "binary_sensor" if after == "off" => "cleared".to_owned(),
        "light" | "switch" | "fan" if after == "on" => "turned on".to_owned(),
        "light" | "switch" | "fan" if after == "off" => "turned off".to_owned(),
        "alarm_control_panel" => format!("alarm state changed from '{before}' to '{after}'"),
        _ => format!("{entity} changed from '{before}' to '{after}'"),
    };
    format!("[Home Assistant] {name}: {words}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_told_by_their_domain() {
        let told = |entity: &str, before: &str, after: &str, attributes: Value| {
            let states = json!({
                "entity_id": entity, "old_state": {"state": before},
                "new_state": {"state": after, "attributes": attributes, "last_updated": "t"},
            });
            describe(&parse_event(&json!({"data": states, "context": {"id": "c"}})).unwrap())
        };
        assert_eq!(
            told("light.a", "off", "on", json!({"friendly_name": "Lamp"})),
            "[Home Assistant] Lamp: turned on"
        );
        assert_eq!(
            told("binary_sensor.d", "on", "off", json!({})),
            "[Home Assistant] binary_sensor.d: cleared"
        );
        assert_eq!(
            told("sensor.t", "20.5", "21", json!({"unit_of_measurement": "°C"})),
            "[Home Assistant] sensor.t: changed from 20.5°C to 21°C"
        );
        let climate =
            told("climate.c", "off", "heat", json!({"current_temperature": 19, "temperature": 21.5}));
        assert!(
            climate.ends_with("HVAC mode changed from 'off' to 'heat' (current: 19, target: 21.5)"),
            "{climate}"
        );
        assert!(
            told("lock.front", "locked", "unlocked", json!({})).contains("lock.front changed from 'locked'")
        );
        assert!(
            told("light.a", "on", "unavailable", json!({})).contains("changed from 'on' to 'unavailable'")
        );
    }

    #[test]
    fn what_appears_or_disappears_is_no_change() {
        for data in [
            json!({"entity_id": "light.a", "old_state": null, "new_state": {"state": "on"}}),
            json!({"entity_id": "light.a", "old_state": {"state": "on"}, "new_state": null}),
            json!({"old_state": {"state": "on"}, "new_state": {"state": "off"}}),
        ] {
            assert_eq!(parse_event(&json!({"data": data})), None);
        }
    }
}
