struct Mailer;

impl Mailer {
    #[delayed::task]
    fn send(&self, to: String) {
        let _ = to;
    }

    #[delayed::task]
    fn copy(other: Self) -> Self {
        other
    }
}

fn main() {
    Mailer.send("ann".into());
    Mailer::copy(Mailer);
}
