//! The queue in a real PostgreSQL server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::{Config, HttpClient};
use hermes_research::{
    Dataset, GiveBack, ItemClose, ItemRecord, ItemResult, LeasedItem, QueueOptions, RunQueue, export_run,
    import_run, queue_items,
};
use hermes_testkit::{RealClock, peer_is_missing};
use hermes_types::{Clock as _, random_hex};

/// Returns a queue of a run of its own; prints a message and returns `None` where there is no server.
#[expect(clippy::disallowed_methods, reason = "the script that starts the server says there where it is")]
async fn queue(options: QueueOptions) -> Option<RunQueue> {
    let Ok(address) = std::env::var("HERMES_TEST_POSTGRES") else {
        peer_is_missing("HERMES_TEST_POSTGRES is not set (scripts/peers/postgres start)");
        return None;
    };
    let run = format!("test-{}", random_hex(12));
    Some(RunQueue::connect(&address, &run, options, &net()).await.unwrap())
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

fn result(item: &LeasedItem, line: Option<&str>) -> ItemResult {
    let record = line.map(|line| ItemRecord {
        line: line.to_owned(),
        tools: "{\"terminal\": [1, 1, 0]}".to_owned(),
        reasoning: "[1, 1]".to_owned(),
    });
    ItemResult { item: item.clone(), record }
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

fn net() -> HttpClient {
    HttpClient::new(Config::new(Arc::new(RealClock::default()))).unwrap()
}

#[tokio::test]
async fn addresses_that_cannot_be_used_are_refused_without_their_password() {
    let refused = async |address: &str| {
        let connected = RunQueue::connect(address, "r", QueueOptions::default(), &net()).await;
        connected.err().unwrap().to_string()
    };
    let wrong = refused("postgresql://u:hush@[/x").await;
    assert!(wrong.contains("--queue is not an address") && !wrong.contains("hush"), "{wrong}");
    let wrong =
        refused("postgresql://u:hush@db.example/x?sslmode=verify-full&sslrootcert=/no/such/file").await;
    assert!(wrong.contains("/no/such/file") && !wrong.contains("hush"), "{wrong}");
}

/// Passes a connection on and returns the first bytes of the client. The server's side is ended without an answer.
async fn first_bytes(address_of: impl Fn(u16) -> String) -> Vec<u8> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = address_of(listener.local_addr().unwrap().port());
    let received = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 8];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut bytes).await.unwrap();
        bytes
    };
    let client = net();
    let connect = RunQueue::connect(&address, "r", QueueOptions::default(), &client);
    let (bytes, connected) = tokio::join!(received, connect);
    assert!(connected.is_err());
    bytes
}

