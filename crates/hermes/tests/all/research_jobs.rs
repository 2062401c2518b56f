//! Software tasks, samples, jobs of clusters and training from the built binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hermes_testkit::script::ScriptedToolCall;
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TempHome};
use hermes_text::JsonTree;
use serde_json::{Value, json};

use super::support::{run_in, until};

fn home_for(server: &ModelServer, more: &str) -> TempHome {
    let config = format!(
        "model:\n  provider: custom\n  base_url: {}\n  default: test-model\n{more}",
        server.base_url()
    );
    TempHome::builder().config_yaml(&config).build().unwrap()
}

fn records(path: &Path) -> Vec<JsonTree> {
    fs::read_to_string(path).unwrap().lines().map(|line| JsonTree::parse(line).unwrap()).collect()
}

#[test]
fn software_tasks_become_training_data() {
    let call = |command: &str| ScriptedToolCall::new("terminal", json!({"command": command}));
    let script = ModelScript::new()
        .reply(ScriptedReply::new().reasoning("look first").then_tool(call("printf found > here.txt; ls")))
        .reply(ScriptedReply::text("It is done."))
        .reply(ScriptedReply::new().then_tool(call("echo MINI_SWE_AGENT_FINAL_OUTPUT; echo all good")))
        .reply(ScriptedReply::tool("other", json!({})))
        .reply(ScriptedReply::tool("terminal", json!({})));
    let server = ModelServer::start_blocking(script).unwrap();
    let home = home_for(&server, "");
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(
        folder.path().join("tasks.jsonl"),
        "{\"task\": \"first\"}\nsecond\n\n{\"prompt\": \"third\"}\n",
    )
    .unwrap();
    let cwd = format!("--cwd={}", work.display());
    let seen = run_in(
        folder.path(),
        home.path(),
        &[
            "swe-run",
            "--prompts_file=tasks.jsonl",
            "--output_file",
            "out.jsonl",
            &cwd,
            "--max_iterations=2",
            "--verbose=True",
        ],
    );
    assert!(seen.starts_with("exit 0") && seen.contains("2 of 3 tasks were completed"), "{seen}");
    assert!(seen.contains("[2/3] second"), "{seen}");
    assert_eq!(fs::read_to_string(work.join("here.txt")).unwrap(), "found");
    let lines = records(&folder.path().join("out.jsonl"));
    let turns = lines[0].get("conversations").unwrap().as_array().unwrap();
    let value = |at: usize| turns[at].get("value").unwrap().as_str().unwrap();
    assert_eq!(turns.len(), 5);
    assert!(
        value(2).starts_with("<think>look first</think><tool_call>\n{\"name\": \"terminal\""),
        "{}",
        value(2)
    );
    assert!(
        value(3).contains("\"content\": {\"output\": \"here.txt\", \"exit_code\": 0, \"error\": null}"),
        "{}",
        value(3)
    );
    assert_eq!(value(4), "It is done.", "no empty tags");
    let fact = |at: usize, name: &str| lines[at].get(name).unwrap().to_string();
    assert_eq!([fact(0, "completed"), fact(1, "completed"), fact(2, "completed")], ["true", "true", "false"]);
    assert_eq!([fact(0, "api_calls"), fact(1, "api_calls"), fact(2, "api_calls")], ["2", "1", "2"]);
    assert!(fact(0, "metadata").contains("\"env_type\": \"local\""), "{}", fact(0, "metadata"));
    assert!(fact(2, "conversations").contains("the only tool is `terminal`"));
    let tools = server.request(0).tool_names();
    assert_eq!(tools, ["terminal"]);
    // A server that fails is part of the line, and the next task goes on.
    let seen =
        run_in(folder.path(), home.path(), &["swe-run", "--task=x", "--output-file=failed.jsonl", &cwd]);
    assert!(seen.starts_with("exit 1") && seen.contains("0 of 1 tasks"), "{seen}");
    let failed = fs::read_to_string(folder.path().join("failed.jsonl")).unwrap();
    assert!(
        failed.starts_with("{\"conversations\": [], \"completed\": false, \"api_calls\": 0,")
            && failed.contains("\"error\":"),
        "{failed}"
    );
    let seen = run_in(folder.path(), home.path(), &["swe-run"]);
    assert!(seen.starts_with("exit 2") && seen.contains("--task is missing"), "{seen}");
}

