//! The Home Assistant channel against an emulated server.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::PlatformFault;
use hermes_testkit::homeassistant::{FakeHomeAssistant, TOKEN};
use hermes_types::{ChannelError, ChatKind, Clock, ConnectionStatus};
use serde_json::{Value, json};

use super::support::{ListeningChannel, MemoryHost, RecordingIntake, listen, open, options, place, reply};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn settings(home: &FakeHomeAssistant, extra: Value) -> hermes_channels::Options {
    options(&[("HASS_TOKEN", TOKEN), ("HASS_URL", &home.base_url())], extra)
}

fn start(home: &FakeHomeAssistant, extra: Value) -> ListeningChannel {
    let inbox: Arc<RecordingIntake> = Arc::default();
    listen("homeassistant", &settings(home, extra), &MemoryHost::new(), &inbox, &clock())
}

fn house() -> FakeHomeAssistant {
    let home = FakeHomeAssistant::start().unwrap();
    home.entity("light.kitchen", "off", json!({"friendly_name": "Kitchen"}));
    home.entity("sensor.outside", "20", json!({"friendly_name": "Outside", "unit_of_measurement": "°C"}));
    home.entity("binary_sensor.door", "off", json!({"friendly_name": "Front door"}));
    home
}

#[tokio::test]
async fn selected_changes_come_in_as_events() {
    let home = house();
    let running = start(&home, json!({"watch_domains": ["light"], "watch_entities": ["binary_sensor.door"]}));
    running.inbox.until_connections(1).await;
    home.changes("light.kitchen", "on");
    home.changes("light.kitchen", "off");
    home.changes("sensor.outside", "21");
    home.changes("binary_sensor.door", "on");
    let taken = running.inbox.until_taken(2).await;
    let expected = ["[Home Assistant] Kitchen: turned on", "[Home Assistant] Front door: triggered"];
    assert_eq!(running.inbox.texts(), expected);
    assert_eq!((taken[0].place.chat_id.as_str(), taken[0].place.kind), ("ha_events", ChatKind::Channel));
    assert_eq!(taken[0].sender.user_id.as_deref(), Some("homeassistant"));
}

#[tokio::test]
async fn a_lost_connection_is_made_anew_and_a_wrong_token_is_said() {
    let home = house();
    let running = start(&home, json!({"watch_all": true}));
    running.inbox.until_connections(1).await;
    home.change_token("another");
    home.drop_sockets();
    let inbox = running.inbox.clone();
    let ended = running.ended().await.unwrap_err();
    assert!(matches!(&ended, ChannelError::Reauthorise(why) if why.contains("HASS_TOKEN")), "{ended:?}");
    let connections = inbox.connections();
    assert_eq!(connections[0], ConnectionStatus::Up);
    assert!(matches!(connections[1], ConnectionStatus::Down(_)));
}

#[tokio::test]
async fn answers_are_notifications_that_cannot_double() {
    let home = house();
    let channel = open("homeassistant", &settings(&home, json!({})), &MemoryHost::new(), &clock()).unwrap();
    let answer =
        reply("homeassistant", &place(ChatKind::Channel, "ha_events", None), "**Somebody** is at the door");
    home.fault("POST", "persistent_notification", PlatformFault::DoAndCut);
    assert!(matches!(channel.send(&answer).await.unwrap_err(), ChannelError::Retry { .. }));
    channel.send_again(&answer, clock().now()).await.unwrap();
    assert_eq!(home.notifications(), ["**Somebody** is at the door"]);
    home.change_token("another");
    let revoked = channel.send(&answer).await.unwrap_err();
    assert!(matches!(&revoked, ChannelError::Reauthorise(why) if why.contains("HASS_TOKEN")), "{revoked:?}");
}
