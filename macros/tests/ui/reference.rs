use std::path::Path;

#[delayed::task]
fn all(
    name: &str,
    numbers: &[i64],
    place: &Path,
    count: &mut u64,
    words: Vec<&str>,
    pairs: Option<(&'static str, &[&str])>,
    context: &delayed::Context,
    limits: &delayed::State<u64>,
) {
    let _ = (name, numbers, place, count, words, pairs, context, limits);
}

#[delayed::task]
fn first(words: Vec<String>) -> Option<&'static String> {
    drop(words);
    None
}

#[delayed::task]
fn choose(left: &str) -> &str {
    left
}

fn main() {
    let _ = all;
    choose("");
    first(vec![]);
}
