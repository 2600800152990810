//! Tasks that do not end well, each in a process of its own, which is killed when its time is up or ends as it may.

#[expect(clippy::print_stdout, reason = "it arrives on the worker's log")]
mod tasks {
    use std::time::Duration;

    /// Hangs: it is killed after a second.
    #[delayed::task(isolation = "fork", timeout = "1s", grace = "500ms")]
    pub(super) fn hang() {
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }

    /// Eats memory until it has more than it may.
    #[delayed::task(isolation = "fork", memory = "64MB")]
    pub(super) fn eat() {
        let mut eaten = Vec::new();
        loop {
            eaten.push(vec![1_u8; 1 << 20]);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Touches memory that is not its own, as broken native code does.
    #[expect(unsafe_code, reason = "nothing else does that")]
    #[delayed::task(isolation = "prefork")]
    pub(super) fn crash() {
        let nowhere = std::ptr::without_provenance_mut::<u8>(8);
        // SAFETY: There is none: the kernel kills the process, which is what is shown.
        unsafe { nowhere.write_volatile(1) };
    }

    /// What goes well goes on, beside all of that.
    #[delayed::task(isolation = "prefork")]
    pub(super) async fn greet(name: String) {
        tracing::info!(name, "hello");
        println!("Hello, {name}!");
    }
}

fn main() -> std::process::ExitCode {
    delayed::main()
}
