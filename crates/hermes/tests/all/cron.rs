//! `hermes cron`, `/cron`, and the files they write.

use hermes_testkit::TempHome;
use insta::assert_snapshot;

use super::support::{hermes, run_in};

const JOBS: &str = r#"{
  "jobs": [
    {"id": "a1b2c3d4e5f6", "name": "News", "prompt": "read the news", "skills": ["web", "mail"], "skill": "web",
     "schedule": {"kind": "cron", "expr": "0 9 * * *", "display": "0 9 * * *"}, "schedule_display": "0 9 * * *",
     "repeat": {"times": 5, "completed": 2}, "enabled": true, "state": "scheduled", "next_run_at": "2999-01-01T09:00:00+00:00", "deliver": "telegram:1",
     "last_error": "no key\nwas set"},
    {"id": "b1b2c3d4e5f6", "name": "Old", "prompt": "x", "schedule": {"kind": "once", "run_at": "2020-01-01T00:00:00+00:00", "display": "once at 2020-01-01 00:00"},
     "enabled": false, "state": "completed"},
    {"id": "c1b2c3d4e5f6", "name": "Resting", "prompt": "x", "schedule": {"kind": "interval", "minutes": 30, "display": "every 30m"},
     "enabled": false, "state": "paused", "next_run_at": "2998-12-31T23:00:00-05:00"}
  ]
}"#;

fn home() -> TempHome {
    TempHome::builder().file("cron/jobs.json", JOBS).build().unwrap()
}

fn jobs(home: &TempHome) -> serde_json::Value {
    serde_json::from_str(&home.read("cron/jobs.json")).unwrap()
}

/// Returns the id in `Created job: …`.
fn created(seen: &str) -> String {
    let line = seen.lines().find_map(|line| line.strip_prefix("Created job: "));
    line.unwrap_or_else(|| panic!("{seen}")).to_owned()
}

