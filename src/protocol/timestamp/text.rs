//! Reads and writes a moment as a text: RFC 3339.

use std::fmt;

use super::{NANOS_PER_SEC, Timestamp};

const SECONDS_PER_DAY: i64 = 86_400;
const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

impl fmt::Display for Timestamp {
    /// As RFC 3339 in UTC (`2023-11-14T22:13:20.5Z`), or as seconds outside of the years 0 to 9999.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if (YEAR_0..YEAR_10000).contains(&self.seconds) {
            let (year, month, day) = date(self.seconds.div_euclid(SECONDS_PER_DAY));
            let second = self.seconds.rem_euclid(SECONDS_PER_DAY);
            write!(f, "{year:04}-{month:02}-{day:02}T")?;
            write!(f, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)?;
        } else {
            write!(f, "{}", self.seconds)?;
        }
        if self.nanoseconds > 0 {
            write!(f, ".{}", format!("{:09}", self.nanoseconds).trim_end_matches('0'))?;
        }
        f.write_str(if (YEAR_0..YEAR_10000).contains(&self.seconds) { "Z" } else { " s" })
    }
}

impl Timestamp {
    /// Reads what [`Display`](fmt::Display) writes, and RFC 3339 with any offset from UTC, which is returned in seconds.
    /// Digits beyond nanoseconds are dropped; a leap second is the second after it.
    pub(crate) fn parse(text: &str) -> Option<(Self, i32)> {
        if let Some(seconds) = text.strip_suffix(" s") {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            return Some((Self::new(whole.parse().ok()?, nanoseconds(fraction)?)?, 0));
        }
        let bytes = text.as_bytes();
        if !looks_like_rfc3339(bytes) {
            return None;
        }
        let number = |from: usize, to: usize| digits(bytes.get(from..to)?);
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let separators = [bytes[13], bytes[16]] == *b"::";
        if !separators || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let days = days(year, month, day);
        if date(days) != (year, month, day) {
            return None;
        }
        let rest = text.get(19..)?;
        let end = rest.find(['Z', 'z', '+', '-'])?;
        let (fraction, offset) = rest.split_at(end);
        let nanoseconds = match fraction.strip_prefix('.') {
            Some(fraction) => nanoseconds(fraction)?,
            None if fraction.is_empty() => 0,
            None => return None,
        };
        let offset = match offset.as_bytes() {
            b"Z" | b"z" => 0,
            [sign, h1, h2, b':', m1, m2] => {
                let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
                if *sign == b'-' { -seconds } else { seconds }
            }
            _ => return None,
        };
        let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - i64::from(offset);
        Some((Self::new(seconds, nanoseconds)?, offset))
    }

    /// Year, day of the year, hour, minute, second and nanosecond at an offset from UTC in seconds; none far outside of the
    /// years that anybody counts.
    pub(crate) fn parts(self, offset: i32) -> Option<[i64; 6]> {
        let seconds = self.seconds.checked_add(i64::from(offset))?;
        if !(YEAR_0..YEAR_10000).contains(&seconds) {
            return None;
        }
        let (day, second) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
        let (year, ..) = date(day);
        let ordinal = day - days(year, 1, 1) + 1;
        Some([year, ordinal, second / 3600, second / 60 % 60, second % 60, self.nanoseconds.into()])
    }
}

/// Whether it begins as a date and a time of RFC 3339 do: `2023-11-14T22`.
pub(crate) fn looks_like_rfc3339(text: &[u8]) -> bool {
    text.len() >= 20 && [text[4], text[7]] == *b"--" && matches!(text[10], b'T' | b't')
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// The digits behind the point.
fn nanoseconds(fraction: &str) -> Option<u32> {
    if fraction.is_empty() || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    (nanoseconds < NANOS_PER_SEC).then_some(nanoseconds)
}

/// Year, month and day of the Gregorian calendar, `days` after 1 January 1970. Counts from 1 March of the year 0, so
/// that a leap day is the last of its year: <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The other way round; a date that does not exist is another one, which [`date`] tells.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
