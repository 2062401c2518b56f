//! Runs: what is written, what is left out, and what is done again.

use std::fs;

use hermes_research::{BatchShard, Dataset, ReasoningFilter, ResumePolicy, merge_batches};
use hermes_testkit::{ModelStep, TestModel};
use hermes_text::JsonTree;
use hermes_types::ModelError;

use super::support::{Stage, human};

fn thinker() -> std::sync::Arc<TestModel> {
    TestModel::new(|_, _| ModelStep::Think("because", "an answer"))
}

fn names(value: &JsonTree) -> Vec<&str> {
    match value {
        JsonTree::Object(members) => members.iter().map(|(name, _)| name.as_str()).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn each_prompt_has_one_record_of_the_known_shape() {
    let stage = Stage::new(TestModel::new(|said, _| match said {
        "use a tool" => ModelStep::Call("terminal", r#"{"command": "true"}"#),
        _ => ModelStep::Think("because", "an answer"),
    }));
    stage.write_prompts(["use a tool", "b", "c", "d", "e", "f", "g"]);
    let summary = stage.run().await;
    assert_eq!((summary.progress.written, summary.merge.merged, summary.merge.files), (7, 7, 3));
    assert_eq!(stage.asked(), ["b", "c", "d", "e", "f", "g", "use a tool"]);
    assert_eq!(stage.records("batch_2.jsonl").len(), 1);
    let first =
        stage.records("batch_0.jsonl").into_iter().find(|record| human(record) == "use a tool").unwrap();
    let keys = [
        "prompt_index",
        "conversations",
        "metadata",
        "completed",
        "partial",
        "api_calls",
        "toolsets_used",
        "tool_stats",
        "tool_error_counts",
    ];
    assert_eq!(names(&first), keys);
    assert_eq!(names(first.get("metadata").unwrap()), ["batch_num", "timestamp", "model"]);
    assert_eq!(first.get("toolsets_used").unwrap().to_string(), r#"["terminal", "file"]"#);
    let stats = r#"{"terminal": {"count": 1, "success": 1, "failure": 0}, "read_file": {"count": 0, "success": 0, "failure": 0}}"#;
    assert_eq!(first.get("tool_stats").unwrap().to_string(), stats);
    assert_eq!(first.get("tool_error_counts").unwrap().to_string(), r#"{"terminal": 0, "read_file": 0}"#);
    assert_eq!(first.get("api_calls").unwrap().as_u64(), Some(2));
    assert_eq!(first.get("completed").unwrap().as_bool(), Some(true));
    let statistics = JsonTree::parse(&stage.read("statistics.json")).unwrap();
    let tools = r#"{"terminal": {"count": 1, "success": 1, "failure": 0, "success_rate": 100.0, "failure_rate": 0.0}}"#;
    assert_eq!(statistics.get("tool_statistics").unwrap().to_string(), tools);
    let reasoning =
        r#"{"total_assistant_turns": 8, "turns_with_reasoning": 7, "turns_without_reasoning": 1}"#;
    assert_eq!(statistics.get("reasoning_statistics").unwrap().to_string(), reasoning);
    let checkpoint = JsonTree::parse(&stage.read("checkpoint.json")).unwrap();
    assert_eq!(checkpoint.get("completed_prompts").unwrap().to_string(), "[0, 1, 2, 3, 4, 5, 6]");
    let stats = r#"{"processed": 3, "skipped": 0, "discarded_no_reasoning": 0}"#;
    assert_eq!(checkpoint.get("batch_stats").unwrap().get("0").unwrap().to_string(), stats);
    // Nothing of it stays in the run's own database.
    assert_eq!(stage.store.newest_session("batch").await.unwrap(), None);
}

#[tokio::test]
async fn conversations_without_reasoning_are_left_out_unless_they_are_wanted() {
    let mut stage = Stage::new(TestModel::new(|said, _| match said {
        "dull" => ModelStep::Say("an answer".to_owned()),
        _ => ModelStep::Think("because", "an answer"),
    }));
    stage.write_prompts(["dull", "bright"]);
    let summary = stage.run().await;
    assert_eq!((summary.progress.written, summary.progress.discarded), (1, 1));
    assert_eq!(stage.asked(), ["bright"]);
    // It is done, so that nobody pays for it again.
    assert!(stage.read("checkpoint.json").contains("\"discarded_no_reasoning\": 1"));
    assert_eq!(stage.run().await.progress.total, 0);
    fs::remove_dir_all(stage.data()).unwrap();
    stage.filter = ReasoningFilter::Off;
    stage.run().await;
    assert_eq!(stage.asked(), ["bright", "dull"]);
}

#[tokio::test]
async fn what_failed_is_not_done_and_the_rest_goes_on() {
    let stage = Stage::new(TestModel::new(|said, request| match said {
        "broken" if request.messages.len() == 1 => {
            ModelStep::Fail(ModelError::GiveUp { message: "no such model".to_owned(), status: Some(404) })
        }
        _ => ModelStep::Think("because", "an answer"),
    }));
    let rows = "{\"prompt\": \"broken\"}\n{\"prompt\": \"fine\"}\n{\"prompt\": \"x\", \"docker_image\": \"missing\"}\n\
                {\"prompt\": \"y\", \"image\": \"debian\", \"cwd\": \"/src\"}\n{\"prompt\": \"z\", \"cwd\": \"/src\"}\n";
    fs::write(stage.dataset(), rows).unwrap();
    let (done, notices) = stage.try_run().await;
    let summary = done.unwrap();
    assert_eq!((summary.progress.failed, summary.progress.written, summary.left()), (2, 3, 2));
    assert!(
        notices
            .iter()
            .any(|notice| notice.starts_with("[B0:P0] failed: ") && notice.contains("no such model")),
        "{notices:?}"
    );
    assert!(
        notices.iter().any(|notice| notice.contains("the image missing cannot be fetched")),
        "{notices:?}"
    );
    assert_eq!(stage.asked(), ["fine", "y", "z"]);
    let tasks = stage.tasks.lock().unwrap().clone();
    assert!(tasks.contains(&"run_task_3 in debian at Some(\"/src\")".to_owned()), "{tasks:?}");
    assert!(
        tasks.contains(&"run_task_4".to_owned()) && tasks.contains(&"-run_task_2".to_owned()),
        "{tasks:?}"
    );
    assert_eq!(stage.run().await.progress.total, 2, "they are tried again");
}

#[tokio::test]
async fn a_run_that_only_fails_stops() {
    let stage = Stage::new(TestModel::new(|_, _| {
        ModelStep::Fail(ModelError::GiveUp { message: "the key is wrong".to_owned(), status: Some(401) })
    }));
    let prompts: Vec<String> = (0..200).map(|number| format!("p{number}")).collect();
    stage.write_prompts(prompts.iter().map(String::as_str));
    let summary = stage.run().await;
    let reason = summary.stopped.unwrap();
    assert!(reason.contains("20 prompts in a row failed") && reason.contains("the key is wrong"), "{reason}");
    assert!(summary.progress.failed < 25, "{}", summary.progress.failed);
}

#[tokio::test]
async fn a_spending_limit_stops_the_run_and_nothing_is_lost() {
    let stage = Stage::new(TestModel::new(|said, _| match said {
        "d" => ModelStep::Fail(ModelError::Budget("This run has spent enough.".to_owned())),
        _ => ModelStep::Think("because", "an answer"),
    }));
    stage.write_prompts(["a", "b", "c", "d", "e", "f"]);
    let mut stage = Stage { workers: 1, ..stage };
    let summary = stage.run().await;
    assert_eq!(summary.stopped.as_deref(), Some("This run has spent enough."));
    assert_eq!((summary.progress.written, summary.progress.failed, summary.left()), (3, 0, 3));
    stage.model = thinker();
    stage.run().await;
    assert_eq!(stage.asked(), ["a", "b", "c", "d", "e", "f"]);
}

#[tokio::test]
async fn what_is_done_is_recognized_by_number_and_text() {
    let mut stage = Stage::new(thinker());
    stage.write_prompts(["a", "b", "c", "d"]);
    stage.run().await;
    // Reordered, with a new prompt: numbers alone would skip the wrong ones.
    stage.write_prompts(["new", "b", " a ", "c", "d"]);
    stage.resume = ResumePolicy::ByContent;
    let summary = stage.run().await;
    assert_eq!((summary.skipped, summary.progress.written), (4, 1));
    assert_eq!(stage.asked(), ["a", "b", "c", "d", "new"]);
    let new = stage.records("batch_0.jsonl").into_iter().find(|record| human(record) == "new").unwrap();
    assert_eq!(new.get("prompt_index").unwrap().as_u64(), Some(0), "what is left is cut into batches from 0");
    // Without resume only the same number counts.
    fs::remove_file(stage.data().join("checkpoint.json")).unwrap();
    fs::remove_file(stage.data().join("batch_1.jsonl")).unwrap();
    stage.write_prompts(["a", "c", "b", "d"]);
    stage.resume = ResumePolicy::ByIndex;
    assert_eq!(stage.run().await.progress.written, 3);
}

#[tokio::test]
async fn deliberate_duplicates_are_counted() {
    let mut stage = Stage::new(thinker());
    stage.write_prompts(["a", "a", "a", "b"]);
    stage.run().await;
    assert_eq!(stage.asked(), ["a", "a", "a", "b"]);
    stage.write_prompts(["b", "a", "a", "a", "a"]);
    stage.resume = ResumePolicy::ByContent;
    assert_eq!(stage.run().await.progress.written, 1, "the fourth one is new");
    assert_eq!(stage.asked(), ["a", "a", "a", "a", "b"]);
}

#[tokio::test]
async fn what_a_killed_process_left_is_taken_up() {
    let mut stage = Stage::new(thinker());
    stage.write_prompts(["a", "b", "c", "d", "e"]);
    stage.run().await;
    // Killed before the checkpoint, and within a line.
    fs::write(stage.data().join("checkpoint.json"), "{\"run_name\": \"run\", \"completed_pro").unwrap();
    let text = stage.read("batch_1.jsonl");
    let (first, second) = text.split_once('\n').unwrap();
    fs::write(stage.data().join("batch_1.jsonl"), format!("{first}\n{}", second.get(..40).unwrap())).unwrap();
    let (done, notices) = stage.try_run().await;
    assert!(notices.iter().any(|notice| notice.contains("checkpoint.json is not used")), "{notices:?}");
    let summary = done.unwrap();
    assert_eq!((summary.skipped, summary.progress.written), (4, 1));
    assert_eq!(summary.merge.dropped, ["batch_1.jsonl: a line is not JSON"]);
    assert_eq!(stage.asked(), ["a", "b", "c", "d", "e"]);
    // Records of conversations that failed do not count.
    let failed =
        stage.read("batch_0.jsonl").replace("\"prompt_index\"", "\"failed\": true, \"prompt_index\"");
    fs::write(stage.data().join("batch_0.jsonl"), failed).unwrap();
    fs::remove_file(stage.data().join("checkpoint.json")).unwrap();
    stage.resume = ResumePolicy::ByContent;
    assert_eq!(stage.run().await.progress.written, 3);
}

#[tokio::test]
async fn checkpoints_of_older_releases_are_read_and_what_is_unknown_stays() {
    let stage = Stage::new(thinker());
    stage.write_prompts(["a", "b", "c"]);
    fs::create_dir_all(stage.data()).unwrap();
    let older = r#"{"run_name": "run", "completed_prompts": [2, 0, 0], "batch_stats": {}, "last_updated": "", "note": [1.50]}"#;
    fs::write(stage.data().join("checkpoint.json"), older).unwrap();
    assert_eq!(stage.run().await.progress.written, 1);
    assert_eq!(stage.asked(), ["b"]);
    let now = JsonTree::parse(&stage.read("checkpoint.json")).unwrap();
    assert_eq!(now.get("completed_prompts").unwrap().to_string(), "[0, 1, 2]");
    assert_eq!(now.get("note").unwrap().to_string(), "[1.5]");
    assert_eq!(names(now.get("prompt_hashes").unwrap()), ["1"]);
    // One of another run counts for nothing.
    fs::write(stage.data().join("checkpoint.json"), older.replace("\"run\"", "\"other\"")).unwrap();
    let (done, notices) = stage.try_run().await;
    assert_eq!(done.unwrap().progress.written, 2);
    assert!(notices.iter().any(|notice| notice.contains("it belongs to another run")), "{notices:?}");
}

#[tokio::test]
async fn masked_records_are_recognized_too() {
    let mut stage = Stage::new(thinker());
    stage.redact = Some(|text| text.replace("hush", "***"));
    stage.write_prompts(["the key is hush", "b"]);
    stage.run().await;
    assert_eq!(stage.asked(), ["b", "the key is ***"]);
    fs::remove_file(stage.data().join("checkpoint.json")).unwrap();
    stage.resume = ResumePolicy::ByContent;
    assert_eq!(stage.run().await.progress.total, 0);
}

#[tokio::test]
async fn shards_divide_the_batches() {
    let mut stage = Stage::new(thinker());
    let prompts: Vec<String> = (0..20).map(|number| format!("p{number:02}")).collect();
    stage.write_prompts(prompts.iter().map(String::as_str));
    for index in 0..3 {
        stage.shard = Some(BatchShard { index, count: 3 });
        stage.run().await;
        assert!(stage.data().join(format!("checkpoint_{index}_of_3.json")).exists());
    }
    assert_eq!(stage.asked(), prompts);
    stage.shard = None;
    assert_eq!(stage.run().await.progress.total, 0);
    for wrong in ["3/3", "x/2", "1", "-1/2"] {
        assert!(wrong.parse::<BatchShard>().is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn a_stop_lets_running_conversations_end() {
    let stage = Stage::new(TestModel::new(|said, _| match said {
        "a" | "b" => ModelStep::Gate("x".to_owned()),
        _ => ModelStep::Think("because", "an answer"),
    }));
    let mut stage = Stage { filter: ReasoningFilter::Off, ..stage };
    stage.write_prompts(["a", "b", "c", "d"]);
    let (summary, ()) = tokio::join!(stage.run(), async {
        while stage.model.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        stage.stop.cancel();
        stage.model.gate.add_permits(2);
    });
    assert_eq!(stage.asked(), ["a", "b"]);
    assert_eq!((summary.left(), summary.stopped.as_deref()), (2, Some("interrupted")));
    (stage.stop, stage.model) = (hermes_types::Cancel::new(), thinker());
    stage.run().await;
    assert_eq!(stage.asked(), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn two_hundred_and_fifty_six_conversations_wait_at_once() {
    let stage = Stage::new(TestModel::new(|_, _| ModelStep::Gate("x".to_owned())));
    let stage = Stage { filter: ReasoningFilter::Off, workers: 256, ..stage };
    let prompts: Vec<String> = (0..300).map(|number| format!("p{number}")).collect();
    stage.write_prompts(prompts.iter().map(String::as_str));
    let (summary, ()) = tokio::join!(stage.run(), async {
        while stage.model.requests().len() < 256 {
            tokio::task::yield_now().await;
        }
        stage.model.gate.add_permits(300);
    });
    assert_eq!(summary.progress.written, 300);
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let stage = Stage::new(thinker());
    stage.write_prompts(["a"]);
    fs::create_dir_all(stage.data()).unwrap();
    let lock = fs::File::create(stage.data().join(".lock")).unwrap();
    lock.lock().unwrap();
    let error = stage.try_run().await.0.unwrap_err().to_string();
    assert!(error.contains("another process works on the run"), "{error}");
    lock.unlock().unwrap();
    stage.run().await;
}

#[tokio::test]
async fn at_the_limit_only_a_free_answer_is_complete() {
    let mut stage = Stage::new(TestModel::new(|said, request| match said {
        // Called without tools, it is asked to sum up.
        _ if request.tools.is_empty() => ModelStep::Think("because", "a summary"),
        "endless" => ModelStep::Call("terminal", r#"{"command": "true"}"#),
        said if said.contains("exit_code") && request.messages[0].content.text() == "endless" => {
            ModelStep::Call("terminal", r#"{"command": "false"}"#)
        }
        "two" => ModelStep::Call("terminal", r#"{"command": "true"}"#),
        _ => ModelStep::Think("because", "an answer"),
    }));
    stage.max_turns = 2;
    stage.write_prompts(["endless", "two", "one"]);
    stage.run().await;
    let completed = |asked: &str| {
        let records = stage.records("trajectories.jsonl");
        let record = records.iter().find(|record| human(record) == asked).unwrap();
        record.get("completed").unwrap().as_bool().unwrap()
    };
    assert_eq!((completed("endless"), completed("two"), completed("one")), (false, true, true));
}

#[test]
fn merging_drops_what_is_not_a_record_of_known_tools() {
    let folder = tempfile::tempdir().unwrap();
    let record = |tool: &str| format!("{{\"tool_stats\": {{\"{tool}\": {{}}}}, \"n\": 1.50}}");
    let long = "x".repeat(60);
    fs::write(folder.path().join("batch_2.jsonl"), record("terminal")).unwrap();
    fs::write(folder.path().join("batch_10.jsonl"), format!("{}\nno\n{}\n\n", record("todo"), record(&long)))
        .unwrap();
    fs::write(folder.path().join("other.jsonl"), record("todo")).unwrap();
    let report = merge_batches(folder.path(), &["terminal".to_owned(), "todo".to_owned()]).unwrap();
    assert_eq!((report.files, report.merged), (2, 2));
    let unknown = format!("batch_10.jsonl: a record names the unknown tool {}...", "x".repeat(50));
    assert_eq!(report.dropped, ["batch_10.jsonl: a line is not JSON".to_owned(), unknown]);
    let merged = fs::read_to_string(folder.path().join("trajectories.jsonl")).unwrap();
    assert_eq!(
        merged,
        format!("{}\n{}\n", record("todo"), record("terminal")),
        "ordered by name as text, unchanged"
    );
}

#[test]
fn datasets_name_the_lines_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl");
    let lines: [&[u8]; 7] = [
        b"{\"prompt\": \"a\", \"more\": [1]}\n",
        b"\n",
        b"{\"prompt\": 3}\n",
        b"nothing\n",
        b"\xff\n",
        b"{\"prompt\": \"\\ud800 b\"}\r\n",
        b"{\"prompt\": \"\", \"conversations\": [{\"from\": \"gpt\", \"value\": \"x\"}, {\"from\": \"human\", \"value\": \"said\"}]}",
    ];
    fs::write(&path, lines.concat()).unwrap();
    let dataset = Dataset::open(&path, None).unwrap();
    let problems: Vec<(usize, &str)> = dataset.problems.iter().map(|p| (p.line, p.reason)).collect();
    assert_eq!(problems, [(3, "it has no `prompt`"), (4, "it is not JSON"), (5, "it is not UTF-8")]);
    assert_eq!(dataset.len(), 3);
    assert_eq!(dataset.row(1).unwrap().prompt, "\u{fffd} b");
    assert_eq!(dataset.row(2).unwrap().identity, "said");
    assert_eq!(Dataset::open(&path, Some(1)).unwrap().len(), 1);
    fs::write(&path, "{\"prompt\": \"something else of another length\"}\n").unwrap();
    assert!(dataset.row(0).unwrap_err().contains("was changed while it was in use"));
    fs::write(&path, "x\n").unwrap();
    let error = Dataset::open(&path, None).unwrap_err().to_string();
    assert!(error.contains("line 1: it is not JSON"), "{error}");
}
