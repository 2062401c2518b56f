//! Training runs on a checkout that stands in for the trainer's.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{ProgramRunner, Variables};
use hermes_net::{Config as NetConfig, HttpClient};
use hermes_testkit::{JsonServer, RealClock, TestClock};
use hermes_tools::{LazyHttpClient, MetricsService, RlSession, RlTool, TrainerAccess};
use hermes_types::{
    Cancel, CivilTime, Clock, Deadline, OutcomeStatus, Secret, Tool as _, ToolContext, ToolInvocation,
};
use serde_json::{Value, json};

use super::support::UnattendedUser;

/// An environment: it describes its settings, writes groups, and serves until a file appears.
const ENVIRONMENT: &str = r#"
import json, os, sys, time

class Field:
    def __init__(self, default, kind, description):
        self.default, self.annotation, self.description = default, kind, description
    def get_default(self, call_default_factory=False):
        return self.default

class Config:
    model_fields = {
        "group_size": Field(4, int, "Answers"),
        "difficulty": Field("easy", str, "How hard"),
        "total_steps": Field(10, int, "Steps"),
        "wandb_name": Field(None, str, "Name"),
    }

class BaseEnv:
    pass

class SumEnv(BaseEnv):
    """Adds numbers."""
    name = "sums"
    env_config_cls = Config

