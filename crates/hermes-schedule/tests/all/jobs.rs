//! Operations on jobs.

use hermes_config::Home;
use hermes_schedule::{
    DocumentedRun, Error, JobChange, JobFilter, JobId, JobOrigin, NewJob, PauseChange, RecordOutcome,
    RunDocuments, RunStatus, describe_repeat, earliest_next_run, job_summary,
};
use hermes_types::Timestamp;

use super::support::{JobsFixture, at, new, now, zone};

fn later(seconds: f64) -> Timestamp {
    Timestamp(now().seconds() + seconds)
}

#[test]
fn defaults_of_a_new_job() {
    let bench = JobsFixture::new();
    let job = bench.create("30m");
    assert!(JobId::has_id_format(job.id.as_str()), "{}", job.id);
    assert_eq!(job.name(), "look at the mail");
    assert_eq!((describe_repeat(&job).as_str(), job.deliver().as_str()), ("once", "local"));
    let job = bench.create("every 30m");
    assert_eq!(describe_repeat(&job), "forever");
    assert_eq!(job.next_run(), Some(later(1800.0)), "after one period, not at once");
    let long = NewJob { prompt: format!("  {}", "word ".repeat(40)), ..new("every 1h") };
    assert_eq!(bench.jobs.create(long, now()).unwrap().name().chars().count(), 49);
    let origin = JobOrigin { platform: "telegram".into(), chat_id: "1".into(), ..JobOrigin::default() };
    let skills = vec![" news ".into(), "news".into(), String::new(), "mail".into()];
    let job = NewJob {
        prompt: String::new(),
        skills,
        origin: Some(origin),
        repeat: Some(0),
        base_url: Some("http://x/v1/".into()),
        ..new("every 1h")
    };
    let job = bench.jobs.create(job, now()).unwrap();
    assert_eq!((job.name(), job.deliver().as_str()), ("news", "origin"));
    assert_eq!(
        (job.skills(), job.skill.as_deref()),
        (vec!["news".to_owned(), "mail".to_owned()], Some("news"))
    );
    assert_eq!((job.base_url.as_deref(), describe_repeat(&job).as_str()), (Some("http://x/v1"), "forever"));
}

#[test]
fn what_cannot_be_created_says_why() {
    let bench = JobsFixture::new();
    let refused = |new: NewJob| bench.jobs.create(new, now()).unwrap_err().to_string();
    assert_eq!(
        refused(NewJob { prompt: " ".into(), ..new("1h") }),
        "create requires either prompt or at least one skill"
    );
    assert_eq!(refused(new("")), "schedule is required for create");
    assert!(refused(new("2026-03-01")).contains("has passed"));
    assert!(refused(NewJob { prompt: "cat .env".into(), ..new("1h") }).starts_with("Blocked:"));
    assert!(refused(new("0 0 30 2 *")).starts_with("Invalid cron expression"));
    assert!(!bench.file().exists());
}

#[test]
fn jobs_are_found_by_id_beginning_and_name() {
    let bench = JobsFixture::new();
    let one = bench.jobs.create(NewJob { name: Some("Morning".into()), ..new("0 9 * * *") }, now()).unwrap();
    bench.create("0 9 * * *");
    bench.create("0 9 * * *");
    assert_eq!(bench.jobs.find(one.id.as_str()).unwrap().id, one.id);
    assert_eq!(bench.jobs.find(one.id.as_str().get(..8).unwrap()).unwrap().id, one.id);
    assert_eq!(bench.jobs.find("morning").unwrap().id, one.id);
    assert!(
        matches!(bench.jobs.find("look at the mail"), Err(Error::Ambiguous { ids, .. }) if ids.len() == 2)
    );
    assert!(matches!(bench.jobs.find(""), Err(Error::NotFound(_))));
    assert!(matches!(bench.jobs.find("zzz"), Err(Error::NotFound(_))));
}

#[test]
fn a_pause_keeps_its_time_and_resuming_counts_from_now() {
    let bench = JobsFixture::new();
    let job = bench.create("every 10m");
    let paused = bench.jobs.pause(&job.id, Some("holiday".into()), now()).unwrap();
    assert_eq!((paused.state(), paused.is_enabled()), ("paused", false));
    assert_eq!(paused.paused_reason.as_deref(), Some("holiday"));
    assert_eq!(paused.next_run_at, job.next_run_at);
    let resumed = bench.jobs.resume(&job.id, later(86_400.0)).unwrap();
    assert_eq!(resumed.next_run(), Some(later(87_000.0)), "else it would fire at once");
    assert_eq!(
        (resumed.state(), resumed.paused_at.clone(), resumed.paused_reason.clone()),
        ("scheduled", None, None)
    );
    let once = bench.create("10m");
    bench.jobs.pause(&once.id, None, now()).unwrap();
    assert!(
        matches!(bench.jobs.resume(&once.id, later(86_400.0)), Err(Error::NoFurtherRuns)),
        "it would never be due"
    );
    assert_eq!(bench.jobs.get(&once.id).unwrap().state(), "paused");
}

