#[derive(serde::Serialize)]
struct Sent;

#[derive(serde::Deserialize)]
struct Received;

#[delayed::task]
fn take_sent(sent: Sent) {
    drop(sent);
}

#[delayed::task]
async fn take_received(received: Option<Received>) {
    drop(received);
}

#[delayed::task]
fn take_several(#[task(variadic)] several: Vec<Sent>) {
    drop(several);
}

#[delayed::task]
fn take_nested(nested: Vec<(i64, Sent)>) {
    drop(nested);
}

#[delayed::task]
async fn give() -> Result<Received, delayed::TaskError> {
    Ok(Received)
}

fn main() {}