#[tokio::test]
async fn another_machine_is_asked_for_encryption_first() {
    // The request for encryption: its length, and its number.
    let request = [0, 0, 0, 8, 4, 210, 22, 47];
    let far = |port: u16| format!("postgresql://u:hush@db.example:{port}/x?hostaddr=127.0.0.1");
    assert_eq!(first_bytes(far).await, request);
    let named = |port: u16| format!("postgresql://u:hush@localhost:{port}/x?sslmode=verify-full");
    assert_eq!(first_bytes(named).await, request);
    let near = |port: u16| format!("postgresql://u:hush@localhost:{port}/x");
    assert_ne!(first_bytes(near).await, request);
    let open =
        |port: u16| format!("postgresql://u:hush@db.example:{port}/x?hostaddr=127.0.0.1&sslmode=disable");
    assert_ne!(first_bytes(open).await, request);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the script that starts the server says there where it is")]
async fn peer_postgres_encrypted_connections_need_a_certificate_that_is_trusted() {
    let found = std::env::var("HERMES_TEST_POSTGRES").ok().zip(std::env::var("HERMES_TEST_POSTGRES_CA").ok());
    let Some((address, authority)) = found else {
        return peer_is_missing("HERMES_TEST_POSTGRES_CA is not set (scripts/peers/postgres start)");
    };
    let connect = async |more: &str| {
        let address = format!("{address}?{more}");
        RunQueue::connect(&address, &format!("test-{}", random_hex(12)), QueueOptions::default(), &net())
            .await
    };
    let trusted = connect(&format!("sslmode=verify-full&sslrootcert={authority}")).await.unwrap();
    assert_eq!(trusted.status().await.unwrap().total(), 0);
    for mode in ["sslmode=require", "sslmode=verify-full"] {
        let refused = connect(mode).await.err().unwrap().to_string();
        assert!(refused.contains("certificate"), "{mode}: {refused}");
    }
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
    let late = result(&first, Some("{\"late\": 1}"));
    assert_eq!(queue.close(std::slice::from_ref(&late)).await.unwrap(), [ItemClose::Fenced]);
    let line = record(0, "a", "terminal");
    let own = result(&second, Some(&line));
    // The late one does not take part in what is written with it.
    assert_eq!(queue.close(&[late, own.clone()]).await.unwrap(), [ItemClose::Fenced, ItemClose::Closed]);
    assert_eq!(queue.close(&[own]).await.unwrap(), [ItemClose::Closed], "a lost reply is harmless");
    assert_eq!(queue.close(&[result(&first, None)]).await.unwrap(), [ItemClose::Fenced]);
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
async fn peer_postgres_results_of_several_items_are_written_together() {
    let Some(queue) = queue(QueueOptions::default()).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let lines = prompts(&["a", "b", "c", "d"]);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    queue.enqueue(&queue_items(&dataset(folder.path(), &lines)).unwrap(), "{}", "h").await.unwrap();
    let mut items = queue.claim("one", 4).await.unwrap();
    items.sort_unstable_by_key(|item| item.index);
    assert_eq!(items.len(), 4);
    let written: Vec<String> = (0..4).map(|at| record(at, "x", "terminal")).collect();
    let results =
        [result(&items[2], Some(&written[2])), result(&items[1], None), result(&items[0], Some(&written[0]))];
    assert_eq!(queue.close(&results).await.unwrap(), [ItemClose::Closed; 3]);
    // A record that cannot be stored takes back what was written with it, and nothing else.
    let broken = [result(&items[3], Some("a\0b"))];
    assert!(queue.close(&broken).await.is_err());
    assert_eq!(queue.close(&[]).await.unwrap(), []);
    let status = queue.status().await.unwrap();
    assert_eq!((status.done, status.discarded, status.leased), (2, 1, 1));
    let target = folder.path().join("trajectories.jsonl");
    export_run(&queue, &target, &["terminal".to_owned()], |_| {}).await.unwrap();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), format!("{}\n{}\n", written[0], written[2]));
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints how many claims a database answers"]
#[expect(clippy::disallowed_methods, reason = "the script that starts the server says there where it is")]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures"
)]
async fn peer_postgres_claims_of_a_thousand_workers() {
    const WORKERS: usize = 1000;
    const CONNECTIONS: usize = 50;
    const ITEMS: usize = 10_000;
    /// What is left for the second part.
    const HAMMERED: usize = 8_000;
    let Ok(address) = std::env::var("HERMES_TEST_POSTGRES") else {
        return peer_is_missing("HERMES_TEST_POSTGRES is not set (scripts/peers/postgres start)");
    };
    let run = format!("test-{}", random_hex(12));
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..ITEMS).map(|at| format!("{{\"prompt\": \"p{at}\"}}")).collect();
    let lines: Vec<&str> = names.iter().map(String::as_str).collect();
    let items = queue_items(&dataset(folder.path(), &lines)).unwrap();
    let mut queues = Vec::new();
    for _ in 0..CONNECTIONS {
        let queue = RunQueue::connect(&address, &run, QueueOptions::default(), &net()).await.unwrap();
        queues.push(Arc::new(queue));
    }
    queues[0].enqueue(&items, "{}", "hash").await.unwrap();
    let clock = RealClock::default();
    let began = clock.monotonic();
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let (queue, clock) = (queues[worker % CONNECTIONS].clone(), clock.clone());
        tasks.spawn(async move {
            let mut taken = Vec::new();
            loop {
                let before = clock.monotonic();
                let claimed = queue.claim(&format!("worker {worker}"), 1).await.unwrap();
                taken.push(clock.monotonic().saturating_sub(before).as_secs_f64() * 1000.0);
                if claimed.is_empty() || taken.len() >= HAMMERED / WORKERS {
                    return taken;
                }
            }
        });
    }
    let mut latencies: Vec<f64> = tasks.join_all().await.into_iter().flatten().collect();
    let seconds = clock.monotonic().saturating_sub(began).as_secs_f64();
    latencies.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let pace = Duration::from_millis(10);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let (queue, clock) = (queues[worker % CONNECTIONS].clone(), clock.clone());
        tasks.spawn(async move {
            clock.sleep(pace * u32::try_from(worker).unwrap()).await;
            let before = clock.monotonic();
            queue.claim(&format!("worker {worker}"), 1).await.unwrap();
            clock.monotonic().saturating_sub(before).as_secs_f64() * 1000.0
        });
    }
    let mut paced = tasks.join_all().await;
    paced.sort_unstable_by(f64::total_cmp);
    println!("100 claims/s: median {:.1} ms, p99 {:.1} ms", paced[WORKERS / 2], paced[WORKERS * 99 / 100]);
    println!(
        "{WORKERS} workers, {} claims in {seconds:.1} s: {:.0} claims/s, median {:.0} ms, p99 {:.0} ms. \
         With rollouts of 3 minutes, {WORKERS} workers need {:.1} claims/s.",
        latencies.len(),
        latencies.len() as f64 / seconds,
        at(0.5),
        at(0.99),
        WORKERS as f64 / 180.0
    );
}
