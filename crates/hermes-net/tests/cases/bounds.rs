//! Time limits and cancellation, on a clock that only the test moves.

use std::time::Duration;

use hermes_net::{Error, TimeoutPhase};
use hermes_testkit::RequestOutcome;
use hermes_types::Cancel;

use super::support::{MINUTE, NetFixture, chat, model};

const STALLS: &str = "replies: [{events: [{text: one}, stall]}]";
const SILENT: &str = "replies: [{events: [stall]}]";

#[tokio::test]
async fn a_stall_in_the_body_is_noticed() {
    let server = model(STALLS).await;
    let net = NetFixture::new();
    let mut response = net.send(chat(&server).stall_timeout(MINUTE)).await.unwrap();
    server.wait_until_at("stall", 1).await;
    let error = net
        .after(MINUTE, async {
            loop {
                if let Err(error) = response.next_chunk().await {
                    break error;
                }
            }
        })
        .await;
    assert_eq!(error, Error::Stalled { host: server.address().to_string(), after: MINUTE });
    drop(response);
    assert_eq!(server.wait_for_end(0).await, RequestOutcome::Disconnected);
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_given_up() {
    let server = model(SILENT).await;
    let net = NetFixture::new();
    let request = chat(&server).response_timeout(MINUTE);
    let error = net.after(MINUTE, net.send(request)).await.unwrap_err();
    assert_eq!(error, Error::TimedOut { host: server.address().to_string(), wait: TimeoutPhase::Answer });
}

#[tokio::test]
async fn the_deadline_ends_everything() {
    let net = NetFixture::new();
    let cancel = Cancel::new();
    let second = Duration::from_secs(1);

    let server = model(SILENT).await;
    let deadline = net.deadline_in(second);
    let error = net.after(second, net.client.send(chat(&server), deadline, &cancel)).await.unwrap_err();
    assert_eq!(error, Error::DeadlinePassed);

    let server = model(STALLS).await;
    let deadline = net.deadline_in(second);
    let mut response = net.client.send(chat(&server), deadline, &cancel).await.unwrap();
    server.wait_until_at("stall", 1).await;
    let error = net
        .after(second, async {
            loop {
                if let Err(error) = response.next_chunk().await {
                    break error;
                }
            }
        })
        .await;
    assert_eq!(error, Error::DeadlinePassed);

    // After the deadline has passed, nothing is sent at all.
    let server = model(SILENT).await;
    let error = net.client.send(chat(&server), deadline, &cancel).await.unwrap_err();
    assert_eq!(error, Error::DeadlinePassed);
    server.assert_requests(0);
}

#[tokio::test]
async fn cancelling_closes_the_connection() {
    let server = model(STALLS).await;
    let net = NetFixture::new();
    let cancel = Cancel::new();
    let mut response = net.client.send(chat(&server), net.deadline(), &cancel).await.unwrap();
    server.wait_until_at("stall", 1).await;
    let read = async {
        loop {
            if let Err(error) = response.next_chunk().await {
                break error;
            }
        }
    };
    let stop = async {
        net.clock.wait_for_sleepers(1).await;
        cancel.cancel();
    };
    assert_eq!(tokio::join!(read, stop).0, Error::Cancelled);
    drop(response);
    assert_eq!(server.wait_for_end(0).await, RequestOutcome::Disconnected);
}

#[tokio::test]
async fn cancelling_before_the_answer() {
    let server = model(SILENT).await;
    let net = NetFixture::new();
    let cancel = Cancel::new();
    let stop = async {
        server.wait_until_at("stall", 1).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(net.client.send(chat(&server), net.deadline(), &cancel), stop);
    assert_eq!(result.unwrap_err(), Error::Cancelled);
    assert_eq!(server.wait_for_end(0).await, RequestOutcome::Disconnected);
}
