//! Tests of platforms that fail, recover, or cannot work at all.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Home;
use hermes_gateway::ChannelHealth;
use hermes_gateway::process::StateFile;
use hermes_task::SystemClock;
use hermes_testkit::FakeChannel;
use hermes_types::{ChannelError, Clock as _};

use super::support::{GatewayFixture, GatewayFixturePlan, TestModel};

/// Starts a fixture with a second, supervised platform.
async fn attended(breaks: &[ChannelError]) -> (GatewayFixture, FakeChannel) {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.env = &[("GATEWAY_ALLOW_ALL_USERS", "1"), ("OTHER_HOME_CHANNEL", "home")];
    let bench = plan.start().await;
    let channel = FakeChannel::new("other");
    for error in breaks {
        channel.break_next(error.clone());
    }
    let state = Arc::new(StateFile::new(&Home::new(bench.folder.path()), bench.clock.now()));
    bench.gateway.channels().supervise(Arc::new(channel.clone()), state);
    (bench, channel)
}

async fn until_state(bench: &GatewayFixture, state: &str) -> serde_json::Value {
    let clock = SystemClock::new();
    loop {
        let text = std::fs::read_to_string(bench.folder.path().join("gateway_state.json")).unwrap();
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        if file["platforms"]["other"]["state"] == state {
            return file["platforms"]["other"].clone();
        }
        clock.sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn what_breaks_is_tried_again_with_growing_pauses() {
    let broken = |reason: &str| ChannelError::Retry { after: None, reason: reason.to_owned() };
    let (bench, channel) = attended(&[broken("no route"), broken("no route"), broken("gone")]).await;
    for seconds in [2, 4, 8] {
        while !bench.clock.slept().contains(&Duration::from_secs(seconds)) {
            tokio::task::yield_now().await;
        }
        assert_eq!(until_state(&bench, "retrying").await["error_code"], "other_network_error");
        bench.clock.advance(Duration::from_secs(seconds));
    }
    assert_eq!(until_state(&bench, "connected").await["error_message"], serde_json::Value::Null);
    assert_eq!(channel.listened(), 4);
    channel.write("ann", "hello");
    channel.until_said("ann", "you said: hello").await;
}

#[tokio::test]
async fn what_cannot_work_is_left_alone_and_said() {
    for (error, code) in [
        (ChannelError::Reauthorise("the token is not known".to_owned()), "other_auth_error"),
        (ChannelError::Conflict("another program polls".to_owned()), "other_polling_conflict"),
        (ChannelError::Refused("intents are missing".to_owned()), "other_connect_error"),
    ] {
        let (bench, channel) = attended(&[error]).await;
        let state = until_state(&bench, "fatal").await;
        assert_eq!(state["error_code"], code);
        let reason = state["error_message"].as_str().unwrap().to_owned();
        assert_eq!(bench.gateway.channels().health()["other"], ChannelHealth::Failed(reason));
        assert_eq!(bench.gateway.status().platforms(), ["fake"]);
        assert_eq!(channel.listened(), 1);
    }
}

#[tokio::test]
async fn a_stopped_gateway_says_goodbye_to_its_platforms() {
    let (bench, _channel) = attended(&[]).await;
    until_state(&bench, "connected").await;
    bench.gateway.stop().await;
    until_state(&bench, "disconnected").await;
}
