#[delayed::task]
fn add(a: i64, a: i64) -> i64 {
    a + 1
}

fn main() {
    add(1, 2);
}
