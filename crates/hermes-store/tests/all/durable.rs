//! The durable steps of a turn.

use std::time::Duration;

use hermes_store::{
    ChargeRange, EarlierSend, InboxCloseReason, InboxInsertion, LeaseOutcome, ModelCharge, NewToolCall,
};
use hermes_types::{
    ChatAddress as Chat, ChatKind, ChatPart, Cost, CostStatus, DeliveryCertainty, DeliveryReceipt, Envelope,
    HolderId, OutcomeStatus, OutgoingMessage, Sender, SpendingCap, Timestamp, Turn, TurnId, TurnState, Usage,
};

use super::support::store_fixture;

fn chat() -> Chat {
    Chat::new(ChatKind::Dm, "c1")
}

fn envelope(key: &str, text: &str) -> Envelope {
    Envelope {
        platform: "telegram".into(),
        platform_key: key.into(),
        place: chat(),
        sender: Sender { user_id: Some("u".into()), ..Sender::default() },
        parts: vec![ChatPart::Text { text: text.into() }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at: Timestamp(10.0),
    }
}

fn reply(key: &str) -> OutgoingMessage {
    OutgoingMessage {
        platform: "telegram".into(),
        place: chat(),
        pieces: vec![ChatPart::Text { text: "hi".into() }],
        reply_to: None,
        choices: Vec::new(),
        draft: None,
        idempotency_key: key.into(),
    }
}

#[test]
fn a_second_delivery_is_recognised() {
    let place = store_fixture();
    let first = place.store.accept("conv", envelope("1", "hello")).wait().unwrap();
    let InboxInsertion::New(id) = first else { panic!("{first:?}") };
    assert_eq!(
        place.store.accept("conv", envelope("1", "hello")).wait().unwrap(),
        InboxInsertion::Duplicate(id)
    );
    assert!(matches!(
        place.store.accept("conv", envelope("2", "again")).wait().unwrap(),
        InboxInsertion::New(_)
    ));
    let waiting = place.store.waiting("conv").wait().unwrap();
    assert_eq!(waiting.iter().map(|w| w.envelope.platform_key.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    place.store.close_inbox(id, InboxCloseReason::Done, None, Timestamp(11.0)).wait().unwrap();
    assert_eq!(place.store.inbox_depth().wait().unwrap().waiting, 1);
    // A message that was closed is still recognised.
    assert_eq!(
        place.store.accept("conv", envelope("1", "hello")).wait().unwrap(),
        InboxInsertion::Duplicate(id)
    );
}

#[test]
fn replies_leave_once_and_in_order() {
    let place = store_fixture();
    let first = place.store.enqueue("conv", reply("a"), Timestamp(1.0)).wait().unwrap();
    assert_eq!(
        place.store.enqueue("conv", reply("a"), Timestamp(2.0)).wait().unwrap(),
        first,
        "same key, same row"
    );
    place.store.enqueue("conv", reply("b"), Timestamp(1.0)).wait().unwrap();
    place.store.enqueue("other", reply("c"), Timestamp(1.0)).wait().unwrap();
    let claim = |now: f64| place.store.claim_due("telegram", Timestamp(now), 10).wait().unwrap();
    let keys = |due: &[hermes_store::DueReply]| {
        due.iter().map(|d| d.reply.idempotency_key.clone()).collect::<Vec<_>>()
    };
    let due = claim(5.0);
    assert_eq!(keys(&due), ["a", "c"], "the second of a conversation waits for the first");
    assert!(claim(5.0).is_empty(), "what is being sent is not handed out again");
    place.store.postpone(due[0].id, Timestamp(50.0), "429".into(), EarlierSend::None).wait().unwrap();
    assert!(claim(20.0).is_empty(), "a postponed reply holds back those behind it");
    let again = claim(50.0);
    assert_eq!((keys(&again), again[0].attempts), (vec!["a".to_owned()], 1));
    let receipt = DeliveryReceipt { message_ids: vec!["77".into()], certainty: DeliveryCertainty::Once };
    place.store.mark_sent(again[0].id, receipt, Timestamp(51.0)).wait().unwrap();
    assert_eq!(keys(&claim(52.0)), ["b"]);
}

#[test]
fn a_send_cut_off_by_a_restart_is_marked_as_unknown() {
    let place = store_fixture();
    place.store.enqueue("conv", reply("a"), Timestamp(1.0)).wait().unwrap();
    place.store.claim_due("telegram", Timestamp(2.0), 1).wait().unwrap();
    assert_eq!(place.store.recover_outbox().wait().unwrap(), 1);
    let due = place.store.claim_due("telegram", Timestamp(3.0), 1).wait().unwrap();
    assert_eq!(due[0].earlier, EarlierSend::Unknown);
}

fn turn(id: &str) -> Turn {
    Turn {
        id: TurnId::from(id),
        session: "s".into(),
        inbox: None,
        state: TurnState::Running,
        started_at: Timestamp(1.0),
        deadline_at: Some(Timestamp(100.0)),
        cap: SpendingCap { micro_usd: Some(5), tokens: None },
        cut_offs: 0,
    }
}

#[test]
fn a_turn_is_parked_at_its_second_cut_off() {
    let place = store_fixture();
    let holder = HolderId::generate();
    place.store.open_turn(turn("t"), holder.clone()).wait().unwrap();
    assert_eq!(place.store.running_turns().wait().unwrap(), [turn("t")]);
    let cut = || place.store.record_cut_off(&"t".into(), holder.clone(), Timestamp(5.0)).wait().unwrap();
    assert_eq!(cut(), Some(TurnState::Running));
    assert!(place.store.is_last_attempt(&"t".into()).wait().unwrap());
    assert_eq!(cut(), Some(TurnState::Parked));
    assert_eq!(cut(), None, "it has ended");
    assert!(place.store.running_turns().wait().unwrap().is_empty());
    // Closing a parked turn does not make it a finished one.
    place.store.close_turn(&"t".into(), TurnState::Done, None, Timestamp(6.0)).wait().unwrap();
    assert_eq!(place.store.turn(&"t".into()).wait().unwrap().unwrap().state, TurnState::Parked);
}

#[test]
fn a_turn_that_was_left_in_good_order_was_not_cut_off() {
    let place = store_fixture();
    place.store.open_turn(turn("t"), HolderId::generate()).wait().unwrap();
    place.store.open_turn(turn("other"), HolderId::new("1-another process")).wait().unwrap();
    for _ in 0..5 {
        assert_eq!(place.store.release_turns().wait().unwrap(), 1);
        let state = place.store.record_cut_off(&"t".into(), HolderId::generate(), Timestamp(5.0));
        assert_eq!(state.wait().unwrap(), Some(TurnState::Running));
    }
    assert_eq!(place.store.turn(&"t".into()).wait().unwrap().unwrap().cut_offs, 0);
}

#[test]
fn calls_without_an_outcome_are_known_after_a_restart() {
    let place = store_fixture();
    place.store.open_turn(turn("t"), HolderId::generate()).wait().unwrap();
    let call = |id: &str| NewToolCall { id: id.into(), name: "terminal".into(), arguments: "{}".into() };
    place.store.begin_call(&"t".into(), call("a"), Timestamp(1.0)).wait().unwrap();
    place.store.begin_call(&"t".into(), call("b"), Timestamp(2.0)).wait().unwrap();
    place.store.end_call(&"t".into(), &"a".into(), OutcomeStatus::Done, None, Timestamp(3.0)).wait().unwrap();
    let statuses: Vec<_> =
        place.store.tool_calls(&"t".into()).wait().unwrap().iter().map(|c| c.status).collect();
    assert_eq!(statuses, [Some(OutcomeStatus::Done), None]);
}

#[test]
fn one_holder_per_conversation() {
    let place = store_fixture();
    let (mine, theirs) = (HolderId::new("mine"), HolderId::new("theirs"));
    let take = |holder: &HolderId, now: f64| {
        place.store.acquire_lease("conv", holder, Timestamp(now), Duration::from_secs(30)).wait().unwrap()
    };
    assert_eq!(take(&mine, 0.0), LeaseOutcome::Granted);
    assert_eq!(take(&theirs, 10.0), LeaseOutcome::HeldBy { holder: mine.clone(), until: Timestamp(30.0) });
    assert_eq!(take(&mine, 20.0), LeaseOutcome::Granted, "renewed");
    assert_eq!(take(&theirs, 49.0), LeaseOutcome::HeldBy { holder: mine.clone(), until: Timestamp(50.0) });
    assert_eq!(take(&theirs, 50.0), LeaseOutcome::Granted, "a silent holder loses it");
    place.store.release_lease("conv", &mine).wait().unwrap();
    assert_eq!(place.store.lease_holder("conv", Timestamp(51.0)).wait().unwrap(), Some(theirs.clone()));
    place.store.release_lease("conv", &theirs).wait().unwrap();
    assert_eq!(take(&mine, 51.0), LeaseOutcome::Granted);
}

#[test]
fn charges_add_up_by_day_tree_and_job() {
    let place = store_fixture();
    let charge = |at: f64, root: &str, job: Option<&str>, micro_usd: Option<u64>| ModelCharge {
        at: Timestamp(at),
        session: "s".into(),
        turn: None,
        root_turn: Some(root.into()),
        job: job.map(str::to_owned),
        provider: "p".into(),
        model: "m".into(),
        usage: Usage { input: 100, output: 10, ..Usage::default() },
        cost: Cost { micro_usd, status: micro_usd.map_or(CostStatus::Unknown, |_| CostStatus::Estimated) },
    };
    for charge in [
        charge(1.0, "t1", None, Some(30)),
        charge(10.0, "t1", Some("j"), Some(12)),
        charge(11.0, "t2", Some("j"), None),
    ] {
        place.store.record_charge(charge).wait().unwrap();
    }
    let spent = |span| place.store.spending(span).wait().unwrap();
    assert_eq!(spent(ChargeRange::TurnTree("t1".into())).micro_usd, 42);
    let today = spent(ChargeRange::Since(Timestamp(5.0)));
    assert_eq!((today.calls, today.micro_usd, today.unpriced_calls, today.tokens), (2, 12, 1, 220));
    assert_eq!(spent(ChargeRange::Job("j".into(), Timestamp(0.0))).calls, 2);
}
