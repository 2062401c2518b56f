//! The program itself: how long it takes to start and to answer, how much memory and disk it needs, how large its prompt
//! is. The binary measured is the one that lies beside this one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TempHome};
use serde_json::Value;

use super::Measurement;

const RUNS: usize = 25;

pub(crate) fn measure(binary: &Path) -> Result<Vec<Measurement>> {
    let server = ModelServer::start_blocking(ModelScript::always("Hello.")).context("no model server")?;
    let home = home_for(&server)?;
    let version = median(|| run(binary, home.path(), &["--version"]))?;
    let turn = median(|| run(binary, home.path(), &["-Q", "-q", "hello"]))?;
    #[expect(clippy::cast_precision_loss, reason = "a file size for people")]
    let megabytes = std::fs::metadata(binary)?.len() as f64 / 1e6;
    Ok(vec![
        Measurement { name: "hermes --version, median", value: version },
        Measurement { name: "one-shot turn, median", value: turn },
        Measurement { name: "one-shot turn, peak memory", value: peak_memory(binary)? },
        Measurement { name: "prompt and tools of the CLI", value: prompt_tokens(binary)? },
        Measurement { name: "binary", value: megabytes },
    ])
}

pub(super) fn home_for(server: &ModelServer) -> Result<TempHome> {
    let config =
        format!("model:\n  provider: custom\n  base_url: {}\n  default: test-model\n", server.base_url());
    TempHome::builder().config_yaml(&config).build().context("no home")
}

#[expect(clippy::disallowed_methods, reason = "a chore runs the program it measures")]
pub(super) fn command(binary: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command
        .args(arguments)
        .current_dir(home)
        .env_clear()
        .env("HERMES_HOME", home)
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Milliseconds of one run.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn run(binary: &Path, home: &Path, arguments: &[&str]) -> Result<f64> {
    let began = Instant::now();
    let output = command(binary, home, arguments).output()?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() {
        bail!("hermes {} failed", arguments.join(" "));
    }
    Ok(took)
}

fn median(mut once: impl FnMut() -> Result<f64>) -> Result<f64> {
    once()?;
    let mut values = (0..RUNS).map(|_| once()).collect::<Result<Vec<f64>>>()?;
    values.sort_by(f64::total_cmp);
    Ok(values[RUNS / 2])
}

/// Megabytes, read while the last answer of a turn with a tool is being waited for.
fn peak_memory(binary: &Path) -> Result<f64> {
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("search_files", serde_json::json!({"pattern": "*", "target": "files"})))
        .reply(ScriptedReply::new().wait("last").then_text("Done."));
    let server = ModelServer::start_blocking(script).context("no model server")?;
    let home = home_for(&server)?;
    let mut child = command(binary, home.path(), &["-Q", "-q", "hello"]).spawn()?;
    server.wait_until_at_blocking("last", 1);
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    server.open("last");
    child.wait()?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|line| line.split_whitespace().next())
        .and_then(|number| number.parse::<f64>().ok())
        .context("no peak memory")?;
    Ok(kilobytes / 1e3)
}

fn prompt_tokens(binary: &Path) -> Result<f64> {
    let home = TempHome::new().context("no home")?;
    let output = command(binary, home.path(), &["prompt-size", "--json"]).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).context("prompt-size")?;
    report["total_tokens"].as_f64().context("prompt-size has no total")
}
