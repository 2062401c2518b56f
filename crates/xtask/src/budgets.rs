//! Figures that gate a release, measured and set beside their budgets.
//!
//! Timings are printed and judged here, on a release build, and never in a unit test.

mod gateway;
mod pages;
mod program;
mod screen;
mod skills;
mod store;
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::workspace;

const TABLE: &str = include_str!("../budgets.txt");

/// A measured figure.
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
}

struct Budget<'a> {
    name: &'a str,
    comparison: &'a str,
    limit: f64,
    unit: &'a str,
}

/// Measures everything and judges it. A debug build of the chores builds the release and hands over to it.
pub(crate) fn run() -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        return hand_over("budgets");
    }
    let binary = std::env::current_exe()?.with_file_name("hermes");
    let mut figures = store::measure()?;
    figures.extend(skills::measure()?);
    figures.extend(pages::measure()?);
    figures.extend(program::measure(&binary)?);
    figures.extend(tools::measure(&binary)?);
    figures.extend(screen::measure(&binary)?);
    figures.extend(gateway::measure(&binary)?);
    figures.extend(gateway::soak(&binary)?);
    let mut missed = 0;
    println!("{:<32} {:>12} {:>14}", "figure", "measured", "budget");
    for budget in parse(TABLE)? {
        let Some(figure) = figures.iter().find(|figure| figure.name == budget.name) else {
            bail!("nothing measures `{}`", budget.name);
        };
        let kept = match budget.comparison {
            "<=" => figure.value <= budget.limit,
            _ => figure.value >= budget.limit,
        };
        missed += usize::from(!kept);
        let Budget { name, comparison, limit, unit } = budget;
        let mark = if kept { "" } else { "  MISSED" };
        println!("{name:<32} {:>8.2} {unit:<3} {comparison:>3} {limit:>6} {unit}{mark}", figure.value);
    }
    Ok(if missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs 20,000 API turns and 2,000 chat messages, and prints what they leave behind.
pub(crate) fn soak() -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        return hand_over("soak");
    }
    for figure in gateway::soak(&std::env::current_exe()?.with_file_name("hermes"))? {
        println!("{:<32} {:>8.2}", figure.name, figure.value);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs API turns of more and more clients, and prints how many are answered and how soon.
pub(crate) fn load() -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        return hand_over("load");
    }
    gateway::load(&std::env::current_exe()?.with_file_name("hermes"))?;
    Ok(ExitCode::SUCCESS)
}

/// Builds what is measured, in release, and runs the release build of this program.
#[expect(clippy::disallowed_methods, reason = "a chore runs the programs it needs")]
fn hand_over(task: &str) -> Result<ExitCode> {
    let root = workspace::root();
    let build = ["build", "--release", "-p", "hermes", "-p", "hermes-testkit", "-p", "xtask"];
    let built = Command::new(env!("CARGO")).args(build).current_dir(&root).status()?;
    if !built.success() {
        bail!("the release build failed");
    }
    let this = std::env::current_exe()?;
    let target = this.parent().and_then(Path::parent).context("no target folder")?;
    let measured = Command::new(target.join("release/xtask")).arg(task).current_dir(&root).status()?;
    Ok(if measured.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(table: &str) -> Result<Vec<Budget<'_>>> {
    let rows = table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| {
        let comparison = if line.contains("<=") { "<=" } else { ">=" };
        let (name, rest) = line.split_once(comparison).with_context(|| format!("budgets.txt: {line}"))?;
        let (limit, unit) = rest.trim().split_once(' ').with_context(|| format!("budgets.txt: {line}"))?;
        Ok(Budget { name: name.trim(), comparison, limit: limit.trim().parse()?, unit: unit.trim() })
    })
    .collect()
}
