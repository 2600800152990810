//! Collects the metrics of this process and of the queues, for one scrape.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::{Mutex, OnceCell};

use crate::config::Config;
use crate::error::Error;
use crate::inspect::{Inspector, LimitStatus, QueueStatus};
use crate::meter::{Durations, RunCounts, Source, Sources, now_ms};

/// How long what was read in Redis is shown, however many scrapers there are.
const FRESH: Duration = Duration::from_secs(1);
/// How long a scrape waits for Redis.
const PATIENCE: Duration = Duration::from_secs(3);

/// The labels of a metric.
type Labels = Vec<(&'static str, String)>;

/// What is read in Redis for scrapes.
#[derive(Debug)]
pub(super) struct Scrape {
    config: Config,
    /// Connected at the first need.
    inspector: OnceCell<Inspector>,
    read: Mutex<Option<(Instant, Arc<Stock>)>>,
}

/// The queues and limits as they were when they were read; empty if Redis could not be reached.
#[derive(Debug, Default)]
struct Stock {
    is_up: bool,
    took: Duration,
    queues: Vec<QueueStatus>,
    limits: Vec<LimitStatus>,
}

impl Scrape {
    pub(super) fn new(config: Config) -> Self {
        Self { config, inspector: OnceCell::new(), read: Mutex::default() }
    }

    /// Whether Redis answers.
    pub(super) async fn is_up(&self) -> bool {
        self.stock().await.is_up
    }

    /// All metrics, as OpenMetrics writes them.
    pub(super) async fn text(&self, sources: &Sources) -> Result<String, fmt::Error> {
        let stock = self.stock().await;
        let mut registry = Registry::with_prefix("delayed");
        registry.register_collector(Box::new(Queues(stock)));
        registry.register_collector(Box::new(Clients(sources.all_enqueued())));
        let sources = sources.all();
        if !sources.is_empty() {
            registry.register_collector(Box::new(Workers(sources)));
        }
        let mut written = String::new();
        text::encode(&mut written, &registry)?;
        Ok(written)
    }

    async fn stock(&self) -> Arc<Stock> {
        // Scrapes that come meanwhile wait for the same.
        let mut read = self.read.lock().await;
        if let Some((_, stock)) = read.as_ref().filter(|(since, _)| since.elapsed() < FRESH) {
            return Arc::clone(stock);
        }
        let began = Instant::now();
        let stock = match tokio::time::timeout(PATIENCE, self.look()).await {
            Ok(Ok((queues, limits))) => Stock { is_up: true, took: began.elapsed(), queues, limits },
            Ok(Err(_)) | Err(_) => Stock { took: began.elapsed(), ..Stock::default() },
        };
        let stock = Arc::new(stock);
        *read = Some((Instant::now(), Arc::clone(&stock)));
        stock
    }

    async fn look(&self) -> Result<(Vec<QueueStatus>, Vec<LimitStatus>), Error> {
        let connect = || Inspector::with_config(&self.config);
        let inspector = self.inspector.get_or_try_init(connect).await?;
        Ok((inspector.list_queues(None).await?.queues, inspector.limits().await?))
    }
}

/// The same metrics in the format that Prometheus read before OpenMetrics, and other scrapers still do: the name of a counter has its
/// ending in each line, and there are no units.
pub(super) fn classic(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let counter = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter"));
        if let Some(name) = counter {
            if let Some(help) = lines.last_mut().filter(|help| help.starts_with("# HELP ")) {
                *help = help.replacen(name, &format!("{name}_total"), 1);
            }
            lines.push(format!("# TYPE {name}_total counter"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Writes one metric with all its labels.
fn family<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    unit: Option<&Unit>,
    values: impl IntoIterator<Item = (Labels, M)>,
) -> fmt::Result {
    let mut values = values.into_iter().peekable();
    let Some((_, first)) = values.peek() else { return Ok(()) };
    let mut metric = encoder.encode_descriptor(name, help, unit, first.metric_type())?;
    for (labels, value) in values {
        if labels.is_empty() {
            return value.encode(metric);
        }
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// The metrics of queues and limits.
#[derive(Debug)]
struct Queues(Arc<Stock>);

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (stock, to) = (&self.0, &mut encoder);
        let up = ConstGauge::new(i64::from(stock.is_up));
        family(to, ("redis_up", "Whether Redis answers"), None, [(Labels::new(), up)])?;
        let took = ConstGauge::new(stock.took.as_secs_f64());
        let help = "How long it took to read the queues";
        family(to, ("redis_read_duration", help), Some(&Unit::Seconds), [(Labels::new(), took)])?;
        let of_queues = |number: fn(&QueueStatus) -> u64| {
            stock
                .queues
                .iter()
                .map(move |queue| (of_queue(&queue.queue), ConstGauge::new(number(queue) as i64)))
        };
        family(to, ("queue_waiting", "Calls that wait"), None, of_queues(|queue| queue.waiting))?;
        let help = "Calls that workers own";
        family(to, ("queue_owned", help), None, of_queues(|queue| queue.owned))?;
        let help = "Calls in the timetable, also those that wait for a retry";
        family(to, ("queue_scheduled", help), None, of_queues(|queue| queue.scheduled))?;
        family(to, ("queue_dead_letters", "Dead letters"), None, of_queues(|queue| queue.dead))?;
        let help = "Calls that took workers down and are not buried";
        family(to, ("queue_suspects", help), None, of_queues(|queue| queue.suspects))?;
        family(to, ("queue_workers", "Workers that serve it"), None, of_queues(|queue| queue.workers))?;
        let help = "Whether it is paused";
        family(to, ("queue_paused", help), None, of_queues(|queue| queue.paused.is_some().into()))?;
        let now = now_ms();
        let oldest = stock.queues.iter().filter_map(|queue| {
            let age = Duration::from_millis(now.saturating_sub(queue.oldest_ms?));
            Some((of_queue(&queue.queue), ConstGauge::new(age.as_secs_f64())))
        });
        let help = "The age of the oldest call that waits, if its id tells it";
        family(to, ("queue_oldest_age", help), Some(&Unit::Seconds), oldest)?;
        let late = stock.queues.iter().filter_map(|queue| {
            let late = Duration::from_millis(now.saturating_sub(queue.next_due_ms?));
            Some((of_queue(&queue.queue), ConstGauge::new(late.as_secs_f64())))
        });
        let help = "How long the earliest entry of the timetable has been due";
        family(to, ("queue_timetable_lateness", help), Some(&Unit::Seconds), late)?;
        let of_limits = |number: fn(&LimitStatus) -> Option<u64>| {
            let numbers = move |limit: &LimitStatus| {
                Some((vec![("limit", limit.name.clone())], ConstGauge::new(number(limit)? as i64)))
            };
            stock.limits.iter().filter_map(numbers)
        };
        family(to, ("limit_held", "Calls that hold it"), None, of_limits(|limit| Some(limit.held)))?;
        let help = "Calls that wait for it";
        family(to, ("limit_waiting", help), None, of_limits(|limit| Some(limit.waiting)))?;
        let help = "How many calls may hold it";
        family(to, ("limit_concurrency", help), None, of_limits(|limit| limit.concurrency))
    }
}

fn of_queue(queue: &str) -> Labels {
    vec![("queue", queue.to_owned())]
}

/// The metrics of the clients of this process.
#[derive(Debug)]
struct Clients(Vec<((String, String), u64)>);

impl Collector for Clients {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let enqueued = self.0.iter().map(|((queue, task), count)| {
            (vec![("queue", queue.clone()), ("task", task.clone())], ConstCounter::new(*count))
        });
        family(&mut encoder, ("client_calls_enqueued", "Calls that were enqueued"), None, enqueued)
    }
}

/// The metrics of the workers of this process.
#[derive(Debug)]
struct Workers(Vec<Arc<Source>>);

/// Durations, as a metric.
struct Histogram<'a>(&'a Durations);

impl EncodeMetric for Histogram<'_> {
    fn encode(&self, mut encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_histogram::<Labels>(self.0.sum(), self.0.count(), &self.0.classes(), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl Collector for Workers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let slots = self.0.iter().map(|source| source.concurrency as i64).sum::<i64>();
        let help = "How many calls may run at a time";
        family(to, ("worker_slots", help), None, [(Labels::new(), ConstGauge::new(slots))])?;
        let counts: Vec<(Labels, RunCounts)> = self.0.iter().flat_map(|source| read(source)).collect();
        let numbers = |number: fn(&RunCounts) -> u64| {
            counts.iter().map(move |(labels, counts)| (labels.clone(), ConstCounter::new(number(counts))))
        };
        let help = "Runs that have begun";
        family(to, ("worker_runs_started", help), None, numbers(|counts| counts.started))?;
        let ended = counts.iter().flat_map(|(labels, counts)| {
            counts.ended.iter().map(move |(outcome, count)| {
                let mut labels = labels.clone();
                labels.push(("outcome", (*outcome).to_owned()));
                (labels, ConstCounter::new(*count))
            })
        });
        family(to, ("worker_runs_ended", "Runs that have ended, by their outcome"), None, ended)?;
        let help = "Failed calls that run again";
        family(to, ("worker_calls_retried", help), None, numbers(|counts| counts.retried))?;
        let help = "Calls that snoozed";
        family(to, ("worker_calls_snoozed", help), None, numbers(|counts| counts.snoozed))?;
        let help = "Calls that became dead letters";
        family(to, ("worker_calls_buried", help), None, numbers(|counts| counts.buried))?;
        let help = "Calls that were left to a sweeper";
        family(to, ("worker_calls_lost", help), None, numbers(|counts| counts.lost))?;
        let durations = |of: fn(&RunCounts) -> &Durations| {
            counts.iter().map(move |(labels, counts)| (labels.clone(), Histogram(of(counts))))
        };
        let (unit, help) = (Some(&Unit::Seconds), "How long runs took");
        family(to, ("worker_run_duration", help), unit, durations(|counts| &counts.running))?;
        let help = "How long calls waited for their first run, from the time in their id";
        family(to, ("worker_wait_duration", help), unit, durations(|counts| &counts.waiting))?;
        let help = "How long calls took that succeeded, from the time in their id";
        family(to, ("worker_call_duration", help), unit, durations(|counts| &counts.total))?;
        let beat = self.0.iter().filter_map(|source| source.since_beat()).max();
        let beat = beat.map(|age| (Labels::new(), ConstGauge::new(age.as_secs_f64())));
        let help = "How long ago the last heartbeat succeeded";
        family(to, ("worker_heartbeat_age", help), unit, beat)?;
        let scripts: Vec<(Labels, Durations)> = self.0.iter().flat_map(|source| scripts(source)).collect();
        let scripts = scripts.iter().map(|(labels, took)| (labels.clone(), Histogram(took)));
        family(to, ("worker_script_duration", "How long Redis took to answer"), unit, scripts)
    }
}

/// The durations of the scripts of a worker, with their labels.
fn scripts(source: &Source) -> Vec<(Labels, Durations)> {
    let queue = |queue: usize| source.queues.get(queue).cloned().unwrap_or_default();
    let labels = |(of, script): (usize, &str)| vec![("queue", queue(of)), ("script", script.to_owned())];
    source.meter.scripts().into_iter().map(|(place, took)| (labels(place), took)).collect()
}

/// The counts of a worker, with their labels.
fn read(source: &Source) -> Vec<(Labels, RunCounts)> {
    let name = |queue: usize, task: Option<usize>| {
        let queue = source.queues.get(queue).cloned().unwrap_or_default();
        // The paths of unknown tasks may be any number.
        let task = task.and_then(|task| source.tasks.get(task)).map_or("", |task| *task);
        vec![("queue", queue), ("task", task.to_owned())]
    };
    source.meter.read().into_iter().map(|(queue, task, counts)| (name(queue, task), counts)).collect()
}