#[test]
fn the_list_shows_what_there_is() {
    let home = home();
    assert_snapshot!(hermes(&home, &["cron", "list", "--all"]), @r"
    exit 0
    --- stdout
    ┌──────────────────────────────────────────────────────────────┐
    │                        Scheduled Jobs                        │
    └──────────────────────────────────────────────────────────────┘

      a1b2c3d4e5f6 [active]
        Name:     News
        Schedule: 0 9 * * *
        Repeat:   2/5
        Next run: 2999-01-01 09:00
        Deliver:  telegram:1
        Skills:   web, mail
        Error:    no key was set

      b1b2c3d4e5f6 [completed]
        Name:     Old
        Schedule: once at 2020-01-01 00:00
        Repeat:   ∞
        Next run: never
        Deliver:  local

      c1b2c3d4e5f6 [paused]
        Name:     Resting
        Schedule: every 30m
        Repeat:   ∞
        Next run: 2999-01-01 04:00
        Deliver:  local

    ⚠ The gateway is not running, so nothing will run by itself. `hermes gateway run` starts it.
    ");
    assert_snapshot!(hermes(&home, &["cron"]).lines().filter(|line| line.contains('[')).collect::<Vec<_>>().join("\n"), @"  a1b2c3d4e5f6 [active]");
    let empty = TempHome::new().unwrap();
    assert_snapshot!(hermes(&empty, &["cron", "list"]), @r#"
    exit 0
    --- stdout
    No scheduled jobs.
    Create one with `hermes cron create "every 2h" "what is to be done"`, or ask for it in a chat.
    "#);
}

#[test]
fn a_list_that_cannot_be_read_is_said_and_kept() {
    let home = home();
    let file = home.join("cron/jobs.json");
    std::fs::write(&file, "{\"jobs\": [").unwrap();
    let seen = hermes(&home, &["cron", "list"]);
    assert!(seen.starts_with("exit 1\n") && seen.contains("cron/jobs.json is not valid JSON"), "{seen}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"jobs\": [");
}

#[test]
fn the_status_names_the_earliest_run() {
    assert_snapshot!(hermes(&home(), &["cron", "status"]), @r"
    exit 0
    --- stdout
    ✗ Gateway is not running — cron jobs will NOT fire
      hermes gateway run       run it in the foreground
      hermes gateway install   install it as a service
      hermes gateway start     start the service

    1 active job(s)
      Next run: 2999-01-01 09:00
    ");
    assert_snapshot!(hermes(&TempHome::new().unwrap(), &["cron", "status"]).lines().last().unwrap_or_default(), @"No active jobs");
}

#[test]
fn a_job_is_made_and_changed_by_hand() {
    let home = TempHome::new().unwrap();
    let seen = hermes(
        &home,
        &[
            "cron", "add", "every 2h", "look", "at", "the mail", "--name", "Mail", "--skill", "a", "--skill",
            "b", "--repeat", "3",
        ],
    );
    let id = created(&seen);
    assert!(seen.starts_with("exit 0") && id.len() == 12, "{seen}");
    let job = jobs(&home)["jobs"][0].clone();
    assert_eq!(
        (job["prompt"].as_str(), job["repeat"]["times"].as_u64()),
        (Some("look at the mail"), Some(3))
    );
    assert_eq!(job["deliver"], "local");
    let seen = hermes(
        &home,
        &[
            "cron",
            "edit",
            id.get(..5).unwrap(),
            "--schedule",
            "0 9 * * 1-5",
            "--add-skill",
            "c",
            "--remove-skill",
            "a",
        ],
    );
    assert!(seen.contains(&format!("Updated job: {id}")), "{seen}");
    assert_eq!(jobs(&home)["jobs"][0]["skills"], serde_json::json!(["b", "c"]));
    hermes(&home, &["cron", "edit", "mail", "--skill", "z", "--add-skill", "y"]);
    assert_eq!(jobs(&home)["jobs"][0]["skills"], serde_json::json!(["z"]));
    hermes(&home, &["cron", "edit", "Mail", "--clear-skills", "--skill", "z"]);
    assert_eq!(jobs(&home)["jobs"][0]["skills"], serde_json::json!([]));
    for (command, words) in [("pause", "Paused"), ("resume", "Resumed"), ("run", "Triggered")] {
        let seen = hermes(&home, &["cron", command, &id]);
        assert!(seen.contains(&format!("{words} job: Mail ({id})")), "{seen}");
        assert_eq!(seen.contains("It will run on the next scheduler tick."), command == "run");
    }
    let seen = hermes(&home, &["cron", "rm", &id]);
    assert!(seen.contains(&format!("Removed job: Mail ({id})")), "{seen}");
    assert_eq!(jobs(&home)["jobs"], serde_json::json!([]));
}

#[test]
fn mistakes_are_named() {
    let home = home();
    assert_snapshot!(hermes(&home, &["cron", "create", "soon", "x"]), @r"
    exit 1
    --- stderr
    Failed to create job: Invalid schedule 'soon'. Use:
      - Duration: '30m', '2h', '1d' (runs once)
      - Interval: 'every 30m', 'every 2h' (repeats)
      - Cron: '0 9 * * *' (minute hour day month weekday)
      - Timestamp: '2026-02-03T14:00' (runs once)
    ");
    assert_snapshot!(hermes(&home, &["cron", "pause", "nobody"]), @r"
    exit 0
    --- stderr
    Job not found: nobody
    ");
    assert_snapshot!(hermes(&home, &["cron", "resume", "Old"]), @r"
    exit 1
    --- stderr
    Failed to resume job: its scheduled time has passed, so it would never run. Set a new schedule
    ");
    assert_snapshot!(hermes(&home, &["cron", "edit", "News"]), @r"
    exit 1
    --- stderr
    Failed to update job: No updates provided.
    ");
    assert_snapshot!(hermes(&home, &["cron", "create", "1h", "cat .env"]), @r"
    exit 1
    --- stderr
    Failed to create job: Blocked: prompt matches threat pattern 'read_secrets'. Prompts of scheduled jobs must not contain injection or exfiltration payloads.
    ");
    assert_snapshot!(hermes(&home, &["cron", "create", "1h", "x", "--workdir", "somewhere"]), @r"
    exit 1
    --- stderr
    Failed to create job: --workdir must be the whole path of a folder that exists, not 'somewhere'
    ");
    let broken = TempHome::builder().file("cron/jobs.json", "{oops").build().unwrap();
    let seen = hermes(&broken, &["cron", "create", "1h", "x"]);
    assert!(seen.starts_with("exit 1") && seen.contains("Nothing was changed"), "{seen}");
    assert_eq!(broken.read("cron/jobs.json"), "{oops");
}

#[test]
fn a_tick_runs_what_is_due_and_its_history_is_kept() {
    let home = TempHome::new().unwrap();
    assert_snapshot!(hermes(&home, &["cron", "runs"]), @r"
    exit 0
    --- stdout
    No runs yet.
    ");
    let id = created(&hermes(&home, &["cron", "create", "every 1h", "say hello", "--name", "Hello"]));
    assert_snapshot!(hermes(&home, &["cron", "tick"]), @"exit 0");
    hermes(&home, &["cron", "run", &id]);
    let folder = tempfile::tempdir().unwrap();
    assert_snapshot!(run_in(folder.path(), home.path(), &["cron", "tick"]), @r"
    exit 0
    --- stdout
    1 job(s) run.
    ");
    let job = jobs(&home)["jobs"][0].clone();
    assert_eq!(
        (job["last_status"].as_str(), job["repeat"]["completed"].as_u64()),
        (Some("ok"), Some(1)),
        "{job}"
    );
    let output =
        std::fs::read_dir(home.path().join("cron/output").join(&id)).unwrap().next().unwrap().unwrap();
    assert!(std::fs::read_to_string(output.path()).unwrap().starts_with("# Cron Job: Hello\n"));
    let seen = hermes(&home, &["cron", "history", "Hello"]);
    assert!(seen.contains("completed") && seen.contains(&id), "{seen}");
    let seen = hermes(&home, &["sessions", "list", "--source", "cron"]);
    assert!(seen.contains(&format!("cron_{id}_")), "{seen}");
}

/// Runs a job that consists only of this script, at once, and returns its newest document.
fn run_script(name: &str, text: &str) -> String {
    let home = TempHome::builder()
        .file(format!("scripts/{name}"), text)
        .env_file("OPENAI_API_KEY=sk-secret\n")
        .build();
    let home = home.unwrap();
    let made =
        hermes(&home, &["cron", "create", "every 1h", "--script", name, "--no-agent", "--name", "Disk"]);
    let id = created(&made);
    hermes(&home, &["cron", "run", &id]);
    assert_eq!(hermes(&home, &["cron", "tick"]), "exit 0\n--- stdout\n1 job(s) run.\n");
    let folder = home.join(format!("cron/output/{id}"));
    let document = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    std::fs::read_to_string(document).unwrap()
}

#[test]
fn a_script_is_run_where_it_lies_without_secrets() {
    let script = "echo in $(basename \"$PWD\"); echo \"key: ${OPENAI_API_KEY:-none}\"; cat \"$0\" > copy.txt && echo copied\n";
    let document = run_script("disk.sh", script);
    assert!(document.contains("## Response\n\nin scripts\nkey: none\ncopied"), "{document}");
    let python = run_script("disk.py", "import os\nprint('from python', os.path.basename(os.getcwd()))\n");
    assert!(python.contains("from python scripts"), "{python}");
    let failed = run_script("bad.sh", "echo half; echo broken >&2; exit 4\n");
    assert!(failed.contains("(FAILED)") && failed.contains("ended with 4\nbroken"), "{failed}");
}

/// Covers a job that runs every minute on a machine that slept for a night.
#[test]
fn runs_missed_in_a_row_take_one_line() {
    let home = TempHome::new().unwrap();
    let store = hermes_store::Store::open(&home.path().join("state.db")).unwrap();
    let at = |minute: u32| hermes_types::Timestamp(1_700_000_000.0 + 60.0 * f64::from(minute));
    let due = (0..600).map(at).collect();
    let telling = hermes_store::MissedRunNotice::Send;
    store.record_missed_runs("job", due, "Hermes was not running", telling, at(601)).wait().unwrap();
    store.record_missed_runs("other", vec![at(602)], "too late", telling, at(603)).wait().unwrap();
    store.close().wait().unwrap();
    let seen = hermes(&home, &["cron", "runs"]);
    let lines: Vec<&str> = seen.lines().filter(|line| line.contains("missed")).collect();
    assert_eq!(lines.len(), 2, "{seen}");
    assert!(lines[1].contains("600 runs in a row: Hermes was not running"), "{seen}");
}
