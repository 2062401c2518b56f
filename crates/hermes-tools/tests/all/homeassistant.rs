//! The tools for Home Assistant against an emulated server.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::{Config as NetConfig, HttpClient};
use hermes_testkit::RealClock;
use hermes_testkit::homeassistant::{FakeHomeAssistant, TOKEN};
use hermes_tools::{HomeAssistantAccess, HomeAssistantTool, LazyHttpClient};
use hermes_types::{Cancel, Clock, Deadline, OutcomeStatus, Secret, Tool, ToolContext, ToolInvocation};
use serde_json::{Value, json};

use super::support::UnattendedUser;

fn house() -> FakeHomeAssistant {
    let home = FakeHomeAssistant::start().unwrap();
    home.entity("light.kitchen", "off", json!({"friendly_name": "Kitchen lamp"}));
    home.entity("light.hall", "on", json!({"friendly_name": "Ceiling", "area": "Hall"}));
    home.entity("sensor.outside", "20", json!({"friendly_name": "Outside"}));
    home
}

async fn call(home: &FakeHomeAssistant, token: &str, name: &str, arguments: Value) -> (OutcomeStatus, Value) {
    let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
    let net = NetConfig::new(clock.clone());
    let http = LazyHttpClient::new(move || HttpClient::new(net.clone()).map_err(|error| error.to_string()));
    let access = HomeAssistantAccess { url: home.base_url(), token: Secret::new(token), http, clock };
    let tools = HomeAssistantTool::all(&access);
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    let cancel = Cancel::new();
    let deadline = Deadline::after(&*access.clock, Duration::from_mins(1));
    let context =
        ToolContext { frontend: &UnattendedUser, cancel: &cancel, deadline, spawn: None, turn_model: None };
    let call = ToolInvocation {
        id: "c".into(),
        name: name.to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
        session: "s".into(),
        turn: "t".into(),
        task: "t".into(),
    };
    let outcome = tool.run(&call, context).await;
    (outcome.status, serde_json::from_str(&outcome.content).unwrap())
}

#[tokio::test]
async fn entities_states_and_services_are_read() {
    let home = house();
    let (_, all) = call(&home, TOKEN, "ha_list_entities", json!({})).await;
    assert_eq!(all["result"]["count"], 3);
    let (_, lights) = call(&home, TOKEN, "ha_list_entities", json!({"domain": "light"})).await;
    assert_eq!(lights["result"]["count"], 2);
    let expected = json!({"count": 1, "entities": [{"entity_id": "light.hall", "state": "on", "friendly_name": "Ceiling"}]});
    assert_eq!(call(&home, TOKEN, "ha_list_entities", json!({"area": "hall"})).await.1["result"], expected);
    let (_, state) = call(&home, TOKEN, "ha_get_state", json!({"entity_id": "sensor.outside"})).await;
    assert_eq!((state["result"]["state"].as_str(), state["result"].get("context")), (Some("20"), None));
    let (_, services) = call(&home, TOKEN, "ha_list_services", json!({"domain": "light"})).await;
    let turn_on = &services["result"]["domains"][0]["services"]["turn_on"];
    assert_eq!(turn_on, &json!({"description": "Turns lights on.", "fields": {"brightness": "How bright."}}));
    assert_eq!(services["result"]["count"], 1);
}

#[tokio::test]
async fn services_change_devices() {
    let home = house();
    let wanted = json!({"domain": "light", "service": "turn_on", "entity_id": "light.kitchen", "data": "{\"brightness\": 9}"});
    let (status, answer) = call(&home, TOKEN, "ha_call_service", wanted).await;
    let affected = json!([{"entity_id": "light.kitchen", "state": "on"}]);
    let expected = json!({"success": true, "service": "light.turn_on", "affected_entities": affected});
    assert_eq!((status, &answer["result"]), (OutcomeStatus::Done, &expected));
    assert_eq!(home.state("light.kitchen").as_deref(), Some("on"));
    let sent = json!({"brightness": 9, "entity_id": "light.kitchen"});
    assert_eq!(home.services(), [("light".to_owned(), "turn_on".to_owned(), sent)]);
}

#[tokio::test]
async fn what_is_refused_reaches_no_server() {
    let home = house();
    let blocked = json!({"domain": "shell_command", "service": "x"});
    let (status, answer) = call(&home, TOKEN, "ha_call_service", blocked).await;
    assert_eq!(status, OutcomeStatus::Failed);
    assert!(answer["error"].as_str().unwrap().contains("pyscript"), "{answer}");
    let (status, _) = call(&home, TOKEN, "ha_get_state", json!({"entity_id": "../config"})).await;
    assert_eq!(status, OutcomeStatus::Failed);
    assert!(home.calls("/").is_empty(), "nothing was sent");
    let (_, gone) = call(&home, TOKEN, "ha_get_state", json!({"entity_id": "light.none"})).await;
    assert!(gone["error"].as_str().unwrap().contains("knows nothing"), "{gone}");
    let (_, revoked) = call(&home, "another", "ha_list_entities", json!({})).await;
    assert_eq!(revoked, json!({"error": "Home Assistant does not take HASS_TOKEN"}));
}
