//! The model a local server serves, when nobody has named one.

use std::time::Duration;

use hermes_net::Request;
use hermes_types::{Cancel, Deadline, Fields, Raw};

use super::target::{ModelChoice, Target};
use crate::client::Presented;
use crate::credential::Means;
use crate::wire::fields::FieldsExt as _;

const PATIENCE: Duration = Duration::from_secs(5);
const LIMIT: usize = 4 * 1024 * 1024;

/// Asks a server on this machine what it serves, and takes the answer if it is a single model. Does nothing for other
/// hosts, for a model somebody chose, or when the server does not answer.
pub async fn take_served_model(target: &mut Target, means: &Means, cancel: &Cancel) {
    let here = matches!(target.wire.base.host(), "localhost" | "127.0.0.1" | "[::1]");
    if target.model_choice == ModelChoice::Said || !here {
        return;
    }
    if let Some(model) = ask(target, means, cancel).await {
        target.model = model;
    }
}

async fn ask(target: &Target, means: &Means, cancel: &Cancel) -> Option<String> {
    let base = target.base_url().trim_end_matches("/v1");
    let mut request = Request::get(&format!("{base}/v1/models")).ok()?;
    let presented = target.keys.credentials(means).current(cancel).await.ok()?;
    if let Presented::Bearer(key) = &presented {
        request = request.bearer(key).ok()?;
    }
    let request = request.answer_within(PATIENCE).stall_after(PATIENCE);
    let deadline = Deadline::after(&*means.clock, PATIENCE);
    let response = means.net.send(request, deadline, cancel).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let body = response.bytes(LIMIT).await.ok()?;
    let fields: Fields = serde_json::from_slice(&body).ok()?;
    let served: Vec<Raw> = fields.list("data").or_else(|| fields.list("models"))?;
    match served.as_slice() {
        [only] => only.read::<Fields>().ok()?.text("id").filter(|id| !id.trim().is_empty()),
        _ => None,
    }
}
