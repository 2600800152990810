//! Hosts with networks of their own, of which any two can be cut off from each other: network namespaces that a router joins.
//! They are gone when their processes are.

use std::process::{Command, Stdio};

use super::process::Program;

/// Prepares a namespace and says so. It ends with whoever holds its input.
const HOLD: &str = "ip link set lo up && echo ready && read end";
/// The same of the router.
const ROUTE: &str = "echo 1 >/proc/sys/net/ipv4/ip_forward && ip link set lo up && echo ready && read end";

/// Hosts that reach each other through a router.
pub(crate) struct Network {
    router: Space,
    hosts: Vec<Space>,
}

/// A namespace, and what holds it.
struct Space {
    program: Program,
    /// Dropped, it ends the program: also if whoever started it is killed.
    _input: std::io::PipeWriter,
}

impl Space {
    fn start(command: &mut Command, script: &str) -> Self {
        let (reader, input) = std::io::pipe().expect("a pipe");
        let program = Program::fed(command.args(["sh", "-c", script]), reader);
        program.wait_for_line("ready");
        Self { program, _input: input }
    }

    /// What runs a command in this namespace: these words before it.
    fn words(&self) -> Vec<String> {
        let words = ["nsenter", "--preserve-credentials", "--user", "--net", "--target"];
        words.into_iter().map(String::from).chain([self.program.pid().to_string()]).collect()
    }

    fn command(&self) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Runs a script here.
    #[track_caller]
    fn run(&self, script: &str) {
        let output = self.command().args(["sh", "-ec", script]).stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("expected to run {script}: {error}"));
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Network {
    /// So many hosts.
    pub(crate) fn start(count: usize) -> Self {
        let mut unshare = Command::new("unshare");
        let router = Space::start(unshare.args(["--user", "--map-root-user", "--net"]), ROUTE);
        let hosts: Vec<Space> =
            (0..count).map(|_| Space::start(router.command().args(["unshare", "--net"]), HOLD)).collect();
        for (index, host) in hosts.iter().enumerate() {
            let (address, gateway) = (address(index), gateway(index));
            router.run(&format!(
                "ip link add v{index} type veth peer name eth0 netns {pid}
                ip addr add {gateway}/24 dev v{index}
                ip link set v{index} up",
                pid = host.program.pid(),
            ));
            host.run(&format!(
                "ip addr add {address}/24 dev eth0
                ip link set eth0 up
                ip route add default via {gateway}"
            ));
        }
        Self { router, hosts }
    }

    pub(crate) fn address(&self, host: usize) -> String {
        assert!(host < self.hosts.len(), "expected one of {} hosts, not {host}", self.hosts.len());
        address(host)
    }

    /// What runs a program on this host: these words before it. It ends with the thread that started it.
    pub(crate) fn words(&self, host: usize) -> Vec<String> {
        let mut words = self.hosts[host].words();
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(String::from));
        words
    }

    /// Loses all that one host sends to the others, and they to it.
    pub(crate) fn cut(&self, host: usize, others: &[usize]) {
        self.change("add", host, others);
    }

    /// Ends what [`Self::cut`] began.
    pub(crate) fn heal(&self, host: usize, others: &[usize]) {
        self.change("del", host, others);
    }

    fn change(&self, what: &str, host: usize, others: &[usize]) {
        let here = address(host);
        let rule = |from: &str, to: &str| format!("ip rule {what} pref 10 from {from} to {to} blackhole\n");
        let rules = others.iter().map(|other| address(*other));
        self.router.run(&rules.map(|other| rule(&here, &other) + &rule(&other, &here)).collect::<String>());
    }
}

fn address(host: usize) -> String {
    format!("10.77.{host}.2")
}

fn gateway(host: usize) -> String {
    format!("10.77.{host}.1")
}
