//! The units of systemd.

use std::process::Command;

use super::{path, shutdown, succeed, text};
use crate::support::directory;
use crate::support::process::DELAYED;

const UNITS: [&str; 4] =
    ["delayed-worker@.service", "delayed-sweeper.service", "delayed-gateway.service", "delayed-web.service"];

/// The most that `systemd-analyze security` may find, of 100.
const EXPOSURE: &str = "--threshold=40";

/// The value of a setting of a unit.
fn setting(unit: &str, name: &str) -> String {
    let text = text(&format!("systemd/{unit}"));
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("expected {name}= in {unit}")).to_owned()
}

#[test]
fn systemd_accepts_the_units_and_finds_them_hardened() {
    let directory = directory();
    for unit in UNITS {
        // The programs are not installed here.
        let program = setting(unit, "ExecStart").split(' ').next().unwrap().to_owned();
        let copy = directory.path().join(unit);
        std::fs::write(&copy, text(&format!("systemd/{unit}")).replace(&program, DELAYED)).unwrap();
        let printed = succeed(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy));
        let ours: Vec<&str> = printed.lines().filter(|line| line.contains("delayed-")).collect();
        assert!(ours.is_empty(), "expected no complaint about {unit}: {ours:?}");
        let security = ["security", "--offline=true", EXPOSURE];
        succeed(Command::new("systemd-analyze").args(security).arg(path(&format!("systemd/{unit}"))));
    }
}

#[test]
fn units_start_commands_with_flags_that_exist() {
    for unit in UNITS {
        let start = setting(unit, "ExecStart").replace("%i", "mail");
        succeed(Command::new(DELAYED).args(start.split(' ').skip(1)).arg("--help"));
    }
}

#[test]
fn units_wait_for_the_drain_and_feed_the_watchdog() {
    for unit in UNITS {
        assert_eq!(setting(unit, "Type"), "notify", "{unit}");
        assert_eq!(setting(unit, "WatchdogSec"), "30", "{unit}");
        let stop: u64 = setting(unit, "TimeoutStopSec").parse().unwrap();
        let drains = unit.contains("worker");
        assert!(!drains || stop > shutdown() + 5, "{unit} stops after {stop} s, drains {} s", shutdown());
    }
}
