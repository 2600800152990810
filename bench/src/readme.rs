//! What does the README say of a run? A test of the repository reads this file too: nothing here needs the rest.

use serde_json::Value;

/// The name of this project in rows that measure plain functions.
pub(crate) const PLAIN_FN: &str = "delayed (plain fn)";

const HEADING: &str = "## What it costs\n\n";
const NEXT: &str = "\n## ";

/// What stands under the heading.
pub(crate) fn section(saved: &Value) -> Result<String, String> {
    let cores = &saved["machine"]["cores"];
    let redis = saved["machine"]["redis"].as_str().unwrap_or_default();
    let ours = |row: &str| median(saved, row, "delayed");
    // A run may leave these out.
    let plain = |row: &str| median(saved, row, PLAIN_FN).ok();
    // At concurrency 64, 10 and 1.
    let three_of = |table: &str, tell: &dyn Fn(&str) -> Result<String, String>| {
        let [many, ten, one] = [64, 10, 1].map(|at_a_time| tell(&format!("{table}, {at_a_time} at a time")));
        Ok::<_, String>(format!("{}, {} and {}", many?, ten?, one?))
    };
    let three = |tell: &dyn Fn(&str) -> Result<String, String>| three_of("drain", tell);
    let over = |system: &'static str, digits: usize| {
        three(&move |row| Ok(format!("{:.digits$}", ours(row)? / median(saved, row, system)?)))
    };
    // Two figures of a plain function, behind those of an `async fn`.
    let beside = |first: &str, second: &str, digits: usize, unit: &str| match (plain(first), plain(second)) {
        (Some(first), Some(second)) => {
            format!("; a plain `fn`: {first:.digits$} {unit} and {second:.digits$} {unit}")
        }
        _ => String::new(),
    };
    let lines = [
        (
            "empty calls of an `async fn` per second, at concurrency 64, 10 and 1",
            format!(
                "{}: {} times the bare loop, and {} times asynq",
                three(&|row| Ok(thousands(ours(row)?)))?,
                over("bare scripts", 2)?,
                over("asynq", 1)?
            ),
        ),
        (
            "from enqueue to the start of the run, on an idle worker",
            format!(
                "median {:.2} ms, {:.1} times a `PING` to Redis; 99 % within {:.2} ms{}",
                ours("pick-up by an idle worker, p50")?,
                ours("pick-up by an idle worker, p50")?
                    / median(saved, "pick-up by an idle worker, p50", "round trip")?,
                ours("pick-up by an idle worker, p99")?,
                beside("pick-up by an idle worker, p50", "pick-up by an idle worker, p99", 2, "ms"),
            ),
        ),
        (
            "enqueued per second, one by one from 64 tasks, and in bulk",
            format!(
                "{} and {}",
                thousands(ours("enqueue, one by one from 64")?),
                thousands(ours("enqueue, in bulk")?)
            ),
        ),
        (
            "processor time of Redis and of the worker, per call",
            format!(
                "{:.1} µs and {:.1} µs{}",
                ours("per task, Redis")?,
                ours("per task, worker")?,
                beside("per task, Redis", "per task, worker", 1, "µs")
            ),
        ),
        (
            "an idle worker: memory, share of a core",
            format!("{:.1} MB, {:.2} %", ours("memory, of an idle worker")?, ours("idle worker, its own")?),
        ),
    ];
    let mut text = format!(
        "Measured by `bench/run` on {cores} cores with Redis {redis}; `docs/benchmarks.md` has all figures, compared \
         with other systems. The bare loop calls the same scripts, sleeps until each reply, and does nothing else.\n\n| | |\n|---|---|\n"
    );
    let plain = three(&|row| plain(row).map(thousands).ok_or_else(String::new)).ok();
    let plain = plain.map(|rates| ("the same for a plain `fn`, which may block", rates));
    // Of a part that takes long, and that a run may leave out.
    let waiting = ours("memory, of Redis for a waiting call").ok();
    let waiting = waiting.map(|bytes| ("memory in Redis for a waiting call", format!("{bytes:.0} bytes")));
    let [first, others @ ..] = lines;
    for (what, value) in [first].into_iter().chain(plain).chain(others).chain(waiting) {
        text.push_str(&format!("| {what} | {value} |\n"));
    }
    Ok(text)
}

/// What the README has under the heading now, with what stands before and behind.
pub(crate) fn parts(readme: &str) -> Option<[&str; 3]> {
    let begin = readme.find(HEADING)? + HEADING.len();
    let end = begin + readme[begin..].find(NEXT)?;
    Some([&readme[..begin], &readme[begin..end], &readme[end..]])
}

fn median(saved: &Value, row: &str, system: &str) -> Result<f64, String> {
    let missing = || format!("the run has no figure of {system} for {row}");
    let figures = saved["figures"].as_array().ok_or_else(missing)?;
    let figure = figures.iter().find(|figure| figure["row"] == row && figure["system"] == system);
    let rounds = figure.and_then(|figure| figure["rounds"].as_array()).ok_or_else(missing)?;
    let rounds: Vec<f64> = rounds.iter().filter_map(Value::as_f64).collect();
    middle(&rounds).ok_or_else(missing)
}

/// The middle of them; of an even number, what lies between the middle two.
pub(crate) fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = &sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// Rounded to what is worth telling.
fn thousands(value: f64) -> String {
    let worth = if value >= 10_000.0 { 1000.0 } else { 1.0 };
    grouped((value / worth).round() as u64 * worth as u64)
}

/// With commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
