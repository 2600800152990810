//! What stands in `#[delayed::task(…)]`?

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, ExprUnary, Ident, Lit, Token, UnOp};

use crate::mistakes::Mistakes;

const KNOWN: &str = "the options are `name = \"…\"`, `queue = \"…\"` and `retry = …`";

/// As in `src/protocol/names.rs` of `delayed`, whose tests hold the two together.
const SUFFIXES: [&str; 7] = ["_noti", "_processing", "_workers", "_dead", "_deaths", "_sweep", "_scheduled"];
const MAX_QUEUE_NAME: usize = 200;

/// The options of a task.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) retry: Option<i64>,
}

/// One `key = value` as it stands there; the value may be missing.
struct Item {
    key: Ident,
    value: Option<Expr>,
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse().map_err(|error| syn::Error::new(error.span(), KNOWN))?;
        let value = if input.is_empty() || input.peek(Token![,]) {
            None
        } else {
            let text = format!("`{key}` takes its value after `=`: {KNOWN}");
            input.parse::<Token![=]>().map_err(|error| syn::Error::new(error.span(), text))?;
            Some(input.parse()?)
        };
        Ok(Self { key, value })
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
        for Item { key, value } in &items {
            let option = key.to_string();
            if seen.contains(&option) {
                mistakes.push(key, format!("`{option}` stands here twice: keep one of them"));
                continue;
            }
            match option.as_str() {
                "name" => {
                    options.name = text(key, value.as_ref(), "name = \"mail.send\"", check_name, mistakes);
                }
                "queue" => {
                    options.queue = text(key, value.as_ref(), "queue = \"mail\"", check_queue, mistakes);
                }
                "retry" => options.retry = retry(key, value.as_ref(), mistakes),
                _ => {
                    mistakes.push(key, format!("there is no option `{option}`: {KNOWN}"));
                    continue;
                }
            }
            seen.push(option);
        }
        options
    }
}

/// A string literal that `check` has nothing against.
fn text(
    key: &Ident,
    value: Option<&Expr>,
    example: &str,
    check: fn(&str) -> Result<(), String>,
    mistakes: &mut Mistakes,
) -> Option<String> {
    let Some(value) = value else {
        mistakes.push(key, format!("`{key}` needs a value: write `{example}`"));
        return None;
    };
    let Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) = value else {
        mistakes.push(value, format!("`{key}` takes a string literal: write `{example}`"));
        return None;
    };
    let text = literal.value();
    match check(&text) {
        Ok(()) => Some(text),
        Err(why) => {
            mistakes.push(literal, why);
            None
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(
            "the name of a task must not be empty: leave `name` out to use the function's path".into()
        );
    }
    match name.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(character) => Err(format!(
            "the name of a task {name:?} has {character:?} in it: use printable characters without spaces"
        )),
        None => Ok(()),
    }
}

fn check_queue(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a queue name must not be empty: leave `queue` out to use `default`".into());
    }
    if name.len() > MAX_QUEUE_NAME {
        return Err(format!("the queue name has {} bytes: at most {MAX_QUEUE_NAME} are allowed", name.len()));
    }
    if let Some(character) = name.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "the queue name {name:?} has {character:?} in it: use printable characters without spaces"
        ));
    }
    if let Some(suffix) = SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix)) {
        let instead = name.strip_suffix(suffix).filter(|rest| !rest.is_empty()).unwrap_or("default");
        return Err(format!(
            "the queue name {name:?} ends in `{suffix}`, which marks a key beside a queue: use {instead:?}"
        ));
    }
    Ok(())
}

/// A whole number, also a negative one.
fn retry(key: &Ident, value: Option<&Expr>, mistakes: &mut Mistakes) -> Option<i64> {
    const FIX: &str = "write `retry = 3`, or `retry = -1` to retry for ever";
    let Some(value) = value else {
        mistakes.push(key, format!("`retry` needs a value: {FIX}"));
        return None;
    };
    let (negative, number) = match value {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => (true, &**expr),
        other => (false, other),
    };
    let parsed = match number {
        Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => literal.base10_parse::<i64>().ok(),
        _ => None,
    };
    match parsed {
        Some(number) => Some(if negative { -number } else { number }),
        None => {
            mistakes.push(value, format!("`retry` takes a whole number: {FIX}"));
            None
        }
    }
}
