//! Draws what the model holds.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, Tabs, Wrap};

use super::model::{Model, Over, TABS, Tab};
use super::read::Facts;
use crate::cli::output::{clean, distance, moment, since};
use crate::inspect::{HistoryBucket, MessageSummary, WorkerPhase};

const HELP: [(&str, &str); 11] = [
    ("1 2 3 4, Tab", "queues, workers, running calls, dead letters"),
    ("↑ ↓ j k", "select"),
    ("Enter", "more about what is selected"),
    ("/", "filter by queue, task, id or text; Esc removes it"),
    ("p", "pause or resume the queue"),
    ("c", "cancel the call"),
    ("K", "kill the run: it becomes a dead letter"),
    ("r", "requeue the dead letter"),
    ("d", "delete the dead letter"),
    ("?", "this help"),
    ("q", "quit"),
];

/// Whether colors are wanted.
fn has_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn colored(color: Color) -> Style {
    if has_color() { Style::new().fg(color) } else { Style::new().add_modifier(Modifier::BOLD) }
}

pub(super) fn draw(model: &mut Model, frame: &mut Frame<'_>) {
    let [head, rates, tabs, list, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(if frame.area().height >= 24 { 4 } else { 2 }),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_totals(model, frame, head);
    if let Some(facts) = &model.facts {
        draw_rates(facts, frame, rates);
    }
    let names = TABS.iter().enumerate().map(|(place, (_, name))| format!("{} {name}", place + 1));
    let chosen = TABS.iter().position(|(tab, _)| *tab == model.tab);
    frame.render_widget(Tabs::new(names).select(chosen), tabs);
    let table = match model.tab {
        Tab::Queues => queues(model),
        Tab::Workers => workers(model),
        Tab::Calls => calls(model),
        Tab::Dead => letters(model),
    };
    let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, list, &mut model.selected);
    draw_foot(model, frame, foot);
    match &model.over {
        Over::Help => {
            let lines = HELP.iter().map(|(keys, what)| Line::from(format!("{keys:<14} {what}"))).collect();
            draw_box("Keys", lines, frame);
        }
        Over::Details => draw_box("Details", details(model), frame),
        Over::Nothing | Over::Filter | Over::Question(_) => {}
    }
}

fn draw_totals(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let line = match (&model.trouble, &model.facts) {
        (Some(trouble), _) => Line::from(clean(trouble)).style(colored(Color::Red)),
        (None, None) => Line::from("reading …"),
        (None, Some(facts)) => {
            let sum = |of: fn(&crate::inspect::QueueStatus) -> u64| facts.queues.iter().map(of).sum::<u64>();
            let dead = sum(|queue| queue.dead);
            let alive = facts.workers.iter().filter(|worker| worker.alive).count();
            let style = if dead > 0 { colored(Color::Red) } else { Style::new() };
            Line::from(vec![
                Span::from(format!(
                    "{} waiting  {} running  {} scheduled  ",
                    sum(|queue| queue.waiting),
                    sum(|queue| queue.owned),
                    sum(|queue| queue.scheduled)
                )),
                Span::styled(format!("{dead} dead"), style),
                Span::from(format!("  {alive} workers")),
            ])
        }
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_rates(facts: &Facts, frame: &mut Frame<'_>, area: Rect) {
    let buckets = &facts.history.buckets;
    let series = |of: fn(&HistoryBucket) -> u64| buckets.iter().map(of).collect::<Vec<u64>>();
    let last = buckets.iter().rev().nth(1);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(area);
    for (area, name, of, color) in [
        (
            left,
            "succeeded",
            (|bucket: &HistoryBucket| bucket.succeeded) as fn(&HistoryBucket) -> u64,
            Color::Blue,
        ),
        (right, "failed", |bucket: &HistoryBucket| bucket.failed, Color::Red),
    ] {
        let title = format!("{name}: {} in the last minute", last.map_or(0, of));
        let data = series(of);
        let line = Sparkline::default().block(Block::new().title(title)).data(&data).style(colored(color));
        frame.render_widget(line, area);
    }
}

fn head<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::BOLD))
}