#[test]
fn long_trajectories_of_several_datasets_are_drawn_and_compressed() {
    let server = ModelServer::start_blocking(ModelScript::always("What happened.")).unwrap();
    let home = TempHome::builder().env_file("SUMMARY_KEY=k\n").build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let turns = |name: &str, words: usize| -> Vec<Value> {
        let roles =
            ["system", "human", "gpt", "tool", "gpt", "tool", "gpt", "tool", "gpt", "tool", "gpt", "gpt"];
        roles
            .iter()
            .map(|from| json!({"from": from, "value": format!("{name} {}", "word ".repeat(words))}))
            .collect()
    };
    let messages: Vec<Value> = turns("m", 100)
        .into_iter()
        .map(|turn| {
            let role = match turn["from"].as_str().unwrap() {
                "human" => "user",
                "gpt" => "assistant",
                other => other,
            };
            json!({"role": role, "content": turn["value"]})
        })
        .collect();
    let first: Vec<String> =
        (0..5).map(|at| json!({"id": at, "conversations": turns("a", 100)}).to_string()).collect();
    fs::write(folder.path().join("a.jsonl"), format!("{}\n\nnot json\n{{}}\n", first.join("\n"))).unwrap();
    let second =
        [json!({"messages": messages}).to_string(), json!({"conversations": turns("short", 1)}).to_string()];
    fs::write(folder.path().join("b.jsonl"), second.join("\n")).unwrap();
    let config = format!(
        "compression: {{target_max_tokens: 1200, summary_target_tokens: 20}}\n\
         summarization: {{model: test-model, base_url: {}, api_key_env: SUMMARY_KEY}}\n",
        server.base_url()
    );
    fs::write(folder.path().join("c.yaml"), config).unwrap();
    let flags = [
        "sample-compress",
        "--datasets=a.jsonl,b.jsonl",
        "--config=c.yaml",
        "--min_tokens=1000",
        "--output_name=mix",
        "--batch_size=2",
        "--skip_download",
    ];
    let seen = run_in(folder.path(), home.path(), &[&flags[..], &["--total_samples=4"]].concat());
    assert!(
        seen.starts_with("exit 0") && seen.contains("6 of 9 lines are long enough; 4 were drawn"),
        "{seen}"
    );
    assert!(seen.contains("2 lines have no conversation"), "{seen}");
    let data = folder.path().join("data");
    let raw =
        [records(&data.join("mix_raw/batch_0.jsonl")), records(&data.join("mix_raw/batch_1.jsonl"))].concat();
    assert_eq!(raw.len(), 4);
    for line in &raw {
        assert!(line.get("_original_tokens").unwrap().as_u64().unwrap() >= 1000);
        assert!(["a", "b"].contains(&line.get("_source_dataset").unwrap().as_str().unwrap()));
    }
    let merged = records(&data.join("mix.jsonl"));
    assert!(
        merged.len() == 4
            && merged.iter().all(|line| line.to_string().contains("[CONTEXT SUMMARY]: What happened."))
    );
    // The same seed draws the same; what exists is not written over.
    let seen = run_in(folder.path(), home.path(), &[&flags[..], &["--total_samples=4"]].concat());
    assert!(seen.starts_with("exit 1") && seen.contains("exists already"), "{seen}");
    let seen = run_in(
        folder.path(),
        home.path(),
        &["sample-compress", "--datasets=a.jsonl", "--output-name=x", "--min-tokens=999999"],
    );
    assert!(seen.starts_with("exit 2") || seen.contains("no trajectory has 999999 tokens"), "{seen}");
    let seen = run_in(
        folder.path(),
        home.path(),
        &["compress", "--input=a.jsonl", "--tokenizer=nowhere/x", "--config=c.yaml"],
    );
    assert!(seen.starts_with("exit 1") && seen.contains("--tokenizer nowhere/x:"), "{seen}");
}

