//! Several processes use one file, and some of them are killed.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hermes_store::{NewMessage, NewSession, Store};
use hermes_types::{Message, SessionId, Timestamp, random_hex};

use super::support::store_fixture;

const FILE: &str = "HERMES_STORE_TEST_FILE";
const NAME: &str = "HERMES_STORE_TEST_WRITER";
const COUNT: &str = "HERMES_STORE_TEST_COUNT";

/// Runs as the other process: appends messages one by one and prints each once it was acknowledged.
#[test]
#[ignore = "not a test by itself: the tests below start it as a process"]
fn writer_process() {
    let path = std::env::var(FILE).unwrap();
    let name = std::env::var(NAME).unwrap();
    let count: usize = std::env::var(COUNT).unwrap().parse().unwrap();
    let store = Store::open(Path::new(&path)).unwrap();
    let session = NewSession::new(SessionId::new(name.as_str()), "cli", Timestamp(1.0));
    store.create_session(session.clone()).wait().unwrap();
    for number in 0..count {
        let text = format!("{name}-{number}");
        store
            .append(&session.id, NewMessage::new(Message::user(text.as_str()), Timestamp(1.0)))
            .wait()
            .unwrap();
        println!("acknowledged {text}");
    }
    println!("finished");
}

fn start_writer(path: &Path, name: &str, count: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "all::processes::writer_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILE, path)
        .env(NAME, name)
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what a writer acknowledged until it ends or `enough` were seen.
fn read_acknowledged(child: &mut Child, enough: usize) -> (HashSet<String>, bool) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = HashSet::new();
    let mut finished = false;
    for line in lines.map_while(Result::ok) {
        if let Some((_, text)) = line.split_once("acknowledged ") {
            seen.insert(text.to_owned());
            if seen.len() == enough {
                break;
            }
        }
        finished |= line.contains("finished");
    }
    (seen, finished)
}

#[test]
fn two_writers_one_of_them_killed_twenty_times_lose_nothing() {
    const EACH: usize = 10_000;
    const KILLS: usize = 20;
    let place = store_fixture();
    let path = place.db();

    let mut steady = start_writer(&path, "steady", EACH);
    let mut acknowledged = HashSet::new();
    let mut remaining = EACH;
    for round in 0..KILLS {
        let mut writer = start_writer(&path, &format!("killed{round}"), remaining);
        let random = usize::from_str_radix(&random_hex(6), 16).unwrap();
        let (seen, _) = read_acknowledged(&mut writer, 1 + random % (EACH / KILLS));
        writer.kill().unwrap();
        writer.wait().unwrap();
        remaining -= seen.len().min(remaining);
        acknowledged.extend(seen);
    }
    let mut last = start_writer(&path, "last", remaining);
    let (seen, finished) = read_acknowledged(&mut last, usize::MAX);
    let output = last.wait_with_output().unwrap();
    assert!(finished && output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    acknowledged.extend(seen);
    let (seen, finished) = read_acknowledged(&mut steady, usize::MAX);
    let output = steady.wait_with_output().unwrap();
    assert!(finished && output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    acknowledged.extend(seen);
    assert!(acknowledged.len() >= 2 * EACH, "{}", acknowledged.len());

    let connection = place.sql();
    let health: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
    let mut statement = connection.prepare("SELECT content FROM messages").unwrap();
    let stored: HashSet<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let lost: Vec<_> = acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "{} acknowledged messages are gone, such as {:?}", lost.len(), lost.first());
    let counts: i64 = connection
        .query_row(
            "SELECT COUNT(*) FROM sessions s WHERE message_count <> (SELECT COUNT(*) FROM messages WHERE session_id = s.id)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(counts, 0, "counters and messages are written together");
}

#[test]
fn readers_see_the_last_commit_while_a_writer_is_at_work() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    place.append_user_message(&session, "before", 1.0);
    let other = place.sql();
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', 'open', 2)").unwrap();
    // Another process has an open transaction, and reading does not wait for it.
    assert_eq!(place.store.transcript(&session).wait().unwrap().len(), 1);
    assert_eq!(place.listed(), ["s"]);
    // A write waits, retries, and succeeds once the other process has committed.
    let pending = place.store.append(&session, NewMessage::new(Message::user("after"), Timestamp(3.0)));
    other.execute_batch("COMMIT").unwrap();
    pending.wait().unwrap();
    assert_eq!(place.store.transcript(&session).wait().unwrap().len(), 3);
}