fn queues(model: &Model) -> Table<'static> {
    let rows: Vec<Row<'static>> = (model.queues().into_iter())
        .map(|queue| {
            let oldest = queue.oldest_ms.map_or_else(|| "-".to_owned(), since);
            let paused = if queue.paused.is_some() { " (paused)" } else { "" };
            let dead = Cell::from(queue.dead.to_string());
            Row::new(vec![
                Cell::from(clean(&queue.queue) + paused),
                Cell::from(queue.waiting.to_string()),
                Cell::from(oldest),
                Cell::from(queue.owned.to_string()),
                Cell::from(queue.scheduled.to_string()),
                if queue.dead > 0 { dead.style(colored(Color::Red)) } else { dead },
                Cell::from(queue.workers.to_string()),
            ])
        })
        .collect();
    let numbers = [Constraint::Length(9); 6];
    let widths = [&[Constraint::Min(20)][..], &numbers].concat();
    Table::new(rows, widths).header(head([
        "QUEUE",
        "WAITING",
        "OLDEST",
        "RUNNING",
        "SCHEDULED",
        "DEAD",
        "WORKERS",
    ]))
}

fn workers(model: &Model) -> Table<'static> {
    let rows: Vec<Row<'static>> = (model.workers().into_iter())
        .map(|worker| {
            let state = match worker.info.as_ref().and_then(|info| info.phase) {
                _ if !worker.alive => "dead",
                Some(WorkerPhase::Quiet) => "quiet",
                Some(WorkerPhase::Draining) => "draining",
                _ => "alive",
            };
            let info = worker.info.as_ref();
            let place = info.map_or_else(|| "-".to_owned(), |info| format!("{} pid {}", info.host, info.pid));
            let of = info.map_or_else(String::new, |info| format!(" of {}", info.concurrency));
            let lease = worker.lease_ends_ms.map_or_else(|| "-".to_owned(), distance);
            let state = Cell::from(state);
            Row::new(vec![
                Cell::from(clean(&worker.id)),
                if worker.alive { state } else { state.style(colored(Color::Red)) },
                Cell::from(format!("{}{of}", worker.running.len())),
                Cell::from(lease),
                Cell::from(clean(&place)),
                Cell::from(clean(&worker.queues.join(" "))),
            ])
        })
        .collect();
    let widths = [
        Constraint::Length(17),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(24),
        Constraint::Min(8),
    ];
    Table::new(rows, widths).header(head(["WORKER", "STATE", "BUSY", "LEASE", "HOST", "QUEUES"]))
}

fn call(message: &MessageSummary) -> String {
    match (&message.task, &message.arguments_text, &message.problem) {
        (Some(task), arguments, _) => clean(&format!("{task}{}", arguments.as_deref().unwrap_or_default())),
        (None, _, problem) => clean(problem.as_deref().unwrap_or_default()),
    }
}

fn calls(model: &Model) -> Table<'static> {
    let rows: Vec<Row<'static>> = (model.calls().into_iter())
        .map(|run| {
            let id = run.message.call_id.as_ref().unwrap_or(&run.wire_id);
            let runs = run.started_ms.map_or_else(|| "-".to_owned(), since);
            Row::new([
                runs,
                clean(&run.queue),
                (run.message.attempts + 1).to_string(),
                call(&run.message),
                clean(id),
            ])
        })
        .collect();
    let widths = [
        Constraint::Length(6),
        Constraint::Length(14),
        Constraint::Length(7),
        Constraint::Min(20),
        Constraint::Length(36),
    ];
    Table::new(rows, widths).header(head(["RUNS", "QUEUE", "ATTEMPT", "CALL", "ID"]))
}

fn letters(model: &Model) -> Table<'static> {
    let rows: Vec<Row<'static>> = (model.letters().into_iter())
        .map(|letter| {
            let error = clean(letter.detail.lines().next().unwrap_or_default());
            let buried = distance(letter.at_ms);
            Row::new([buried, clean(&letter.queue), clean(&letter.reason), call(&letter.message), error])
        })
        .collect();
    let widths = [
        Constraint::Length(9),
        Constraint::Length(14),
        Constraint::Length(10),
        Constraint::Min(20),
        Constraint::Percentage(40),
    ];
    Table::new(rows, widths).header(head(["BURIED", "QUEUE", "REASON", "CALL", "ERROR"]))
}

