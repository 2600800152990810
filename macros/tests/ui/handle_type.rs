//! The handle of a call has the type that its task returns.

use std::time::Duration;

#[delayed::task(keep = "1h")]
fn greet(name: String) -> String {
    name
}

async fn wait(client: delayed::Client) -> Result<u64, Box<dyn std::error::Error>> {
    let greeting: u64 = client.enqueue(greet::call("ann".into())).await?.wait(Duration::from_secs(1)).await?;
    Ok(greeting)
}

fn main() {
    let _ = wait;
}
