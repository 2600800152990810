//! `web`: shows the dashboard, until a signal comes.

use std::io::{IsTerminal, Read, Write};

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use crate::cli::Program;
use crate::cli::args::{Exposed, Web as Args, WebFlags, WebRole, WebUser, WebVerb};
#[cfg(feature = "metrics")]
use crate::cli::commands::exporter::expose;
use crate::cli::commands::sweeper::until_signal;
use crate::cli::exit::Failure;
use crate::cli::health::{self, Health};
use crate::cli::output;
use crate::client::Client;
use crate::task::{Registry, RegistryError};
use crate::web::{Dashboard, DashboardAccess, DashboardUsers, Role};

/// The longest password, in bytes.
const MAX_PASSWORD: u64 = 1000;

pub(super) async fn run(program: Program, args: Args) -> Result<(), Failure> {
    match args.verb {
        Some(WebVerb::User(user)) => print_user(&user),
        None => serve(program, args.flags, args.exposed).await,
    }
}

async fn serve(program: Program, flags: WebFlags, exposed: Exposed) -> Result<(), Failure> {
    let ended = until_signal()?;
    #[cfg(feature = "metrics")]
    expose(&program, exposed.address()).await?;
    let config = &program.settings.config;
    let registry = match Registry::collect() {
        // It then shows what workers publish.
        Err(RegistryError::Empty) => Registry::new(),
        registry => registry?,
    };
    let listen = flags.listen;
    let access = access(&flags)?;
    let is_open = matches!(access, DashboardAccess::Open);
    if is_open && !listen.ip().is_loopback() {
        return Err(Failure::configuration(format!(
            "{listen} can be reached from other machines: say who may see the dashboard with --users or --user-header, or \
             listen on 127.0.0.1"
        )));
    }
    let dashboard = Dashboard::with_config(config)
        .client(Client::lazy_with_config(config).layers(program.parts.client_layers))
        .registry(registry)
        .access(access)
        .allow_actions(flags.allow_actions)
        .local(is_open)
        .build();
    let listener = crate::http::listen(listen);
    let listener = listener.map_err(|error| Failure::io(&format!("cannot listen on {listen}"), &error))?;
    let address = listener.local_addr().unwrap_or(listen);
    tracing::info!(%address, "dashboard started");
    let _health = Health::begin(config, exposed.health_file)?.ready();
    let stop = async {
        let signal = ended.await;
        health::stopping();
        tracing::info!(signal, "dashboard stops");
    };
    dashboard.serve(listener, stop).await;
    tracing::info!(%address, "dashboard stopped");
    Ok(())
}

fn access(flags: &WebFlags) -> Result<DashboardAccess, Failure> {
    if let Some(file) = &flags.users {
        let shown = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::io(&format!("{shown} cannot be read"), &error))?;
        let users = DashboardUsers::parse(&text);
        let users = users.map_err(|error| Failure::configuration(format!("{shown}: {error}")))?;
        return Ok(DashboardAccess::Users(users));
    }
    Ok(match &flags.user_header {
        Some(header) => DashboardAccess::Proxy {
            header: header.clone(),
            trusted: flags.proxies.clone(),
            operators: flags.operators.clone(),
        },
        None => DashboardAccess::Open,
    })
}

fn print_user(user: &WebUser) -> Result<(), Failure> {
    let role = match user.role {
        WebRole::Viewer => Role::Viewer,
        WebRole::Operator => Role::Operator,
    };
    let password = password()?;
    let line = DashboardUsers::line(&user.name, role, &password);
    output::print(&line.map_err(|error| Failure::usage(error.to_string()))?)
}

/// Reads a password: from a terminal, where it is not shown, or all of standard input.
fn password() -> Result<String, Failure> {
    let failed = |error: &std::io::Error| Failure::io("the password could not be read", error);
    let stdin = std::io::stdin();
    let mut password = String::new();
    if !stdin.is_terminal() {
        stdin.take(MAX_PASSWORD).read_to_string(&mut password).map_err(|error| failed(&error))?;
        return Ok(password.trim_end_matches(['\r', '\n']).to_owned());
    }
    let shown = tcgetattr(&stdin).map_err(|error| failed(&error.into()))?;
    let mut hidden = shown.clone();
    hidden.local_flags.remove(LocalFlags::ECHO);
    let mut ask = std::io::stderr();
    let _ = write!(ask, "Password: ");
    tcsetattr(&stdin, SetArg::TCSAFLUSH, &hidden).map_err(|error| failed(&error.into()))?;
    let read = stdin.read_line(&mut password);
    let _ = tcsetattr(&stdin, SetArg::TCSAFLUSH, &shown);
    let _ = writeln!(ask);
    read.map_err(|error| failed(&error))?;
    Ok(password.trim_end_matches(['\r', '\n']).to_owned())
}
