struct Mailer;

impl Mailer {
    #[delayed::task(queue = "mail_noti", retry = "3", timeout = 60)]
    const unsafe fn send<T>(
        &self,
        to: &str,
        (a, b): (i64, i64),
        #[task(variadic)] rest: &[T],
        #[task(optional)] last: i64,
    ) -> &str {
        let _ = (to, a, b, rest, last);
        ""
    }
}

fn main() {
    let _ = Mailer;
}
