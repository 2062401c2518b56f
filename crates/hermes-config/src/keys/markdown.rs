//! The reference page of config.yaml, generated from the table.

use std::fmt::Write as _;

use super::{KeyKind, KeyRelease, KeySpec, all};
use crate::env::variables;

/// Returns the keys by section, then the variables, as Markdown tables.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Configuration reference\n\nGenerated from the tables in `hermes-config`; do not edit.\n\nThe status says whether \
         this release acts on a key or a variable. What is *kept* is known from other releases: it may stand in your files, is \
         never removed, and does nothing here.\n",
    );
    let mut sections: Vec<&str> = Vec::new();
    for spec in all() {
        let section = section_of(spec);
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    for section in sections {
        let title = if section.is_empty() { "Top level" } else { section };
        push(
            &mut out,
            format_args!(
                "\n## {title}\n\n| Key | Type | Default | Status | Meaning |\n|---|---|---|---|---|\n"
            ),
        );
        for spec in all().filter(|spec| section_of(spec) == section) {
            push(
                &mut out,
                format_args!(
                    "| `{}` | {} | {} | {} | {}{} |\n",
                    spec.path,
                    kind(spec),
                    default(spec),
                    spec.support.words(),
                    cell(spec.about),
                    notes(spec)
                ),
            );
        }
    }
    out.push_str(
        "\n## Environment variables\n\n| Variable | Default | Status | Meaning |\n|---|---|---|---|\n",
    );
    for variable in variables::all() {
        let default =
            if variable.default.is_empty() { "–".to_owned() } else { format!("`{}`", variable.default) };
        let secret = if variable.secret { " (secret)" } else { "" };
        push(
            &mut out,
            format_args!(
                "| `{}` | {default} | {} | {}{secret} |\n",
                variable.name,
                variable.support.words(),
                cell(&variable.about)
            ),
        );
    }
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}

fn section_of(spec: &KeySpec) -> &'static str {
    spec.path.split_once('.').map_or("", |(section, _)| section)
}

fn kind(spec: &KeySpec) -> String {
    match spec.kind {
        KeyKind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" "),
        other => other.name().trim_start_matches("a ").to_owned(),
    }
}

fn default(spec: &KeySpec) -> String {
    if spec.default.is_empty() { "–".to_owned() } else { format!("`{}`", cell(spec.default)) }
}

fn notes(spec: &KeySpec) -> &'static str {
    match (spec.secret, spec.release) {
        (true, _) => " (secret)",
        (_, KeyRelease::Later) => " (later releases)",
        _ => "",
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
