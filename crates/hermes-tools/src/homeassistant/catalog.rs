//! What is told of the answers of Home Assistant. Pure.

use serde_json::{Map, Value, json};

/// Lists entities, also by a text in their name or area.
pub(super) fn entities(states: &Value, domain: Option<&str>, area: Option<&str>) -> Value {
    let prefix = domain.map(|domain| format!("{}.", domain.trim()));
    let area = area.map(|area| area.trim().to_lowercase());
    let is_wanted = |state: &&Value| {
        let attribute = |name: &str| {
            let value = state.get("attributes").and_then(|attributes| attributes.get(name));
            value.and_then(Value::as_str).unwrap_or_default().to_lowercase()
        };
        let in_domain =
            prefix.as_ref().is_none_or(|prefix| text(state, "entity_id").starts_with(prefix.as_str()));
        let in_area = area.as_ref().is_none_or(|area| {
            attribute("friendly_name").contains(area.as_str()) || attribute("area").contains(area.as_str())
        });
        in_domain && in_area
    };
    let rows: Vec<Value> = states
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_wanted)
        .map(|state| {
            let name = state.pointer("/attributes/friendly_name").and_then(Value::as_str).unwrap_or_default();
            json!({"entity_id": text(state, "entity_id"), "state": text(state, "state"), "friendly_name": name})
        })
        .collect();
    json!({"count": rows.len(), "entities": rows})
}

/// Returns the state of an entity.
pub(super) fn state(state: &Value) -> Value {
    let kept = ["entity_id", "state", "attributes", "last_changed", "last_updated"];
    let fields = kept.into_iter().map(|name| (name.to_owned(), state.get(name).cloned().unwrap_or_default()));
    Value::Object(fields.collect())
}

/// Lists the services of each domain, with the descriptions of their fields.
pub(super) fn services(answer: &Value, domain: Option<&str>) -> Value {
    let mut domains = Vec::new();
    for entry in answer.as_array().into_iter().flatten() {
        let name = text(entry, "domain");
        if domain.is_some_and(|wanted| wanted.trim() != name) {
            continue;
        }
        let mut listed = Map::new();
        for (service, facts) in entry.get("services").and_then(Value::as_object).into_iter().flatten() {
            let mut shown = json!({"description": text(facts, "description")});
            let described =
                |(field, facts): (&String, &Value)| (field.clone(), json!(text(facts, "description")));
            let fields = facts.get("fields").and_then(Value::as_object);
            if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
                shown["fields"] = Value::Object(fields.iter().map(described).collect());
            }
            listed.insert(service.clone(), shown);
        }
        domains.push(json!({"domain": name, "services": listed}));
    }
    json!({"count": domains.len(), "domains": domains})
}

/// Returns what a service changed.
pub(super) fn service_result(arguments: &Map<String, Value>, answer: &Value) -> Value {
    let name = |key: &str| crate::argument::text(arguments, key).unwrap_or_default().trim();
    let row = |state: &Value| json!({"entity_id": text(state, "entity_id"), "state": text(state, "state")});
    let affected: Vec<Value> = answer.as_array().into_iter().flatten().map(row).collect();
    json!({
        "success": true, "service": format!("{}.{}", name("domain"), name("service")), "affected_entities": affected,
    })
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
