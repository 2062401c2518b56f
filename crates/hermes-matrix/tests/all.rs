//! Two devices that exchange keys through a server of a few lines, closed and opened at every step as if they were killed.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use hermes_matrix::{Error, KeyRequest, KeyRequestKind, MatrixKeys, RoomKeySharing};
use serde_json::{Value, json};

const ROOM: &str = "!room:x.org";

/// The server: keys of devices, and messages from device to device.
#[derive(Default)]
struct KeyServer {
    devices: BTreeMap<String, Value>,
    one_time: BTreeMap<String, Vec<(String, Value)>>,
    messages: BTreeMap<String, Vec<Value>>,
}

impl KeyServer {
    fn answer(&mut self, from: &str, request: &KeyRequest) -> Value {
        let body = &request.body;
        match request.kind {
            KeyRequestKind::UploadKeys => {
                if let Some(keys) = body.get("device_keys") {
                    self.devices.insert(from.to_owned(), keys.clone());
                }
                let keys = self.one_time.entry(from.to_owned()).or_default();
                let new = body.get("one_time_keys").and_then(Value::as_object).into_iter().flatten();
                keys.extend(new.map(|(id, key)| (id.clone(), key.clone())));
                json!({"one_time_key_counts": {"signed_curve25519": keys.len()}})
            }
            KeyRequestKind::QueryKeys => {
                let users = body["device_keys"].as_object().unwrap().keys();
                let keys = users.filter_map(|user| {
                    let keys = self.devices.get(user)?;
                    Some((user.clone(), json!({keys["device_id"].as_str()?: keys})))
                });
                json!({"device_keys": keys.collect::<serde_json::Map<_, _>>()})
            }
            KeyRequestKind::ClaimKeys => {
                let mut claimed = json!({});
                for (user, devices) in body["one_time_keys"].as_object().unwrap() {
                    let (id, key) = self.one_time.get_mut(user).unwrap().remove(0);
                    for device in devices.as_object().unwrap().keys() {
                        claimed[user][device] = json!({id.as_str(): key});
                    }
                }
                json!({"one_time_keys": claimed})
            }
            KeyRequestKind::ToDevice => {
                let kind = request.path.split('/').nth(2).unwrap();
                for (user, devices) in body["messages"].as_object().unwrap() {
                    for content in devices.as_object().unwrap().values() {
                        let event = json!({"type": kind, "sender": from, "content": content});
                        self.messages.entry(user.clone()).or_default().push(event);
                    }
                }
                json!({})
            }
            _ => json!({}),
        }
    }
}

/// A user whose keys are opened for each step.
struct KeyOwner {
    user: &'static str,
    path: PathBuf,
}

impl KeyOwner {
    async fn open(&self) -> MatrixKeys {
        MatrixKeys::open(&self.path, self.user, "DEVICE").await.unwrap()
    }

    async fn pump(&self, server: &mut KeyServer) {
        for _ in 0..4 {
            let keys = self.open().await;
            for request in keys.requests().await.unwrap() {
                let answer = server.answer(self.user, &request);
                keys.confirm(&request, &answer).await.unwrap();
            }
        }
    }

    async fn sync(&self, server: &mut KeyServer, next: &str) {
        let events = server.messages.remove(self.user).unwrap_or_default();
        let count = server.one_time.get(self.user).map_or(0, Vec::len);
        let sync = json!({
            "next_batch": next, "to_device": {"events": events},
            "device_one_time_keys_count": {"signed_curve25519": count}, "device_unused_fallback_key_types": [],
        });
        self.open().await.take_sync(&sync).await.unwrap();
    }

