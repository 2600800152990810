#[delayed::task(timeuot = 3, isolated = "fork", queeu = "mail")]
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
