//! Runs commands: the process guard and the environments that commands run in.
//!
//! This is the only crate that starts processes. Every child leads a process group of its own, inherits no
//! descriptor but its three standard ones, and is reaped. Ending a child ends all processes it started, and a
//! bound child dies with Hermes. The crate does not decide which commands are dangerous (`hermes-guard`) and
//! does not compose what the model reads (`hermes-tools`).

mod background;
mod capture;
mod cgroup;
mod child;
mod clip;
mod credential;
mod daytona;
mod docker;
mod group;
mod leftovers;
mod line_process;
mod local;
mod login;
mod mark;
mod memory;
mod modal;
mod output_stream;
mod owner;
mod piped_process;
mod process_tree;
mod procfs;
mod program;
mod re_exec;
mod recovered_process;
mod remote;
mod remote_backend;
mod ring;
mod run;
mod run_record;
mod sandbox;
mod script;
mod shell;
mod singularity;
mod snapshot;
mod spawner;
mod ssh;
mod stream;
mod tty_settings;
mod variable_blocklist;
mod variables;
mod watchdog;

pub use background::{BackgroundProcess, InputError, TerminalMode};
pub use capture::OutputBounds;
pub use clip::ClippedOutput;
pub use credential::{CredentialFile, CredentialFiles};
pub use daytona::{DaytonaAccount, DaytonaBackend, DaytonaEnvironment, DaytonaOptions};
pub use docker::{
    ContainerNetwork, DockerBackend, DockerEngine, DockerEnvironment, DockerOptions, InstanceRetention,
    ResourceLimits, RootFilesystem,
};
pub use hermes_guard::strip_ansi;
pub use line_process::LineProcess;
pub use local::{LocalEnvironment, LocalHost, LocalOptions};
pub use memory::{configure_allocator, release_memory, release_program_pages};
pub use modal::{
    ModalAccount, ModalDirectBackend, ModalDirectEnvironment, ModalGateway, ModalGatewayBackend,
    ModalGatewayEnvironment, ModalOptions, PythonSearch,
};
pub use output_stream::OutputStream;
pub use piped_process::{PipeWriter, PipedLine, PipedProcess};
pub use program::{Program, ProgramExit, ProgramRunner, StderrMode};
pub use re_exec::{exec_program, own_program, re_exec, start_detached, start_service};
pub use recovered_process::RecoveredProcess;
pub use remote::{
    ForwardedVariables, RemoteEnvironment, RemoteFileError, RemoteFiles, RemoteLocation, RemotePathInfo,
    RemotePathKind, RemoteProcess, RemoteProcessHandle, RemoteProcessState, RemoteShellSession,
};
pub use remote_backend::{Backend, HostExposure, RemoteBackend, TaskImage};
pub use run_record::{end_orphaned_commands, record_commands_in};
pub use sandbox::{
    NetworkReach, Sandbox, SandboxAccess, SandboxActivation, SandboxPaths, SandboxRefusal, SandboxReport,
    SandboxState, SandboxedThread, WriteRule,
};
pub use script::{ScriptCommand, ScriptOutcome, ScriptRunner};
pub use shell::quote as shell_quote;
pub use singularity::{
    SingularityBackend, SingularityEnvironment, SingularityHost, SingularityHostOptions, SingularityOptions,
    scratch_folder,
};
pub use ssh::{SshEnvironment, SshHost, SshOptions};
pub use tty_settings::TtySettings;
pub use variables::Variables;
pub use watchdog::{keep_terminal_if_killed, remove_on_exit, restore_terminal_if_killed};