if __name__ == "__main__":
    options = dict(word[2:].split("=", 1) for word in sys.argv[2:] if "=" in word)
    if sys.argv[1] == "process":
        assert "hush" in open(options["config"]).read() and "hush" not in " ".join(sys.argv)
        print("the key is hush")
        if "broken" in options["openai.model_name"]:
            sys.exit(3)
        with open(options["env.data_path_to_save_groups"], "w") as out:
            for step in range(int(options["env.total_steps"])):
                out.write(json.dumps({"scores": [float(step), 1.0]}) + "\n")
        sys.exit(0)
    print("serving with", open(sys.argv[3]).read().count("difficulty: hard"), flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
    sys.exit(int(open("go").read() or 0))
"#;

struct Stage {
    folder: tempfile::TempDir,
    clock: TestClock,
    tools: Vec<RlTool>,
    session: Arc<RlSession>,
    metrics: JsonServer,
}

impl Stage {
    fn new(clock: TestClock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environments = folder.path().join("tinker_atropos/environments");
        fs::create_dir_all(&environments).unwrap();
        fs::write(environments.join("sums.py"), ENVIRONMENT).unwrap();
        fs::write(environments.join("_base.py"), ENVIRONMENT).unwrap();
        fs::write(environments.join("broken.py"), "class X(BaseEnv):\n    name = 'broken'\n").unwrap();
        let trainer =
            "import os, time\nprint('key', len(os.environ['TINKER_API_KEY']), flush=True)\ntime.sleep(600)\n";
        fs::write(folder.path().join("launch_training.py"), trainer).unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let api = bin.join("run-api");
        fs::write(&api, "#!/bin/sh\necho api\nexec sleep 600\n").unwrap();
        fs::set_permissions(&api, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let metrics = JsonServer::start(|request| {
            assert!(request.path == "/graphql" && request.body["variables"]["entity"] == "us");
            let node = json!({
                "name": "abc", "displayName": "x",
                "summaryMetrics": json!({"_step": 7, "train/reward_mean": 0.5, "other": 1}).to_string(),
                "history": [json!({"_step": 1, "eval/percent_correct": 0.25}).to_string()],
            });
            (200, json!({"data": {"project": {"runs": {"edges": [{"node": node}]}}}}))
        })
        .unwrap();
        let real: Arc<dyn Clock> = Arc::new(RealClock::default());
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let variables = Variables::exactly([("PATH", path.as_str()), ("TINKER_API_KEY", "hush")]);
        let net = NetConfig::new(real.clone());
        let access = TrainerAccess {
            checkout: folder.path().to_owned(),
            python: "/usr/bin/python3".to_owned(),
            logs: folder.path().join("logs"),
            programs: ProgramRunner::new(variables, real.clone()),
            metrics: MetricsService {
                url: metrics.url(),
                key: Secret::new("hush"),
                entity: "us".to_owned(),
                http: LazyHttpClient::new(move || {
                    HttpClient::new(net.clone()).map_err(|error| error.to_string())
                }),
                clock: real,
            },
            inference_key: Some(Secret::new("hush")),
            inference_url: "http://127.0.0.1:1/v1".to_owned(),
            clock: Arc::new(clock.clone()),
            local_time: CivilTime::utc,
        };
        let session = Arc::new(RlSession::default());
        Self { tools: RlTool::all(&access, &session), folder, clock, session, metrics }
    }

    async fn call(&self, name: &str, arguments: Value) -> (OutcomeStatus, Value) {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let cancel = Cancel::new();
        let deadline = Deadline::after(&self.clock, Duration::from_hours(1000));
        let context = ToolContext {
            frontend: &UnattendedUser,
            cancel: &cancel,
            deadline,
            spawn: None,
            turn_model: None,
        };
        let call = ToolInvocation {
            id: "c".into(),
            name: name.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            session: "s".into(),
            turn: "t".into(),
            task: "t".into(),
        };
        let outcome = tool.run(&call, context).await;
        assert!(
            !outcome.content.contains("hush") && outcome.content.contains("{\n  \""),
            "{}",
            outcome.content
        );
        (outcome.status, serde_json::from_str(&outcome.content).unwrap())
    }

    async fn ok(&self, name: &str, arguments: Value) -> Value {
        let (status, value) = self.call(name, arguments).await;
        assert_eq!(status, OutcomeStatus::Done, "{value}");
        value
    }

    async fn refused(&self, name: &str, arguments: Value) -> Value {
        let (status, value) = self.call(name, arguments).await;
        assert_eq!(status, OutcomeStatus::Failed, "{value}");
        value
    }

    /// Waits until the only run has this state.
    async fn until_state(&self, state: &str) {
        for _ in 0..6000 {
            if self.ok("rl_list_runs", json!({})).await["runs"][0]["status"] == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never {state}: {}", self.ok("rl_list_runs", json!({})).await);
    }

    /// Waits until a program of the run has written this.
    async fn until_logged(&self, part: &str, run: &str, words: &str) {
        for _ in 0..6000 {
            if fs::read_to_string(self.log(part, run)).is_ok_and(|text| text.contains(words)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{part} never wrote {words}");
    }

    fn log(&self, part: &str, run: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("logs/{part}_{run}.log"))
    }
}

fn is_running(marker: &Path) -> bool {
    let marker = marker.display().to_string();
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline"))
            .is_ok_and(|words| String::from_utf8_lossy(&words).contains(&marker))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn environments_are_selected_and_their_settings_changed() {
    let stage = Stage::new(TestClock::new());
    let all = stage.ok("rl_list_environments", json!({})).await;
    assert_eq!((&all["count"], &all["environments"][1]["name"]), (&json!(2), &json!("sums")));
    assert_eq!(all["environments"][1]["description"], "Adds numbers.");
    assert!(
        stage.refused("rl_get_current_config", json!({})).await["error"]
            .as_str()
            .unwrap()
            .contains("no environment is selected")
    );
    assert_eq!(
        stage.refused("rl_select_environment", json!({"name": "x"})).await["available"],
        json!(["broken", "sums"])
    );
    stage.ok("rl_select_environment", json!({"name": "sums"})).await;
    let config = stage.ok("rl_get_current_config", json!({})).await;
    let names = |list: &str| -> Vec<String> {
        config[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("configurable_fields"), ["group_size", "difficulty", "wandb_name"]);
    assert_eq!(
        (names("locked_fields"), &config["locked_fields"][0]["locked_value"]),
        (vec!["total_steps".to_owned()], &json!(2500))
    );
    assert_eq!(config["configurable_fields"][2]["current_value"], "sums-20260102-030405");
    assert_eq!(
        stage.refused("rl_edit_config", json!({"field": "total_steps", "value": 1})).await["locked_value"],
        2500
    );
    assert!(
        stage.refused("rl_edit_config", json!({"field": "x", "value": 1})).await["available_fields"]
            .is_array()
    );
    let changed = stage.ok("rl_edit_config", json!({"field": "difficulty", "value": "hard"})).await;
    assert_eq!(changed["config"]["difficulty"], "hard");
    // What cannot describe itself has the usual settings.
    stage.ok("rl_select_environment", json!({"name": "broken"})).await;
    let config = stage.ok("rl_get_current_config", json!({})).await;
    assert!(
        config["configurable_fields"]
            .as_array()
            .unwrap()
            .iter()
            .any(|field| field["name"] == "eval_handling")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_starts_its_programs_and_ends_with_its_environment() {
    let stage = Stage::new(TestClock::auto_advance());
    assert!(
        stage.refused("rl_start_training", json!({})).await["error"]
            .as_str()
            .unwrap()
            .contains("no environment")
    );
    stage.ok("rl_select_environment", json!({"name": "sums"})).await;
    stage.ok("rl_edit_config", json!({"field": "difficulty", "value": "hard"})).await;
    let run = stage.ok("rl_start_training", json!({})).await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&run["status"], &run["wandb_project"], id.len()),
        (&json!("starting"), &json!("atropos-tinker"), 8)
    );
    let config = fs::read_to_string(run["config_path"].as_str().unwrap()).unwrap();
    for words in [
        "difficulty: hard",
        "total_steps: 2500",
        "server_type: sglang",
        &format!("wandb_run_name: sums-{id}"),
    ] {
        assert!(config.contains(words), "{words}: {config}");
    }
    stage.until_state("running").await;
    assert!(
        stage.refused("rl_start_training", json!({})).await["error"]
            .as_str()
            .unwrap()
            .contains("stop it first")
    );
    // The trainer ends with the environment, also before it has written anything.
    stage.until_logged("trainer", &id, "key 4").await;
    stage.until_logged("env", &id, "serving with 1").await;
    fs::write(stage.folder.path().join("go"), "0").unwrap();
    stage.until_state("completed").await;
    assert!(!is_running(&stage.folder.path().join("launch_training.py")), "the trainer ended with the run");
    let state = stage.ok("rl_check_status", json!({"run_id": id})).await;
    assert_eq!(
        (&state["processes"]["env"], &state["metrics"]["reward_mean"]),
        (&json!("exited (0)"), &json!(0.5))
    );
    assert_eq!(state["wandb_url"], "https://wandb.ai/us/atropos-tinker/runs/abc");
    let again = stage.ok("rl_check_status", json!({"run_id": id})).await;
    assert!(
        again["rate_limited"] == true && again["next_check_in_seconds"].as_u64().unwrap() <= 1800,
        "{again}"
    );
    let results = stage.ok("rl_get_results", json!({"run_id": id})).await;
    assert_eq!(
        (&results["final_metrics"]["step"], &results["history"][0]["eval_percent_correct"]),
        (&json!(7), &json!(0.25))
    );
    assert!(
        stage.ok("rl_stop_training", json!({"run_id": id})).await["message"]
            .as_str()
            .unwrap()
            .contains("is not running")
    );
    for name in ["rl_check_status", "rl_stop_training", "rl_get_results"] {
        assert_eq!(stage.refused(name, json!({"run_id": "x"})).await["active_runs"], json!([]));
    }
    assert_eq!(stage.metrics.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_says_why_and_leaves_nothing_running() {
    let stage = Stage::new(TestClock::auto_advance());
    stage.ok("rl_select_environment", json!({"name": "sums"})).await;
    fs::write(stage.folder.path().join("go"), "4").unwrap();
    let run = stage.ok("rl_start_training", json!({})).await;
    stage.until_state("failed").await;
    let state = stage.ok("rl_check_status", json!({"run_id": run["run_id"]})).await;
    assert!(state["error"].as_str().unwrap().contains("ended with code 4"), "{state}");
    assert!(!is_running(&stage.folder.path().join("launch_training.py")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_stopped_while_it_starts_starts_nothing_more() {
    let stage = Stage::new(TestClock::new());
    stage.ok("rl_select_environment", json!({"name": "sums"})).await;
    let run = stage.ok("rl_start_training", json!({})).await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    stage.clock.wait_for_sleepers(1).await;
    let stop = stage.ok("rl_stop_training", json!({"run_id": id}));
    let clock = stage.clock.clone();
    // Programs that are told to end get some time; it passes here.
    let passing = async {
        loop {
            clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let stopped = tokio::select! {
        stopped = stop => stopped,
        () = passing => unreachable!(),
    };
    assert_eq!(stopped["status"], "stopped");
    assert!(stage.log("api", &id).exists() && !stage.log("trainer", &id).exists());
    assert!(!is_running(&stage.folder.path().join("bin/run-api")));
    assert_eq!(stage.session.describe_runs().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_is_tried_with_hosted_models() {
    let stage = Stage::new(TestClock::new());
    assert!(
        stage.refused("rl_test_inference", json!({})).await["error"]
            .as_str()
            .unwrap()
            .contains("no environment")
    );
    stage.ok("rl_select_environment", json!({"name": "sums"})).await;
    let tried = stage
        .ok("rl_test_inference", json!({"num_steps": 2, "group_size": 2, "models": ["a/good", "b/broken"]}))
        .await;
    let (good, broken) = (&tried["models_tested"][0], &tried["models_tested"][1]);
    assert_eq!(
        (&good["scale"], &good["accuracy"], &good["steps"][0]["correct"]),
        (&json!("custom"), &json!(0.75), &json!(1))
    );
    assert_eq!(
        (&good["step_success_rate"], &tried["summary"]["best_model"]),
        (&json!(1.0), &json!("a/good"))
    );
    assert!(
        broken["error"].as_str().unwrap().contains("code 3")
            && broken["stdout"].as_str().unwrap().contains("the key is ***"),
        "{broken}"
    );
    assert_eq!(tried["summary"]["models_succeeded"], 1);
    let log = fs::read_to_string(good["log_file"].as_str().unwrap()).unwrap();
    assert!(log.contains("the key is ***") && !log.contains("hush"));
    let left = fs::read_dir(stage.folder.path().join("logs/inference_tests")).unwrap().flatten();
    assert!(
        left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().ends_with(".yaml")),
        "no key is left"
    );
    let known = stage.ok("rl_test_inference", json!({"num_steps": 1, "models": ["qwen/qwen3-8b"]})).await;
    assert_eq!(
        (&known["models_tested"][0]["scale"], &known["summary"]["models_tested"]),
        (&json!("small"), &json!(1))
    );
}
