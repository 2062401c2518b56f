//! Tests of scheduled jobs, from the list to the chat.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Home;
use hermes_schedule::{Job, JobChange, JobFilter, JobId, JobOrigin, JobStore, NewJob, Zone};
use hermes_store::{CutOffRetry, JobClaim, JobRun, JobRunState, SessionFilter};
use hermes_types::{Clock as _, HolderId, ModelError};
use tempfile::TempDir;

use super::support::{GatewayFixture, GatewayFixturePlan, ModelStep, TestModel};

/// The holder id of a process that cannot be alive.
const DEAD: &str = "2147483646-dead";

fn jobs(folder: &TempDir) -> JobStore {
    JobStore::new(Home::new(folder.path()), Zone::named("UTC").unwrap())
}

fn new(schedule: &str) -> NewJob {
    let origin = JobOrigin { platform: "fake".into(), chat_id: "chat-ann".into(), ..JobOrigin::default() };
    NewJob {
        prompt: "read the news".into(),
        name: Some("News".into()),
        schedule: schedule.into(),
        origin: Some(origin),
        ..NewJob::default()
    }
}

const UTC: &[(&str, &str)] = &[("HERMES_TIMEZONE", "UTC")];

async fn bench(model: Arc<TestModel>) -> GatewayFixture {
    GatewayFixturePlan { env: UTC, ..GatewayFixturePlan::new(model) }.start().await
}

trait Scheduled {
    fn create(&self, new: NewJob) -> Job;
    fn jobs(&self) -> JobStore;
    /// Advances the clock and checks the jobs.
    async fn tick_after(&self, seconds: u64) -> usize;
    async fn runs(&self) -> Vec<JobRun>;
    async fn states(&self) -> Vec<JobRunState>;
}

impl Scheduled for GatewayFixture {
    fn create(&self, new: NewJob) -> Job {
        self.jobs().create(new, self.clock.now()).unwrap()
    }

    fn jobs(&self) -> JobStore {
        jobs(&self.folder)
    }

    async fn tick_after(&self, seconds: u64) -> usize {
        self.clock.advance(Duration::from_secs(seconds));
        self.gateway.scheduler().tick_once().await.unwrap()
    }

    async fn runs(&self) -> Vec<JobRun> {
        let mut runs = self.store.job_runs(None, 1000).await.unwrap();
        runs.reverse();
        runs
    }

    async fn states(&self) -> Vec<JobRunState> {
        self.runs().await.iter().map(|run| run.state).collect()
    }
}

#[tokio::test]
async fn a_job_runs_alone_and_its_answer_is_delivered_and_kept() {
    let bench = bench(TestModel::new(|_, _| ModelStep::Say("all quiet".into()))).await;
    let job = bench.create(NewJob { model: Some("big".into()), ..new("30m") });
    assert_eq!(bench.tick_after(60).await, 0, "not yet");
    assert_eq!(bench.tick_after(1740).await, 1);
    let text = bench.channel.until_said("ann", "all quiet").await;
    assert!(text.starts_with("Cronjob Response: News\n"), "{text}");
    assert!(text.contains("\n\nall quiet\n\nNote: The agent cannot see this message"), "{text}");
    let asked = bench.model.questions();
    assert!(asked[0].contains("[SILENT]") && asked[0].ends_with("\n\nread the news"), "{}", asked[0]);
    let wishes = bench.wishes.lock().unwrap().clone();
    assert!(
        wishes[0].contains("platform: \"cron\"") && wishes[0].contains("tool_user: Some(Job)"),
        "{wishes:?}"
    );
    assert!(wishes[0].contains("model: Some(\"big\")"), "{wishes:?}");
    let session = bench.store.list_sessions(SessionFilter::of_source("cron"), 5).await.unwrap().remove(0);
    assert_eq!(session.id.as_str(), format!("cron_{}_20260102_033405", job.id));
    let stored = bench.store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(stored.end_reason.as_deref(), Some("cron_complete"));
    let document = bench.folder.path().join(format!("cron/output/{}/2026-01-02_03-34-05.md", job.id));
    let document = std::fs::read_to_string(document).unwrap();
    assert!(
        document.starts_with("# Cron Job: News\n") && document.contains("## Response\n\nall quiet"),
        "{document}"
    );
    assert!(bench.jobs().list(JobFilter::All).is_empty(), "what ran once is gone");
    assert_eq!(bench.states().await, [JobRunState::Completed]);
    assert_eq!(bench.tick_after(60).await, 0);
}

