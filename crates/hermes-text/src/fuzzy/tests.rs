use proptest::prelude::*;

use super::{MatchStrategy, *};

fn check(content: &str, old: &str, new: &str, strategy: MatchStrategy, expected: &str) {
    let replaced = fuzzy_replace(content, old, new, Occurrences::One).unwrap();
    assert_eq!((replaced.strategy, replaced.text.as_str()), (strategy, expected), "{old:?}");
}

#[test]
fn each_way_of_looking_finds_what_it_is_for() {
    check("a b c", "b", "x", MatchStrategy::Exact, "a x c");
    check("  foo \n  bar\nx", "foo\nbar", "baz", MatchStrategy::LineTrimmed, "  baz\nx");
    check("f(a,   b);", "f(a, b);", "g(b);", MatchStrategy::WhitespaceNormalized, "g(b);");
    check("a\nb = 1\nc", "a\\nb = 1", "z", MatchStrategy::EscapeNormalized, "z\nc");
    check("say “hi”…", "say \"hi\"...", "say \"ho\"...", MatchStrategy::UnicodeNormalized, "say “ho”…");
    check(
        "fn f() {\n    let total = a + b;\n}\n",
        "fn f() {\n    let total = a+b ;\n}",
        "fn f() {}",
        MatchStrategy::BlockAnchor,
        "fn f() {}\n",
    );
    check("alpha beta gamma\nx\n", "alpha beta gamna", "delta", MatchStrategy::ContextAware, "delta\nx\n");
}

#[test]
fn the_indentation_of_the_file_wins() {
    let content = "class A:\n        def f(self):\n            return 1\n";
    let old = "  def f(self):\n      return 1";
    let new = "  def f(self):\n      if x:\n        return 2\nend";
    check(
        content,
        old,
        new,
        MatchStrategy::LineTrimmed,
        "class A:\n        def f(self):\n            if x:\n              return 2\n        end\n",
    );
}

#[test]
fn escapes_are_not_carried_into_the_file() {
    let error = fuzzy_replace("  say('x')\n", "say(\\'x\\') ", "say(\\'y\\')", Occurrences::One).unwrap_err();
    assert!(error.to_string().starts_with("Escape-drift detected"), "{error}");
    check("if x:\n\ty = 1\n", "\\ty = 1", "\\ty = 2", MatchStrategy::EscapeNormalized, "if x:\n\ty = 2\n");
}

#[test]
fn what_cannot_be_done_is_said() {
    let error =
        |content, old, new| fuzzy_replace(content, old, new, Occurrences::One).unwrap_err().to_string();
    assert_eq!(error("x", "", "y"), "old_string cannot be empty");
    assert_eq!(error("x", "x", "x"), "old_string and new_string are identical");
    assert_eq!(error("x", "completely else", "y"), "Could not find a match for old_string in the file");
    assert!(error("a a a", "a", "b").starts_with("Found 3 matches for old_string."));
    assert!(error("}\n }\n  }\n", "}\n}", "x").starts_with("Found 2 matches"));
    assert_eq!(error("\n\n\n", " \n ", "x"), "Could not find a match for old_string in the file");
}

#[test]
fn several_places_change_together_when_asked() {
    let replaced = fuzzy_replace("a-a-a", "a", "bb", Occurrences::All).unwrap();
    assert_eq!((replaced.text.as_str(), replaced.count), ("bb-bb-bb", 3));
}

#[test]
fn places_alike_are_offered() {
    let content = "one\ntwo\nfn parse_value(x: u8) {\nfour\nfive\nsix\n";
    let found = similar_passages(content, "\nfn parse_values(y: u8) {");
    assert_eq!(found[0], "   1| one\n   2| two\n   3| fn parse_value(x: u8) {\n   4| four\n   5| five");
    assert!(similar_passages("abc", "\n \n").is_empty());
}

proptest! {
    #[test]
    fn an_exact_match_is_a_plain_replacement(content in "[ab \\n“—]{0,40}", old in "[ab \\n“—]{1,4}", new in "[xy]{0,3}") {
        if content.contains(&old) {
            let all = fuzzy_replace(&content, &old, &new, Occurrences::All).unwrap();
            prop_assert_eq!(all.text, content.replace(&old, &new));
            if content.matches(&old).count() == 1 {
                let one = fuzzy_replace(&content, &old, &new, Occurrences::One).unwrap();
                prop_assert_eq!(&one.text, &content.replacen(&old, &new, 1));
            }
        }
    }

    #[test]
    fn nothing_panics_and_nothing_outside_changes(
        content in "[ab\\t \\r\\n“”—…é\u{a0}\\\\n'\"]{0,60}",
        old in "[ab\\t \\r\\n“”—…é\u{a0}\\\\n'\"-]{0,20}",
        new in "\\PC{0,20}",
    ) {
        if let Some((_, found)) = strategy::find(&content, &old).filter(|_| !old.is_empty()) {
            for range in found {
                prop_assert!(content.is_char_boundary(range.start) && content.is_char_boundary(range.end));
                prop_assert!(range.start <= range.end);
            }
        }
        let _ = fuzzy_replace(&content, &old, &new, Occurrences::All);
        let _ = similar_passages(&content, &old);
    }

    #[test]
    fn a_replacement_can_be_taken_back(before in "[a-f\\n]{0,30}", after in "[a-f\\n]{0,30}", old in "[g-k]{3,9}", new in "[p-z]{3,9}") {
        let content = format!("{before}{old}{after}");
        let there = fuzzy_replace(&content, &old, &new, Occurrences::One).unwrap();
        let back = fuzzy_replace(&there.text, &new, &old, Occurrences::One).unwrap();
        prop_assert_eq!(back.text, content);
    }
}
