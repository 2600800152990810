//! The image, and the services of `compose.yaml`.

use std::process::Command;

use serde_json::Value;

use super::{path, shutdown, strings, succeed, text, yaml};
use crate::support::example::example;
use crate::support::root;

fn services() -> Vec<(String, Value)> {
    let compose = yaml("compose.yaml").remove(0);
    let services = compose["services"].as_object().unwrap();
    services.iter().map(|(name, service)| (name.clone(), service.clone())).collect()
}

#[test]
fn compose_starts_commands_with_flags_that_exist() {
    let ours = services().into_iter().filter(|(_, service)| service["image"] == "my_app");
    let names: Vec<String> = ours
        .map(|(name, service)| {
            succeed(Command::new(example("quickstart")).args(strings(&service["command"])).arg("--help"));
            name
        })
        .collect();
    assert_eq!(names, ["worker", "sweeper", "gateway", "exporter"]);
}

#[test]
fn compose_opens_ports_on_this_machine_only() {
    let mut ports = 0;
    for (name, service) in services() {
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: {port}");
            ports += 1;
        }
    }
    assert_eq!(ports, 3, "expected ports of the gateway, Prometheus and Grafana");
}

#[test]
fn compose_mounts_files_that_exist_and_waits_for_the_drain() {
    for (name, service) in services() {
        for volume in strings(&service["volumes"]) {
            let source = volume.split(':').next().unwrap();
            assert!(!source.starts_with('.') || path(source).exists(), "{name} mounts {volume}");
        }
        if name == "worker" {
            let grace = service["stop_grace_period"].as_str().unwrap();
            let grace: u64 = grace.strip_suffix('s').unwrap().parse().unwrap();
            assert!(grace > shutdown() + 5, "expected more than {} s: {grace} s", shutdown());
        }
    }
}

#[test]
fn prometheus_scrapes_services_that_show_metrics() {
    let services = services();
    let config = yaml("prometheus/prometheus.yml").remove(0);
    let targets = strings(&config["scrape_configs"][0]["static_configs"][0]["targets"]);
    assert_eq!(targets.len(), 4, "{targets:?}");
    for target in targets {
        let (host, port) = target.split_once(':').unwrap();
        let service = services.iter().find(|(name, _)| name == host);
        let (_, service) = service.unwrap_or_else(|| panic!("expected a service {host} in compose.yaml"));
        let listens = format!("0.0.0.0:{port}");
        assert!(strings(&service["command"]).contains(&listens), "expected {host} to listen on {listens}");
    }
}

#[test]
fn the_image_builds_a_program_of_this_repository() {
    let text = text("Containerfile");
    let argument = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("ARG {name}=")));
        line.unwrap_or_else(|| panic!("expected ARG {name}")).trim_matches('"').to_owned()
    };
    let rust = format!("rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(text.contains(&rust), "expected the oldest Rust of Cargo.toml, {rust}");
    assert!(text.contains(":nonroot"), "expected an image whose user is not root");
    let (build, program) = (argument("BUILD"), argument("PROGRAM"));
    let name = program.strip_prefix("examples/").unwrap();
    assert!(build.ends_with(&format!("--example {name}")), "{build} makes no {program}");
    let ignored = self::text("Containerfile.dockerignore");
    for ignored in ignored.lines().filter(|line| !line.contains('*')) {
        let needed = ["src", "macros", "lua", "examples", "tests", "Cargo.toml", "Cargo.lock", "README.md"];
        assert!(!needed.contains(&ignored), "the build needs {ignored}");
    }
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for feature in build.split(' ').nth(1).unwrap().split(',') {
        assert!(manifest.contains(&format!("\n{feature} = [")), "expected a feature {feature}");
    }
}
