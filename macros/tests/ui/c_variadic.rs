#[delayed::task]
unsafe extern "C" fn print(format: i64, ...) {
    let _ = format;
}

fn main() {
    let _ = print;
}
