//! Answers as JSON, with a space behind commas and colons: what recorded transcripts have.

use std::io;

use hermes_types::{Outcome, OutcomeStatus};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// A success the model reads as JSON.
pub(crate) fn done(value: &Value) -> Outcome {
    Outcome::done(spaced(value))
}

/// A failure with more to say than its reason.
pub(crate) fn failed(value: &Value) -> Outcome {
    Outcome { status: OutcomeStatus::Failed, ..Outcome::done(spaced(value)) }
}

/// The text of a value.
pub(crate) fn spaced(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, Spaced);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_else(|_| value.to_string()),
        Err(_) => value.to_string(),
    }
}

struct Spaced;

impl Formatter for Spaced {
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
