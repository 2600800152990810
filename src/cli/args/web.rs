//! The arguments of `web`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use ipnet::IpNet;

use crate::cli::args::JsonLog;
use crate::cli::args::exposed::Exposed;

/// `web`
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Web {
    #[command(subcommand)]
    pub(in crate::cli) verb: Option<WebVerb>,
    #[command(flatten)]
    pub(in crate::cli) flags: WebFlags,
    #[command(flatten)]
    pub(in crate::cli) exposed: Exposed,
    #[command(flatten)]
    pub(in crate::cli) log: JsonLog,
}

/// The settings of a dashboard.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(in crate::cli) struct WebFlags {
    /// Address to listen on; beyond this machine only with --users or --user-header
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub(in crate::cli) listen: SocketAddr,
    /// Let operators act: pause queues, cancel and enqueue calls, requeue dead letters
    #[arg(long)]
    pub(in crate::cli) allow_actions: bool,
    /// File with the users who may log in, a line for each as `web user` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "user_header")]
    pub(in crate::cli) users: Option<PathBuf>,
    /// Header in which a proxy names the user, such as X-Forwarded-User
    #[arg(long, value_name = "NAME", requires = "proxies")]
    pub(in crate::cli) user_header: Option<String>,
    /// Network of the proxy whose header is believed, such as 10.0.0.0/8; repeatable
    #[arg(long = "proxy", value_name = "NETWORK", requires = "user_header", value_parser = network)]
    pub(in crate::cli) proxies: Vec<IpNet>,
    /// User of the proxy who may act; repeatable; all others may only look
    #[arg(long = "operator", value_name = "USER", requires = "user_header")]
    pub(in crate::cli) operators: Vec<String>,
}

/// The verbs of `web`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum WebVerb {
    /// Ask for a password, or read it from standard input, and print the line of a user for --users
    #[command(after_help = "\
Examples:
  {program} web user ann --role operator >>users
  {program} web user bob <password >>users")]
    User(WebUser),
}

/// `web user`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WebUser {
    /// The name of the user
    pub(in crate::cli) name: String,
    /// What the user may do
    #[arg(long, value_enum, default_value_t = WebRole::Viewer)]
    pub(in crate::cli) role: WebRole,
}

/// What a user may do.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cli) enum WebRole {
    /// Look
    Viewer,
    /// Look and act
    Operator,
}

/// A network, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    let single = || text.parse::<std::net::IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| single())
        .map_err(|_| "expected a network such as 10.0.0.0/8, or an address".into())
}
