//! Lays out histories: how many runs of a queue have ended, by minute for an hour, by ten minutes for a day, and by hour for a week; and
//! how many runs of a task have ended, and how long they took, by hour for a day.

use std::time::Duration;

/// How a call has ended: what is counted.
pub(crate) const KINDS: [char; 3] = ['s', 'f', 'd'];
/// Into how many classes durations of runs are divided: the last one begins at about 9 hours.
pub(crate) const DURATIONS: usize = 36;
/// For how many hours the runs of a task are counted.
pub(crate) const TASK_HOURS: u64 = 24;
/// How many marks of deployments are kept.
const MARKS: usize = 50;
/// For how long a mark is kept.
const MARKED_MS: u64 = 7 * 86_400_000;

/// How finely, and for how long, is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// The minutes of one bucket.
    pub(crate) minutes: u64,
    /// The number of buckets.
    pub(crate) count: u64,
}

/// All resolutions, the finest first.
pub(crate) const RESOLUTIONS: [Resolution; 3] = [
    Resolution { minutes: 1, count: 60 },
    Resolution { minutes: 10, count: 144 },
    Resolution { minutes: 60, count: 168 },
];

impl Resolution {
    /// The length of a bucket in milliseconds.
    pub(crate) const fn bucket_ms(self) -> u64 {
        self.minutes * 60_000
    }

    /// The number of the bucket of a moment.
    pub(crate) const fn bucket(self, ms: u64) -> u64 {
        ms / self.bucket_ms()
    }

    /// The field of a bucket: `10:2954160:s`.
    pub(crate) fn field(self, bucket: u64, kind: char) -> String {
        format!("{}:{bucket}:{kind}", self.minutes)
    }
}

/// Whether a field is that of a bucket which is shown no more.
pub(crate) fn is_old(field: &str, now_ms: u64) -> bool {
    let mut parts = field.split(':').map(str::parse::<u64>);
    let (Some(Ok(minutes)), Some(Ok(bucket))) = (parts.next(), parts.next()) else { return false };
    let resolution = RESOLUTIONS.into_iter().find(|resolution| resolution.minutes == minutes);
    resolution.is_some_and(|resolution| bucket.saturating_add(resolution.count) < resolution.bucket(now_ms))
}

/// The class of a duration: the number of binary digits of its microseconds.
pub(crate) fn duration_class(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    ((u64::BITS - micros.leading_zeros()) as usize).min(DURATIONS - 1)
}

/// The shortest duration, in microseconds, that is longer than those of a class.
pub(crate) const fn class_end_micros(class: usize) -> u64 {
    1 << class
}

/// The hour of a moment.
pub(crate) const fn hour(ms: u64) -> u64 {
    ms / 3_600_000
}

/// The field of the history of a task: in an hour, how many runs have succeeded (`s`), failed (`f`), or taken as long as a class says
/// (its number).
pub(crate) fn task_field(hour: u64, what: usize) -> String {
    match what {
        0 => format!("{hour}:s"),
        1 => format!("{hour}:f"),
        class => format!("{hour}:{}", class - 2),
    }
}

/// Reads such a field.
pub(crate) fn read_task_field(field: &str) -> Option<(u64, usize)> {
    let (hour, what) = field.split_once(':')?;
    let what = match what {
        "s" => 0,
        "f" => 1,
        class => class.parse::<usize>().ok().filter(|class| *class < DURATIONS)? + 2,
    };
    Some((hour.parse().ok()?, what))
}

/// Adds a mark to those that are kept: lines with a time and a version.
pub(crate) fn with_mark(marks: &str, now_ms: u64, version: &str) -> String {
    let version: String = version.chars().filter(|character| !character.is_control()).take(100).collect();
    let mut lines: Vec<String> = read_marks(marks)
        .filter(|(ms, _)| ms.saturating_add(MARKED_MS) > now_ms)
        .map(|(ms, version)| format!("{ms} {version}"))
        .collect();
    lines.push(format!("{now_ms} {version}"));
    lines.split_off(lines.len().saturating_sub(MARKS)).join("\n")
}

/// The marks: times in milliseconds since 1970, and versions, which are empty where a program states none.
pub(crate) fn read_marks(marks: &str) -> impl Iterator<Item = (u64, &str)> {
    marks.lines().filter_map(|line| {
        let (ms, version) = line.split_once(' ')?;
        Some((ms.parse().ok()?, version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_buckets_are_those_that_are_shown_no_more() {
        let now = 1_800_000_000_000;
        for resolution in RESOLUTIONS {
            let current = resolution.bucket(now);
            for (age, is_over) in [(0, false), (resolution.count, false), (resolution.count + 1, true)] {
                assert_eq!(
                    is_old(&resolution.field(current - age, 's'), now),
                    is_over,
                    "{resolution:?} {age}"
                );
            }
        }
        for other in ["marks", "7:1:s", "", "1:x:s"] {
            assert!(!is_old(other, now), "{other}");
        }
    }

    #[test]
    fn fields_of_tasks_are_read_as_they_are_written() {
        for what in 0..DURATIONS + 2 {
            assert_eq!(read_task_field(&task_field(7, what)), Some((7, what)));
        }
        for other in ["", "7", "7:x", "x:s", "7:36"] {
            assert_eq!(read_task_field(other), None, "{other}");
        }
    }

    #[test]
    fn classes_of_durations_double() {
        for (micros, class) in
            [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1_000_000, 20), (u64::MAX, DURATIONS - 1)]
        {
            assert_eq!(duration_class(Duration::from_micros(micros)), class, "{micros}");
        }
        assert!(class_end_micros(20) > 1_000_000 && class_end_micros(19) <= 1_000_000);
    }

    #[test]
    fn marks_are_bounded_in_number_and_age() {
        let mut marks = String::new();
        for ms in 1..=60 {
            marks = with_mark(&marks, ms, "1.2\n3");
        }
        let read: Vec<_> = read_marks(&marks).collect();
        assert_eq!((read.len(), read[0], read[49]), (MARKS, (11, "1.23"), (60, "1.23")));
        let later = with_mark(&marks, 60 + MARKED_MS, "");
        assert_eq!(read_marks(&later).collect::<Vec<_>>(), [(60 + MARKED_MS, "")]);
    }
}
