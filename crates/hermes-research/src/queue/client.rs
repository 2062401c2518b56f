//! The statements of the queue. Each is one transaction.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::HttpClient;
use hermes_task::spawn_named;
use hermes_types::Cancel;
use tokio::sync::{Mutex, OnceCell};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use super::encryption::{QueueAddress, QueueTls};
use super::item::{LeasedItem, QueueItem};
use crate::error::Error;

const SCHEMA: &str = include_str!("schema.sql");
/// The items that one statement inserts.
const INSERTED_AT_ONCE: usize = 500;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

const CLAIM: &str = "WITH picked AS (
    SELECT key FROM hermes_batch.items
    WHERE run = $1 AND (state = 'ready' OR state = 'leased' AND lease_until < now())
    ORDER BY idx LIMIT $2 FOR UPDATE SKIP LOCKED)
UPDATE hermes_batch.items AS item
SET state = CASE WHEN item.attempts >= $5 THEN 'dead' ELSE 'leased' END,
    owner = $3, lease_until = now() + $4 * interval '1 second', fence = item.fence + 1, attempts = item.attempts + 1
FROM picked WHERE item.run = $1 AND item.key = picked.key
RETURNING item.idx, item.key, item.payload, item.fence, item.state";

const CLOSE: &str = "WITH given AS (
    SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[])
    AS given (key, fence, state, record, tools, reasoning)),
closed AS (
    UPDATE hermes_batch.items AS item SET state = given.state, owner = NULL, lease_until = NULL FROM given
    WHERE item.run = $1 AND item.key = given.key AND item.state = 'leased' AND item.fence = given.fence
    RETURNING item.key, item.fence, item.idx),
written AS (
    INSERT INTO hermes_batch.results (run, key, idx, fence, record, tool_stats, reasoning_stats)
    SELECT $1, key, idx, fence, record, tools, reasoning FROM closed JOIN given USING (key, fence) WHERE record IS NOT NULL
    ON CONFLICT (run, key) DO NOTHING RETURNING 1)
SELECT key, fence, (SELECT count(*) FROM written) FROM closed";

/// Claims may be lost when the database server crashes: then an item is free again, and a record is still written once. Results may not.
const CLAIMING: &str = "SET synchronous_commit = off";

/// How items are leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    pub lease: Duration,
    /// The most claims of one item.
    pub max_attempts: i32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { lease: Duration::from_mins(5), max_attempts: 3 }
    }
}

/// What became of the attempt to close an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemClose {
    Closed,
    /// Another worker has claimed the item since; the result was dropped.
    Fenced,
}

/// How many items are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueStatus {
    pub ready: u64,
    pub leased: u64,
    pub done: u64,
    pub discarded: u64,
    pub dead: u64,
}

impl QueueStatus {
    pub fn total(&self) -> u64 {
        self.ready + self.leased + self.done + self.discarded + self.dead
    }

    /// Returns the number of items that somebody has to work on, or works on.
    pub fn open(&self) -> u64 {
        self.ready + self.leased
    }
}

/// The result of an item that is to be closed. Without a record, it is discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemResult {
    pub item: LeasedItem,
    pub record: Option<ItemRecord>,
}

/// A record, with its tool counts and reasoning counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRecord {
    pub line: String,
    pub tools: String,
    pub reasoning: String,
}

/// A connection, with the statements that were prepared on it.
pub(super) struct QueueConnection {
    client: Client,
    claim: OnceCell<Statement>,
    close: OnceCell<Statement>,
}

impl Deref for QueueConnection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl QueueConnection {
    async fn prepared<'s>(&self, slot: &'s OnceCell<Statement>, text: &str) -> Result<&'s Statement, Error> {
        slot.get_or_try_init(|| async { self.client.prepare(text).await.map_err(failed) }).await
    }
}

/// A connection that is opened when it is first used, and again when it was closed.
type ConnectionSlot = Mutex<Option<Arc<QueueConnection>>>;

/// A run in a database.
#[expect(missing_debug_implementations, reason = "it holds a connection")]
pub struct RunQueue {
    config: Config,
    tls: Option<QueueTls>,
    pub(super) run: String,
    pub(super) options: QueueOptions,
    client: ConnectionSlot,
    /// Claims have a connection of their own, so that they do not wait for results that are being written to disk.
    claims: ConnectionSlot,
    cancel: Cancel,
}

impl RunQueue {
    /// Connects to the database of a run, and creates its tables if they are missing.
    pub async fn connect(
        address: &str,
        run: &str,
        options: QueueOptions,
        net: &HttpClient,
    ) -> Result<Self, Error> {
        let QueueAddress { mut config, tls } = QueueAddress::parse(address, net)?;
        config.connect_timeout(CONNECT_LIMIT).application_name("hermes");
        let queue = Self {
            config,
            tls,
            run: run.to_owned(),
            options,
            client: Mutex::default(),
            claims: Mutex::default(),
            cancel: Cancel::new(),
        };
        let client = queue.client().await?;
        // Two that create the schema at the same time would be in each other's way.
        let create = format!("BEGIN; SELECT pg_advisory_xact_lock(7240617); {SCHEMA} COMMIT;");
        client.batch_execute(&create).await.map_err(failed)?;
        Ok(queue)
    }

