//! Where commands run: the process guard and the environments.
//!
//! The only crate that starts processes. Every child leads a group of its own, holds no descriptor but its three, and is
//! reaped; ending it ends all it started, and a bound child dies with us. What is dangerous is decided elsewhere (`hermes-guard`), what the model reads is
//! put together elsewhere (`hermes-tools`).

mod again;
mod background;
mod blocked;
mod capture;
mod cell;
mod child;
mod clip;
mod credential;
mod daytona;
mod descent;
mod docker;
mod elsewhere;
mod group;
mod guardian;
mod keeper;
mod kin;
mod leftovers;
mod local;
mod login;
mod mark;
mod memory;
mod modal;
mod owner;
mod program;
mod remote;
mod ring;
mod run;
mod run_record;
mod sandbox;
mod script;
mod shell;
mod singularity;
mod snapshot;
mod ssh;
mod stream;
mod survivor;
mod variables;
mod worker;

pub use again::{become_again, become_other, own_program, start_apart};
pub use background::{Background, InputError, Screen};
pub use capture::Bounds;
pub use clip::Clipped;
pub use credential::{Credential, Credentials};
pub use daytona::{Daytona, DaytonaAccount, DaytonaOptions};
pub use docker::{Docker, DockerEngine, DockerOptions, Keep, Limits, Network, Root};
pub use elsewhere::{Backend, Elsewhere, Reachable};
pub use guardian::fleeting;
pub use hermes_guard::strip_ansi;
pub use local::{Local, LocalHost, LocalOptions};
pub use memory::release_memory;
pub use modal::{Modal, ModalAccount, ModalDirect, ModalGateway, ModalOptions, Pythons};
pub use program::{Complaints, Program, ProgramEnd, Programs};
pub use remote::{
    Bearings, Distant, FileError, Forwarded, Look, RemoteFiles, RemoteProcess, RemoteState, Room, Seat,
    Survey,
};
pub use run_record::{end_orphaned_commands, record_commands_in};
pub use sandbox::{
    Access, FenceReport, FencedThread, Reach, Refusal, Sandbox, SandboxMode, SandboxPlaces, SandboxState,
    WriteRule,
};
pub use script::{Script, ScriptRun, Scripts};
pub use shell::quote as shell_quote;
pub use singularity::{
    Singularity, SingularityHost, SingularityHostOptions, SingularityOptions, scratch_folder,
};
pub use ssh::{Ssh, SshHost, SshOptions};
pub use survivor::Survivor;
pub use variables::Variables;
pub use worker::Worker;
