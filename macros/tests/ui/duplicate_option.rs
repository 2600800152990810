#[delayed::task(queue = "mail", retry = 1, queue = "post", retry = 2)]
fn send(to: String) {
    drop(to);
}

fn main() {
    let _ = send::call("ann".into());
}
