//! Figures that gate a release, measured and set beside their budgets.
//!
//! Timings are printed and judged here, on a release build, and never in a unit test.

mod gateway;
mod program;
mod store;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const TABLE: &str = include_str!("../budgets.txt");

/// A measured figure.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
}

struct Budget<'a> {
    name: &'a str,
    comparison: &'a str,
    limit: f64,
    unit: &'a str,
}

pub(crate) fn run() -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        println!("budgets are for a release build: cargo run --release -p xtask -- budgets");
        println!("the figures below are of a debug build and are not judged\n");
    }
    let mut figures = store::measure()?;
    figures.extend(program::measure()?);
    figures.extend(gateway::measure(&program::beside()?)?);
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
    Ok(if missed > 0 && !cfg!(debug_assertions) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
