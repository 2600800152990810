//! Reads `batch(…)`, and checks that the function takes a list.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::Type;

use crate::mistakes::Mistakes;
use crate::params::{Argument, Param, Presence};
use crate::types;
use crate::values::Item;

const BATCH: &str =
    "write `batch(max = 100, within = \"2s\")`, with `grace = \"500ms\"` if a pause between items ends it";
const LARGEST: i64 = 10_000;

/// What `batch(…)` says.
#[derive(Default)]
pub(crate) struct Batch {
    /// The option itself, for mistakes.
    key: Option<Ident>,
    max: Option<i64>,
    within: Option<Duration>,
    grace: Option<Duration>,
}

impl Batch {
    /// Reads `batch(…)`.
    pub(crate) fn read(&mut self, item: &Item, mistakes: &mut Mistakes) {
        self.key = Some(item.key.clone());
        let before = mistakes.count();
        for option in item.options.iter().flatten() {
            let is_given = match option.key.to_string().as_str() {
                "max" => {
                    let fix = "write `max = 100`";
                    self.max.replace(option.number(1..=LARGEST, fix, mistakes).unwrap_or(1)).is_some()
                }
                "within" => self.within.replace(option.time("2s", mistakes).unwrap_or_default()).is_some(),
                "grace" => self.grace.replace(option.time("500ms", mistakes).unwrap_or_default()).is_some(),
                other => {
                    mistakes.push(&option.key, format!("a batch has no option `{other}`: {BATCH}"));
                    false
                }
            };
            if is_given {
                mistakes.push(&option.key, format!("`{}` is given twice: keep one of them", option.key));
            }
        }
        if mistakes.count() > before {
            return;
        }
        match (self.max, self.within) {
            (Some(_), Some(within)) if self.grace.is_some_and(|grace| grace > within) => {
                mistakes.push(
                    &item.key,
                    "`grace` is longer than `within`, which ends the batch before: make it shorter",
                );
            }
            (Some(_), Some(_)) => {}
            _ => mistakes.push(&item.key, format!("a batch needs `max` and `within`: {BATCH}")),
        }
    }

    /// Whether the calls of the task are collected.
    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some()
    }

    /// Refuses options that belong to single calls.
    pub(crate) fn check(&self, others: &[(&str, bool)], mistakes: &mut Mistakes) {
        let Some(key) = &self.key else { return };
        for (other, _) in others.iter().filter(|(_, is_given)| *is_given) {
            mistakes.push(
                key,
                format!(
                    "`{other}` is for single calls, and those of a batch run together: leave `{other}` out"
                ),
            );
        }
    }

    /// Refuses parameters that are not one list of items.
    pub(crate) fn check_params(&self, params: &[Param], mistakes: &mut Mistakes) {
        let Some(key) = &self.key else { return };
        if items(params).is_none() {
            mistakes
                .push(key, "a batch is one argument, the list of its items: declare it as `items: Vec<T>`");
        }
    }

    /// The call of `TaskOptions::with_batch` of `delayed`.
    pub(crate) fn tokens(&self) -> Option<TokenStream> {
        let (max, within) = (u32::try_from(self.max?).ok()?, time(self.within?));
        let grace = self.grace.map(time);
        let grace = grace.iter();
        Some(quote!(.with_batch(::delayed::__private::TaskBatch::new(#max, #within) #(.with_grace(#grace))*)))
    }
}

/// The argument with the items, and the type of one.
pub(crate) fn items(params: &[Param]) -> Option<(&Argument, &Type)> {
    let mut arguments = params.iter().filter_map(|param| match param {
        Param::Argument(argument) => Some(&**argument),
        Param::Context | Param::State(_) => None,
    });
    let (argument, None) = (arguments.next()?, arguments.next()) else { return None };
    let is_list = matches!(argument.presence, Presence::Required) && types::is_vec(&argument.ty);
    is_list.then(|| types::type_argument(&argument.ty).map(|item| (argument, item)))?
}

fn time(time: Duration) -> TokenStream {
    let (seconds, nanoseconds) = (time.as_secs(), time.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanoseconds))
}