#[tokio::test]
async fn the_ticker_looks_at_once_and_every_minute_and_is_held_up_by_nothing() {
    let bench = bench(TestModel::new(|said, _| {
        if said.contains("slow") {
            ModelStep::Gate("done at last".into())
        } else {
            ModelStep::Say("quick".into())
        }
    }))
    .await;
    bench.create(NewJob { prompt: "slow".into(), name: Some("Slow".into()), ..new("every 1m") });
    bench.create(NewJob { name: Some("Quick".into()), ..new("every 5m") });
    bench.clock.advance(Duration::from_mins(1));
    bench.gateway.scheduler().start();
    bench.until_asked(1).await;
    // While the slow job runs, minutes pass and the quick one runs.
    for looks in 1..=6 {
        until_looked(&bench, looks).await;
        bench.clock.advance(Duration::from_mins(1));
    }
    bench.channel.until_said("ann", "quick").await;
    let slow = bench.model.questions().iter().filter(|asked| asked.contains("slow")).count();
    assert_eq!(slow, 1, "what runs is not begun again");
    assert!(bench.folder.path().join("cron/ticker_heartbeat").exists());
    until_looked(&bench, 7).await;
    bench.model.gate.add_permits(1);
    bench.channel.until_said("ann", "done at last").await;
    while !bench.store.open_job_runs().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    bench.clock.advance(Duration::from_secs(59));
    bench.clock.advance(Duration::from_secs(1));
    bench.channel.until_said("ann", "the run before it had not ended").await;
    assert!(bench.folder.path().join("cron/.tick.lock").exists(), "the lock file stays");
}

