//! Receives webhooks over HTTP: an event becomes one call, however often and to however many receivers it is delivered.
//!
//! Run it with the address of a Redis, and an address to listen on, by default `127.0.0.1:0`:
//! `curl -d 'order 7 is paid' http://127.0.0.1:PORT/evt_1`. It is a receiver and a worker until a signal stops it.

#![expect(clippy::print_stdout, reason = "it shows what becomes of the events")]

use std::io;
use std::time::Duration;

use delayed::{Client, Error, Worker};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// For longer than the sender repeats an event that was not answered.
const KEEP: Duration = Duration::from_secs(3 * 24 * 3600);

#[delayed::task(retry = 10)]
async fn handle(event: String, text: String) {
    println!("handled {event}: {text}");
}

/// Enqueues the call of an event. Returns the status of the response, and its text.
async fn receive(client: &Client, event: &str, text: String) -> (&'static str, String) {
    let call = handle::call(event.into(), text).id(format!("webhook:{event}")).keep(KEEP);
    match client.enqueue(call).await {
        Ok(_) => ("202 Accepted", "accepted".into()),
        Err(Error::Exists { state, .. }) => ("200 OK", format!("already {state}")),
        // The sender repeats it; if this one was enqueued nevertheless, its id exists.
        Err(error) => ("503 Service Unavailable", error.to_string()),
    }
}

/// Answers one request. A program of yours has a web framework for this.
async fn answer(client: Client, mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(&mut stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut text = String::new();
    reader.take(length).read_to_string(&mut text).await?;
    let event = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, text) = receive(&client, event, text).await;
    let length = text.len();
    let response =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
    stream.write_all(response.as_bytes()).await
}

async fn listen(client: Client, listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(client.clone(), stream));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("give the address of a Redis")?;
    let listener = TcpListener::bind(arguments.next().as_deref().unwrap_or("127.0.0.1:0")).await?;
    let client = Client::connect(&url).await?;
    let worker = Worker::builder(&url).signals(true).connect().await?;
    println!("listening on {}", listener.local_addr()?);
    tokio::select! {
        stopped = worker.run() => drop(stopped?),
        failed = listen(client, listener) => failed?,
    }
    Ok(())
}
