//! `queues`: how full they are.

use crate::cli::Program;
use crate::cli::args::Json;
use crate::cli::commands::inspector;
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) async fn run(program: &Program, output: Json) -> Result<(), Failure> {
    let queues = inspector(program).await?.queues().await?;
    if output.json {
        return output::json(&queues);
    }
    if queues.is_empty() {
        return output::print("there are no queues: `enqueue` or `worker` makes the first");
    }
    let problems: Vec<String> = queues
        .iter()
        .filter_map(|queue| Some(format!("{}: {}", queue.queue, queue.problem.as_ref()?)))
        .map(|problem| output::clean(&problem))
        .collect();
    let rows = queues.into_iter().map(|queue| {
        if queue.problem.is_some() {
            let nothing = String::new;
            return [queue.queue, "unreadable".into(), nothing(), nothing(), nothing(), nothing(), nothing()];
        }
        let [waiting, tokens, owned, dead, suspects, workers] =
            [queue.waiting, queue.tokens, queue.owned, queue.dead, queue.suspects, queue.workers]
                .map(|number| number.to_string());
        [queue.queue, waiting, tokens, owned, dead, suspects, workers]
    });
    output::table(["queue", "waiting", "tokens", "owned", "dead", "suspects", "workers"], rows.collect())?;
    problems.iter().try_for_each(|problem| output::print(problem))
}
