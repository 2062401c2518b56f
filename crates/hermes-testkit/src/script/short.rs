//! Values that a script may write short (`text: hi`) or in full (`text: {content: hi, every: 2}`).
//!
//! Uses visitors instead of untagged enums: those buffer, and an error would lose its line number.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

pub(crate) trait ShortForm: Sized {
    /// The description of the expected value in errors.
    const EXPECTED: &'static str;

    fn from_text(text: &str) -> Result<Self, String>;

    fn from_list(_items: Vec<String>) -> Result<Self, String> {
        Err(format!("a list is not allowed here, expected {}", Self::EXPECTED))
    }
}

/// Deserializes a scalar, a list of strings, or the map that `T` derives; for `#[serde(deserialize_with)]`.
pub(crate) fn short_or_map<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: ShortForm + Deserialize<'de>,
{
    deserializer.deserialize_any(Either(PhantomData))
}

pub(crate) fn optional_short_or_map<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: ShortForm + Deserialize<'de>,
{
    short_or_map(deserializer).map(Some)
}

/// Deserializes values that have no map form.
pub(crate) fn short<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: ShortForm,
{
    deserializer.deserialize_any(Scalar(PhantomData))
}

struct Either<T>(PhantomData<T>);

struct Scalar<T>(PhantomData<T>);

macro_rules! scalars {
    ($type:ident) => {
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str($type::EXPECTED)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<$type, E> {
            $type::from_text(text).map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<$type, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<$type, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<$type, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<$type, E> {
            self.visit_str(&value.to_string())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<$type, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element::<String>()? {
                list.push(item);
            }
            $type::from_list(list).map_err(A::Error::custom)
        }
    };
}

impl<'de, T: ShortForm + Deserialize<'de>> Visitor<'de> for Either<T> {
    type Value = T;

    scalars!(T);

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de, T: ShortForm> Visitor<'de> for Scalar<T> {
    type Value = T;

    scalars!(T);
}

/// Deserializes a duration written with its unit.
pub(crate) fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    short(deserializer)
}

impl ShortForm for Duration {
    const EXPECTED: &'static str = "a length of time such as 250ms, 2s or 1m";

    fn from_text(text: &str) -> Result<Self, String> {
        let fail = || format!("`{text}` is not {}", Self::EXPECTED);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.trim().parse().map_err(|_| fail())?;
        match text.trim_start_matches(digits) {
            "ms" => Ok(Self::from_millis(number)),
            "s" => Ok(Self::from_secs(number)),
            "m" => Ok(Self::from_secs(number.saturating_mul(60))),
            _ => Err(fail()),
        }
    }
}
