//! A program that enqueues: PRODUCER says how it goes about it, REDIS where Redis is.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use delayed::config::Config;
use delayed::{Call, Client, Error, GoTask};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

/// Threads that enqueue while the process forks.
const THREADS: u32 = 4;
/// For how long the record of a call is kept.
const KEEP: Duration = Duration::from_secs(3600);
/// Between two calls.
const REST: Duration = Duration::from_millis(5);
/// How often it forks meanwhile.
const FORKS: u32 = 20;

static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    let mut config = Config::default();
    config.redis.url = url();
    config.redis.timeout = Duration::from_millis(50);
    Client::lazy_with_config(&config)
});

fn url() -> String {
    std::env::var("REDIS").expect("REDIS says where Redis is")
}

fn mark(n: impl ToString) -> Call {
    GoTask::new("trial.mark").arg(n.to_string()).queue("q")
}

pub(crate) fn main(kind: &str) -> ExitCode {
    match kind {
        // Its client is gone when the worker begins, which forks.
        "client before main" => {
            let client = Client::connect_blocking(&url()).expect("it connects");
            client.enqueue_blocking(mark("before")).expect("it is enqueued");
            drop(client);
            super::worker()
        }
        "lazy before main" => {
            CLIENT.enqueue_blocking(mark("refused")).expect_err("nothing listens there");
            super::worker()
        }
        "submits" | "submits later" => {
            let client = Client::connect_blocking(&url()).expect("it connects");
            let variable = |name| std::env::var(name).expect("its queue and its number");
            let number = variable("NUMBER").parse().expect("a number");
            let mut call = super::points::plain::call(number).queue(variable("QUEUE")).keep(KEEP);
            if kind == "submits later" {
                call = call.after(Duration::from_millis(100));
            }
            ExitCode::from(u8::from(client.enqueue_blocking(call).is_err()))
        }
        "fills" => {
            let client = Client::connect_blocking(&url()).expect("it connects");
            let variable = |name| std::env::var(name).expect("its queue and its number");
            let number = variable("NUMBER").parse().expect("a number");
            let call = super::points::collected::call(number).queue(variable("QUEUE"));
            ExitCode::from(u8::from(client.enqueue_blocking(call).is_err()))
        }
        "marks without end" => marks(),
        #[cfg(feature = "otel")]
        "makes spans" => {
            let collector = std::env::var("COLLECTOR").expect("COLLECTOR says where spans go");
            let exporter = delayed::otel::install(&collector).expect("it exports spans");
            let client = Client::connect_blocking(&url()).expect("it connects");
            let call = super::layers::traced::call(2, None).queue("q");
            client.enqueue_blocking(call.clone()).expect("it is enqueued");
            client.enqueue_many_blocking([call.clone()]).expect("they are enqueued");
            client.enqueue_blocking(call.max_len(1)).expect_err("the queue is full");
            exporter.shutdown();
            ExitCode::SUCCESS
        }
        #[cfg(feature = "otel")]
        "has a provider" => super::spans::main(&url()),
        kind => ExitCode::from(u8::from(run(kind).is_err())),
    }
}

/// Enqueues calls `QUEUE n.attempt`, each until it is certain that a replica has it, and says of each attempt what became of it.
#[expect(clippy::print_stdout, reason = "the test reads it")]
fn marks() -> ! {
    let queue = std::env::var("QUEUE").expect("QUEUE says where they go");
    let mut config = Config::default();
    config.redis.url = url();
    config.client.durability = "replicas(1)".parse().expect("a durability");
    config.redis.timeout = Duration::from_secs(1);
    let client = Client::lazy_with_config(&config);
    for n in 0u64.. {
        for attempt in 0u64.. {
            let call = GoTask::new("trial.mark").arg(format!("{queue} {n}.{attempt}")).queue(queue.as_str());
            match client.enqueue_blocking(call) {
                Ok(_) => break,
                Err(error) => println!("attempt {attempt} of {n}: {error}"),
            }
        }
        println!("certain {n}");
        thread::sleep(REST);
    }
    unreachable!("there is always another number")
}

fn run(kind: &str) -> Result<(), Error> {
    match kind {
        "forks" => {
            let client = Client::connect_blocking(&url())?;
            client.enqueue_blocking(mark("parent 1"))?;
            in_child(|| {
                client.enqueue_blocking(mark("child 1"))?;
                in_child(|| client.clone().enqueue_blocking(mark("grandchild")).map(drop));
                client.enqueue_many_blocking([mark("child 2")]).map_err(|_| Error::ZygoteDied)?;
                drop(client.clone());
                Ok(())
            });
            client.enqueue_blocking(mark("parent 2"))?;
        }
        "forks with a runtime" => {
            let runtime = tokio::runtime::Runtime::new().map_err(Error::Io)?;
            let client = runtime.block_on(Client::connect(&url()))?;
            runtime.block_on(client.enqueue(mark("parent 1")))?;
            in_child(|| {
                client.enqueue_blocking(mark("child 1"))?;
                let own = tokio::runtime::Builder::new_current_thread().enable_all().build();
                own.map_err(Error::Io)?.block_on(client.enqueue(mark("child 2")))?;
                Ok(())
            });
            runtime.block_on(client.enqueue(mark("parent 2")))?;
        }
        "forks while it enqueues" => {
            let client = Client::connect_blocking(&url())?;
            let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (client, stop, count) = (client.clone(), Arc::clone(&stop), Arc::clone(&count));
                    thread::spawn(move || {
                        for i in 0.. {
                            if stop.load(Ordering::Relaxed) {
                                break;
                            }
                            client.enqueue_blocking(mark(format!("{thread}/{i}"))).expect("it is enqueued");
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            for n in 0..FORKS {
                in_child(|| client.enqueue_blocking(mark(format!("child {n}"))).map(drop));
            }
            stop.store(true, Ordering::Relaxed);
            threads.into_iter().for_each(|thread| thread.join().expect("it enqueues"));
            client.enqueue_blocking(mark(format!("sum {}", count.load(Ordering::Relaxed) + FORKS)))?;
        }
        _ => panic!("no kind {kind:?}"),
    }
    Ok(())
}

/// Does something in a child, as a program does that knows nothing of us, and waits for its end.
#[expect(unsafe_code, reason = "a user's own fork")]
fn in_child(work: impl FnOnce() -> Result<(), Error>) {
    // SAFETY: The child does what it should not after a fork of a process with threads: that is what is tried.
    match unsafe { fork() }.expect("it forks") {
        ForkResult::Child => {
            let code = match work() {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("child: {error}");
                    1
                }
            };
            // SAFETY: Has no preconditions.
            unsafe { nix::libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            let status = waitpid(child, None).expect("it is our child");
            assert_eq!(status, WaitStatus::Exited(child, 0), "expected a good end of the child");
        }
    }
}
