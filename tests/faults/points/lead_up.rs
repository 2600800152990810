//! What several scenes have in common: how they lead up to a point.

use delayed::__private::protocol::keys::waiters;
use delayed::__private::protocol::limit::LimitKeys;
use delayed::__private::protocol::periodic::Definition;
use delayed::__private::script_text;
use delayed::CallId;
use redis::Commands;

use super::case::{Party, Stage, call};
use crate::support::process::Program;
use crate::support::redis::read;
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// Sets what the limit of the case allows.
pub(super) fn limit(stage: &mut Stage<'_>, policy: &[(&str, u64)]) {
    let keys = LimitKeys::new(&stage.case.limit());
    let () = stage.redis.hset_multiple(&keys.policy, policy).unwrap();
}

pub(super) fn server_ms(stage: &mut Stage<'_>) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut stage.redis).unwrap();
    seconds * 1000 + micros / 1000
}

/// Somebody holds the limit for a while.
pub(super) fn hold(stage: &mut Stage<'_>, keys: &LimitKeys) {
    let ends = server_ms(stage) + 4000;
    let () = stage.redis.zadd(&keys.holders, "somebody#1", ends).unwrap();
}

/// The call waits for its limit, which somebody holds.
pub(super) fn leave_parked(stage: &mut Stage<'_>) {
    limit(stage, &[("concurrency", 1)]);
    let (keys, queue, hit) = (LimitKeys::new(&stage.case.limit()), stage.case.queue(), stage.case.hit());
    hold(stage, &keys);
    let (waiters, entry) = (waiters(&queue, &stage.case.limit()), format!("{} {queue}", sha1(stage, &hit)));
    let () = stage.redis.rpush(waiters, hit).unwrap();
    let () = stage.redis.sadd(format!("{queue}_parked"), stage.case.limit().as_str()).unwrap();
    let () = stage.redis.rpush(&keys.line, entry).unwrap();
}

/// An operator lets the call run that waits for its limit.
pub(super) fn raise_limit(stage: &mut Stage<'_>) {
    leave_parked(stage);
    stage.start(&["limits", "set", stage.case.limit().as_str(), "--concurrency", "2"]);
}

/// Messages come when the worker waits for them.
pub(super) fn push_to_waiting(stage: &mut Stage<'_>) {
    match stage.case.step {
        "before" | "sent" => stage.arrive(),
        _ => wait::until("the worker to wait", PATIENCE, || stage.trap.met() >= 1),
    }
    stage.push_both();
}

/// Orders the worker to end what it runs, again with each beat that fails: a beat whose reply comes too late, as it may on
/// a busy machine, has lost the orders that it took.
pub(super) fn order(stage: &mut Stage<'_>) {
    let mut given = None;
    wait::until_ok(PATIENCE, || {
        let said = stage.victim().printed();
        let failed = said.matches("\"request\":\"heartbeat\"").count();
        if stage.has_arrived() {
            return Ok(());
        }
        if given != Some(failed) {
            give_order(stage, given.is_none());
            given = Some(failed);
        }
        Err(format!("the order to be heard: {:?}\n{said}", stage.case))
    });
}

pub(super) fn give_order(stage: &mut Stage<'_>, first: bool) {
    let script = script_text("kill").unwrap();
    let Some((slot, message)) = stage.state().processing.into_iter().next() else {
        assert!(!first, "expected a run to own its message: {:?}", stage.case);
        return;
    };
    let (worker, _) = slot.rsplit_once(':').unwrap();
    let digest = sha1(stage, &message);
    let (orders, told) = (format!("{worker}:kill"), format!("{slot}:told"));
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(5).arg(format!("{}_processing", stage.case.queue()));
    command.arg(worker).arg(&slot).arg(orders).arg(told);
    command.arg(&slot).arg(digest).arg("anna").arg(60_000).arg(100);
    let stands: i64 = read(&mut stage.redis, &command);
    // A later one may find that its run has ended after all.
    assert!(stands == 1 || !first, "expected the order to stand: {stands}, {:?}", stage.case);
}

pub(super) fn sha1(stage: &mut Stage<'_>, message: &[u8]) -> String {
    let mut command = redis::cmd("EVAL");
    read(&mut stage.redis, command.arg("return redis.sha1hex(ARGV[1])").arg(0).arg(message))
}

/// Two processes died while they owned the call, and what is known of it by itself.
pub(super) fn suspect(stage: &mut Stage<'_>, own: &str) {
    let deaths = format!("{}_deaths", stage.case.queue());
    let digest = sha1(stage, &stage.case.hit());
    let (now, _): (u64, u64) = redis::cmd("TIME").query(&mut stage.redis).unwrap();
    let () = stage.redis.hset(&deaths, digest, format!("2 {}000 {own}one another", now - 60)).unwrap();
    let () = stage.redis.expire(&deaths, 3600).unwrap();
}

/// A worker of the owner's kind dies while it runs the call.
pub(super) fn die_while_it_runs(stage: &mut Stage<'_>) {
    stage.push(&[stage.case.hit()]);
    let mut owner = match stage.case.parties.0 {
        Party::Rust => stage.other_worker("1s"),
        party => Program::spawn(&mut stage.site.foreign(party, &[stage.case.queue()])),
    };
    stage.wait_effect();
    owner.kill9();
    stage.end_lease();
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
}

pub(super) fn sweep(stage: &mut Stage<'_>) {
    stage.start(&["sweeper", "--interval", "100ms", "--queue", &stage.case.queue()]);
}

/// A periodic task is due, nobody has made its call yet, and its next tick is far away; and another call waits.
pub(super) fn leave_due(stage: &mut Stage<'_>) {
    let queue = stage.case.queue();
    let definition = Definition::new("0 0 1 1 *", stage.case.hit(), false).encode();
    let () = stage.redis.hset(format!("{queue}_periodic"), "d:nightly", definition).unwrap();
    let () = stage.redis.zadd(format!("{queue}_due"), "pnightly", 1).unwrap();
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
}

/// The call is due, and nobody has moved it yet; and another waits. Gives its id.
pub(super) fn leave_scheduled(stage: &mut Stage<'_>) -> String {
    let (queue, hit, id) = (stage.case.queue(), stage.case.hit(), CallId::new());
    let member = [b"c", &id.as_bytes()[..]].concat();
    let () = stage.redis.zadd(format!("{queue}_due"), member, 1).unwrap();
    let () = stage.redis.hset(format!("{queue}_later"), &id.as_bytes()[..], hit).unwrap();
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
    id.to_string()
}

/// A dead letter of the call, and somebody who waits.
pub(super) fn leave_dead(stage: &mut Stage<'_>) {
    let (key, message) = (format!("{}_dead", stage.case.queue()), stage.case.hit());
    let mut command = redis::cmd("XADD");
    command.arg(key).arg("*").arg("message").arg(message).arg("reason").arg("failed");
    command.arg("detail").arg("no").arg("attempt").arg(1).arg("worker").arg("h/1/w");
    let _: String = read(&mut stage.redis, &command);
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
}
