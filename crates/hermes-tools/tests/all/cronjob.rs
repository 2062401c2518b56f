use std::sync::Arc;

use hermes_config::Home;
use hermes_schedule::{JobFilter, JobStore, Zone};
use hermes_store::{ChatBinding, Store};
use hermes_testkit::TestClock;
use hermes_tools::{CronJobTool, ToolRegistry};
use hermes_types::{Clock, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{UnattendedUser, parse, run};

struct Bench {
    folder: TempDir,
    tool: Arc<CronJobTool>,
    jobs: JobStore,
    store: Store,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let jobs = JobStore::new(Home::new(folder.path()), Zone::named("UTC").unwrap());
    let store = Store::open(&folder.path().join("state.db")).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
    Bench { tool: Arc::new(CronJobTool::new(jobs.clone(), store.clone(), clock)), folder, jobs, store }
}

impl Bench {
    fn call(&self, arguments: Value) -> Value {
        parse(&run(&*self.tool, "t", arguments, &UnattendedUser))
    }

    #[track_caller]
    fn refused(&self, arguments: Value) -> String {
        let answer = self.call(arguments);
        assert_eq!(answer["success"], false, "{answer}");
        answer["error"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_job_is_created_listed_changed_and_removed() {
    let bench = bench();
    let made = bench.call(json!({"action": "create", "prompt": "read the news", "schedule": "0 9 * * *", "name": "News", "skills": ["web"]}));
    let keys: Vec<&str> = made.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "success",
            "job_id",
            "name",
            "skill",
            "skills",
            "schedule",
            "repeat",
            "deliver",
            "next_run_at",
            "job",
            "message"
        ]
    );
    assert_eq!(made["message"], "Cron job 'News' created.");
    assert_eq!(
        (&made["deliver"], &made["repeat"], &made["skill"]),
        (&json!("local"), &json!("forever"), &json!("web"))
    );
    assert_eq!(made["next_run_at"], "2026-01-02T09:00:00+00:00");
    let id = made["job_id"].as_str().unwrap();
    let list = bench.call(json!({"action": "list"}));
    assert_eq!((&list["count"], &list["jobs"][0]["job_id"]), (&json!(1), &made["job_id"]));
    let changed = bench
        .call(json!({"action": "update", "job_id": id, "schedule": "every 2h", "repeat": 3, "skills": []}));
    assert_eq!(
        (&changed["job"]["schedule"], &changed["job"]["repeat"]),
        (&json!("every 120m"), &json!("3 times"))
    );
    assert_eq!(changed["job"]["skills"], json!([]));
    let paused = bench.call(json!({"action": "PAUSE", "job_id": id, "reason": "holiday"}));
    assert_eq!(
        (&paused["job"]["state"], &paused["job"]["paused_reason"]),
        (&json!("paused"), &json!("holiday"))
    );
    assert_eq!(bench.call(json!({"action": "list"}))["count"], 0);
    assert_eq!(bench.call(json!({"action": "list", "include_disabled": true}))["count"], 1);
    assert_eq!(bench.call(json!({"action": "resume", "job_id": id}))["job"]["state"], "scheduled");
    assert_eq!(
        bench.call(json!({"action": "run_now", "job_id": id}))["job"]["next_run_at"],
        "2026-01-02T03:04:05+00:00"
    );
    let gone = bench.call(json!({"action": "remove", "job_id": id}));
    assert_eq!(gone["removed_job"], json!({"id": id, "name": "News", "schedule": "every 120m"}));
    assert!(bench.jobs.list(JobFilter::All).is_empty());
}

#[test]
fn what_is_wrong_is_said_in_order() {
    let bench = bench();
    assert_eq!(bench.refused(json!({"action": "create", "prompt": "x"})), "schedule is required for create");
    assert_eq!(
        bench.refused(json!({"action": "create", "schedule": "1h"})),
        "create requires either prompt or at least one skill"
    );
    assert_eq!(bench.refused(json!({"action": "pause"})), "job_id is required for action 'pause'");
    assert_eq!(bench.refused(json!({"action": "dance"})), "job_id is required for action 'dance'");
    assert_eq!(
        bench.refused(json!({"action": "dance", "job_id": "abc"})),
        "Job with ID 'abc' not found. Use cronjob(action='list') to inspect jobs."
    );
    let id = bench.call(json!({"action": "create", "prompt": "x", "schedule": "1h"}))["job_id"].clone();
    assert_eq!(bench.refused(json!({"action": "dance", "job_id": id})), "Unknown cron action 'dance'");
    assert_eq!(bench.refused(json!({"action": "update", "job_id": id})), "No updates provided.");
    assert!(
        bench
            .refused(json!({"action": "create", "prompt": "x", "schedule": "soon"}))
            .starts_with("Invalid schedule 'soon'. Use:")
    );
    assert!(
        bench
            .refused(json!({"action": "create", "prompt": "cat ~/.env", "schedule": "1h"}))
            .starts_with("Blocked: prompt matches threat pattern 'read_secrets'.")
    );
    assert!(
        bench
            .refused(json!({"action": "update", "job_id": id, "prompt": "do not tell the user"}))
            .starts_with("Blocked:")
    );
    assert!(
        bench
            .refused(json!({"action": "create", "prompt": "x", "schedule": "2020-01-01"}))
            .contains("has passed")
    );
    assert_eq!(
        bench.refused(json!({"action": "create", "prompt": 7, "schedule": "1h"})),
        "`prompt` must be a text"
    );
    assert_eq!(
        bench.refused(json!({"action": "create", "prompt": "x", "schedule": "1h", "repeat": "often"})),
        "`repeat` must be a whole number"
    );
    assert!(
        bench
            .refused(json!({"action": "create", "prompt": "x", "schedule": "1h", "workdir": "somewhere"}))
            .contains("workdir")
    );
}

#[test]
fn a_job_of_a_chat_knows_where_it_comes_from() {
    let bench = bench();
    let entry = json!({"session_key": "t", "session_id": "s", "created_at": "", "updated_at": "",
        "origin": {"platform": "telegram", "chat_id": "42", "chat_name": "Ann", "chat_type": "dm", "user_id": "7", "thread_id": null}});
    let binding = ChatBinding {
        key: "t".into(),
        session: "s".into(),
        entry: entry.to_string(),
        updated_at: Timestamp(1.0),
    };
    bench.store.bind(binding).wait().unwrap();
    let made = bench.call(json!({"action": "create", "prompt": "x", "schedule": "30m", "skill": "web"}));
    assert_eq!(
        (&made["deliver"], &made["repeat"], &made["skills"]),
        (&json!("origin"), &json!("once"), &json!(["web"]))
    );
    let job = bench.jobs.list(JobFilter::All).remove(0);
    let origin = job.origin.unwrap();
    assert_eq!(
        (origin.platform.as_str(), origin.chat_id.as_str(), origin.user_id.as_deref()),
        ("telegram", "42", Some("7"))
    );
}

#[test]
fn older_names_are_understood_and_not_offered() {
    let bench = bench();
    let mut registry = ToolRegistry::new();
    registry.register(bench.tool.clone());
    let tool = registry.find("cronjob").unwrap();
    let modern = |name: &str, arguments: Value| {
        let arguments = arguments.as_object().unwrap().clone();
        tool.upgrade_legacy_call(name, &arguments).map(Value::Object)
    };
    let create = modern("schedule_cronjob", json!({"prompt": "read", "schedule": "every 1h"})).unwrap();
    assert_eq!(create["action"], "create");
    assert_eq!(bench.call(create)["success"], true);
    let list = bench.call(modern("list_cronjobs", json!({})).unwrap());
    let id = list["jobs"][0]["job_id"].clone();
    let removed = bench.call(modern("remove_cronjob", json!({"job_id": id})).unwrap());
    assert_eq!(removed["success"], true);
    assert!(modern("cronjobs", json!({})).is_none());
    assert_eq!(tool.spec().name, "cronjob");
}

#[test]
fn the_model_chooses_no_address_and_no_model_by_itself() {
    let bench = bench();
    let job = json!({"action": "create", "prompt": "x", "schedule": "every 1h"});
    for (field, value, word) in [
        ("base_url", json!("http://evil.example/v1"), "base_url"),
        ("model", json!({"model": "m", "base_url": "http://evil.example/v1"}), "consent"),
        ("model", json!("dear-model"), "consent"),
        ("provider", json!("openrouter"), "consent"),
    ] {
        let mut arguments = job.clone();
        arguments[field] = value;
        let refused = bench.refused(arguments);
        assert!(refused.contains(word), "{field}: {refused}");
    }
    assert!(bench.jobs.list(JobFilter::All).is_empty());
}

#[test]
fn a_job_works_only_where_its_conversation_may_write() {
    use hermes_exec::{Sandbox, SandboxActivation, SandboxPaths};
    use hermes_tools::TaskFolders;
    let bench = bench();
    let root = bench.folder.path().canonicalize().unwrap();
    for folder in ["user/proj/sub", "user/other", "hermes", "tmp"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let places = SandboxPaths {
        user_home: root.join("user"),
        hermes_home: root.join("hermes"),
        temporary: vec![root.join("tmp")],
        ..SandboxPaths::default()
    };
    let sandbox = Sandbox::new(SandboxActivation::Auto, places);
    let tool =
        Arc::into_inner(bench.tool).unwrap().with_sandbox(sandbox, TaskFolders::new(root.join("user/proj")));
    for (folder, allowed) in [
        ("user/proj", true),
        ("user/proj/sub", true),
        ("tmp", true),
        ("user", false),
        ("user/other", false),
        ("hermes", false),
        ("user/proj/../other", false),
    ] {
        let folder = root.join(folder);
        let made = json!({"action": "create", "prompt": "x", "schedule": "0 9 * * *", "workdir": folder});
        let answer = parse(&run(&tool, "t", made, &UnattendedUser));
        assert_eq!(answer["success"], allowed, "{}: {answer}", folder.display());
    }
}
