//! Tests of jobs with scripts, with their own toolsets, and of many jobs at once.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::Home;
use hermes_gateway::{HelperPrograms, JobScriptOutcome, JobScriptRequest};
use hermes_schedule::{Job, JobChange, JobOrigin, JobStore, NewJob, Zone};
use hermes_store::JobRunState;
use hermes_types::{BoxFuture, Clock as _};
use serde_json::{Map, Value, json};

use super::support::{GatewayFixture, GatewayFixturePlan, ModelStep, TestModel};

const UTC: &[(&str, &str)] = &[("HERMES_TIMEZONE", "UTC"), ("FAKE_HOME_CHANNEL", "home")];

/// Programs among which every script has the result the test sets.
struct ScriptedPrograms {
    end: Result<JobScriptOutcome, String>,
    ran: Mutex<Vec<String>>,
}

impl ScriptedPrograms {
    fn new(output: &str, complaints: &str, code: Option<i32>) -> Arc<Self> {
        let end = JobScriptOutcome { stdout: output.into(), stderr: complaints.into(), code };
        Arc::new(Self { end: Ok(end), ran: Mutex::default() })
    }
}

impl HelperPrograms for ScriptedPrograms {
    fn shell<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::ready(Err("no shell".to_owned())))
    }

    fn program<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::ready(Err("no program".to_owned())))
    }

    fn script<'a>(&'a self, order: JobScriptRequest<'a>) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        let name = order.file.file_name().unwrap().to_string_lossy().into_owned();
        let folder = order.directory.file_name().unwrap().to_string_lossy().into_owned();
        let limit = order.limit.as_secs();
        self.ran.lock().unwrap().push(format!("{:?} {name} in {folder}, {limit} s", order.language));
        Box::pin(std::future::ready(self.end.clone()))
    }

    fn event_script<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        Box::pin(std::future::ready(Err("no event".to_owned())))
    }
}

async fn bench(machine: Arc<ScriptedPrograms>, config: &'static str) -> GatewayFixture {
    let model = TestModel::new(|_, _| ModelStep::Say("the answer".into()));
    let bench = GatewayFixturePlan { env: UTC, programs: machine, config, ..GatewayFixturePlan::new(model) }
        .start()
        .await;
    let scripts = bench.folder.path().join("scripts");
    std::fs::create_dir(&scripts).unwrap();
    std::fs::write(scripts.join("watch.sh"), "echo hello\n").unwrap();
    std::fs::write(scripts.join("count.py"), "print(1)\n").unwrap();
    bench
}

fn jobs(bench: &GatewayFixture) -> JobStore {
    JobStore::new(Home::new(bench.folder.path()), Zone::named("UTC").unwrap())
}

