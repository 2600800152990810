//! Computes the ticks of a periodic task: the moments that a cron expression or an interval names.
//!
//! The ticks are a function of the expression, the time zone and the name alone, so every process computes the same ones.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::protocol::call_id::CallId;

/// The shortest and the longest interval of `@every`.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 60 * 60);

/// Why there are no ticks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The expression cannot be read.
    #[error(
        "the cron expression {text:?} is not valid: {reason}; write five fields, such as `0 3 * * *`, six with seconds first, \
         `@daily`, or `@every 90s`"
    )]
    Expression {
        /// The expression.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The interval of `@every` is no time, or too short or too long.
    #[error("the interval {text:?} is not valid: write a time from `1s` to `366d`, such as `@every 90s`")]
    Interval {
        /// The interval.
        text: String,
    },
    /// No date matches the expression.
    #[error("the cron expression {text:?} has no tick: no date matches it")]
    Never {
        /// The expression.
        text: String,
    },
    /// There is no such time zone.
    #[error("there is no time zone {name:?}: use a name such as `Europe/Berlin`")]
    Zone {
        /// The name.
        name: String,
    },
}

/// When a periodic task is due.
///
/// ```
/// # use delayed::__private::protocol::cron::Schedule;
/// let nightly = Schedule::parse("0 3 * * *", Some("Europe/Berlin"), "nightly").unwrap();
/// assert_eq!(nightly.after(1_764_115_200_000), Some(1_764_122_400_000));
/// ```
#[derive(Debug, Clone)]
pub struct Schedule(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// Each time that is `offset` more than a multiple of `period`, both in milliseconds.
    Every {
        period: u64,
        offset: u64,
    },
    Cron {
        cron: Box<Cron>,
        zone: TimeZone,
    },
}

impl Schedule {
    /// Reads an expression. The name decides where in its period an `@every` has its ticks.
    ///
    /// # Errors
    /// [`ScheduleError`]: the expression or the time zone is not valid, or there is no tick.
    pub fn parse(text: &str, zone: Option<&str>, name: &str) -> Result<Self, ScheduleError> {
        let zone = match zone {
            Some(name) => TimeZone::get(name).map_err(|_| ScheduleError::Zone { name: name.into() })?,
            None => TimeZone::UTC,
        };
        let text = text.trim();
        if let Some(interval) = interval(text) {
            let period = humantime::parse_duration(interval.trim()).ok();
            let period =
                period.filter(|period| INTERVALS.contains(period) && period.subsec_nanos() % 1_000_000 == 0);
            let period = period.ok_or_else(|| ScheduleError::Interval { text: interval.trim().into() })?;
            let period = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
            return Ok(Self(Kind::Every {
                period,
                offset: CallId::from(name.to_owned() + "@every").seed() % period,
            }));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let refused = |reason: String| ScheduleError::Expression { text: text.into(), reason };
        let cron =
            parser.parse(text).map_err(|error| refused(error.to_string().trim_end_matches('.').into()))?;
        let schedule = Self(Kind::Cron { cron: Box::new(cron), zone });
        match schedule.after(0) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::Never { text: text.into() }),
        }
    }

    /// The first tick after this moment, both in milliseconds since 1970. `None`: there is none before the year 5000.
    #[must_use]
    pub fn after(&self, ms: u64) -> Option<u64> {
        match &self.0 {
            Kind::Every { period, offset } => {
                let begun = ms.checked_sub(*offset).map_or(0, |since| since / period + 1);
                begun.checked_mul(*period)?.checked_add(*offset)
            }
            Kind::Cron { cron, zone } => {
                let second = Timestamp::from_second(i64::try_from(ms / 1000).ok()?).ok()?;
                let next = after(cron, &Zoned::new(second, zone.clone()))?;
                u64::try_from(next.as_millisecond()).ok()
            }
        }
    }

    /// The last `most` ticks from `first` to `last`, oldest first. `first` is a tick, or counts as one.
    #[must_use]
    pub fn between(&self, first: u64, last: u64, most: usize) -> Vec<u64> {
        // Far fewer ticks may be wanted than there were: the window grows from its end until it has enough.
        let mut window = 60_000_u64;
        loop {
            let begin = first.max(last.saturating_sub(window));
            let mut ticks = std::collections::VecDeque::new();
            if begin == first && first <= last {
                ticks.push_back(first);
            }
            let mut tick = begin;
            while let Some(next) = self.after(tick).filter(|next| *next <= last) {
                ticks.push_back(next);
                if ticks.len() > most {
                    ticks.pop_front();
                }
                tick = next;
            }
            if begin == first || ticks.len() >= most {
                return ticks.into();
            }
            window = window.saturating_mul(16);
        }
    }
}