    /// Drives a connection until it ends.
    fn keep(&self, connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static) {
        drop(spawn_named("queue connection", &self.cancel, async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "the connection to the queue ended");
            }
        }));
    }

    /// Returns the connection, a new one if the last is closed.
    pub(super) async fn client(&self) -> Result<Arc<QueueConnection>, Error> {
        self.connection(&self.client, "").await
    }

    async fn claiming_client(&self) -> Result<Arc<QueueConnection>, Error> {
        self.connection(&self.claims, CLAIMING).await
    }

    async fn connection(&self, slot: &ConnectionSlot, first: &str) -> Result<Arc<QueueConnection>, Error> {
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        let client = if let Some(tls) = &self.tls {
            let (client, connection) = self.config.connect(tls.clone()).await.map_err(failed)?;
            self.keep(connection);
            client
        } else {
            let (client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
            self.keep(connection);
            client
        };
        client.batch_execute(first).await.map_err(failed)?;
        let connection = Arc::new(QueueConnection { client, claim: OnceCell::new(), close: OnceCell::new() });
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// Adds items; those that are there keep their state and get the new number. Returns how many are new.
    pub async fn enqueue(&self, items: &[QueueItem], config: &str, registry: &str) -> Result<u64, Error> {
        let client = self.client().await?;
        let insert = "INSERT INTO hermes_batch.runs (name, config, registry_hash) VALUES ($1, $2, $3)
            ON CONFLICT (name) DO UPDATE SET config = excluded.config, registry_hash = excluded.registry_hash";
        client.execute(insert, &[&self.run, &config, &registry]).await.map_err(failed)?;
        let mut added = 0;
        for part in items.chunks(INSERTED_AT_ONCE) {
            let indices: Vec<i64> =
                part.iter().map(|item| i64::try_from(item.index).unwrap_or(i64::MAX)).collect();
            let column = |of: fn(&QueueItem) -> &str| part.iter().map(of).collect::<Vec<&str>>();
            let (keys, hashes, payloads) =
                (column(|item| &item.key), column(|item| &item.prompt_hash), column(|item| &item.payload));
            let insert = "INSERT INTO hermes_batch.items (run, idx, key, prompt_hash, payload)
                SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[])
                ON CONFLICT (run, key) DO UPDATE SET idx = excluded.idx RETURNING (xmax = 0)";
            let values: [&(dyn ToSql + Sync); 5] = [&self.run, &indices, &keys, &hashes, &payloads];
            let rows = client.query(insert, &values).await.map_err(failed)?;
            added += rows.iter().filter(|row| row.try_get(0).unwrap_or(false)).count() as u64;
        }
        Ok(added)
    }

    /// Returns what was stored with the run; `None` where there is no such run.
    pub async fn config(&self) -> Result<Option<String>, Error> {
        let select = "SELECT config FROM hermes_batch.runs WHERE name = $1";
        let row = self.client().await?.query_opt(select, &[&self.run]).await.map_err(failed)?;
        row.map(|row| row.try_get(0).map_err(failed)).transpose()
    }

    /// Claims items that nobody works on, at most this many. One that was claimed too often is given up.
    pub async fn claim(&self, owner: &str, most: usize) -> Result<Vec<LeasedItem>, Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let lease = self.options.lease.as_secs_f64();
        let values: [&(dyn ToSql + Sync); 5] = [&self.run, &most, &owner, &lease, &self.options.max_attempts];
        let connection = self.claiming_client().await?;
        let claim = connection.prepared(&connection.claim, CLAIM).await?;
        let rows = connection.query(claim, &values).await.map_err(failed)?;
        let mut items = Vec::new();
        for row in &rows {
            if text(row, 4)? == "dead" {
                continue;
            }
            let index: i64 = row.try_get(0).map_err(failed)?;
            items.push(LeasedItem {
                index: usize::try_from(index).unwrap_or_default(),
                key: text(row, 1)?,
                payload: text(row, 2)?,
                fence: row.try_get(3).map_err(failed)?,
            });
        }
        Ok(items)
    }

    /// Extends a lease. Returns false when the item is another worker's.
    pub async fn extend(&self, item: &LeasedItem) -> Result<bool, Error> {
        let update = "UPDATE hermes_batch.items SET lease_until = now() + $4 * interval '1 second'
            WHERE run = $1 AND key = $2 AND state = 'leased' AND fence = $3";
        let lease = self.options.lease.as_secs_f64();
        let values: [&(dyn ToSql + Sync); 4] = [&self.run, &item.key, &item.fence, &lease];
        Ok(self.client().await?.execute(update, &values).await.map_err(failed)? == 1)
    }

    /// Closes items in one transaction. Says for each, in their order, whether it was closed.
    pub async fn close(&self, results: &[ItemResult]) -> Result<Vec<ItemClose>, Error> {
        fn column<'r, T: 'r>(results: &'r [ItemResult], of: impl Fn(&'r ItemResult) -> T) -> Vec<T> {
            results.iter().map(of).collect()
        }
        let keys = column(results, |result| result.item.key.as_str());
        let fences = column(results, |result| result.item.fence);
        let states = column(results, |result| if result.record.is_some() { "done" } else { "discarded" });
        let record = |of: fn(&ItemRecord) -> &str| {
            results.iter().map(|result| result.record.as_ref().map(of)).collect::<Vec<Option<&str>>>()
        };
        let lines = record(|record| &record.line);
        let (tools, reasoning) = (record(|record| &record.tools), record(|record| &record.reasoning));
        let values: [&(dyn ToSql + Sync); 7] =
            [&self.run, &keys, &fences, &states, &lines, &tools, &reasoning];
        let connection = self.client().await?;
        let close = connection.prepared(&connection.close, CLOSE).await?;
        let rows = connection.query(close, &values).await.map_err(failed)?;
        let mut closed = HashSet::new();
        for row in &rows {
            closed.insert((text(row, 0)?, row.try_get::<_, i64>(1).map_err(failed)?));
        }
        let mut outcomes = Vec::with_capacity(results.len());
        for ((result, state), fence) in results.iter().zip(&states).zip(&fences) {
            let key = &result.item.key;
            let is_closed = closed.contains(&(key.clone(), *fence)) || {
                // The reply to an earlier attempt may have been lost.
                let select = "SELECT count(*) FROM hermes_batch.items
                    WHERE run = $1 AND key = $2 AND fence = $3 AND state = $4";
                let values: [&(dyn ToSql + Sync); 4] = [&self.run, key, fence, state];
                let row = connection.query_one(select, &values).await.map_err(failed)?;
                row.try_get::<_, i64>(0).map_err(failed)? == 1
            };
            outcomes.push(if is_closed { ItemClose::Closed } else { ItemClose::Fenced });
        }
        Ok(outcomes)
    }

    /// Gives an item back that was not done. One that was claimed too often is given up.
    pub async fn give_back(&self, item: &LeasedItem, counts: GiveBack) -> Result<(), Error> {
        let update =
            "UPDATE hermes_batch.items SET owner = NULL, lease_until = NULL, attempts = attempts - $5,
                state = CASE WHEN attempts - $5 >= $4 THEN 'dead' ELSE 'ready' END
            WHERE run = $1 AND key = $2 AND state = 'leased' AND fence = $3";
        let forgiven = i32::from(counts == GiveBack::Unused);
        let values: [&(dyn ToSql + Sync); 5] =
            [&self.run, &item.key, &item.fence, &self.options.max_attempts, &forgiven];
        self.client().await?.execute(update, &values).await.map_err(failed)?;
        Ok(())
    }

    /// Tells whether somebody has to work on an item, or works on one.
    pub async fn has_open(&self) -> Result<bool, Error> {
        let select = "SELECT EXISTS (SELECT 1 FROM hermes_batch.items WHERE run = $1 AND state IN ('ready', 'leased'))";
        let row = self.client().await?.query_one(select, &[&self.run]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }

    pub async fn status(&self) -> Result<QueueStatus, Error> {
        let select = "SELECT state, count(*) FROM hermes_batch.items WHERE run = $1 GROUP BY state";
        let rows = self.client().await?.query(select, &[&self.run]).await.map_err(failed)?;
        let mut status = QueueStatus::default();
        for row in &rows {
            let count = u64::try_from(row.try_get::<_, i64>(1).map_err(failed)?).unwrap_or_default();
            match text(row, 0)?.as_str() {
                "ready" => status.ready = count,
                "leased" => status.leased = count,
                "done" => status.done = count,
                "discarded" => status.discarded = count,
                _ => status.dead += count,
            }
        }
        Ok(status)
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Says whether an item that is given back was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveBack {
    Failed,
    /// The worker was told to stop.
    Unused,
}

pub(super) fn text(row: &Row, at: usize) -> Result<String, Error> {
    row.try_get(at).map_err(failed)
}

/// Turns an error of the database into one for the user. It contains neither statements nor values.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
pub(super) fn failed(error: tokio_postgres::Error) -> Error {
    let of_server = error.as_db_error().map(|reason| reason.message().to_owned());
    Error::Queue(of_server.unwrap_or_else(|| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    }))
}
