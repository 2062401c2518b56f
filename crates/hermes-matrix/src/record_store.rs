//! Keeps the state of the encryption in a file of records.
//!
//! Holds no cryptography: values are what the library serializes. Invariants: one call of the library is one write, which is on disk
//! when the call returns; nothing is kept in memory besides the identity of this device, so that memory does not grow with
//! the number of rooms and keys.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use hermes_store::{NamedRecords, RecordChange};
use matrix_sdk_common::cross_process_lock::CrossProcessLockGeneration;
use matrix_sdk_crypto::olm::{
    Curve25519PublicKey, InboundGroupSession, OlmMessageHash, OutboundGroupSession,
    PrivateCrossSigningIdentity, SenderDataType, StaticAccountData,
};
use matrix_sdk_crypto::store::types::{
    BackupKeys, Changes, DehydratedDeviceKey, PendingChanges, RoomKeyCounts, RoomKeyWithheldEntry,
    RoomPendingKeyBundleDetails, RoomSettings, StoredRoomKeyBundleData, TrackedUser,
};
use matrix_sdk_crypto::store::{CryptoStore, CryptoStoreError};
use matrix_sdk_crypto::{Account, DeviceData, GossipRequest, SecretInfo, Session, UserIdentityData};
use ruma::events::secret::request::SecretName;
use ruma::{DeviceId, OwnedDeviceId, RoomId, TransactionId, UserId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::pending_records::{PendingRecords, joined, kind};

/// The number of records read at a time where many may match.
const PAGE: usize = 200;
/// The name of records of which there is one.
const ONLY: &str = "";

type Result<T> = std::result::Result<T, CryptoStoreError>;

/// The store of one device.
#[derive(Debug)]
pub(crate) struct RecordStore {
    file: NamedRecords,
    /// This device, once its account was loaded or made.
    own: Mutex<Option<StaticAccountData>>,
}

impl RecordStore {
    pub(crate) fn open(path: &Path) -> std::result::Result<Self, hermes_store::Error> {
        Ok(Self { file: NamedRecords::open(path)?, own: Mutex::default() })
    }

    /// Returns the user and the device whose keys are stored, if there are any.
    pub(crate) fn owner(&self) -> Result<Option<(String, String)>> {
        let account = self.get::<matrix_sdk_crypto::olm::PickledAccount>(kind::ACCOUNT, ONLY)?;
        Ok(account.map(|account| (account.user_id.to_string(), account.device_id.to_string())))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<String>> {
        self.get(kind::NOTE, name)
    }

    pub(crate) fn set_flag(&self, name: &str, value: &str) -> Result<()> {
        self.put(kind::NOTE, name, &value)
    }

    fn get<T: DeserializeOwned>(&self, kind: &str, name: &str) -> Result<Option<T>> {
        let found = self.file.get(kind, name).map_err(CryptoStoreError::backend)?;
        found.map(|bytes| serde_json::from_slice(&bytes).map_err(CryptoStoreError::from)).transpose()
    }

    fn page(
        &self,
        kind: &str,
        begin: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        self.file.list(kind, begin, after, limit).map_err(CryptoStoreError::backend)
    }

    /// Returns all records whose names begin with a text.
    fn all<T: DeserializeOwned>(&self, kind: &str, begin: &str) -> Result<Vec<T>> {
        let found = self.page(kind, begin, None, usize::MAX)?;
        found.iter().map(|(_, bytes)| serde_json::from_slice(bytes).map_err(CryptoStoreError::from)).collect()
    }

    fn put<T: Serialize>(&self, kind: &'static str, name: &str, value: &T) -> Result<()> {
        let mut pending = PendingRecords::default();
        pending.put(kind, name.to_owned(), value)?;
        self.commit(pending)
    }

    fn remove(&self, kind: &'static str, name: &str) -> Result<()> {
        let change = RecordChange::Remove { kind, name: name.to_owned() };
        self.file.write(&[change]).map_err(CryptoStoreError::backend)
    }

    fn commit(&self, pending: PendingRecords) -> Result<()> {
        self.file.write(&pending.into_changes()).map_err(CryptoStoreError::backend)
    }

    fn remember_own(&self, account: &Account) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(account.static_data().clone());
    }

    fn own(&self) -> Result<StaticAccountData> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.ok_or(CryptoStoreError::AccountUnset)
    }

    fn own_device(&self) -> Result<DeviceData> {
        let own = self.own()?;
        let device = self.get(kind::DEVICE, &joined(own.user_id.as_str(), own.device_id.as_str()))?;
        device.ok_or(CryptoStoreError::AccountUnset)
    }

    fn inbound(&self, room: &str, session: &str) -> Result<Option<InboundGroupSession>> {
        let pickle = self.get(kind::INBOUND, &joined(room, session))?;
        pickle
            .map(|pickle| InboundGroupSession::from_pickle(pickle).map_err(CryptoStoreError::from))
            .transpose()
    }
}