fn draw_foot(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let line = match (&model.over, &model.said) {
        (Over::Question(action), _) => Line::from(format!("{} [y/N]", clean(&action.question()))).bold(),
        (Over::Filter, _) => Line::from(format!("/{}▏", clean(&model.filter))).bold(),
        (_, Some(Ok(text))) => Line::from(clean(text)),
        (_, Some(Err(text))) => Line::from(clean(text)).style(colored(Color::Red)),
        (_, None) if !model.filter.is_empty() => {
            Line::from(format!("only with {}: / changes it", clean(&model.filter)))
        }
        (_, None) => Line::from("? keys  / filter  q quit"),
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// All that is known of what is selected.
fn details(model: &Model) -> Vec<Line<'static>> {
    let place = model.selected.selected().unwrap_or(0);
    let mut facts: Vec<(&str, String)> = Vec::new();
    match model.tab {
        Tab::Queues => {
            if let Some(queue) = model.queues().get(place) {
                facts.push(("queue", queue.queue.clone()));
                facts.extend(
                    queue
                        .paused
                        .iter()
                        .map(|pause| ("paused", format!("{} by {}", moment(pause.since_ms), pause.by))),
                );
                facts.extend(queue.problem.iter().map(|problem| ("problem", problem.clone())));
                facts.push(("tokens", queue.tokens.to_string()));
                facts.push(("suspects", queue.suspects.to_string()));
                facts.extend(queue.next_due_ms.map(|ms| ("next due", moment(ms))));
            }
        }
        Tab::Workers => {
            if let Some(worker) = model.workers().get(place) {
                facts.push(("worker", worker.id.clone()));
                if let Some(info) = &worker.info {
                    facts.push(("program", info.program_version.clone().unwrap_or_else(|| "-".into())));
                    facts.push(("delayed", info.version.clone()));
                    facts.push(("started", moment(info.started_ms)));
                }
                facts.extend(worker.running.iter().map(|run| ("runs", call(&run.message))));
            }
        }
        Tab::Calls => {
            if let Some(run) = model.calls().get(place) {
                facts.push(("id", run.message.call_id.clone().unwrap_or_else(|| "-".into())));
                facts.push(("slot", run.wire_id.clone()));
                facts.extend(run.started_ms.map(|ms| ("began", moment(ms))));
                facts.push(("call", call(&run.message)));
                facts.extend(
                    run.message
                        .errors
                        .iter()
                        .map(|error| ("failed", format!("{}: {}", error.reason, error.detail))),
                );
            }
        }
        Tab::Dead => {
            if let Some(letter) = model.letters().get(place) {
                facts.push(("letter", letter.id.clone()));
                facts.push(("buried", moment(letter.at_ms)));
                facts.push(("attempt", letter.attempt.to_string()));
                facts.push(("worker", letter.worker.clone()));
                facts.push(("call", call(&letter.message)));
                facts.extend(letter.detail.lines().take(20).map(|line| ("error", line.to_owned())));
                facts.extend(
                    letter
                        .output
                        .iter()
                        .flat_map(|output| output.lines().take(20))
                        .map(|line| ("output", line.to_owned())),
                );
            }
        }
    }
    facts.into_iter().map(|(name, text)| Line::from(format!("{name:<9} {}", clean(&text)))).collect()
}

fn draw_box(title: &'static str, lines: Vec<Line<'static>>, frame: &mut Frame<'_>) {
    let all = frame.area();
    let (width, height) =
        (all.width.saturating_sub(4).min(120), (lines.len() as u16 + 2).min(all.height.saturating_sub(2)));
    let area = Rect { x: (all.width - width) / 2, y: (all.height.saturating_sub(height)) / 2, width, height };
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(lines).wrap(Wrap { trim: false }).block(Block::bordered().title(title)),
        area,
    );
}
