//! What the keys ask of the server, and the identity and the backup they belong to.
//!
//! Invariant: one request of each kind is under way at a time.

use hermes_matrix::{
    Error, KeyBackup, KeyRequest, KeyRequestKind, RoomEventRequest, RoomKeySharing, SecretBundle,
};
use hermes_net::Method;
use hermes_types::ChannelError;
use serde_json::{Value, json};

use super::MatrixChannel;
use super::api::{code, path};
use super::encryption::{RoomEncryption, failed};
use super::rooms::RoomFacts;
use super::sign_in::MatrixSession;
use crate::rest::RestError;

/// The number of rounds in which requests lead to further requests.
const ROUNDS: usize = 5;

/// The requests of one set of keys.
#[derive(Clone, Copy)]
pub(super) struct KeyExchange<'a> {
    pub(super) channel: &'a MatrixChannel,
    pub(super) session: &'a MatrixSession,
    pub(super) encryption: &'a RoomEncryption,
}

impl KeyExchange<'_> {
    /// Publishes this device, and has it signed by the user's identity where that is possible.
    pub(super) async fn start(&self, device: &str) -> Result<(), ChannelError> {
        let keys = &self.encryption.keys;
        let own = keys.query_own().map_err(|error| failed(&error))?;
        let answer = self.ask(&own).await?;
        let pointer =
            format!("/device_keys/{}/{device}/keys/ed25519:{device}", self.session.user.replace('/', "~1"));
        let published = answer.pointer(&pointer).and_then(Value::as_str);
        if published.is_some_and(|published| published != keys.fingerprint()) {
            let why = "the device of this Matrix session has keys of another program, which cannot be replaced; sign in anew \
                       and set the new token, or set MATRIX_USER_ID and MATRIX_PASSWORD instead of MATRIX_ACCESS_TOKEN";
            return Err(ChannelError::Refused(why.to_owned()));
        }
        // What changed while no sync was read is not known.
        keys.doubt_devices().await.map_err(|error| failed(&error))?;
        self.pump_keys().await?;
        let own = keys.query_own().map_err(|error| failed(&error))?;
        self.ask_and_confirm(&own).await?;
        if let Err(error) = self.set_up_identity().await {
            tracing::warn!(%error, "this Matrix device is not signed by its user's identity");
        }
        Ok(())
    }

    async fn ask(&self, request: &KeyRequest) -> Result<Value, RestError> {
        let method = if request.method == "PUT" { Method::PUT } else { Method::POST };
        self.channel.api.call(&self.session.token, method, &request.path, Some(&request.body)).await
    }

    async fn ask_and_confirm(&self, request: &KeyRequest) -> Result<(), ChannelError> {
        let answer = self.ask(request).await?;
        self.encryption.keys.confirm(request, &answer).await.map_err(|error| failed(&error))
    }

    /// Asks the server what the keys need.
    pub(super) async fn pump(&self) -> Result<(), ChannelError> {
        self.pump_keys().await?;
        // Those into rooms are encrypted, which needs the gate.
        let requests = self.encryption.keys.requests().await.map_err(|error| failed(&error))?;
        self.send_all(requests.into_iter().filter(|request| request.room_event.is_some())).await
    }

    /// Sends requests that do not wait in the keys.
    pub(super) async fn send_all(
        &self,
        requests: impl IntoIterator<Item = KeyRequest>,
    ) -> Result<(), ChannelError> {
        for request in requests {
            match &request.room_event {
                None => self.ask_and_confirm(&request).await?,
                Some(event) => {
                    let answer = self.send_into_room(event, &request.body).await?;
                    self.encryption.keys.confirm(&request, &answer).await.map_err(|error| failed(&error))?;
                }
            }
        }
        Ok(())
    }

    /// Sends an event into a room, encrypted where the room is.
    async fn send_into_room(&self, event: &RoomEventRequest, content: &Value) -> Result<Value, ChannelError> {
        let facts = self.channel.room(self.session, &event.room).await?;
        let encrypted;
        let (kind, content) = if facts.encryption.is_some() {
            let plain = (event.kind.as_str(), content);
            encrypted = self.channel.encrypt(self.session, &event.room, &facts, plain).await?;
            ("m.room.encrypted", &encrypted)
        } else {
            (event.kind.as_str(), content)
        };
        let target = format!("v3/rooms/{}", path(&[&event.room, "send", kind, &event.transaction]));
        Ok(self.channel.api.call(&self.session.token, Method::PUT, &target, Some(content)).await?)
    }

    /// Asks the server what the keys need, but for events of rooms.
    async fn pump_keys(&self) -> Result<(), ChannelError> {
        let _gate = self.encryption.gate.lock().await;
        self.pump_alone().await
    }

    /// Asks the server what the keys need, while nobody else does.
    async fn pump_alone(&self) -> Result<(), ChannelError> {
        for _ in 0..ROUNDS {
            let mut requests = self.encryption.keys.requests().await.map_err(|error| failed(&error))?;
            requests.retain(|request| request.room_event.is_none());
            if requests.is_empty() {
                break;
            }
            for request in requests {
                self.ask_and_confirm(&request).await?;
            }
        }
        if let Some(request) = self.encryption.keys.back_up().await.map_err(|error| failed(&error))? {
            match self.ask(&request).await {
                Ok(answer) => {
                    self.encryption.keys.confirm(&request, &answer).await.map_err(|error| failed(&error))?;
                }
                Err(failure)
                    if matches!(code(&failure), Some("M_NOT_FOUND" | "M_WRONG_ROOM_KEYS_VERSION")) =>
                {
                    tracing::warn!("the backup of Matrix keys was replaced; it is not used any more");
                    self.encryption.keys.forget_backup().await.map_err(|error| failed(&error))?;
                }
                Err(failure) => return Err(failure.error),
            }
        }
        Ok(())
    }

    /// Gives the key of a room to everybody in it. The caller encrypts under the same lock.
    pub(super) async fn share(
        &self,
        room: &str,
        facts: &RoomFacts,
        settings: &Value,
    ) -> Result<(), ChannelError> {
        let (keys, members) = (&self.encryption.keys, facts.member_ids());
        keys.track_users(&members).await.map_err(|error| failed(&error))?;
        self.pump_alone().await?;
        if let Some(claim) = keys.missing_sessions(&members).await.map_err(|error| failed(&error))? {
            self.ask_and_confirm(&claim).await?;
        }
        let visibility = facts.history_visibility.as_deref();
        let sharing =
            RoomKeySharing { members: &members, encryption: settings, history_visibility: visibility };
        for request in keys.share_room_key(room, sharing).await.map_err(|error| failed(&error))? {
            self.ask_and_confirm(&request).await?;
        }
        Ok(())
    }

    /// Fetches a key of a room from the backup. Returns whether there is one that is of use.
    pub(super) async fn restore(&self, room: &str, key: &str) -> bool {
        let Some(version) = self.encryption.keys.backup_version().await else { return false };
        let query = crate::rest::encode_form(&[("version", &version)]);
        let target = format!("v3/room_keys/keys/{}?{query}", path(&[room, key]));
        let answer = self.channel.api.call(&self.session.token, Method::GET, &target, None).await;
        let Ok(answer) = answer else { return false };
        let restored = self.encryption.keys.restore_key(room, key, &answer).await;
        if let Err(error) = &restored {
            tracing::debug!(%error, "a key of the backup is of no use");
        }
        restored.is_ok()
    }

    /// Makes the user's identity sign this device: with the recovery key, or with a new identity if there is none.
    async fn set_up_identity(&self) -> Result<(), ChannelError> {
        let keys = &self.encryption.keys;
        let is_signed = keys.is_signed().await.map_err(|error| failed(&error))?;
        let wants_backup =
            self.channel.settings.recovery_key.is_some() && keys.backup_version().await.is_none();
        if is_signed && !wants_backup {
            return Ok(());
        }
        let unpublished = keys.has_unpublished_identity().map_err(|error| failed(&error))?;
        let has_identity = keys.has_identity().await.map_err(|error| failed(&error))? && !unpublished;
        if let Some(recovery_key) = &self.channel.settings.recovery_key
            && has_identity
        {
            self.import_secrets(recovery_key.expose()).await?;
        } else if has_identity {
            tracing::warn!(
                "this Matrix user has an identity that did not sign this device; verify it, or set MATRIX_RECOVERY_KEY"
            );
            return Ok(());
        }
        if is_signed {
            return Ok(());
        }
        for request in keys.sign_device().await.map_err(|error| failed(&error))? {
            if request.kind == KeyRequestKind::UploadSigningKeys {
                let answer = self.upload_signing_keys(&request).await?;
                keys.confirm(&request, &answer).await.map_err(|error| failed(&error))?;
                keys.identity_was_published().map_err(|error| failed(&error))?;
            } else {
                self.ask_and_confirm(&request).await?;
            }
        }
        // Shows this device as signed.
        let own = keys.query_own().map_err(|error| failed(&error))?;
        self.ask_and_confirm(&own).await
    }

    /// Uploads the keys of a new identity, with the password where the server asks for it.
    async fn upload_signing_keys(&self, request: &KeyRequest) -> Result<Value, RestError> {
        let failure = match self.ask(request).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let asked =
            failure.body.get("session").and_then(Value::as_str).filter(|_| failure.status == Some(401));
        let (Some(asked), Some(password)) = (asked, &self.channel.settings.password) else {
            return Err(failure);
        };
        let mut again = request.clone();
        again.body["auth"] = json!({
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.session.user},
            "password": password.expose(),
            "session": asked,
        });
        self.ask(&again).await
    }

    /// Opens the secrets that the user's account keeps on the server.
    async fn import_secrets(&self, recovery_key: &str) -> Result<(), ChannelError> {
        let missing = || ChannelError::Refused("the Matrix account has no recovery key set up".to_owned());
        let default = self
            .channel
            .api
            .account_data(self.session, "m.secret_storage.default_key")
            .await?
            .ok_or_else(missing)?;
        let key_id = default.get("key").and_then(Value::as_str).ok_or_else(missing)?;
        let kind = format!("m.secret_storage.key.{key_id}");
        let description = self.channel.api.account_data(self.session, &kind).await?.ok_or_else(missing)?;
        let mut secrets = Vec::new();
        for name in SecretBundle::NAMES {
            if let Some(content) = self.channel.api.account_data(self.session, name).await? {
                secrets.push((name, content));
            }
        }
        let refused = |error: Error| ChannelError::Refused(format!("MATRIX_RECOVERY_KEY: {error}"));
        let bundle = SecretBundle::open(recovery_key, key_id, &description, &secrets).map_err(refused)?;
        let answer =
            self.channel.api.call(&self.session.token, Method::GET, "v3/room_keys/version", None).await;
        let backup = answer.ok().and_then(|answer| KeyBackup::parse(&answer));
        self.encryption.keys.import_secrets(&bundle, backup.as_ref()).await.map_err(refused)
    }
}
