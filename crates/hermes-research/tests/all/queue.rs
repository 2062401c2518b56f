//! The queue in a real PostgreSQL server.

use std::collections::BTreeSet;
use std::time::Duration;

use hermes_research::{
    Dataset, GiveBack, ItemClose, QueueOptions, RunQueue, export_run, import_run, queue_items,
};
use hermes_testkit::peer_is_missing;
use hermes_types::random_hex;

/// Returns a queue of a run of its own; prints a message and returns `None` where there is no server.
#[expect(clippy::disallowed_methods, reason = "the script that starts the server says there where it is")]
async fn queue(options: QueueOptions) -> Option<RunQueue> {
    let Ok(address) = std::env::var("HERMES_TEST_POSTGRES") else {
        peer_is_missing("HERMES_TEST_POSTGRES is not set (scripts/peers/postgres start)");
        return None;
    };
    Some(RunQueue::connect(&address, &format!("test-{}", random_hex(12)), options).await.unwrap())
}

fn dataset(folder: &std::path::Path, lines: &[&str]) -> Dataset {
    let path = folder.join("d.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    Dataset::open(&path, None).unwrap()
}

fn prompts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{{\"prompt\": \"{name}\"}}")).collect()
}

fn record(index: usize, prompt: &str, tool: &str) -> String {
    format!(
        "{{\"prompt_index\": {index}, \"conversations\": [{{\"from\": \"system\", \"value\": \"s\"}}, {{\"from\": \"human\", \"value\": \"{prompt}\"}}, \
         {{\"from\": \"gpt\", \"value\": \"<think>\\nx\\n</think>\\ny\"}}], \"tool_stats\": {{\"{tool}\": {{\"count\": 1, \"success\": 1, \"failure\": 0}}}}}}"
    )
}

#[test]
fn keys_survive_reordering_and_keep_duplicates_apart() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |lines: &[&str]| -> Vec<String> {
        queue_items(&dataset(folder.path(), lines)).unwrap().into_iter().map(|item| item.key).collect()
    };
    let (a, b) = ("{\"prompt\": \"a\"}", "{\"prompt\": \" b \"}");
    let first = keys(&[a, a, b]);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(keys(&["{\"prompt\": \"b\"}", a, a]), [first[2].clone(), first[0].clone(), first[1].clone()]);
    let with_image = keys(&[
        "{\"prompt\": \"a\", \"image\": \"x\"}",
        "{\"prompt\": \"a\", \"image\": \"x\", \"cwd\": \"/\"}",
    ]);
    assert!(with_image[0] != first[0] && with_image[0] != with_image[1]);
}

#[tokio::test]
async fn connections_that_are_not_encrypted_stay_near() {
    let refused = async |address: &str| {
        let connected = RunQueue::connect(address, "r", QueueOptions::default()).await;
        connected.err().unwrap().to_string()
    };
    assert!(refused("postgresql://u:hush@db.example/x").await.contains("is not encrypted"));
    assert!(refused("postgresql://u:hush@localhost/x?sslmode=require").await.contains("is not encrypted"));
    let wrong = refused("postgresql://u:hush@[/x").await;
    assert!(wrong.contains("--queue is not an address") && !wrong.contains("hush"), "{wrong}");
}

