//! The arguments of `gateway`.

use std::net::SocketAddr;

use clap::Subcommand;

use crate::cli::args::exposed::Exposed;
use crate::cli::args::{Json, JsonLog};

/// `gateway`
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Gateway {
    #[command(subcommand)]
    pub(in crate::cli) verb: Option<GatewayVerb>,
    #[command(flatten)]
    pub(in crate::cli) flags: GatewayFlags,
    #[command(flatten)]
    pub(in crate::cli) exposed: Exposed,
    #[cfg(feature = "otel")]
    #[command(flatten)]
    pub(in crate::cli) otlp: crate::cli::args::exposed::Otlp,
    #[command(flatten)]
    pub(in crate::cli) log: JsonLog,
}

/// The settings of a gateway.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(in crate::cli) struct GatewayFlags {
    /// Address to listen on; beyond this machine only with tokens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(in crate::cli) listen: SocketAddr,
    /// Accept calls of tasks that are not in this program, without checking their arguments
    #[arg(long)]
    pub(in crate::cli) accept_unknown: bool,
    /// Maximum size of a body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) max_body: u32,
    /// Maximum number of calls in a request
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) max_batch: u32,
    /// Maximum number of calls that are not yet in Redis
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) max_calls: u32,
    /// Maximum number of open connections
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) max_connections: u32,
}

/// The verbs of `gateway`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum GatewayVerb {
    /// Create, list and revoke tokens
    #[command(
        subcommand,
        after_help = "Examples:\n  {program} gateway token create shop --task 'shop::*'\n  {program} gateway token list\n  \
                      {program} gateway token revoke shop"
    )]
    Token(Token),
}

/// `gateway token`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Token {
    /// Create a token, and print its text, which is kept nowhere
    #[command(after_help = "\
Examples:
  {program} gateway token create shop
  {program} gateway token create shop --task 'shop::*' --queue mail")]
    Create(TokenCreate),
    /// Show all tokens
    #[command(after_help = "\
Examples:
  {program} gateway token list")]
    List(Json),
    /// Revoke a token: gateways refuse it within two seconds
    #[command(after_help = "\
Examples:
  {program} gateway token revoke shop")]
    Revoke(TokenRevoke),
}

/// `gateway token create`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TokenCreate {
    /// The name of the token
    pub(in crate::cli) name: String,
    /// A queue that the token may use, or its beginning followed by `*`; repeatable; default: all
    #[arg(long = "queue", value_name = "PATTERN")]
    pub(in crate::cli) queues: Vec<String>,
    /// A task that the token may call, or its beginning followed by `*`; repeatable; default: all
    #[arg(long = "task", value_name = "PATTERN")]
    pub(in crate::cli) tasks: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `gateway token revoke`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TokenRevoke {
    /// The name of the token
    pub(in crate::cli) name: String,
}
