mod tasks {
    #[delayed::task]
    pub fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    #[delayed::task]
    pub async fn send(to: String, #[task(default)] cc: Vec<String>, context: delayed::Context) {
        drop((to, cc, context));
    }
}

fn main() {
    let _ = tasks::add::call("one", 2);
    let _ = tasks::add::call(1);
    let _ = tasks::send::call("ann".to_owned(), vec![1]);
    let _ = tasks::send::call("ann".to_owned());
}