    async fn encrypt(&self, server: &mut KeyServer, members: &[String], text: &str) -> Value {
        self.open().await.track_users(members).await.unwrap();
        self.pump(server).await;
        let claim = self.open().await.missing_sessions(members).await.unwrap();
        if let Some(claim) = claim {
            // The next process makes this request again.
            let keys = self.open().await;
            let claim_again = keys.missing_sessions(members).await.unwrap().unwrap();
            assert_eq!(claim.body["one_time_keys"], claim_again.body["one_time_keys"]);
            let answer = server.answer(self.user, &claim_again);
            keys.confirm(&claim_again, &answer).await.unwrap();
        }
        let encryption = json!({"algorithm": "m.megolm.v1.aes-sha2"});
        let sharing = RoomKeySharing { members, encryption: &encryption, history_visibility: None };
        // A process that is killed here has sent nothing: the next one shares the same key.
        let keys = self.open().await;
        drop(keys.share_room_key(ROOM, sharing).await.unwrap());
        drop(keys);
        let keys = self.open().await;
        for request in keys.share_room_key(ROOM, sharing).await.unwrap() {
            let answer = server.answer(self.user, &request);
            keys.confirm(&request, &answer).await.unwrap();
        }
        let content =
            keys.encrypt(ROOM, "m.room.message", &json!({"msgtype": "m.text", "body": text})).await.unwrap();
        json!({
            "type": "m.room.encrypted", "event_id": format!("${text}"), "sender": self.user, "origin_server_ts": 1,
            "room_id": ROOM, "content": content,
        })
    }
}

#[tokio::test]
async fn keys_outlive_the_process_at_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let owner = |user: &'static str, file: &str| KeyOwner { user, path: folder.path().join(file) };
    let (ann, bob) = (owner("@ann:x.org", "ann.db"), owner("@bob:x.org", "bob.db"));
    let members = [ann.user.to_owned(), bob.user.to_owned()];
    let mut server = KeyServer::default();
    for person in [&ann, &bob] {
        person.pump(&mut server).await;
    }
    assert_eq!(server.one_time[bob.user].len(), 50);
    let mut indexes = Vec::new();
    let mut sealed = Vec::new();
    for number in 0..4 {
        let event = ann.encrypt(&mut server, &members, &format!("text {number}")).await;
        // No position of a key is used twice, whoever used the last one is gone.
        indexes.push(event["content"]["ciphertext"].as_str().unwrap().get(..8).unwrap().to_owned());
        sealed.push(event);
    }
    indexes.sort();
    indexes.dedup();
    assert_eq!(indexes.len(), 4);
    assert!(matches!(bob.open().await.decrypt(ROOM, &sealed[0]).await, Err(Error::MissingKey)));
    // The same sync twice, because the point was not stored in time.
    let again = server.messages.get(bob.user).cloned();
    bob.sync(&mut server, "s1").await;
    server.messages.insert(bob.user.to_owned(), again.unwrap());
    bob.sync(&mut server, "s1").await;
    for (number, event) in sealed.iter().enumerate() {
        let plain = bob.open().await.decrypt(ROOM, event).await.unwrap().event;
        assert_eq!(plain["content"]["body"], format!("text {number}"));
    }
    // Nobody can pass an event off as theirs.
    let mut stolen = sealed[0].clone();
    stolen["sender"] = json!("@bob:x.org");
    assert!(bob.open().await.decrypt(ROOM, &stolen).await.is_err());
    let back = bob.encrypt(&mut server, &members, "back").await;
    ann.sync(&mut server, "s2").await;
    assert_eq!(ann.open().await.decrypt(ROOM, &back).await.unwrap().event["content"]["body"], "back");
}

#[tokio::test]
async fn keys_have_one_owner_and_one_user_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.db");
    assert_eq!(MatrixKeys::owner(&path).unwrap(), None);
    let keys = MatrixKeys::open(&path, "@ann:x.org", "A").await.unwrap();
    let print = keys.fingerprint();
    assert!(matches!(MatrixKeys::open(&path, "@ann:x.org", "A").await, Err(Error::InUse)));
    drop(keys);
    assert_eq!(MatrixKeys::owner(&path).unwrap(), Some(("@ann:x.org".to_owned(), "A".to_owned())));
    let other = MatrixKeys::open(&path, "@ann:x.org", "B").await;
    assert!(matches!(other, Err(Error::OtherDevice { device, .. }) if device == "A"));
    assert_eq!(MatrixKeys::open(&path, "@ann:x.org", "A").await.unwrap().fingerprint(), print);
}
