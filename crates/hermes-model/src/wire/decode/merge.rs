//! Assembles `reasoning_details` from the chunks of a stream.
//!
//! A single chunk is kept byte for byte. Of several, entries that continue one another (same type, same index) are
//! merged, because a provider accepts only whole entries; all others keep their bytes and their order.

use hermes_types::{JsonFields, RawJson};

use crate::wire::fields::{JsonFieldsExt as _, raw_list};

#[derive(Debug, Default)]
pub(super) struct ReasoningDetails {
    pieces: Vec<RawJson>,
}

struct Entry {
    raw: RawJson,
    fields: JsonFields,
    kind: String,
    index: Option<u64>,
    /// The text of a merged entry; absent while the entry is as it arrived.
    text: Option<String>,
}

impl ReasoningDetails {
    pub(super) fn add(&mut self, piece: &RawJson) {
        if !matches!(piece.as_str(), "[]" | "null") {
            self.pieces.push(piece.clone());
        }
    }

    pub(super) fn finish(self) -> Option<RawJson> {
        if self.pieces.len() < 2 {
            return self.pieces.into_iter().next();
        }
        let mut entries: Vec<Entry> = Vec::new();
        for raw in self.pieces.iter().flat_map(|piece| piece.read::<Vec<RawJson>>().unwrap_or_default()) {
            let entry = Entry::new(raw);
            match entries.iter_mut().rev().find(|earlier| earlier.can_absorb(&entry)) {
                Some(earlier) => earlier.absorb(&entry),
                None => entries.push(entry),
            }
        }
        let whole: Vec<RawJson> = entries.into_iter().map(Entry::finish).collect();
        raw_list(&whole)
    }
}

/// Returns the text of the entries in a chunk, to be shown at once.
pub(super) fn text(piece: &RawJson) -> String {
    let entries: Vec<JsonFields> = piece.read().unwrap_or_default();
    entries.iter().filter_map(entry_text).collect()
}

/// Returns the texts of complete details, one per entry.
pub(super) fn texts(details: &RawJson) -> Vec<String> {
    let entries: Vec<JsonFields> = details.read().unwrap_or_default();
    entries.iter().filter_map(entry_text).collect()
}

fn entry_text(entry: &JsonFields) -> Option<String> {
    ["summary", "content", "text"]
        .into_iter()
        .find_map(|name| entry.text(name))
        .filter(|text| !text.is_empty())
}

impl Entry {
    fn new(raw: RawJson) -> Self {
        let fields: JsonFields = raw.read().unwrap_or_default();
        let kind = fields.text("type").unwrap_or_default();
        Self { kind, index: fields.number("index"), fields, raw, text: None }
    }

    fn text_field(&self) -> Option<&'static str> {
        match self.kind.as_str() {
            "reasoning.text" => Some("text"),
            "reasoning.summary" => Some("summary"),
            _ => None,
        }
    }

    fn can_absorb(&self, next: &Self) -> bool {
        if self.kind != next.kind || self.index != next.index {
            return false;
        }
        let Some(field) = self.text_field() else {
            return self.raw == next.raw;
        };
        let ids = (self.fields.text("id"), next.fields.text("id"));
        let other_id = matches!(&ids, (Some(a), Some(b)) if a != b);
        // A signature ends its text.
        let closed = self.fields.text("signature").is_some_and(|signature| !signature.is_empty())
            && next.fields.text(field).is_some_and(|text| !text.is_empty());
        !other_id && !closed
    }

    fn absorb(&mut self, next: &Self) {
        let Some(field) = self.text_field() else { return };
        let so_far = self.text.get_or_insert_with(|| self.fields.text(field).unwrap_or_default());
        so_far.push_str(&next.fields.text(field).unwrap_or_default());
        for (name, raw) in next.fields.iter() {
            if name != field && !raw.is_null() {
                self.fields.set(name, raw.clone());
            }
        }
    }

    fn finish(mut self) -> RawJson {
        let (Some(text), Some(field)) = (self.text.take(), self.text_field()) else {
            return self.raw;
        };
        self.fields.set(field, RawJson::from_value(&text.into()));
        let merged = serde_json::to_string(&self.fields).ok().and_then(|text| RawJson::parse(text).ok());
        merged.unwrap_or(self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: Option<&str>) {
        let mut details = ReasoningDetails::default();
        for piece in pieces {
            details.add(&RawJson::parse((*piece).to_owned()).unwrap());
        }
        assert_eq!(details.finish().as_ref().map(RawJson::as_str), expected);
    }

    #[test]
    fn one_piece_keeps_its_bytes() {
        check(&[r#"[ {"n": 1.10, "type":"x"} ]"#], Some(r#"[ {"n": 1.10, "type":"x"} ]"#));
        check(&["[]", "null"], None);
    }

    #[test]
    fn entries_that_continue_become_one() {
        check(
            &[
                r#"[{"type":"reasoning.text","text":"a","format":"f","index":0}]"#,
                r#"[{"type":"reasoning.text","text":"b","signature":null,"index":0}]"#,
                r#"[{"type":"reasoning.text","text":"","signature":"a\/b=","index":0},{"type":"reasoning.encrypted","data":"x\u0041","index":0}]"#,
                r#"[{"type":"reasoning.text","text":"c","index":0}]"#,
            ],
            Some(
                r#"[{"type":"reasoning.text","text":"ab","format":"f","index":0,"signature":"a\/b="},{"type":"reasoning.encrypted","data":"x\u0041","index":0},{"type":"reasoning.text","text":"c","index":0}]"#,
            ),
        );
    }
}
