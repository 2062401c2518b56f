//! The keys of this device, and the requests to the server that they need.
//!
//! Invariant: a message is encrypted under a lock, so that the key of its room is with everybody who is in it now.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_matrix::{Error, MatrixKeys};
use hermes_types::ChannelError;
use serde_json::Value;

use super::MatrixChannel;
use super::key_exchange::KeyExchange;
use super::rooms::RoomFacts;
use super::settings::EncryptionMode;
use super::sign_in::MatrixSession;
use super::take::DecryptionFailure;
use super::verification::{OpenVerifications, forget_shown};
use crate::host::ChannelHost;

/// Tells whether this build can encrypt.
pub(super) const IS_BUILT: bool = true;
const FILE: &str = "hermes-keys.db";
const FOLDER: &str = "matrix";
const UNDECRYPTED: &str = "undecrypted";

/// Encrypts a file; returns its bytes and its description.
pub(super) fn encrypt_file(bytes: &[u8]) -> Result<(Vec<u8>, Value), String> {
    let file = hermes_matrix::encrypt_file(bytes).map_err(|error| error.to_string())?;
    Ok((file.bytes, file.description))
}

/// Decrypts a file by its description.
pub(super) fn decrypt_file(bytes: &[u8], description: &Value) -> Result<Vec<u8>, String> {
    hermes_matrix::decrypt_file(bytes, description).map_err(|error| error.to_string())
}

/// The keys in use.
pub(super) struct RoomEncryption {
    pub(super) keys: MatrixKeys,
    /// Held by the one who asks the server something for the keys.
    pub(super) gate: tokio::sync::Mutex<()>,
    pub(super) verifications: OpenVerifications,
}

pub(super) fn failed(error: &Error) -> ChannelError {
    match error {
        Error::InUse => ChannelError::Retry { after: None, reason: error.to_string() },
        error => ChannelError::Retry { after: None, reason: format!("Matrix encryption: {error}") },
    }
}

fn key_file(host: &dyn ChannelHost) -> Result<PathBuf, ChannelError> {
    let folder = host.private_folder(FOLDER);
    folder.map(|folder| folder.join(FILE)).map_err(|reason| ChannelError::Retry { after: None, reason })
}

/// Renames the keys of another device, which are of no use for this one.
fn set_other_device_aside(file: &Path, session: &MatrixSession, device: &str) -> Result<(), ChannelError> {
    let owner = MatrixKeys::owner(file).map_err(|error| failed(&error))?;
    let Some((user, other)) = owner.filter(|owner| *owner != (session.user.clone(), device.to_owned()))
    else {
        return Ok(());
    };
    let safe: String = other.chars().filter(char::is_ascii_alphanumeric).collect();
    let aside = file.with_file_name(format!("hermes-keys-{safe}.db"));
    tracing::warn!(%user, device = %other, "the stored Matrix keys are of another device; they are set aside");
    std::fs::rename(file, aside)
        .map_err(|error| ChannelError::Retry { after: None, reason: error.to_string() })
}

impl MatrixChannel {
    /// Returns the keys, or `None` where encryption is off.
    pub(super) async fn encryption(
        &self,
        session: &MatrixSession,
    ) -> Result<Option<Arc<RoomEncryption>>, ChannelError> {
        if self.settings.encryption == EncryptionMode::Off {
            return Ok(None);
        }
        let mut open = self.open_encryption.lock().await;
        if let Some(open) = &*open {
            return Ok(Some(open.clone()));
        }
        let Some(device) = &session.device else {
            let why = "the access token belongs to no device, so that nothing can be encrypted; set MATRIX_DEVICE_ID, \
                       or MATRIX_USER_ID and MATRIX_PASSWORD instead of MATRIX_ACCESS_TOKEN";
            return Err(ChannelError::Refused(why.to_owned()));
        };
        let file = key_file(&*self.context.host)?;
        set_other_device_aside(&file, session, device)?;
        let is_new = !file.exists();
        let keys = MatrixKeys::open(&file, &session.user, device).await.map_err(|error| failed(&error))?;
        let encryption = Arc::new(RoomEncryption {
            keys,
            gate: tokio::sync::Mutex::default(),
            verifications: OpenVerifications::default(),
        });
        if let Err(error) =
            (KeyExchange { channel: self, session, encryption: &encryption }).start(device).await
        {
            // Keys that were never used must not look like those of this device later.
            if is_new && matches!(error, ChannelError::Refused(_)) {
                drop(encryption);
                std::fs::remove_file(&file).ok();
            }
            return Err(error);
        }
        forget_shown(&*self.context.host);
        *open = Some(encryption.clone());
        Ok(Some(encryption))
    }

