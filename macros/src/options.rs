//! What stands in `#[delayed::task(…)]`?

use std::ops::RangeInclusive;
use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Token, parenthesized, token};

use crate::batch::Batch;
use crate::cron::Cron;
use crate::mistakes::Mistakes;
use crate::values::{Backoff, Item};

const KNOWN: &str = "the options are `name`, `queue`, `retry`, `max_attempts`, `retry_for`, `backoff`, `unique`, \
    `keep`, `expires`, `limit`, `batch`, `cron`, `tz`, `overlap`, `missed`, `isolation`, `timeout`, `grace`, and for isolated \
    tasks `memory`, `address_space`, `cpu`, `open_files`, `output`, `nice`, `no_new_privileges`, `private_network` \
    and `private_mounts`";
const RETRY: &str = "write `retry = 3`, or `retry = -1` to retry forever";
const ATTEMPTS: &str = "write `max_attempts = 4`";
const TWICE: &str = "`retry = 3` and `max_attempts = 4` mean the same: keep one of them";

/// As in `src/protocol/names.rs` of `delayed`, whose tests hold the two together.
const SUFFIXES: [&str; 19] = [
    "_noti",
    "_hand",
    "_processing",
    "_workers",
    "_dead",
    "_deaths",
    "_sweep",
    "_due",
    "_later",
    "_timetable",
    "_paused",
    "_parked",
    "_periodic",
    "_scheduled",
    "_cancelled",
    "_done",
    "_finished",
    "_outbox",
    "_flows",
];
const MAX_QUEUE_NAME: usize = 200;
const QUEUES: &str = "delayed_queues";

/// A process does with no fewer descriptors: its streams, its pipes, and what its runtime opens.
const FILES: RangeInclusive<i64> = 16..=i32::MAX as i64;

/// The options of a task.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<String>,
    queue: Option<String>,
    retry: Option<i64>,
    max_attempts: Option<i64>,
    retry_for: Option<Duration>,
    backoff: Option<Backoff>,
    unique: Option<Unique>,
    limit: Option<String>,
    keep: Option<Duration>,
    expires: Option<Duration>,
    pub(crate) cron: Cron,
    pub(crate) batch: Batch,
    isolation: Option<Isolation>,
    timeout: Option<Duration>,
    grace: Option<Duration>,
    limits: Vec<Limit>,
}

/// Where a task runs, as `Isolation` of `delayed` names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Isolation {
    Inline,
    Fork,
    Prefork,
}

/// Which calls count as the same, as `Unique` of `delayed` names it.
#[derive(Clone, Copy)]
enum Unique {
    UntilStarted,
    UntilDone,
    For(Duration),
    Replace,
}

/// What a task's process may use, or do.
struct Limit {
    key: Ident,
    value: TokenStream,
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), KNOWN))?;
        if key == "batch" && input.peek(token::Paren) {
            let inside;
            parenthesized!(inside in input);
            let options = Punctuated::<Self, Token![,]>::parse_terminated(&inside)?;
            return Ok(Self { key, value: None, options: Some(options.into_iter().collect()) });
        }
        let value = if input.is_empty() || input.peek(Token![,]) {
            None
        } else {
            let text = format!("`{key}` takes its value after `=`: {KNOWN}");
            input.parse::<Token![=]>().map_err(|error| syn::Error::new(error.span(), text))?;
            Some(input.parse()?)
        };
        Ok(Self { key, value, options: None })
    }
}

impl Options {
    /// Reads the options; what is wrong with them goes to `mistakes` and is left out.
    pub(crate) fn parse(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        let items = match Punctuated::<Item, Token![,]>::parse_terminated.parse2(tokens) {
            Ok(items) => items,
            Err(error) => {
                mistakes.push_error(error);
                return options;
            }
        };
        let mut seen: Vec<String> = Vec::new();
        for item in &items {
            let option = item.key.to_string();
            if seen.contains(&option) {
                mistakes.push(&item.key, format!("`{option}` is given twice: keep one of them"));
            } else if options.read(item, mistakes) {
                seen.push(option);
            }
        }
        options.check_limits(mistakes);
        options.cron.check(options.unique.is_some(), mistakes);
        let of_one_call = [
            ("unique", options.unique.is_some()),
            ("keep", options.keep.is_some()),
            ("expires", options.expires.is_some()),
            ("cron", options.cron.is_given()),
        ];
        options.batch.check(&of_one_call, mistakes);
        options
    }

