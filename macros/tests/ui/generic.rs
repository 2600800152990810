#[delayed::task]
fn show<T: std::fmt::Display>(value: T) {
    println!("{value}");
}

#[delayed::task]
fn sum<const N: usize>(values: [i64; N]) -> i64 {
    values.iter().sum()
}

#[delayed::task]
fn bounded(value: i64) -> i64
where
    i64: Copy,
{
    value
}

fn main() {
    show(1);
    sum([1]);
    bounded(1);
}
