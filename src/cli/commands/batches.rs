//! `batches`: shows the batches that fill, and lets one run now.

use crate::cli::Program;
use crate::cli::args::{Batches, BatchesFlush, BatchesList};
use crate::cli::commands::calls::find::queues;
use crate::cli::commands::inspector;
use crate::cli::exit::{Code, Failure};
use crate::cli::output::{self, Cell};

pub(super) async fn run(program: &Program, verb: &Batches) -> Result<(), Failure> {
    match verb {
        Batches::List(args) => list(program, args).await,
        Batches::Flush(args) => flush(program, args).await,
    }
}

async fn list(program: &Program, args: &BatchesList) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let mut batches = Vec::new();
    for queue in queues(&inspector, args.queue.as_ref()).await? {
        batches.extend(inspector.batches(&queue).await?);
    }
    if args.output.json {
        return output::json(&batches);
    }
    if batches.is_empty() {
        return output::print("no batch fills");
    }
    let rows = batches.iter().map(|batch| {
        let key = batch.key.clone().unwrap_or_else(|| "-".into());
        let numbers = [batch.items, batch.bytes].map(|number| number.to_string());
        let times = [batch.since_ms, batch.due_ms].map(output::distance);
        let texts = [batch.queue.clone(), batch.task.clone(), key].into_iter().chain(numbers).chain(times);
        let mut cells = texts.map(Cell::from);
        std::array::from_fn(|_| cells.next().unwrap_or_else(|| Cell::from(String::new())))
    });
    output::table(
        ["queue", "task", "key", "items", "bytes", "began", "due"],
        rows.collect(),
        &[(1, 10), (2, 8)],
    )
}

async fn flush(program: &Program, args: &BatchesFlush) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let mut flushed = Vec::new();
    for queue in queues(&inspector, args.queue.as_ref()).await? {
        if inspector.flush_batch(&queue, &args.task, args.key.as_deref()).await? {
            flushed.push(queue);
        }
    }
    for queue in &flushed {
        output::print(&output::clean(&format!("the batch in {queue} is due: a worker or sweeper moves it")))?;
    }
    if flushed.is_empty() {
        let key =
            args.key.as_ref().map(|key| output::clean(&format!(" with the key {key:?}"))).unwrap_or_default();
        return Err(Failure::new(
            Code::NotFound,
            format!(
                "no batch of `{}`{key} fills: `batches list` shows those that do",
                output::clean(&args.task)
            ),
        ));
    }
    Ok(())
}
