//! The programs of `docs/recipes.md` do what it says, and the code of other documents is that of programs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use nix::sys::signal::Signal;
use redis::Commands;

use super::support::example::example;
use super::support::process::Program;
use super::support::trial::{PATIENCE, Trial, call};
use super::support::{root, wait};

/// A bank that answers at a socket, and refuses while it is down.
#[derive(Clone)]
struct Bank {
    socket: PathBuf,
    is_up: Arc<AtomicBool>,
    /// The orders that it was asked to charge, and whether it did.
    asked: Arc<Mutex<Vec<(u64, bool)>>>,
}

impl Bank {
    fn open(socket: PathBuf) -> Self {
        let bank = Self { socket, is_up: Arc::default(), asked: Arc::default() };
        let listener = UnixListener::bind(&bank.socket).unwrap();
        let here = bank.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A caller that has gone does not end the bank.
                let _ = here.answer(stream.unwrap());
            }
        });
        bank
    }

    fn answer(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let is_up = self.is_up.load(Ordering::SeqCst);
        self.asked.lock().unwrap().push((line.trim().parse().map_err(std::io::Error::other)?, is_up));
        stream.write_all(if is_up { b"+" } else { b"-" })
    }

    fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// How often each order was charged.
    fn charged(&self) -> BTreeMap<u64, u32> {
        let mut charged = BTreeMap::new();
        for (order, _) in self.asked.lock().unwrap().iter().filter(|(_, is_up)| *is_up) {
            *charged.entry(*order).or_default() += 1;
        }
        charged
    }
}

fn charges(orders: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    orders.map(|order| call("circuit_breaker::charge", &[order.into()])).collect()
}

#[test]
fn breaker_opens_nothing_runs_and_it_closes_again() {
    let mut trial = Trial::new();
    let bank = Bank::open(trial.gate("bank.sock"));
    let program = example("circuit_breaker");
    let mut command = trial.command(program.to_str().unwrap());
    let mut worker = Program::spawn(command.arg(trial.server.url()).arg(&bank.socket));
    worker.wait_for_line("serving");

    trial.push_to("bank", &charges(0..12));
    worker.wait_for_line("opened: bank is paused for 2s");
    wait::until("the last runs to end", PATIENCE, || {
        trial.redis.hlen::<_, u64>("bank_processing").unwrap() == 0
    });
    let before = bank.asked();
    bank.set_up(true);
    trial.push_to("bank", &charges(12..15));
    assert!(trial.redis.llen::<_, u64>("bank").unwrap() >= 3, "expected calls that could run");
    wait::until("the breaker to close", PATIENCE, || {
        let asked = bank.asked();
        let is_open: bool = trial.redis.exists("bank_paused").unwrap();
        assert!(!is_open || asked == before, "expected nothing to run while the breaker is open");
        !is_open
    });
    worker.wait_for_line("closed: bank is resumed");
    wait::until_ok(PATIENCE, || match bank.charged() {
        charged if charged.len() == 15 => Ok(()),
        charged => Err(format!("all orders to be charged, not {charged:?}")),
    });
    assert_eq!(bank.charged(), (0..15).map(|order| (order, 1)).collect());

    // It opens again, and leaves the pause of somebody else.
    bank.set_up(false);
    trial.push_to("bank", &charges(15..22));
    wait::until("it to open again", PATIENCE, || trial.redis.exists("bank_paused").unwrap());
    let inspect = async {
        let inspector = delayed::Inspector::connect(&trial.server.url()).await?;
        inspector.resume(&"bank".parse()?, "ann").await?;
        inspector.pause(&"bank".parse()?, "ann").await
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(inspect).unwrap();
    wait::until("all calls that close it to have run", PATIENCE, || {
        let (due, waiting): (u64, u64) =
            (trial.redis.zcard("breaker_due").unwrap(), trial.redis.llen("breaker").unwrap());
        (due, waiting, trial.redis.hlen("breaker_processing").unwrap()) == (0, 0, 0)
    });
    assert!(trial.redis.exists::<_, bool>("bank_paused").unwrap(), "{}", worker.printed());
    worker.signal(Signal::SIGTERM);
    assert!(worker.wait_exit(PATIENCE).success(), "{}", worker.printed());
}

/// Delivers an event. Returns the status, and the text.
fn deliver(address: &str, event: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "POST /{event} HTTP/1.1\r\nHost: shop\r\nContent-Length: 4\r\n\r\npaid").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, text) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), text.to_owned())
}

