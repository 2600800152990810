//! Which request, or the reply to which, does a fault of the network strike, and how?

use std::fmt;

use delayed::testing::{Fault as Harm, Proxy, Requests, Side, Trap};

use super::members::{MEMBERS, Role};
use super::plan::{Fault, Kind};

/// Stands for every request.
const ANY: &str = "request";

/// What becomes of one request.
pub(crate) struct Strike {
    side: Side,
    /// Its command, our script in small letters, or [`ANY`].
    request: &'static str,
    nth: u32,
    harm: Harm,
}

impl Strike {
    /// What a fault strikes that is one of a single request.
    pub(crate) fn of(fault: &Fault) -> Option<Self> {
        let role = MEMBERS[fault.victim?].1;
        let mut rest = fault.roll as usize;
        let mut roll = |below: usize| {
            let rolled = rest % below;
            rest /= below;
            rolled
        };
        let nth = 1 + roll(4) as u32;
        let lost = |side| Some(Self { side, request: "EVALSHA", nth, harm: Harm::End });
        let harm = match fault.kind {
            Kind::LoseReply => return lost(Side::Reply),
            Kind::LoseRequest => return lost(Side::Request),
            Kind::Double => Harm::Double,
            Kind::Drop => Harm::Drop,
            Kind::Half => [Harm::HalfThenEnd, Harm::HalfThenNothing][roll(2)],
            _ => return None,
        };
        let side = [Side::Request, Side::Reply][roll(2)];
        let requests: &[&str] = match role {
            Role::Rust(_) => &["claim", "pick_up", "beat", "EVALSHA", "ECHO", "BLPOP", ANY],
            Role::OurSweeper => &["EVALSHA", "ECHO", "TIME", "LLEN", ANY],
            // Of the Rust producer alone: those of other languages share its network.
            _ => &["MULTI", "RPUSH", "ECHO", "EXEC"],
        };
        let request = requests[roll(requests.len())];
        // A push that comes twice makes two messages of one call, and one that never comes a token without one, or none.
        let is_half = request == "RPUSH" && matches!(harm, Harm::Double | Harm::Drop);
        Some(Self { side: if is_half { Side::Reply } else { side }, request, nth, harm })
    }

    /// Lets it happen.
    pub(crate) fn set(&self, proxy: &Proxy) -> Trap {
        let requests = match self.request {
            ANY => Requests::all(),
            script if script.starts_with(char::is_lowercase) => Requests::script(script),
            command => Requests::command(command),
        };
        proxy.trap(self.side, requests.nth(self.nth), self.harm)
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { side, request, nth, harm } = self;
        let side = if *side == Side::Reply { "the reply to " } else { "" };
        write!(f, "{side}{request} {nth}: {harm:?}")
    }
}
