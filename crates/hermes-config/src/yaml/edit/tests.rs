use super::{EditError, remove, set};
use crate::yaml::{KeyPath, YamlValue, parse};

fn path(dotted: &str) -> KeyPath {
    KeyPath::parse(dotted).expect("a path")
}

/// Checks the result of setting a path; `value` is written as YAML.
fn check_set(before: &str, dotted: &str, value: &str, after: &str) {
    let value = parse(value).expect("a value");
    match set(before, &path(dotted), &value) {
        Ok(text) => assert_eq!(text, after, "set {dotted} in {before:?}"),
        Err(error) => panic!("set {dotted} in {before:?}: {error}"),
    }
}

fn check_remove(before: &str, dotted: &str, after: &str) {
    match remove(before, &path(dotted)) {
        Ok(text) => assert_eq!(text, after, "remove {dotted} from {before:?}"),
        Err(error) => panic!("remove {dotted} from {before:?}: {error}"),
    }
}

#[test]
fn existing_scalars_change_in_place() {
    for (before, dotted, value, after) in [
        ("a: 1  # keep\nb: 2\n", "a", "7", "a: 7  # keep\nb: 2\n"),
        ("a: 1\r\nb: 2 # c\r\n", "b", "x", "a: 1\r\nb: x # c\r\n"),
        ("a: 1", "a", "22", "a: 22"),
        ("a: 'q # r' # c\n", "a", "plain", "a: plain # c\n"),
        ("'a b': 1\n", "a b", "2", "'a b': 2\n"),
        ("\"a\" : 1\n", "a", "2", "\"a\" : 2\n"),
        ("a: one\n  two\n  three # c\nb: 1\n", "a", "x", "a: x # c\nb: 1\n"),
        ("a: \"one\n  two\" # c\nb: 1\n", "a", "x", "a: x # c\nb: 1\n"),
        ("a:\n  value\nb: 1\n", "a", "x", "a:\n  x\nb: 1\n"),
        ("a: |  # why\n  text\n\n  more\n\n# after\nb: 1\n", "a", "x", "a: x  # why\n\n# after\nb: 1\n"),
        ("a: >-\n  text\nb: 1\n", "a", "x", "a: x\nb: 1\n"),
        ("a: |2-\n   text", "a", "x", "a: x"),
        ("a: {b: 1, c: 2} # c\n", "a.b", "9", "a: {b: 9, c: 2} # c\n"),
        ("a: {b, c: 2}\n", "a.b", "9", "a: {b: 9, c: 2}\n"),
        ("a: {b: , c: 2}\n", "a.b", "9", "a: {b: 9 , c: 2}\n"),
        ("{\"a\":1}", "a", "2", "{\"a\":2}"),
        ("a:\n- x\n- y # c\n", "a.1", "z", "a:\n- x\n- z # c\n"),
        ("a: !!str 5 # c\n", "a", "6", "a: 6 # c\n"),
        ("é: ü\nb: 1\n", "b", "2", "é: ü\nb: 2\n"),
        ("a: 1\na: 2\n", "a", "3", "a: 1\na: 3\n"),
        ("? a\n: b\n", "a", "c", "? a\n: c\n"),
        ("a: 5\n", "a", "5", "a: 5\n"),
        ("a: 017\n", "a", "15", "a: 017\n"),
    ] {
        check_set(before, dotted, value, after);
    }
}

#[test]
fn strings_are_quoted_when_a_reader_would_mistake_them() {
    for (value, written) in [
        ("'off'", "'off'"),
        ("'017'", "'017'"),
        ("'1e5'", "'1e5'"),
        ("''", "''"),
        ("\"a\\nb\"", "\"a\\nb\""),
        ("a b", "a b"),
    ] {
        check_set("k: 1\n", "k", value, &format!("k: {written}\n"));
    }
}

#[test]
fn empty_values_are_filled() {
    for (before, dotted, value, after) in [
        ("a:\nb: 1\n", "a", "x", "a: x\nb: 1\n"),
        ("a:   # c\nb: 1\n", "a", "x", "a: x   # c\nb: 1\n"),
        ("b: 1\na:", "a", "x", "b: 1\na: x"),
        ("a: ~\n", "a.b", "1", "a:\n  b: 1\n"),
        ("a:  # c\n  # deeper\nb: 1\n", "a.b", "1", "a:  # c\n  b: 1\n  # deeper\nb: 1\n"),
        ("a:\n-\n- y\n", "a.0", "x", "a:\n- x\n- y\n"),
        ("a: {}\n", "a.b", "1", "a: {b: 1}\n"),
        ("a: []\n", "a", "[1, 2]", "a: [1, 2]\n"),
    ] {
        check_set(before, dotted, value, after);
    }
}

