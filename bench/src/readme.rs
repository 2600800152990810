//! What does the README say of a run? A test of the repository reads this file too: nothing here needs the rest.

use serde_json::Value;

const BEGIN: &str = "<!-- figures of docs/benchmarks.json, written by bench/report: do not edit -->";
const END: &str = "<!-- end of the figures -->";

/// What stands between the marks, marks and all.
pub fn block(saved: &Value) -> Result<String, String> {
    let cores = &saved["machine"]["cores"];
    let redis = saved["machine"]["redis"].as_str().unwrap_or_default();
    let ours = |row: &str| median(saved, row, "delayed");
    let of_bare = |row: &str| Ok::<f64, String>(ours(row)? / median(saved, row, "bare scripts")?);
    let of_asynq = |row: &str| Ok::<f64, String>(ours(row)? / median(saved, row, "asynq")?);
    let [one, ten, many] = ["drain, 1 at a time", "drain, 10 at a time", "drain, 64 at a time"];
    let [p50, p99] = ["pick-up by an idle worker, p50", "pick-up by an idle worker, p99"];
    let lines = [
        (
            "empty calls each second, at concurrency 64, 10 and 1".to_owned(),
            format!("{}, {} and {}", thousands(ours(many)?), thousands(ours(ten)?), thousands(ours(one)?)),
        ),
        (
            "of that of the bare loop".to_owned(),
            format!("{:.2}, {:.2} and {:.2}", of_bare(many)?, of_bare(ten)?, of_bare(one)?),
        ),
        (
            "of that of asynq".to_owned(),
            format!("{:.1}, {:.1} and {:.1} times", of_asynq(many)?, of_asynq(ten)?, of_asynq(one)?),
        ),
        (
            "from enqueue to the begin of the run, on an idle worker".to_owned(),
            format!("median {:.2} ms, 99 % within {:.2} ms", ours(p50)?, ours(p99)?),
        ),
        (
            "enqueue one by one from 64 tasks, and in bulk".to_owned(),
            format!(
                "{} and {} each second",
                thousands(ours("enqueue, one by one from 64")?),
                thousands(ours("enqueue, in bulk")?)
            ),
        ),
        (
            "for each call: processor time of Redis and of the worker".to_owned(),
            format!("{:.1} µs and {:.1} µs", ours("per task, Redis")?, ours("per task, worker")?),
        ),
        (
            "memory of Redis for a waiting call".to_owned(),
            format!("{:.0} bytes", ours("memory, of Redis for a waiting call")?),
        ),
        (
            "an idle worker: memory, share of a core".to_owned(),
            format!("{:.1} MB, {:.2} %", ours("memory, of an idle worker")?, ours("idle worker, its own")?),
        ),
    ];
    let mut text = format!(
        "{BEGIN}\nMeasured by `bench/run` on {cores} cores with Redis {redis}; `docs/benchmarks.md` has all of it, beside \
         other systems.\nThe bare loop calls the same scripts on the same Redis in the same run, and does nothing else.\n\n\
         | | |\n|---|---|\n"
    );
    for (what, value) in lines {
        text.push_str(&format!("| {what} | {value} |\n"));
    }
    text.push_str(END);
    Ok(text)
}

/// The README with this block in the place of the one that it has.
pub fn replaced(readme: &str, block: &str) -> Result<String, String> {
    let (before, after) = parts(readme).ok_or_else(|| format!("the README has no {BEGIN} … {END}"))?;
    Ok(format!("{before}{block}{after}"))
}

/// What stands before and behind the block, if there is one.
pub fn parts(readme: &str) -> Option<(&str, &str)> {
    let begin = readme.find(BEGIN)?;
    let end = begin + readme[begin..].find(END)? + END.len();
    Some((&readme[..begin], &readme[end..]))
}

fn median(saved: &Value, row: &str, system: &str) -> Result<f64, String> {
    let missing = || format!("the run has no figure of {system} for {row}");
    let figures = saved["figures"].as_array().ok_or_else(missing)?;
    let figure = figures.iter().find(|figure| figure["row"] == row && figure["system"] == system);
    let rounds = figure.and_then(|figure| figure["rounds"].as_array()).ok_or_else(missing)?;
    let mut rounds: Vec<f64> = rounds.iter().filter_map(Value::as_f64).collect();
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().ok_or_else(missing)
}

/// Rounded to what is worth telling, with commas.
fn thousands(value: f64) -> String {
    let rounded =
        if value >= 10_000.0 { (value / 1000.0).round() as u64 * 1000 } else { value.round() as u64 };
    let digits = rounded.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
