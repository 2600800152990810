//! A master, its replicas, and the Sentinels that elect one of them when it fails: real servers on loopback ports.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::Connection;

use super::redis::{Options, TestRedis, free_port, read};
use super::wait;

/// How long the servers may take to agree. On a machine that is busy, a Sentinel that wakes late does nothing for half a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// What the Sentinels call the master.
pub(crate) const NAME: &str = "mymaster";

/// How many Sentinels there are, and how many must agree.
const SENTINELS: usize = 3;
const QUORUM: usize = 2;

/// A master that is watched.
pub(crate) struct Watched {
    sentinels: Vec<Sentinel>,
    /// First the master, as it was at the start.
    servers: Vec<TestRedis>,
}

/// How servers and Sentinels are started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logins {
    /// The password of the servers.
    pub(crate) servers: Option<&'static str>,
    /// The password of the Sentinels.
    pub(crate) sentinels: Option<&'static str>,
}

struct Sentinel {
    child: Child,
    port: u16,
    password: Option<&'static str>,
    _directory: tempfile::TempDir,
}

impl Watched {
    /// A master and a replica of it, both known to all Sentinels when this returns.
    pub(crate) fn start(logins: &Logins, program: Option<PathBuf>) -> Self {
        let options = |extra: Vec<String>| Options {
            tcp: true,
            password: logins.servers,
            program: program.clone(),
            extra: [extra, ["--repl-diskless-sync-delay", "0"].map(Into::into).into()].concat(),
            ..Options::default()
        };
        // It may become a replica later.
        let auth: Vec<String> =
            logins.servers.iter().flat_map(|word| ["--masterauth".to_owned(), (*word).to_owned()]).collect();
        let master = TestRedis::with(options(auth.clone()));
        let follow = ["--replicaof".to_owned(), "127.0.0.1".to_owned(), master.port().to_string()];
        let replica = TestRedis::with(options([auth, follow.into()].concat()));
        wait::until("the replica to follow", PATIENCE, || {
            let told: String = read(&mut replica.connection(), redis::cmd("INFO").arg("replication"));
            told.contains("master_link_status:up")
        });
        let sentinels = (0..SENTINELS).map(|_| Sentinel::start(master.port(), logins)).collect();
        let watched = Self { sentinels, servers: vec![master, replica] };
        wait::until("the Sentinels to know each other and the replica", PATIENCE, || {
            watched.sentinels.iter().all(|sentinel| {
                let Some(mut sentinel) = sentinel.connect() else { return false };
                let told: String = read(&mut sentinel, redis::cmd("INFO").arg("sentinel"));
                told.contains("status=ok") && told.contains("slaves=1,sentinels=3")
            })
        });
        watched
    }

    /// The address, with this in place of `LOGIN@` and behind the name of the master.
    pub(crate) fn url_with(&self, login: &str, query: &str) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        format!("redis-sentinel://{login}{}/{NAME}{query}", hosts.join(","))
    }

    /// The address, where nothing has a password.
    pub(crate) fn url(&self) -> String {
        self.url_with("", "")
    }

    /// The address of one Sentinel, as of a plain server.
    pub(crate) fn plain_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.sentinels[0].port)
    }

    /// A server: first the master, as it was at the start.
    pub(crate) fn server(&self, index: usize) -> &TestRedis {
        &self.servers[index]
    }

    pub(crate) fn server_mut(&mut self, index: usize) -> &mut TestRedis {
        &mut self.servers[index]
    }

    /// Waits until most Sentinels name this server, and it is a master.
    pub(crate) fn wait_master(&self, index: usize) {
        wait::until("the Sentinels to elect", PATIENCE, || {
            let is_named = |sentinel: &&Sentinel| sentinel.master() == Some(self.servers[index].port());
            self.sentinels.iter().filter(is_named).count() >= QUORUM && self.is_master(index)
        });
    }

    fn is_master(&self, index: usize) -> bool {
        let told: String = read(&mut self.servers[index].connection(), redis::cmd("INFO").arg("replication"));
        told.contains("role:master")
    }

    /// Lets one Sentinel, which hears no others, name the first master for ever.
    pub(crate) fn mislead(&self, index: usize) {
        let sentinel = &self.sentinels[index];
        let mut connection = sentinel.connect().expect("it runs");
        let () = read(&mut connection, redis::cmd("SENTINEL").arg("REMOVE").arg(NAME));
        let mut monitor = redis::cmd("SENTINEL");
        // As many votes as there are none.
        monitor.arg("MONITOR").arg(NAME).arg("127.0.0.1").arg(self.servers[0].port()).arg(99);
        let () = read(&mut connection, &monitor);
    }
}

impl Sentinel {
    fn start(master: u16, logins: &Logins) -> Self {
        let directory = super::directory();
        let port = free_port();
        let file = directory.path().join("sentinel.conf");
        let mut config = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nlogfile {}\nsentinel monitor {NAME} 127.0.0.1 {master} {QUORUM}\n\
            sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 4000\n",
            directory.path().display(),
            directory.path().join("log").display(),
        );
        if let Some(password) = logins.servers {
            config += &format!("sentinel auth-pass {NAME} {password}\n");
        }
        if let Some(password) = logins.sentinels {
            config += &format!("requirepass {password}\nsentinel sentinel-pass {password}\n");
        }
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("redis-server starts");
        Self { child, port, password: logins.sentinels, _directory: directory }
    }

    fn connect(&self) -> Option<Connection> {
        let login = self.password.map_or_else(String::new, |word| format!(":{word}@"));
        let client = redis::Client::open(format!("redis://{login}127.0.0.1:{}", self.port)).unwrap();
        client.get_connection_with_timeout(PATIENCE).ok()
    }

    /// The port of the master that it names.
    fn master(&self) -> Option<u16> {
        let command = redis::cmd("SENTINEL").arg("get-master-addr-by-name").arg(NAME).to_owned();
        let (_, port): (String, u16) = read(&mut self.connect()?, &command);
        Some(port)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
