#[delayed::task]
fn not_last(#[task(variadic)] words: Vec<String>, count: i64) {
    drop((words, count));
}

#[delayed::task]
fn not_a_list(#[task(variadic)] words: String) {
    drop(words);
}

#[delayed::task]
fn with_default(#[task(variadic, default)] words: Vec<String>) {
    drop(words);
}

#[delayed::task]
fn with_value(#[task(variadic = 3)] words: Vec<String>) {
    drop(words);
}

fn main() {
    not_last(vec![], 1);
    not_a_list("".into());
    with_default(vec![]);
    with_value(vec![]);
}
