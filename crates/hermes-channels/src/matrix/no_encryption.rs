//! Stands in for the encryption in builds without it.
//!
//! Nothing here can be reached with encryption switched on: the settings refuse it.

use std::sync::Arc;

use hermes_types::ChannelError;
use serde_json::Value;

use super::MatrixChannel;
use super::rooms::RoomFacts;
use super::sign_in::MatrixSession;
use super::sync::{MatrixListener, SyncScope};
use super::take::DecryptionFailure;

/// Tells whether this build can encrypt.
pub(super) const IS_BUILT: bool = false;

/// There are no keys.
pub(super) enum AbsentEncryption {}

pub(super) use AbsentEncryption as RoomEncryption;

fn absent() -> ChannelError {
    ChannelError::Refused(
        "the room is encrypted, and this build of Hermes has no encryption for Matrix".to_owned(),
    )
}

pub(super) fn encrypt_file(_: &[u8]) -> Result<(Vec<u8>, Value), String> {
    Err(absent().to_string())
}

pub(super) fn decrypt_file(_: &[u8], _: &Value) -> Result<Vec<u8>, String> {
    Err(absent().to_string())
}

impl MatrixChannel {
    #[expect(clippy::unused_async, reason = "the same as in builds with encryption")]
    pub(super) async fn encryption(
        &self,
        _: &MatrixSession,
    ) -> Result<Option<Arc<RoomEncryption>>, ChannelError> {
        let _ = &self.open_encryption;
        Ok(None)
    }

    pub(super) fn device_of_stored_keys(&self, _: &str) -> Option<String> {
        None
    }

    pub(super) async fn pump(
        &self,
        _: &MatrixSession,
        encryption: &RoomEncryption,
    ) -> Result<(), ChannelError> {
        match *encryption {}
    }

    #[expect(clippy::unused_async, reason = "the same as in builds with encryption")]
    pub(super) async fn encrypt(
        &self,
        _: &MatrixSession,
        _: &str,
        _: &RoomFacts,
        _: (&str, &Value),
    ) -> Result<Value, ChannelError> {
        Err(absent())
    }

    pub(super) async fn decrypt(
        &self,
        _: &MatrixSession,
        encryption: &RoomEncryption,
        _: &str,
        _: &Value,
    ) -> Result<Value, DecryptionFailure> {
        match *encryption {}
    }
}

impl MatrixListener<'_> {
    pub(super) async fn prepare_verifications(
        &self,
        _: &SyncScope,
        encryption: &RoomEncryption,
        _: &Value,
    ) -> Result<(), ChannelError> {
        match *encryption {}
    }

    pub(super) async fn know_devices(
        &self,
        _: &SyncScope,
        encryption: &RoomEncryption,
        _: &[String],
    ) -> Result<(), ChannelError> {
        match *encryption {}
    }

    pub(super) async fn advance_verifications(
        &self,
        _: &SyncScope,
        encryption: &RoomEncryption,
    ) -> Result<(), ChannelError> {
        match *encryption {}
    }
}

impl AbsentEncryption {
    pub(super) async fn take_sync(&self, _: &Value) -> Result<(), ChannelError> {
        match *self {}
    }

    pub(super) fn is_verifying(&self) -> bool {
        match *self {}
    }

    pub(super) async fn take_room_verification(&self, _: &str, _: &Value) -> Result<bool, ChannelError> {
        match *self {}
    }

    pub(super) fn remember_encrypted(&self, _: &str, _: Option<Value>) -> Option<Value> {
        match *self {}
    }

    pub(super) fn undecrypted(&self) -> Vec<Value> {
        match *self {}
    }

    pub(super) fn set_undecrypted(&self, _: &[Value]) -> Result<(), ChannelError> {
        match *self {}
    }
}
