//! When did each run begin and end? None before its call was due, and none beside another of the same unique call.

use std::collections::{BTreeMap, HashMap};

/// How far the two clocks may be apart, in milliseconds: what a look at both takes, and the fractions that are cut off.
const BLUR: u64 = 5;

/// One run of a call, in milliseconds of the machine's clock. One whose process died ends when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) number: u64,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
}

/// When calls are due, in milliseconds of the machine's clock.
pub(crate) type Dues = HashMap<u64, u64>;

/// Runs that began before their calls were due.
pub(crate) fn early(spans: &[Span], dues: &Dues) -> Vec<String> {
    let by = |span: &Span| dues.get(&span.number)?.checked_sub(span.begun + BLUR).filter(|by| *by > 0);
    spans.iter().filter_map(|span| Some(format!("{} began {} ms early", span.number, by(span)?))).collect()
}

/// Runs that began while a call with the same key ran, though no fault hit one of the two.
pub(crate) fn overlapping<'a>(
    spans: &[Span],
    key: impl Fn(u64) -> Option<&'a str>,
    was_hit: impl Fn(u64) -> bool,
) -> Vec<String> {
    let mut by_key: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    for span in spans {
        if let Some(key) = key(span.number) {
            by_key.entry(key).or_default().push(*span);
        }
    }
    let mut found = Vec::new();
    for (key, mut runs) in by_key {
        runs.sort_by_key(|run| run.begun);
        for (place, run) in runs.iter().enumerate() {
            let beside = runs[place + 1..].iter().filter(|later| later.begun + BLUR < run.ended);
            let beside = beside.filter(|later| !was_hit(run.number) && !was_hit(later.number));
            found.extend(beside.map(|later| format!("{later:?} ran beside {run:?}, both unique as {key:?}")));
        }
    }
    found
}

/// Moments at which more calls of a limit ran than it allows, though no fault hit one of those.
pub(crate) fn beyond(
    spans: &[Span],
    most: usize,
    is_limited: impl Fn(u64) -> bool,
    was_hit: impl Fn(u64) -> bool,
) -> Vec<String> {
    let mut runs: Vec<&Span> =
        spans.iter().filter(|span| is_limited(span.number) && !was_hit(span.number)).collect();
    runs.sort_by_key(|run| run.begun);
    let mut found = Vec::new();
    let mut running: Vec<&Span> = Vec::new();
    for run in runs {
        running.retain(|earlier| earlier.ended > run.begun + BLUR);
        running.push(run);
        if running.len() > most {
            found.push(format!("{} calls of a limit of {most} ran at once: {running:?}", running.len()));
        }
    }
    found
}

/// Ordered calls that began before an earlier one of their key had begun. Nobody knows when a call came that its producer is not sure of.
pub(crate) fn out_of_order<'a>(
    spans: &[Span],
    key: impl Fn(u64) -> Option<&'a str>,
    is_certain: impl Fn(u64) -> bool,
) -> Vec<String> {
    let mut first: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for span in spans.iter().filter(|span| is_certain(span.number)) {
        if let Some(key) = key(span.number) {
            let begun = first.entry(key).or_default().entry(span.number).or_insert(span.begun);
            *begun = span.begun.min(*begun);
        }
    }
    let mut found = Vec::new();
    for (key, calls) in first {
        let calls: Vec<(u64, u64)> = calls.into_iter().collect();
        let wrong = calls.windows(2).filter(|pair| pair[1].1 + BLUR < pair[0].1);
        found.extend(wrong.map(|pair| format!("{} of {key:?} began before {}", pair[1].0, pair[0].0)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn span(number: u64, begun: u64, ended: u64) -> Span {
        Span { number, begun, ended }
    }

    #[test]
    fn runs_beyond_a_limit_are_found_unless_a_fault_hit_them() {
        let spans = [span(1, 100, 200), span(2, 150, 250), span(3, 160, 170), span(4, 248, 300)];
        let found = beyond(&spans, 2, |_| true, |_| false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(beyond(&spans, 2, |_| true, |number| number == 1).is_empty());
        assert!(beyond(&spans, 2, |number| number != 3, |_| false).is_empty());
    }

    #[test]
    fn calls_out_of_their_order_are_found() {
        let spans = [span(1, 100, 110), span(3, 120, 130), span(2, 140, 150), span(3, 160, 170)];
        assert_eq!(out_of_order(&spans, |_| Some("k"), |_| true), ["3 of \"k\" began before 2"]);
        assert!(out_of_order(&spans, |_| Some("k"), |number| number != 2).is_empty());
        assert!(out_of_order(&spans, |number| (number != 2).then_some("k"), |_| true).is_empty());
    }

    #[test]
    fn run_before_its_time_is_found() {
        let spans = [span(1, 100, 110), span(2, 100, 110), span(3, 100, 110)];
        let dues = Dues::from([(1, 90), (2, 120)]);
        assert_eq!(early(&spans, &dues), ["2 began 15 ms early"]);
    }

    #[test]
    fn runs_beside_each_other_are_found_unless_a_fault_hit_them() {
        let spans =
            [span(1, 100, 200), span(2, 150, 250), span(3, 150, 250), span(4, 300, 400), span(5, 190, 200)];
        let key = |number| {
            [None, Some("a"), Some("a"), Some("b"), Some("a")].get(number as usize).copied().flatten()
        };
        let found = overlapping(&spans, key, |_| false);
        assert!(
            found.len() == 1 && found[0].contains("number: 2") && found[0].contains("\"a\""),
            "{found:?}"
        );
        assert!(overlapping(&spans, key, |number| number == 2).is_empty());
    }
}
