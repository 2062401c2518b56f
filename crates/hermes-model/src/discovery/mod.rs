//! Questions to providers beside the conversation: what they serve, how much fits, what it costs.
//!
//! Asks and remembers; decides nothing about a turn. Invariants: nothing is asked unless a caller asks for it, and no
//! caller does before a first reply has come, apart from a person at a prompt; an endpoint's key is shown to that
//! endpoint and to nobody else; a server that does not answer costs a bounded wait and is then left alone for a while.

mod ask;
mod cache;
mod local;
mod models;
mod price;
mod window;
mod zai;

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Home;
use hermes_types::{Cancel, Timestamp};

use crate::credential::Means;
use cache::Shelf;

pub use local::OllamaModel;
pub use models::{Age, ListedModel, Unlisted};
pub use zai::ZaiSite;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_hours(1);
/// How long a model's facts are good for before they are asked for again.
const DAY: Duration = Duration::from_hours(24);

/// What asking takes. Clones share what they remember.
#[derive(Debug, Clone)]
pub struct Lookup {
    means: Means,
    home: Home,
    shelf: Arc<Shelf>,
}

impl Lookup {
    pub fn new(means: Means, home: Home) -> Self {
        Self { means, home, shelf: Arc::default() }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn means(&self) -> &Means {
        &self.means
    }

    fn now(&self) -> Timestamp {
        self.means.clock.now()
    }

    /// The registry of models.dev, from disk while it is fresh.
    async fn models_dev(&self, cancel: &Cancel) -> Option<Vec<u8>> {
        let question = ask::Question::get(&self.means.sites.models_dev).within(Duration::from_secs(15));
        self.shelf.fetch(&self.means, &self.home.models_dev_cache(), question, cancel).await
    }

    /// OpenRouter's catalogue, from disk while it is fresh. Public: no key is shown.
    async fn openrouter(&self, cancel: &Cancel) -> Option<Vec<u8>> {
        let url = format!("{}/models", self.means.sites.openrouter.trim_end_matches('/'));
        let path = cache::list_path(&self.home, &url)?;
        self.shelf.fetch(&self.means, &path, ask::Question::get(&url), cancel).await
    }
}
