//! What is said about a type as it is written: its text, whether it is an `Option`, its owned form.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::visit_mut::{self, VisitMut};
use syn::{GenericArgument, PathArguments, Type, TypePath, parse_quote};

/// A type as one writes it, without the spaces that tokens are printed with.
pub(crate) fn text(tokens: impl ToTokens) -> String {
    let mut text = String::new();
    write(tokens.into_token_stream(), &mut text);
    text
}

fn write(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                write(group.stream(), text);
                text.push_str(close);
            }
            TokenTree::Punct(punct) => match punct.as_char() {
                mark @ (',' | ';') => text.extend([mark, ' ']),
                mark @ ('+' | '=') => text.extend([' ', mark, ' ']),
                '-' => text.push_str(" -"),
                // The end of `->`.
                '>' if text.ends_with(" -") => text.push_str("> "),
                mark => text.push(mark),
            },
            word => {
                if text.ends_with(|last: char| last.is_alphanumeric() || last == '_') {
                    text.push(' ');
                }
                text.push_str(&word.to_string());
            }
        }
    }
}

/// Without the groups and brackets around it that mean nothing.
pub(crate) fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        other => other,
    }
}

/// Whether the path of `ty` is one of `paths`, such as `Option` and `std::option::Option`.
pub(crate) fn is_path(ty: &Type, paths: &[&[&str]]) -> bool {
    let Type::Path(TypePath { qself: None, path, .. }) = peel(ty) else { return false };
    paths.iter().any(|wanted| path.segments.iter().map(|segment| &segment.ident).eq(wanted.iter()))
}

/// The one type in the angle brackets of `ty`.
pub(crate) fn type_argument(ty: &Type) -> Option<&Type> {
    let Type::Path(TypePath { path, .. }) = peel(ty) else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.segments.last()?.arguments else { return None };
    match arguments.args.iter().collect::<Vec<_>>()[..] {
        [GenericArgument::Type(ty)] => Some(ty),
        _ => None,
    }
}

pub(crate) fn is_option(ty: &Type) -> bool {
    is_path(ty, &[&["Option"], &["std", "option", "Option"], &["core", "option", "Option"]])
}

pub(crate) fn is_vec(ty: &Type) -> bool {
    is_path(ty, &[&["Vec"], &["std", "vec", "Vec"], &["alloc", "vec", "Vec"]]) && type_argument(ty).is_some()
}

/// What a type has in it that an argument cannot have.
#[derive(Default)]
pub(crate) struct Borrowed {
    pub(crate) reference: bool,
    pub(crate) lifetime: bool,
    pub(crate) impl_trait: bool,
    pub(crate) self_type: bool,
}

impl Borrowed {
    /// Looks through `ty`; also gives the type to use instead of one with references.
    pub(crate) fn find(ty: &Type) -> (Self, Type) {
        let (mut found, mut owned) = (Self::default(), ty.clone());
        found.visit_type_mut(&mut owned);
        (found, owned)
    }
}

impl VisitMut for Borrowed {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::Reference(reference) = ty {
            self.reference = true;
            *ty = owned(&reference.elem);
        }
        self.impl_trait |= matches!(ty, Type::ImplTrait(_));
        visit_mut::visit_type_mut(self, ty);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut syn::Lifetime) {
        self.lifetime |= lifetime.ident != "static";
    }

    fn visit_ident_mut(&mut self, ident: &mut proc_macro2::Ident) {
        self.self_type |= ident == "Self";
    }
}

/// The owned form of what a reference points to.
fn owned(ty: &Type) -> Type {
    const OWNED: [(&str, &str); 4] =
        [("str", "String"), ("Path", "PathBuf"), ("OsStr", "OsString"), ("CStr", "CString")];
    match peel(ty) {
        Type::Slice(slice) => {
            let element = &slice.elem;
            parse_quote!(Vec<#element>)
        }
        Type::Path(TypePath { path, .. }) => {
            let last = path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            match OWNED.iter().find(|(borrowed, _)| *borrowed == last) {
                Some((_, owned)) => {
                    let owned = format_ident!("{owned}");
                    parse_quote!(#owned)
                }
                None => ty.clone(),
            }
        }
        Type::TraitObject(_) => parse_quote!(Box<#ty>),
        _ => ty.clone(),
    }
}
