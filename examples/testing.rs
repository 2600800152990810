//! A program and its tests: `cargo test --example testing --features testing`.

#![allow(unreachable_pub, clippy::print_stdout, reason = "an example prints")]

mod shop {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use delayed::{Client, Context, State, TaskError};

    /// What the program shares with its tasks: here, what customers have paid.
    #[derive(Default)]
    pub struct Till(pub AtomicU64);

    /// Takes an order, and reminds of it after a day.
    #[cfg_attr(not(test), expect(dead_code, reason = "a web server would call it"))]
    pub async fn place_order(client: &Client, number: u64, mail: &str) -> Result<(), delayed::Error> {
        client.enqueue(charge::call(number, mail.into())).await?;
        let reminder = remind::call(mail.into(), None).after(Duration::from_secs(24 * 3600));
        client.enqueue(reminder).await.map(drop)
    }

    /// Takes the money, and says so.
    #[delayed::task(retry = 2, backoff = fixed("10m"))]
    pub async fn charge(number: u64, mail: String, till: State<Till>, ctx: Context) -> Result<(), TaskError> {
        if number == 13 {
            return Err(TaskError::retry(format!("the bank does not answer, in attempt {}", ctx.attempt())));
        }
        till.0.fetch_add(100, Ordering::Relaxed);
        ctx.client().enqueue(remind::call(mail, Some(format!("Order {number} is paid")))).await?;
        Ok(())
    }

    /// Sends a mail.
    #[delayed::task(queue = "mail")]
    pub fn remind(to: String, text: Option<String>) -> Result<(), String> {
        if !to.contains('@') {
            return Err(format!("{to:?} is not an address"));
        }
        println!("to {to}: {}", text.as_deref().unwrap_or("Do you like it?"));
        Ok(())
    }
}

/// The program: its tests share the same values with the tasks.
fn app() -> delayed::App {
    delayed::App::new().state(shop::Till::default())
}

fn main() -> std::process::ExitCode {
    app().main()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use std::time::Duration;

    use delayed::testing::{self, Redis, assert_enqueued, refute_enqueued};

    use super::{app, shop};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[tokio::test]
    async fn an_order_is_charged_now_and_reminded_of_tomorrow() {
        let redis = Redis::start().await;
        shop::place_order(&redis.client(), 7, "ann@example.org").await.unwrap();
        assert_enqueued!(redis, shop::charge, args: [7, _]);
        assert_enqueued!(redis, shop::remind, args: ["ann@example.org", None], queue: "mail", after: DAY);

        let runs = redis.drain().app(app()).await.expect_success();
        assert_eq!(runs.len(), 2, "the charge, and the mail that says so");
        redis.advance(DAY).await;
        redis.drain().app(app()).await.expect_success();
        refute_enqueued!(redis);
    }

    #[tokio::test]
    async fn a_bank_that_never_answers_is_asked_three_times() {
        let redis = Redis::start().await;
        shop::place_order(&redis.client(), 13, "ann@example.org").await.unwrap();
        for attempt in 1..=3 {
            let runs = redis.drain().queue("default").app(app()).await;
            assert_eq!((runs[0].attempt(), runs[0].is_dead()), (attempt, attempt == 3));
            redis.advance(Duration::from_secs(15 * 60)).await;
        }
        refute_enqueued!(redis, shop::remind, args: |_to: &str, text: Option<&str>| text.is_some());
    }

    #[test]
    fn a_mail_needs_an_address() {
        let run = testing::run(shop::remind::call("ann".into(), None)).blocking();
        assert_eq!(run.error(), Some("\"ann\" is not an address"));
    }
}
