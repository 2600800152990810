//! Bytes that are no messages are buried as they are, and cost no memory.

use std::collections::BTreeMap;

use redis::Commands;

use crate::support::process::Program;
use crate::support::trial::PATIENCE;
use crate::support::trial::{Dice, QUEUE, Trial, call, count, mark, message};
use crate::support::wait;

/// The heads of values that claim to have 4 G elements or bytes.
const HUGE: [(&str, &[u8]); 5] = [
    ("array32", &[0xdd, 0xff, 0xff, 0xff, 0xff]),
    ("map32", &[0xdf, 0xff, 0xff, 0xff, 0xff]),
    ("str32", &[0xdb, 0xff, 0xff, 0xff, 0xff]),
    ("bin32", &[0xc6, 0xff, 0xff, 0xff, 0xff]),
    ("ext32", &[0xc9, 0xff, 0xff, 0xff, 0xff, 0x01]),
];

/// The most memory that a process has had, in KiB.
fn peak(program: &Program) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells the peak");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs `messages` with a good one behind them; gives how often each reason stands in the dead letters.
#[track_caller]
fn buries_all(messages: &[Vec<u8>]) -> BTreeMap<String, usize> {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let before = peak(&worker);
    trial.push(messages);
    trial.push(&[mark("good")]);
    trial.wait_settled();
    let grown = peak(&worker) - before;
    assert!(grown < 64 << 10, "expected little memory for {} messages, it took {grown} KiB", messages.len());
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "buried"), messages.len() as u64, "{stopped}");
    trial.ledger.assert_each_once(["good"]);
    let state = trial.state();
    let mut sent = messages.to_vec();
    let mut dead: Vec<Vec<u8>> = state.dead.iter().map(|letter| letter["message"].clone()).collect();
    sent.sort();
    dead.sort();
    assert_eq!(dead, sent, "expected all of them, to the byte, among the dead letters");
    trial.assert_only(&["q_dead"]);
    let mut reasons = BTreeMap::new();
    for letter in &state.dead {
        let reason = String::from_utf8(letter["reason"].clone()).unwrap();
        assert!(!letter["detail"].is_empty(), "expected a sentence beside {reason}");
        *reasons.entry(reason).or_insert(0) += 1;
    }
    reasons
}

#[test]
fn random_bytes_are_buried() {
    let mut dice = Dice(0x0de1_a7ed);
    let mut messages = vec![Vec::new(), vec![0x91], vec![0xc1], mark("cut")[..9].to_vec()];
    while messages.len() < 500 {
        let length = dice.roll(64) + 1;
        let mut bytes: Vec<u8> = (0..length).map(|_| dice.roll(256) as u8).collect();
        // Half of them begin as messages do.
        if messages.len().is_multiple_of(2) {
            bytes.splice(0..0, mark("x")[..dice.roll(14) + 1].to_vec());
        }
        messages.push(bytes);
    }
    let reasons = buries_all(&messages);
    assert!(reasons["malformed"] > 300, "expected most of them to be called malformed: {reasons:?}");
    assert!(!reasons.contains_key("failed"), "expected none of them to run: {reasons:?}");
}

#[test]
fn lengths_of_4_g_are_refused_before_anything_is_allocated() {
    let mut messages = Vec::new();
    for (_, head) in HUGE {
        messages.push(head.to_vec());
        messages.push([&[0x92][..], head].concat());
        messages.push([&message("trial.mark", b"")[..12], head].concat());
        messages.push(message("trial.mark", head));
        messages.push(message("trial.pair", &[&[0x92, 1][..], head].concat()));
        messages.push(message("trial.length", head));
        // In the meta, and among Python's keywords.
        messages.push([&[0x93][..], &mark("meta")[1..], head].concat());
        messages.push([&[0x93, 0xaa][..], b"trial.mark", &[0x90], head].concat());
        messages.push([&[0x93, 0xaa][..], b"trial.mark", &[0x90, 0x81, 0xa1, b'n'], head].concat());
    }
    buries_all(&messages);
}

#[test]
fn ten_thousand_levels_of_nesting_are_refused() {
    let lists = [vec![0x91; 10_000], vec![0xc0]].concat();
    let maps = [[0x81, 0xa1, b'k'].repeat(10_000), vec![0xc0]].concat();
    let mut messages = Vec::new();
    for deep in [lists, maps] {
        messages.push(deep.clone());
        messages.push([&[0x92, 0xaa][..], b"trial.mark", &deep].concat());
        messages.push([&[0x92, 0xaa][..], b"trial.mark", &[0x91], &deep].concat());
        messages.push([&[0x93][..], &mark("meta")[1..], &deep].concat());
        messages.push([&[0x93, 0xaa][..], b"trial.mark", &[0x90, 0x81, 0xa1, b'n'], &deep].concat());
        messages.push([&[0x93, 0xaa][..], b"trial.mark", &[0x90, 0x81, 0xa1, b'x'], &deep].concat());
        messages.push(message("trial.mark", &deep));
        messages.push(message("trial.length", &deep));
        messages.push(message("trial.pair", &[&[0x92, 1][..], &deep].concat()));
    }
    buries_all(&messages);
}

#[test]
fn a_payload_of_64_mib_runs_and_a_client_refuses_to_send_it() {
    let mut trial = Trial::new();
    let size = 64 << 20;
    let mut payload = vec![0xc6];
    payload.extend_from_slice(&u32::try_from(size).unwrap().to_be_bytes());
    payload.resize(payload.len() + size, 7);
    let client = delayed::Client::connect_blocking(&trial.server.url()).unwrap();
    let huge = delayed::GoTask::new("trial.length").arg(serde_bytes::Bytes::new(&payload[5..])).queue(QUEUE);
    let error = client.enqueue_blocking(huge).unwrap_err();
    assert!(!error.may_have_been_applied() && !error.is_retryable(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("16777216") && text.contains("client.max_message"), "expected the limit: {text}");
    assert!(trial.state().keys.is_empty(), "expected nothing to have been sent");

    trial.push(&[message("trial.length", &payload), mark("behind")]);
    drop(payload);
    let mut worker = trial.worker(&[]);
    trial.wait_settled();
    // It is idle again, and lets the bytes go.
    wait::until("the worker to wait for more", PATIENCE, || {
        trial.redis.hlen::<_, u64>("q_processing").unwrap() == 0
    });
    trial.stop(&mut worker);
    trial.ledger.assert_each_once([size.to_string().as_str(), "behind"]);
    trial.assert_only(&[]);
}

#[test]
fn a_message_of_a_megabyte_that_cannot_be_read_is_buried_whole() {
    let reasons =
        buries_all(&[vec![0x93; 1 << 20], call("trial.mark", &["x".repeat(1 << 20).into(), 1.into()])]);
    assert_eq!(reasons["malformed"] + reasons["arguments"], 2, "{reasons:?}");
}
