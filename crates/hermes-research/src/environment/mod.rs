//! Environments for reinforcement learning: tasks for the agent, conversations about them, and what they are worth.
//!
//! `agent_loop` holds one conversation, `rollout` groups of them; `serve`, `run` and `atropos` bring them to a trainer or into files.
//! Tools come through the port [`RolloutAgents`](crate::RolloutAgents), so that the judge of a rollout sees the sandbox the model left.
//! Invariants: a rollout cleans up after itself; what is sent to a trainer is finite and has one score per sequence.

mod agent_loop;
mod atropos;
mod chat;
mod data_environment;
mod definition;
mod flags;
mod group;
mod item_list;
mod judge;
mod program_environment;
mod request;
mod result_budget;
mod rollout;
mod rollout_tools;
mod run;
mod saving;
mod sequence;
mod serve;
mod servers;
mod settings;
mod shipped;
mod task_images;
mod tokenizer;
#[cfg(feature = "tokenizers")]
mod tokenizer_file;

pub use agent_loop::{AgentLoopResult, RolloutToolError};
pub use data_environment::DataEnvironment;
pub use definition::{EvaluatedItem, ItemPlace, JudgedRollout, TrainingEnvironment};
pub use flags::EnvironmentFlags;
pub use judge::ModelJudge;
pub use program_environment::ProgramEnvironment;
pub use rollout::EnvironmentMeans;
pub(crate) use rollout_tools::quote;
pub use rollout_tools::{CommandResult, RolloutTools};
pub use run::{EnvironmentMode, EnvironmentObserver, EnvironmentReport, EnvironmentRun};
pub use servers::ModelServers;
pub use settings::{
    EnvironmentSettings, EvaluationPriority, FlagValue, InferenceServerSettings, ServerType, SettingLayers,
};
pub use shipped::{SHIPPED_ENVIRONMENTS, ShippedEnvironment};
pub use task_images::{ImageReuse, TaskImageBuilder};
pub use tokenizer::{ChatTokenizer, SpecialTokens};
#[cfg(feature = "tokenizers")]
pub use tokenizer_file::TokenizerFile;
