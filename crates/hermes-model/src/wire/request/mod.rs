//! The body of a request, one file per wire.
//!
//! The caller has already repaired tool pairs and chosen the messages; this module only converts them to the wire's
//! format. History is not changed, and no field is sent that the wire does not define.

mod anthropic;
mod chat;
mod converse;
mod images;
mod responses;

use hermes_types::ModelRequest;
use serde_json::Value;

use super::mode::ApiMode;
use super::node::{JsonNode, JsonObject};
use super::options::{StreamingMode, WireOptions};

pub fn build_body<'a>(
    request: &'a ModelRequest,
    options: &'a WireOptions,
    streaming: StreamingMode,
) -> JsonObject<'a> {
    match options.mode {
        ApiMode::Chat => chat::build(request, options, streaming),
        ApiMode::Responses => responses::build(request, options, streaming),
        ApiMode::Anthropic => anthropic::build(request, options, streaming),
        ApiMode::Converse => converse::build(request, options, streaming),
    }
}

/// Writes a temperature as it was configured: widening 0.7 to the nearest double would send 0.699999988079071.
fn temperature(value: f32) -> JsonNode<'static> {
    let text = value.to_string();
    text.parse::<f64>().map_or(Value::Null, Value::from).into()
}

/// Returns the arguments as an object; anything that is not a JSON object becomes an empty one.
fn arguments_object(arguments: &str) -> JsonNode<'_> {
    match hermes_types::RawJson::parse(arguments.trim().to_owned()) {
        Ok(raw) if raw.as_str().starts_with('{') => raw.into(),
        _ => JsonObject::new().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_keep_their_digits() {
        assert_eq!(JsonObject::new().with("t", temperature(0.7)).to_bytes(), br#"{"t":0.7}"#);
        assert_eq!(JsonObject::new().with("t", temperature(f32::NAN)).to_bytes().len(), 10);
    }

    #[test]
    fn arguments_become_objects() {
        let check = |text: &str, expected: &str| {
            let object = JsonObject::new().with("a", arguments_object(text));
            assert_eq!(String::from_utf8(object.to_bytes()).unwrap(), format!(r#"{{"a":{expected}}}"#));
        };
        check(r#" {"x": 1.0} "#, r#"{"x": 1.0}"#);
        check("[1]", "{}");
        check("{\"x\":", "{}");
        check("", "{}");
    }
}
