//! Tests of the store through its public calls and, where formats matter, through plain SQL.
#![expect(clippy::disallowed_methods, reason = "tests look into the file and start writer processes")]
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod damage;
    mod durable;
    mod generations;
    mod job_runs;
    mod log;
    mod messages;
    mod processes;
    mod records;
    mod requests;
    mod search;
    mod sessions;
    mod vectors;
}
