//! Draws how many calls have ended over time.

use maud::{Markup, html};

use super::text::{moment, number};
use super::visit::Visit;
use crate::inspect::{History, HistorySpan};

/// The size of the drawing, in its own units.
const WIDTH: u64 = 1000;
const HEIGHT: u64 = 120;
/// What is left free above the bars, for the scale.
const TOP: u64 = 16;

/// The span that a page asks for.
pub(super) fn span(name: Option<&str>) -> HistorySpan {
    match name {
        Some("day") => HistorySpan::Day,
        Some("week") => HistorySpan::Week,
        _ => HistorySpan::Hour,
    }
}

/// Links to the spans.
pub(super) fn tabs(visit: &Visit, chosen: HistorySpan, path: &str, query: &[(&str, &str)]) -> Markup {
    let spans = [(HistorySpan::Hour, "hour"), (HistorySpan::Day, "day"), (HistorySpan::Week, "week")];
    html! {
        nav.tabs aria-label="Time" {
            @for (span, name) in spans {
                @let link = visit.link(path, &[query, &[("span", name)]].concat());
                a href=(link) aria-current=[(span == chosen).then_some("page")] { "last " (name) }
            }
        }
    }
}

/// Bars of succeeded and failed runs, with lines where workers have started.
pub(super) fn bars(history: &History, title: &str) -> Markup {
    let count = history.buckets.len().max(1) as u64;
    let most = history.buckets.iter().map(|bucket| bucket.succeeded + bucket.failed).max().unwrap_or(0);
    let scale = |value: u64| (HEIGHT - TOP) * 10 * value / most.max(1);
    let tenths = |value: u64| format!("{}.{}", value / 10, value % 10);
    let place = |nth: u64| nth * WIDTH * 10 / count;
    let width = tenths((WIDTH * 10 / count).saturating_sub(10).max(10));
    let begins = history.buckets.first().map_or(0, |bucket| bucket.begins_ms);
    let all = history.bucket_ms * count;
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(title) {
            @for (nth, bucket) in (0..).zip(&history.buckets) {
                @let (ok, failed) = (scale(bucket.succeeded), scale(bucket.failed));
                @if ok + failed > 0 {
                    g {
                        title {
                            (moment(bucket.begins_ms)) ": " (number(bucket.succeeded)) " succeeded, "
                            (number(bucket.failed)) " failed, " (number(bucket.dead)) " dead"
                        }
                        @if ok > 0 {
                            rect.ok x=(tenths(place(nth))) width=(width)
                                y=(tenths(HEIGHT * 10 - ok)) height=(tenths(ok)) {}
                        }
                        @if failed > 0 {
                            rect.failed x=(tenths(place(nth))) width=(width)
                                y=(tenths(HEIGHT * 10 - ok - failed)) height=(tenths(failed)) {}
                        }
                    }
                }
            }
            @for deployment in &history.deployments {
                @let x = tenths(deployment.at_ms.saturating_sub(begins) * WIDTH * 10 / all.max(1));
                line.mark x1=(x) x2=(x) y1="0" y2=(HEIGHT) {
                    title { (moment(deployment.at_ms)) ": a worker started " (deployment.version) }
                }
            }
        }
        p.legend {
            span { "blue: succeeded" } span { "red: failed" } span { "dashed: a worker started" }
            span { "most: " (number(most)) " in " (super::text::duration(history.bucket_ms)) }
        }
    }
}
