//! The arguments of `top`.

use std::time::Duration;

use crate::json::words::positive;

/// `top`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Top {
    /// How long it waits before it reads again
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive)]
    pub(in crate::cli) pause: Duration,
    /// Who acts, for pauses, cancelled and killed calls; default: the user and the host
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) by: Option<String>,
}
