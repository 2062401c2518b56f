//! Converts arguments to the JSON types of their schema, because models write `"42"` for 42 and JSON texts for
//! lists.
//!
//! These functions are pure and never fail. A value that cannot be converted with certainty stays unchanged,
//! and a property of type string keeps its text.

use serde_json::{Map, Number, Value};

/// Converts every property to the type its schema names.
pub fn coerce(arguments: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return arguments };
    arguments
        .into_iter()
        .map(|(name, value)| match properties.get(&name) {
            Some(schema) => (name, coerce_value(value, schema)),
            None => (name, value),
        })
        .collect()
}

fn coerce_value(value: Value, schema: &Value) -> Value {
    let value = match &value {
        Value::String(text) => from_text(text, schema).unwrap_or(value),
        Value::Number(_) | Value::Bool(_) if kinds(schema) == ["array"] => Value::Array(vec![value]),
        _ => value,
    };
    repair_inside(value, schema)
}

/// Converts a text to another type that the schema names. Returns `None` if the text stays a text.
fn from_text(text: &str, schema: &Value) -> Option<Value> {
    if is_nullable(schema) && text.trim().eq_ignore_ascii_case("null") {
        return Some(Value::Null);
    }
    let kinds = kinds(schema);
    let takes_text = kinds.contains(&"string");
    let found = kinds.iter().find_map(|kind| match *kind {
        "integer" => number(text).filter(|number| !number.is_f64()).map(Value::Number),
        "number" => number(text).map(Value::Number),
        "boolean" => boolean(text),
        "array" => parsed(text).filter(Value::is_array),
        "object" => parsed(text).filter(Value::is_object),
        _ => None,
    });
    found
        .or_else(|| {
            alternatives(schema).find_map(|schema| from_text(text, schema).filter(|_| kinds.is_empty()))
        })
        .or_else(|| {
            let wrap = kinds.contains(&"array") && !takes_text;
            wrap.then(|| Value::Array(vec![Value::String(text.to_owned())]))
        })
}

/// Returns the types that a schema allows, in its order.
fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect()
        }
        _ => Vec::new(),
    }
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array()).flatten()
}

fn is_nullable(schema: &Value) -> bool {
    let names_null = |schema: &Value| match schema.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    };
    names_null(schema)
        || schema.get("nullable") == Some(&Value::Bool(true))
        || alternatives(schema).any(names_null)
}

/// Parses a finite number; a whole number becomes an integer.
fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    // Whole numbers beyond this limit are no longer exact.
    if number.fract() == 0.0 && number.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within the range, as just checked")]
        return Some((number as i64).into());
    }
    Number::from_f64(number)
}

fn boolean(text: &str) -> Option<Value> {
    let text = text.trim();
    ["true", "false"]
        .into_iter()
        .find(|word| text.eq_ignore_ascii_case(word))
        .map(|word| Value::Bool(word == "true"))
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn repair_inside(value: Value, schema: &Value) -> Value {
    match value {
        Value::Array(items) => match schema.get("items") {
            Some(schema) => items.into_iter().map(|item| coerce_value(item, schema)).collect(),
            None => Value::Array(items),
        },
        Value::Object(fields) => Value::Object(coerce(fields, schema)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, given: &Value, expected: &Value) {
        let schema = json!({"type": "object", "properties": {"x": schema}});
        let Value::Object(given) = json!({"x": given}) else { panic!("an object") };
        assert_eq!(
            Value::Object(coerce(given.clone(), &schema)),
            json!({"x": expected}),
            "{given:?} {schema}"
        );
    }

    #[test]
    fn texts_become_what_the_schema_asks_for() {
        for (kind, given, expected) in [
            ("integer", json!("42"), json!(42)),
            ("integer", json!("3.0"), json!(3)),
            ("integer", json!("3.5"), json!("3.5")),
            ("integer", json!("inf"), json!("inf")),
            ("integer", json!("nan"), json!("nan")),
            ("number", json!("2.50"), json!(2.5)),
            ("number", json!("7"), json!(7)),
            ("number", json!("NaN"), json!("NaN")),
            ("boolean", json!(" TRUE "), json!(true)),
            ("boolean", json!("1"), json!("1")),
            ("boolean", json!("yes"), json!("yes")),
            ("array", json!("[1, 2]"), json!([1, 2])),
            ("array", json!("a, b"), json!(["a, b"])),
            ("array", json!(5), json!([5])),
            ("array", json!(null), json!(null)),
            ("object", json!("{\"a\": 1}"), json!({"a": 1})),
            ("object", json!("[1]"), json!("[1]")),
            ("string", json!("[1]"), json!("[1]")),
            ("string", json!("null"), json!("null")),
            ("string", json!(5), json!(5)),
        ] {
            check(&json!({"type": kind}), &given, &expected);
        }
    }

    #[test]
    fn unions_and_nothing() {
        check(&json!({"type": ["integer", "null"]}), &json!("Null"), &json!(null));
        check(&json!({"type": "integer", "nullable": true}), &json!("null"), &json!(null));
        check(&json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), &json!("null"), &json!(null));
        check(&json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), &json!("5"), &json!(5));
        check(&json!({"type": ["boolean", "integer"]}), &json!("7"), &json!(7));
        check(&json!({"type": ["string", "array"]}), &json!("plain"), &json!("plain"));
    }

    #[test]
    fn containers_are_repaired_inside() {
        let schema =
            json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}});
        check(&schema, &json!("[{\"n\": \"1\"}]"), &json!([{"n": 1}]));
        check(&schema, &json!("{\"n\": \"2\"}"), &json!([{"n": 2}]));
        check(&schema, &json!(["{\"n\": 3}"]), &json!([{"n": 3}]));
    }
}
