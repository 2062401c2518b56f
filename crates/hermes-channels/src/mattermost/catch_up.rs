//! Posts that were written while there was no connection.
//!
//! Invariant: the point up to which posts are known advances only past posts that the intake has accepted, or that are
//! not for the bot.

use std::sync::{Mutex, PoisonError};

use hermes_types::{ChannelError, Timestamp};
use serde_json::{Value, json};

use super::api::{MattermostIdentity, is_id};
use super::inbound::{self, MattermostPlace, MattermostPost};
use super::socket::MattermostListener;
use crate::host::ChannelHost;

const DOCUMENT: &str = "mattermost_seen.json";
/// The time before the point that is read again, because posts of several channels arrive in no strict order.
const OVERLAP_MS: i64 = 60_000;
/// The point is written at most this often.
const SAVE_EVERY_MS: i64 = 5_000;
/// Limits the channels that are read after a connection, the most recently used first.
const MAX_CHANNELS: usize = 200;

/// The time of the newest post that is dealt with, in milliseconds.
pub(super) struct CatchUpPoint(Mutex<SeenPoint>);

#[derive(Debug, Clone, Copy)]
struct SeenPoint {
    at: i64,
    saved: i64,
}

impl CatchUpPoint {
    /// Loads the point; without one, everything before now counts as dealt with.
    pub(super) fn load(host: &dyn ChannelHost, now: Timestamp) -> Self {
        let stored = host.load_document(DOCUMENT).and_then(|value| value.get("at").and_then(Value::as_i64));
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since the epoch fit 64 bits")]
        let at = stored.unwrap_or((now.seconds() * 1000.0) as i64);
        let point = Self(Mutex::new(SeenPoint { at, saved: stored.unwrap_or_default() }));
        point.save(host);
        point
    }

    /// Moves the point to a post that is dealt with.
    pub(super) fn advance(&self, created: i64, host: &dyn ChannelHost) {
        let due = {
            let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            newest.at = newest.at.max(created);
            newest.at - newest.saved >= SAVE_EVERY_MS
        };
        if due {
            self.save(host);
        }
    }

    pub(super) fn save(&self, host: &dyn ChannelHost) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.at != newest.saved {
            host.save_document(DOCUMENT, &json!({"at": newest.at}));
            newest.saved = newest.at;
        }
    }

    fn since(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).at - OVERLAP_MS
    }
}

impl MattermostListener<'_> {
    /// Reads the posts since the point, oldest first. Those that are known already are recognised by the intake.
    pub(super) async fn catch_up(&self, me: &MattermostIdentity) -> Result<(), ChannelError> {
        let since = self.point.since();
        let mut channels = self.changed_channels(me, since).await?;
        channels.truncate(MAX_CHANNELS);
        let mut posts: Vec<(MattermostPost, MattermostPlace)> = Vec::new();
        for (id, place) in channels {
            let answer = self.channel.api.get(&format!("channels/{id}/posts?since={since}")).await?;
            for post in answer.get("posts").and_then(Value::as_object).into_iter().flatten() {
                // Edited posts are listed too.
                if let Some(post) = inbound::parse_post(post.1, me).filter(|post| post.created >= since) {
                    posts.push((post, place.clone()));
                }
            }
        }
        posts.sort_by_key(|(post, _)| post.created);
        for (post, place) in posts {
            self.take(&post, &place, me).await;
        }
        Ok(())
    }

    /// Returns the channels with posts since that time, the newest first.
    async fn changed_channels(
        &self,
        me: &MattermostIdentity,
        since: i64,
    ) -> Result<Vec<(String, MattermostPlace)>, ChannelError> {
        let answer = self.channel.api.get(&format!("users/{}/channels", me.id)).await?;
        let mut found: Vec<(i64, String, MattermostPlace)> = Vec::new();
        for channel in answer.as_array().into_iter().flatten() {
            let text = |key: &str| channel.get(key).and_then(Value::as_str);
            let newest = channel.get("last_post_at").and_then(Value::as_i64).unwrap_or_default();
            if let Some(id) = text("id").filter(|id| newest >= since && is_id(id)) {
                let place = MattermostPlace::new(text("type").unwrap_or_default(), text("display_name"));
                found.push((newest, id.to_owned(), place));
            }
        }
        found.sort_by_key(|(newest, _, _)| std::cmp::Reverse(*newest));
        Ok(found.into_iter().map(|(_, id, place)| (id, place)).collect())
    }
}
