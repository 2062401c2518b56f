//! Reading files of other programs, broken files and files in use.

use std::os::unix::fs::PermissionsExt as _;

use hermes_schedule::{JobChange, JobFilter, parse_instant};
use serde_json::Value;

use super::support::{JobsFixture, new, now};

#[test]
fn a_job_of_another_release_survives_a_rewrite() {
    let bench = JobsFixture::new();
    bench.write(
        r#"{"version": 3, "jobs": [
            {"id": "a1b2c3d4e5f6", "prompt": "x", "skill": "news", "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "kept"},
             "run_claim": {"at": "t", "by": "me"}, "repeat": {"times": null, "completed": 4, "odd": 1}, "script": null},
            {"id": 17, "strange": true},
            "not even an object"
        ]}"#,
    );
    let created = bench.create("every 30m");
    let whole: Value = serde_json::from_str(&bench.text()).unwrap();
    assert_eq!(whole["version"], 3);
    let old = &whole["jobs"][0];
    assert_eq!(old["run_claim"]["by"], "me");
    assert_eq!(old["schedule"]["tz"], "kept");
    assert_eq!(old["repeat"]["odd"], 1);
    assert!(old.get("script").is_some_and(Value::is_null));
    assert_eq!(whole["jobs"][1]["strange"], true);
    assert_eq!(whole["jobs"][2], "not even an object");
    assert_eq!(whole["jobs"][3]["id"], created.id.as_str());
    let listed = bench.jobs.list(JobFilter::Enabled);
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[0].skills(), listed[0].state()), (vec!["news".to_owned()], "scheduled"));
    assert_eq!(listed[0].deliver(), "local");
}

#[test]
fn fields_stand_in_their_order_and_the_file_is_private() {
    let bench = JobsFixture::new();
    bench.create("0 9 * * *");
    let text = bench.text();
    let order = [
        "\"id\"",
        "\"name\"",
        "\"prompt\"",
        "\"skills\"",
        "\"skill\"",
        "\"model\"",
        "\"provider\"",
        "\"base_url\"",
        "\"schedule\"",
        "\"schedule_display\"",
        "\"repeat\"",
        "\"enabled\"",
        "\"state\"",
        "\"paused_at\"",
        "\"paused_reason\"",
        "\"created_at\"",
        "\"next_run_at\"",
        "\"last_run_at\"",
        "\"last_status\"",
        "\"last_error\"",
        "\"deliver\"",
        "\"origin\"",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|key| text.find(&format!("\n      {key}")).unwrap_or_else(|| panic!("{key}: {text}")))
        .collect();
    assert!(places.is_sorted(), "{text}");
    assert!(text.starts_with("{\n  \"jobs\": [\n    {\n"), "{text}");
    assert!(text.contains("\n  \"updated_at\": \"2026-03-04T10:07:30+00:00\""), "{text}");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.file()), 0o600);
    assert_eq!(mode(&bench.folder.path().join("cron")), 0o700);
}

#[test]
fn raw_control_characters_are_read_and_put_in_order() {
    let bench = JobsFixture::new();
    bench.write("{\"jobs\": [{\"id\": \"a\", \"prompt\": \"line one\nline\ttwo \\\" end\", \"schedule\": {\"kind\": \"interval\", \"minutes\": 5}}]}");
    assert_eq!(bench.jobs.list(JobFilter::All)[0].prompt(), "line one\nline\ttwo \" end");
    let whole: Value = serde_json::from_str(&bench.text()).expect("written correctly");
    assert_eq!(whole["jobs"][0]["prompt"], "line one\nline\ttwo \" end");
}

#[test]
fn what_cannot_be_read_is_left_as_it_is() {
    let bench = JobsFixture::new();
    for broken in ["{\"jobs\": [", "[1, 2]", "{\"jobs\": 7}", "\u{1}\u{2}"] {
        bench.write(broken);
        assert!(bench.jobs.list(JobFilter::All).is_empty());
        let refused = bench.jobs.create(new("every 30m"), now()).unwrap_err().to_string();
        assert!(refused.contains("jobs.json") && refused.contains("Nothing was changed"), "{refused}");
        assert!(bench.jobs.remove(&hermes_schedule::JobId::new("nobody"), now()).is_err());
        assert_eq!(bench.text(), broken);
    }
}

#[test]
fn a_file_that_may_not_be_read_is_not_written_over() {
    let bench = JobsFixture::new();
    std::fs::create_dir_all(bench.file()).unwrap();
    assert!(bench.jobs.list(JobFilter::All).is_empty());
    assert!(bench.jobs.create(new("every 5m"), now()).is_err());
    assert!(bench.file().is_dir());
}

#[test]
fn writers_do_not_lose_each_others_jobs() {
    let bench = JobsFixture::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let job = bench.create("every 30m");
                    let change = JobChange { name: Some("mine".into()), ..JobChange::default() };
                    bench.jobs.update(&job.id, change, now()).unwrap();
                }
            });
        }
    });
    let jobs = bench.jobs.list(JobFilter::All);
    assert_eq!(jobs.len(), 40);
    assert!(jobs.iter().all(|job| job.name() == "mine"));
    let left = std::fs::read_dir(bench.folder.path().join("cron")).unwrap().flatten();
    assert!(left.map(|entry| entry.file_name().into_string().unwrap()).all(|name| !name.contains("tmp")));
}

#[test]
fn a_time_without_an_offset_is_the_machines() {
    let here = parse_instant("2026-03-04T10:00:00").unwrap();
    assert_eq!(hermes_schedule::Zone::Machine.minute(here), "2026-03-04 10:00");
}
