//! `top`: shows rates, queues, workers, running calls and dead letters in a terminal, and acts on them.

mod act;
mod model;
mod read;
mod view;

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::model::{Model, Step};
use self::read::read_all;
use crate::cli::Program;
use crate::cli::args::Top;
use crate::cli::commands::sweeper::until_signal;
use crate::cli::commands::{inspector, somebody};
use crate::cli::exit::Failure;
use crate::inspect::Inspector;

/// How long the thread that reads keys waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn run(program: &Program, args: &Top) -> Result<(), Failure> {
    if !stdout().is_terminal() {
        return Err(Failure::usage("`top` needs a terminal: `queues --watch` prints lines"));
    }
    let inspector = inspector(program).await?;
    let stop = until_signal()?;
    // It restores the terminal when the program panics.
    let mut terminal =
        ratatui::try_init().map_err(|error| Failure::io("the terminal cannot be used", &error))?;
    let result = tokio::select! {
        result = show(&mut terminal, &inspector, args) => result,
        _ = stop => Ok(()),
    };
    ratatui::restore();
    result
}

async fn show(terminal: &mut DefaultTerminal, inspector: &Inspector, args: &Top) -> Result<(), Failure> {
    let mut model = Model::new(args.by.clone().unwrap_or_else(somebody));
    let mut keys = keys();
    let mut snapshots = read_all(inspector.clone(), args.pause);
    loop {
        let draw = terminal.draw(|frame| view::draw(&mut model, frame));
        draw.map_err(|error| Failure::io("the terminal cannot be written to", &error))?;
        tokio::select! {
            Some(snapshot) = snapshots.recv() => model.take(snapshot),
            Some(event) = keys.recv() => match model.on(&event) {
                Step::Stay => {}
                Step::Quit => return Ok(()),
                Step::Do(action) => {
                    model.say("…");
                    let said = act::carry_out(inspector, &action, &model.by).await;
                    model.told(said);
                }
            },
            else => return Ok(()),
        }
    }
}

/// Reads keys and changes of the size on a thread of its own, for as long as somebody listens.
fn keys() -> UnboundedReceiver<Event> {
    let (send, receive) = unbounded_channel();
    std::thread::spawn(move || {
        while !send.is_closed() {
            match event::poll(LOOK) {
                Ok(false) => {}
                Ok(true) => match event::read() {
                    Ok(event) => drop(send.send(event)),
                    Err(_) => return,
                },
                Err(_) => return,
            }
        }
    });
    receive
}
