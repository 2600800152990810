//! How are all mistakes told at once? They are gathered here, and become errors at the end.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Mistakes {
    error: Option<syn::Error>,
    count: usize,
}

impl Mistakes {
    /// A mistake at `place`; the text names the fix.
    pub(crate) fn push(&mut self, place: impl ToTokens, text: impl Display) {
        self.push_error(syn::Error::new_spanned(place, text));
    }

    /// A mistake that knows its place.
    pub(crate) fn push_error(&mut self, error: syn::Error) {
        self.count += 1;
        match &mut self.error {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    /// A mistake that the compiler tells by itself.
    pub(crate) fn push_told(&mut self) {
        self.count += 1;
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// One `compile_error!` for each.
    pub(crate) fn into_tokens(self) -> Option<TokenStream> {
        self.error.map(syn::Error::into_compile_error)
    }
}
