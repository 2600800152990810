//! Which parameters travel, which are injected, and which may be missing?

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, FnArg, Meta, Pat, PatIdent, PatType, Signature, Token, Type};

use crate::mistakes::Mistakes;
use crate::types::{self, Borrowed};

/// The most parameters that travel.
const MAX_PARAMS: usize = 16;

pub(crate) const METHOD: &str = "a method cannot be a task, because its `Self` cannot be sent: mark a free function outside of the `impl`";

/// One parameter, in its place.
pub(crate) enum Param {
    Context,
    State(Box<Type>),
    Argument(Box<Argument>),
}

/// A parameter that travels.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    /// Its name as it is spoken of: without `r#`.
    pub(crate) keyword: String,
    pub(crate) ty: Type,
    pub(crate) presence: Presence,
}

/// Whether a parameter may be missing.
pub(crate) enum Presence {
    Required,
    Option,
    Default(Option<Expr>),
    /// With the type of one element.
    Variadic(Type),
}

/// Checks all parameters and takes their `#[task(…)]` off.
pub(crate) fn check(signature: &mut Signature, mistakes: &mut Mistakes) -> Vec<Param> {
    let last = signature.inputs.iter().rposition(travels);
    let mut params = Vec::new();
    let (mut names, mut count) = (Vec::new(), 0);
    for (index, input) in signature.inputs.iter_mut().enumerate() {
        let param = match input {
            FnArg::Receiver(receiver) => {
                mistakes.push(&*receiver, METHOD);
                None
            }
            FnArg::Typed(typed) => {
                unique(&mut typed.pat, &mut names, mistakes);
                check_one(typed, last == Some(index), mistakes)
            }
        };
        if matches!(param, Some(Param::Argument(_))) {
            count += 1;
            if count == MAX_PARAMS + 1 {
                let fix = format!("a task can have at most {MAX_PARAMS} arguments: use a struct");
                mistakes.push(&*input, fix);
            }
        }
        params.extend(param);
    }
    params
}

/// Refuses a second parameter of the same name. The compiler would say so too, so it gets to see another name.
fn unique(pattern: &mut Pat, names: &mut Vec<String>, mistakes: &mut Mistakes) {
    let Pat::Ident(PatIdent { ident, .. }) = pattern else { return };
    let name = ident.unraw().to_string();
    if names.contains(&name) {
        mistakes.push(
            &*ident,
            format!("two parameters are called `{name}`: each needs a different name, which is its keyword"),
        );
        *ident = Ident::new(&name, Span::mixed_site().located_at(ident.span()));
    } else {
        names.push(name);
    }
}

fn check_one(typed: &mut PatType, last: bool, mistakes: &mut Mistakes) -> Option<Param> {
    let before = mistakes.count();
    let own: Vec<Attribute> =
        typed.attrs.extract_if(.., |attribute| attribute.path().is_ident("task")).collect();
    if let Some(condition) = typed.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
        mistakes.push(
            condition,
            "a parameter of a task cannot have `#[cfg]`: write two functions, each under its own `#[cfg]`",
        );
    }
    let how = How::parse(&own, mistakes);
    if let Some(injected) = injected(&typed.ty, mistakes) {
        if let Some(attribute) = own.first() {
            mistakes.push(
                attribute,
                format!(
                    "`{}` is not sent, but supplied by the worker: remove this attribute",
                    types::text(&typed.ty)
                ),
            );
        }
        if !matches!(*typed.pat, Pat::Ident(_) | Pat::Wild(_)) {
            mistakes.push(&typed.pat, destructured(&typed.ty));
        }
        return (mistakes.count() == before).then_some(injected);
    }
    let name = name(typed, mistakes);
    check_type(typed, mistakes);
    let presence = how.presence(&typed.ty, last, mistakes);
    (mistakes.count() == before).then(|| name.zip(presence)).flatten().map(|(name, presence)| {
        let keyword = name.unraw().to_string();
        Param::Argument(Box::new(Argument { name, keyword, ty: (*typed.ty).clone(), presence }))
    })
}

fn travels(input: &FnArg) -> bool {
    matches!(input, FnArg::Typed(typed) if !is_context(&typed.ty) && !is_state(&typed.ty))
}

fn is_context(ty: &Type) -> bool {
    types::is_path(ty, &[&["Context"], &["delayed", "Context"]])
}

fn is_state(ty: &Type) -> bool {
    types::is_path(ty, &[&["State"], &["delayed", "State"]])
}