fn inbound_sessions(
    pickles: Vec<matrix_sdk_crypto::olm::PickledInboundGroupSession>,
) -> Result<Vec<InboundGroupSession>> {
    pickles
        .into_iter()
        .map(|pickle| InboundGroupSession::from_pickle(pickle).map_err(CryptoStoreError::from))
        .collect()
}

#[async_trait]
impl CryptoStore for RecordStore {
    type Error = CryptoStoreError;

    async fn load_account(&self) -> Result<Option<Account>> {
        let Some(pickle) = self.get(kind::ACCOUNT, ONLY)? else { return Ok(None) };
        let account = Account::from_pickle(pickle)?;
        self.remember_own(&account);
        Ok(Some(account))
    }

    async fn load_identity(&self) -> Result<Option<PrivateCrossSigningIdentity>> {
        let pickle = self.get(kind::IDENTITY, ONLY)?;
        let identity = pickle.map(PrivateCrossSigningIdentity::from_pickle).transpose();
        identity.map_err(|_| CryptoStoreError::UnpicklingError)
    }

    async fn save_changes(&self, changes: Changes) -> Result<()> {
        self.commit(PendingRecords::of(changes).await?)
    }

    async fn save_pending_changes(&self, changes: PendingChanges) -> Result<()> {
        let Some(account) = changes.account else { return Ok(()) };
        self.put(kind::ACCOUNT, ONLY, &account.pickle())?;
        self.remember_own(&account);
        Ok(())
    }

    async fn save_inbound_group_sessions(
        &self,
        sessions: Vec<InboundGroupSession>,
        _: Option<&str>,
    ) -> Result<()> {
        let mut pending = PendingRecords::default();
        for session in sessions {
            pending.put_inbound(&session).await?;
        }
        self.commit(pending)
    }

    async fn get_sessions(&self, sender_key: &str) -> Result<Option<Vec<Session>>> {
        let pickles = self.all(kind::SESSION, &joined(sender_key, ""))?;
        if pickles.is_empty() {
            return Ok(None);
        }
        let keys = self.own_device()?.as_device_keys().clone();
        let read = |pickle| {
            Session::from_pickle(keys.clone(), pickle).map_err(|_| CryptoStoreError::UnpicklingError)
        };
        pickles.into_iter().map(read).collect::<Result<_>>().map(Some)
    }

    async fn get_inbound_group_session(
        &self,
        room_id: &RoomId,
        session_id: &str,
    ) -> Result<Option<InboundGroupSession>> {
        self.inbound(room_id.as_str(), session_id)
    }

    async fn get_withheld_info(
        &self,
        room_id: &RoomId,
        session_id: &str,
    ) -> Result<Option<RoomKeyWithheldEntry>> {
        self.get(kind::WITHHELD, &joined(room_id.as_str(), session_id))
    }

    async fn get_withheld_sessions_by_room_id(&self, room_id: &RoomId) -> Result<Vec<RoomKeyWithheldEntry>> {
        self.all(kind::WITHHELD, &joined(room_id.as_str(), ""))
    }

    async fn get_inbound_group_sessions(&self) -> Result<Vec<InboundGroupSession>> {
        inbound_sessions(self.all(kind::INBOUND, "")?)
    }

    async fn inbound_group_session_counts(&self, _: Option<&str>) -> Result<RoomKeyCounts> {
        let count = |kind| self.file.count(kind).map_err(CryptoStoreError::backend);
        let total = count(kind::INBOUND)?;
        Ok(RoomKeyCounts { total, backed_up: total.saturating_sub(count(kind::NOT_BACKED_UP)?) })
    }

    async fn get_inbound_group_sessions_by_room_id(
        &self,
        room_id: &RoomId,
    ) -> Result<Vec<InboundGroupSession>> {
        inbound_sessions(self.all(kind::INBOUND, &joined(room_id.as_str(), ""))?)
    }

