//! The patcher on files as people write them: setting a value changes nothing else.

use std::ops::Range;

use hermes_config::yaml::{KeyPath, YamlValue, edit, emit_inline, parse};
use proptest::prelude::*;

/// A value as it is spelled in a file.
#[derive(Debug, Clone)]
enum SpelledValue {
    /// One line: plain, quoted or flow.
    Line(&'static str),
    /// Several lines of one scalar, the first after the key.
    Folded(&'static [&'static str]),
    /// A block scalar: header and lines.
    Block(&'static str, &'static [&'static str]),
    Nothing,
    Map(Vec<Entry>),
    List(Vec<SpelledValue>),
}

#[derive(Debug, Clone)]
struct Entry {
    key: usize,
    value: SpelledValue,
    comment: &'static str,
    above: &'static str,
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    step: usize,
    list: usize,
    crlf: bool,
    last_break: bool,
    head: &'static str,
}

const KEYS: [&str; 10] =
    ["model", "agent", "terminal", "max_turns", "'a key'", "\"q\"", "display", "größe", "x-y", "enabled"];

fn key_text(key: usize) -> String {
    KEYS[key].trim_matches(['\'', '"']).to_owned()
}

fn line() -> impl Strategy<Value = SpelledValue> {
    prop::sample::select(vec![
        "1",
        "off",
        "text",
        "two words",
        "'single # quoted'",
        "\"double \\n quoted\"",
        "http://x:80/y#z",
        "1:30",
        "0o17",
        "[a, 'b, c', {d: 1}]",
        "{a: 1, b: [x, y]}",
        "{}",
        "[]",
        "~",
        "1234567890123456789",
        "'${VAR}'",
        "ünï",
        "''",
    ])
    .prop_map(SpelledValue::Line)
}

fn spelled() -> impl Strategy<Value = SpelledValue> {
    let folded = prop::sample::select(vec![
        &["one", "two"][..],
        &["\"one", "two\""][..],
        &["'one", "", "two'"][..],
        &["[a,", "b]"][..],
    ])
    .prop_map(SpelledValue::Folded);
    let block = (
        prop::sample::select(vec!["|", ">", "|-", ">-", "|+", "|2", "| # why", ">- # why"]),
        prop::sample::select(vec![
            &["text"][..],
            &["first", "", "# not a comment", "last"][..],
            &["first", "  deeper", "back"][..],
        ]),
    )
        .prop_map(|(header, lines)| SpelledValue::Block(header, lines));
    let leaf = prop_oneof![6 => line(), 1 => folded, 1 => block, 1 => Just(SpelledValue::Nothing)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            3 => entries(inner.clone()).prop_map(SpelledValue::Map),
            1 => prop::collection::vec(inner, 1..4).prop_map(SpelledValue::List),
        ]
    })
}

