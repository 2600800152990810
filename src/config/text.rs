//! Parses durations and sizes: `30s`, `256MB`.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The units of bytes, powers of 1024, largest first.
const UNITS: [(&str, &str, u32); 5] =
    [("TB", "TIB", 40), ("GB", "GIB", 30), ("MB", "MIB", 20), ("KB", "KIB", 10), ("B", "B", 0)];

/// Parses `30s`, `1h 30m`, `500ms`.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|error| Error::custom(format!("{text:?} is not a duration such as \"30s\": {error}")))
}

/// The same for an optional setting.
pub(super) fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    time(deserializer).map(Some)
}

/// Parses `256MB`, or a number of bytes.
pub(super) fn some_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct Size;

    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an amount of bytes such as \"256MB\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            parse_size(text).map_err(E::custom)
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
            Ok(bytes)
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
            u64::try_from(bytes).map_err(|_| E::custom(format!("{bytes} is not an amount of bytes")))
        }
    }

    deserializer.deserialize_any(Size).map(Some)
}

/// Parses a whole number, also as text, or `never`.
pub(super) fn count_or_never<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct Count;

    impl Visitor<'_> for Count {
        type Value = Option<u64>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a whole number, or \"never\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Option<u64>, E> {
            match text.trim() {
                "never" => Ok(None),
                digits => digits
                    .parse()
                    .map(Some)
                    .map_err(|_| E::custom(format!("{text:?} is neither a whole number nor \"never\""))),
            }
        }

        fn visit_u64<E: Error>(self, count: u64) -> Result<Option<u64>, E> {
            Ok(Some(count))
        }

        fn visit_i64<E: Error>(self, count: i64) -> Result<Option<u64>, E> {
            u64::try_from(count).map(Some).map_err(|_| E::custom(format!("{count} is less than 0")))
        }
    }

    deserializer.deserialize_any(Count)
}

/// Parses a size in bytes: `256MB`, `1 GiB`. Units are powers of 1024, with or without an `i`.
///
/// # Errors
/// The text is not a size; the error says why.
///
/// ```
/// use delayed::config::parse_size;
///
/// assert_eq!(parse_size("256MB"), Ok(256 << 20));
/// assert_eq!(parse_size("1 GiB"), Ok(1 << 30));
/// assert!(parse_size("256").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not an amount of bytes such as \"256MB\": a whole number with B, KB, MB, GB or TB"
        )
    };
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let unit = trimmed[digits..].trim_start().to_ascii_uppercase();
    let named = UNITS.into_iter().find(|(short, long, _)| unit == *short || unit == *long);
    let (_, _, power) = named.ok_or_else(wrong)?;
    let number: u64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << power).filter(|bytes| i64::try_from(*bytes).is_ok());
    bytes.ok_or_else(|| format!("{text:?} is too large"))
}

/// A size in the largest unit that divides it, in the syntax of [`parse_size`].
#[cfg(feature = "cli")]
#[must_use]
pub(crate) fn shown_size(bytes: u64) -> String {
    let fits = |power: &u32| bytes != 0 && bytes.is_multiple_of(1 << power);
    let (unit, _, power) = UNITS.into_iter().find(|(_, _, power)| fits(power)).unwrap_or(("B", "B", 0));
    format!("{}{unit}", bytes >> power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1024_and_shown_as_they_are_read() {
        for (text, bytes, shown) in [
            ("1B", 1, "1B"),
            ("10kb", 10 << 10, "10KB"),
            ("2048KiB", 2 << 20, "2MB"),
            ("256MB", 256 << 20, "256MB"),
            (" 3 GiB ", 3 << 30, "3GB"),
            ("1TB", 1 << 40, "1TB"),
            ("1500B", 1500, "1500B"),
            ("0B", 0, "0B"),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            #[cfg(feature = "cli")]
            assert_eq!(shown_size(bytes), shown);
            assert_eq!(parse_size(shown), Ok(bytes));
        }
        for text in ["", "1", "MB", "1.5MB", "-1MB", "1PB", "1 M B", "99999999999TB", "9223372036854775808B"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