fn fields(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn new(name: &str, more: Value) -> NewJob {
    NewJob {
        prompt: "read the news".into(),
        name: Some(name.into()),
        schedule: "every 10m".into(),
        origin: Some(JobOrigin {
            platform: "fake".into(),
            chat_id: "chat-ann".into(),
            ..JobOrigin::default()
        }),
        more: fields(more),
        ..NewJob::default()
    }
}

fn create(bench: &GatewayFixture, more: Value) -> Job {
    jobs(bench).create(new("News", more), bench.clock.now()).unwrap()
}

async fn tick(bench: &GatewayFixture) -> usize {
    bench.clock.advance(Duration::from_mins(10));
    bench.gateway.scheduler().tick_once().await.unwrap()
}

async fn states(bench: &GatewayFixture) -> Vec<JobRunState> {
    bench.store.job_runs(None, 100).await.unwrap().into_iter().map(|run| run.state).collect()
}

#[tokio::test]
async fn what_a_script_prints_goes_before_the_prompt() {
    let machine = ScriptedPrograms::new("3 new mails\n", "a warning", Some(0));
    let bench = bench(machine.clone(), "cron: {script_timeout_seconds: 7}\n").await;
    create(&bench, json!({"script": "watch.sh"}));
    assert_eq!(tick(&bench).await, 1);
    let asked = bench.model.questions();
    let (output, prompt) =
        (asked[0].find("## Script Output\n\n```\n3 new mails\n```"), asked[0].find("read the news"));
    assert!(output.unwrap() < prompt.unwrap(), "{}", asked[0]);
    assert_eq!(*machine.ran.lock().unwrap(), ["Bash watch.sh in scripts, 7 s"]);
    bench.channel.until_said("ann", "the answer").await;
}

#[tokio::test]
async fn a_script_can_let_the_agent_rest() {
    for output in ["", "looked\n{\"wakeAgent\": false}\n"] {
        let bench = bench(ScriptedPrograms::new(output, "", Some(0)), "").await;
        create(&bench, json!({"script": "count.py"}));
        assert_eq!(tick(&bench).await, 1);
        bench.until_quiet().await;
        assert!(bench.model.questions().is_empty() && bench.channel.posted().is_empty());
        assert_eq!(states(&bench).await, [JobRunState::Completed]);
    }
}

#[tokio::test]
async fn a_script_that_fails_is_told_to_the_model() {
    let bench =
        bench(ScriptedPrograms::new("", "no such host, token sk-proj-abcdefghijklmnopqrstuvwx", Some(3)), "")
            .await;
    create(&bench, json!({"script": "watch.sh"}));
    tick(&bench).await;
    let asked = bench.model.questions().remove(0);
    assert!(asked.contains("## Script Error") && asked.contains("ended with 3"), "{asked}");
    assert!(asked.contains("no such host") && !asked.contains("abcdefghijklmnop"), "{asked}");
}

#[tokio::test]
async fn a_script_alone_is_delivered_as_it_is() {
    let machine = ScriptedPrograms::new("disk at 91 %\n[SILENT] is no order here\n", "", Some(0));
    let bench = bench(machine.clone(), "").await;
    let folder = bench.folder.path().join("project").to_string_lossy().into_owned();
    let more = json!({"script": "count.py", "no_agent": true, "workdir": folder});
    jobs(&bench).create(NewJob { prompt: String::new(), ..new("Disk", more) }, bench.clock.now()).unwrap();
    tick(&bench).await;
    bench.channel.until_said("ann", "disk at 91 %").await;
    let texts: Vec<String> = bench.channel.posted().iter().map(|posted| posted.text.clone()).collect();
    assert_eq!(texts, ["disk at 91 %\n[SILENT] is no order here"]);
    assert_eq!(*machine.ran.lock().unwrap(), ["Python count.py in project, 3600 s"]);
    assert!(bench.model.questions().is_empty(), "nothing is spent");
}

#[tokio::test]
async fn a_script_alone_is_silent_or_an_alarm() {
    let quiet = bench(ScriptedPrograms::new(" \n", "", Some(0)), "").await;
    create(&quiet, json!({"script": "watch.sh", "no_agent": true}));
    tick(&quiet).await;
    quiet.until_quiet().await;
    assert!(quiet.channel.posted().is_empty());
    assert_eq!(states(&quiet).await, [JobRunState::Completed]);
    for (code, words) in [(Some(2), "ended with 2"), (None, "took too long")] {
        let bench = bench(ScriptedPrograms::new("half", "broken pipe", code), "").await;
        let job = create(&bench, json!({"script": "watch.sh", "no_agent": true}));
        tick(&bench).await;
        bench.channel.until_said("ann", words).await;
        assert_eq!(states(&bench).await, [JobRunState::Failed]);
        assert_eq!(jobs(&bench).get(&job.id).unwrap().last_status.as_deref(), Some("error"));
    }
}

#[tokio::test]
async fn a_script_lies_in_its_folder_and_does_not_stop_the_gateway() {
    let bench = bench(ScriptedPrograms::new("x", "", Some(0)), "").await;
    let scripts = bench.folder.path().join("scripts");
    std::fs::write(bench.folder.path().join("outside.sh"), "echo\n").unwrap();
    std::os::unix::fs::symlink(bench.folder.path().join("outside.sh"), scripts.join("link.sh")).unwrap();
    std::fs::write(scripts.join("stop.sh"), "hermes gateway restart\n").unwrap();
    let refused =
        |more: Value| jobs(&bench).create(new("News", more), bench.clock.now()).unwrap_err().to_string();
    for (script, words) in [
        ("../outside.sh", "somewhere else"),
        ("link.sh", "somewhere else"),
        ("gone.sh", "not there"),
        ("stop.sh", "gateway_lifecycle"),
        (".", "not a file"),
    ] {
        let said = refused(json!({"script": script}));
        assert!(said.contains(words) && said.contains("script"), "{script}: {said}");
    }
    assert!(refused(json!({"no_agent": true})).contains("`no_agent` needs a `script`"));
    assert!(refused(json!({"no_agent": "yes", "script": "watch.sh"})).contains("true or false"));
    // The full path names the same script; a script that is missing when it is due is reported.
    let whole = scripts.join("watch.sh").to_string_lossy().into_owned();
    let job = create(&bench, json!({"script": whole, "no_agent": true}));
    let take_away = JobChange { more: fields(json!({"script": null})), ..JobChange::default() };
    let said = jobs(&bench).update(&job.id, take_away, bench.clock.now()).unwrap_err().to_string();
    assert!(said.contains("needs a `script`"), "{said}");
    std::fs::remove_file(Path::new(&whole)).unwrap();
    tick(&bench).await;
    bench.channel.until_said("ann", "is not there").await;
}

#[tokio::test]
async fn a_job_has_the_toolsets_it_names() {
    let bench = bench(ScriptedPrograms::new("", "", Some(0)), "").await;
    create(&bench, json!({"enabled_toolsets": ["web", "terminal"]}));
    tick(&bench).await;
    let wishes = bench.wishes.lock().unwrap().join("\n");
    assert!(wishes.contains(r#"toolsets: Some(["web", "terminal"])"#), "{wishes}");
    assert!(wishes.contains("tool_user: Some(Job)"), "{wishes}");
}

#[tokio::test]
async fn no_more_jobs_run_at_once_than_may() {
    let model = TestModel::new(|_, _| ModelStep::Gate("done".into()));
    let bench = GatewayFixturePlan {
        env: UTC,
        config: "cron: {max_parallel_jobs: 2}\n",
        ..GatewayFixturePlan::new(model)
    }
    .start()
    .await;
    for at in 0..5 {
        jobs(&bench).create(new(&format!("job {at}"), json!({})), bench.clock.now()).unwrap();
    }
    bench.clock.advance(Duration::from_mins(10));
    let gateway = bench.gateway.clone();
    let ticking =
        hermes_task::spawn_named(
            "a tick",
            &bench.cancel,
            async move { gateway.scheduler().tick_once().await },
        );
    for done in 0..5 {
        bench.until_asked((done + 2).min(5)).await;
        let running = states(&bench).await.iter().filter(|state| **state == JobRunState::Running).count();
        assert!(running <= 2, "{running} at once");
        bench.model.gate.add_permits(1);
        while states(&bench).await.iter().filter(|state| **state == JobRunState::Completed).count() <= done {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(ticking.await.unwrap().unwrap(), 5);
}
