//! The manifests of Kubernetes.

use std::process::Command;

use serde_json::Value;

use super::{path, shutdown, strings, succeed, yaml};
use crate::support::example::example;
use crate::support::python;

fn deployments() -> Vec<Value> {
    let files = yaml("kubernetes/kustomization.yaml").remove(0);
    let documents =
        strings(&files["resources"]).into_iter().flat_map(|file| yaml(&format!("kubernetes/{file}")));
    documents.filter(|document| document["kind"] == "Deployment").collect()
}

#[test]
fn manifests_are_what_kubernetes_expects() {
    let validate = python::interpreter().with_file_name("kubernetes-validate");
    for file in ["worker.yaml", "sweeper.yaml", "gateway.yaml", "hpa.yaml"] {
        succeed(Command::new(&validate).arg("--strict").arg(path(&format!("kubernetes/{file}"))));
    }
}

#[test]
fn pods_start_commands_with_flags_that_exist() {
    let deployments = deployments();
    assert_eq!(deployments.len(), 3);
    for deployment in deployments {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        succeed(Command::new(example("quickstart")).args(strings(&container["args"])).arg("--help"));
    }
}

#[test]
fn pods_have_probes_and_time_to_drain() {
    for deployment in deployments() {
        let name = &deployment["metadata"]["name"];
        let spec = &deployment["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            assert_eq!(container[probe]["httpGet"]["path"], path, "{name}");
            assert_eq!(container[probe]["httpGet"]["port"], "metrics", "{name}");
            // `/readyz` answers within 3 s.
            assert!(container[probe]["timeoutSeconds"].as_u64() > Some(3), "{name}: {probe}");
        }
        let port = container["ports"][0]["containerPort"].to_string();
        assert!(strings(&container["args"]).contains(&format!("0.0.0.0:{port}")), "{name}");
        let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(name != "delayed-worker" || grace > shutdown() + 5, "{name} has {grace} s");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels, "{name}");
    }
}

#[test]
fn autoscalers_scale_the_worker_by_its_backlog() {
    let [keda, hpa] = ["keda.yaml", "hpa.yaml"].map(|file| yaml(&format!("kubernetes/{file}")).remove(0));
    for scaler in [&keda, &hpa] {
        assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], "delayed-worker");
    }
    // No schema of KEDA is at hand: these are the fields which it requires.
    assert_eq!(
        (keda["apiVersion"].as_str(), keda["kind"].as_str()),
        (Some("keda.sh/v1alpha1"), Some("ScaledObject"))
    );
    let trigger = &keda["spec"]["triggers"][0];
    assert_eq!(trigger["type"], "prometheus");
    for field in ["serverAddress", "query", "threshold"] {
        assert!(trigger["metadata"][field].is_string(), "expected a text {field}: KEDA rejects other types");
    }
    assert!(
        trigger["metadata"]["query"].as_str().unwrap().contains("delayed_queue_waiting{queue=\"default\"}")
    );
    assert_eq!(hpa["spec"]["metrics"][0]["external"]["metric"]["name"], "delayed_queue_waiting");
}
