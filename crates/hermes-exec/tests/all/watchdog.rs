//! Nothing that Hermes starts outlives it: the watchdog process is no child, and ends with the processes it
//! watches.

use std::fs;

use super::support::{LocalFixture, lives, until};

fn children() -> usize {
    let me = std::process::id().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(&me)))
        .count()
}

#[tokio::test]
async fn a_command_that_has_ended_leaves_no_child_behind() {
    let place = LocalFixture::new();
    place.check("echo $$ > pid; echo hi", "hi\n").await;
    until(|| children() == 0).await;
    assert!(!lives(&fs::read_to_string(place.path().join("pid")).unwrap()));
}
