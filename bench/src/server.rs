//! A private Redis for one run: a loopback port and a directory of its own, nothing on disk.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    process: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory for Redis");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("a port").port();
        drop(free);
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string())
            .arg("--dir")
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server runs: apt-get install redis-server");
        let server = Self { process, port, _dir: dir };
        let began = Instant::now();
        while redis::Client::open(server.url()).and_then(|client| client.get_connection()).is_err() {
            assert!(began.elapsed() < Duration::from_secs(10), "Redis came up");
            std::thread::sleep(Duration::from_millis(2));
        }
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn address(&self) -> std::net::SocketAddr {
        (std::net::Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn connect(&self) -> redis::Connection {
        let info = redis::IntoConnectionInfo::into_connection_info(self.url()).expect("an address");
        let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = redis::Client::open(info.set_tcp_settings(settings)).expect("an address");
        client.get_connection().expect("Redis answers")
    }

    /// The version of Redis.
    pub fn version(&self) -> String {
        let info: String = redis::cmd("INFO").arg("server").query(&mut self.connect()).unwrap_or_default();
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        version.unwrap_or_default().trim().into()
    }

    /// Its resident memory, in bytes.
    pub fn resident(&self) -> u64 {
        resident(self.process.id())
    }

    /// Seconds of processor time that Redis has used.
    pub fn cpu(&self) -> f64 {
        cpu_of_threads(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Seconds of processor time that the threads which a process has now have used. Finer than `stat`, which tells
/// hundredths of a second: an idle worker takes many seconds for one of them.
pub fn cpu_of_threads(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}

/// The bytes that Redis has allocated, but for what it keeps for its connections: those differ by how whoever is
/// connected sends, and are soon freed.
pub fn used(connection: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("memory").query(connection).expect("answers");
    let all = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("says");
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(connection).expect("answers");
    let kept = clients.split(' ').filter_map(|field| field.strip_prefix("tot-mem="));
    all.trim().parse::<u64>().expect("a number")
        - kept.map(|bytes| bytes.parse::<u64>().expect("a number")).sum::<u64>()
}

/// Comes back when this holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(120), "waited for this in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Memory that a process shares with no other, in bytes.
pub fn private(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let lines = rollup.lines().filter(|line| line.starts_with("Private_"));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>() * 1024
}

/// Resident memory of a process, in bytes.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
