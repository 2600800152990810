//! Reports the health of a serving process to systemd, and to probes through a file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::AbortHandle;
use tokio::time::{interval, timeout};

use crate::cli::exit::Failure;
use crate::config::Config;
use crate::inspect::Inspector;

/// The interval between two writes of the health file.
const PERIOD: Duration = Duration::from_secs(5);
/// The timeout of a check of Redis.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reports the health of this process until it is dropped.
#[derive(Debug)]
pub(super) struct Health {
    config: Config,
    file: Option<PathBuf>,
    tasks: Vec<AbortHandle>,
}

impl Health {
    /// Writes `starting` into the health file, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn begin(config: &Config, file: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(file) = &file {
            let text = format!("cannot write the health file {}", file.display());
            write(file, "starting").map_err(|error| Failure::io(&text, &error))?;
        }
        Ok(Self { config: config.clone(), file, tasks: Vec::new() })
    }

    /// Reports that the process is ready. From now on, writes the health file and feeds the watchdog of systemd.
    #[must_use = "it ends when it is dropped"]
    pub(super) fn ready(mut self) -> Self {
        if let Some(file) = &self.file {
            self.tasks.push(tokio::spawn(keep(self.config.clone(), file.clone())).abort_handle());
        }
        notify(NotifyState::Ready);
        if let Some(limit) = sd_notify::watchdog_enabled() {
            self.tasks.push(tokio::spawn(feed(limit / 2)).abort_handle());
        }
        self
    }
}

/// Tells systemd that the process stops.
pub(super) fn stopping() {
    notify(NotifyState::Stopping);
}

impl Drop for Health {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(file) = &self.file {
            // It may be gone already.
            let _ = std::fs::remove_file(file);
        }
    }
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "systemd was not notified");
    }
}

/// Feeds the watchdog for as long as the runtime runs tasks.
async fn feed(period: Duration) {
    let mut ticks = interval(period);
    loop {
        ticks.tick().await;
        notify(NotifyState::Watchdog);
    }
}

/// Checks Redis every [`PERIOD`], and writes the result into the file.
async fn keep(config: Config, file: PathBuf) {
    let mut inspector = None;
    let mut ticks = interval(PERIOD);
    let mut has_failed = false;
    loop {
        ticks.tick().await;
        let answers = matches!(timeout(PATIENCE, answers(&config, &mut inspector)).await, Ok(true));
        let written = write(&file, if answers { "ready" } else { "Redis does not answer" });
        if let Err(error) = &written
            && !has_failed
        {
            tracing::warn!(file = %file.display(), %error, "health file cannot be written");
        }
        has_failed = written.is_err();
    }
}

async fn answers(config: &Config, inspector: &mut Option<Inspector>) -> bool {
    if inspector.is_none() {
        *inspector = Inspector::with_config(config).await.ok();
    }
    match inspector {
        Some(inspector) => inspector.ping().await.is_ok(),
        None => false,
    }
}

/// Replaces the file, so that a reader never sees half of the text.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    std::fs::write(&name, format!("{text}\n"))?;
    std::fs::rename(&name, file)
}
