//! Test support for the workspace: a scripted model server, emulated chat platforms, a temporary home, a clock that
//! a test moves, and databases of other releases.
//!
//! Holds no product code and is used only as a dev-dependency, or as a binary for trying things by hand. Nothing in
//! it waits on real time unless a script says so: tests synchronise with the server by named gates and request
//! counts.

mod browser_site;
mod channel;
mod client;
mod clock;
mod control_group;
pub mod dingtalk;
pub mod discord;
mod edge_voice;
mod end_recording_tool;
mod error;
pub mod fixture;
mod gate;
mod home;
pub mod homeassistant;
mod http;
mod json_server;
mod load;
pub mod mail;
pub mod matrix;
pub mod mattermost;
mod memory_services;
mod model;
mod peer;
mod platform;
mod repeat;
mod request_log;
pub mod script;
mod server;
mod server_thread;
pub mod signal;
pub mod slack;
pub mod sms;
mod task;
pub mod telegram;
mod watched_value;
mod web_services;
mod website;
pub mod whatsapp;
pub mod whatsapp_cloud;
mod whisper_model;
mod wire;

pub use browser_site::BrowserSite;
pub use channel::{FakeChannel, PostedMessage, SendFault};
pub use client::{HttpReply, http_get, http_post};
pub use clock::{RealClock, TestClock};
pub use control_group::divisible_group;
pub use edge_voice::{EdgeVoice, EdgeVoiceMood};
pub use end_recording_tool::EndRecordingTool;
pub use error::Error;
pub use fixture::DatabaseFixture;
pub use home::{TempHome, TempHomeBuilder};
pub use json_server::{GenerateDialect, JsonRequest, JsonServer};
pub use load::{LoadReport, LoadTest, percentile};
pub use memory_services::{MEMORY_KEY, MemoryServers};
pub use model::{ModelStep, PlainTool, RiskyTool, TestModel};
pub use peer::{SshServer, peer_is_missing};
pub use platform::{PlatformCall, PlatformFault};
pub use repeat::{UserNamespaces, repeat_tests_as_nobody, repeat_tests_as_nobody_in};
pub use request_log::{RecordedRequest, RequestOutcome};
pub use script::{ModelScript, ReplyEvent, ScriptedReply};
pub use server::{ModelServer, ModelServerBuilder, RequestCallback};
pub use web_services::{WEB_SERVICE_KEY, WebServiceFault, WebServiceRequest, WebServices};
pub use website::TestWebsite;
pub use whisper_model::SmallWhisperModel;
pub use wire::Wire;
