//! Verification of devices: another device begins, people compare the emoji, both sides confirm.
//!
//! What must be compared is written into a document, which `hermes matrix verify` shows on the computer of the gateway; the answer
//! comes as another document. So nobody who only writes into chats can confirm a verification.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use hermes_matrix::{VerificationFlow, VerificationPhase, VerificationRefusal};
use hermes_types::{ChannelError, ChatKind, InvitationDecision};
use serde_json::{Value, json};

use super::encryption::{RoomEncryption, failed};
use super::key_exchange::KeyExchange;
use super::sync::{MatrixListener, SyncScope};
use crate::host::ChannelHost;

const SHOWN: &str = "matrix_verification.json";
const ANSWER: &str = "matrix_verification_answer.json";

/// The verifications that are going on; each with whether it has been shown.
pub(super) type OpenVerifications = std::sync::Mutex<BTreeMap<VerificationFlow, bool>>;

/// Forgets what an earlier process showed: its verifications ended with it.
pub(super) fn forget_shown(host: &dyn ChannelHost) {
    let is_shown = host.load_document(SHOWN).is_some_and(|shown| shown.get("id").is_some());
    if is_shown {
        host.save_document(SHOWN, &json!({}));
    }
}

impl RoomEncryption {
    fn open_verifications(&self) -> Vec<(VerificationFlow, bool)> {
        let open = self.verifications.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().map(|(flow, shown)| (flow.clone(), *shown)).collect()
    }

    /// Tells whether a verification is going on, whose next step should not wait for a message.
    pub(super) fn is_verifying(&self) -> bool {
        !self.verifications.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn note_verifications(&self, flows: Vec<VerificationFlow>) {
        let mut open = self.verifications.lock().unwrap_or_else(PoisonError::into_inner);
        for flow in flows {
            open.entry(flow).or_default();
        }
    }

    /// Takes an event of a room, decrypted, if it belongs to a verification.
    pub(super) async fn take_room_verification(
        &self,
        room: &str,
        event: &Value,
    ) -> Result<bool, ChannelError> {
        match self.keys.take_room_verification(room, event).await {
            Ok(Some(flow)) => self.note_verifications(vec![flow]),
            Ok(None) => return Ok(false),
            Err(error) => tracing::debug!(%error, "an event of a verification could not be read"),
        }
        Ok(true)
    }
}

impl MatrixListener<'_> {
    /// Has the devices of those who begin a verification known before it is taken.
    pub(super) async fn prepare_verifications(
        &self,
        scope: &SyncScope,
        encryption: &RoomEncryption,
        sync: &Value,
    ) -> Result<(), ChannelError> {
        let events = sync.pointer("/to_device/events").and_then(Value::as_array).into_iter().flatten();
        let begins = |event: &&Value| {
            let kind = event.get("type").and_then(Value::as_str);
            matches!(kind, Some("m.key.verification.request" | "m.key.verification.start"))
        };
        let people: Vec<String> = events
            .filter(begins)
            .filter_map(|event| event.get("sender")?.as_str())
            .map(str::to_owned)
            .collect();
        self.know_devices(scope, encryption, &people).await
    }

    pub(super) async fn know_devices(
        &self,
        scope: &SyncScope,
        encryption: &RoomEncryption,
        people: &[String],
    ) -> Result<(), ChannelError> {
        if people.is_empty() {
            return Ok(());
        }
        encryption.keys.track_users(people).await.map_err(|error| failed(&error))?;
        self.channel.pump(&scope.session, encryption).await
    }

    /// Does the next step of each verification.
    pub(super) async fn advance_verifications(
        &self,
        scope: &SyncScope,
        encryption: &RoomEncryption,
    ) -> Result<(), ChannelError> {
        let exchange = KeyExchange { channel: self.channel, session: &scope.session, encryption };
        for (flow, was_shown) in encryption.open_verifications() {
            let keys = &encryption.keys;
            if flow.user != scope.session.user && !self.may_verify(&flow.user) {
                tracing::warn!(user = %flow.user, "a verification of an unknown user was refused");
                let refusal = keys.cancel_verification(&flow, VerificationRefusal::Unwanted);
                exchange.send_all(refusal.map_err(|error| failed(&error))?).await?;
                self.close(encryption, &flow, was_shown);
                continue;
            }
            match keys.verification_phase(&flow) {
                Some(VerificationPhase::Preparing) => {
                    let accepted = keys.accept_verification(&flow).map_err(|error| failed(&error))?;
                    exchange.send_all(accepted).await?;
                }
                Some(VerificationPhase::Comparing { device, emoji, numbers }) => {
                    if !was_shown {
                        let shown: Vec<_> = emoji
                            .iter()
                            .map(|emoji| json!({"symbol": emoji.symbol, "name": emoji.name}))
                            .collect();
                        let document = json!({
                            "id": flow.id, "user": flow.user, "device": device, "emoji": shown,
                            "numbers": [numbers.0, numbers.1, numbers.2],
                        });
                        self.show(encryption, &flow, &document);
                    } else if let Some(matches) = self.answer(&flow) {
                        let requests = if matches {
                            keys.confirm_verification(&flow).await
                        } else {
                            let refusal = keys.cancel_verification(&flow, VerificationRefusal::Mismatch);
                            refusal.map(|request| request.into_iter().collect())
                        };
                        exchange.send_all(requests.map_err(|error| failed(&error))?).await?;
                        // It has ended if the other side was first; the next sync forgets it then.
                        self.close_ended(encryption, &flow, was_shown);
                    }
                }
                _ => self.close_ended(encryption, &flow, was_shown),
            }
        }
        Ok(())
    }

    /// Closes a verification that has ended.
    fn close_ended(&self, encryption: &RoomEncryption, flow: &VerificationFlow, was_shown: bool) {
        match encryption.keys.verification_phase(flow) {
            Some(
                VerificationPhase::Preparing
                | VerificationPhase::Comparing { .. }
                | VerificationPhase::Confirmed,
            ) => return,
            Some(VerificationPhase::Done) => {
                tracing::info!(user = %flow.user, "a Matrix device was verified");
            }
            Some(VerificationPhase::Cancelled(reason)) => {
                tracing::warn!(user = %flow.user, reason, "a Matrix verification was cancelled");
            }
            None => {}
        }
        self.close(encryption, flow, was_shown);
    }

    fn may_verify(&self, user: &str) -> bool {
        self.intake.decide_invitation(super::NAME, user, ChatKind::Dm) == InvitationDecision::Accept
    }

    fn show(&self, encryption: &RoomEncryption, flow: &VerificationFlow, document: &Value) {
        tracing::warn!(user = %flow.user, "a Matrix device wants to be verified; run `hermes matrix verify` within ten minutes");
        let host = &self.channel.context.host;
        host.save_document(ANSWER, &json!({}));
        host.save_document(SHOWN, document);
        let mut open = encryption.verifications.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(flow.clone(), true);
    }

    /// Returns the answer that a person gave.
    fn answer(&self, flow: &VerificationFlow) -> Option<bool> {
        let answer = self.channel.context.host.load_document(ANSWER)?;
        let is_for_it = answer.get("id").and_then(Value::as_str) == Some(&flow.id);
        answer.get("matches").and_then(Value::as_bool).filter(|_| is_for_it)
    }

    fn close(&self, encryption: &RoomEncryption, flow: &VerificationFlow, was_shown: bool) {
        if was_shown {
            self.channel.context.host.save_document(SHOWN, &json!({}));
        }
        encryption.verifications.lock().unwrap_or_else(PoisonError::into_inner).remove(flow);
    }
}
