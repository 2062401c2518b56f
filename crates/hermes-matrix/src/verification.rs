//! Verification of another device by comparing emoji: the other device begins, people compare, both sides confirm.
//!
//! A verification lives in memory only; one that a process leaves behind ends by its time limit on the other side.

use matrix_sdk_crypto::types::requests::OutgoingVerificationRequest;
use matrix_sdk_crypto::{OlmMachine, Sas, SasState, VerificationRequestState};
use ruma::events::AnyMessageLikeEvent;
use ruma::events::key::verification::VerificationMethod;
use ruma::{TransactionId, UserId};
use serde_json::{Value, json};

use crate::error::Error;
use crate::keys::MatrixKeys;
use crate::request::KeyRequest;

/// The name of a verification: who began it, and the id that both sides use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerificationFlow {
    pub user: String,
    pub id: String,
}

/// An emoji of those that both sides show, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationEmoji {
    pub symbol: String,
    pub name: String,
}

/// The point a verification has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerificationPhase {
    /// The devices exchange keys.
    Preparing,
    /// A person has to compare these emoji, or these numbers, with those of the other side.
    Comparing {
        device: String,
        emoji: Vec<VerificationEmoji>,
        numbers: (u16, u16, u16),
    },
    /// This side has confirmed, the other one not yet.
    Confirmed,
    Done,
    Cancelled(String),
}

impl VerificationFlow {
    /// Returns the verification that an event from device to device belongs to.
    pub(crate) fn of_event(event: &Value) -> Option<Self> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        text("/type").filter(|kind| kind.starts_with("m.key.verification."))?;
        Some(Self { user: text("/sender")?, id: text("/content/transaction_id")? })
    }

    /// Returns the verification that an event of a room belongs to.
    fn of_room_event(event: &Value) -> Option<Self> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let is_request = text("/content/msgtype").as_deref() == Some("m.key.verification.request");
        let id = match text("/type")?.as_str() {
            "m.room.message" if is_request => text("/event_id")?,
            kind if kind.starts_with("m.key.verification.") => text("/content/m.relates_to/event_id")?,
            _ => return None,
        };
        Some(Self { user: text("/sender")?, id })
    }
}

impl MatrixKeys {
    /// Takes an event of a room, decrypted, if it belongs to a verification. The devices of its sender must be known.
    pub async fn take_room_verification(
        &self,
        room: &str,
        event: &Value,
    ) -> Result<Option<VerificationFlow>, Error> {
        let Some(flow) = VerificationFlow::of_room_event(event) else { return Ok(None) };
        let mut whole = event.clone();
        whole["room_id"] = json!(room);
        let event: AnyMessageLikeEvent = serde_json::from_value(whole).map_err(Error::invalid)?;
        self.machine.receive_verification_event(&event).await?;
        Ok(Some(flow))
    }

    /// Returns how far a verification is; `None` when it is not known any more.
    pub fn verification_phase(&self, flow: &VerificationFlow) -> Option<VerificationPhase> {
        if let Some(sas) = sas(&self.machine, flow) {
            return Some(match sas.state() {
                SasState::KeysExchanged { emojis, decimals } => {
                    let shown = |emoji: &matrix_sdk_crypto::Emoji| VerificationEmoji {
                        symbol: emoji.symbol.to_owned(),
                        name: emoji.description.to_owned(),
                    };
                    let emoji = emojis.iter().flat_map(|shared| shared.emojis.iter().map(shown)).collect();
                    let device = sas.other_device_id().to_string();
                    VerificationPhase::Comparing { device, emoji, numbers: decimals }
                }
                SasState::Confirmed => VerificationPhase::Confirmed,
                SasState::Done { .. } => VerificationPhase::Done,
                SasState::Cancelled(info) => VerificationPhase::Cancelled(info.reason().to_owned()),
                _ => VerificationPhase::Preparing,
            });
        }
        let user = UserId::parse(&flow.user).ok()?;
        let request = self.machine.get_verification_request(&user, &flow.id)?;
        Some(match request.state() {
            VerificationRequestState::Done => VerificationPhase::Done,
            VerificationRequestState::Cancelled(info) => {
                VerificationPhase::Cancelled(info.reason().to_owned())
            }
            _ => VerificationPhase::Preparing,
        })
    }

    /// Agrees to a verification that the other side has begun. Returns nothing where nothing waits for that.
    pub fn accept_verification(&self, flow: &VerificationFlow) -> Result<Option<KeyRequest>, Error> {
        let accepted = if let Some(sas) = sas(&self.machine, flow) {
            sas.accept()
        } else {
            let user = UserId::parse(&flow.user).map_err(Error::invalid)?;
            let request = self.machine.get_verification_request(&user, &flow.id);
            request.and_then(|request| request.accept_with_methods(vec![VerificationMethod::SasV1]))
        };
        accepted.map(|request| KeyRequest::verification(&request)).transpose()
    }

    /// Says that both sides show the same. The other device, or its user, counts as verified once the other side says so, too.
    pub async fn confirm_verification(&self, flow: &VerificationFlow) -> Result<Vec<KeyRequest>, Error> {
        let Some(sas) = sas(&self.machine, flow) else { return Ok(Vec::new()) };
        let (requests, signatures) = sas.confirm().await?;
        let mut all = requests.iter().map(KeyRequest::verification).collect::<Result<Vec<_>, _>>()?;
        if let Some(upload) = signatures {
            all.push(KeyRequest::signatures(TransactionId::new(), &upload)?);
        }
        Ok(all)
    }

    /// Says that the two sides show different things, or that nobody wants the verification.
    pub fn cancel_verification(
        &self,
        flow: &VerificationFlow,
        reason: VerificationRefusal,
    ) -> Result<Option<KeyRequest>, Error> {
        let cancelled = if let Some(sas) = sas(&self.machine, flow) {
            sas.cancel_with_code(match reason {
                VerificationRefusal::Mismatch => "m.mismatched_sas".into(),
                VerificationRefusal::Unwanted => "m.user".into(),
            })
        } else {
            let user = UserId::parse(&flow.user).map_err(Error::invalid)?;
            let request = self.machine.get_verification_request(&user, &flow.id);
            request.and_then(|request| request.cancel())
        };
        cancelled.map(|request| KeyRequest::verification(&request)).transpose()
    }
}

fn sas(machine: &OlmMachine, flow: &VerificationFlow) -> Option<Box<Sas>> {
    let user = UserId::parse(&flow.user).ok()?;
    machine.get_verification(&user, &flow.id)?.sas_v1()
}

/// The reason why a verification is ended by this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerificationRefusal {
    Mismatch,
    Unwanted,
}

impl KeyRequest {
    fn verification(request: &OutgoingVerificationRequest) -> Result<Self, Error> {
        Self::of_parts(request.request_id().to_owned(), &request.clone().into())
    }
}
