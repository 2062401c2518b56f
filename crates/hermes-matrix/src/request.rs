//! Requests to the server as method, path and body, and the reading of their responses.

use matrix_sdk_crypto::types::requests::{
    AnyOutgoingRequest, KeysBackupRequest, OutgoingRequest, ToDeviceRequest, UploadSigningKeysRequest,
};
use ruma::OwnedTransactionId;
use ruma::api::IncomingResponse;
use ruma::api::client::keys::claim_keys::v3::Request as ClaimRequest;
use ruma::api::client::keys::upload_signatures::v3::Request as SignatureRequest;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;

/// The kind of a request, which says how its response is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRequestKind {
    UploadKeys,
    QueryKeys,
    ClaimKeys,
    ToDevice,
    UploadSignatures,
    /// Needs the user's password where the server asks for it.
    UploadSigningKeys,
    RoomMessage,
    BackUpKeys,
}

/// Something to ask of the server.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    pub(crate) id: OwnedTransactionId,
    pub kind: KeyRequestKind,
    pub method: &'static str,
    /// The path below `/_matrix/client/`.
    pub path: String,
    pub body: Value,
    /// The event of a room that this sends. It must be encrypted first where the room is.
    pub room_event: Option<RoomEventRequest>,
}

/// An event to send into a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomEventRequest {
    pub room: String,
    pub kind: String,
    pub transaction: String,
}

impl KeyRequest {
    fn new(id: OwnedTransactionId, kind: KeyRequestKind, path: impl Into<String>, body: Value) -> Self {
        let method = match kind {
            KeyRequestKind::ToDevice | KeyRequestKind::RoomMessage | KeyRequestKind::BackUpKeys => "PUT",
            _ => "POST",
        };
        Self { id, kind, method, path: path.into(), body, room_event: None }
    }

    pub(crate) fn of(request: &OutgoingRequest) -> Result<Self, Error> {
        Self::of_parts(request.request_id().to_owned(), request.request())
    }

    pub(crate) fn of_parts(id: OwnedTransactionId, request: &AnyOutgoingRequest) -> Result<Self, Error> {
        match request {
            AnyOutgoingRequest::KeysUpload(upload) => {
                let mut body = json!({});
                if let Some(keys) = &upload.device_keys {
                    body["device_keys"] = to_json(keys)?;
                }
                if !upload.one_time_keys.is_empty() {
                    body["one_time_keys"] = to_json(&upload.one_time_keys)?;
                }
                if !upload.fallback_keys.is_empty() {
                    body["fallback_keys"] = to_json(&upload.fallback_keys)?;
                }
                Ok(Self::new(id, KeyRequestKind::UploadKeys, "v3/keys/upload", body))
            }
            AnyOutgoingRequest::KeysQuery(query) => {
                let body = json!({"timeout": 10_000, "device_keys": to_json(&query.device_keys)?});
                Ok(Self::new(id, KeyRequestKind::QueryKeys, "v3/keys/query", body))
            }
            AnyOutgoingRequest::KeysClaim(claim) => Self::claim(id, claim),
            AnyOutgoingRequest::ToDeviceRequest(request) => Self::to_device(request),
            AnyOutgoingRequest::SignatureUpload(upload) => Self::signatures(id, upload),
            AnyOutgoingRequest::RoomMessage(message) => {
                let kind = ruma::events::MessageLikeEventContent::event_type(&*message.content);
                let path = format!("v3/rooms/{}/send/{kind}/{}", message.room_id, message.txn_id);
                let room_event = RoomEventRequest {
                    room: message.room_id.to_string(),
                    kind: kind.to_string(),
                    transaction: message.txn_id.to_string(),
                };
                let request = Self::new(id, KeyRequestKind::RoomMessage, path, to_json(&message.content)?);
                Ok(Self { room_event: Some(room_event), ..request })
            }
        }
    }

    pub(crate) fn claim(id: OwnedTransactionId, claim: &ClaimRequest) -> Result<Self, Error> {
        let body = json!({"timeout": 10_000, "one_time_keys": to_json(&claim.one_time_keys)?});
        Ok(Self::new(id, KeyRequestKind::ClaimKeys, "v3/keys/claim", body))
    }

    pub(crate) fn to_device(request: &ToDeviceRequest) -> Result<Self, Error> {
        let path = format!("v3/sendToDevice/{}/{}", request.event_type, request.txn_id);
        let body = json!({"messages": to_json(&request.messages)?});
        Ok(Self::new(request.txn_id.clone(), KeyRequestKind::ToDevice, path, body))
    }

    pub(crate) fn signatures(id: OwnedTransactionId, upload: &SignatureRequest) -> Result<Self, Error> {
        let body = to_json(&upload.signed_keys)?;
        Ok(Self::new(id, KeyRequestKind::UploadSignatures, "v3/keys/signatures/upload", body))
    }

    pub(crate) fn signing_keys(
        id: OwnedTransactionId,
        upload: &UploadSigningKeysRequest,
    ) -> Result<Self, Error> {
        let mut body = json!({});
        let keys = [
            ("master_key", &upload.master_key),
            ("self_signing_key", &upload.self_signing_key),
            ("user_signing_key", &upload.user_signing_key),
        ];
        for (name, key) in keys {
            if let Some(key) = key {
                body[name] = to_json(key)?;
            }
        }
        Ok(Self::new(id, KeyRequestKind::UploadSigningKeys, "v3/keys/device_signing/upload", body))
    }

    pub(crate) fn backup(id: OwnedTransactionId, request: &KeysBackupRequest) -> Result<Self, Error> {
        let path = format!("v3/room_keys/keys?version={}", request.version);
        Ok(Self::new(id, KeyRequestKind::BackUpKeys, path, json!({"rooms": to_json(&request.rooms)?})))
    }
}

fn to_json(value: &(impl Serialize + ?Sized)) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(Error::invalid)
}

/// Reads a response as the library knows it.
pub(crate) fn read_response<T: IncomingResponse>(body: &Value) -> Result<T, Error> {
    let response = http::Response::new(body.to_string().into_bytes());
    T::try_from_http_response(response).map_err(Error::invalid)
}
