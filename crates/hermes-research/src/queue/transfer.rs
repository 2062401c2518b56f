//! Moves a run between the database and the files of a run.

use std::io::Write as _;
use std::path::Path;

use futures_util::TryStreamExt as _;
use hermes_text::JsonTree;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::client::{RunQueue, failed, text};
use super::worker::{reasoning_json, tools_json};
use crate::batch::{
    ItemCounts, MergeReport, ReasoningCounts, RecordLine, RunStatistics, ToolCounts, batch_files,
    check_record, each_line, hex,
};
use crate::error::Error;

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub imported: u64,
    /// Records whose prompt is not in the queue, or is done there.
    pub left_out: u64,
}

/// Writes the records of a run, in the order of its dataset, and returns what was written and the sums over it. The numbers of
/// all finished items are passed to `finished`.
pub async fn export_run(
    queue: &RunQueue,
    path: &Path,
    registered: &[String],
    mut finished: impl FnMut(usize),
) -> Result<(MergeReport, RunStatistics), Error> {
    let client = queue.client().await?;
    let beside = path.with_file_name(format!(".trajectories_{}.tmp", hermes_types::random_hex(8)));
    let write = async {
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
        let mut out = std::io::BufWriter::new(file.map_err(Error::file(&beside))?);
        let mut report = MergeReport { files: 1, ..MergeReport::default() };
        let mut statistics = RunStatistics::default();
        let select = "SELECT record, tool_stats, reasoning_stats FROM hermes_batch.results WHERE run = $1 ORDER BY idx, key";
        let values: [&(dyn ToSql + Sync); 1] = [&queue.run];
        let rows = client.query_raw(select, values).await.map_err(failed)?;
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            let record = text(&row, 0)?;
            if let Err(reason) = check_record(&record, registered) {
                report.dropped.push(reason);
                continue;
            }
            writeln!(out, "{record}").map_err(Error::file(&beside))?;
            report.merged += 1;
            statistics.add(&counts(&text(&row, 1)?, &text(&row, 2)?));
        }
        let file = out.into_inner().map_err(|error| Error::file(&beside)(error.into_error()))?;
        file.sync_all().map_err(Error::file(&beside))?;
        std::fs::rename(&beside, path).map_err(Error::file(path))?;
        Ok((report, statistics))
    };
    let done: Result<_, Error> = write.await;
    let done = done.inspect_err(|_| {
        // The first error is the one to report; the file may not even exist.
        let _ = std::fs::remove_file(&beside);
    })?;
    let select =
        "SELECT idx FROM hermes_batch.items WHERE run = $1 AND state IN ('done', 'discarded') ORDER BY idx";
    for row in client.query(select, &[&queue.run]).await.map_err(failed)? {
        let index: i64 = row.try_get(0).map_err(failed)?;
        finished(usize::try_from(index).unwrap_or_default());
    }
    Ok(done)
}

fn counts(tools: &str, reasoning: &str) -> ItemCounts {
    let numbers = |value: &JsonTree| -> Vec<u64> {
        value.as_array().unwrap_or_default().iter().filter_map(JsonTree::as_u64).collect()
    };
    let mut counts = ItemCounts::default();
    if let Ok(JsonTree::Object(tools)) = JsonTree::parse(tools) {
        for (name, value) in tools {
            if let [count, success, failure] = numbers(&value)[..] {
                counts.tools.insert(name, ToolCounts { count, success, failure });
            }
        }
    }
    if let Ok([turns, with_reasoning]) = JsonTree::parse(reasoning).map(|value| numbers(&value)).as_deref() {
        counts.reasoning = ReasoningCounts { turns: *turns, with_reasoning: *with_reasoning };
    }
    counts
}

/// Takes over the records of a run that was begun with files. The items must be in the queue already.
pub async fn import_run(queue: &RunQueue, folder: &Path) -> Result<ImportReport, Error> {
    let client = queue.client().await?;
    let mut report = ImportReport::default();
    for path in batch_files(folder)? {
        let mut records = Vec::new();
        each_line(&path, |line| {
            records.extend(line.and_then(RecordLine::read));
            Ok(())
        })?;
        for record in records {
            match import_record(&client, &queue.run, &record).await? {
                0 => report.left_out += 1,
                _ => report.imported += 1,
            }
        }
    }
    Ok(report)
}

async fn import_record(client: &Client, run: &str, record: &RecordLine) -> Result<u64, Error> {
    let index = record.index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1);
    let (tools, reasoning) = (tools_json(&record.counts), reasoning_json(&record.counts));
    let close = "WITH picked AS (
                SELECT key FROM hermes_batch.items WHERE run = $1 AND prompt_hash = $2 AND state IN ('ready', 'dead')
                ORDER BY (idx <> $3), idx LIMIT 1 FOR UPDATE SKIP LOCKED),
            closed AS (
                UPDATE hermes_batch.items AS item SET state = 'done' FROM picked
                WHERE item.run = $1 AND item.key = picked.key RETURNING item.key, item.idx, item.fence)
            INSERT INTO hermes_batch.results (run, key, idx, fence, record, tool_stats, reasoning_stats)
            SELECT $1, key, idx, fence, $4, $5, $6 FROM closed ON CONFLICT (run, key) DO NOTHING";
    let hash = hex(&record.hash);
    let values: [&(dyn ToSql + Sync); 6] = [&run, &hash, &index, &record.line, &tools, &reasoning];
    client.execute(close, &values).await.map_err(failed)
}
