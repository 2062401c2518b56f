use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, written: &str) {
    assert_eq!(JsonTree::parse(text).unwrap().to_string(), written, "{text}");
}

#[test]
fn texts_are_written_with_spaces_and_numbers_in_their_shortest_form() {
    check(r#" {"a":[1,2.50,{"b":null}],"c":true} "#, r#"{"a": [1, 2.5, {"b": null}], "c": true}"#);
    check(
        "[1.0,1e3,1e16,123456789012345680000,1e-5,0.0001,-0,-0.0,1.5e300]",
        "[1.0, 1000.0, 1e+16, 123456789012345680000, 1e-05, 0.0001, 0, -0.0, 1.5e+300]",
    );
    check("123456789012345678901234567890", "123456789012345678901234567890");
    check(r#""\u00e9\ud83d\ude00\ud800x\u0007\/\"""#, "\"é😀\u{fffd}x\\u0007/\\\"\"");
    check(r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#);
    check("[]", "[]");
    check("{}", "{}");
}

#[test]
fn what_is_not_json_is_refused() {
    let deep = "[".repeat(100_000);
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "'a'",
        "01",
        "1.",
        ".5",
        "+1",
        "NaN",
        "-Infinity",
        "1e999",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12",
        "nul",
        "1 2",
        "\"a",
        &deep,
    ] {
        assert!(JsonTree::parse(text).is_err(), "{}", text.get(..20).unwrap_or(text));
    }
}

#[test]
fn a_value_at_the_start_of_a_text_is_read() {
    let (value, length) = JsonTree::parse_prefix("{\"a\": 1} and more").unwrap();
    assert_eq!((value.to_string().as_str(), length), ("{\"a\": 1}", 8));
    assert_eq!(JsonTree::parse_prefix("12.x").unwrap().1, 2);
    assert!(JsonTree::parse_prefix(" 1").is_err(), "blanks before it are not skipped");
}

#[test]
fn an_indented_text_has_two_spaces_for_each_level() {
    let value = JsonTree::parse(r#"{"a":[1,{"b":[]}],"c":{}}"#).unwrap();
    assert_eq!(value.pretty(), "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}");
    assert_eq!(JsonTree::parse(&value.pretty()).unwrap(), value);
}

fn trees() -> impl Strategy<Value = JsonTree> {
    let leaf = prop_oneof![
        Just(JsonTree::Null),
        any::<bool>().prop_map(JsonTree::Bool),
        any::<i64>().prop_map(|n| JsonTree::Number(n.to_string())),
        any::<f64>().prop_map(JsonTree::float),
        ".*".prop_map(JsonTree::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(JsonTree::Array),
            prop::collection::btree_map(".{0,5}", inner, 0..6)
                .prop_map(|map| JsonTree::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(tree in trees()) {
        prop_assert_eq!(JsonTree::parse(&tree.to_string()).unwrap(), tree.clone());
        prop_assert_eq!(JsonTree::parse(&tree.pretty()).unwrap(), tree);
    }

    #[test]
    fn floats_keep_their_value(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
        let read = JsonTree::parse(&JsonTree::float(value).to_string()).unwrap();
        prop_assert_eq!(read.as_f64().unwrap().to_bits(), value.to_bits());
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[\\[\\]{}:,\"\\\\0-9eE.+\\-a-u \n]{0,60}") {
        let _ = JsonTree::parse(&text);
        let _ = JsonTree::parse_prefix(&text);
    }
}
