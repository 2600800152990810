#[delayed::task]
fn argument(values: impl IntoIterator<Item = i64>) {
    drop(values);
}

#[delayed::task]
fn nested(values: Vec<Box<dyn Fn(i64) -> i64>>, texts: Option<impl Into<String>>) {
    drop((values, texts));
}

#[delayed::task]
fn answer() -> impl std::fmt::Display {
    1
}

fn main() {
    argument([1]);
    nested(vec![], Some(""));
    answer();
}
