//! Shortens long texts: keeps the beginning and the end, and says between them how many bytes were left out.
//!
//! The texts of failures come from programs that we do not know, and go into dead letters, logs and packets. They are
//! shortened where they are made, so that a large one is never copied.

use std::fmt::{self, Display, Write};
use std::panic::PanicHookInfo;

/// The most bytes of a shortened text, the mark included. One that is not longer stays as it is.
pub(crate) const LONGEST: usize = 16 << 10;
/// Bytes of the beginning.
const HEAD: usize = 8 << 10;
/// Bytes of the end of a text that is not shortened.
const REST: usize = LONGEST - HEAD;
/// Room for the mark.
const MARK: usize = 64;

/// The beginning and the end of what is written into it.
#[derive(Debug, Default)]
pub(crate) struct Excerpt {
    head: Vec<u8>,
    /// The last bytes behind the head: [`REST`] of them as far as there are so many, and sometimes some before them.
    tail: Vec<u8>,
    total: u64,
}

/// The text of a value, shortened. Holds no more of it than that at any time.
pub(crate) fn excerpt(value: impl Display) -> String {
    let mut excerpt = Excerpt::default();
    // As `to_string`: a value that fails to write itself is of no use.
    let _ = write!(excerpt, "{value}");
    excerpt.into_text()
}

/// The same text, shortened if it is long.
pub(crate) fn shortened(text: String) -> String {
    if text.len() <= LONGEST { text } else { excerpt(text) }
}

/// The text of a panic, as long as it is.
pub(crate) fn panic_text<'a>(panic: &'a PanicHookInfo<'_>) -> &'a str {
    let text = panic.payload().downcast_ref::<&str>().copied();
    text.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

impl Excerpt {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(head);
        if rest.len() >= REST {
            self.tail.clear();
        }
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(REST)..]);
        if self.tail.len() > 2 * REST {
            self.tail.drain(..self.tail.len() - REST);
        }
    }

    /// How many bytes were written.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether what was written ends as that does; of long texts the last bytes are compared.
    pub(crate) fn ends_with(&self, end: &Self) -> bool {
        let count = usize::try_from(end.total).map_or(REST, |total| total.min(REST));
        self.total >= end.total && self.backwards().take(count).eq(end.backwards().take(count))
    }

    /// Whether this text ends with another one, or contains a short one near its beginning.
    pub(crate) fn contains(&self, part: &Self) -> bool {
        let is_short = part.tail.is_empty() && !part.head.is_empty();
        self.ends_with(part)
            || (is_short && self.head.windows(part.head.len()).any(|window| window == part.head))
    }

    /// The last bytes, of which [`REST`] are sure to follow each other.
    fn backwards(&self) -> impl Iterator<Item = &u8> {
        self.tail.iter().rev().chain(self.head.iter().rev())
    }

    /// The text; what is no UTF-8 is replaced.
    pub(crate) fn into_text(mut self) -> String {
        if self.total <= LONGEST as u64 {
            self.head.append(&mut self.tail);
        } else {
            let mut tail = &self.tail[self.tail.len() - (REST - MARK)..];
            self.head.truncate(whole_characters(&self.head));
            while tail.first().is_some_and(|byte| is_continuation(*byte)) {
                tail = &tail[1..];
            }
            let left_out = self.total - (self.head.len() + tail.len()) as u64;
            self.head.extend_from_slice(format!(" [… {left_out} bytes left out …] ").as_bytes());
            self.head.extend_from_slice(tail);
        }
        let text = String::from_utf8(self.head);
        // What is replaced becomes longer.
        text.unwrap_or_else(|error| shortened(String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

impl Write for Excerpt {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes there are without a character that has only begun at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let length = |first: u8| match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let last = (bytes.len().saturating_sub(4)..bytes.len()).rev().find(|at| !is_continuation(bytes[*at]));
    last.filter(|at| at + length(bytes[*at]) > bytes.len()).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beginning, number of bytes left out, and end.
    fn parts(text: &str) -> (&str, usize, &str) {
        let (head, rest) = text.split_once(" [… ").expect("a mark");
        let (count, tail) = rest.split_once(" bytes left out …] ").expect("a mark");
        (head, count.parse().expect("a number"), tail)
    }

    #[test]
    fn a_short_text_stays_as_it_is() {
        for length in [0, 1, HEAD, HEAD + 1, LONGEST] {
            let text = "y".repeat(length);
            assert_eq!(excerpt(&text), text, "{length} bytes");
            assert_eq!(shortened(text.clone()), text, "{length} bytes");
        }
    }

    #[test]
    fn a_long_text_keeps_its_ends_and_says_how_much_is_missing() {
        let text: String =
            (0..40_000_u32).map(|n| char::from(b'a' + u8::try_from(n % 26).unwrap())).collect();
        let short = excerpt(&text);
        assert!(short.len() <= LONGEST, "{} bytes", short.len());
        let (head, left_out, tail) = parts(&short);
        assert!(text.starts_with(head) && text.ends_with(tail));
        assert_eq!(head.len() + left_out + tail.len(), text.len());
        assert!(head.len() + tail.len() > LONGEST - 2 * MARK);
        assert_eq!(shortened(short.clone()), short, "expected a shortened text to stay as it is");
        for size in [1, 7, 4096, 16_385] {
            let mut pieces = Excerpt::default();
            text.as_bytes().chunks(size).for_each(|piece| pieces.push(piece));
            assert_eq!((pieces.total(), pieces.into_text()), (40_000, short.clone()), "in pieces of {size}");
        }
    }

    #[test]
    fn characters_stay_whole_and_what_is_none_is_replaced() {
        for (before, character) in [(0, "ä"), (1, "ä"), (1, "€"), (2, "€"), (1, "😀"), (3, "😀"), (0, "x")]
        {
            let text = "-".repeat(before) + &character.repeat(20_000);
            let short = excerpt(&text);
            let (head, left_out, tail) = parts(&short);
            assert!(text.starts_with(head) && text.ends_with(tail), "{character} behind {before}");
            assert_eq!(head.len() + left_out + tail.len(), text.len(), "{character} behind {before}");
        }
        for garbage in [vec![0xff; 100_000], vec![0x80; 100_000], vec![0xf0; 9_000]] {
            let mut excerpt = Excerpt::default();
            excerpt.push(&garbage);
            let text = excerpt.into_text();
            assert!(text.starts_with('\u{fffd}') && text.len() <= LONGEST, "{} bytes", text.len());
        }
    }

    #[test]
    fn the_end_of_a_text_is_recognized() {
        let of = |text: &str| {
            let mut excerpt = Excerpt::default();
            excerpt.push(text.as_bytes());
            excerpt
        };
        let long = "abc".repeat(20_000);
        for (text, end, expected) in [
            ("a: b", "b", true),
            ("a: b", "", true),
            ("a: b", "a", false),
            ("b", "a: b", false),
            (&long, "bcabc", true),
            (&long, &long, true),
            (&long, &long[..59_999], false),
            ("abc", &long, false),
        ] {
            assert_eq!(of(text).ends_with(&of(end)), expected, "{text:.10}… ends with {end:.10}…");
        }
    }
}
