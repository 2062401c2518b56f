//! Results as JSON with a space after commas and colons, the format of recorded transcripts.

use std::io;

use hermes_types::{OutcomeStatus, ToolOutcome};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Returns a success with a JSON result.
pub(crate) fn success_json(value: &Value) -> ToolOutcome {
    ToolOutcome::done(spaced_json(value))
}

/// Returns a failure with a JSON result.
pub(crate) fn failure_json(value: &Value) -> ToolOutcome {
    ToolOutcome { status: OutcomeStatus::Failed, ..ToolOutcome::done(spaced_json(value)) }
}

/// Serializes a value with spaces.
pub(crate) fn spaced_json(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, SpacedFormatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_else(|_| value.to_string()),
        Err(_) => value.to_string(),
    }
}

struct SpacedFormatter;

impl Formatter for SpacedFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
