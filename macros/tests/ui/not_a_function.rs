#[delayed::task]
struct Mail {
    to: String,
}

#[delayed::task]
mod tasks {
    pub fn add(a: i64, b: i64) -> i64 {
        a + b
    }
}

#[delayed::task]
static COUNT: u64 = 0;

trait Send {
    #[delayed::task]
    fn send(to: String);
}

fn main() {
    let _ = (Mail { to: String::new() }.to, tasks::add(1, COUNT as i64));
}
