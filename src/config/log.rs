//! What the command line logs.

use serde::Deserialize;

/// What the command line logs.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LogConfig {
    /// A level (`info`), or a filter in the syntax of `tracing-subscriber` (`info,delayed=debug`). Default: `info`.
    pub level: String,
    /// The format of the lines. Default: [`LogFormat::Pretty`].
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Pretty }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For humans.
    Pretty,
    /// One JSON object per line.
    Json,
}
