//! Which ticks does a periodic task have, and is the expression one? What follows from the time zone is checked at the start of
//! a worker.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::mistakes::Mistakes;
use crate::params::{Argument, Param, Presence};
use crate::types;
use crate::values::Item;

/// What the options say of it.
#[derive(Default)]
pub(crate) struct Cron {
    /// The option itself, for mistakes.
    key: Option<Ident>,
    text: Option<String>,
    tz: Option<String>,
    overlap: Option<Overlap>,
    missed: Option<Missed>,
    /// The options that need a `cron`.
    others: Vec<Ident>,
}

/// What happens when an earlier call has not ended, as `Overlap` of `delayed` names it.
#[derive(Clone, Copy)]
enum Overlap {
    Allow,
    Skip,
    Queue,
}

/// What happens to missed ticks, as `Missed` of `delayed` names it.
#[derive(Clone, Copy)]
enum Missed {
    Skip,
    Once,
    All(u32),
}

impl Cron {
    /// Reads one option. Whether it is one of a periodic task.
    pub(crate) fn read(&mut self, item: &Item, mistakes: &mut Mistakes) -> bool {
        match item.key.to_string().as_str() {
            "cron" => {
                self.key = Some(item.key.clone());
                self.text = item.text("cron = \"0 3 * * *\"", expression, mistakes);
                return true;
            }
            "tz" => self.tz = item.text("tz = \"Europe/Berlin\"", zone, mistakes),
            "overlap" => self.overlap = item.text("overlap = \"skip\"", overlap, mistakes),
            "missed" => self.missed = item.text("missed = \"once\"", missed, mistakes),
            _ => return false,
        }
        self.others.push(item.key.clone());
        true
    }