#[test]
fn new_keys_follow_the_file() {
    for (before, dotted, value, after) in [
        ("", "a", "1", "a: 1\n"),
        ("# head\n", "a.b", "1", "# head\na:\n  b: 1\n"),
        ("# head", "a", "1", "# head\na: 1"),
        ("---\n", "a", "1", "---\na: 1\n"),
        ("--- # c\n...\n", "a", "1", "--- # c\na: 1\n...\n"),
        ("---\na: 1\n...\n", "b", "1", "---\na: 1\nb: 1\n...\n"),
        ("a: 1", "b", "2", "a: 1\nb: 2"),
        ("a: 1\r\n", "b.c", "2", "a: 1\r\nb:\r\n  c: 2\r\n"),
        (
            "a:\n    b: 1 # c\n\n# tail\nz: 1\n",
            "a.c.d",
            "2",
            "a:\n    b: 1 # c\n    c:\n        d: 2\n\n# tail\nz: 1\n",
        ),
        ("a: {b: 1}\n", "a.c", "2", "a: {b: 1, c: 2}\n"),
        ("a: {b: 1, }\n", "a.c", "2", "a: {b: 1, c: 2 }\n"),
        ("a: {\n  b: 1 # c\n}\n", "a.c", "2", "a: {\n  b: 1, c: 2 # c\n}\n"),
        ("a: 5 # c\nb: 1\n", "a.x", "1", "a: # c\n  x: 1\nb: 1\n"),
        ("a: |\n  t\nb: 1\n", "a.x", "1", "a:\n  x: 1\nb: 1\n"),
        ("a: [1]\n", "a.x", "1", "a: {x: 1}\n"),
        ("a:\n  - 1\n  - 2\n", "a.x", "1", "a:\n  x: 1\n"),
        ("a:\n- k: 1\n", "a.0.l", "2", "a:\n- k: 1\n  l: 2\n"),
        ("a:\n- 1\n", "a.1", "2", "a:\n- 1\n- 2\n"),
        ("a: |+\n  t\n\n\nb: 1\n", "c", "1", "a: |+\n  t\n\n\nb: 1\nc: 1\n"),
        ("b: 1\na: |+\n  t\n\n", "c", "1", "b: 1\na: |+\n  t\n\nc: 1\n"),
        // A last line without a line break is part of the block scalar, so the new key goes on top.
        ("a: |\n  t", "c", "1", "c: 1\na: |\n  t"),
    ] {
        check_set(before, dotted, value, after);
    }
    check_set("a: 1\n", "b.123", "2", "a: 1\nb:\n  '123': 2\n");
}

#[test]
fn collections_are_replaced_whole() {
    for (before, dotted, value, after) in [
        ("a:\n- x # 1\n- y # 2\nb: 1\n", "a", "[p]", "a:\n- p\nb: 1\n"),
        ("a:  # c\n  - x\n  - y\nb: 1\n", "a", "[p, q]", "a:  # c\n  - p\n  - q\nb: 1\n"),
        ("a:\n  b: 1\n  c: 2 # x\n# tail\nd: 1\n", "a", "text", "a: text\n# tail\nd: 1\n"),
        ("a: # note\n  # inner\n  b: 1\nd: 1\n", "a", "5", "a: 5 # note\n  # inner\nd: 1\n"),
        ("a: [1, 2] # c\n", "a", "[3]", "a: [3] # c\n"),
        ("a: 1\n", "a", "[x, {k: v, l: [1]}]", "a:\n- x\n- k: v\n  l:\n  - 1\n"),
        ("a:\n  - k: 1\n    l: 2\n  - z\n", "a.0", "5", "a:\n  - 5\n  - z\n"),
        ("a:\n  b: 1\n", "a", "{}", "a: {}\n"),
        ("a: &q\n  b: 1\nc: 2\n", "a", "5", "a: 5\nc: 2\n"),
    ] {
        check_set(before, dotted, value, after);
    }
}

