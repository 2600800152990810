#[delayed::task]
fn serve() -> ! {
    loop {}
}

fn main() {
    let _ = serve;
}
