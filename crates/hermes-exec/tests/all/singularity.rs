//! Tests of instances with a fake client program, which records its arguments and runs commands on this
//! machine.

use std::path::Path;
use std::sync::Arc;

use hermes_exec::{
    ForwardedVariables, InstanceRetention, OutputBounds, ResourceLimits, SingularityEnvironment,
    SingularityHost, SingularityHostOptions, SingularityOptions, Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, RunError};
use tempfile::TempDir;

use super::remote::{RemoteFixture, ends_what_it_started, keeps_its_state, speaks_plainly, takes_input};

const STAND_IN: &str = r#"#!/bin/bash
at=$(dirname "$0")
case "$1 $2" in
    "version "*) echo 1.3.0 ;;
    "instance start") echo "$@" >> "$at/asked"; touch "$at/running-${@: -1}" ;;
    "instance stop") echo "$1 $2" >> "$at/asked"; rm "$at/running-$3" 2>/dev/null || { echo "no instance found"; exit 255; } ;;
    "instance list") ls "$at" | grep -o "$3" ;;
    "build "*) echo "build $3 $APPTAINER_CACHEDIR" >> "$at/asked"; [ ! -e "$at/no-build" ] && touch "$2" ;;
    "exec "*)
        shift; while [ "$1" != bash ]; do last=$1; shift; done
        [ -e "$at/running-${last#instance://}" ] || { echo "FATAL: no instance found"; exit 255; }
        exec "$@" ;;
    *) echo "unknown: $*"; exit 2 ;;
esac
"#;

struct Cluster {
    folder: TempDir,
    host: Arc<SingularityHost>,
}

impl Cluster {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("apptainer");
        std::fs::write(&program, STAND_IN).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let home = folder.path().to_str().unwrap();
        let variables = Variables::for_commands([("PATH", path.as_str()), ("HOME", home)], &[], &[]);
        let options = SingularityHostOptions {
            scratch: folder.path().join("scratch"),
            cache: None,
            records: folder.path().join("singularity_snapshots.json"),
            disk_warning: 500,
        };
        let host = SingularityHost::find(options, variables, Arc::new(SystemClock::new())).unwrap();
        Self { folder, host }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn open(&self, task: &str, keep: InstanceRetention) -> Arc<SingularityEnvironment> {
        self.host.open(SingularityOptions {
            task: task.to_owned(),
            image: "docker://python:3.11-slim".to_owned(),
            directory: Some("/tmp".to_owned()),
            exports: ForwardedVariables::default(),
            limits: ResourceLimits { cpus: 1.0, memory_mb: 64, disk_mb: 0 },
            retention: keep,
            bounds: OutputBounds::default(),
        })
    }

    /// Returns the recorded arguments, without the parts that differ each time.
    fn asked(&self) -> Vec<String> {
        let asked = std::fs::read_to_string(self.path().join("asked")).unwrap_or_default();
        let here = self.path().to_str().unwrap();
        let shorten = |line: &str| {
            let line = line.replace(here, "HERE");
            line.split_once(" hermes_").map_or(line.clone(), |(front, _)| front.to_owned())
        };
        asked.lines().map(shorten).collect()
    }
}

#[tokio::test]
async fn commands_run_as_they_do_here() {
    let cluster = Cluster::new();
    let place = cluster.open("plain", InstanceRetention::Ephemeral);
    speaks_plainly(RemoteFixture(&*place)).await;
    takes_input(RemoteFixture(&*place)).await;
    keeps_its_state(RemoteFixture(&*place), cluster.path().join("x").to_str().unwrap()).await;
    ends_what_it_started(RemoteFixture(&*place)).await;
    place.close().await;
}

#[tokio::test]
async fn an_image_is_built_once_and_an_overlay_kept() {
    let cluster = Cluster::new();
    let place = cluster.open("a/b", InstanceRetention::Persistent);
    let (one, other) =
        tokio::join!(RemoteFixture(&*place).run("echo 1"), RemoteFixture(&*place).run("echo 2"));
    assert_eq!((one.output.as_str(), other.output.as_str()), ("1\n", "2\n"));
    place.close().await;
    place.close().await;
    let again = cluster.open("again", InstanceRetention::Ephemeral);
    RemoteFixture(&*again).check("true", "").await;
    let image = "--memory 64M --cpus 1 HERE/scratch/.apptainer/python-3.11-slim.sif";
    let overlay = "HERE/scratch/hermes-overlays/overlay-t_a_b-d8fff47f6fb3aa8e".to_owned();
    let mut asked = cluster.asked();
    let started = asked.remove(1);
    assert!(
        started.starts_with(
            "instance start --containall --no-home --overlay HERE/scratch/hermes-overlays/overlay-t_a_b-"
        ),
        "{started} {overlay}"
    );
    assert!(started.ends_with(image), "{started}");
    assert_eq!(
        asked,
        [
            "build docker://python:3.11-slim HERE/scratch/.apptainer".to_owned(),
            "instance stop".to_owned(),
            format!("instance start --containall --no-home --writable-tmpfs {image}"),
        ]
    );
    let records = std::fs::read_to_string(cluster.path().join("singularity_snapshots.json")).unwrap();
    assert!(records.starts_with("{\"a/b\":\""), "{records}");
    again.close().await;
}

#[tokio::test]
async fn an_image_that_cannot_be_built_is_used_by_its_address() {
    let cluster = Cluster::new();
    std::fs::write(cluster.path().join("no-build"), "").unwrap();
    let place = cluster.open("t", InstanceRetention::Ephemeral);
    RemoteFixture(&*place).check("echo ran", "ran\n").await;
    place.close().await;
    assert!(cluster.asked()[1].ends_with("docker://python:3.11-slim"), "{:?}", cluster.asked());
}

#[tokio::test]
async fn an_instance_that_is_gone_is_started_anew() {
    let cluster = Cluster::new();
    let place = cluster.open("t", InstanceRetention::Ephemeral);
    RemoteFixture(&*place).check("cd /usr", "").await;
    for entry in std::fs::read_dir(cluster.path()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("running-") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    RemoteFixture(&*place).check("pwd", "/usr\n").await;
    drop(place);
    let running = || {
        let all = std::fs::read_dir(cluster.path()).unwrap().flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with("running-")).count()
    };
    super::support::until(|| running() == 0).await;
}

#[tokio::test]
async fn a_program_that_is_missing_is_named() {
    let variables = Variables::for_commands([("PATH", "/usr/bin:/no/such")], &[], &[]);
    let options =
        SingularityHostOptions { scratch: "/s".into(), cache: None, records: "/r".into(), disk_warning: 1 };
    let host = SingularityHost::with_program(
        "/no/apptainer".into(),
        options,
        variables,
        Arc::new(SystemClock::new()),
    );
    let failed = host.check(&Cancel::new()).await;
    assert!(
        matches!(&failed, Err(RunError::Unavailable(text)) if text.contains("/no/apptainer")),
        "{failed:?}"
    );
}
