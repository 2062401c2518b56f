//! One module per command group.

pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod cron;
pub(crate) mod database;
pub(crate) mod gateway;
pub(crate) mod insights;
pub(crate) mod login;
pub(crate) mod model;
pub(crate) mod pairing;
pub(crate) mod prompt_size;
pub(crate) mod send;
pub(crate) mod sessions;
pub(crate) mod slash;
pub(crate) mod status;
pub(crate) mod update;
pub(crate) mod webhook;
