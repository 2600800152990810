//! The attribute macro of `delayed`. Its documentation stands at `delayed::task`.
#![allow(missing_docs)]

use proc_macro::TokenStream;

#[proc_macro_attribute]
pub fn task(_options: TokenStream, item: TokenStream) -> TokenStream {
    item
}