    /// Reads one option. Whether there is such an option.
    fn read(&mut self, item: &Item, mistakes: &mut Mistakes) -> bool {
        match item.key.to_string().as_str() {
            "name" => self.name = item.text("name = \"mail.send\"", name, mistakes),
            "queue" => self.queue = item.text("queue = \"mail\"", queue, mistakes),
            "retry" => {
                self.retry = item.number(i64::MIN..=i64::MAX, RETRY, mistakes);
                if self.max_attempts.is_some() {
                    mistakes.push(&item.key, TWICE);
                }
            }
            "max_attempts" => {
                self.max_attempts = item.number(1..=i64::from(u32::MAX), ATTEMPTS, mistakes);
                if self.retry.is_some() {
                    mistakes.push(&item.key, TWICE);
                }
            }
            "retry_for" => self.retry_for = item.time("2d", mistakes),
            "backoff" => self.backoff = item.backoff(mistakes),
            "unique" => self.unique = item.text("unique = \"until_done\"", unique, mistakes),
            "keep" => self.keep = item.time("1h", mistakes),
            "expires" => self.expires = item.time("10m", mistakes),
            "limit" => self.limit = item.text("limit = \"github\"", limit_name, mistakes),
            "batch" => self.batch.read(item, mistakes),
            "isolation" => self.isolation = item.text("isolation = \"fork\"", isolation, mistakes),
            "timeout" => self.timeout = item.time("30s", mistakes),
            "grace" => self.grace = item.time("2s", mistakes),
            _ if self.cron.read(item, mistakes) => {}
            option => match limit(option, item, mistakes) {
                Some(value) => {
                    self.limits.extend(value.map(|value| Limit { key: item.key.clone(), value }));
                }
                None => {
                    mistakes.push(&item.key, format!("there is no option `{option}`: {KNOWN}"));
                    return false;
                }
            },
        }
        true
    }

    /// Refuses what only a process of its own can be held to.
    fn check_limits(&mut self, mistakes: &mut Mistakes) {
        if self.isolation == Some(Isolation::Inline) {
            for Limit { key, .. } in self.limits.drain(..) {
                let text = format!(
                    "`{key}` applies only to isolated tasks: write `isolation = \"fork\"` or `isolation = \
                    \"prefork\"`, or leave `{key}` out"
                );
                mistakes.push(key, text);
            }
        }
    }

