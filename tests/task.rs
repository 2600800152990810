//! Does `#[delayed::task]` write what it says?

mod tasks {
    #[delayed::task]
    pub(crate) fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    /// Sends a mail.
    #[delayed::task(name = "mail.send", queue = "mail", retry = 3)]
    pub(crate) async fn send(
        to: String,
        #[task(default)] cc: Vec<String>,
        ctx: delayed::Context,
    ) -> Result<(), std::fmt::Error> {
        let _ = (to, cc, ctx);
        Ok(())
    }
}

#[test]
fn first() {
    let registry = delayed::task::Registry::collect().unwrap();
    for t in registry.iter() {
        println!("{} {t:?}", t.signature());
    }
    println!("{:?}", tasks::add::call(1, 2));
}
