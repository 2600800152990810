//! Which literal stands behind an option? What does not fit is told with what to write instead.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use syn::{Expr, ExprAssign, ExprCall, ExprLit, ExprUnary, Ident, Lit, LitStr, UnOp};

use crate::mistakes::Mistakes;

/// The longest time that an option may be.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One `key = value` as it stands there; the value may be missing.
pub(crate) struct Item {
    pub(crate) key: Ident,
    pub(crate) value: Option<Expr>,
    /// What stands in the parentheses of `batch(…)`.
    pub(crate) options: Option<Vec<Self>>,
}

/// How long a call waits before it is tried again.
#[derive(Clone, Copy)]
pub(crate) enum Backoff {
    None,
    Fixed(Duration),
    Linear { first: Duration, max: Duration },
    Exponential { first: Duration, max: Duration },
}

const BACKOFF: &str = "write `backoff = exponential(\"1s\", max = \"10m\")`, `linear(\"10s\", max = \"5m\")`, \
     `fixed(\"30s\")` or `none`";

impl Item {
    /// How long a call waits before it is tried again.
    pub(crate) fn backoff(&self, mistakes: &mut Mistakes) -> Option<Backoff> {
        let value = self.value(BACKOFF, mistakes)?;
        let (kind, arguments) = match value {
            Expr::Call(ExprCall { func, args, .. }) => (identifier(func)?, args.iter().collect()),
            other => (identifier(other).unwrap_or_default(), Vec::new()),
        };
        let mut wait = |value: &Expr| {
            let Some(literal) = string(value) else {
                mistakes.push(value, format!("a time must be a string literal: {BACKOFF}"));
                return None;
            };
            time(&literal.value(), "10s").map_err(|why| mistakes.push(literal, why)).ok()
        };
        let range = |wait: &mut dyn FnMut(&Expr) -> Option<Duration>| {
            let [first, Expr::Assign(ExprAssign { left, right, .. })] = arguments[..] else { return None };
            (identifier(left)? == "max").then(|| Some((wait(first)?, wait(right)?)))
        };
        let backoff = match (kind.as_str(), &arguments[..]) {
            ("none", []) => Some(Backoff::None),
            ("fixed", [delay]) => return wait(delay).map(Backoff::Fixed),
            ("linear", _) => match range(&mut wait) {
                Some(range) => {
                    return self.growing(range?, mistakes).map(|(first, max)| Backoff::Linear { first, max });
                }
                None => None,
            },
            ("exponential", _) => match range(&mut wait) {
                Some(range) => {
                    return self
                        .growing(range?, mistakes)
                        .map(|(first, max)| Backoff::Exponential { first, max });
                }
                None => None,
            },
            _ => None,
        };
        if backoff.is_none() {
            mistakes.push(value, format!("this is not a back-off: {BACKOFF}"));
        }
        backoff
    }

    fn growing(
        &self,
        (first, max): (Duration, Duration),
        mistakes: &mut Mistakes,
    ) -> Option<(Duration, Duration)> {
        if first > max {
            mistakes.push(&self.key, "the first wait is longer than the longest: give `max` a longer one");
            return None;
        }
        Some((first, max))
    }

    /// A string literal of which `read` can make something.
    pub(crate) fn text<T>(
        &self,
        example: &str,
        read: impl Fn(&str) -> Result<T, String>,
        mistakes: &mut Mistakes,
    ) -> Option<T> {
        let value = self.value(format_args!("write `{example}`"), mistakes)?;
        let Some(literal) = string(value) else {
            let text = format!("`{}` takes a string literal: write `{example}`", self.key);
            mistakes.push(value, text);
            return None;
        };
        match read(&literal.value()) {
            Ok(value) => Some(value),
            Err(why) => {
                mistakes.push(literal, why);
                None
            }
        }
    }

    /// A time such as `30s`.
    pub(crate) fn time(&self, example: &str, mistakes: &mut Mistakes) -> Option<Duration> {
        self.text(&format!("{} = \"{example}\"", self.key), |text| time(text, example), mistakes)
    }

    /// A time of whole seconds.
    pub(crate) fn seconds(&self, example: &str, mistakes: &mut Mistakes) -> Option<u64> {
        let read = |text: &str| match time(text, example)? {
            time if time.subsec_nanos() == 0 => Ok(time.as_secs()),
            _ => Err(format!("{text:?} is not a time of whole seconds: write {example:?}")),
        };
        self.text(&format!("{} = \"{example}\"", self.key), read, mistakes)
    }

    /// An amount of bytes such as `256MB`.
    pub(crate) fn size(&self, example: &str, mistakes: &mut Mistakes) -> Option<u64> {
        self.text(&format!("{} = \"{example}\"", self.key), |text| size(text, example), mistakes)
    }

    /// A whole number, also a negative one; `fix` says what to write.
    pub(crate) fn number(
        &self,
        range: RangeInclusive<i64>,
        fix: impl Display,
        mistakes: &mut Mistakes,
    ) -> Option<i64> {
        let value = self.value(&fix, mistakes)?;
        match number(value) {
            Some(number) if range.contains(&number) => Some(number),
            Some(number) => {
                let text = format!(
                    "`{} = {number}` is not from {} to {}: {fix}",
                    self.key,
                    range.start(),
                    range.end()
                );
                mistakes.push(value, text);
                None
            }
            None => {
                mistakes.push(value, format!("`{}` takes a whole number: {fix}", self.key));
                None
            }
        }
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, mistakes: &mut Mistakes) -> Option<bool> {
        let fix = format!("write `{} = true`", self.key);
        let value = self.value(&fix, mistakes)?;
        match value {
            Expr::Lit(ExprLit { lit: Lit::Bool(literal), .. }) => Some(literal.value),
            _ => {
                mistakes.push(value, format!("`{}` must be true or false: {fix}", self.key));
                None
            }
        }
    }

    fn value(&self, fix: impl Display, mistakes: &mut Mistakes) -> Option<&Expr> {
        if self.value.is_none() {
            mistakes.push(&self.key, format!("`{}` needs a value: {fix}", self.key));
        }
        self.value.as_ref()
    }
}

fn identifier(value: &Expr) -> Option<String> {
    match value {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

fn string(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => Some(literal),
        _ => None,
    }
}

fn number(value: &Expr) -> Option<i64> {
    let (negative, number) = match value {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => (true, &**expr),
        other => (false, other),
    };
    let Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) = number else { return None };
    literal.base10_parse::<i64>().ok().map(|number| if negative { -number } else { number })
}

fn time(text: &str, example: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{text:?} is not a time ({error}): write {example:?}"))?;
    if time.is_zero() {
        return Err(format!("{text:?} is zero: write {example:?}, or leave this option out"));
    }
    if time > LONGEST {
        return Err(format!("{text:?} is more than 365 days: write {example:?}"));
    }
    Ok(time)
}

/// As `parse_size` of `delayed`, whose tests hold the two together.
fn size(text: &str, example: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not an amount of bytes: write {example:?}, with B, KB, MB, GB or TB");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let power = match text[digits..].trim_start().to_ascii_uppercase().as_str() {
        "B" => 0,
        "KB" | "KIB" => 10,
        "MB" | "MIB" => 20,
        "GB" | "GIB" => 30,
        "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    match number.checked_mul(1 << power).filter(|bytes| i64::try_from(*bytes).is_ok()) {
        Some(0) => Err(format!("{text:?} is zero: write {example:?}, or leave this option out")),
        Some(bytes) => Ok(bytes),
        None => Err(format!("{text:?} is too large: write {example:?}")),
    }
}
