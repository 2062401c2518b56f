//! The OpenAI-compatible server: chat completions, responses, runs, models, health; and incoming webhooks.
//!
//! Translates between HTTP and turns; decides nothing a turn decides. Invariants: every route but health needs
//! the key; every body that cannot be used is a 400 that names the field; a client that leaves ends its turn,
//! unless a key lets it come back for the answer; a keyed request runs once, whatever process dies; above the
//! limit of turns the response is 429, never an unbounded queue; nothing a client sent is shortened.

mod app;
mod chat;
mod error;
mod field;
mod follow;
mod guard;
mod health;
mod idempotency;
mod idle;
mod input;
mod jobs;
mod repeats;
mod request_task;
mod responses;
mod run;
mod runs;
mod server;
mod settings;
mod sse;
mod turn_answer;
mod unread;
mod webhook;

pub use app::{App, AppState, ServerParts};
pub use error::StartError;
pub use server::{ServerHandle, start};
pub use settings::{ServerSettings, ToolItems};
pub use webhook::{
    WebhookChannel, WebhookParts, WebhookRoute, WebhookSettings, WebhookSubscriptions, is_valid_route_name,
    sign, start_webhooks,
};
