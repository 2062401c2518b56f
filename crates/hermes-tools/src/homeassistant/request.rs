//! Requests to Home Assistant: their names checked, their failures in words.

use std::time::Duration;

use hermes_net::{HttpRequest, Method, Url};
use hermes_types::ToolContext;
use serde_json::{Map, Value};

use super::HomeAssistantAccess;

const LIST_TIMEOUT: Duration = Duration::from_secs(15);
const STATE_TIMEOUT: Duration = Duration::from_secs(10);
/// A large house has thousands of entities.
const LARGEST_ANSWER: usize = 32 * 1024 * 1024;

/// The domains whose services run programs, load code or send requests from the server.
const BLOCKED: [&str; 6] =
    ["shell_command", "command_line", "python_script", "pyscript", "hassio", "rest_command"];

/// A request below `/api/`.
#[derive(Debug)]
pub(super) struct HomeRequest {
    method: Method,
    path: String,
    body: Option<Value>,
    patience: Duration,
}

impl HomeRequest {
    #[expect(clippy::unnecessary_wraps, reason = "every request may fail its checks")]
    pub(super) fn states() -> Result<Self, String> {
        Ok(Self::get("states".to_owned(), LIST_TIMEOUT))
    }

    #[expect(clippy::unnecessary_wraps, reason = "every request may fail its checks")]
    pub(super) fn services() -> Result<Self, String> {
        Ok(Self::get("services".to_owned(), LIST_TIMEOUT))
    }

    pub(super) fn state(entity: &str) -> Result<Self, String> {
        if !is_entity(entity) {
            return Err(format!("`{entity}` is not an entity id; they look like light.living_room"));
        }
        Ok(Self::get(format!("states/{entity}"), STATE_TIMEOUT))
    }

    /// Builds the call of a service.
    pub(super) fn service(
        domain: &str,
        service: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Self, String> {
        for (what, name) in [("domain", domain), ("service", service)] {
            if !is_plain_name(name) {
                return Err(format!(
                    "`{name}` is not the name of a {what}; they have small letters, digits and _"
                ));
            }
        }
        if BLOCKED.contains(&domain) {
            return Err(format!(
                "services of `{domain}` are not called, because they run programs or send requests. Blocked domains: {}",
                BLOCKED.join(", ")
            ));
        }
        let mut data = read_data(arguments.get("data"))?;
        if let Some(entity) = crate::argument::text(arguments, "entity_id") {
            data.insert("entity_id".to_owned(), Value::String(entity.trim().to_owned()));
        }
        for entity in entities_of(data.get("entity_id")) {
            if !is_entity(entity) && entity != "all" {
                return Err(format!("`{entity}` is not an entity id; they look like light.living_room"));
            }
        }
        Ok(Self {
            method: Method::POST,
            path: format!("services/{domain}/{service}"),
            body: Some(Value::Object(data)),
            patience: LIST_TIMEOUT,
        })
    }

    fn get(path: String, patience: Duration) -> Self {
        Self { method: Method::GET, path, body: None, patience }
    }

    pub(super) async fn send(
        self,
        access: &HomeAssistantAccess,
        context: &ToolContext<'_>,
    ) -> Result<Value, String> {
        let base = access.url.trim_end_matches('/');
        let url = Url::parse(&format!("{base}/api/{}", self.path));
        let url = url.map_err(|_| "HASS_URL is not a web address".to_owned())?;
        let request = HttpRequest::new(self.method, url)
            .bearer(&access.token)
            .map_err(|error| error.to_string())?
            .response_timeout(self.patience);
        let request = match &self.body {
            Some(body) => request.json(body).map_err(|error| error.to_string())?,
            None => request,
        };
        let deadline = context.deadline.at_most(&*access.clock, self.patience);
        let sent = access.http.get()?.send(request, deadline, context.cancel).await;
        let response = sent.map_err(|error| error.to_string())?;
        match response.status().as_u16() {
            200..=299 => response.json(LARGEST_ANSWER).await.map_err(|error| error.to_string()),
            401 | 403 => Err("Home Assistant does not take HASS_TOKEN".to_owned()),
            404 => Err("Home Assistant knows nothing of that name".to_owned()),
            status => {
                let said = response.text(4096).await.unwrap_or_default();
                let said = hermes_text::head(said.trim(), 300);
                Err(format!("Home Assistant answered with status {status}: {said}"))
            }
        }
    }
}

/// Returns the data of a call, which models also write as a text.
fn read_data(data: Option<&Value>) -> Result<Map<String, Value>, String> {
    match data {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|_| "`data` is neither an object nor the JSON of one".to_owned()),
        Some(_) => Err("`data` must be an object".to_owned()),
    }
}

fn entities_of(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => text.split(',').map(str::trim).collect(),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Tells whether a text is the id of an entity: a domain and a name.
fn is_entity(text: &str) -> bool {
    let Some((domain, name)) = text.split_once('.') else { return false };
    let starts = domain.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    starts && domain.chars().all(is_name_char) && !name.is_empty() && name.chars().all(is_name_char)
}

fn is_plain_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(domain: &str, service: &str, arguments: &Value) -> Result<Value, String> {
        let request = HomeRequest::service(domain, service, arguments.as_object().unwrap())?;
        Ok(json!([request.path, request.body]))
    }

    #[test]
    fn names_cannot_leave_their_place() {
        for entity in ["../config", "light", "Light.a", "light.a/b", "light.", ".a", "light.a b", "1.a"] {
            assert!(HomeRequest::state(entity).is_err(), "{entity}");
        }
        assert_eq!(HomeRequest::state("light.a_1").unwrap().path, "states/light.a_1");
        for (domain, service) in
            [("light/../x", "a"), ("light", "../b"), ("_light", "a"), ("light", "Turn"), ("", "")]
        {
            assert!(call(domain, service, &json!({})).is_err(), "{domain}.{service}");
        }
        for domain in BLOCKED {
            let refused = call(domain, "run", &json!({})).unwrap_err();
            assert!(refused.contains("rest_command"), "all are named: {refused}");
        }
    }

    #[test]
    fn data_may_be_a_text_and_the_entity_comes_first() {
        let path = "services/light/turn_on";
        let both = json!({"entity_id": "light.a", "data": "{\"entity_id\": \"light.b\", \"brightness\": 9}"});
        assert_eq!(
            call("light", "turn_on", &both),
            Ok(json!([path, {"entity_id": "light.a", "brightness": 9}]))
        );
        let listed = json!({"data": {"entity_id": ["light.a", "light.b"]}});
        assert_eq!(
            call("light", "turn_on", &listed),
            Ok(json!([path, {"entity_id": ["light.a", "light.b"]}]))
        );
        assert!(call("light", "turn_on", &json!({"data": "no JSON"})).is_err());
        assert!(call("light", "turn_on", &json!({"data": [1]})).is_err());
        assert!(call("light", "turn_on", &json!({"entity_id": "../x"})).is_err());
    }
}