    /// Returns the device whose keys are stored, if they are those of this user.
    pub(super) fn device_of_stored_keys(&self, user: &str) -> Option<String> {
        if self.settings.encryption == EncryptionMode::Off {
            return None;
        }
        let (owner, device) = MatrixKeys::owner(&key_file(&*self.context.host).ok()?).ok()??;
        let localpart = user.strip_prefix('@').and_then(|user| user.split(':').next()).unwrap_or(user);
        (owner == user || owner.starts_with(&format!("@{localpart}:"))).then_some(device)
    }

    /// Asks the server what the keys need.
    pub(super) async fn pump(
        &self,
        session: &MatrixSession,
        encryption: &RoomEncryption,
    ) -> Result<(), ChannelError> {
        KeyExchange { channel: self, session, encryption }.pump().await
    }

    /// Encrypts an event for everybody in a room.
    pub(super) async fn encrypt(
        &self,
        session: &MatrixSession,
        room: &str,
        facts: &RoomFacts,
        content: (&str, &Value),
    ) -> Result<Value, ChannelError> {
        let Some(encryption) = self.encryption(session).await? else {
            let why = "the room is encrypted, and MATRIX_ENCRYPTION is off; nothing was sent";
            return Err(ChannelError::Refused(why.to_owned()));
        };
        let Some(settings) = &facts.encryption else {
            return Err(ChannelError::Refused("the room is not encrypted".to_owned()));
        };
        let _gate = encryption.gate.lock().await;
        KeyExchange { channel: self, session, encryption: &encryption }.share(room, facts, settings).await?;
        let (kind, content) = content;
        encryption.keys.encrypt(room, kind, content).await.map_err(|error| failed(&error))
    }

    /// Decrypts an event. A key that is not known is looked for in the backup.
    pub(super) async fn decrypt(
        &self,
        session: &MatrixSession,
        encryption: &RoomEncryption,
        room: &str,
        event: &Value,
    ) -> Result<Value, DecryptionFailure> {
        match encryption.keys.decrypt(room, event).await {
            Ok(decrypted) => return Ok(decrypted.event),
            Err(Error::MissingKey) => {}
            Err(error) => return Err(DecryptionFailure::Failed(error.to_string())),
        }
        let key = event.pointer("/content/session_id").and_then(Value::as_str);
        let key = key.ok_or(DecryptionFailure::MissingKey)?;
        if !(KeyExchange { channel: self, session, encryption }).restore(room, key).await {
            return Err(DecryptionFailure::MissingKey);
        }
        match encryption.keys.decrypt(room, event).await {
            Ok(decrypted) => Ok(decrypted.event),
            Err(Error::MissingKey) => Err(DecryptionFailure::MissingKey),
            Err(error) => Err(DecryptionFailure::Failed(error.to_string())),
        }
    }
}

impl RoomEncryption {
    /// Takes what a sync says about keys. They are on disk when this returns.
    pub(super) async fn take_sync(&self, sync: &Value) -> Result<(), ChannelError> {
        let flows = self.keys.take_sync(sync).await.map_err(|error| failed(&error))?;
        self.note_verifications(flows);
        Ok(())
    }

    /// Remembers that a room is encrypted. Returns how, also when the server denies it later.
    pub(super) fn remember_encrypted(&self, room: &str, content: Option<Value>) -> Option<Value> {
        let name = format!("encrypted:{room}");
        let known = self.keys.note(&name).ok().flatten().and_then(|text| serde_json::from_str(&text).ok());
        match content {
            Some(content) => {
                if known.as_ref() != Some(&content)
                    && let Err(error) = self.keys.set_note(&name, &content.to_string())
                {
                    tracing::warn!(%error, "that a room is encrypted was not written");
                }
                Some(content)
            }
            None => known,
        }
    }

    /// Returns the events that wait for their keys.
    pub(super) fn undecrypted(&self) -> Vec<Value> {
        let text = self.keys.note(UNDECRYPTED).ok().flatten().unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Replaces the events that wait for their keys. They are on disk when this returns.
    pub(super) fn set_undecrypted(&self, events: &[Value]) -> Result<(), ChannelError> {
        let text = Value::from(events.to_vec()).to_string();
        self.keys.set_note(UNDECRYPTED, &text).map_err(|error| failed(&error))
    }
}
