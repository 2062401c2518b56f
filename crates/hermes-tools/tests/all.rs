//! Tests that call the tools as a turn does.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod approval;
    mod checkpoint;
    mod clarify;
    mod code;
    mod cronjob;
    mod delegate;
    mod endurance;
    mod homeassistant;
    mod installation;
    mod media;
    mod memory;
    mod patch;
    mod read_file;
    mod reference;
    mod registry;
    mod remote_tools;
    mod rl;
    mod sandbox;
    mod sandboxed_files;
    mod search_files;
    mod session_search;
    mod skills;
    mod terminal;
    mod todo;
    mod tool_search;
    mod transcription;
    #[cfg(feature = "whisper")]
    mod transcription_model;
    mod vision;
    mod watching;
    mod web;
    mod write_file;
}