    async fn get_inbound_group_sessions_for_device_batch(
        &self,
        curve_key: Curve25519PublicKey,
        sender_data_type: SenderDataType,
        after_session_id: Option<String>,
        limit: usize,
    ) -> Result<Vec<InboundGroupSession>> {
        let begin = joined(&curve_key.to_base64(), "");
        let mut after = after_session_id.map(|id| format!("{begin}{id}"));
        let mut found = Vec::new();
        loop {
            let page = self.page(kind::BY_DEVICE, &begin, after.as_deref(), PAGE)?;
            for (name, room) in &page {
                let room: String = serde_json::from_slice(room)?;
                let session = name.strip_prefix(&begin).unwrap_or_default();
                let session = self.inbound(&room, session)?;
                found.extend(session.filter(|session| session.sender_data_type() == sender_data_type));
                if found.len() >= limit {
                    return Ok(found);
                }
            }
            match page.last() {
                Some((name, _)) if page.len() == PAGE => after = Some(name.clone()),
                _ => return Ok(found),
            }
        }
    }

    async fn inbound_group_sessions_for_backup(
        &self,
        _: &str,
        limit: usize,
    ) -> Result<Vec<InboundGroupSession>> {
        let mut found = Vec::new();
        for (name, _) in self.page(kind::NOT_BACKED_UP, "", None, limit)? {
            let pickle = self.get(kind::INBOUND, &name)?;
            if let Some(pickle) = pickle {
                found.push(InboundGroupSession::from_pickle(pickle)?);
            }
        }
        Ok(found)
    }

    async fn mark_inbound_group_sessions_as_backed_up(
        &self,
        _: &str,
        room_and_session_ids: &[(&RoomId, &str)],
    ) -> Result<()> {
        let mut pending = PendingRecords::default();
        for (room, session) in room_and_session_ids {
            if let Some(session) = self.inbound(room.as_str(), session)? {
                session.mark_as_backed_up();
                pending.put_inbound(&session).await?;
            }
        }
        self.commit(pending)
    }

    async fn reset_backup_state(&self) -> Result<()> {
        let mut pending = PendingRecords::default();
        for session in self.get_inbound_group_sessions().await? {
            session.reset_backup_state();
            pending.put_inbound(&session).await?;
        }
        self.commit(pending)
    }

    async fn load_backup_keys(&self) -> Result<BackupKeys> {
        let decryption_key = self.get(kind::BACKUP_KEY, ONLY)?;
        Ok(BackupKeys { decryption_key, backup_version: self.get(kind::BACKUP_VERSION, ONLY)? })
    }

    async fn load_dehydrated_device_pickle_key(&self) -> Result<Option<DehydratedDeviceKey>> {
        self.get(kind::DEHYDRATED_KEY, ONLY)
    }

    async fn delete_dehydrated_device_pickle_key(&self) -> Result<()> {
        self.remove(kind::DEHYDRATED_KEY, ONLY)
    }

    async fn get_outbound_group_session(&self, room_id: &RoomId) -> Result<Option<OutboundGroupSession>> {
        let Some(pickle) = self.get(kind::OUTBOUND, room_id.as_str())? else { return Ok(None) };
        let own = self.own()?;
        let session = OutboundGroupSession::from_pickle(own.device_id, own.identity_keys, pickle);
        session.map(Some).map_err(CryptoStoreError::from)
    }

    async fn load_tracked_users(&self) -> Result<Vec<TrackedUser>> {
        self.all(kind::TRACKED_USER, "")
    }

    async fn save_tracked_users(&self, users: &[(&UserId, bool)]) -> Result<()> {
        let mut pending = PendingRecords::default();
        for (user, dirty) in users {
            let tracked = TrackedUser { user_id: (*user).to_owned(), dirty: *dirty };
            pending.put(kind::TRACKED_USER, user.to_string(), &tracked)?;
        }
        self.commit(pending)
    }

    async fn get_device(&self, user_id: &UserId, device_id: &DeviceId) -> Result<Option<DeviceData>> {
        self.get(kind::DEVICE, &joined(user_id.as_str(), device_id.as_str()))
    }

    async fn get_user_devices(&self, user_id: &UserId) -> Result<HashMap<OwnedDeviceId, DeviceData>> {
        let devices: Vec<DeviceData> = self.all(kind::DEVICE, &joined(user_id.as_str(), ""))?;
        Ok(devices.into_iter().map(|device| (device.device_id().to_owned(), device)).collect())
    }

    async fn get_own_device(&self) -> Result<DeviceData> {
        self.own_device()
    }

    async fn get_user_identity(&self, user_id: &UserId) -> Result<Option<UserIdentityData>> {
        self.get(kind::USER_IDENTITY, user_id.as_str())
    }

