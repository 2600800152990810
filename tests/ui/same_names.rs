#[delayed::task]
fn add(a: i64, mut a: i64) -> i64 {
    a += 1;
    a
}

fn main() {
    add(1, 2);
}