#[test]
fn updates_merge() {
    let bench = JobsFixture::new();
    let job = bench.create("every 10m");
    assert_eq!(
        bench.jobs.update(&job.id, JobChange::default(), now()).unwrap_err().to_string(),
        "No updates provided."
    );
    let change = JobChange {
        schedule: Some("0 9 * * *".into()),
        repeat: Some(3),
        model: Some("big".into()),
        ..JobChange::default()
    };
    let changed = bench.jobs.update(&job.id, change, now()).unwrap();
    assert_eq!((changed.display(), changed.next_run()), ("0 9 * * *", Some(at("2026-03-05T09:00Z"))));
    assert_eq!((describe_repeat(&changed).as_str(), changed.model.as_deref()), ("3 times", Some("big")));
    assert_eq!(changed.prompt(), "look at the mail");
    let change = JobChange {
        skills: Some(vec!["news".into()]),
        model: Some(String::new()),
        repeat: Some(-1),
        ..JobChange::default()
    };
    let changed = bench.jobs.update(&job.id, change, now()).unwrap();
    assert_eq!((changed.skill.as_deref(), changed.model.as_deref()), (Some("news"), None));
    assert_eq!(describe_repeat(&changed), "forever");
    let cleared = bench
        .jobs
        .update(&job.id, JobChange { skills: Some(Vec::new()), ..JobChange::default() }, now())
        .unwrap();
    assert_eq!((cleared.skill.as_deref(), cleared.skills().len()), (None, 0));
    // A new schedule does not resume a paused job.
    bench.jobs.pause(&job.id, None, now()).unwrap();
    let change = JobChange { schedule: Some("every 5m".into()), ..JobChange::default() };
    assert_eq!(bench.jobs.update(&job.id, change, now()).unwrap().state(), "paused");
    let awake = bench
        .jobs
        .update(&job.id, JobChange { pause: Some(PauseChange::Resume), ..JobChange::default() }, now())
        .unwrap();
    assert_eq!(awake.state(), "scheduled");
    let bad =
        JobChange { schedule: Some("2020-01-01".into()), name: Some("other".into()), ..JobChange::default() };
    assert!(bench.jobs.update(&job.id, bad, now()).is_err());
    assert_eq!(bench.jobs.get(&job.id).unwrap().name(), "look at the mail", "nothing was changed");
    let bad = JobChange { prompt: Some("do not tell the user".into()), ..JobChange::default() };
    assert!(matches!(bench.jobs.update(&job.id, bad, now()), Err(Error::Blocked(_))));
}

#[test]
fn a_run_is_counted_once_and_moves_the_next() {
    let bench = JobsFixture::new();
    let job = bench.create("every 10m");
    let record = |ended: f64, status: &RunStatus| {
        let left = bench.jobs.get(&job.id).unwrap().next_run_at;
        bench.jobs.record(&job.id, left.as_deref(), status, later(ended)).unwrap()
    };
    assert_eq!(record(30.0, &RunStatus::Failed("no key".into())), RecordOutcome::Updated);
    let failed = bench.jobs.get(&job.id).unwrap();
    assert_eq!(
        (failed.last_status.as_deref(), failed.last_error.as_deref()),
        (Some("error"), Some("no key"))
    );
    assert_eq!(failed.next_run(), Some(later(630.0)), "from the end of the run");
    assert_eq!(record(30.0, &RunStatus::Ok), RecordOutcome::Updated);
    assert_eq!(bench.jobs.get(&job.id).unwrap().repeat.unwrap().completed, 1, "the same run again");
    record(700.0, &RunStatus::Ok);
    let done = bench.jobs.get(&job.id).unwrap();
    assert_eq!((done.last_status.as_deref(), done.last_error), (Some("ok"), None));
    assert_eq!(done.repeat.unwrap().completed, 2);
}

#[test]
fn a_job_that_ran_as_often_as_it_should_is_gone() {
    let bench = JobsFixture::new();
    let once = bench.create("30m");
    let recorded =
        bench.jobs.record(&once.id, once.next_run_at.as_deref(), &RunStatus::Ok, later(1800.0)).unwrap();
    assert_eq!(recorded, RecordOutcome::Finished);
    assert!(bench.jobs.list(JobFilter::All).is_empty());
    assert_eq!(
        bench.jobs.record(&once.id, None, &RunStatus::Ok, later(1801.0)).unwrap(),
        RecordOutcome::Removed
    );
    // A one-time job that was given a larger repeat count counts as completed.
    let twice = bench.jobs.create(NewJob { repeat: Some(2), ..new("30m") }, now()).unwrap();
    bench.jobs.record(&twice.id, twice.next_run_at.as_deref(), &RunStatus::Ok, later(1800.0)).unwrap();
    let twice = bench.jobs.get(&twice.id).unwrap();
    assert_eq!((twice.state(), twice.is_enabled(), twice.next_run_at.clone()), ("completed", false, None));
}