#[tokio::test]
async fn peer_postgres_each_item_is_done_once_by_the_newest_claim() {
    let options = QueueOptions { lease: Duration::ZERO, max_attempts: 3 };
    let Some(queue) = queue(options).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let lines = prompts(&["a", "b"]);
    let items =
        queue_items(&dataset(folder.path(), &lines.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    assert_eq!(queue.enqueue(&items, "{}", "h").await.unwrap(), 2);
    assert_eq!(queue.enqueue(&items, "{}", "h").await.unwrap(), 0, "again, nothing is new");
    let first = queue.claim("one", 1).await.unwrap().remove(0);
    assert_eq!((first.index, first.payload.as_str()), (0, "{\"prompt\": \"a\"}"));
    // The lease has no length: another worker takes the item over.
    let second = queue.claim("two", 1).await.unwrap().remove(0);
    assert_eq!((second.index, second.fence), (0, first.fence + 1));
    assert!(!queue.extend(&first).await.unwrap() && queue.extend(&second).await.unwrap());
    let late = queue.close(&first, Some(("{\"late\": 1}", "{}", "[1, 1]"))).await.unwrap();
    assert_eq!(late, ItemClose::Fenced);
    let line = record(0, "a", "terminal");
    let closed = Some((line.as_str(), "{\"terminal\": [1, 1, 0]}", "[1, 1]"));
    assert_eq!(queue.close(&second, closed).await.unwrap(), ItemClose::Closed);
    assert_eq!(queue.close(&second, closed).await.unwrap(), ItemClose::Closed, "a lost reply is harmless");
    assert_eq!(queue.close(&first, None).await.unwrap(), ItemClose::Fenced);
    // Given back without being tried, it costs no attempt; tried too often, it is given up.
    for _ in 0..5 {
        let item = queue.claim("three", 1).await.unwrap().remove(0);
        queue.give_back(&item, GiveBack::Unused).await.unwrap();
    }
    for _ in 0..3 {
        let item = queue.claim("three", 1).await.unwrap().remove(0);
        queue.give_back(&item, GiveBack::Failed).await.unwrap();
    }
    assert_eq!(queue.claim("three", 1).await.unwrap(), []);
    let status = queue.status().await.unwrap();
    assert_eq!((status.done, status.dead, status.open(), status.total()), (1, 1, 0, 2));
    let target = folder.path().join("trajectories.jsonl");
    let mut finished = Vec::new();
    let (report, statistics) =
        export_run(&queue, &target, &["terminal".to_owned()], |index| finished.push(index)).await.unwrap();
    assert_eq!((report.merged, finished), (1, vec![0]));
    assert_eq!((statistics.tools["terminal"].count, statistics.reasoning.with_reasoning), (1, 1));
    assert_eq!(std::fs::read_to_string(&target).unwrap(), format!("{line}\n"));
}

#[tokio::test]
async fn peer_postgres_a_crashed_worker_is_counted_and_a_live_one_keeps_its_item() {
    let Some(queue) = queue(QueueOptions { max_attempts: 2, lease: Duration::ZERO }).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let items = queue_items(&dataset(folder.path(), &["{\"prompt\": \"a\"}"])).unwrap();
    queue.enqueue(&items, "{}", "h").await.unwrap();
    for _ in 0..2 {
        assert_eq!(queue.claim("dies", 9).await.unwrap().len(), 1);
    }
    // The third claim finds that it was tried twice.
    assert_eq!(queue.claim("dies", 9).await.unwrap(), []);
    assert_eq!(queue.status().await.unwrap().dead, 1);
}

#[tokio::test]
async fn peer_postgres_a_run_with_files_is_taken_over() {
    let Some(queue) = queue(QueueOptions::default()).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let lines = prompts(&["a", "b", "a", "c"]);
    let items =
        queue_items(&dataset(folder.path(), &lines.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    queue.enqueue(&items, "{}", "h").await.unwrap();
    let failed = record(3, "c", "terminal").replace("\"prompt_index\"", "\"failed\": true, \"prompt_index\"");
    let text = [
        record(2, "a", "terminal"),
        record(7, "b", "odd"),
        record(9, "zz", "terminal"),
        failed,
        "torn".to_owned(),
    ];
    std::fs::write(folder.path().join("batch_0.jsonl"), text.join("\n")).unwrap();
    let report = import_run(&queue, folder.path()).await.unwrap();
    assert_eq!((report.imported, report.left_out), (2, 1));
    let again = import_run(&queue, folder.path()).await.unwrap();
    assert_eq!(again.imported, 1, "the record of `a` fits the other `a`, too");
    let claimed = queue.claim("one", 9).await.unwrap();
    assert_eq!(claimed.iter().map(|item| item.index).collect::<Vec<_>>(), [3]);
    let target = folder.path().join("trajectories.jsonl");
    let (report, _) = export_run(&queue, &target, &["terminal".to_owned()], |_| ()).await.unwrap();
    assert_eq!((report.merged, report.dropped.len()), (2, 1));
}
