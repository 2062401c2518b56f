//! What one write of the encryption's state consists of.
//!
//! Invariant: everything that one set of changes of the library says is in one list, which is written as a whole.

use hermes_store::RecordChange;
use matrix_sdk_crypto::olm::InboundGroupSession;
use matrix_sdk_crypto::store::CryptoStoreError;
use matrix_sdk_crypto::store::types::Changes;
use serde::Serialize;

/// The kinds of records, which are the names in the file.
pub(crate) mod kind {
    pub(crate) const ACCOUNT: &str = "account";
    pub(crate) const BACKUP_KEY: &str = "backup_key";
    pub(crate) const BACKUP_VERSION: &str = "backup_version";
    /// The room of a key, by the device that made it.
    pub(crate) const BY_DEVICE: &str = "inbound_by_device";
    pub(crate) const CUSTOM: &str = "custom";
    pub(crate) const DEHYDRATED_KEY: &str = "dehydrated_key";
    pub(crate) const DEVICE: &str = "device";
    pub(crate) const DOWNLOADED_ROOM: &str = "downloaded_room";
    pub(crate) const IDENTITY: &str = "identity";
    pub(crate) const INBOUND: &str = "inbound";
    pub(crate) const KEY_BUNDLE: &str = "key_bundle";
    pub(crate) const KEY_REQUEST: &str = "key_request";
    pub(crate) const KEY_REQUEST_BY_INFO: &str = "key_request_by_info";
    pub(crate) const MESSAGE_HASH: &str = "message_hash";
    pub(crate) const NEXT_BATCH: &str = "next_batch";
    /// The names of keys that are not in the backup on the server.
    pub(crate) const NOT_BACKED_UP: &str = "inbound_not_backed_up";
    pub(crate) const NOTE: &str = "note";
    pub(crate) const OUTBOUND: &str = "outbound";
    pub(crate) const PENDING_BUNDLE: &str = "pending_bundle";
    pub(crate) const ROOM_SETTINGS: &str = "room_settings";
    pub(crate) const SECRET: &str = "secret";
    pub(crate) const SESSION: &str = "session";
    pub(crate) const TRACKED_USER: &str = "tracked_user";
    pub(crate) const USER_IDENTITY: &str = "user_identity";
    pub(crate) const WITHHELD: &str = "withheld";
}

/// Returns a name made of two ids.
pub(crate) fn joined(first: &str, second: &str) -> String {
    // Not part of any id.
    format!("{first}\u{1F}{second}")
}

/// The changes of one write.
#[derive(Debug, Default)]
pub(crate) struct PendingRecords(Vec<RecordChange>);

impl PendingRecords {
    /// Collects everything that a set of changes says.
    pub(crate) async fn of(changes: Changes) -> Result<Self, CryptoStoreError> {
        let mut records = Self::default();
        if let Some(identity) = &changes.private_identity {
            records.put(kind::IDENTITY, String::new(), &identity.pickle().await)?;
        }
        for session in &changes.sessions {
            let pickle = session.pickle().await;
            records.put(
                kind::SESSION,
                joined(&pickle.sender_key.to_base64(), session.session_id()),
                &pickle,
            )?;
        }
        for session in &changes.inbound_group_sessions {
            records.put_inbound(session).await?;
        }
        for session in &changes.outbound_group_sessions {
            records.put(kind::OUTBOUND, session.room_id().to_string(), &session.pickle().await)?;
        }
        records.put_people(&changes)?;
        records.put_rest(&changes)?;
        Ok(records)
    }

    /// Adds a room's key, and the entries by which it is found.
    pub(crate) async fn put_inbound(
        &mut self,
        session: &InboundGroupSession,
    ) -> Result<(), CryptoStoreError> {
        let name = joined(session.room_id().as_str(), session.session_id());
        self.put(kind::INBOUND, name.clone(), &session.pickle().await)?;
        let by_device = joined(&session.sender_key().to_base64(), session.session_id());
        self.put(kind::BY_DEVICE, by_device, &session.room_id())?;
        if session.backed_up() {
            self.remove(kind::NOT_BACKED_UP, name);
        } else {
            self.put(kind::NOT_BACKED_UP, name, &true)?;
        }
        Ok(())
    }

    /// Adds devices and identities.
    fn put_people(&mut self, changes: &Changes) -> Result<(), CryptoStoreError> {
        for device in changes.devices.new.iter().chain(&changes.devices.changed) {
            self.put(kind::DEVICE, joined(device.user_id().as_str(), device.device_id().as_str()), device)?;
        }
        for device in &changes.devices.deleted {
            self.remove(kind::DEVICE, joined(device.user_id().as_str(), device.device_id().as_str()));
        }
        for identity in changes.identities.new.iter().chain(&changes.identities.changed) {
            self.put(kind::USER_IDENTITY, identity.user_id().to_string(), identity)?;
        }
        Ok(())
    }

    fn put_rest(&mut self, changes: &Changes) -> Result<(), CryptoStoreError> {
        for hash in &changes.message_hashes {
            self.put(kind::MESSAGE_HASH, joined(&hash.sender_key, &hash.hash), &true)?;
        }
        for request in &changes.key_requests {
            self.put(kind::KEY_REQUEST, request.request_id.to_string(), request)?;
            self.put(kind::KEY_REQUEST_BY_INFO, request.info.as_key(), &request.request_id)?;
        }
        if let Some(key) = &changes.backup_decryption_key {
            self.put(kind::BACKUP_KEY, String::new(), key)?;
        }
        if let Some(version) = &changes.backup_version {
            self.put(kind::BACKUP_VERSION, String::new(), version)?;
        }
        if let Some(key) = &changes.dehydrated_device_pickle_key {
            self.put(kind::DEHYDRATED_KEY, String::new(), key)?;
        }
        for item in &changes.secrets {
            let name = joined(item.secret_name.as_str(), &hermes_types::random_hex(16));
            self.put(kind::SECRET, name, &item.secret.as_str())?;
        }
        for (room, sessions) in &changes.withheld_session_info {
            for (session, entry) in sessions {
                self.put(kind::WITHHELD, joined(room.as_str(), session), entry)?;
            }
        }
        if let Some(token) = &changes.next_batch_token {
            self.put(kind::NEXT_BATCH, String::new(), token)?;
        }
        for (room, settings) in &changes.room_settings {
            self.put(kind::ROOM_SETTINGS, room.to_string(), settings)?;
        }
        for bundle in &changes.received_room_key_bundles {
            let name = joined(bundle.bundle_data.room_id.as_str(), bundle.sender_user.as_str());
            self.put(kind::KEY_BUNDLE, name, bundle)?;
        }
        for room in &changes.room_key_backups_fully_downloaded {
            self.put(kind::DOWNLOADED_ROOM, room.to_string(), &true)?;
        }
        for (room, details) in &changes.rooms_pending_key_bundle {
            match details {
                Some(details) => self.put(kind::PENDING_BUNDLE, room.to_string(), details)?,
                None => self.remove(kind::PENDING_BUNDLE, room.to_string()),
            }
        }
        Ok(())
    }

    pub(crate) fn put<T: Serialize>(
        &mut self,
        kind: &'static str,
        name: String,
        value: &T,
    ) -> Result<(), CryptoStoreError> {
        self.0.push(RecordChange::Put { kind, name, value: serde_json::to_vec(value)? });
        Ok(())
    }

    pub(crate) fn remove(&mut self, kind: &'static str, name: String) {
        self.0.push(RecordChange::Remove { kind, name });
    }

    pub(crate) fn into_changes(self) -> Vec<RecordChange> {
        self.0
    }
}
