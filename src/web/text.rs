//! Writes numbers, times and links.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use maud::{Markup, html};

/// A number in groups of three digits: `1,234,567`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many things: `1 call`, `2 calls`.
pub(super) fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(count), if count == 1 { "" } else { "s" })
}

pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A duration in at most two units: `230 ms`, `1.2 s`, `3m 5s`, `2d 4h`.
pub(super) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let pair = |large, of: u64, small, one: u64| match seconds / one % (of / one) {
        0 => format!("{}{large}", seconds / of),
        rest => format!("{}{large} {rest}{small}", seconds / of),
    };
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => pair("m", 60, "s", 1),
        3_600..86_400 => pair("h", 3_600, "m", 60),
        _ => pair("d", 86_400, "h", 3_600),
    }
}

/// A moment as in a log.
pub(super) fn moment(ms: u64) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    moment.map_or_else(|| format!("{ms} ms"), |moment| moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// A moment, by how far it is from now.
pub(super) fn when(ms: u64) -> Markup {
    let now = now_ms();
    let distance = duration_in_one_unit(now.abs_diff(ms));
    let text = if ms > now { format!("in {distance}") } else { format!("{distance} ago") };
    html! { time datetime=(iso(ms)) title=(moment(ms)) { (text) } }
}

/// The same, if there is a moment.
pub(super) fn when_or_dash(ms: Option<u64>) -> Markup {
    match ms {
        Some(ms) => when(ms),
        None => html! { span.faint { "–" } },
    }
}

/// A moment, and how long that is from now.
pub(super) fn moment_and_distance(ms: u64) -> Markup {
    html! { (moment(ms)) " (" (when(ms)) ")" }
}

fn iso(ms: u64) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    moment.map(|moment| moment.to_string()).unwrap_or_default()
}

fn duration_in_one_unit(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// At most so many characters of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The first line of a text, cut.
pub(super) fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut = cut(line, most);
    if line.len() < text.trim_end().len() && !cut.ends_with('…') { cut + " …" } else { cut }
}

/// A text as a part of a link or a cookie.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// The text of such a part.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, others)) = rest.split_first() {
        rest = others;
        if byte == b'%' {
            let digits = str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// A link below this path.
pub(super) fn link(base: &str, path: &str, query: &[(&str, &str)]) -> String {
    let query: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    at(base, &format!("{path}{query}"))
}

/// A path with its query below another one. The page at `/` is at that other one itself: an application that mounts the dashboard
/// there has nothing at that path with a slash behind it.
pub(super) fn at(base: &str, path: &str) -> String {
    match path.strip_prefix('/') {
        Some(rest) if !base.is_empty() && (rest.is_empty() || rest.starts_with('?')) => {
            format!("{base}{rest}")
        }
        _ => format!("{base}{path}"),
    }
}

/// Whether this is the path of a page of the dashboard, and not that of another site.
pub(super) fn is_own(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    path.starts_with('/') && !path.starts_with("//") && path.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_are_short() {
        assert_eq!([7, 1000, 1_234_567].map(number), ["7", "1,000", "1,234,567"]);
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1234, "1.2 s"),
            (59_999, "59 s"),
            (60_000, "1m"),
            (185_000, "3m 5s"),
            (7_260_000, "2h 1m"),
            (187_200_000, "2d 4h"),
        ] {
            assert_eq!(duration(ms), text);
        }
        assert_eq!((counted(1, "call"), counted(2000, "call")), ("1 call".into(), "2,000 calls".into()));
    }

    #[test]
    fn any_text_survives_a_link() {
        for text in ["mail", "a/b?c#d&e=f", "ä 😀\n\"<", "..", "100%", ""] {
            let encoded = percent_encoded(text);
            assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%-_~".contains(&byte)));
            assert_eq!(percent_decoded(&encoded).as_deref(), Some(text));
        }
        assert_eq!([percent_decoded("%"), percent_decoded("%4"), percent_decoded("%ff")], [None, None, None]);
    }

    #[test]
    fn home_has_no_slash_where_the_dashboard_is_mounted() {
        for (base, path, expected) in [
            ("", "/", "/"),
            ("", "/?span=day", "/?span=day"),
            ("/a/b", "/", "/a/b"),
            ("/a/b", "/?span=day", "/a/b?span=day"),
            ("/a/b", "/queues?x=/", "/a/b/queues?x=/"),
        ] {
            assert_eq!(at(base, path), expected);
        }
    }

    #[test]
    fn first_line_says_that_there_is_more() {
        assert_eq!(first_line("one\ntwo", 10), "one …");
        assert_eq!(first_line("one", 10), "one");
        assert_eq!(first_line("0123456789abc", 10), "0123456789…");
    }

    #[test]
    fn login_leads_to_no_other_site() {
        for (path, is_right) in [
            ("/", true),
            ("/call?queue=q&id=%20", true),
            ("//evil.example", false),
            ("/\\evil.example", false),
            ("https://evil.example", false),
            ("/a\nb", false),
            ("", false),
        ] {
            assert_eq!(is_own(path), is_right, "{path:?}");
        }
    }
}
