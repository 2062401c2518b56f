//! One row per scheduled time of a job.

use hermes_store::{CutOffRetry, JobClaim, JobRun, JobRunEnd, JobRunState, MissedRunNotice};
use hermes_types::{ChatAddress as Chat, ChatKind, ChatPart, HolderId, JobRunId, OutgoingMessage, Timestamp};

use super::support::{StoreFixture, store_fixture};

fn claim(place: &StoreFixture, job: &str, due: f64, holder: &str, retry: CutOffRetry) -> JobClaim {
    place
        .store
        .claim_job_run(job, Timestamp(due), &HolderId::new(holder), retry, Timestamp(due + 1.0))
        .wait()
        .unwrap()
}

#[track_caller]
fn granted(claim: JobClaim) -> JobRunId {
    match claim {
        JobClaim::Granted(id) => id,
        JobClaim::Taken(run) => panic!("{run:?}"),
    }
}

fn end(state: JobRunState, at: f64) -> JobRunEnd {
    let reply = OutgoingMessage {
        platform: "telegram".into(),
        place: Chat::new(ChatKind::Dm, "c1"),
        pieces: vec![ChatPart::Text { text: "hi".into() }],
        reply_to: None,
        choices: Vec::new(),
        draft: None,
        idempotency_key: format!("k{at}"),
    };
    JobRunEnd { state, error: None, replies: vec![("conv".into(), reply)], at: Timestamp(at) }
}

fn newest(place: &StoreFixture) -> JobRun {
    place.store.job_runs(None, 1).wait().unwrap().remove(0)
}

#[test]
fn an_instant_is_run_by_whoever_comes_first() {
    let place = store_fixture();
    let id = granted(claim(&place, "a", 100.0, "1-x", CutOffRetry::Never));
    let second = claim(&place, "a", 100.0, "2-y", CutOffRetry::Once);
    assert!(
        matches!(&second, JobClaim::Taken(run) if run.id == id && run.state == JobRunState::Claimed),
        "{second:?}"
    );
    granted(claim(&place, "a", 160.0, "2-y", CutOffRetry::Never));
    granted(claim(&place, "b", 100.0, "2-y", CutOffRetry::Never));
    let other = HolderId::new("2-y");
    assert!(!place.store.start_job_run(id, &other, Timestamp(101.0)).wait().unwrap(), "somebody else's");
    assert!(place.store.start_job_run(id, &HolderId::new("1-x"), Timestamp(101.0)).wait().unwrap());
    assert_eq!(place.store.open_job_runs().wait().unwrap().len(), 3);
}

#[test]
fn an_end_and_its_words_are_one_step() {
    let place = store_fixture();
    let holder = HolderId::new("1-x");
    let id = granted(claim(&place, "a", 100.0, "1-x", CutOffRetry::Never));
    assert!(
        !place
            .store
            .finish_job_run(id, &HolderId::new("2-y"), end(JobRunState::Completed, 5.0))
            .wait()
            .unwrap()
    );
    assert_eq!(place.store.outbox_depth().wait().unwrap().waiting, 0);
    assert!(place.store.finish_job_run(id, &holder, end(JobRunState::Completed, 120.0)).wait().unwrap());
    assert_eq!(place.store.outbox_depth().wait().unwrap().waiting, 1);
    let run = newest(&place);
    assert_eq!((run.state, run.notified, run.recorded), (JobRunState::Completed, true, false));
    assert_eq!(place.store.unreported_job_runs().wait().unwrap().len(), 1, "the list of jobs does not know");
    place.store.mark_job_run_recorded(id).wait().unwrap();
    assert!(place.store.unreported_job_runs().wait().unwrap().is_empty());
    assert!(
        !place.store.finish_job_run(id, &holder, end(JobRunState::Failed, 130.0)).wait().unwrap(),
        "ended once"
    );
}

#[test]
fn a_run_that_was_cut_off_is_begun_again_at_most_once() {
    let place = store_fixture();
    for (attempt, retried) in [(1, true), (2, false)] {
        let due = 100.0;
        if attempt == 1 {
            granted(claim(&place, "a", due, "1-x", CutOffRetry::Once));
        }
        let run = newest(&place);
        assert!(place.store.cut_off_job_run(&run, "cut off", Timestamp(200.0)).wait().unwrap());
        assert!(!place.store.cut_off_job_run(&run, "cut off", Timestamp(201.0)).wait().unwrap());
        assert!(matches!(claim(&place, "a", due, "2-y", CutOffRetry::Never), JobClaim::Taken(_)));
        assert_eq!(
            matches!(claim(&place, "a", due, "2-y", CutOffRetry::Once), JobClaim::Granted(_)),
            retried,
            "{attempt}"
        );
    }
    let run = newest(&place);
    assert_eq!((run.state, run.attempts, run.notified), (JobRunState::Unknown, 2, false));
    place
        .store
        .notify_job_runs(vec![run.id], end(JobRunState::Failed, 1.0).replies, Timestamp(300.0))
        .wait()
        .unwrap();
    assert!(newest(&place).notified);
}

#[test]
fn missed_instants_do_not_overwrite_an_outcome() {
    let place = store_fixture();
    granted(claim(&place, "a", 100.0, "1-x", CutOffRetry::Never));
    let due = vec![Timestamp(40.0), Timestamp(100.0)];
    place.store.record_missed_runs("a", due, "away", MissedRunNotice::Send, Timestamp(500.0)).wait().unwrap();
    let runs = place.store.job_runs(Some("a"), 10).wait().unwrap();
    let states: Vec<_> = runs.iter().map(|run| (run.due_at, run.state)).collect();
    assert_eq!(states, [(Timestamp(100.0), JobRunState::Claimed), (Timestamp(40.0), JobRunState::Missed)]);
    assert!(place.store.job_runs(Some("b"), 10).wait().unwrap().is_empty());
}

#[test]
fn a_thousand_ended_rows_are_kept_and_untold_ones_beyond() {
    let place = store_fixture();
    let due = |from: u32, to: u32| (from..to).map(|at| Timestamp(f64::from(at))).collect::<Vec<_>>();
    place
        .store
        .record_missed_runs("untold", due(0, 5), "away", MissedRunNotice::Send, Timestamp(1.0))
        .wait()
        .unwrap();
    place
        .store
        .record_missed_runs("a", due(0, 1500), "away", MissedRunNotice::Skip, Timestamp(1.0))
        .wait()
        .unwrap();
    let runs = place.store.job_runs(None, 5000).wait().unwrap();
    assert_eq!(runs.len(), 1005);
    assert_eq!(runs.iter().filter(|run| run.job == "untold").count(), 5);
}