    /// Whether it is a periodic task.
    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some()
    }

    /// Refuses options that do not go together.
    pub(crate) fn check(&mut self, is_unique: bool, mistakes: &mut Mistakes) {
        match &self.key {
            None => self.others.iter().for_each(|key| {
                mistakes.push(key, format!("`{key}` is for a periodic task: write `cron = \"0 3 * * *\"` as well, or leave `{key}` out"));
            }),
            Some(key) if is_unique && matches!(self.overlap, Some(Overlap::Skip)) => {
                mistakes.push(key, "`overlap = \"skip\"` makes the calls unique until they are done: leave `unique` out");
            }
            Some(_) => {}
        }
    }

    /// Refuses parameters that a tick has no arguments for.
    pub(crate) fn check_params(&self, params: &[Param], mistakes: &mut Mistakes) {
        if self.key.is_none() {
            return;
        }
        for param in params {
            if let Param::Argument(argument) = param
                && let Argument { keyword, ty, presence: Presence::Required, .. } = &**argument
            {
                let text = types::text(ty);
                mistakes.push(
                    ty,
                    format!(
                        "a periodic task is called without arguments, and `{keyword}` must be given: write \
                         `{keyword}: Option<{text}>` or `#[task(default)] {keyword}: {text}`, or define the task with \
                         `Client::define_periodic`, which takes arguments"
                    ),
                );
            }
        }
    }

    /// The same as `TaskCron` of `delayed`.
    pub(crate) fn tokens(&self) -> Option<TokenStream> {
        let text = self.text.as_ref()?;
        let tz = self.tz.iter();
        let overlap = self.overlap.iter().map(|overlap| match overlap {
            Overlap::Allow => quote!(Allow),
            Overlap::Skip => quote!(Skip),
            Overlap::Queue => quote!(Queue),
        });
        let missed = self.missed.iter().map(|missed| match missed {
            Missed::Skip => quote!(Skip),
            Missed::Once => quote!(Once),
            Missed::All(most) => quote!(All(#most)),
        });
        Some(quote! {
            .with_cron(
                ::delayed::__private::TaskCron::new(#text)
                    #(.with_tz(#tz))*
                    #(.with_overlap(::delayed::Overlap::#overlap))*
                    #(.with_missed(::delayed::Missed::#missed))*
            )
        })
    }
}

#[cfg(feature = "periodic")]
fn expression(text: &str) -> Result<String, String> {
    use croner::parser::{CronParser, Seconds, Year};

    const FIX: &str =
        "write five fields, such as \"0 3 * * *\", six with seconds first, \"@daily\", or \"@every 90s\"";
    let text = text.trim();
    let (word, interval) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if word.eq_ignore_ascii_case("@every") {
        let second = std::time::Duration::from_secs(1);
        return match humantime::parse_duration(interval.trim()) {
            Ok(time)
                if (second..=366 * 24 * 3600 * second).contains(&time)
                    && time.subsec_nanos() % 1_000_000 == 0 =>
            {
                Ok(text.to_owned())
            }
            _ => Err(format!("`cron = {text:?}` has no interval from 1s to 366d: write \"@every 90s\"")),
        };
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    match parser.parse(text) {
        Ok(_) if has_no_date(text) => Err(format!("`cron = {text:?}` has no tick: no date matches it")),
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let reason = error.to_string();
            Err(format!("`cron = {text:?}` is not valid: {}; {FIX}", reason.trim_end_matches('.')))
        }
    }
}

/// Whether the days are listed, and none of the months, which are listed as well, has one of them. What else has no date is found
/// when the program starts.
#[cfg(feature = "periodic")]
fn has_no_date(text: &str) -> bool {
    const MONTHS: [(&str, u8); 12] = [
        ("JAN", 31),
        ("FEB", 29),
        ("MAR", 31),
        ("APR", 30),
        ("MAY", 31),
        ("JUN", 30),
        ("JUL", 31),
        ("AUG", 31),
        ("SEP", 30),
        ("OCT", 31),
        ("NOV", 30),
        ("DEC", 31),
    ];
    let days_of = |month: &str| {
        let number = month.parse::<usize>().ok().map(|number| number.wrapping_sub(1));
        let name = || MONTHS.iter().position(|(name, _)| month.eq_ignore_ascii_case(name));
        MONTHS.get(number.or_else(name)?).map(|(_, days)| *days)
    };
    // A day of the week would match beside the days of the month.
    let [.., days, months, "*" | "?"] = text.split_whitespace().collect::<Vec<_>>()[..] else { return false };
    let first: Option<Vec<u8>> = days.split(',').map(|day| day.parse().ok()).collect();
    let lengths: Option<Vec<u8>> = months.split(',').map(days_of).collect();
    match (first.iter().flatten().min(), lengths.iter().flatten().max()) {
        (Some(first), Some(longest)) => first > longest,
        _ => false,
    }
}

#[cfg(not(feature = "periodic"))]
fn expression(_text: &str) -> Result<String, String> {
    Err("`cron` needs the feature `periodic` of `delayed`: turn it on in Cargo.toml".into())
}

fn zone(name: &str) -> Result<String, String> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_/+-".contains(c));
    if is_name {
        Ok(name.to_owned())
    } else {
        Err(format!("`tz = {name:?}` is no time zone: write a name such as \"Europe/Berlin\""))
    }
}

fn overlap(text: &str) -> Result<Overlap, String> {
    match text {
        "allow" => Ok(Overlap::Allow),
        "skip" => Ok(Overlap::Skip),
        "queue" => Ok(Overlap::Queue),
        _ => Err(format!("`overlap = {text:?}` is none of \"allow\", \"skip\" and \"queue\"")),
    }
}

fn missed(text: &str) -> Result<Missed, String> {
    let number = |text: &str| text.parse().ok().filter(|number| (1..=1000).contains(number));
    let found = match text {
        "skip" => Some(Missed::Skip),
        "once" => Some(Missed::Once),
        "all" => Some(Missed::All(100)),
        _ => text.strip_prefix("all:").and_then(number).map(Missed::All),
    };
    found.ok_or_else(|| {
        format!(
            "`missed = {text:?}` is none of \"skip\", \"once\", \"all\" and \"all:N\", with N from 1 to 1000"
        )
    })
}

#[cfg(all(test, feature = "periodic"))]
mod tests {
    use super::*;

    #[test]
    fn day_that_its_months_never_have_is_no_date() {
        for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 ?", "5 0 0 31,30 FEB *", "0 0 31 sep *"] {
            assert!(expression(text).unwrap_err().ends_with("has no tick: no date matches it"), "{text}");
        }
        let dates = [
            "0 0 29 2 *",
            "0 0 29,30 2 *",
            "0 0 31 4,5 *",
            "0 0 30 2 MON",
            "0 0 L 2 *",
            "0 0 28-31 2 *",
            "0 0 31 * *",
            "@daily",
        ];
        for text in dates {
            assert_eq!(expression(text), Ok(text.into()));
        }
    }
}
