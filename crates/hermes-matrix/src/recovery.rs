//! The user's identity that signs devices, the secrets kept on the server, and the backup of keys.

use matrix_sdk_crypto::CrossSigningKeyExport;
use matrix_sdk_crypto::olm::ExportedRoomKey;
use matrix_sdk_crypto::secret_storage::{AesHmacSha2EncryptedData, SecretStorageKey};
use matrix_sdk_crypto::store::types::BackupDecryptionKey;
use matrix_sdk_crypto::types::RoomKeyBackupInfo;
use ruma::api::client::backup::EncryptedSessionData;
use ruma::events::EventContentFromType as _;
use ruma::events::secret::request::SecretName;
use ruma::events::secret_storage::key::SecretStorageKeyEventContent;
use ruma::{RoomId, TransactionId, UserId};
use serde_json::Value;

use crate::error::Error;
use crate::keys::MatrixKeys;
use crate::request::KeyRequest;

/// What is known about the identity that was made here.
const IDENTITY_NOTE: &str = "identity";
const IDENTITY_MADE: &str = "made";

/// The secrets that a recovery key opened.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "it holds secrets")]
pub struct SecretBundle {
    master: Option<String>,
    self_signing: Option<String>,
    user_signing: Option<String>,
    backup: Option<String>,
}

/// The backup on the server, as `room_keys/version` describes it.
#[derive(Debug, Clone)]
pub struct KeyBackup {
    pub version: String,
    info: RoomKeyBackupInfo,
}

impl KeyBackup {
    pub fn parse(answer: &Value) -> Option<Self> {
        let version = answer.get("version")?.as_str()?.to_owned();
        let info = serde_json::from_value(answer.clone()).ok()?;
        Some(Self { version, info })
    }
}

impl SecretBundle {
    /// The names of the secrets, which are types of account data.
    pub const NAMES: [&'static str; 4] = [
        "m.cross_signing.master",
        "m.cross_signing.self_signing",
        "m.cross_signing.user_signing",
        "m.megolm_backup.v1",
    ];

    /// Opens secrets with a recovery key or a passphrase. `description` is the content of the account data that describes the key,
    /// `secrets` are the contents of those in [`Self::NAMES`], as far as there are any.
    pub fn open(
        recovery_key: &str,
        key_id: &str,
        description: &Value,
        secrets: &[(&str, Value)],
    ) -> Result<Self, Error> {
        let raw = serde_json::value::to_raw_value(description).map_err(Error::invalid)?;
        let kind = format!("m.secret_storage.key.{key_id}");
        let content = SecretStorageKeyEventContent::from_parts(&kind, &raw).map_err(Error::invalid)?;
        let key = SecretStorageKey::from_account_data(recovery_key, content)
            .map_err(|_| Error::WrongRecoveryKey)?;
        let mut bundle = Self::default();
        for (name, content) in secrets {
            let Some(data) = content.get("encrypted").and_then(|by_key| by_key.get(key_id)) else { continue };
            let data: AesHmacSha2EncryptedData =
                serde_json::from_value(data.clone()).map_err(Error::invalid)?;
            let plain = key.decrypt(&data, &SecretName::from(*name)).map_err(|_| Error::WrongRecoveryKey)?;
            let plain = Some(String::from_utf8(plain).map_err(Error::invalid)?);
            match *name {
                "m.cross_signing.master" => bundle.master = plain,
                "m.cross_signing.self_signing" => bundle.self_signing = plain,
                "m.cross_signing.user_signing" => bundle.user_signing = plain,
                _ => bundle.backup = plain,
            }
        }
        Ok(bundle)
    }
}

impl MatrixKeys {
    /// Tells whether the user has an identity that signs devices, as far as the server said.
    pub async fn has_identity(&self) -> Result<bool, Error> {
        let own = self.machine.user_id().to_owned();
        Ok(self.machine.get_identity(&own, None).await?.is_some())
    }

    /// Tells whether this device is signed by the user's identity.
    pub async fn is_signed(&self) -> Result<bool, Error> {
        let (user, device) = (self.machine.user_id().to_owned(), self.machine.device_id().to_owned());
        let device = self.machine.get_device(&user, &device, None).await?;
        Ok(device.is_some_and(|device| device.is_cross_signed_by_owner()))
    }

    /// Returns the request for the present keys of the user's own devices.
    pub fn query_own(&self) -> Result<KeyRequest, Error> {
        let own: &UserId = self.machine.user_id();
        let (id, request) = self.machine.query_keys_for_users([own]);
        let request = matrix_sdk_crypto::types::requests::AnyOutgoingRequest::KeysQuery(request);
        KeyRequest::of_parts(id, &request)
    }

