#[delayed::task(timeout = 3, isolation = "process", queeu = "mail")]
fn send(to: String) {
    drop(to);
}

#[delayed::task("mail")]
fn unnamed(to: String) {
    drop(to);
}

fn main() {
    let _ = send::call("ann".into());
    let _ = unnamed::call("ann".into());
}
