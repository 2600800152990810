//! `acl`: the Redis permissions that a role needs.

use serde_json::json;

use crate::acl::{QueuePattern, Request, Rules};
use crate::cli::args::Acl;
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) fn run(args: &Acl) -> Result<(), Failure> {
    let Acl { roles, queues, passwords, shared, redis_7, .. } = args;
    let rules = Rules::new(&Request { roles, queues, shared: *shared, redis_7: *redis_7 });
    let user = args.user.clone().unwrap_or_else(|| roles[0].name().to_owned());
    let line = rules.line(&user, passwords, *redis_7);
    if let Some(open) = queues.iter().find(|queue| queue.is_open()) {
        let open = open.as_str();
        output::note(&format!(
            "note: `{open}` matches all keys of its queues, also those that the role does not need: name the queues, or use a \
            pattern that does not end in `*`"
        ));
    } else if queues.is_empty() {
        output::note("note: without --queue, the user may reach every key of the server: name the queues");
    }
    if passwords.is_empty() {
        output::note(&format!(
            "note: the passwords of `{user}` stay as they are; a new user needs one: ACL SETUSER {user} '>PASSWORD', or \
            --password-hash"
        ));
    }
    if args.output.json {
        let Rules { keys, channels, commands } = rules;
        let queues: Vec<&str> = queues.iter().map(QueuePattern::as_str).collect();
        return output::json(&json!({
            "user": user, "roles": roles, "queues": queues, "keys": keys, "channels": channels, "commands": commands, "line": line,
        }));
    }
    output::print(&line)
}
