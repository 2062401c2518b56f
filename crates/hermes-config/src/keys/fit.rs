//! Converts a value to the type of its key, as a lenient reader would.

use super::{KeyKind, KeySpec};
use crate::env::split_list;
use crate::yaml::YamlValue;

/// The result of checking a value against its key.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueFit {
    AsIs,
    /// The value is usable in this form.
    Converted(YamlValue),
    /// The value is not usable; the default applies.
    Unusable,
}

/// Checks a value against its key. Null always fits: it means the default.
pub fn fit(spec: &KeySpec, value: &YamlValue) -> ValueFit {
    if value.is_null() {
        return ValueFit::AsIs;
    }
    match spec.kind {
        KeyKind::Any => ValueFit::AsIs,
        KeyKind::Flag => fit_flag(value),
        KeyKind::Int => fit_int(value),
        KeyKind::Number => match value {
            YamlValue::Int(_) | YamlValue::Float(_) => ValueFit::AsIs,
            YamlValue::Str(text) => read_number(text)
                .map_or(ValueFit::Unusable, |number| ValueFit::Converted(YamlValue::Float(number))),
            _ => ValueFit::Unusable,
        },
        KeyKind::Text => fit_text(value),
        KeyKind::Choice(words) => fit_choice(spec, words, value),
        KeyKind::List => fit_list(value),
        KeyKind::Map => match value {
            YamlValue::Map(_) => ValueFit::AsIs,
            _ => ValueFit::Unusable,
        },
    }
}

fn fit_flag(value: &YamlValue) -> ValueFit {
    let read = match value {
        YamlValue::Bool(_) => return ValueFit::AsIs,
        YamlValue::Int(0) => false,
        YamlValue::Int(1) => true,
        YamlValue::Str(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "y" => true,
            "false" | "no" | "off" | "0" | "n" => false,
            _ => return ValueFit::Unusable,
        },
        _ => return ValueFit::Unusable,
    };
    ValueFit::Converted(YamlValue::Bool(read))
}

fn fit_int(value: &YamlValue) -> ValueFit {
    let number = match value {
        YamlValue::Int(_) => return ValueFit::AsIs,
        YamlValue::Float(number) => Some(*number),
        // `config set` stores negative and scientific numbers as text.
        YamlValue::Str(text) => match text.trim().parse::<i128>() {
            Ok(whole) => return ValueFit::Converted(YamlValue::Int(whole)),
            Err(_) => read_number(text),
        },
        _ => None,
    };
    number.and_then(whole).map_or(ValueFit::Unusable, |whole| ValueFit::Converted(YamlValue::Int(whole)))
}

/// Returns the integer a floating-point number equals, within the range where such numbers are exact.
#[expect(clippy::cast_possible_truncation, reason = "the range check makes the conversion exact")]
fn whole(number: f64) -> Option<i128> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i128)
}

fn read_number(text: &str) -> Option<f64> {
    text.trim().replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite())
}

fn fit_text(value: &YamlValue) -> ValueFit {
    match value {
        YamlValue::Str(_) => ValueFit::AsIs,
        // YAML 1.1 reads an unquoted `off` as false.
        YamlValue::Bool(value) => ValueFit::Converted(YamlValue::from(if *value { "on" } else { "off" })),
        other => {
            other.scalar_text().map_or(ValueFit::Unusable, |text| ValueFit::Converted(YamlValue::Str(text)))
        }
    }
}

fn fit_choice(spec: &KeySpec, words: &[&str], value: &YamlValue) -> ValueFit {
    let word = match value {
        YamlValue::Str(text) => text.trim().to_lowercase(),
        // Booleans are mapped back to the word the user wrote.
        YamlValue::Bool(true) => spec.true_word.to_owned(),
        YamlValue::Bool(false) => "off".to_owned(),
        other => other.scalar_text().unwrap_or_default(),
    };
    if (word.is_empty() && spec.allows_empty) || words.contains(&word.as_str()) {
        if value.as_str() == Some(&word) { ValueFit::AsIs } else { ValueFit::Converted(YamlValue::Str(word)) }
    } else {
        ValueFit::Unusable
    }
}

fn fit_list(value: &YamlValue) -> ValueFit {
    match value {
        YamlValue::Seq(_) => ValueFit::AsIs,
        YamlValue::Map(_) | YamlValue::Bool(_) => ValueFit::Unusable,
        other => other.scalar_text().map_or(ValueFit::Unusable, |text| {
            ValueFit::Converted(YamlValue::Seq(split_list(&text).into_iter().map(YamlValue::Str).collect()))
        }),
    }
}