const JOB: [&str; 4] = ["batch", "launch", "--run-name=big_one", "--workers=4"];

#[test]
fn jobs_of_clusters_contain_no_secret() {
    let home = TempHome::builder()
        .env_file("HERMES_BATCH_QUEUE=postgresql://u:hush@db/x\nKEY=hush\n")
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let job = |more: &[&str]| run_in(folder.path(), home.path(), &[&JOB[..], more].concat());
    let seen = job(&[
        "--slurm",
        "--num-workers=32",
        "--cpus=3",
        "--memory=2000",
        "--at-once=2",
        "--time-limit=60",
        "--partition=gpu",
        "--model=m",
    ]);
    assert!(seen.starts_with("exit 0") && seen.contains("sbatch data/big_one/job.sbatch"), "{seen}");
    let script = fs::read_to_string(folder.path().join("data/big_one/job.sbatch")).unwrap();
    for line in [
        "#SBATCH --array=0-3%2",
        "#SBATCH --requeue",
        "#SBATCH --cpus-per-task=3",
        "#SBATCH --mem=2000M",
        "#SBATCH --time=60",
        "#SBATCH --partition=gpu",
        "#SBATCH --job-name=hermes-big-one",
    ] {
        assert!(script.lines().any(|found| found == line), "{line}: {script}");
    }
    let words = script.replace('\'', "");
    assert!(
        words.contains(
            "worker --lease-seconds 300 --run-name big_one --num-workers 32 --max-turns 10 --model=m"
        ),
        "{script}"
    );
    assert!(!script.contains("hush"), "{script}");
    let seen = job(&["--slurm", "--dataset-file=d.jsonl", "--batch-size=7", "--job-file=parts.sh"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let script = fs::read_to_string(folder.path().join("parts.sh")).unwrap();
    assert!(
        script.replace('\'', "").contains("--dataset-file d.jsonl --batch-size 7 --distribution default"),
        "{script}"
    );
    assert!(script.contains("--shard=\"$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT\""), "{script}");
    let kubernetes = [
        "--kubernetes",
        "--job-image=registry/hermes:1",
        "--secret=keys",
        "--namespace=lab",
        "--time-limit=5",
    ];
    let seen = job(&kubernetes);
    assert!(seen.contains("kubectl apply -f data/big_one/job.yaml"), "{seen}");
    let text = fs::read_to_string(folder.path().join("data/big_one/job.yaml")).unwrap();
    let manifest: Value = serde_saphyr::from_str(&text).unwrap();
    let spec = &manifest["spec"];
    let pod = &spec["template"]["spec"];
    assert_eq!((&manifest["apiVersion"], &manifest["kind"]), (&json!("batch/v1"), &json!("Job")));
    assert_eq!(manifest["metadata"]["name"], "hermes-big-one");
    assert_eq!(
        (&spec["completionMode"], &spec["completions"], &spec["parallelism"]),
        (&json!("Indexed"), &json!(4), &json!(4))
    );
    assert_eq!((&spec["backoffLimitPerIndex"], &spec["activeDeadlineSeconds"]), (&json!(3), &json!(300)));
    assert_eq!(spec["podFailurePolicy"]["rules"][0]["action"], "Ignore");
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["containers"][0]["envFrom"][0]["secretRef"]["name"], "keys");
    assert_eq!(pod["containers"][0]["resources"]["requests"], json!({"cpu": "2", "memory": "4096Mi"}));
    let seen = job(&[
        "--kubernetes",
        "--job-image=i",
        "--dataset-file=d.jsonl",
        "--batch-size=7",
        "--volume-claim=work",
        "--job-file=parts.yaml",
    ]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let manifest: Value =
        serde_saphyr::from_str(&fs::read_to_string(folder.path().join("parts.yaml")).unwrap()).unwrap();
    let container = &manifest["spec"]["template"]["spec"]["containers"][0];
    let words = container["args"].as_array().unwrap();
    assert!(
        words.contains(&json!("--shard=$(JOB_COMPLETION_INDEX)/4")) && container["workingDir"] == "/work",
        "{words:?}"
    );
    for (more, words) in [
        (&[][..], "say where: --slurm or --kubernetes"),
        (&["--kubernetes"], "--job-image is missing"),
        (&["--kubernetes", "--job-image=i"], "--secret is missing"),
        (
            &["--kubernetes", "--job-image=i", "--dataset-file=d", "--batch-size=1"],
            "--volume-claim is missing",
        ),
        (&["--slurm", "--api-key=k"], "--api-key would be written into the job"),
        (&["--slurm", "--dataset-file=d"], "--batch-size is missing"),
        (&["--slurm", "--shard=0/2"], "--shard is set by the job"),
    ] {
        let seen = job(more);
        assert!(seen.starts_with("exit 2") && seen.contains(words), "{more:?}: {seen}");
    }
    let seen = job(&["--slurm", "--submit"]);
    let has_slurm = Command::new("sh").args(["-c", "command -v sbatch"]).output().unwrap().status.success();
    assert!(
        has_slurm || seen.starts_with("exit 1") && seen.contains("there is no program `sbatch`"),
        "{seen}"
    );
}

#[test]
fn peer_kubernetes_schemas_accept_the_jobs() {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let program = peers.join("kubernetes/bin/kubernetes-validate");
    if !program.exists() {
        return hermes_testkit::peer_is_missing("kubernetes-validate is not installed");
    }
    let (home, folder) = (TempHome::new().unwrap(), tempfile::tempdir().unwrap());
    let usual = [
        "batch",
        "launch",
        "--kubernetes",
        "--run-name=big_one",
        "--workers=4",
        "--job-image=registry/hermes:1",
    ];
    for (at, more) in
        [
            &[
                "--secret=keys",
                "--namespace=lab",
                "--time-limit=5",
                "--at-once=2",
                "--cpus=3",
                "--memory=2000",
            ][..],
            &[
                "--dataset-file=d.jsonl",
                "--batch-size=7",
                "--volume-claim=work",
                "--distribution=$(odd) 'name'",
            ],
        ]
        .into_iter()
        .enumerate()
    {
        let file = format!("--job-file={at}.yaml");
        let seen = run_in(folder.path(), home.path(), &[&usual, more, &[file.as_str()]].concat());
        assert!(seen.starts_with("exit 0"), "{seen}");
        let job = folder.path().join(format!("{at}.yaml"));
        let judged = Command::new(&program).arg("--strict").arg(&job).output().unwrap();
        assert!(judged.status.success(), "{judged:?}");
        // The judge is strict: a field that no job has is refused.
        let text = fs::read_to_string(&job).unwrap();
        fs::write(&job, text.replace("restartPolicy:", "restartPolice:")).unwrap();
        assert!(!Command::new(&program).arg("--strict").arg(&job).output().unwrap().status.success());
    }
}

/// Tells whether a Slurm cluster answers on this machine.
fn slurm_configuration() -> Option<String> {
    let found = std::env::var("HERMES_TEST_SLURM_CONF").ok();
    if found.is_none() {
        hermes_testkit::peer_is_missing("HERMES_TEST_SLURM_CONF is not set (scripts/peers/slurm start)");
    }
    found
}

#[test]
fn peer_slurm_an_array_finishes_a_run_though_a_task_was_requeued() {
    let Some(configuration) = slurm_configuration() else { return };
    let held = ScriptedReply::new().wait("gate").reasoning("because").then_text("an answer").forever();
    let server = ModelServer::start_blocking(ModelScript::new().reply(held)).unwrap();
    let home = home_for(&server, "");
    let folder = tempfile::tempdir().unwrap();
    let prompts: Vec<String> = (0..12).map(|at| json!({"prompt": format!("p{at}")}).to_string()).collect();
    fs::write(folder.path().join("d.jsonl"), prompts.join("\n")).unwrap();
    fs::create_dir_all(folder.path().join("data/array")).unwrap();
    let slurm = |program: &str, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).env("SLURM_CONF", &configuration).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The machine that the test runs on has one node with its own cores.
    let output = assert_cmd::Command::cargo_bin("hermes")
        .unwrap()
        .args([
            "batch",
            "launch",
            "--slurm",
            "--submit",
            "--workers=4",
            "--run-name=array",
            "--dataset-file=d.jsonl",
            "--batch-size=1",
        ])
        .args(["--distribution=terminal_only", "--cpus=1", "--memory=100", "--num-workers=1"])
        .current_dir(folder.path())
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", "/nonexistent")
        .env("PATH", std::env::var("PATH").unwrap())
        .env("SLURM_CONF", &configuration)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("Submitted batch job"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let id = said.split_whitespace().last().unwrap().to_owned();
    server.wait_for_requests_blocking(1);
    let running = slurm("squeue", &["-h", "-j", &id, "-t", "R", "-o", "%A_%a %K"]);
    let task = running.lines().next().unwrap().split_whitespace().last().unwrap().to_owned();
    slurm("scontrol", &["requeue", &format!("{id}_{task}")]);
    server.open("gate");
    // A task that was requeued waits for two minutes, unless it is told otherwise.
    until("the array to end", || {
        slurm("scontrol", &["release", &format!("{id}_{task}")]);
        slurm("scontrol", &["update", &format!("JobId={id}_{task}"), "StartTime=now"]);
        slurm("squeue", &["-h", "-j", &id]).trim().is_empty()
    });
    let mut asked: Vec<String> = records(&folder.path().join("data/array/trajectories.jsonl"))
        .iter()
        .map(|record| {
            record.get("conversations").unwrap().as_array().unwrap()[1]
                .get("value")
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    asked.sort_unstable();
    let mut expected: Vec<String> = (0..12).map(|at| format!("p{at}")).collect();
    expected.sort_unstable();
    assert_eq!(asked, expected);
}

#[test]
fn training_needs_keys_and_a_checkout_and_then_the_agent_has_its_tools() {
    let server = ModelServer::start_blocking(ModelScript::always("Ready.")).unwrap();
    let config =
        format!("model:\n  provider: custom\n  base_url: {}\n  default: test-model\n", server.base_url());
    let folder = tempfile::tempdir().unwrap();
    let home = TempHome::builder().config_yaml(&config).build().unwrap();
    let seen = run_in(folder.path(), home.path(), &["rl", "Train something"]);
    assert!(seen.starts_with("exit 1"), "{seen}");
    for words in ["TINKER_API_KEY is not set", "WANDB_API_KEY is not set", "clone tinker-atropos there"] {
        assert!(seen.contains(words), "{seen}");
    }
    fs::write(home.join(".env"), "TINKER_API_KEY=a\nWANDB_API_KEY=b\n").unwrap();
    let checkout = home.join("hermes-agent/tinker-atropos");
    let environments = checkout.join("tinker_atropos/environments");
    fs::create_dir_all(&environments).unwrap();
    fs::create_dir_all(checkout.join(".venv/bin")).unwrap();
    fs::write(checkout.join(".venv/bin/python"), "").unwrap();
    fs::write(environments.join("sums.py"), "class Sums(BaseEnv):\n    '''Adds.'''\n    name = 'sums'\n")
        .unwrap();
    let seen = run_in(folder.path(), home.path(), &["rl", "--list_environments"]);
    assert!(seen.contains("sums  Adds."), "{seen}");
    let seen = run_in(folder.path(), home.path(), &["rl", "--check-server"]);
    assert!(
        seen.starts_with("exit 0") && seen.contains("Ready: TINKER_API_KEY and WANDB_API_KEY are set"),
        "{seen}"
    );
    let seen = run_in(folder.path(), home.path(), &["rl", "Train something"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Ready."), "{seen}");
    let request = server.request(0);
    let tools = request.tool_names();
    assert!(
        tools.iter().filter(|tool| tool.starts_with("rl_")).count() == 10
            && tools.iter().any(|tool| tool == "terminal"),
        "{tools:?}"
    );
    assert!(request.system_text().contains("post-training"));
    // Without the toolset, nobody gets them.
    run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "x"]);
    assert!(
        !server.request(server.request_count() - 1).tool_names().iter().any(|tool| tool.starts_with("rl_"))
    );
    let seen = run_in(folder.path(), home.path(), &["rl"]);
    assert!(seen.starts_with("exit 2") && seen.contains("give a task"), "{seen}");
}
