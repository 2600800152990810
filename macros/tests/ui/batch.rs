#[delayed::task(batch)]
fn without_options(items: Vec<u64>) {
    drop(items);
}

#[delayed::task(batch(max = 0, within = "2s"))]
fn no_items(items: Vec<u64>) {
    drop(items);
}

#[delayed::task(batch(max = 5))]
fn without_end(items: Vec<u64>) {
    drop(items);
}

#[delayed::task(batch(max = 5, within = "1s", grace = "2s"))]
fn long_grace(items: Vec<u64>) {
    drop(items);
}

#[delayed::task(batch(max = 5, max = 6, within = "1s", size = 3))]
fn mistaken(items: Vec<u64>) {
    drop(items);
}

#[delayed::task(keep = "1h", unique = "until_done", batch(max = 5, within = "1s"))]
fn of_one_call(items: Vec<u64>) {
    drop(items);
}

#[delayed::task(batch(max = 5, within = "1s"))]
fn two_arguments(items: Vec<u64>, more: u64) {
    drop((items, more));
}

#[delayed::task(batch(max = 5, within = "1s"))]
fn no_list(item: u64) {
    drop(item);
}

#[delayed::task(batch(max = 5, within = "1s"))]
fn returns_a_number(items: Vec<u64>) -> usize {
    items.len()
}

#[delayed::task(batch(max = 5, within = "1s"))]
async fn results(items: Vec<u64>) -> Vec<Result<(), String>> {
    items.iter().map(|_| Ok(())).collect()
}

fn main() {
    let _ = results::call(vec![1]);
    let _ = no_list::call(1);
}
