//! `hermes dump`: one report for support. Secrets are masked, and conversations are not in it.

use std::fs;
use std::process::ExitCode;

use hermes_config::Config;
use hermes_config::yaml::emit_block;
use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};

use super::doctor;
use crate::cli::{self, DoctorArguments};
use crate::context::ProgramContext;
use crate::output::Console;

const LOG_LINES: usize = 100;
/// The largest part of a log's end that is read.
const MAX_LOG: usize = 256 * 1024;

pub(crate) fn run(context: &ProgramContext, output: &Console) -> ExitCode {
    let config = Config::load(&context.home, &context.env);
    context.register_secrets(&config);
    let what = Redaction { assignments: Assignments::AnyCase, phone_numbers: PhoneNumbers::Mask };
    let print = |title: &str, text: &str| {
        output.line(&format!("\n## {title}\n\n{}", redact(text, what)));
    };
    output.line(&format!(
        "# {}\n\n{} {}, {} processors",
        cli::version(),
        std::env::consts::OS,
        std::env::consts::ARCH,
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get)
    ));
    print("Settings", &emit_block(config.user()));
    print("Files", &files(context));
    for name in ["errors.log", "gateway.log"] {
        print(name, &log_end(context, name));
    }
    output.line("\n## Checks\n");
    doctor::run(&DoctorArguments { offline: true, ..DoctorArguments::default() }, context, output)
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

fn log_end(context: &ProgramContext, name: &str) -> String {
    let bytes = fs::read(context.home.logs().join(name)).unwrap_or_default();
    let from = bytes.len().saturating_sub(MAX_LOG);
    let text = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
}
