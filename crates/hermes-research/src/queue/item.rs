//! Items of a queue: the rows of a dataset under keys that survive its reordering.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::batch::{Dataset, DatasetRow, hex, prompt_hash};
use crate::error::Error;

/// A row that is to be put into a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueItem {
    pub index: usize,
    /// What the row is recognized by: its prompt, its place, and how many equal ones stand before it.
    pub key: String,
    pub prompt_hash: String,
    pub payload: String,
}

/// An item that is being worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedItem {
    pub index: usize,
    pub key: String,
    pub payload: String,
    /// The number of the claim.
    pub fence: i64,
}

impl LeasedItem {
    pub(super) fn row(&self) -> Result<DatasetRow, String> {
        DatasetRow::parse(&self.payload)
            .map_err(|reason| format!("the row in the queue cannot be used: {reason}"))
    }
}

/// Returns the rows of a dataset as items.
pub fn queue_items(dataset: &Dataset) -> Result<Vec<QueueItem>, Error> {
    let mut seen: HashMap<[u8; 32], u64> = HashMap::new();
    let mut items = Vec::with_capacity(dataset.len());
    for index in 0..dataset.len() {
        let row = dataset.row(index).map_err(Error::Unusable)?;
        let mut content = Sha256::new();
        for part in [
            row.prompt.trim(),
            row.image.as_deref().unwrap_or_default(),
            row.cwd.as_deref().unwrap_or_default(),
        ] {
            content.update(part.as_bytes());
            content.update([0]);
        }
        let occurrence = seen.entry(content.clone().finalize().into()).or_default();
        content.update(occurrence.to_string().as_bytes());
        *occurrence += 1;
        items.push(QueueItem {
            index,
            key: hex(&content.finalize()),
            prompt_hash: hex(&prompt_hash(&row.prompt)),
            payload: row.to_json().to_string(),
        });
    }
    Ok(items)
}
