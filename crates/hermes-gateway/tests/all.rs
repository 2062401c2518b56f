//! The gateway from outside: messages in through a fake platform, answers out of it.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod chat;
    mod cron;
    mod cron_year;
    mod delivery;
    mod kill;
    mod pairing;
    mod recover;
}