/// Waits until the ticker has checked this often and sleeps.
async fn until_looked(bench: &GatewayFixture, looks: usize) {
    while bench.clock.slept().iter().filter(|span| **span == Duration::from_mins(1)).count() < looks {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn silence_failure_and_local_delivery() {
    let bench = bench(TestModel::new(|said, _| match () {
        () if said.contains("quiet") => ModelStep::Say("[SILENT] nothing new".into()),
        () if said.contains("broken") => {
            ModelStep::Fail(ModelError::GiveUp { status: Some(401), message: "no such key".into() })
        }
        () => ModelStep::Say("fine".into()),
    }))
    .await;
    let quiet = bench.create(NewJob { prompt: "quiet".into(), ..new("every 10m") });
    let broken =
        bench.create(NewJob { prompt: "broken".into(), name: Some("Broken".into()), ..new("every 10m") });
    bench.create(NewJob { deliver: Some("local".into()), ..new("every 10m") });
    bench.create(NewJob { prompt: "broken local".into(), deliver: Some("local".into()), ..new("every 10m") });
    assert_eq!(bench.tick_after(600).await, 4);
    bench.until_quiet().await;
    let texts = bench.channel.texts("ann");
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(
        texts[0].starts_with("⚠️ Cron job 'Broken' failed:\n") && texts[0].contains("no such key"),
        "{texts:?}"
    );
    let (quiet, broken) = (bench.jobs().get(&quiet.id).unwrap(), bench.jobs().get(&broken.id).unwrap());
    assert_eq!((quiet.last_status.as_deref(), quiet.last_error.as_deref()), (Some("ok"), None));
    assert_eq!(broken.last_status.as_deref(), Some("error"));
    assert!(broken.last_error.unwrap().contains("no such key"));
    let folder = bench.folder.path().join("cron/output").join(broken.id.as_str());
    let document = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    assert!(std::fs::read_to_string(document).unwrap().contains("(FAILED)"));
    assert_eq!(bench.states().await.iter().filter(|state| **state == JobRunState::Failed).count(), 2);
}

#[tokio::test]
async fn what_was_missed_is_told_in_one_line_and_never_made_up_for() {
    let bench = bench(TestModel::echo()).await;
    let job = bench.create(new("0 * * * *"));
    assert_eq!(bench.tick_after(5 * 3600).await, 1, "the last hour is not too late");
    bench.until_quiet().await;
    let texts = bench.channel.texts("ann");
    let lines: Vec<_> = texts.iter().filter(|text| text.contains("missed")).collect();
    assert_eq!(
        lines,
        [&"⚠️ Cron job 'News' missed 4 runs (2026-01-02 04:00 to 2026-01-02 07:00): Hermes was not running."
            .to_owned()]
    );
    assert_eq!(texts.len(), 2);
    let (missed, completed) = (JobRunState::Missed, JobRunState::Completed);
    assert_eq!(bench.states().await, [missed, missed, missed, missed, completed]);
    assert_eq!(bench.jobs().get(&job.id).unwrap().next_run_at.as_deref(), Some("2026-01-02T09:00:00+00:00"));
    assert_eq!(bench.tick_after(60).await, 0);
    assert_eq!(bench.channel.texts("ann").len(), 2, "told once");
}

#[tokio::test]
async fn a_run_cut_off_by_a_crash_is_told_and_what_recurs_is_not_repeated() {
    let bench = bench(TestModel::echo()).await;
    let job = bench.create(new("every 10m"));
    // The process dies between the claim and the run, before the list was updated.
    bench.clock.advance(Duration::from_mins(10));
    let due = job.next_run().unwrap();
    let claim = bench.store.claim_job_run(
        job.id.as_str(),
        due,
        &HolderId::new(DEAD),
        CutOffRetry::Never,
        bench.clock.now(),
    );
    assert!(matches!(claim.await.unwrap(), JobClaim::Granted(_)));
    assert_eq!(bench.tick_after(0).await, 0);
    let text = bench.channel.until_said("ann", "Hermes was stopped before it began").await;
    assert!(text.starts_with("⚠️ Cron job 'News', run of 2026-01-02 03:14: "), "{text}");
    assert_eq!(bench.states().await, [JobRunState::Unknown]);
    assert_eq!(bench.tick_after(60).await, 0, "the list moved on");
    assert!(bench.model.questions().is_empty());
    assert_eq!(bench.tick_after(600).await, 1);
}

#[tokio::test]
async fn something_that_runs_once_gets_one_more_chance() {
    let bench = bench(TestModel::echo()).await;
    let job = bench.create(new("10m"));
    bench.clock.advance(Duration::from_mins(10));
    let (due, now) = (job.next_run().unwrap(), bench.clock.now());
    bench
        .store
        .claim_job_run(job.id.as_str(), due, &HolderId::new(DEAD), CutOffRetry::Once, now)
        .await
        .unwrap();
    assert_eq!(bench.tick_after(60).await, 1);
    bench.channel.until_said("ann", "It is run again now.").await;
    bench.channel.until_said("ann", "you said:").await;
    assert_eq!(bench.states().await, [JobRunState::Completed]);
    assert!(bench.jobs().list(JobFilter::All).is_empty());

    let job = bench.create(new("10m"));
    bench.clock.advance(Duration::from_mins(10));
    let (due, now) = (job.next_run().unwrap(), bench.clock.now());
    for _ in 0..2 {
        bench
            .store
            .claim_job_run(job.id.as_str(), due, &HolderId::new(DEAD), CutOffRetry::Once, now)
            .await
            .unwrap();
        for run in bench.store.open_job_runs().await.unwrap() {
            bench.store.cut_off_job_run(&run, "Hermes was stopped while it ran", now).await.unwrap();
        }
    }
    assert_eq!(bench.tick_after(60).await, 0);
    bench.channel.until_said("ann", "It is not tried again.").await;
    assert!(bench.jobs().list(JobFilter::All).is_empty(), "it would be due for ever");
}

#[tokio::test]
async fn a_gateway_that_is_killed_in_the_middle_of_a_run_tells_of_it_at_the_next_start() {
    let bench = bench(TestModel::new(|_, _| ModelStep::Stuck)).await;
    bench.create(new("0 * * * *"));
    bench.clock.advance(Duration::from_hours(1));
    bench.gateway.scheduler().start();
    bench.until_asked(1).await;
    let clock = bench.clock.clone();
    let folder = bench.kill().await;
    // In a test the previous process has the same pid; only its expired lease shows that it is dead.
    clock.advance(Duration::from_mins(11));
    let bench = GatewayFixturePlan { env: UTC, clock, ..GatewayFixturePlan::new(TestModel::echo()) }
        .start_in(folder)
        .await;
    assert_eq!(bench.gateway.scheduler().tick_once().await.unwrap(), 0);
    bench.channel.until_said("ann", "Hermes was stopped while it ran").await;
    assert_eq!(bench.states().await, [JobRunState::Unknown]);
}

#[tokio::test]
async fn an_end_the_list_has_not_heard_of_is_written_into_it() {
    let bench = bench(TestModel::echo()).await;
    let job = bench.create(new("10m"));
    bench.clock.advance(Duration::from_mins(10));
    let (due, now, dead) = (job.next_run().unwrap(), bench.clock.now(), HolderId::new(DEAD));
    let claim = bench.store.claim_job_run(job.id.as_str(), due, &dead, CutOffRetry::Once, now).await.unwrap();
    let JobClaim::Granted(run) = claim else { panic!("{claim:?}") };
    let end =
        hermes_store::JobRunEnd { state: JobRunState::Completed, error: None, replies: Vec::new(), at: now };
    assert!(bench.store.finish_job_run(run, &dead, end).await.unwrap());
    assert_eq!(bench.tick_after(60).await, 0, "it is not run again");
    assert!(bench.jobs().list(JobFilter::All).is_empty());
    assert!(bench.model.questions().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_on_one_home_never_run_the_same_instant_twice() {
    let one = bench(TestModel::echo()).await;
    let two = GatewayFixturePlan {
        env: UTC,
        clock: one.clock.clone(),
        ..GatewayFixturePlan::new(one.model.clone())
    }
    .start_in(one.folder.clone())
    .await;
    for _ in 0..5 {
        one.create(new("* * * * *"));
    }
    one.create(new("3m"));
    let mut begun = 0;
    for _ in 0..10 {
        one.clock.advance(Duration::from_mins(1));
        let (a, b) = tokio::join!(one.gateway.scheduler().tick_once(), two.gateway.scheduler().tick_once());
        begun += a.unwrap() + b.unwrap();
        // The one that did not get the lock checks again, as it would a minute later.
        begun += two.gateway.scheduler().tick_once().await.unwrap()
            + one.gateway.scheduler().tick_once().await.unwrap();
    }
    assert_eq!(begun, 51);
    assert_eq!(one.model.questions().len(), 51);
    let runs = one.runs().await;
    assert!(runs.iter().all(|run| run.state == JobRunState::Completed && run.attempts == 1), "{runs:?}");
    assert_eq!(runs.len(), 51);
}

#[tokio::test]
async fn changes_made_during_a_run_are_kept() {
    let bench = bench(TestModel::new(|_, _| ModelStep::Gate("done".into()))).await;
    let job = bench.create(new("every 10m"));
    let removed = bench.create(new("every 10m"));
    bench.clock.advance(Duration::from_mins(10));
    let (gateway, model) = (bench.gateway.clone(), bench.model.clone());
    let ticking = hermes_task::spawn_named("tick", &bench.cancel, async move {
        gateway.scheduler().tick_once().await.unwrap()
    });
    bench.until_asked(2).await;
    let change = JobChange {
        prompt: Some("other words".into()),
        name: Some("Renamed".into()),
        ..JobChange::default()
    };
    bench.jobs().update(&job.id, change, bench.clock.now()).unwrap();
    bench.jobs().pause(&job.id, Some("enough".into()), bench.clock.now()).unwrap();
    bench.jobs().remove(&removed.id, bench.clock.now()).unwrap();
    model.gate.add_permits(2);
    assert_eq!(ticking.await.unwrap(), 2);
    let after = bench.jobs().list(JobFilter::All);
    assert_eq!(after.len(), 1, "what was removed is not made again");
    let after = &after[0];
    assert_eq!((after.prompt(), after.name(), after.state()), ("other words", "Renamed", "paused"));
    assert_eq!((after.last_status.as_deref(), after.is_enabled()), (Some("ok"), false));
}

#[tokio::test]
async fn a_run_that_gives_no_sign_of_life_is_ended_and_told() {
    let bench = bench(TestModel::new(|_, _| ModelStep::Hang)).await;
    let job = bench.create(new("every 10m"));
    bench.clock.advance(Duration::from_mins(10));
    let gateway = bench.gateway.clone();
    let ticking = hermes_task::spawn_named("tick", &bench.cancel, async move {
        gateway.scheduler().tick_once().await.unwrap()
    });
    bench.until_asked(1).await;
    while !ticking.is_finished() {
        bench.clock.advance(Duration::from_secs(30));
        tokio::task::yield_now().await;
    }
    let text = bench.channel.until_said("ann", "failed").await;
    assert!(text.contains("nothing happened for 600 seconds"), "{text}");
    assert_eq!(bench.jobs().get(&job.id).unwrap().last_status.as_deref(), Some("error"));
}

#[tokio::test]
async fn nothing_begins_while_the_gateway_is_about_to_end() {
    let bench = bench(TestModel::echo()).await;
    bench.create(new("every 10m"));
    bench.gateway.drain();
    assert_eq!(bench.tick_after(600).await, 0);
    assert!(bench.runs().await.is_empty(), "it stays due for the next process");
}

#[tokio::test]
async fn targets_are_found_or_named_and_never_fail_a_job() {
    let env = &[("HERMES_TIMEZONE", "UTC"), ("FAKE_HOME_CHANNEL", "chat-home")];
    let bench = GatewayFixturePlan {
        env,
        ..GatewayFixturePlan::new(TestModel::new(|_, _| ModelStep::Say("hello".into())))
    }
    .start()
    .await;
    let make = |deliver: &str| {
        bench.create(NewJob { deliver: Some(deliver.into()), origin: None, ..new("every 10m") })
    };
    make("fake");
    make("fake:chat-ben, fake:chat-ben,local");
    make("all");
    let lost = make("origin");
    let unknown = make("pigeon:7");
    let off = make("telegram:7");
    let nameless = make("fake:#general");
    assert_eq!(bench.tick_after(600).await, 7);
    bench.until_quiet().await;
    assert_eq!((bench.channel.texts("home").len(), bench.channel.texts("ben").len()), (2, 1));
    for (job, words) in [
        (lost, "not created in a chat"),
        (unknown, "there is no platform 'pigeon'"),
        (off, "telegram is not connected"),
        (nameless, "no channel '#general'"),
    ] {
        let job = bench.jobs().get(&job.id).unwrap();
        assert_eq!(job.last_status.as_deref(), Some("ok"));
        let problem = job.more["last_delivery_error"].as_str().unwrap().to_owned();
        assert!(problem.contains(words), "{problem}");
    }
}

#[tokio::test]
async fn other_results_and_folders_come_into_a_run() {
    let bench = bench(TestModel::new(|_, _| ModelStep::Say("first answer".into()))).await;
    let first = bench.create(new("every 10m"));
    bench.tick_after(600).await;
    let mut more = serde_json::Map::new();
    more.insert("context_from".into(), serde_json::json!([first.id.as_str(), "nobody"]));
    let building = bench.create(NewJob { prompt: "go on".into(), more, ..new("1m") });
    let mut more = serde_json::Map::new();
    more.insert("workdir".into(), "/nonexistent/folder".into());
    let elsewhere = bench.create(NewJob { more, ..new("every 1m") });
    assert_eq!(bench.tick_after(60).await, 2);
    let asked = bench.model.questions().into_iter().find(|asked| asked.ends_with("go on")).unwrap();
    assert!(asked.contains(&format!("## Output of job {}\n\nfirst answer\n\n", first.id)), "{asked}");
    assert!(bench.jobs().get(&JobId::new(building.id.as_str())).is_none());
    let failed = bench.jobs().get(&elsewhere.id).unwrap().last_error.unwrap();
    assert!(failed.contains("/nonexistent/folder"), "{failed}");
}

#[tokio::test]
async fn missing_skills_are_named_first_and_do_not_fail_a_job() {
    let bench = bench(TestModel::new(|_, _| ModelStep::Say("done".into()))).await;
    bench.create(NewJob { skills: vec!["gone".into()], ..new("1m") });
    assert_eq!(bench.tick_after(60).await, 1);
    let asked = bench.model.questions().remove(0);
    assert!(asked.starts_with("[SYSTEM: These skills were not found: gone."), "{asked}");
    assert_eq!(bench.states().await, [JobRunState::Completed]);
}

#[tokio::test]
async fn an_answer_can_go_out_bare() {
    let plan = GatewayFixturePlan {
        env: UTC,
        config: "cron: {wrap_response: false, output_retention: 2}",
        ..GatewayFixturePlan::new(TestModel::new(|_, _| ModelStep::Say("bare".into())))
    };
    let bench = plan.start().await;
    let job = bench.create(new("every 5m"));
    for _ in 0..4 {
        assert_eq!(bench.tick_after(300).await, 1);
    }
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann"), ["bare"; 4]);
    let folder = bench.folder.path().join("cron/output").join(job.id.as_str());
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
}

#[tokio::test]
async fn a_job_spends_no_more_than_it_may() {
    // A model call costs a millionth of a dollar; the first answer calls a tool and would lead to a second call.
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == hermes_types::Role::Tool => ModelStep::Say("done".into()),
        _ => ModelStep::Call("risky", "{}"),
    });
    let plan = GatewayFixturePlan {
        env: UTC,
        config: "budget: {per_job_usd: 0.000001}",
        ..GatewayFixturePlan::new(model)
    };
    let bench = plan.start().await;
    let job = bench.create(new("every 10m"));
    assert_eq!(bench.tick_after(600).await, 1);
    assert_eq!(bench.model.questions().len(), 1, "the second call is not made");
    assert_eq!(bench.tick_after(600).await, 1);
    assert_eq!(bench.model.questions().len(), 1, "nothing is left for another run");
    bench.channel.until_said("ann", "budget.per_job_usd").await;
    assert_eq!(bench.states().await, [JobRunState::Failed, JobRunState::Failed]);
    assert!(bench.jobs().get(&job.id).unwrap().last_error.unwrap().contains("per_job_usd"));
}

#[tokio::test]
async fn a_run_is_no_conversation_of_a_person() {
    let bench = bench(TestModel::new(|_, _| ModelStep::Say("quiet as a mouse".into()))).await;
    bench.create(new("every 10m"));
    assert_eq!(bench.tick_after(600).await, 1);
    bench.channel.until_said("ann", "quiet as a mouse").await;
    assert_eq!(*bench.events.0.lock().unwrap(), Vec::<String>::new(), "hooks hear nothing of it");
    assert_eq!(bench.channel.typing(), 0, "nobody sees it type");
    let cron = SessionFilter::of_source("cron");
    assert_eq!(bench.store.list_sessions(cron, 10).await.unwrap().len(), 1, "but it can be found");
}

#[tokio::test]
async fn dangerous_commands_in_jobs_run_only_where_that_is_configured() {
    for (config, answer) in [("", "Unavailable"), ("approvals: {cron_mode: approve}\n", "Approval(Once)")] {
        let model = TestModel::new(|_, request| match request.messages.last() {
            Some(message) if message.role == hermes_types::Role::Tool => {
                ModelStep::Say(message.content.text().into_owned())
            }
            _ => ModelStep::Call("risky", "{}"),
        });
        let bench = GatewayFixturePlan { env: UTC, config, ..GatewayFixturePlan::new(model) }.start().await;
        bench.create(new("every 10m"));
        assert_eq!(bench.tick_after(600).await, 1);
        bench.channel.until_said("ann", answer).await;
    }
}
