struct Opaque;

#[delayed::task]
fn take(opaque: Opaque) {
    drop(opaque);
}

#[delayed::task]
fn without_default(#[task(default)] length: std::num::NonZeroU8, #[task(default = "3")] count: i64) {
    let _ = (length, count);
}

fn main() {}
