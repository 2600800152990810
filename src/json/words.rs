//! Reads options of calls that are written as texts: on the command line, and for the gateway.

use std::time::{Duration, SystemTime};

use crate::task::{Expiry, Overflow, Unique};

pub(crate) fn expiry(text: &str) -> Result<Expiry, String> {
    let time = humantime::parse_duration(text).ok().map(|time| (Expiry::After(time), !time.is_zero()));
    let moment = || text.parse::<jiff::Timestamp>().ok().map(SystemTime::from);
    let moment = || moment().map(|moment| (Expiry::At(moment), moment > SystemTime::now()));
    match time.or_else(moment) {
        Some((expiry, true)) => Ok(expiry),
        Some(_) => Err("a call with no time left is never run: give it some, such as `1h`".into()),
        None => {
            Err("neither a time from now such as `1h` nor a moment such as `2030-01-31T12:00:00Z`".into())
        }
    }
}

pub(crate) fn any_moment(text: &str) -> Result<SystemTime, String> {
    let read = text.parse::<jiff::Timestamp>().map(SystemTime::from);
    read.map_err(|_| {
        "not a moment such as `2030-01-31T12:00:00+01:00`, with its offset or `Z`, up to the year 9999".into()
    })
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("not a duration such as `30s` or `1h 30m`: {error}"))
}

pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a run needs some time, such as `30s`; leave it out for the task's own".into()),
        time => Ok(time),
    }
}

pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("is no time: give some, such as `30s`, or leave it out".into()),
        time => Ok(time),
    }
}

pub(crate) fn overflow(text: &str) -> Result<Overflow, &'static str> {
    match text {
        "reject" => Ok(Overflow::Reject),
        "bury-oldest" => Ok(Overflow::BuryOldest),
        _ => Err("neither reject nor bury-oldest"),
    }
}

pub(crate) fn unique(text: &str) -> Result<Unique, String> {
    match text {
        "until-started" => Ok(Unique::UntilStarted),
        "until-done" => Ok(Unique::UntilDone),
        "replace" => Ok(Unique::Replace),
        time => match humantime::parse_duration(time) {
            Ok(period) if !period.is_zero() => Ok(Unique::For(period)),
            _ => Err("neither until-started, until-done or replace nor a time such as `10m`".into()),
        },
    }
}
