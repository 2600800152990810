#[delayed::task]
#[delayed::task(queue = "mail")]
fn send(to: String) {
    drop(to);
}

fn main() {
    send("ann".into());
}
