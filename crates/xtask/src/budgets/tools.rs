//! What tools and batch runs take: a call as part of a turn, the sandbox around it, and many prompts at once.
//!
//! A call's time is that of a turn with a hundred of them, less that of a turn without, divided by a hundred. So it holds
//! all that happens for it: the request to the model before it, its rows, its process.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply};
use serde_json::{Value, json};

use super::Measurement;
use super::program::command;

const CALLS: u32 = 100;
const RUNS: usize = 5;
/// Folders beside the home, where it lies below the temporary folder.
const NEIGHBOURS: usize = 160;
const PROMPTS: u32 = 2_000;
/// Files of the folder that is searched: so many folders with so many files each.
const FOLDERS: usize = 200;
const FILES_EACH: usize = 100;

pub(crate) fn measure(binary: &Path) -> Result<Vec<Measurement>> {
    // Not below the temporary folder, where a home is an exception.
    let beside = binary.parent().context("the binary lies nowhere")?;
    let plain = tempfile::tempdir_in(beside)?;
    let crowd = tempfile::tempdir()?;
    let neighbours: Vec<_> = (0..NEIGHBOURS).map(|_| tempfile::tempdir()).collect::<Result<_, _>>()?;
    let cost = |place: &Path, tool: &str, arguments: &Value| -> Result<(f64, f64)> {
        let with = call(binary, place, tool, arguments, "auto")?;
        Ok((with, (with - call(binary, place, tool, arguments, "off")?).max(0.0)))
    };
    let terminal = json!({"command": "true"});
    let read = json!({"path": "read.txt"});
    let (run, run_cost) = cost(plain.path(), "terminal", &terminal)?;
    let (_, run_cost_in_crowd) = cost(crowd.path(), "terminal", &terminal)?;
    drop(neighbours);
    let (file, file_cost) = cost(plain.path(), "read_file", &read)?;
    Ok(vec![
        Measurement { name: "terminal call of true", value: run },
        Measurement { name: "sandbox, terminal call", value: run_cost },
        Measurement { name: "sandbox, home in crowded /tmp", value: run_cost_in_crowd },
        Measurement { name: "read_file call", value: file },
        Measurement { name: "sandbox, read_file call", value: file_cost },
        Measurement { name: "search of 20000 files, rare word", value: search(binary, plain.path())? },
        Measurement { name: "batch, instant model", value: batch(binary, plain.path())? },
    ])
}

/// Returns the milliseconds of one call.
fn call(binary: &Path, place: &Path, tool: &str, arguments: &Value, sandbox: &str) -> Result<f64> {
    let with = turn(binary, place, CALLS, tool, arguments, sandbox)?;
    let without = turn(binary, place, 0, tool, arguments, sandbox)?;
    Ok((with - without) / f64::from(CALLS))
}

/// Returns the milliseconds of a whole turn with so many calls, the median of some.
fn turn(
    binary: &Path,
    place: &Path,
    calls: u32,
    tool: &str,
    arguments: &Value,
    sandbox: &str,
) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let mut script = ModelScript::new();
        for number in 0..calls {
            // What was read already is not read again.
            let mut own = arguments.clone();
            if tool == "read_file" {
                own["offset"] = json!(number + 1);
                own["limit"] = json!(1);
            }
            script = script.reply(ScriptedReply::tool(tool, own));
        }
        let server = ModelServer::start_blocking(script.reply(ScriptedReply::text("Done.")))
            .context("no model server")?;
        let home = home_in(place, &server, &format!("terminal: {{sandbox: {sandbox}}}\n"))?;
        let project = home.path().join("project");
        fs::create_dir(&project)?;
        fs::write(project.join("read.txt"), "a line\n".repeat(300))?;
        times.push(timed(binary, home.path(), &project, &["-Q", "-q", "go"])?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

/// Returns the milliseconds of a search for a word that one of 20,000 files has.
fn search(binary: &Path, place: &Path) -> Result<f64> {
    let tree = tempfile::tempdir_in(place)?;
    for folder in 0..FOLDERS {
        let folder = tree.path().join(format!("folder-{folder}"));
        fs::create_dir(&folder)?;
        for file in 0..FILES_EACH {
            fs::write(
                folder.join(format!("file-{file}.txt")),
                format!("some text of file {file}\n").repeat(40),
            )?;
        }
    }
    fs::write(tree.path().join("folder-7/file-7.txt"), "a needle\n")?;
    let arguments = json!({"pattern": "needle", "path": tree.path()});
    let mut times = Vec::new();
    for calls in [0, 1] {
        let mut script = ModelScript::new();
        for _ in 0..calls {
            script = script.reply(ScriptedReply::tool("search_files", arguments.clone()));
        }
        let mut all = Vec::new();
        for _ in 0..RUNS {
            let script = script.clone().reply(ScriptedReply::text("Done."));
            let server = ModelServer::start_blocking(script).context("no model server")?;
            let home = home_in(place, &server, "")?;
            all.push(timed(binary, home.path(), tree.path(), &["-Q", "-q", "go"])?);
        }
        all.sort_by(f64::total_cmp);
        times.push(all[RUNS / 2]);
    }
    Ok(times[1] - times[0])
}

/// Returns how many prompts of a dataset are answered in a second by a model that answers at once.
fn batch(binary: &Path, place: &Path) -> Result<f64> {
    let server = ModelServer::start_blocking(ModelScript::always("Done.")).context("no model server")?;
    let home = home_in(place, &server, "")?;
    let mut dataset = String::new();
    for number in 0..PROMPTS {
        writeln!(dataset, "{}", json!({"prompt": format!("Say {number}.")}))?;
    }
    fs::write(home.path().join("prompts.jsonl"), dataset)?;
    let arguments = "batch --dataset-file prompts.jsonl --batch-size 100 --run-name measured --num-workers 4 --distribution minimal";
    let words: Vec<&str> = arguments.split(' ').collect();
    let took = timed(binary, home.path(), home.path(), &words)?;
    Ok(f64::from(PROMPTS) / took * 1e3)
}

fn home_in(place: &Path, server: &ModelServer, more: &str) -> Result<tempfile::TempDir> {
    let home = tempfile::tempdir_in(place)?;
    let config = format!(
        "model: {{provider: custom, base_url: '{}', default: test-model}}\nagent: {{max_turns: 200}}\n{more}",
        server.base_url()
    );
    fs::write(home.path().join("config.yaml"), config)?;
    Ok(home)
}

/// Returns the milliseconds of a run of the program, which must succeed.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn timed(binary: &Path, home: &Path, folder: &Path, arguments: &[&str]) -> Result<f64> {
    let began = Instant::now();
    let output = command(binary, home, arguments).current_dir(folder).output()?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() {
        bail!("hermes {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stdout));
    }
    Ok(took)
}
