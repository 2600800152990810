//! What if Redis were farther away? A proxy that hands on what it reads a while later, in both directions.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

pub struct Proxy {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Proxy {
    /// Stands before `target`.
    pub fn start(target: SocketAddr, delay: Duration) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                if let (Ok(client), Ok(server)) = (client, TcpStream::connect(target)) {
                    // What cannot be joined is dropped, and the client sees its connection end.
                    let _ = join(&client, &server, delay);
                }
            }
        });
        Ok(Self { address, over })
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; those of connections end with them.
        let _ = TcpStream::connect(self.address);
    }
}

fn join(client: &TcpStream, server: &TcpStream, delay: Duration) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    hand_on(client.try_clone()?, server.try_clone()?, delay);
    hand_on(server.try_clone()?, client.try_clone()?, delay);
    Ok(())
}

/// One direction: one thread reads, so that the other may be late with several pieces at a time.
fn hand_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
