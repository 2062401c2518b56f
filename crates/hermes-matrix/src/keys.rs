//! The keys of this device: what a sync says about keys, the encryption and decryption of events.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use matrix_sdk_common::deserialized_responses::{
    ProcessedToDeviceEvent, VerificationLevel, VerificationState,
};
use matrix_sdk_crypto::types::requests::AnyIncomingResponse;
use matrix_sdk_crypto::vodozemac::megolm::DecryptionError;
use matrix_sdk_crypto::{
    DecryptionSettings, EncryptionSettings, EncryptionSyncChanges, MegolmError, OlmMachine, TrustRequirement,
};
use ruma::api::client::sync::sync_events::DeviceLists;
use ruma::events::AnyMessageLikeEventContent;
use ruma::events::room::encryption::RoomEncryptionEventContent;
use ruma::events::room::history_visibility::HistoryVisibility;
use ruma::serde::Raw;
use ruma::{DeviceId, OneTimeKeyAlgorithm, OwnedUserId, RoomId, UInt, UserId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::record_store::RecordStore;
use crate::request::{KeyRequest, KeyRequestKind, read_response};
use crate::verification::VerificationFlow;

/// Messages of devices that nobody verified are read, as other programs do by default: who may use the agent is decided by the
/// account that sent them.
const DECRYPTION: DecryptionSettings =
    DecryptionSettings { sender_device_trust_requirement: TrustRequirement::Untrusted };

/// The keys of one device of one user.
#[derive(Debug)]
pub struct MatrixKeys {
    pub(crate) machine: OlmMachine,
    pub(crate) store: Arc<RecordStore>,
}

/// An event that was encrypted.
#[derive(Debug, Clone)]
pub struct DecryptedEvent {
    /// The whole event, with the type and the content that were encrypted.
    pub event: Value,
}

/// What decides who gets the key of a room.
#[derive(Debug, Clone, Copy)]
pub struct RoomKeySharing<'a> {
    /// The people in the room.
    pub members: &'a [String],
    /// The content of the room's `m.room.encryption`.
    pub encryption: &'a Value,
    /// The room's history visibility, if it names one.
    pub history_visibility: Option<&'a str>,
}

impl MatrixKeys {
    /// Opens the keys of a device in a file, which is created if there is none. While they are open, no other process can use them.
    pub async fn open(path: &Path, user: &str, device: &str) -> Result<Self, Error> {
        let store = Arc::new(RecordStore::open(path)?);
        let user = UserId::parse(user).map_err(Error::invalid)?;
        let machine = OlmMachine::with_store(&user, <&DeviceId>::from(device), store.clone(), None).await?;
        Ok(Self { machine, store })
    }

    /// Returns the user and the device whose keys are in a file.
    pub fn owner(path: &Path) -> Result<Option<(String, String)>, Error> {
        if path.exists() { Ok(RecordStore::open(path)?.owner()?) } else { Ok(None) }
    }

    /// Returns the key by which other devices recognise this one.
    pub fn fingerprint(&self) -> String {
        self.machine.identity_keys().ed25519.to_base64()
    }

    /// Takes what a sync says about keys and devices. When it returns, the keys that came are on disk. Returns the verifications that
    /// it is about.
    pub async fn take_sync(&self, sync: &Value) -> Result<Vec<VerificationFlow>, Error> {
        let part = |pointer: &str| sync.pointer(pointer).cloned().unwrap_or_default();
        let to_device_events =
            part("/to_device/events").as_array().map(|events| events.iter().filter_map(raw).collect());
        let changed_devices: DeviceLists = parse(part("/device_lists"));
        let one_time_keys_counts: BTreeMap<OneTimeKeyAlgorithm, UInt> =
            parse(part("/device_one_time_keys_count"));
        let unused: Option<Vec<OneTimeKeyAlgorithm>> = parse(part("/device_unused_fallback_key_types"));
        let changes = EncryptionSyncChanges {
            to_device_events: to_device_events.unwrap_or_default(),
            changed_devices: &changed_devices,
            one_time_keys_counts: &one_time_keys_counts,
            unused_fallback_keys: unused.as_deref(),
            next_batch_token: sync.get("next_batch").and_then(Value::as_str).map(str::to_owned),
        };
        let (events, _) = self.machine.receive_sync_changes(changes, &DECRYPTION).await.map_err(olm)?;
        let flow = |event: &ProcessedToDeviceEvent| {
            let event: Value = serde_json::from_str(event.as_raw().json().get()).ok()?;
            VerificationFlow::of_event(&event)
        };
        Ok(events.iter().filter_map(flow).collect())
    }

    /// Returns what must be asked of the server now.
    pub async fn requests(&self) -> Result<Vec<KeyRequest>, Error> {
        let requests = self.machine.outgoing_requests().await?;
        requests.iter().map(KeyRequest::of).collect()
    }

