//! The write-ahead log beside the file.

use hermes_store::NewMessage;
use hermes_types::{Message, Timestamp};

use super::support::store_fixture;

#[test]
fn the_log_does_not_grow_without_end_and_is_gone_after_closing() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    let log = place.folder.path().join("state.db-wal");
    let mut longest = 0;
    // Many messages are written at once, so that there is always another write while the log is written back.
    for _ in 0..40 {
        let owed: Vec<_> = (0..400)
            .map(|at| {
                let message = Message::user(format!("message {at} {}", "x".repeat(2000)));
                place.store.append(&session, NewMessage::new(message, Timestamp(2.0)))
            })
            .collect();
        for owed in owed {
            owed.wait().unwrap();
        }
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    assert!(longest < 64 * 1024 * 1024, "{longest}");
    place.store.close().wait().unwrap();
    assert!(!log.exists());
    assert_eq!(
        place.sql().query_row("SELECT COUNT(*) FROM messages", [], |row| row.get::<_, i64>(0)).unwrap(),
        16_000
    );
}

#[test]
fn a_long_log_that_processes_left_is_written_back_at_the_next_start() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    let log = place.folder.path().join("state.db-wal");
    // A reader keeps the log from being written back, which leaves it as long as killed processes would.
    let reader = place.sql();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM messages").unwrap();
    for at in 0..150 {
        let message = Message::user(format!("message {at} {}", "x".repeat(100_000)));
        place.store.append(&session, NewMessage::new(message, Timestamp(2.0))).wait().unwrap();
    }
    place.store.close().wait().unwrap();
    reader.execute_batch("COMMIT").unwrap();
    let long = std::fs::metadata(&log).unwrap().len();
    assert!(long > 10 * 1024 * 1024, "{long}");
    let next = hermes_store::Store::open(&place.db()).unwrap();
    next.probe().wait().unwrap();
    let short = std::fs::metadata(&log).unwrap().len();
    assert!(short < 1024 * 1024, "{short} of {long} bytes are left");
    // Without this reader, the last connection to close would also have written the log back.
    drop(reader);
}