/// `Context` and `State<T>`, also after `delayed::`.
fn injected(ty: &Type, mistakes: &mut Mistakes) -> Option<Param> {
    if is_context(ty) {
        return Some(Param::Context);
    }
    if is_state(ty) {
        let state = types::type_argument(ty).cloned();
        if state.is_none() {
            mistakes.push_told();
        }
        return Some(Param::State(Box::new(state.unwrap_or_else(|| ty.clone()))));
    }
    None
}

fn destructured(ty: &Type) -> String {
    format!(
        "a parameter needs a name, which is its keyword: write `value: {}`, and destructure it in the body with \
        `let`",
        types::text(ty)
    )
}

/// The name of a parameter that travels.
fn name(typed: &PatType, mistakes: &mut Mistakes) -> Option<Ident> {
    match &*typed.pat {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => Some(ident.clone()),
        Pat::Wild(_) => {
            mistakes.push(
                &typed.pat,
                "a parameter needs a name, which is its keyword: write `_unused`, for example",
            );
            None
        }
        pattern => {
            mistakes.push(pattern, destructured(&typed.ty));
            None
        }
    }
}

fn check_type(typed: &PatType, mistakes: &mut Mistakes) {
    let ty = &*typed.ty;
    let (found, owned) = Borrowed::find(ty);
    if found.impl_trait {
        mistakes.push(ty, "an argument must have a named type: write the type instead of `impl Trait`");
    } else if found.self_type {
        mistakes.push(ty, METHOD);
    } else if found.reference {
        mistakes.push(
            ty,
            format!(
                "a task owns its arguments: use `{}` instead of `{}`",
                types::text(owned),
                types::text(ty)
            ),
        );
    } else if found.lifetime {
        mistakes.push(ty, "a task owns its arguments: use an owned type, or one with `'static`");
    }
}

/// What `#[task(…)]` on a parameter says.
#[derive(Default)]
struct How {
    default: Option<(Span, Option<Expr>)>,
    variadic: Option<Span>,
}

/// One word in `#[task(…)]`.
struct Word {
    key: Ident,
    value: Option<Expr>,
}

impl Parse for Word {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse()?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Self { key, value })
    }
}

impl How {
    fn parse(attributes: &[Attribute], mistakes: &mut Mistakes) -> Self {
        const KNOWN: &str = "a parameter takes `default`, `default = …` or `variadic`";
        let mut how = Self::default();
        for attribute in attributes {
            let Meta::List(list) = &attribute.meta else {
                mistakes
                    .push(attribute, format!("this attribute is empty: {KNOWN}, as in `#[task(default)]`"));
                continue;
            };
            let words = match list.parse_args_with(Punctuated::<Word, Token![,]>::parse_terminated) {
                Ok(words) => words,
                Err(error) => {
                    mistakes.push_error(error);
                    continue;
                }
            };
            if words.is_empty() {
                mistakes
                    .push(attribute, format!("this attribute is empty: {KNOWN}, as in `#[task(default)]`"));
            }
            for Word { key, value } in words {
                let span = key.span();
                match (key.to_string().as_str(), value) {
                    ("default", value) if how.default.is_none() => how.default = Some((span, value)),
                    ("variadic", None) if how.variadic.is_none() => how.variadic = Some(span),
                    ("variadic", Some(value)) => mistakes.push(value, "`variadic` takes no value: remove it"),
                    (word @ ("default" | "variadic"), _) => {
                        mistakes.push(&key, format!("`{word}` is given twice: keep one of them"));
                    }
                    (word, _) => mistakes.push(&key, format!("a parameter has no option `{word}`: {KNOWN}")),
                }
            }
        }
        how
    }

    fn presence(self, ty: &Type, last: bool, mistakes: &mut Mistakes) -> Option<Presence> {
        let Some(variadic) = self.variadic else {
            return Some(match self.default {
                Some((_, value)) => Presence::Default(value),
                None if types::is_option(ty) => Presence::Option,
                None => Presence::Required,
            });
        };
        let mut wrong = |text: &str| mistakes.push_error(syn::Error::new(variadic, text));
        let mut good = true;
        if self.default.is_some() {
            wrong("a variadic parameter is empty if no arguments are left: remove `default`");
            good = false;
        }
        if !last {
            wrong("a variadic parameter takes all remaining arguments: make it the last one");
            good = false;
        }
        if !types::is_vec(ty) {
            mistakes.push(ty, "a variadic parameter is a list: make its type `Vec<T>`");
            return None;
        }
        types::type_argument(ty).filter(|_| good).cloned().map(Presence::Variadic)
    }
}
