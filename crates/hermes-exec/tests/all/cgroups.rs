//! Ending a command ends all processes it started, also those that left its group; what a command leaves
//! running on purpose lives.
//!
//! The tests need a control group that may be divided. Where there is none (containers, users without a
//! session of their own), they say so and are skipped.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hermes_exec::{RecoveredProcess, TerminalMode};
use hermes_task::SystemClock;
use hermes_testkit::divisible_group;
use hermes_types::{Cancel, Clock};

use super::support::{LONG, LocalFixture, lives, until};

/// A process that left the group, one that also lost its parent, and one of those that ignores termination
/// requests.
const FAMILY: &str = "\
    setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 600' & \
    (setsid sh -c 'echo $$ > orphan.new; mv orphan.new orphan; exec sleep 600' &) ; \
    (setsid sh -c 'trap \"\" TERM; echo $$ > deaf.new; mv deaf.new deaf; while :; do sleep 1; done' &) ; \
    while ! [ -e left ] || ! [ -e orphan ] || ! [ -e deaf ]; do sleep 0.01; done; \
    echo $$ > leader.new; mv leader.new leader; ";
const MEMBERS: [&str; 3] = ["left", "orphan", "deaf"];

/// Returns the control groups that the process with this pid has made.
fn cells_of(own: &Path, maker: u32) -> Vec<String> {
    let names =
        fs::read_dir(own).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("hermes-{maker}-"))).collect()
}

impl LocalFixture {
    fn pid(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap().trim().to_owned()
    }

    async fn has_a_family(&self) {
        let file = self.path().join("leader");
        until(|| file.exists()).await;
    }

    async fn has_a_cell(&self) {
        for name in ["leader"].iter().chain(&MEMBERS) {
            let group = format!("/proc/{}/cgroup", self.pid(name));
            until(|| fs::read_to_string(&group).is_ok_and(|text| text.contains("hermes-"))).await;
        }
    }

    async fn family_is_gone(&self, own: &Path, maker: u32) {
        for name in MEMBERS {
            until(|| !lives(&self.pid(name))).await;
        }
        until(|| cells_of(own, maker).is_empty()).await;
    }
}

/// Selects when a command is ended: before it has a control group, or with one.
#[derive(Clone, Copy, PartialEq)]
enum Age {
    Young,
    Grown,
}

#[tokio::test]
async fn an_interrupt_and_a_time_out_end_those_who_left() {
    let Some(own) = divisible_group() else { return };
    for age in [Age::Young, Age::Grown] {
        let place = LocalFixture::new();
        let cancel = Cancel::new();
        let command = format!("{FAMILY} sleep 600");
        let (finished, ()) = tokio::join!(place.run_with(&command, None, LONG, &cancel), async {
            place.has_a_family().await;
            if age == Age::Grown {
                place.has_a_cell().await;
            }
            cancel.cancel();
        });
        assert_eq!(finished.exit_code, 130);
        place.family_is_gone(&own, std::process::id()).await;
    }
    let place = LocalFixture::new();
    let finished =
        place.run_with(&format!("{FAMILY} sleep 600"), None, Duration::from_secs(2), &Cancel::new()).await;
    assert_eq!(finished.exit_code, 124);
    place.family_is_gone(&own, std::process::id()).await;
}

#[tokio::test]
async fn a_dropped_call_ends_those_who_left() {
    let Some(own) = divisible_group() else { return };
    for age in [Age::Young, Age::Grown] {
        let place = LocalFixture::new();
        {
            let cancel = Cancel::new();
            let command = format!("{FAMILY} sleep 600");
            let mut call = std::pin::pin!(place.run_with(&command, None, LONG, &cancel));
            tokio::select! {
                _ = &mut call => panic!("it cannot end"),
                () = async {
                    place.has_a_family().await;
                    if age == Age::Grown {
                        place.has_a_cell().await;
                    }
                } => {}
            }
        }
        place.family_is_gone(&own, std::process::id()).await;
    }
}

#[tokio::test]
async fn killing_a_background_process_ends_those_who_left() {
    let Some(own) = divisible_group() else { return };
    for screen in [TerminalMode::None, TerminalMode::Pty] {
        let place = LocalFixture::new();
        let process =
            place.local.start(&format!("{FAMILY} sleep 600"), None, screen, &Cancel::new()).await.unwrap();
        place.has_a_family().await;
        place.has_a_cell().await;
        assert_eq!(process.kill().await, -15);
        place.family_is_gone(&own, std::process::id()).await;
    }
}

