//! Looks at the servers: the one of the address, or each master of a Cluster.

use std::collections::HashMap;

use futures_util::future::join_all;

use crate::broker::{Broker, BrokerError, BrokerErrorKind, ServerFacts};
use crate::error::Error;
use crate::inspect::{Finding, Inspector};

/// Whether all shards of a Cluster stop while one is missing.
const FULL_COVERAGE: &str = "cluster-require-full-coverage";

impl Inspector {
    /// Looks at each server. What is well is said once for all of them.
    pub(super) async fn check_servers(&self) -> Result<Vec<Finding>, BrokerError> {
        let mut findings = Vec::<Finding>::new();
        let masters = self.broker.masters().await?;
        if self.broker.is_of_cluster() {
            findings.push(Finding::or_refused("cluster", self.cluster(masters.len()).await)?);
            findings.extend(coverage(&masters).await);
        }
        for broker in &masters {
            for mut finding in check_server(broker).await? {
                if let Some(address) = broker.server().filter(|_| masters.len() > 1) {
                    finding.text = format!("{address}: {}", finding.text);
                }
                findings.push(finding);
            }
        }
        Ok(findings)
    }

    /// What was found, or that a node of a Cluster does not answer: that is no reason not to look at the others.
    pub(super) fn or_silent(&self, found: Result<Vec<Finding>, Error>) -> Result<Vec<Finding>, Error> {
        match found {
            Err(Error::Broker(error)) if error.is_silence() && self.broker.is_of_cluster() => {
                let (fix, text) = error.advice_and_detail();
                Ok(vec![Finding::problem("access", text, fix)])
            }
            found => found,
        }
    }

    async fn cluster(&self, masters: usize) -> Result<Finding, BrokerError> {
        let facts = self.broker.cluster_facts().await?;
        let field = |name: &str| facts.get(name).map_or("", String::as_str);
        let text = format!("{masters} masters, {} of 16384 hash slots served", field("cluster_slots_ok"));
        Ok(match field("cluster_state") {
            "ok" => Finding::ok("cluster", text),
            state => Finding::problem(
                "cluster",
                format!("its state is {state}: {text}"),
                "redis-cli --cluster check; queues whose slots nobody serves stop until they are",
            ),
        })
    }
}

/// The shards of a Cluster can stop each other. Nothing is said where `CONFIG GET` is refused.
async fn coverage(masters: &[Broker]) -> Option<Finding> {
    let [first, _, ..] = masters else { return None };
    let told = join_all(masters.iter().map(|broker| broker.server_config(FULL_COVERAGE))).await;
    let is_yes =
        |config: &HashMap<String, String>| config.get(FULL_COVERAGE).is_some_and(|told| told == "yes");
    let need_all = told.iter().flatten().filter(|config| is_yes(config)).count();
    (need_all > 0).then(|| {
        Finding::warning(
            "coverage",
            format!(
                "{need_all} of {} masters have {FULL_COVERAGE} yes: while a shard is missing, the queues of all \
                 others stop, too",
                masters.len()
            ),
            format!(
                "redis-cli --cluster call {} CONFIG SET {FULL_COVERAGE} no, and the same in redis.conf of each node",
                first.server().unwrap_or_default()
            ),
        )
    })
}

async fn check_server(broker: &Broker) -> Result<Vec<Finding>, BrokerError> {
    let facts = match broker.server_facts().await {
        // The queues of the others go on.
        Err(error) if broker.server().is_some() && error.is_silence() => {
            let (fix, text) = error.advice_and_detail();
            return Ok(vec![Finding::problem("version", text, fix)]);
        }
        facts => facts?,
    };
    let mut findings = vec![version(&facts), eviction(&facts), memory(&facts)];
    findings.push(persistence(broker, &facts).await);
    findings.push(writes(broker).await?);
    findings.extend(replicas(broker, &facts).await);
    Ok(findings)
}