/// The first moment after this one that matches.
///
/// An expression without a fixed hour has a tick wherever the clock on the wall matches: in both of two equal hours, and none
/// in an hour that is left out. One with fixed hours has a tick for each time of the day: where that occurs twice, at the
/// first, and where it does not occur, at the end of the gap.
fn after(cron: &Cron, now: &Zoned) -> Option<Timestamp> {
    if cron.pattern.hours.from_wildcard {
        return Some(cron.find_next_occurrence(now, false).ok()?.timestamp());
    }
    let mut local = now.datetime();
    loop {
        local = cron.find_next_occurrence(&local, false).ok()?;
        let moment = moment_of(local, now.time_zone())?;
        // In the second of two equal hours, the next times of the clock have been there already.
        if moment > now.timestamp() {
            return Some(moment);
        }
    }
}

/// When the clock on the wall shows this time first, or would have if no hour was left out.
fn moment_of(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { before, .. } => {
            let behind = before.to_timestamp(local).ok()?;
            let behind = behind.checked_add(SignedDuration::from_secs(1)).ok()?;
            zone.preceding(behind).next().map(|transition| transition.timestamp())
        }
        _ => ambiguous.earlier().ok(),
    }
}

impl Schedule {
    /// How many ticks there are from `first`, which counts as one, to before `end`; not more than `most`.
    #[must_use]
    pub fn count(&self, first: u64, end: u64, most: u64) -> u64 {
        let ticks = std::iter::successors(Some(first), |tick| self.after(*tick));
        ticks.take_while(|tick| *tick < end).take(usize::try_from(most).unwrap_or(usize::MAX)).count() as u64
    }
}