    async fn is_message_known(&self, message_hash: &OlmMessageHash) -> Result<bool> {
        let name = joined(&message_hash.sender_key, &message_hash.hash);
        Ok(self.file.get(kind::MESSAGE_HASH, &name).map_err(CryptoStoreError::backend)?.is_some())
    }

    async fn get_outgoing_secret_requests(
        &self,
        request_id: &TransactionId,
    ) -> Result<Option<GossipRequest>> {
        self.get(kind::KEY_REQUEST, request_id.as_str())
    }

    async fn get_secret_request_by_info(&self, secret_info: &SecretInfo) -> Result<Option<GossipRequest>> {
        let id: Option<String> = self.get(kind::KEY_REQUEST_BY_INFO, &secret_info.as_key())?;
        id.map_or(Ok(None), |id| self.get(kind::KEY_REQUEST, &id))
    }

    async fn get_unsent_secret_requests(&self) -> Result<Vec<GossipRequest>> {
        let requests: Vec<GossipRequest> = self.all(kind::KEY_REQUEST, "")?;
        Ok(requests.into_iter().filter(|request| !request.sent_out).collect())
    }

    async fn delete_outgoing_secret_requests(&self, request_id: &TransactionId) -> Result<()> {
        let known: Option<GossipRequest> = self.get(kind::KEY_REQUEST, request_id.as_str())?;
        let Some(request) = known else { return Ok(()) };
        let mut pending = PendingRecords::default();
        pending.remove(kind::KEY_REQUEST, request_id.to_string());
        pending.remove(kind::KEY_REQUEST_BY_INFO, request.info.as_key());
        self.commit(pending)
    }

    async fn get_secrets_from_inbox(&self, secret_name: &SecretName) -> Result<Vec<Zeroizing<String>>> {
        let secrets: Vec<String> = self.all(kind::SECRET, &joined(secret_name.as_str(), ""))?;
        Ok(secrets.into_iter().map(Zeroizing::new).collect())
    }

    async fn delete_secrets_from_inbox(&self, secret_name: &SecretName) -> Result<()> {
        let mut pending = PendingRecords::default();
        for (name, _) in self.page(kind::SECRET, &joined(secret_name.as_str(), ""), None, usize::MAX)? {
            pending.remove(kind::SECRET, name);
        }
        self.commit(pending)
    }

    async fn get_room_settings(&self, room_id: &RoomId) -> Result<Option<RoomSettings>> {
        self.get(kind::ROOM_SETTINGS, room_id.as_str())
    }

    async fn get_received_room_key_bundle_data(
        &self,
        room_id: &RoomId,
        user_id: &UserId,
    ) -> Result<Option<StoredRoomKeyBundleData>> {
        self.get(kind::KEY_BUNDLE, &joined(room_id.as_str(), user_id.as_str()))
    }

    async fn get_pending_key_bundle_details_for_room(
        &self,
        room_id: &RoomId,
    ) -> Result<Option<RoomPendingKeyBundleDetails>> {
        self.get(kind::PENDING_BUNDLE, room_id.as_str())
    }

    async fn get_all_rooms_pending_key_bundles(&self) -> Result<Vec<RoomPendingKeyBundleDetails>> {
        self.all(kind::PENDING_BUNDLE, "")
    }

    async fn has_downloaded_all_room_keys(&self, room_id: &RoomId) -> Result<bool> {
        Ok(self.get::<bool>(kind::DOWNLOADED_ROOM, room_id.as_str())?.unwrap_or_default())
    }

    async fn get_custom_value(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.file.get(kind::CUSTOM, key).map_err(CryptoStoreError::backend)
    }

    async fn set_custom_value(&self, key: &str, value: Vec<u8>) -> Result<()> {
        let change = RecordChange::Put { kind: kind::CUSTOM, name: key.to_owned(), value };
        self.file.write(&[change]).map_err(CryptoStoreError::backend)
    }

    async fn remove_custom_value(&self, key: &str) -> Result<()> {
        self.remove(kind::CUSTOM, key)
    }

    /// The file itself is open in one process only.
    async fn try_take_leased_lock(
        &self,
        _: u32,
        _: &str,
        _: &str,
    ) -> Result<Option<CrossProcessLockGeneration>> {
        Ok(Some(1))
    }

    async fn next_batch_token(&self) -> Result<Option<String>> {
        self.get(kind::NEXT_BATCH, ONLY)
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    async fn reopen(&self) -> Result<()> {
        Ok(())
    }

    async fn get_size(&self) -> Result<Option<usize>> {
        Ok(None)
    }
}
