//! The arguments of `docker run`. The functions are pure: the same options give the same arguments.

use std::path::{Path, PathBuf};

use super::{ContainerNetwork, DockerOptions, InstanceRetention, RootFilesystem};
use crate::remote::safe_name;

const HOME: &str = "/root";
const WORKSPACE: &str = "/workspace";
/// The command that keeps a container running until it is removed by its Hermes process, or by the next one
/// if that was killed. The time is in seconds, because not every `sleep` accepts another unit.
const LIFE: [&str; 2] = ["sleep", "2147483647"];
/// The command for a container without an init process: a waiting shell reaps orphaned processes.
const LIFE_OF_REAPER: [&str; 3] = ["bash", "-c", "sleep 2147483647 & wait"];
/// The security options. `DAC_OVERRIDE` and similar capabilities let root in the container write to folders
/// that belong to the user outside.
const SECURITY: [&str; 18] = [
    "--cap-drop",
    "ALL",
    "--cap-add",
    "DAC_OVERRIDE",
    "--cap-add",
    "CHOWN",
    "--cap-add",
    "FOWNER",
    "--security-opt",
    "no-new-privileges",
    "--pids-limit",
    "256",
    "--tmpfs",
    "/tmp:rw,nosuid,size=512m",
    "--tmpfs",
    "/var/tmp:rw,noexec,nosuid,size=256m",
    "--tmpfs",
    "/run:rw,noexec,nosuid,size=64m",
];

/// The label that names the process a container belongs to.
pub(crate) const OWNER_LABEL: &str = "hermes-owner";

/// Describes what the engine was found to support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineFeatures {
    /// Tells whether the engine can limit the disk space of a container.
    pub(crate) disk_limit: DiskLimitSupport,
    pub(crate) init: InitProcess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskLimitSupport {
    Supported,
    Unsupported,
}

/// Selects the process that reaps orphans, which would otherwise use up the limit on processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InitProcess {
    Engine,
    Missing,
}

pub(crate) fn run_arguments(
    options: &DockerOptions,
    name: &str,
    owner: &str,
    abilities: EngineFeatures,
) -> Vec<String> {
    let mut words = ArgumentList(vec!["run".to_owned()]);
    words.add(["-d", "--rm", "--name", name]);
    words.add([
        "--label",
        "hermes-agent=1",
        "--label",
        &format!("hermes-task-id={}", safe_name(&options.task)),
        "--label",
        &format!("{OWNER_LABEL}={owner}"),
    ]);
    if abilities.init == InitProcess::Engine {
        words.add(["--init"]);
    }
    words.add(["-w", &directory(options)]);
    words.add(SECURITY);
    if options.root == RootFilesystem::ReadOnly {
        // Packages are installed in the home folder, which is writable.
        words.add(["--read-only", "-e", "PIP_USER=1"]);
    }
    let mounted = host_folder(options);
    let workspace_taken = mounted.is_some() || takes_workspace(&options.volumes);
    match options.retention {
        InstanceRetention::Persistent => {
            let folders = PersistentFolders::of(options);
            words.volume(&folders.home, HOME);
            if !workspace_taken {
                words.volume(&folders.workspace, WORKSPACE);
            }
        }
        InstanceRetention::Ephemeral => {
            if !workspace_taken {
                words.add(["--tmpfs", "/workspace:rw,exec,size=10g"]);
            }
            words.add(["--tmpfs", "/home:rw,exec,size=1g", "--tmpfs", "/root:rw,exec,size=1g"]);
        }
    }
    let limits = &options.limits;
    if limits.cpus > 0.0 {
        words.add(["--cpus", &limits.cpus.to_string()]);
    }
    if limits.memory_mb > 0 {
        words.add(["--memory", &format!("{}m", limits.memory_mb)]);
    }
    if limits.disk_mb > 0 && abilities.disk_limit == DiskLimitSupport::Supported {
        words.add(["--storage-opt", &format!("size={}m", limits.disk_mb)]);
    }
    if options.network == ContainerNetwork::Off {
        words.add(["--network=none"]);
    }
    if let Some(folder) = mounted {
        words.volume(folder, WORKSPACE);
    }
    for volume in options.volumes.iter().filter(|volume| volume.contains(':')) {
        words.add(["-v", volume]);
    }
    for file in &options.credentials {
        words.add(["-v", &format!("{}:{HOME}/.hermes/{}:ro", file.host.display(), file.relative)]);
    }
    words.add([options.image.as_str()]);
    match abilities.init {
        InitProcess::Engine => words.add(LIFE),
        InitProcess::Missing => words.add(LIFE_OF_REAPER),
    }
    words.0
}

