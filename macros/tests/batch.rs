//! Tasks of batches compile, with what they may take and return.
#![deny(warnings)]

use delayed::{Context, State, TaskError};

type Results<E> = Vec<Result<(), E>>;

struct Index;

#[delayed::task(batch(max = 100, within = "2s"))]
async fn nothing(items: Vec<String>) {
    drop(items);
}

#[delayed::task(batch(max = 100, within = "2s", grace = "500ms"), retry = 3)]
fn by_item(ctx: Context, items: Vec<(u64, Option<String>)>, index: State<Index>) -> Results<TaskError> {
    drop((ctx, index));
    items.into_iter().map(|_| Ok(())).collect()
}

#[delayed::task(batch(max = 10_000, within = "1h"))]
async fn or_all_of_it(items: std::vec::Vec<u8>) -> Result<Results<String>, std::io::Error> {
    Ok(items.into_iter().map(|_| Ok(())).collect())
}

#[test]
fn tasks_of_batches_compile() {
    let _: delayed::Call = nothing::call("a page".into());
    let _: delayed::Call = by_item::call((1, None)).batch_key("tenant:1");
    let _: delayed::Call = or_all_of_it::call(7);
}
