#[delayed::task]
fn greet(name: String) -> String {
    name
}

#[delayed::task]
async fn send(to: String) {
    drop(to);
}

fn enqueue(client: &delayed::Client) {
    let _ = client.enqueue_blocking(greet("ann".to_owned()));
    let _ = client.enqueue(send("ann".to_owned()));
    let _ = client.enqueue_many_blocking([greet("ann".to_owned())]);
}

fn main() {
    let _ = enqueue;
}
