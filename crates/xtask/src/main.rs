//! Development tasks of the workspace: `cargo xtask laws` checks its laws, `cargo xtask budgets` measures a release
//! build, `cargo xtask soak` runs only its long load test and prints the resources that remain in use,
//! `cargo xtask load` prints what a gateway does under more and more clients, `cargo xtask chaos` and
//! `cargo xtask red-team` run the long series of faults and the attacks on the sandbox and the judge,
//! `cargo xtask docs` writes the reference pages from the tables they describe,
//! `cargo xtask screens` draws the states of the screen, `cargo xtask parts FOLDER` writes what a release is made of.
//!
//! The laws are tests as well, so that `cargo nextest run` is enough to find a breach.
#![expect(clippy::print_stdout, reason = "this is the chores' output")]

mod budgets;
mod docs;
mod layers;
mod lengths;
mod literals;
mod names;
mod platform_names;
mod screens;
mod series;
#[cfg(test)]
mod settings;
mod supply_chain;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

const USAGE: &str =
    "usage: cargo xtask <laws|budgets|soak|load|chaos [SEEDS]|red-team|docs|screens|parts FOLDER>";

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let done = match task.as_deref() {
        Some("laws") => laws(),
        Some("budgets") => budgets::run(),
        Some("soak") => budgets::soak(),
        Some("load") => budgets::load(),
        Some("chaos") => series::chaos(std::env::args().nth(2).as_deref()),
        Some("red-team") => series::red_team(),
        Some("docs") => docs::write(),
        Some("screens") => screens::write(),
        Some("parts") => std::env::args().nth(2).map_or_else(
            || Err(anyhow::anyhow!(USAGE)),
            |folder| supply_chain::write(std::path::Path::new(&folder)),
        ),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn laws() -> Result<ExitCode> {
    let mut breaches = layers::check(&workspace::metadata()?)?;
    let crates = workspace::root().join("crates");
    breaches.extend(lengths::check(&crates)?);
    breaches.extend(names::check(&crates)?);
    breaches.extend(literals::check(&crates)?);
    breaches.extend(platform_names::check(&crates)?);
    for breach in &breaches {
        println!("{breach}");
    }
    println!("{} breaches of the laws about layers, lengths, names, literals and platforms", breaches.len());
    Ok(if breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
