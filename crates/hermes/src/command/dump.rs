//! `hermes dump`: one report for support. Secrets are masked, and conversations are not in it.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use hermes_config::Config;
use hermes_config::yaml::emit_block;
use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};

use super::doctor;
use crate::cli;
use crate::context::ProgramContext;
use crate::output::Console;

const LOG_LINES: usize = 100;
/// The largest part of a log's end that is read.
const MAX_LOG: usize = 256 * 1024;

pub(crate) fn run(context: &ProgramContext, output: &Console) -> ExitCode {
    output.text(&report(context, LOG_LINES));
    ExitCode::SUCCESS
}

/// Returns the report, with this many lines of each log.
pub(crate) fn report(context: &ProgramContext, log_lines: usize) -> String {
    let config = Config::load(&context.home, &context.env);
    context.register_secrets(&config);
    let what = Redaction { assignments: Assignments::AnyCase, phone_numbers: PhoneNumbers::Mask };
    let mut report = format!(
        "# {}\n\n{} {}, {} processors\n",
        cli::version(),
        std::env::consts::OS,
        std::env::consts::ARCH,
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get)
    );
    let mut add = |title: &str, text: &str| {
        // Writing to a `String` cannot fail.
        let _ = write!(report, "\n## {title}\n\n{}\n", redact(text, what));
    };
    add("Settings", &emit_block(config.user()));
    add("Files", &files(context));
    for name in ["errors.log", "gateway.log"] {
        add(name, &log_end(context, name, log_lines));
    }
    add("Checks", &doctor::report(context));
    report
}

/// Lists the home's entries with their sizes, without their content.
fn files(context: &ProgramContext) -> String {
    let entries = fs::read_dir(context.home.path()).into_iter().flatten().flatten();
    let mut lines: Vec<String> = entries
        .map(|entry| {
            let size = entry.metadata().map_or(0, |data| data.len());
            format!("{:<32} {size}", entry.file_name().to_string_lossy())
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

fn log_end(context: &ProgramContext, name: &str, most: usize) -> String {
    let bytes = fs::read(context.home.logs().join(name)).unwrap_or_default();
    let from = bytes.len().saturating_sub(MAX_LOG);
    let text = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(most)..).unwrap_or_default().join("\n")
}
