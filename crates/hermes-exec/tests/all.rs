//! Tests that run commands on this machine as a tool runs them.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod background;
    mod builds;
    mod cgroups;
    mod daytona;
    mod docker;
    mod ending;
    mod escape;
    mod files;
    mod http;
    mod memory;
    mod modal;
    mod modal_direct;
    mod modal_package;
    mod orphans;
    mod output;
    mod planted_files;
    mod process_marks;
    mod program;
    mod remote;
    mod sandbox;
    mod singularity;
    mod sockets;
    mod ssh;
    mod state;
    mod watchdog;
}
