//! Tests of the built binary from outside: exit code, standard output, standard error, and the files in the home.
#![expect(clippy::disallowed_methods, reason = "tests mount small disks")]
#![expect(clippy::print_stdout, reason = "a skipped test says why")]
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod acp;
    mod api_kill;
    mod attended;
    mod backends;
    mod browser;
    mod chaos;
    mod chat;
    mod children;
    mod commands;
    mod config;
    mod cron;
    mod database;
    mod disk;
    mod embedding;
    mod environments;
    mod existing_home;
    mod exit_codes;
    mod extensions;
    mod features;
    mod gateway;
    mod guide_commands;
    mod install;
    mod life;
    mod long_talk;
    mod mail_peer;
    mod matrix_peer;
    mod mcp;
    mod memory;
    mod memory_services;
    mod mixture;
    mod more_platforms;
    mod pictures;
    mod research;
    mod research_jobs;
    mod scenario;
    mod screen;
    mod screen_pictures;
    mod screen_session;
    mod screen_voice;
    mod sending;
    mod service;
    mod sessions;
    mod shell;
    mod skills;
    mod thousand;
    mod unusable;
    mod update;
    mod upkeep;
    mod words;
}