#[test]
fn aliases_are_written_out_and_anchors_left_alone() {
    for (before, dotted, value, after) in [
        ("a: &x 1\nb: *x # c\n", "b", "2", "a: &x 1\nb: 2 # c\n"),
        ("a: &x {p: 1, q: 2}\nb: *x\n", "b.p", "9", "a: &x {p: 1, q: 2}\nb:\n  p: 9\n  q: 2\n"),
        (
            "a: &x {p: {r: 1, s: 2}}\nb:\n  <<: *x\n  t: 3\n",
            "b.p.r",
            "9",
            "a: &x {p: {r: 1, s: 2}}\nb:\n  <<: *x\n  t: 3\n  p:\n    r: 9\n    s: 2\n",
        ),
        ("a: &x {p: 1}\nb:\n  <<: *x\n", "b.p", "9", "a: &x {p: 1}\nb:\n  <<: *x\n  p: 9\n"),
    ] {
        check_set(before, dotted, value, after);
    }
    for (before, dotted) in [("a: &x 1\nb: *x\n", "a"), ("a: &x {p: 1}\nb: *x\n", "a.p")] {
        let error = set(before, &path(dotted), &YamlValue::Int(5)).expect_err("shared");
        assert!(matches!(error, EditError::Unfaithful(_)), "{error}");
    }
}

#[test]
fn entries_are_removed_with_their_lines() {
    for (before, dotted, after) in [
        ("a: 1 # c\nb: 2\n", "a", "b: 2\n"),
        ("# h\na: 1\n# about b\nb: 2\n", "b", "# h\na: 1\n# about b\n"),
        ("a: 1\nb: 2", "b", "a: 1"),
        ("a: 1\r\nb: 2\r\n", "a", "b: 2\r\n"),
        ("a:\n  b: 1\n  c: 2\nd: 1\n", "a.b", "a:\n  c: 2\nd: 1\n"),
        ("a:\n  b: 1\nd: 1\n", "a.b", "a: {}\nd: 1\n"),
        ("a: {b: 1, c: 2, d: 3}\n", "a.c", "a: {b: 1, d: 3}\n"),
        ("a: {b: 1, c: 2}\n", "a.c", "a: {b: 1}\n"),
        ("a: {b: 1}\n", "a.b", "a: {}\n"),
        ("a: |\n  t\n\nb: 1\n", "a", "\nb: 1\n"),
        ("a:\n- x\n- y\n", "a.0", "a:\n- y\n"),
        ("a:\n- x\n", "a.0", "a: []\n"),
        ("a:\n- k: 1\n  l: 2\n", "a.0.k", "a:\n- l: 2\n"),
        ("# h\na: 1\n", "a", "# h\n"),
        ("a: 1\nb: 2\na: 3\n", "a", "b: 2\n"),
    ] {
        check_remove(before, dotted, after);
    }
    assert_eq!(remove("a: 1\n", &path("b")), Err(EditError::NotFound("b".into())));
}

#[test]
fn what_cannot_be_edited_is_refused() {
    assert!(matches!(set("- a\n", &path("x"), &YamlValue::Null), Err(EditError::RootNotMapping)));
    assert!(matches!(set("just text\n", &path("x"), &YamlValue::Null), Err(EditError::RootNotMapping)));
    assert!(matches!(set("a: [\n", &path("x"), &YamlValue::Null), Err(EditError::Unreadable(_))));
    assert!(matches!(set("a: [1]\n", &path("a.7"), &YamlValue::Null), Err(EditError::IndexOutOfRange(_))));
}

mod random {
    use proptest::prelude::*;

    use super::{KeyPath, YamlValue, parse, remove, set};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Shows that for any text, anchors and unusual forms included, the result is read back as requested or
        /// there is none.
        #[test]
        fn any_text_is_edited_faithfully_or_not_at_all(
            text in "([abc'\"]{1,2}|: |:\n|\n|\r\n|  |- |\\? |# c|[|>]\n|&a |\\*a|!!str |<<: |\\{|\\}|\\[|\\]|,|--- |\t|é){0,16}",
            path in "[abc0](\\.[abc0]){0,2}",
            value in prop::sample::select(vec!["5", "x y", "[1]", "{k: v}", "''", "null"]),
        ) {
            let path = KeyPath::parse(&path).expect("a path");
            let value = parse(value).expect("a value");
            let tree = parse(&text);
            if let Ok(after) = set(&text, &path, &value) {
                let mut expected = tree.clone().expect("was readable");
                expected.set_path(path.segments(), value);
                prop_assert!(parse(&after).expect("reads").same_data(&expected));
            }
            if let Ok(after) = remove(&text, &path) {
                let mut expected = tree.expect("was readable");
                prop_assert!(expected.remove_path(path.segments()));
                let read = parse(&after).expect("reads");
                prop_assert!(read.same_data(&expected) || read == YamlValue::Null);
            }
        }
    }
}
