//! `gateway`: accepts calls over HTTP, until a signal comes.

use serde_json::json;

use crate::cli::Program;
use crate::cli::args::{Exposed, Gateway as Args, GatewayFlags, GatewayVerb, Token, TokenCreate};
#[cfg(feature = "metrics")]
use crate::cli::commands::exporter::expose;
use crate::cli::commands::inspector;
use crate::cli::commands::sweeper::until_signal;
use crate::cli::exit::Failure;
use crate::cli::health::{self, Health};
use crate::cli::output::{self, Cell};
use crate::client::Client;
use crate::gateway::{Bounds, Gateway, OpenTo, has_tokens};
use crate::task::{Registry, RegistryError};

pub(super) async fn run(program: Program, args: Args) -> Result<(), Failure> {
    match args.verb {
        Some(GatewayVerb::Token(verb)) => token(&program, verb).await,
        None => serve(program, &args.flags, args.exposed).await,
    }
}

async fn serve(program: Program, flags: &GatewayFlags, exposed: Exposed) -> Result<(), Failure> {
    let ended = until_signal()?;
    #[cfg(feature = "metrics")]
    let is_shown = expose(&program, exposed.address()).await?.is_some();
    let config = &program.settings.config;
    let registry = match Registry::collect() {
        // The gateway then checks calls against the tasks that workers publish.
        Err(RegistryError::Empty) => Registry::new(),
        registry => registry?,
    };
    let is_local = flags.listen.ip().is_loopback();
    if !is_local && !has_tokens(config).await? {
        return Err(Failure::configuration(format!(
            "{} can be reached from other machines, and there is no token: `gateway token create NAME` creates one, or listen \
             on 127.0.0.1",
            flags.listen
        )));
    }
    let client = Client::lazy_with_config(config).layers(program.parts.client_layers);
    #[cfg(feature = "metrics")]
    let client = match is_shown {
        true => client.counted(program.sources),
        false => client,
    };
    let gateway = Gateway::with_config(config)
        .client(client)
        .registry(registry)
        .accept_unknown(flags.accept_unknown)
        .open(if is_local { OpenTo::ThisMachine } else { OpenTo::Nobody })
        .bounds(Bounds {
            body: flags.max_body as usize,
            batch: flags.max_batch as usize,
            calls: flags.max_calls as usize,
            connections: flags.max_connections as usize,
            ..Bounds::default()
        })
        .build();
    let listener = crate::http::listen(flags.listen);
    let listener =
        listener.map_err(|error| Failure::io(&format!("cannot listen on {}", flags.listen), &error))?;
    let address = listener.local_addr().unwrap_or(flags.listen);
    tracing::info!(%address, "gateway started");
    let _health = Health::begin(config, exposed.health_file)?.ready();
    let stop = async {
        let signal = ended.await;
        health::stopping();
        tracing::info!(signal, "gateway stops");
    };
    gateway.serve(listener, stop).await;
    tracing::info!(%address, "gateway stopped");
    Ok(())
}

async fn token(program: &Program, verb: Token) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    match verb {
        Token::Create(args) => {
            let TokenCreate { name, queues, tasks, output } = args;
            if name.is_empty() {
                return Err(Failure::usage("the name of a token is empty"));
            }
            let Some(text) = inspector.create_token(&name, &queues, &tasks).await? else {
                let text = format!("there is a token `{name}`: revoke it first, or use another name");
                return Err(Failure::usage(text));
            };
            match output.json {
                true => output::json(&json!({ "name": name, "token": text })),
                false => output::print(&text),
            }
        }
        Token::List(output) => {
            let tokens = inspector.tokens().await?;
            if output.json {
                return output::json(&tokens);
            }
            if tokens.is_empty() {
                return output::print("there are no tokens: `gateway token create` creates one");
            }
            let patterns = |patterns: &[String]| match patterns {
                [] => "all".to_owned(),
                patterns => patterns.join(", "),
            };
            let rows = tokens.iter().map(|token| {
                let created = output::distance(token.created_ms);
                [token.name.clone(), patterns(&token.queues), patterns(&token.tasks), created].map(Cell::from)
            });
            output::table(["token", "queues", "tasks", "created"], rows.collect(), &[(0, 10)])
        }
        Token::Revoke(args) => match inspector.revoke_token(&args.name).await? {
            true => output::print(&output::clean(&format!("revoked {}", args.name))),
            false => Err(Failure::not_found(format!(
                "there is no token `{}`: `gateway token list` shows all",
                args.name
            ))),
        },
    }
}