    /// Takes the response to a request.
    pub async fn confirm(&self, request: &KeyRequest, response: &Value) -> Result<(), Error> {
        macro_rules! confirm {
            ($variant:ident) => {{
                let response = read_response(response)?;
                self.machine.mark_request_as_sent(&request.id, AnyIncomingResponse::$variant(&response)).await
            }};
        }
        let confirmed = match request.kind {
            KeyRequestKind::UploadKeys => confirm!(KeysUpload),
            KeyRequestKind::QueryKeys => confirm!(KeysQuery),
            KeyRequestKind::ClaimKeys => confirm!(KeysClaim),
            KeyRequestKind::ToDevice => confirm!(ToDevice),
            KeyRequestKind::UploadSignatures => confirm!(SignatureUpload),
            KeyRequestKind::UploadSigningKeys => confirm!(SigningKeysUpload),
            KeyRequestKind::RoomMessage => confirm!(RoomMessage),
            KeyRequestKind::BackUpKeys => confirm!(KeysBackup),
        };
        confirmed.map_err(olm)
    }

    /// Watches the devices of people from now on; the next requests ask for them.
    pub async fn track_users(&self, users: &[String]) -> Result<(), Error> {
        let users = user_ids(users);
        self.machine.update_tracked_users(borrowed(&users)).await?;
        Ok(())
    }

    /// Has the devices of everybody asked for again, because changes may have been missed.
    pub async fn doubt_devices(&self) -> Result<(), Error> {
        Ok(self.machine.mark_all_tracked_users_as_dirty().await?)
    }

    /// Returns the request for keys of devices that nothing was sent to yet.
    pub async fn missing_sessions(&self, users: &[String]) -> Result<Option<KeyRequest>, Error> {
        let users = user_ids(users);
        let missing = self.machine.get_missing_sessions(borrowed(&users)).await?;
        missing.map(|(id, claim)| KeyRequest::claim(id, &claim)).transpose()
    }

    /// Returns the requests that give the devices in a room its present key, which is made anew when it is due or when somebody left.
    pub async fn share_room_key(
        &self,
        room: &str,
        sharing: RoomKeySharing<'_>,
    ) -> Result<Vec<KeyRequest>, Error> {
        let room = RoomId::parse(room).map_err(Error::invalid)?;
        let users = user_ids(sharing.members);
        let content: RoomEncryptionEventContent =
            serde_json::from_value(sharing.encryption.clone()).map_err(Error::invalid)?;
        let visibility =
            sharing.history_visibility.map_or(HistoryVisibility::Shared, HistoryVisibility::from);
        let settings =
            EncryptionSettings::new(content, visibility, matrix_sdk_crypto::CollectStrategy::AllDevices);
        let requests = self.machine.share_room_key(&room, borrowed(&users), settings).await.map_err(olm)?;
        requests.iter().map(|request| KeyRequest::to_device(request)).collect()
    }

    /// Encrypts the content of an event; the key of the room must have been shared before. The position in the key that this uses is
    /// on disk when it returns.
    pub async fn encrypt(&self, room: &str, kind: &str, content: &Value) -> Result<Value, Error> {
        let room = RoomId::parse(room).map_err(Error::invalid)?;
        let content = serde_json::value::to_raw_value(content).map_err(Error::invalid)?;
        let content: Raw<AnyMessageLikeEventContent> = Raw::from_json(content);
        let encrypted = self.machine.encrypt_room_event_raw(&room, kind, &content).await.map_err(megolm)?;
        serde_json::to_value(&encrypted.content).map_err(Error::invalid)
    }

    /// Decrypts an event of a room.
    pub async fn decrypt(&self, room: &str, event: &Value) -> Result<DecryptedEvent, Error> {
        let room = RoomId::parse(room).map_err(Error::invalid)?;
        let event = raw(event).ok_or_else(|| Error::Invalid("no event".to_owned()))?;
        let decrypted = self.machine.decrypt_room_event(&event, &room, &DECRYPTION).await.map_err(megolm)?;
        let state = &decrypted.encryption_info.verification_state;
        if matches!(state, VerificationState::Unverified(VerificationLevel::MismatchedSender)) {
            return Err(Error::WrongSender);
        }
        let event = serde_json::from_str(decrypted.event.json().get()).map_err(Error::invalid)?;
        Ok(DecryptedEvent { event })
    }
}

fn raw<T>(value: &Value) -> Option<Raw<T>> {
    serde_json::value::to_raw_value(value).ok().map(Raw::from_json)
}

/// Parses a part of a sync; one that is missing or unusable is the default.
fn parse<T: DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

fn user_ids(users: &[String]) -> Vec<OwnedUserId> {
    users.iter().filter_map(|user| UserId::parse(user).ok()).collect()
}

fn borrowed(users: &[OwnedUserId]) -> std::vec::IntoIter<&UserId> {
    let users: Vec<&UserId> = users.iter().map(std::convert::AsRef::as_ref).collect();
    users.into_iter()
}

pub(crate) fn olm(error: matrix_sdk_crypto::OlmError) -> Error {
    match error {
        matrix_sdk_crypto::OlmError::Store(error) => error.into(),
        error => Error::invalid(error),
    }
}

fn megolm(error: MegolmError) -> Error {
    match error {
        // With the second one, a later position of the key is known than the one this event was encrypted at.
        MegolmError::MissingRoomKey(_)
        | MegolmError::Decryption(DecryptionError::UnknownMessageIndex(..)) => Error::MissingKey,
        MegolmError::Store(error) => error.into(),
        error => Error::invalid(error),
    }
}
