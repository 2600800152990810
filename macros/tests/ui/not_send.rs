use std::rc::Rc;

async fn elsewhere() {}

#[delayed::task]
async fn count(to: u64) {
    let counter = Rc::new(to);
    elsewhere().await;
    drop(counter);
}

fn main() {}