/// A master that is cut off from its replicas goes on taking calls, and loses them when it comes back as a replica.
async fn replicas(broker: &Broker, facts: &ServerFacts) -> Option<Finding> {
    let replicas: u32 = field(facts, "connected_slaves").parse().ok().filter(|replicas| *replicas > 0)?;
    let config = broker.server_config("min-replicas-to-write").await.ok()?;
    let needed: u32 = config.get("min-replicas-to-write")?.parse().ok()?;
    let has = format!("{replicas} connected, {needed} needed for a write");
    if needed > 0 {
        return Some(Finding::ok("replicas", has));
    }
    Some(Finding::warning(
        "replicas",
        format!("{has}: a master that is cut off goes on taking calls, which are lost after a failover"),
        "redis-cli CONFIG SET min-replicas-to-write 1, and the same in redis.conf",
    ))
}

/// A replica, a server that could not save its data, and one without memory say no to the smallest write.
async fn writes(broker: &Broker) -> Result<Finding, BrokerError> {
    match broker.write_nothing().await {
        // Workers may be allowed what they need all the same.
        Err(error) if error.kind() == BrokerErrorKind::Denied => {
            let (fix, text) = error.advice_and_detail();
            Ok(Finding::warning("writes", format!("not seen: {text}"), fix))
        }
        written => Finding::or_refused("writes", written.map(|()| Finding::ok("writes", "taken"))),
    }
}

async fn persistence(broker: &Broker, facts: &ServerFacts) -> Finding {
    if field(facts, "aof_enabled") == "1" {
        return match field(facts, "aof_last_write_status") {
            "err" => Finding::problem(
                "persistence",
                "the append-only file could not be written",
                "check the server's log: the disk may be full",
            ),
            _ => Finding::ok("persistence", "append-only file"),
        };
    }
    if field(facts, "rdb_last_bgsave_status") == "err" {
        let fix = "check the server's log: the disk may be full";
        return Finding::problem("persistence", "the last snapshot could not be saved", fix);
    }
    let fix = "redis-cli CONFIG SET appendonly yes, and the same in redis.conf";
    // Hosted servers do not allow to ask.
    let saves = broker.server_config("save").await.unwrap_or_default();
    match saves.get("save").map(String::as_str) {
        Some("") => Finding::warning("persistence", "off: a restart of the server loses all calls", fix),
        _ => Finding::warning(
            "persistence",
            "snapshots only: a crash of the server loses all writes after the last snapshot",
            fix,
        ),
    }
}

fn field<'a>(facts: &'a ServerFacts, name: &str) -> &'a str {
    facts.fields.get(name).map_or("", String::as_str)
}

/// An older server than we can use was refused when we connected.
fn version(facts: &ServerFacts) -> Finding {
    match field(facts, "valkey_version") {
        "" => Finding::ok("version", format!("Redis {}", facts.redis_version)),
        valkey => Finding::ok("version", format!("Valkey {valkey}")),
    }
}

fn eviction(facts: &ServerFacts) -> Finding {
    match field(facts, "maxmemory_policy") {
        "noeviction" | "" => Finding::ok("eviction", "noeviction"),
        policy => Finding::problem(
            "eviction",
            format!("maxmemory-policy is {policy}: when memory is short, the server drops calls"),
            "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
        ),
    }
}

fn memory(facts: &ServerFacts) -> Finding {
    let number = |name| field(facts, name).parse::<u64>().unwrap_or(0);
    let (used, limit) = (number("used_memory"), number("maxmemory"));
    let mib = used >> 20;
    if limit == 0 {
        return Finding::ok("memory", format!("{mib} MiB used, no limit"));
    }
    let text = format!("{mib} of {} MiB used", limit >> 20);
    if used / 9 > limit / 10 {
        return Finding::warning("memory", text, "raise `maxmemory`, or let the workers drain the queues");
    }
    Finding::ok("memory", text)
}