#[tokio::test]
async fn what_was_put_into_a_group_of_another_kind_is_left_to_who_did_it() {
    let Some(own) = divisible_group() else { return };
    let other = own.join(format!("other-{}", std::process::id()));
    fs::create_dir(&other).unwrap();
    for age in [Age::Young, Age::Grown] {
        let place = LocalFixture::new();
        let cancel = Cancel::new();
        let moved = format!(
            "(setsid sh -c 'echo $$ > {}/cgroup.procs; echo $$ > m.new; mv m.new moved; exec sleep 600' &) ; \
             while ! [ -e moved ]; do sleep 0.01; done; {FAMILY} sleep 600",
            other.display()
        );
        tokio::join!(place.run_with(&moved, None, LONG, &cancel), async {
            place.has_a_family().await;
            if age == Age::Grown {
                place.has_a_cell().await;
            }
            cancel.cancel();
        });
        place.family_is_gone(&own, std::process::id()).await;
        let pid = place.pid("moved");
        let is_there = fs::read_to_string(other.join("cgroup.procs")).unwrap().contains(&pid);
        place.check(&format!("kill -9 {pid}"), "").await;
        assert!(is_there, "it lives, and where it was put");
    }
    until(|| fs::remove_dir(&other).is_ok()).await;
}

#[tokio::test]
async fn a_daemon_of_a_command_that_ended_well_lives() {
    let Some(own) = divisible_group() else { return };
    let place = LocalFixture::new();
    let cancel = Cancel::new();
    let command = format!("{FAMILY} while ! [ -e go ]; do sleep 0.01; done; echo done");
    let (finished, ()) = tokio::join!(place.run_with(&command, None, LONG, &cancel), async {
        place.has_a_family().await;
        place.has_a_cell().await;
        fs::write(place.path().join("go"), "").unwrap();
    });
    assert_eq!((finished.output.as_str(), finished.exit_code), ("done\n", 0));
    until(|| cells_of(&own, std::process::id()).is_empty()).await;
    for name in MEMBERS {
        assert!(lives(&place.pid(name)), "{name} goes on");
        place.check(&format!("kill -9 {}", place.pid(name)), "").await;
    }
}

#[tokio::test]
async fn short_commands_cost_no_cell() {
    let Some(own) = divisible_group() else { return };
    let place = LocalFixture::new();
    let clock = SystemClock::new();
    place.check("true", "").await;
    until(|| cells_of(&own, std::process::id()).is_empty()).await;
    for _ in 0..200 {
        let start = clock.monotonic();
        place.check("true", "").await;
        let made = cells_of(&own, std::process::id());
        // On a machine so busy that `true` takes that long, the command may get a control group.
        let is_short = clock.monotonic().saturating_sub(start) < Duration::from_millis(150);
        assert!(made.is_empty() || !is_short, "{made:?}");
    }
}

/// Runs until it is killed. These are not tests by themselves: the tests below start them in a process of
/// their own and kill it.
#[tokio::test]
#[ignore = "it never ends; a test below runs it"]
async fn a_family_that_never_ends() {
    in_this_folder().run(&format!("{FAMILY} sleep 600")).await;
}

#[tokio::test]
#[ignore = "it never ends; a test below runs it"]
async fn a_background_family_that_never_ends() {
    let place = in_this_folder();
    let command = format!("{FAMILY} sleep 600");
    let process = place.local.start(&command, None, TerminalMode::None, &Cancel::new()).await.unwrap();
    // Until its start has returned, a background process ends with Hermes too.
    fs::write("started", "").unwrap();
    process.ended().await;
}

fn in_this_folder() -> LocalFixture {
    let mut place = LocalFixture::new();
    place.local = place.host.open(std::env::current_dir().unwrap());
    place
}

/// Runs one of the two in a process of its own until it has a control group, and a file if one is named, and kills that
/// process.
async fn start_and_kill(place: &LocalFixture, test: &str, file: Option<&str>) -> u32 {
    let program = std::env::current_exe().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the process that is killed is this test program itself")]
    let mut helper = std::process::Command::new(program)
        .args(["--ignored", "--exact", &format!("all::cgroups::{test}")])
        .current_dir(place.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    place.has_a_family().await;
    place.has_a_cell().await;
    if let Some(file) = file {
        let file = place.path().join(file);
        until(|| file.exists()).await;
    }
    helper.kill().unwrap();
    helper.wait().unwrap();
    helper.id()
}

#[tokio::test]
async fn those_who_left_die_with_us() {
    let Some(own) = divisible_group() else { return };
    let place = LocalFixture::new();
    let maker = start_and_kill(&place, "a_family_that_never_ends", None).await;
    place.family_is_gone(&own, maker).await;
}

#[tokio::test]
async fn a_survivor_ends_with_all_it_started() {
    let Some(own) = divisible_group() else { return };
    let place = LocalFixture::new();
    let maker = start_and_kill(&place, "a_background_family_that_never_ends", Some("started")).await;
    let leader = place.pid("leader");
    let survivor = RecoveredProcess::find(leader.parse().unwrap(), None).unwrap();
    for name in MEMBERS {
        assert!(lives(&place.pid(name)), "{name} goes on");
    }
    until(|| cells_of(&own, maker).is_empty()).await;
    survivor.kill(&SystemClock::new()).await;
    until(|| !lives(&leader)).await;
    place.family_is_gone(&own, std::process::id()).await;
}
