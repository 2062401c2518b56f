//! The law that the gateway names no platform: what differs between platforms is in their table in `hermes-types`.

use std::path::Path;

use anyhow::{Context, Result};

use crate::lengths::source_files;

/// The table of the platforms.
const TABLE: &str = "hermes-types/src/platform.rs";
/// The crate that must not know them apart.
const NEUTRAL_CRATE: &str = "hermes-gateway";

/// Returns every breach, as a sentence each.
pub(crate) fn check(crates: &Path) -> Result<Vec<String>> {
    let table = crates.join(TABLE);
    let table = std::fs::read_to_string(&table).with_context(|| table.display().to_string())?;
    let names = platform_names(&table);
    anyhow::ensure!(!names.is_empty(), "{TABLE}: the search finds no platform");
    let mut breaches = Vec::new();
    for file in source_files(&crates.join(NEUTRAL_CRATE))? {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        breaches.extend(judge(&file.display().to_string(), &text, &names));
    }
    Ok(breaches)
}

/// Returns the names in the rows of the table.
fn platform_names(table: &str) -> Vec<&str> {
    let code = table.split("#[cfg(test)]").next().unwrap_or_default();
    let rows = ["chat(", "requests("].into_iter().flat_map(|call| code.split(call).skip(1));
    // A declaration of the function is followed by no text.
    rows.filter_map(|row| row.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

/// Finds string literals that are platform names, outside tests and comments.
fn judge(file: &str, text: &str, names: &[&str]) -> Vec<String> {
    let mut breaches = Vec::new();
    for (at, line) in text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for name in names.iter().filter(|name| line.contains(&format!("\"{name}\""))) {
            breaches
                .push(format!("{file}:{}: names the platform {name}; its table says what differs", at + 1));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_names_no_platform() {
        let breaches = check(&crate::workspace::root().join("crates")).unwrap();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    #[test]
    fn a_platform_in_code_is_found_and_one_in_a_comment_or_a_test_is_not() {
        let table = "pub const PLATFORM_FACTS: &[PlatformFacts] = &[\n    chat(\"irc\", \"IRC\", PlainChat, \"X\", &[]),\n    \
                     requests(\n        \"hook\", \"Hooks\"),\n];\n#[cfg(test)]\n    chat(\"other\", \"Other\")\n";
        let names = platform_names(table);
        assert_eq!(names, ["irc", "hook"]);
        let code = "// \"irc\" is fine here\nif platform == \"irc\" {}\nlet key = \"irc_token\";\n#[cfg(test)]\n\"hook\"\n";
        assert_eq!(judge("a.rs", code, &names).len(), 1);
    }
}
