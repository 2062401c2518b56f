//! Tests of the gateway from outside: messages in through a fake platform, answers out of it.
#![expect(clippy::print_stdout, reason = "a long test says how it went")]
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod channel_supervisor;
    mod chat;
    mod cron;
    mod cron_script;
    mod cron_year;
    mod delivery;
    mod goals;
    mod kill;
    mod message_sender;
    mod pairing;
    mod recover;
    mod secrets;
}
