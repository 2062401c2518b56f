use super::{YamlMap, YamlValue, emit_block, emit_inline, parse};

fn check(text: &str, json: &str) {
    let value = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(value.to_json().to_string(), json, "for {text:?}");
}

fn check_error(text: &str, line: usize, problem: &str) {
    let error = parse(text).expect_err(text);
    assert!(error.problem.contains(problem), "{error} for {text:?}");
    assert_eq!(error.line, line, "{error} for {text:?}");
}

/// Shows that booleans, octal, base 60 and ids are read as a YAML 1.1 reader does.
#[test]
fn t41_1_plain_scalars_mean_what_yaml_1_1_says() {
    for (text, json) in [
        ("[yes, No, ON, off, True, FALSE, y, N]", "[true,false,true,false,true,false,true,false]"),
        ("[yEs, oN, tRUE, nope]", r#"["yEs","oN","tRUE","nope"]"#),
        ("[~, null, Null, NULL, nULL]", r#"[null,null,null,null,"nULL"]"#),
        ("[017, 0o17, 0x1F, 0b101, 1_000, 089, 00, 0, 0_]", r#"[15,15,31,5,1000,"089",0,0,0]"#),
        ("[1:30, 4:30:00, 0:30, 1:75, 4:30.5]", r#"[90,16200,"0:30","1:75",270.5]"#),
        ("[-7, +3, -0x10, --1, 0x-1]", r#"[-7,3,-16,"--1","0x-1"]"#),
        ("[1.5, .5, -.5, 1., 1e5, 1.0e+3, 1.0e3]", r#"[1.5,0.5,"-.5",1.0,"1e5",1000.0,"1.0e3"]"#),
        ("[.inf, -.INF, .nan]", r#"[".inf","-.inf",".nan"]"#),
        ("['on', \"017\", !!str 12, !!int '7', !!float 3, !!bool yes]", r#"["on","017","12",7,3.0,true]"#),
        ("[1234567890123456789, 18446744073709551615]", "[1234567890123456789,18446744073709551615]"),
        ("99999999999999999999999999999999999999999999", "\"99999999999999999999999999999999999999999999\""),
        ("2024-01-02", "\"2024-01-02\""),
    ] {
        check(text, json);
    }
}

#[test]
fn structure_is_read() {
    for (text, json) in [
        ("", "null"),
        ("# only a comment\n", "null"),
        ("---\n", "null"),
        ("\u{feff}a: 1\n", r#"{"a":1}"#),
        ("a: 1\na: 2\n", r#"{"a":2}"#),
        ("b: &x {k: 1}\nc: *x\n", r#"{"b":{"k":1},"c":{"k":1}}"#),
        ("b: &x {k: 1, l: 2}\nc:\n  <<: *x\n  k: 9\n", r#"{"b":{"k":1,"l":2},"c":{"k":9,"l":2}}"#),
        (
            "b: &x {k: 1}\nd: &y {k: 2, m: 3}\nc: {<<: [*x, *y]}\n",
            r#"{"b":{"k":1},"d":{"k":2,"m":3},"c":{"k":1,"m":3}}"#,
        ),
        ("123: a\non: b\n", r#"{"123":"a","on":"b"}"#),
        ("a: |\n  x\n  y\nb: >-\n  p\n  q\n", r#"{"a":"x\ny\n","b":"p q"}"#),
        ("a: |\n  last", r#"{"a":"last"}"#),
        ("a:\r\n  - 1\r\n  - b: 2\r\n", r#"{"a":[1,{"b":2}]}"#),
        ("a: \"x\\ty\\u00e9\"\n", r#"{"a":"x\tyé"}"#),
    ] {
        check(text, json);
    }
}

#[test]
fn errors_name_line_and_column() {
    check_error("a: 1\nb: [1, 2\nc: 3\n", 3, "");
    check_error("a: 1\n  b: 2\n", 2, "");
    check_error("a: 1\n---\nb: 2\n", 2, "second document");
    check_error("a: 1\nb: !!python/object:os.system x\n", 2, "unknown tag");
    check_error("a: &x\n  b: *x\n", 2, "contains itself");
    check_error("a: *nope\n", 1, "");
    check_error("a: 1\n<<: 5\n", 2, "merged");
}

#[test]
fn alias_bombs_and_deep_nesting_are_refused_quickly() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        let line = format!("a{level}: &a{level} [{refs}]\n");
        bomb.push_str(&line);
    }
    assert!(parse(&bomb).expect_err("bomb").problem.contains("too much"));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), vec!["*a"; 100_000].join(","));
    assert!(parse(&long).is_err());
    for deep in ["[".repeat(5_000), "{a: ".repeat(5_000), "- ".repeat(5_000)] {
        assert!(parse(&deep).is_err());
    }
    assert!(parse(&"a".repeat(9 * 1024 * 1024)).is_err());
}

#[test]
fn what_is_written_reads_back_the_same() {
    let strings = [
        "",
        " ",
        "a",
        "a b",
        "off",
        "Yes",
        "y",
        "null",
        "~",
        "~/x",
        "017",
        "1:30",
        "1e5",
        "0x1f",
        "1.5",
        "-1",
        "- a",
        "-a",
        "a: b",
        "a:",
        ":a",
        "a #b",
        "#a",
        "it's",
        "\"q\"",
        "a\nb",
        "tab\there",
        "é",
        "\u{1F600}",
        "${VAR}",
        "{a}",
        "[a]",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "|",
        ">",
        "?",
        "? a",
        "a,b",
        "=",
        "<<",
        "2024-01-01",
        "\u{85}",
        "\u{feff}x",
        "\u{7}",
        "trailing ",
        " leading",
        "---",
        "...",
        "http://x:80/y",
        "C:\\dir",
        ".inf",
        ".NAN",
        "1_0",
        "a\r\nb",
    ];
    let mut map = YamlMap::new();
    for (index, text) in strings.iter().enumerate() {
        map.insert(format!("k{index}"), YamlValue::from(*text));
        map.insert(*text, YamlValue::Seq(vec![YamlValue::from(*text), YamlValue::Int(3)]));
    }
    map.insert(
        "f",
        YamlValue::Seq([1e300, -2.5e-9, 3.0, f64::NAN, f64::INFINITY].map(YamlValue::Float).to_vec()),
    );
    map.insert(
        "nested",
        YamlValue::Seq(vec![
            YamlValue::Map(map.clone()),
            YamlValue::Seq(vec![]),
            YamlValue::Map(YamlMap::new()),
        ]),
    );
    let value = YamlValue::Map(map);
    for text in [emit_block(&value), emit_inline(&value)] {
        let back = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(back.same_data(&value), "{text}");
    }
}

#[test]
fn typed_keys_keep_their_spelling() {
    let value = parse("123: a\n'456': b\non: c\n").expect("reads");
    assert_eq!(emit_block(&value), "123: a\n'456': b\non: c\n");
}

mod random {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Shows that no text makes the reader panic, and that every value read can be written and read again.
        #[test]
        fn any_text_is_read_or_refused(text in "[-a-c0-9:#'\"|>&*!\\[\\]{},?%@ \t\r\n~.<é\u{1F600}]{0,60}") {
            if let Ok(value) = super::parse(&text) {
                let again = super::parse(&super::emit_block(&value)).expect("own output reads");
                prop_assert!(again.same_data(&value));
            }
        }
    }
}