    /// Returns the requests that sign this device with the user's identity, in their order. Without an identity, one is made.
    pub async fn sign_device(&self) -> Result<Vec<KeyRequest>, Error> {
        // Noted first: whatever ends the process, the next one knows that the identity may not be on the server yet.
        if !self.machine.cross_signing_status().await.is_complete() {
            self.set_note(IDENTITY_NOTE, IDENTITY_MADE)?;
        }
        let bootstrap = self.machine.bootstrap_cross_signing(false).await?;
        let mut requests = Vec::new();
        if let Some(upload) = &bootstrap.upload_keys_req {
            requests.push(KeyRequest::of(upload)?);
        }
        if self.has_unpublished_identity()? {
            requests
                .push(KeyRequest::signing_keys(TransactionId::new(), &bootstrap.upload_signing_keys_req)?);
        }
        requests.push(KeyRequest::signatures(TransactionId::new(), &bootstrap.upload_signatures_req)?);
        Ok(requests)
    }

    /// Tells whether an identity was made here that the server may not have.
    pub fn has_unpublished_identity(&self) -> Result<bool, Error> {
        Ok(self.note(IDENTITY_NOTE)?.as_deref() == Some(IDENTITY_MADE))
    }

    /// Remembers that the server has the identity that was made here.
    pub fn identity_was_published(&self) -> Result<(), Error> {
        self.set_note(IDENTITY_NOTE, "published")
    }

    /// Takes over the user's identity and the backup that a recovery key opened. The identity's public keys must be known.
    pub async fn import_secrets(
        &self,
        secrets: &SecretBundle,
        backup: Option<&KeyBackup>,
    ) -> Result<(), Error> {
        let export = CrossSigningKeyExport {
            master_key: secrets.master.clone(),
            self_signing_key: secrets.self_signing.clone(),
            user_signing_key: secrets.user_signing.clone(),
        };
        self.machine.import_cross_signing_keys(export).await.map_err(Error::invalid)?;
        let (Some(key), Some(backup)) = (&secrets.backup, backup) else { return Ok(()) };
        let key = BackupDecryptionKey::from_base64(key).map_err(|_| Error::WrongRecoveryKey)?;
        if !key.backup_key_matches(&backup.info) {
            return Err(Error::WrongRecoveryKey);
        }
        let machine = self.machine.backup_machine();
        let public = key.megolm_v1_public_key();
        public.set_version(backup.version.clone());
        machine.save_decryption_key(Some(key), Some(backup.version.clone())).await?;
        machine.enable_backup_v1(public).await?;
        Ok(())
    }

    /// Returns the version of the backup in use.
    pub async fn backup_version(&self) -> Option<String> {
        self.machine.backup_machine().backup_version().await
    }

    /// Stops using the backup, because there is another one on the server.
    pub async fn forget_backup(&self) -> Result<(), Error> {
        Ok(self.machine.backup_machine().disable_backup().await?)
    }

    /// Returns the request that puts keys into the backup, if there are any that are not in it.
    pub async fn back_up(&self) -> Result<Option<KeyRequest>, Error> {
        if !self.machine.backup_machine().enabled().await {
            return Ok(None);
        }
        let request = self.machine.backup_machine().backup().await?;
        request.map(|(id, request)| KeyRequest::backup(id, &request)).transpose()
    }

    /// Takes one key of a room from the backup, as `room_keys/keys/ROOM/SESSION` returns it.
    pub async fn restore_key(&self, room: &str, session: &str, answer: &Value) -> Result<(), Error> {
        let keys = self.machine.backup_machine().get_backup_keys().await?;
        let key = keys.decryption_key.ok_or(Error::MissingKey)?;
        let data = answer.get("session_data").cloned().unwrap_or_default();
        let data: EncryptedSessionData = serde_json::from_value(data).map_err(Error::invalid)?;
        let room_key = key.decrypt_session_data(data).map_err(Error::invalid)?;
        let room = RoomId::parse(room).map_err(Error::invalid)?;
        let room_key = ExportedRoomKey::from_backed_up_room_key(room, session.to_owned(), room_key);
        let version = keys.backup_version.as_deref();
        self.machine.store().import_room_keys(vec![room_key], version, |_, _| {}).await?;
        Ok(())
    }

    /// Returns what was remembered under a name.
    pub fn note(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(self.store.flag(name)?)
    }

    /// Remembers something as long as the keys.
    pub fn set_note(&self, name: &str, value: &str) -> Result<(), Error> {
        Ok(self.store.set_flag(name, value)?)
    }
}

#[cfg(test)]
mod tests {
    use matrix_sdk_crypto::store::types::BackupDecryptionKey;
    use serde_json::json;

    use super::*;
    use crate::request::KeyRequestKind;

    const BOT: &str = "@bot:x.org";