    /// The same as `TaskOptions` of `delayed`.
    pub(crate) fn tokens(&self) -> TokenStream {
        let queue = self.queue.iter();
        // Within its time it is tried as often as its back-off lets it.
        let unbounded = self.retry_for.map(|_| -1);
        let retry = self.retry.or(self.max_attempts.map(|attempts| attempts - 1)).or(unbounded);
        let retry = retry.iter();
        let backoff = self.backoff.iter().map(backoff_tokens);
        let retry_for = self.retry_for.iter().map(duration_tokens);
        let isolation = self.isolation.map(|isolation| match isolation {
            Isolation::Inline => quote!(Inline),
            Isolation::Fork => quote!(Fork),
            Isolation::Prefork => quote!(Prefork),
        });
        let isolation = isolation.iter();
        let keep = self.keep.iter().map(duration_tokens);
        let expires = self.expires.iter().map(duration_tokens);
        let unique = self.unique.map(unique_tokens);
        let unique = unique.iter();
        let limit = self.limit.iter();
        let (cron, batch) = (self.cron.tokens(), self.batch.tokens());
        let times = [("with_timeout", self.timeout), ("with_grace", self.grace)];
        let times: Vec<_> = (times.into_iter())
            .filter_map(|(method, time)| {
                let (method, time) = (format_ident!("{method}"), duration_tokens(&time?));
                Some(quote!(.#method(#time)))
            })
            .collect();
        let timeouts = (!times.is_empty())
            .then(|| quote!(.with_timeouts(::delayed::__private::Timeouts::NONE #(#times)*)));
        let limits: Vec<_> = (self.limits.iter())
            .map(|Limit { key, value }| {
                let method = format_ident!("with_{key}");
                quote!(.#method(#value))
            })
            .collect();
        let limits = (!limits.is_empty())
            .then(|| quote!(.with_limits(::delayed::__private::Limits::NONE #(#limits)*)));
        quote! {
            ::delayed::__private::TaskOptions::DEFAULT
                #(.with_queue(#queue))*
                #(.with_retry(#retry))*
                #(.with_backoff(#backoff))*
                #(.with_retry_for(#retry_for))*
                #(.with_keep(#keep))*
                #(.with_expires(#expires))*
                #(.with_unique(#unique))*
                #(.with_limit(#limit))*
                #cron
                #batch
                #(.with_isolation(::delayed::__private::Isolation::#isolation))*
                #timeouts
                #limits
        }
    }
}

/// As `LimitName` of `delayed`.
fn limit_name(text: &str) -> Result<String, String> {
    if (1..=200).contains(&text.len()) && !text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`limit = {text:?}` is not a valid limit name: use 1 to 200 bytes of printable text without spaces"
        ))
    }
}

fn duration_tokens(time: &Duration) -> TokenStream {
    let (seconds, nanoseconds) = (time.as_secs(), time.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanoseconds))
}

/// The same as `Backoff` of `delayed`.
fn backoff_tokens(backoff: &Backoff) -> TokenStream {
    let growing = |kind: TokenStream, first, max| {
        let (first, max) = (duration_tokens(first), duration_tokens(max));
        quote!(::delayed::__private::Backoff::#kind { first: #first, max: #max })
    };
    match backoff {
        Backoff::None => quote!(::delayed::__private::Backoff::None),
        Backoff::Fixed(delay) => {
            let delay = duration_tokens(delay);
            quote!(::delayed::__private::Backoff::Fixed(#delay))
        }
        Backoff::Linear { first, max } => growing(quote!(Linear), first, max),
        Backoff::Exponential { first, max } => growing(quote!(Exponential), first, max),
    }
}

/// The value of a limit, unless it is mistaken; none when there is no such limit.
fn limit(option: &str, item: &Item, mistakes: &mut Mistakes) -> Option<Option<TokenStream>> {
    Some(match option {
        "memory" => item.size("256MB", mistakes).map(|bytes| quote!(#bytes)),
        "address_space" => item.size("1GB", mistakes).map(|bytes| quote!(#bytes)),
        "output" => item.size("1MB", mistakes).map(|bytes| quote!(#bytes)),
        "cpu" => item.seconds("10s", mistakes).map(|seconds| quote!(#seconds)),
        "open_files" => {
            let number = item.number(FILES, "write `open_files = 64`", mistakes);
            number.map(|number| number as u64).map(|number| quote!(#number))
        }
        "nice" => {
            let number = item.number(0..=19, "write `nice = 10`", mistakes);
            number.map(|number| number as i32).map(|number| quote!(#number))
        }
        "no_new_privileges" | "private_network" | "private_mounts" => {
            item.boolean(mistakes).map(|value| quote!(#value))
        }
        _ => return None,
    })
}

fn unique(text: &str) -> Result<Unique, String> {
    match text {
        "until_started" => Ok(Unique::UntilStarted),
        "until_done" => Ok(Unique::UntilDone),
        "replace" => Ok(Unique::Replace),
        time => humantime::parse_duration(time).map(Unique::For).map_err(|_| {
            format!(
                "`unique = {time:?}` is neither `until_started`, `until_done` or `replace` nor a time such as `10m`"
            )
        }),
    }
}

fn unique_tokens(unique: Unique) -> TokenStream {
    match unique {
        Unique::UntilStarted => quote!(::delayed::Unique::UntilStarted),
        Unique::UntilDone => quote!(::delayed::Unique::UntilDone),
        Unique::For(time) => {
            let time = duration_tokens(&time);
            quote!(::delayed::Unique::For(#time))
        }
        Unique::Replace => quote!(::delayed::Unique::Replace),
    }
}

fn isolation(text: &str) -> Result<Isolation, String> {
    match text {
        "inline" => Ok(Isolation::Inline),
        "fork" => Ok(Isolation::Fork),
        "prefork" => Ok(Isolation::Prefork),
        _ => Err(format!(
            "there is no isolation {text:?}: write \"inline\" for the worker's own process, \"fork\" for a fresh one, \
             or \"prefork\" for one of a pool"
        )),
    }
}

fn name(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err(
            "the name of a task must not be empty: leave `name` out to use the function's path".into()
        );
    }
    match name.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(character) => Err(format!(
            "the name of a task {name:?} contains {character:?}: use printable characters without spaces"
        )),
        None => Ok(name.to_owned()),
    }
}

/// As `is_hidden` of `delayed` has it.
fn is_hidden(character: char) -> bool {
    let turns_or_takes_no_room = matches!(
        character,
        '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    character.is_control() || turns_or_takes_no_room
}

fn queue(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("a queue name must not be empty: leave `queue` out to use `default`".into());
    }
    if name.len() > MAX_QUEUE_NAME {
        return Err(format!("the queue name has {} bytes: at most {MAX_QUEUE_NAME} are allowed", name.len()));
    }
    if let Some(character) = name.chars().find(|c| c.is_whitespace() || is_hidden(*c)) {
        return Err(format!(
            "the queue name {name:?} contains {character:?}: use printable characters without spaces"
        ));
    }
    if name == QUEUES {
        return Err(format!(
            "a queue cannot be called {QUEUES:?}, which is the key with the names of all queues: use another"
        ));
    }
    if let Some(suffix) = SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix)) {
        let instead = name.strip_suffix(suffix).filter(|rest| !rest.is_empty()).unwrap_or("default");
        return Err(format!(
            "the queue name {name:?} ends in `{suffix}`, which is reserved for other keys of a queue: use {instead:?}"
        ));
    }
    Ok(name.to_owned())
}
