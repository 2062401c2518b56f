//! Makes a value fit its key, the way a lenient reader would.

use super::{KeySpec, Kind};
use crate::env::split_list;
use crate::yaml::Value;

/// Whether a value can be used for its key.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    AsIs,
    /// Usable in this form.
    Read(Value),
    /// Not usable; the default applies.
    Wrong,
}

/// Null always fits: it means the default.
pub fn fit(spec: &KeySpec, value: &Value) -> Fit {
    if value.is_null() {
        return Fit::AsIs;
    }
    match spec.kind {
        Kind::Any => Fit::AsIs,
        Kind::Flag => fit_flag(value),
        Kind::Int => fit_int(value),
        Kind::Number => match value {
            Value::Int(_) | Value::Float(_) => Fit::AsIs,
            Value::Str(text) => {
                read_number(text).map_or(Fit::Wrong, |number| Fit::Read(Value::Float(number)))
            }
            _ => Fit::Wrong,
        },
        Kind::Text => fit_text(value),
        Kind::Choice(words) => fit_choice(spec, words, value),
        Kind::List => fit_list(value),
        Kind::Map => match value {
            Value::Map(_) => Fit::AsIs,
            _ => Fit::Wrong,
        },
    }
}

fn fit_flag(value: &Value) -> Fit {
    let read = match value {
        Value::Bool(_) => return Fit::AsIs,
        Value::Int(0) => false,
        Value::Int(1) => true,
        Value::Str(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "y" => true,
            "false" | "no" | "off" | "0" | "n" => false,
            _ => return Fit::Wrong,
        },
        _ => return Fit::Wrong,
    };
    Fit::Read(Value::Bool(read))
}

fn fit_int(value: &Value) -> Fit {
    let number = match value {
        Value::Int(_) => return Fit::AsIs,
        Value::Float(number) => Some(*number),
        // T41-10: `config set` stores negative and scientific numbers as text.
        Value::Str(text) => match text.trim().parse::<i128>() {
            Ok(whole) => return Fit::Read(Value::Int(whole)),
            Err(_) => read_number(text),
        },
        _ => None,
    };
    number.and_then(whole).map_or(Fit::Wrong, |whole| Fit::Read(Value::Int(whole)))
}

/// The integer a fraction equals, within the range where fractions are exact.
#[expect(clippy::cast_possible_truncation, reason = "the range check makes the conversion exact")]
fn whole(number: f64) -> Option<i128> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i128)
}

fn read_number(text: &str) -> Option<f64> {
    text.trim().replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite())
}

fn fit_text(value: &Value) -> Fit {
    match value {
        Value::Str(_) => Fit::AsIs,
        // T41-1: an unquoted `off` arrives as false.
        Value::Bool(value) => Fit::Read(Value::from(if *value { "on" } else { "off" })),
        other => other.scalar_text().map_or(Fit::Wrong, |text| Fit::Read(Value::Str(text))),
    }
}

fn fit_choice(spec: &KeySpec, words: &[&str], value: &Value) -> Fit {
    let word = match value {
        Value::Str(text) => text.trim().to_lowercase(),
        // T41-1: booleans are mapped back to the word the user wrote.
        Value::Bool(true) => spec.truth.to_owned(),
        Value::Bool(false) => "off".to_owned(),
        other => other.scalar_text().unwrap_or_default(),
    };
    if (word.is_empty() && spec.blank) || words.contains(&word.as_str()) {
        if value.as_str() == Some(&word) { Fit::AsIs } else { Fit::Read(Value::Str(word)) }
    } else {
        Fit::Wrong
    }
}

fn fit_list(value: &Value) -> Fit {
    match value {
        Value::Seq(_) => Fit::AsIs,
        Value::Map(_) | Value::Bool(_) => Fit::Wrong,
        other => other.scalar_text().map_or(Fit::Wrong, |text| {
            Fit::Read(Value::Seq(split_list(&text).into_iter().map(Value::Str).collect()))
        }),
    }
}
