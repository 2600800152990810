//! `queues`: how full they are.

use std::time::Duration;

use crate::cli::Program;
use crate::cli::args::Queues;
use crate::cli::commands::inspector;
use crate::cli::exit::Failure;
use crate::cli::output::{self, Cell};
use crate::cli::watch::watch;
use crate::inspect::{QueueList, QueueStatus};

/// How long is looked for queues that nobody registered, unless all are asked for.
const SCAN: Duration = Duration::from_millis(250);

pub(super) async fn run(program: &Program, args: &Queues) -> Result<(), Failure> {
    watch(&args.watch, args.output.json, async || show(program, args).await).await
}

async fn show(program: &Program, args: &Queues) -> Result<(), Failure> {
    let scan = if args.scan { None } else { Some(SCAN) };
    let QueueList { queues, is_complete, .. } = inspector(program).await?.list_queues(scan).await?;
    if !is_complete {
        let note = "note: the database has too many keys to check all of them for unregistered queues; `queues \
            --scan` checks all";
        output::note(note);
    }
    if args.output.json {
        return output::json(&queues);
    }
    if queues.is_empty() {
        return output::print("there are no queues: `enqueue` or `worker` creates the first");
    }
    let problems: Vec<String> = queues
        .iter()
        .filter_map(|queue| Some(format!("{}: {}", queue.queue, queue.problem.as_ref()?)))
        .map(|problem| output::clean(&problem))
        .collect();
    let paused: Vec<String> = queues.iter().filter_map(paused).collect();
    let rows = queues.into_iter().map(|queue| {
        if queue.problem.is_some() {
            let nothing = || Cell::from("");
            return [
                queue.queue.into(),
                Cell::from("unreadable").red_if(true),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
            ];
        }
        let oldest = queue.oldest_ms.map_or_else(|| "-".into(), output::since);
        let (has_dead, has_suspects) = (queue.dead > 0, queue.suspects > 0);
        let [waiting, tokens, owned, scheduled, dead, suspects, workers] = [
            queue.waiting,
            queue.tokens,
            queue.owned,
            queue.scheduled,
            queue.dead,
            queue.suspects,
            queue.workers,
        ]
        .map(|number| Cell::from(number.to_string()));
        let (dead, suspects) = (dead.red_if(has_dead), suspects.yellow_if(has_suspects));
        let name = Cell::from(queue.queue).yellow_if(queue.paused.is_some());
        [name, waiting, oldest.into(), tokens, owned, scheduled, dead, suspects, workers]
    });
    let heads = ["queue", "waiting", "oldest", "tokens", "owned", "scheduled", "dead", "suspects", "workers"];
    output::table(heads, rows.collect(), &[(0, 10)])?;
    problems.iter().chain(&paused).try_for_each(|line| output::print(line))
}

/// What is said of a queue that is paused.
fn paused(queue: &QueueStatus) -> Option<String> {
    let pause = queue.paused.as_ref()?;
    let (name, since) = (&queue.queue, output::distance(pause.since_ms));
    Some(output::clean(&format!("{name} was paused {since} by {}: `queues resume {name}`", pause.by)))
}