fn entries(value: impl Strategy<Value = SpelledValue>) -> impl Strategy<Value = Vec<Entry>> {
    let comment = prop::sample::select(vec!["", "", "  # note", " # ünï: note"]);
    let above = prop::sample::select(vec!["", "", "", "# above\n", "\n", "\n# about\n# this\n"]);
    let entry = (0..KEYS.len(), value, comment, above).prop_map(|(key, value, comment, above)| Entry {
        key,
        value,
        comment,
        above,
    });
    prop::collection::vec(entry, 1..5).prop_map(|mut entries: Vec<Entry>| {
        let mut seen = Vec::new();
        entries.retain(|entry| {
            let key = key_text(entry.key);
            let new = !seen.contains(&key);
            seen.push(key);
            new
        });
        entries
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    (
        prop::sample::select(vec![2usize, 4, 3]),
        prop::sample::select(vec![0usize, 2]),
        any::<bool>(),
        prop::bool::weighted(0.8),
        prop::sample::select(vec!["", "# head\n", "---\n", "# head\n\n---\n"]),
    )
        .prop_map(|(step, list, crlf, last_break, head)| Layout { step, list, crlf, last_break, head })
}

/// A file, and the positions of each single scalar, list line or flow value.
#[derive(Debug, Default)]
struct File {
    text: String,
    values: Vec<(Vec<String>, Range<usize>)>,
    maps: Vec<Vec<String>>,
}

impl File {
    fn write(entries: &[Entry], layout: Layout) -> Self {
        let mut file = Self { text: layout.head.to_owned(), ..Self::default() };
        file.map(entries, 0, "", layout, &mut Vec::new());
        if !layout.last_break {
            file.text.truncate(file.text.trim_end_matches('\n').len());
        }
        if layout.crlf {
            file.with_crlf();
        }
        file
    }

    fn with_crlf(&mut self) {
        let breaks: Vec<usize> = self.text.match_indices('\n').map(|(at, _)| at).collect();
        let shift = |at: usize| at + breaks.iter().filter(|other| **other < at).count();
        for (_, range) in &mut self.values {
            *range = shift(range.start)..shift(range.end);
        }
        self.text = self.text.replace('\n', "\r\n");
    }

    fn map(&mut self, entries: &[Entry], column: usize, lead: &str, layout: Layout, path: &mut Vec<String>) {
        self.maps.push(path.clone());
        for (index, entry) in entries.iter().enumerate() {
            if index == 0 && !lead.is_empty() {
                self.text.push_str(lead);
            } else {
                self.text.push_str(entry.above);
                self.text.push_str(&" ".repeat(column));
            }
            self.text.push_str(KEYS[entry.key]);
            self.text.push(':');
            path.push(key_text(entry.key));
            self.value(&entry.value, column, entry.comment, layout, path);
            path.pop();
        }
    }

    fn value(
        &mut self,
        value: &SpelledValue,
        column: usize,
        comment: &str,
        layout: Layout,
        path: &mut Vec<String>,
    ) {
        let deeper = " ".repeat(column + layout.step);
        let mut at = self.text.len() + 1;
        match value {
            SpelledValue::Line(text) => self.text.push_str(&format!(" {text}{comment}\n")),
            SpelledValue::Nothing => {
                at -= 1;
                self.text.push_str(&format!("{comment}\n"));
            }
            SpelledValue::Folded(lines) => {
                self.text.push_str(&format!(" {}{comment}\n", lines.join(&format!("\n{deeper}"))));
            }
            SpelledValue::Block(header, lines) => {
                // An indentation indicator must match the actual indentation.
                let header = header.replace('2', &layout.step.to_string());
                self.text.push_str(&format!(" {header}\n"));
                for line in *lines {
                    let pad = if line.is_empty() { "" } else { deeper.as_str() };
                    self.text.push_str(&format!("{pad}{line}\n"));
                }
            }
            SpelledValue::Map(entries) => {
                self.text.push_str(&format!("{comment}\n"));
                self.map(entries, column + layout.step, "", layout, path);
            }
            SpelledValue::List(items) => {
                self.text.push_str(&format!("{comment}\n"));
                let column = column + layout.list;
                for (index, item) in items.iter().enumerate() {
                    self.text.push_str(&format!("{}-", " ".repeat(column)));
                    path.push(index.to_string());
                    match item {
                        SpelledValue::Map(entries) => self.map(entries, column + 2, " ", layout, path),
                        SpelledValue::List(_) => self.text.push_str(" x\n"),
                        item => self.value(item, column, "", layout, path),
                    }
                    path.pop();
                }
            }
        }
        let length = match value {
            SpelledValue::Line(text) => text.len(),
            SpelledValue::Nothing => 0,
            SpelledValue::Folded(lines) => lines.join(&format!("\n{deeper}")).len(),
            _ => return,
        };
        self.values.push((path.clone(), at..at + length));
    }
}

fn new_value() -> impl Strategy<Value = YamlValue> {
    prop::sample::select(vec![
        "5",
        "text",
        "'off'",
        "true",
        "null",
        "'two words: and more'",
        "\"a\\nb\"",
        "[]",
        "{}",
        "[1, two]",
        "{k: v, l: [1]}",
        "1.5",
        "'#x'",
        "12345678901234567890",
    ])
    .prop_map(|text| parse(text).expect("a value"))
}

fn is_one_line(value: &YamlValue) -> bool {
    !emit_inline(value).starts_with(['[', '{']) || matches!(emit_inline(value).as_str(), "[]" | "{}")
}

fn common(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

/// Tells whether the old bytes are all there, in order, around one insertion.
fn is_one_insertion(before: &str, after: &str) -> bool {
    let prefix = common(before.bytes(), after.bytes());
    let suffix = common(before.bytes().rev(), after.bytes().rev());
    after.len() > before.len() && prefix + suffix >= before.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Shows that setting an existing single value keeps the bytes before and after it and the values of all other
    /// keys.
    #[test]
    fn setting_an_existing_value_changes_only_that_value(
        entries in entries(spelled()), layout in layout(), value in new_value(), pick in any::<prop::sample::Index>(),
    ) {
        let file = File::write(&entries, layout);
        let before = parse(&file.text).unwrap_or_else(|error| panic!("{error}\n{}", file.text));
        prop_assume!(!file.values.is_empty());
        let (path, range) = pick.get(&file.values).clone();
        let after = edit::set(&file.text, &KeyPath::from_segments(&path), &value)
            .unwrap_or_else(|error| panic!("{path:?}: {error}\n{}", file.text));
        let mut expected = before.clone();
        expected.set_path(&path, value.clone());
        prop_assert!(parse(&after).expect("reads").same_data(&expected), "{}", after);
        if before.get_path(path.iter().map(String::as_str)).is_some_and(|old| old.same_data(&value)) {
            prop_assert_eq!(after, file.text);
        } else if is_one_line(&value) {
            let space = if range.is_empty() { " " } else { "" };
            let wanted = format!("{}{space}{}{}", &file.text[..range.start], emit_inline(&value), &file.text[range.end..]);
            prop_assert_eq!(after, wanted, "{:?}", path);
        }
    }

    /// Shows that a new key is one insertion: without it the file is the old one, byte for byte.
    #[test]
    fn setting_a_new_key_only_inserts(
        entries in entries(spelled()), layout in layout(), value in new_value(), pick in any::<prop::sample::Index>(), nested in any::<bool>(),
    ) {
        let file = File::write(&entries, layout);
        let mut path = pick.get(&file.maps).clone();
        path.push("brand_new".to_owned());
        if nested {
            path.push("child".to_owned());
        }
        let after = edit::set(&file.text, &KeyPath::from_segments(&path), &value)
            .unwrap_or_else(|error| panic!("{path:?}: {error}\n{}", file.text));
        let mut expected = parse(&file.text).expect("reads");
        expected.set_path(&path, value);
        prop_assert!(parse(&after).expect("reads").same_data(&expected), "{}", after);
        prop_assert!(is_one_insertion(&file.text, &after), "{}\n=>\n{}", file.text, after);
        let back = edit::remove(&after, &KeyPath::from_segments(&path)).expect("removable");
        if !nested {
            prop_assert_eq!(back, file.text);
        }
    }

    /// Shows that for any path, sections and block scalars included, the result is read back as requested or there
    /// is none.
    #[test]
    fn replacing_and_removing_sections_is_faithful(
        entries in entries(spelled()), layout in layout(), value in new_value(), pick in any::<prop::sample::Index>(),
    ) {
        let file = File::write(&entries, layout);
        let tree = parse(&file.text).expect("reads");
        let paths: Vec<Vec<String>> = paths(&tree);
        let path = pick.get(&paths).clone();
        let after = edit::set(&file.text, &KeyPath::from_segments(&path), &value)
            .unwrap_or_else(|error| panic!("set {path:?}: {error}\n{}", file.text));
        let mut expected = tree.clone();
        expected.set_path(&path, value);
        prop_assert!(parse(&after).expect("reads").same_data(&expected), "{}", after);
        let removed = edit::remove(&file.text, &KeyPath::from_segments(&path))
            .unwrap_or_else(|error| panic!("remove {path:?}: {error}\n{}", file.text));
        let mut expected = tree;
        expected.remove_path(&path);
        let read = parse(&removed).expect("reads");
        prop_assert!(read.same_data(&expected) || read.is_null() && expected.as_map().is_some_and(hermes_config::yaml::YamlMap::is_empty), "{}", removed);
    }
}

/// Returns every path in a tree, leaves and sections.
fn paths(tree: &YamlValue) -> Vec<Vec<String>> {
    fn walk(value: &YamlValue, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        let children: Vec<(String, &YamlValue)> = match value {
            YamlValue::Map(map) => map.iter().map(|(key, child)| (key.to_owned(), child)).collect(),
            YamlValue::Seq(items) => {
                items.iter().enumerate().map(|(index, child)| (index.to_string(), child)).collect()
            }
            _ => Vec::new(),
        };
        for (key, child) in children {
            path.push(key);
            found.push(path.clone());
            walk(child, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(tree, &mut Vec::new(), &mut found);
    found
}
