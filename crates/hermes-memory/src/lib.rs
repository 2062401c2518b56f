//! Memory services beyond the memory files of the home: Honcho, Mem0, Hindsight, Supermemory, RetainDB, OpenViking and
//! ByteRover; and embeddings.
//!
//! An engine only translates between a service and what the agent asks of a memory. `service.rs` is what all share:
//! time limits, the queue of writes, what happens when a service fails. Reads neither environment nor configuration:
//! settings come in as data.
//!
//! Invariants: no call waits beyond its limit; a failing service is said once and then left alone for a while; what a
//! service returns is data: scanned, bounded, without marks that could end its note; a key goes to the address it was
//! configured with only; one person's memories are never asked for on behalf of another.

mod byterover;
mod client;
mod embeddings;
mod engine;
mod engine_tool;
mod hindsight;
pub mod honcho;
mod mem0;
mod openviking;
mod queue;
mod retaindb;
mod select;
mod service;
mod supermemory;
mod table;

pub use client::{EngineAccess, HttpSource};
pub use embeddings::{EmbeddingOptions, EmbeddingsEndpoint};
pub use engine::{
    EngineError, EngineHealth, EngineResult, MemoryEngine, MemoryPerson, MemoryScope, SpokenMessage,
};
pub use engine_tool::{EngineTool, SERVICE_TOOLS};
pub use select::{EngineInputs, KNOWN_ENGINES, KnownEngine, open_engine};
pub use service::{MemoryService, PersonalMemory, ServiceLimits, SessionTitles};