#[test]
fn fifty_deliveries_of_one_event_are_handled_once() {
    let mut trial = Trial::new();
    let program = example("webhook");
    // Two receivers, as behind a load balancer.
    let mut receivers: Vec<Program> = (0..2)
        .map(|_| Program::spawn(trial.command(program.to_str().unwrap()).arg(trial.server.url())))
        .collect();
    let addresses: Vec<String> = (receivers.iter())
        .map(|receiver| receiver.wait_for_line("listening on ").replace("listening on ", ""))
        .collect();
    let together = Barrier::new(50);
    let answers: Vec<(String, String)> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..50)
            .map(|n| {
                let (together, address) = (&together, &addresses[n % 2]);
                scope.spawn(move || {
                    together.wait();
                    deliver(address, "evt_1")
                })
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let accepted = answers.iter().filter(|(status, _)| status == "202").count();
    let known = answers.iter().filter(|(status, text)| status == "200" && text.starts_with("already "));
    assert_eq!((accepted, known.count()), (1, 49), "{answers:?}");

    wait::until_ok(PATIENCE, || {
        let keys: Vec<Vec<u8>> = trial.redis.keys("default:c:*").unwrap();
        let [record] = &keys[..] else { return Err(format!("one record, not {keys:?}")) };
        match trial.redis.hget::<_, _, String>(record, "state").unwrap() {
            state if state == "succeeded" => Ok(()),
            state => Err(format!("the call to succeed, not to be {state}")),
        }
    });
    assert_eq!(deliver(&addresses[0], "evt_1"), ("200".into(), "already succeeded".into()));
    assert_eq!(deliver(&addresses[1], "evt_2").0, "202", "expected another event to be another call");
    trial.wait_settled();
    for receiver in &mut receivers {
        receiver.signal(Signal::SIGTERM);
        assert!(receiver.wait_exit(PATIENCE).success(), "{}", receiver.printed());
    }
    let printed: String = receivers.iter_mut().map(Program::last_words).collect();
    assert_eq!(printed.matches("handled evt_1: paid").count(), 1, "{printed}");
    assert_eq!(printed.matches("handled evt_2: paid").count(), 1, "{printed}");
}

/// The parts of the code of a document between empty lines, without their indentation.
fn parts_of_code(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let blocks = text.split("\n```rust\n").skip(1).map(|block| block.split("\n```").next().unwrap());
    blocks.flat_map(|block| block.split("\n\n")).map(without_indentation).collect()
}

fn without_indentation(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn code_of_layers_and_traces_is_that_of_the_examples() {
    for (document, program, least) in [
        ("docs/middleware.md", "examples/middleware.rs", 6),
        ("docs/telemetry.md", "examples/opentelemetry.rs", 4),
    ] {
        let text = without_indentation(&std::fs::read_to_string(root().join(program)).unwrap());
        let parts = parts_of_code(document);
        assert!(parts.len() >= least, "expected code in {document}: {parts:#?}");
        for part in parts {
            assert!(text.contains(&part), "expected {program} to have this text of {document}:\n{part}");
        }
    }
}

#[test]
fn code_of_the_recipes_is_that_of_the_programs() {
    let document = std::fs::read_to_string(root().join("docs/recipes.md")).unwrap();
    let mut blocks = 0;
    for section in document.split("\n## ").skip(1) {
        let file = section.split('`').find(|word| word.starts_with("examples/")).expect("a program");
        let file = root().join(file);
        let file = if file.is_dir() { file.join("src/main.rs") } else { file };
        let program = std::fs::read_to_string(&file).unwrap();
        for block in section.split("\n```rust\n").skip(1) {
            let block = block.split("\n```").next().unwrap();
            assert!(program.contains(block), "expected {} to have this text:\n{block}", file.display());
            blocks += 1;
        }
    }
    assert!(blocks >= 3, "expected the recipes to have code, there are {blocks} blocks");
}
