//! A run that several machines share, in a PostgreSQL database.
//!
//! `client` holds the statements, `worker` does the work, `transfer` moves runs between the database and files. Invariants: an item is
//! worked on under a lease with a number that grows with each claim; only the holder of the newest number closes the item, and its
//! record is written in the same statement, so that each item has at most one, whoever died or was late.

mod client;
mod encryption;
mod item;
mod transfer;
mod worker;

pub use client::{GiveBack, ItemClose, ItemRecord, ItemResult, QueueOptions, QueueStatus, RunQueue};
pub use item::{LeasedItem, QueueItem, queue_items};
pub use transfer::{ImportReport, export_run, import_run};
pub use worker::{QueueWorker, WorkerSummary};