    /// Returns the identity that a device made, as the server would keep it, and confirms what was asked for.
    async fn publish(keys: &MatrixKeys) -> (Value, Value) {
        let (mut identity, mut device) = (json!({}), json!({}));
        let mut requests = keys.requests().await.unwrap();
        requests.extend(keys.sign_device().await.unwrap());
        for request in requests {
            let answer = match request.kind {
                KeyRequestKind::UploadKeys => {
                    device = request.body["device_keys"].clone();
                    json!({"one_time_key_counts": {"signed_curve25519": 50}})
                }
                KeyRequestKind::UploadSigningKeys => {
                    identity = request.body.clone();
                    json!({})
                }
                KeyRequestKind::QueryKeys => json!({"device_keys": {}}),
                _ => json!({}),
            };
            keys.confirm(&request, &answer).await.unwrap();
        }
        (identity, device)
    }

    #[tokio::test]
    async fn a_recovery_key_opens_the_identity_and_the_backup() {
        let folder = tempfile::tempdir().unwrap();
        let first = MatrixKeys::open(&folder.path().join("first.db"), BOT, "FIRST").await.unwrap();
        assert!(!first.has_identity().await.unwrap());
        let (identity, device) = publish(&first).await;
        assert!(first.has_unpublished_identity().unwrap());
        first.identity_was_published().unwrap();
        // What another program of the user has put on the server.
        let storage = SecretStorageKey::new();
        let export = first.machine.export_cross_signing_keys().await.unwrap().unwrap();
        let backup_key = BackupDecryptionKey::new();
        let values = [
            export.master_key.clone().unwrap(),
            export.self_signing_key.clone().unwrap(),
            export.user_signing_key.clone().unwrap(),
            backup_key.to_base64(),
        ];
        let secrets: Vec<(&str, Value)> = SecretBundle::NAMES
            .into_iter()
            .zip(values)
            .map(|(name, value)| {
                let data = storage.encrypt(value.into_bytes(), &SecretName::from(name));
                (name, json!({"encrypted": {storage.key_id(): serde_json::to_value(&data).unwrap()}}))
            })
            .collect();
        let description = serde_json::to_value(storage.event_content()).unwrap();
        let mut info = serde_json::to_value(backup_key.to_backup_info()).unwrap();
        info["version"] = json!("7");
        let backup = KeyBackup::parse(&info).unwrap();

        let second = MatrixKeys::open(&folder.path().join("second.db"), BOT, "SECOND").await.unwrap();
        let own = second.query_own().unwrap();
        let answer = json!({
            "device_keys": {BOT: {"FIRST": device}},
            "master_keys": {BOT: identity["master_key"]},
            "self_signing_keys": {BOT: identity["self_signing_key"]},
            "user_signing_keys": {BOT: identity["user_signing_key"]},
        });
        second.confirm(&own, &answer).await.unwrap();
        assert!(second.has_identity().await.unwrap());
        let wrong = SecretBundle::open("EsTc 5rr1 4JX9", storage.key_id(), &description, &secrets);
        assert!(matches!(wrong, Err(Error::WrongRecoveryKey)));
        let bundle =
            SecretBundle::open(&storage.to_base58(), storage.key_id(), &description, &secrets).unwrap();
        second.import_secrets(&bundle, Some(&backup)).await.unwrap();
        assert_eq!(second.backup_version().await.as_deref(), Some("7"));
        // It signs its device with the identity that was there, and makes none.
        let kinds: Vec<_> =
            second.sign_device().await.unwrap().into_iter().map(|request| request.kind).collect();
        assert!(!kinds.contains(&KeyRequestKind::UploadSigningKeys), "{kinds:?}");
        assert!(kinds.contains(&KeyRequestKind::UploadSignatures), "{kinds:?}");

        // Keys of rooms go into the backup and come out of it.
        let room = "!room:x.org";
        let encryption = json!({"algorithm": "m.megolm.v1.aes-sha2"});
        let members = [BOT.to_owned()];
        let sharing =
            crate::RoomKeySharing { members: &members, encryption: &encryption, history_visibility: None };
        second.share_room_key(room, sharing).await.unwrap();
        let content =
            second.encrypt(room, "m.room.message", &json!({"msgtype": "m.text", "body": "x"})).await.unwrap();
        let request = second.back_up().await.unwrap().unwrap();
        let session = content["session_id"].as_str().unwrap().to_owned();
        let stored = request.body["rooms"][room]["sessions"][&session].clone();
        second.confirm(&request, &json!({"etag": "1", "count": 1})).await.unwrap();
        assert!(second.back_up().await.unwrap().is_none());
        let first_own = first.query_own().unwrap();
        first.confirm(&first_own, &answer).await.unwrap();
        first.import_secrets(&bundle, Some(&backup)).await.unwrap();
        let event = json!({
            "type": "m.room.encrypted", "event_id": "$1", "sender": BOT, "origin_server_ts": 1, "content": content,
        });
        assert!(matches!(first.decrypt(room, &event).await, Err(Error::MissingKey)));
        first.restore_key(room, &session, &stored).await.unwrap();
        assert_eq!(first.decrypt(room, &event).await.unwrap().event["content"]["body"], "x");
        first.forget_backup().await.unwrap();
        assert_eq!(first.backup_version().await, None);
    }
}