/// Returns the folder in which commands begin. A folder that can only exist on the host is not passed on,
/// because `docker run` would refuse it.
pub(crate) fn directory(options: &DockerOptions) -> String {
    if host_folder(options).is_some() {
        return WORKSPACE.to_owned();
    }
    container_directory(options.directory.as_deref())
}

/// Returns the configured folder if it can exist inside a container, else the home of the container.
pub(crate) fn container_directory(configured: Option<&str>) -> String {
    let Some(wanted) = configured.map(str::trim) else { return HOME.to_owned() };
    if wanted == "~" {
        return HOME.to_owned();
    }
    if let Some(below) = wanted.strip_prefix("~/") {
        return format!("{HOME}/{below}");
    }
    let of_host = ["/Users/", "/home/", "C:\\", "C:/"].iter().any(|start| wanted.starts_with(start));
    if wanted.starts_with('/') && !of_host { wanted.to_owned() } else { HOME.to_owned() }
}

/// The two folders that a persistent container keeps on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PersistentFolders {
    pub(crate) home: PathBuf,
    pub(crate) workspace: PathBuf,
}

impl PersistentFolders {
    pub(crate) fn of(options: &DockerOptions) -> Self {
        let folder = options.sandboxes.join("docker").join(safe_name(&options.task));
        Self { home: folder.join("home"), workspace: folder.join("workspace") }
    }
}

/// Returns the user's own folder, unless a configured volume replaces it.
fn host_folder(options: &DockerOptions) -> Option<&Path> {
    options.mount.as_deref().filter(|folder| folder.is_dir() && !takes_workspace(&options.volumes))
}

fn takes_workspace(volumes: &[String]) -> bool {
    let target =
        |volume: &String| volume.split(':').nth(1).map(|inside| inside.trim_end_matches('/') == WORKSPACE);
    volumes.iter().any(|volume| target(volume) == Some(true))
}

struct ArgumentList(Vec<String>);

