//! Requests with an idempotency key.

use hermes_store::{KeyedRequest, RequestClaim, RequestRetention};
use hermes_types::Timestamp;

use super::support::{StoreFixture, store_fixture};

fn request(key: &str, fingerprint: &str) -> KeyedRequest {
    KeyedRequest { path: "/chat".into(), key: key.into(), fingerprint: fingerprint.into() }
}

fn claim(place: &StoreFixture, key: &str, fingerprint: &str, turn: &str, now: f64) -> RequestClaim {
    let horizon = RequestRetention { answered: Timestamp(now - 300.0), open: Timestamp(now - 1000.0) };
    place
        .store
        .claim_request(&request(key, fingerprint), &turn.into(), horizon, Timestamp(now))
        .wait()
        .unwrap()
}

fn known(turn: &str, answer: Option<&str>) -> RequestClaim {
    RequestClaim::Known { turn: turn.into(), answer: answer.map(str::to_owned) }
}

#[test]
fn a_request_is_known_from_before_its_turn_until_after_its_answer() {
    let place = store_fixture();
    assert_eq!(claim(&place, "k", "a", "t1", 1.0), RequestClaim::New);
    assert_eq!(claim(&place, "k", "a", "t2", 2.0), known("t1", None));
    place.store.answer_request(&"t1".into(), "done".into(), Timestamp(3.0)).wait().unwrap();
    place.store.forget_request(&"t1".into()).wait().unwrap();
    assert_eq!(claim(&place, "k", "a", "t3", 4.0), known("t1", Some("done")), "an answer is not forgotten");
    assert_eq!(claim(&place, "k", "b", "t4", 5.0), RequestClaim::New, "another request under the same key");
    place.store.answer_request(&"t1".into(), "late".into(), Timestamp(6.0)).wait().unwrap();
    assert_eq!(claim(&place, "k", "b", "t5", 7.0), known("t4", None), "only its own turn answers it");
}

#[test]
fn one_whose_turn_came_to_nothing_is_passed_on_once_or_forgotten() {
    let place = store_fixture();
    claim(&place, "k", "a", "t1", 1.0);
    let pass =
        |to: &str| place.store.reassign_request(&"t1".into(), &to.into(), Timestamp(2.0)).wait().unwrap();
    assert!(pass("t2"));
    assert!(!pass("t3"));
    assert_eq!(claim(&place, "k", "a", "t4", 3.0), known("t2", None));
    place.store.forget_request(&"t2".into()).wait().unwrap();
    assert_eq!(claim(&place, "k", "a", "t5", 4.0), RequestClaim::New);
}

#[test]
fn age_and_number_are_bounded() {
    let place = store_fixture();
    claim(&place, "old", "a", "t1", 1.0);
    place.store.answer_request(&"t1".into(), "done".into(), Timestamp(2.0)).wait().unwrap();
    claim(&place, "open", "a", "t2", 2.0);
    assert_eq!(claim(&place, "old", "a", "t3", 303.0), RequestClaim::New, "five minutes have passed");
    assert_eq!(claim(&place, "open", "a", "t4", 304.0), known("t2", None), "what was cut off waits longer");
    assert_eq!(claim(&place, "open", "a", "t5", 1304.0), RequestClaim::New);
    for at in 0..1010 {
        let turn = format!("n{at}");
        claim(&place, &turn, "a", &turn, 1305.0);
        place.store.answer_request(&turn.as_str().into(), "done".into(), Timestamp(1305.0)).wait().unwrap();
    }
    claim(&place, "last", "a", "last", 1306.0);
    assert!(place.store.count_requests().wait().unwrap() <= 1003);
}
