//! Which permissions each role needs. `tests/acl` compares this table with the scripts, the broker and real servers.

use serde::Serialize;

/// A kind of process, which needs a Redis user with certain permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A program that enqueues, follows and cancels calls
    Producer,
    /// `worker`
    Worker,
    /// `sweeper`
    Sweeper,
    /// The commands that act, `gateway`, and `web --allow-actions`
    Operator,
    /// `web`, and the commands that only show something
    Dashboard,
}

/// Permissions, as words with spaces between them. `Q` in a key or channel stands for the queue, and `W` for the id of a worker.
#[derive(Debug)]
pub struct Rights {
    /// Permissions that belong to it.
    pub includes: &'static [&'static Rights],
    /// The scripts that are called.
    pub scripts: &'static str,
    /// The commands that are sent.
    pub commands: &'static str,
    /// The commands that the scripts call: Redis checks these too.
    pub in_scripts: &'static str,
    /// Keys that are read and written.
    pub keys: &'static str,
    /// Keys that are only read. All keys of a script count as written.
    pub reads: &'static str,
    /// Channels.
    pub channels: &'static str,
}

impl Role {
    /// Its name on the command line, and the default name of its Redis user.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Sweeper => "sweeper",
            Self::Operator => "operator",
            Self::Dashboard => "dashboard",
        }
    }

    /// The permissions of its Redis user.
    #[must_use]
    pub fn rights(self) -> &'static Rights {
        match self {
            Self::Producer => &PRODUCER,
            Self::Worker => &WORKER,
            Self::Sweeper => &SWEEPER,
            Self::Operator => &OPERATOR,
            Self::Dashboard => &DASHBOARD,
        }
    }
}

impl Rights {
    /// It and what it includes.
    #[must_use]
    pub fn all(&'static self) -> Vec<&'static Self> {
        let included = self.includes.iter().flat_map(|rights| rights.all());
        std::iter::once(self).chain(included).collect()
    }
}

const NOTHING: Rights =
    Rights { includes: &[], scripts: "", commands: "", in_scripts: "", keys: "", reads: "", channels: "" };

/// To connect. Every process loads all scripts, which gives nobody more rights: a script has those of its caller.
static CONNECTION: Rights = Rights {
    commands: "cluster|info cluster|myid cluster|slots echo info ping role script|load select time type",
    ..NOTHING
};

/// To enqueue and cancel the steps of flows, and to end flows.
static STEPS: Rights = Rights {
    includes: &[&CONNECTION],
    scripts: "cancel close kill submit",
    commands: "evalsha exists hmget hscan lrange sadd srandmember wait zrem",
    in_scripts: "\
        exists get hdel hexists hget hlen hmget hset hsetnx lindex llen lpush lrem ltrim pexpire publish rpush sadd \
        set srem time unlink xadd xlen xrange xtrim zadd zcard zrange zrem zremrangebyrank zremrangebyscore zscore",
    keys: "\
        Q Q_noti Q_processing Q_dead Q_deaths Q_due Q_later Q_timetable Q_cancelled Q_done Q_parked Q_outbox Q_flows \
        Q:c:* Q:f:* Q:l:* Q:u:* Q:W Q:W:* delayed_queues {delayed:*}:*",
    channels: "Q:c:* Q:due",
    ..NOTHING
};

/// `enqueue` reads the names of all queues, to find the one that was meant by a misspelled one.
static PRODUCER: Rights = Rights {
    includes: &[&STEPS],
    scripts: "define fill reopen schedule unpark wake",
    commands: "\
        del exec hgetall hmset hset llen multi ping rpush smembers srem subscribe unsubscribe zscore",
    in_scripts: "\
        exists get hdel hexists hget hincrby hlen hmget hset hsetnx lindex llen lpop lpos lpush lrange lrem lset \
        ltrim pexpire publish rpush set srem time unlink zadd zcard zrange zrem zremrangebyrank zremrangebyscore \
        zscore",
    keys: "Q_periodic Q:g:* Q:p:* delayed_limits",
    ..NOTHING
};

/// To sweep queues that are known.
static SWEEPS: Rights = Rights {
    includes: &[&STEPS],
    scripts: "balance join promote requeue_lost tick unpark wake",
    commands: "exists get hdel hmget hscan llen pexpire pttl set srandmember subscribe zrangebyscore zrem",
    in_scripts: "\
        exists get hdel hexists hget hincrby hkeys hlen hmget hrandfield hscan hset lindex llen lpop lpos lpush \
        lrange lrem ltrim persist pexpire pttl publish rpush set srem time unlink xadd xlen xrange xtrim zadd zcard \
        zrange zrangebyscore zrem zremrangebyrank zremrangebyscore zscore",
    keys: "Q_hand Q_workers Q_sweep Q_periodic Q:g:* Q:p:*",
    ..NOTHING
};

/// It also finds queues.
static SWEEPER: Rights =
    Rights { includes: &[&SWEEPS], commands: "hrandfield lindex psubscribe scan smembers", ..NOTHING };

static WORKER: Rights = Rights {
    includes: &[&SWEEPS],
    scripts: "\
        acquire beat begin bury claim defer define finish note park pick_up put_back reconcile renew resign retry retry_later \
        split start",
    commands: "\
        blmove blpop client|id client|unblock del exec hgetall hincrby hkeys hmset hset hstrlen lmove lpush multi sadd unsubscribe \
        xadd xrange xtrim zadd zremrangebyrank zremrangebyscore",
    in_scripts: "\
        exists get hdel hexists hget hgetall hkeys hlen hmget hset hsetnx lindex linsert llen lpop lpos lpush lrange \
        lrem lset ltrim pexpire publish rpop rpush sadd scard set srem time unlink xadd xlen xrange xtrim zadd zcard \
        zcount zrange zrangebylex zrem zremrangebyrank zremrangebyscore zscore",
    keys: "Q_paused Q_finished delayed_limits delayed_tasks delayed_history:Q delayed_task_history:*",
    channels: "Q:paused",
    ..NOTHING
};

/// The empty write of `doctor` goes to `delayed_queues`.
static DASHBOARD: Rights = Rights {
    includes: &[&CONNECTION],
    commands: "\
        exists get hget hgetall hkeys hlen hmget hrandfield hscan lindex llen lrange pttl scan setrange smembers srandmember \
        sscan xlen xrange xrevrange zcard zmscore zrange zrevrange zscore",
    keys: "delayed_queues",
    reads: "\
        Q Q_noti Q_hand Q_processing Q_workers Q_dead Q_deaths Q_sweep Q_due Q_later Q_timetable Q_cancelled Q_done Q_finished \
        Q_paused Q_parked Q_periodic Q_outbox Q_flows Q:c:* Q:f:* Q:g:* Q:l:* Q:p:* Q:u:* Q:W Q:W:* \
        delayed_audit delayed_audit_refused delayed_history:Q delayed_limits delayed_task_history:* delayed_tasks {delayed:*}:*",
    ..NOTHING
};

static OPERATOR: Rights = Rights {
    includes: &[&DASHBOARD, &PRODUCER],
    scripts: "pause purge resume revive run_now tick",
    commands: "hsetnx publish set xadd xdel",
    in_scripts: "\
        exists get hdel hget hkeys hlen hset lindex llen lpush lrange lrem ltrim persist pexpire publish rpush set \
        srem time unlink xdel xrange zadd zrange zrem zremrangebyrank zremrangebyscore zscore",
    keys: "Q_paused delayed_audit delayed_audit_refused delayed_idempotency:* delayed_tokens",
    channels: "Q:paused",
    ..NOTHING
};