impl ArgumentList {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(str::to_owned));
    }

    fn volume(&mut self, host: &Path, inside: &str) {
        self.add(["-v", &format!("{}:{inside}", host.display())]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ResourceLimits;
    use super::*;
    use crate::capture::OutputBounds;
    use crate::credential::CredentialFile;

    const START: &str = "run -d --rm --name hermes-1 --label hermes-agent=1 --label hermes-task-id=task --label hermes-owner=me --init";
    const SAFE: &str = "--cap-drop ALL --cap-add DAC_OVERRIDE --cap-add CHOWN --cap-add FOWNER \
        --security-opt no-new-privileges --pids-limit 256 --tmpfs /tmp:rw,nosuid,size=512m \
        --tmpfs /var/tmp:rw,noexec,nosuid,size=256m --tmpfs /run:rw,noexec,nosuid,size=64m";

    fn options() -> DockerOptions {
        DockerOptions {
            task: "task".to_owned(),
            image: "python:3.11-slim".to_owned(),
            directory: None,
            mount: None,
            sandboxes: PathBuf::from("/sb"),
            volumes: Vec::new(),
            credentials: Vec::new(),
            exports: crate::remote::ForwardedVariables::default(),
            limits: ResourceLimits { cpus: 1.0, memory_mb: 5120, disk_mb: 51200 },
            network: ContainerNetwork::On,
            root: RootFilesystem::ReadOnly,
            retention: InstanceRetention::Persistent,
            bounds: OutputBounds::default(),
        }
    }

    fn check(options: &DockerOptions, abilities: EngineFeatures, rest: &str) {
        assert_eq!(run_arguments(options, "hermes-1", "me", abilities).join(" "), format!("{START} {rest}"));
    }

    const ALL: EngineFeatures =
        EngineFeatures { disk_limit: DiskLimitSupport::Supported, init: InitProcess::Engine };

    #[test]
    fn by_default_the_root_is_read_only_and_two_folders_last() {
        check(
            &options(),
            ALL,
            &format!(
                "-w /root {SAFE} --read-only -e PIP_USER=1 -v /sb/docker/task/home:/root \
                 -v /sb/docker/task/workspace:/workspace --cpus 1 --memory 5120m --storage-opt size=51200m \
                 python:3.11-slim sleep 2147483647"
            ),
        );
    }

    #[test]
    fn limits_and_hardening_can_be_taken_off_and_the_network_too() {
        let options = DockerOptions {
            limits: ResourceLimits { cpus: 1.5, memory_mb: 0, disk_mb: 10 },
            root: RootFilesystem::Writable,
            network: ContainerNetwork::Off,
            retention: InstanceRetention::Ephemeral,
            directory: Some("/srv".to_owned()),
            ..options()
        };
        check(
            &options,
            EngineFeatures { disk_limit: DiskLimitSupport::Unsupported, ..ALL },
            &format!(
                "-w /srv {SAFE} --tmpfs /workspace:rw,exec,size=10g --tmpfs /home:rw,exec,size=1g \
                 --tmpfs /root:rw,exec,size=1g --cpus 1.5 --network=none python:3.11-slim sleep 2147483647"
            ),
        );
        let words = run_arguments(&options, "x", "me", EngineFeatures { init: InitProcess::Missing, ..ALL });
        assert!(!words.iter().any(|word| word == "--init" || word.starts_with("--pull")));
        assert!(words.ends_with(&LIFE_OF_REAPER.map(str::to_owned)), "{words:?}");
    }

    #[test]
    fn the_users_folder_takes_the_place_of_the_workspace_and_a_volume_that_of_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let no_limits = ResourceLimits { cpus: 0.0, memory_mb: 0, disk_mb: 0 };
        let mounted = DockerOptions { mount: Some(folder.path().to_owned()), limits: no_limits, ..options() };
        check(
            &mounted,
            ALL,
            &format!(
                "-w /workspace {SAFE} --read-only -e PIP_USER=1 -v /sb/docker/task/home:/root -v {path}:/workspace \
                 python:3.11-slim sleep 2147483647"
            ),
        );
        let volumes = vec!["/data:/workspace/:ro".to_owned(), "no colon".to_owned(), "/x:/y".to_owned()];
        let file = CredentialFile { host: PathBuf::from("/h/token.json"), relative: "token.json".to_owned() };
        let both = DockerOptions { volumes, credentials: vec![file], ..mounted };
        check(
            &both,
            ALL,
            &format!(
                "-w /root {SAFE} --read-only -e PIP_USER=1 -v /sb/docker/task/home:/root -v /data:/workspace/:ro \
                 -v /x:/y -v /h/token.json:/root/.hermes/token.json:ro python:3.11-slim sleep 2147483647"
            ),
        );
        let gone = DockerOptions { mount: Some(PathBuf::from("/no/such/folder")), ..options() };
        assert_eq!(directory(&gone), "/root");
    }

    #[test]
    fn a_folder_of_the_host_does_not_reach_the_container() {
        for (configured, folder) in [
            (None, "/root"),
            (Some("~"), "/root"),
            (Some("~/x"), "/root/x"),
            (Some("src"), "/root"),
            (Some("./src"), "/root"),
            (Some("/Users/me"), "/root"),
            (Some("/home/me/x"), "/root"),
            (Some("C:\\x"), "/root"),
            (Some("C:/x"), "/root"),
            (Some("/srv/x"), "/srv/x"),
            (Some("/workspace"), "/workspace"),
        ] {
            assert_eq!(container_directory(configured), folder, "{configured:?}");
        }
    }
}
