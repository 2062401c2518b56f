//! Drives a browser over the DevTools protocol: one on this machine, at an address, or of a service.
//!
//! Holds the protocol, the sessions of tasks, and what can be done with a page. Knows neither the configuration nor what a
//! model reads. Invariants: nothing is requested that the policy for addresses refuses, by Hermes or by a page; a browser
//! that Hermes started ends with Hermes; what a page does is bounded.

mod address;
mod browser;
mod cloud;
mod connection;
mod download;
mod element;
mod error;
mod events;
mod geometry;
mod key;
mod launch;
mod look;
mod network;
mod page_calls;
mod page_tree;
mod pages;
mod pool;
mod proxy;
mod recording;
mod session;
mod snapshot;
mod upload;

pub use address::shown as shown_address;
pub use browser::{DialogPolicy, DialogRules};
pub use cloud::{BrowserbaseOptions, CloudService};
pub use error::BrowserError;
pub use launch::{LocalBrowserOptions, WindowMode, is_root};
pub use look::{ClearMessages, PageMessages, Screenshot, ScreenshotMarks, ScrollPosition};
pub use network::{BrowserNetwork, HostNameResolution, PolicySource};
pub use pages::{ConsoleMessage, DownloadReport, OpenDialog, PageReports};
pub use pool::{BrowserOptions, BrowserPlace, BrowserPool, ClosedSession, HttpSource, SessionInUse};
pub use recording::RecordingOptions;
pub use session::{BrowserSession, KeyEffect, PageArrival, ScrollDirection, SessionFeatures};
pub use snapshot::{ElementReference, PageSnapshot, SnapshotDetail};
