//! The attribute macro of `delayed`. Its documentation stands at `delayed::task`.
#![allow(missing_docs)]

mod batch;
mod cron;
mod expand;
mod function;
mod mistakes;
mod options;
mod params;
mod types;
mod values;

use proc_macro::TokenStream;

use crate::function::Function;
use crate::mistakes::Mistakes;
use crate::options::Options;

#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    task_of(options.into(), item.into()).into()
}

/// Writes what can be written, and every mistake beside it.
fn task_of(options: proc_macro2::TokenStream, item: proc_macro2::TokenStream) -> proc_macro2::TokenStream {
    let mut mistakes = Mistakes::default();
    let options = Options::parse(options, &mut mistakes);
    let mut function = match Function::parse(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            mistakes.push_error(error);
            let mistakes = mistakes.into_tokens();
            return quote::quote!(#item #mistakes);
        }
    };
    let task = function.check(&mut mistakes);
    if let Some(task) = &task {
        options.cron.check_params(&task.params, &mut mistakes);
        options.batch.check_params(&task.params, &mut mistakes);
    }
    // With a sound signature the struct is written in any case: its users get no errors of their own.
    let beside = task.map(|task| expand::beside(&function, &options, &task));
    let mistakes = mistakes.into_tokens();
    quote::quote!(#function #beside #mistakes)
}
