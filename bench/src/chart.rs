//! How do the systems compare at a glance? Bars for a few of the rows, each on a scale of its own.

use std::fmt::Write;

use serde_json::Value;

use crate::figures::short;
use crate::race::OURS;
use crate::readme::PLAIN_FN;
use crate::table::{Figure, figures};

/// The rows that are shown, by table and column, and what stands above them.
const PANELS: [(&str, &str, &str); 6] = [
    ("drain", "64 at a time", "Empty calls each second, 64 at a time"),
    ("drain", "1 at a time", "Empty calls each second, 1 at a time"),
    ("enqueue", "one by one from 64", "Enqueued one by one from 64 tasks, each second"),
    ("pick-up by an idle worker", "p50", "Pick-up by an idle worker, median, ms"),
    ("per task", "Redis", "Processor time of Redis for each call, µs"),
    ("memory", "of an idle worker", "Memory of an idle worker, MB"),
];

const WIDTH: usize = 920;
const PANEL: usize = WIDTH / 2;
const LABELS: usize = 150;
const NUMBERS: usize = 70;
const LINE: usize = 18;
const HEAD: usize = 44;
const FOOT: usize = 16;
/// How many times the least of what is best small the most is, when one scale cannot show both.
const WIDE: f64 = 1_000.0;

/// The chart of a saved run: the best first.
pub fn svg(saved: &Value) -> String {
    let all = figures(saved);
    let panels: Vec<(&str, Vec<&Figure>)> = PANELS
        .iter()
        .map(|(table, column, title)| {
            let of_row = all.iter().filter(|figure| figure.table == *table && figure.column == *column);
            let mut of_row: Vec<&Figure> = of_row.collect();
            let fewest_first = of_row.iter().all(|figure| figure.unit != "/s");
            of_row.sort_by(|a, b| {
                let key = |figure: &Figure| figure.median().unwrap_or(f64::NAN);
                let order = key(a).total_cmp(&key(b));
                // Those that failed come last.
                let failed = a.median().is_none().cmp(&b.median().is_none());
                failed.then(if fewest_first { order } else { order.reverse() })
            });
            (*title, of_row)
        })
        .collect();
    drawn(&panels, "Orange is this project, grey what bounds it, a line the range of the rounds.")
}

/// A chart of panels, each with its title and its figures from top to bottom.
pub fn drawn(panels: &[(&str, Vec<&Figure>)], legend: &str) -> String {
    let panels: Vec<_> = panels.iter().filter(|(_, figures)| !figures.is_empty()).collect();
    let mut body = String::new();
    let mut top = FOOT;
    for pair in panels.chunks(2) {
        let tallest = pair.iter().map(|(_, figures)| figures.len()).max().unwrap_or(0);
        for (at, (title, figures)) in pair.iter().enumerate() {
            panel(&mut body, at * PANEL + FOOT, top, title, figures);
        }
        top += HEAD + tallest * LINE + FOOT;
    }
    line(&mut body, FOOT, top, "fill=\"#57606a\"", legend);
    top += FOOT;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" width=\"{WIDTH}\" height=\"{top}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{top}\" fill=\"#ffffff\"/>\n\
         {body}</svg>\n"
    )
}

/// One row: a bar for each system, with a line from the least to the most of its rounds.
fn panel(svg: &mut String, left: usize, top: usize, title: &str, figures: &[&Figure]) {
    let room = (PANEL - FOOT - LABELS - NUMBERS) as f64;
    let most = figures.iter().filter_map(|figure| figure.range()).map(|(_, high)| high).fold(0.0, f64::max);
    let ranges = figures.iter().filter_map(|figure| figure.range());
    let least = ranges.map(|(low, _)| low).filter(|low| *low > 0.0).fold(most, f64::min);
    let wide = most / least > WIDE && figures.iter().all(|figure| figure.unit != "/s");
    let scale = |value: f64| match wide {
        // The least has a bar, too.
        true => (value.max(least) / least * 2.0).ln() / (most / least * 2.0).ln() * room,
        false if most > 0.0 => value / most * room,
        false => 0.0,
    };
    let title = if wide { format!("{title} (log scale)") } else { title.to_owned() };
    let bars = left + LABELS;
    line(svg, left, top + 18, "font-size=\"14\" font-weight=\"bold\" fill=\"#1f2328\"", &title);
    for (at, figure) in figures.iter().enumerate() {
        let y = top + HEAD + at * LINE;
        let color = match figure.system.as_str() {
            OURS | PLAIN_FN => "#d1571b",
            size if size.starts_with(|first: char| first.is_ascii_digit()) => "#d1571b",
            system if system.starts_with("bare ") => "#c9ced6",
            _ => "#5b7fb5",
        };
        line(svg, bars - 8, y, "text-anchor=\"end\" fill=\"#1f2328\"", &figure.system);
        let Some((median, (low, high))) = figure.median().zip(figure.range()) else {
            line(svg, bars + 4, y, "fill=\"#a40e26\"", "failed");
            continue;
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{bars}\" y=\"{}\" width=\"{:.1}\" height=\"12\" fill=\"{color}\"/>",
            y - 10,
            scale(median).max(1.0)
        );
        let (from, to) = (bars as f64 + scale(low), bars as f64 + scale(high));
        let _ = writeln!(
            svg,
            "<path d=\"M{from:.1} {0}H{to:.1}\" stroke=\"#1f2328\" stroke-width=\"1.5\"/>",
            y - 4
        );
        let end = (bars as f64 + scale(high)) as usize + 6;
        line(svg, end, y, "fill=\"#57606a\"", &short(median));
    }
}

fn line(svg: &mut String, x: usize, y: usize, style: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" {style}>{text}</text>");
}