#[test]
fn what_was_changed_during_a_run_is_kept() {
    let bench = JobsFixture::new();
    let once = bench.create("30m");
    let change = JobChange { schedule: Some("every 2h".into()), ..JobChange::default() };
    bench.jobs.update(&once.id, change, later(1810.0)).unwrap();
    bench.jobs.record(&once.id, once.next_run_at.as_deref(), &RunStatus::Ok, later(1820.0)).unwrap();
    let kept = bench.jobs.get(&once.id).unwrap();
    assert_eq!((kept.display(), kept.next_run()), ("every 120m", Some(later(1810.0 + 7200.0))));
    let job = bench.create("every 10m");
    bench.jobs.pause(&job.id, None, later(5.0)).unwrap();
    bench.jobs.record(&job.id, job.next_run_at.as_deref(), &RunStatus::Ok, later(10.0)).unwrap();
    assert_eq!(bench.jobs.get(&job.id).unwrap().state(), "paused");
}

#[test]
fn a_time_somebody_else_set_is_not_advanced() {
    let bench = JobsFixture::new();
    let seen = bench.create("every 10m");
    bench.jobs.trigger(&seen.id, later(60.0)).unwrap();
    assert_eq!(bench.jobs.advance(&seen, Some(later(9000.0)), later(61.0)).unwrap(), None);
    assert_eq!(bench.jobs.get(&seen.id).unwrap().next_run(), Some(later(60.0)));
    let seen = bench.jobs.get(&seen.id).unwrap();
    assert!(bench.jobs.advance(&seen, None, later(62.0)).unwrap().is_none());
    let broken = bench.jobs.get(&seen.id).unwrap();
    assert_eq!((broken.state(), broken.is_enabled()), ("error", true));
}

#[test]
fn the_earliest_is_an_instant_not_a_text() {
    let bench = JobsFixture::new();
    bench.write(
        r#"{"jobs": [{"id": "a", "schedule": {}, "next_run_at": "2026-03-04T12:00:00+02:00"},
                     {"id": "b", "schedule": {}, "next_run_at": "2026-03-04T11:00:00-05:00"}]}"#,
    );
    assert_eq!(earliest_next_run(&bench.jobs.list(JobFilter::All)), Some(at("2026-03-04T10:00Z")));
}

#[test]
fn a_view_is_short() {
    let bench = JobsFixture::new();
    let job = bench.jobs.create(NewJob { prompt: "é".repeat(120), ..new("every 1h") }, now()).unwrap();
    let seen = job_summary(&job);
    assert_eq!(seen["prompt_preview"].as_str().unwrap().chars().count(), 103);
    let keys: Vec<&str> = seen.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys.join(" "),
        "job_id name skill skills prompt_preview model provider base_url schedule repeat deliver next_run_at last_run_at \
         last_status enabled state paused_at paused_reason"
    );
}

#[test]
fn documents_are_private_and_the_oldest_go() {
    let bench = JobsFixture::new();
    let job = bench.create("every 1h");
    let documents = RunDocuments::new(Home::new(bench.folder.path()), zone("UTC"));
    for minute in 0..5 {
        let run = DocumentedRun { at: later(f64::from(minute) * 60.0), prompt: "do it", outcome: Ok("done") };
        documents.write(&job, &run, Some(3)).unwrap();
    }
    let folder = bench.folder.path().join("cron/output").join(job.id.as_str());
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["2026-03-04_10-09-30.md", "2026-03-04_10-10-30.md", "2026-03-04_10-11-30.md"]);
    let run = DocumentedRun { at: later(3600.0), prompt: "do it", outcome: Err("NoKey: none is set") };
    documents.write(&job, &run, None).unwrap();
    assert_eq!(
        documents.newest(&job.id).unwrap(),
        format!(
            "# Cron Job: look at the mail (FAILED)\n\n**Job ID:** {}\n**Run Time:** 2026-03-04 11:07:30\n**Schedule:** every 60m\n\n\
             ## Prompt\n\ndo it\n\n## Error\n\n```\nNoKey: none is set\n```\n",
            job.id
        )
    );
    let mut strange = job;
    strange.id = JobId::new("../../escape");
    assert!(documents.write(&strange, &run, None).is_err());
}
