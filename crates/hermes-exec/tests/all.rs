//! Commands run as a tool runs them, on this machine.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod background;
    mod builds;
    mod cells;
    mod daytona;
    mod docker;
    mod ending;
    mod escape;
    mod files;
    mod guardian;
    mod http;
    mod marks;
    mod modal;
    mod modal_direct;
    mod modal_package;
    mod orphans;
    mod output;
    mod plants;
    mod program;
    mod reaches;
    mod remote;
    mod sandbox;
    mod singularity;
    mod ssh;
    mod state;
}