/// The interval of an `@every`.
fn interval(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    word.eq_ignore_ascii_case("@every").then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str, zone: &str) -> Schedule {
        Schedule::parse(text, Some(zone), "name").unwrap()
    }

    fn ms(moment: &str) -> u64 {
        u64::try_from(moment.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    /// The first ticks after a moment, in UTC.
    fn ticks(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = schedule(text, zone);
        let mut tick = ms(after);
        (0..count)
            .map(|_| {
                tick = schedule.after(tick).unwrap();
                Timestamp::from_millisecond(tick as i64).unwrap().to_string()
            })
            .collect()
    }

    #[test]
    fn expressions_have_their_ticks() {
        for (text, expected) in [
            ("*/15 * * * *", ["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"]),
            ("30 */20 * * * *", ["2026-01-01T00:00:30Z", "2026-01-01T00:20:30Z"]),
            ("0 12 * JAN-FEB mon", ["2026-01-05T12:00:00Z", "2026-01-12T12:00:00Z"]),
            ("0 0 L * *", ["2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"]),
            ("0 0 * * FRI#2", ["2026-01-09T00:00:00Z", "2026-02-13T00:00:00Z"]),
            ("0 0 * * 5L", ["2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"]),
            ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
            ("@daily", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
            ("@hourly", ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]),
            ("@weekly", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
            ("@monthly", ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]),
            ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
        ] {
            assert_eq!(ticks(text, "UTC", "2026-01-01T00:00:00Z", 2), expected, "{text}");
        }
        assert_eq!(ticks("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 1), ["2026-01-01T03:30:00Z"]);
    }

    /// On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00, at 01:00 UTC.
    #[test]
    fn time_that_does_not_exist_fires_once_at_the_next() {
        let of = |text| ticks(text, "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(of("30 2 * * *"), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
        assert_eq!(of("0 2 * * *"), ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
        assert_eq!(of("15,45 2 * * *")[..1], ["2026-03-29T01:00:00Z"]);
        let of = |text, count| ticks(text, "Europe/Berlin", "2026-03-29T00:20:00Z", count);
        assert_eq!(
            of("*/30 * * * *", 3),
            ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
        );
        assert_eq!(of("15,45 2 * * *", 2), ["2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"]);
    }

    /// On 25 October 2026 they go from 03:00 back to 02:00, at 01:00 UTC.
    #[test]
    fn time_that_occurs_twice_fires_once_at_the_first() {
        let of = |text, count| ticks(text, "Europe/Berlin", "2026-10-24T12:00:00Z", count);
        assert_eq!(of("30 2 * * *", 2), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        assert_eq!(of("0 3 * * *", 1), ["2026-10-25T02:00:00Z"]);
        let listed = ["2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z", "2026-10-26T01:15:00Z"];
        assert_eq!(of("15,45 2 * * *", 3), listed);
        // Also where one asks between the two.
        let between = ticks("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
        assert_eq!(between, ["2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn every_minute_fires_in_both_equal_hours() {
        let schedule = schedule("* * * * *", "Europe/Berlin");
        let (begin, end) = (ms("2026-10-24T23:59:30Z"), ms("2026-10-25T02:00:00Z"));
        let mut tick = schedule.after(begin).unwrap();
        let mut count = 0;
        while tick <= end {
            count += 1;
            let next = schedule.after(tick).unwrap();
            assert_eq!(next - tick, 60_000);
            tick = next;
        }
        assert_eq!(count, 121, "expected the minutes of two hours, and the first of the third");
        let hourly = ticks("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3);
        assert_eq!(hourly, ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]);
    }

    #[test]
    fn ticks_do_not_depend_on_where_one_asks() {
        for (text, zone) in [
            ("*/7 * * * *", "Europe/Berlin"),
            ("30 2 * * *", "Europe/Berlin"),
            ("*/10 1-3 * * *", "America/New_York"),
            ("15,45 1,2 * * *", "America/New_York"),
            ("0 */2 * * *", "Europe/Berlin"),
            ("0 0 * * *", "America/Sao_Paulo"),
            ("20 2 * * *", "Australia/Lord_Howe"),
            ("@every 7m", "UTC"),
        ] {
            let schedule = schedule(text, zone);
            for around in [
                "2026-03-29T01:00:00Z",
                "2026-10-25T01:00:00Z",
                "2026-03-08T07:00:00Z",
                "2026-11-01T06:00:00Z",
            ] {
                let (begin, end) = (ms(around) - 14_400_000, ms(around) + 14_400_000);
                let mut next = schedule.after(begin).unwrap();
                for asked in (begin..end).step_by(30_000) {
                    let found = schedule.after(asked).unwrap();
                    if found > next {
                        assert_eq!(
                            schedule.after(next),
                            Some(found),
                            "{text} in {zone}: a tick was skipped at {asked}"
                        );
                        assert!(next <= asked, "{text} in {zone}: {next} was left out at {asked}");
                        next = found;
                    }
                    assert_eq!(found, next, "{text} in {zone}: at {asked}");
                }
            }
        }
    }

    #[test]
    fn intervals_have_fixed_ticks_that_names_spread() {
        let of = |name| Schedule::parse("@every 90s", None, name).unwrap();
        let first = of("a").after(1_764_115_200_000).unwrap();
        assert_eq!(of("a").after(first - 1), Some(first));
        assert_eq!(of("a").after(first), Some(first + 90_000));
        assert_ne!(of("a").after(0), of("b").after(0));
        assert!(of("a").after(0).unwrap() < 90_000);
        assert_eq!(of("a").after(u64::MAX), None);
    }

    #[test]
    fn window_has_the_last_ticks_oldest_first() {
        let every = schedule("* * * * *", "UTC");
        let (first, last) = (ms("2026-01-01T00:00:00Z"), ms("2026-02-01T00:00:30Z"));
        let newest = ms("2026-02-01T00:00:00Z");
        assert_eq!(every.between(first, last, 3), [newest - 120_000, newest - 60_000, newest]);
        assert_eq!(every.between(newest - 60_000, last, 100), [newest - 60_000, newest]);
        assert_eq!(every.between(newest, newest, 1), [newest]);
        assert_eq!(schedule("0 0 1 1 *", "UTC").between(first, last, 5), [first]);
        assert!(every.between(last, first, 5).is_empty());
    }

    #[test]
    fn what_has_no_ticks_is_refused_with_the_reason() {
        let refused = |text, zone| Schedule::parse(text, zone, "name").unwrap_err().to_string();
        for text in
            ["", "* * * *", "61 * * * *", "* * * * * * *", "0 0 * * XXX", "@often", "0 0 32 1 *", "every 5m"]
        {
            assert!(refused(text, None).contains("is not valid: "), "{text}: {}", refused(text, None));
        }
        for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            assert_eq!(
                refused(text, None),
                format!("the cron expression {text:?} has no tick: no date matches it")
            );
        }
        for text in ["@every", "@every soon", "@every 10ms", "@every 2000d", "@every 1s 1us"] {
            assert!(refused(text, None).starts_with("the interval "), "{text}");
        }
        assert!(
            refused("@daily", Some("Europe/Bärlin")).starts_with("there is no time zone \"Europe/Bärlin\"")
        );
    }
}
