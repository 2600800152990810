//! What is written beside the function: its struct, with `call`, and its registration.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::batch;
use crate::function::{Function, Task};
use crate::options::Options;
use crate::params::{Argument, Param, Presence};
use crate::types;

/// The struct of the function's name and all that hangs on it.
pub(crate) fn beside(function: &Function, options: &Options, task: &Task) -> TokenStream {
    let arguments: Vec<&Argument> = task.params.iter().filter_map(argument).collect();
    let structure = structure(function, options, task, &arguments);
    let registration = registration(function, options, task, &arguments);
    quote!(#structure #registration)
}

fn argument(param: &Param) -> Option<&Argument> {
    match param {
        Param::Argument(argument) => Some(argument),
        Param::Context | Param::State(_) => None,
    }
}

/// A name that no name of the user's can be mistaken for, nor mistake for another.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// `struct add {}` has braces: so it leaves the function its name among values.
fn structure(function: &Function, options: &Options, task: &Task, arguments: &[&Argument]) -> TokenStream {
    let (name, visibility) = (function.name(), &function.visibility);
    let conditions: Vec<_> = function.conditions().collect();
    let notices = function.notices();
    let plain = function.plain_name();
    let about =
        format!("The task `{plain}`: `{plain}::call(…)` makes a call of it, for a client to enqueue.");
    let output = if options.batch.is_given() { quote!(()) } else { function.output() };
    let step = step(function, arguments, &output);
    let call = match batch::items(&task.params).filter(|_| options.batch.is_given()) {
        Some((items, item)) => call_of_item(function, items, item),
        None => call(function, arguments, &output),
    };
    quote! {
        #(#conditions)*
        #(#notices)*
        #[doc = #about]
        #[allow(
            dead_code, missing_copy_implementations, missing_debug_implementations, non_camel_case_types,
            unreachable_pub
        )]
        #visibility struct #name {}

        #(#conditions)*
        #[allow(
            dead_code, deprecated, private_interfaces, unreachable_pub,
            clippy::needless_pass_by_value, clippy::too_many_arguments
        )]
        impl #name {
            #call

            #step
        }
    }
}

/// The function that makes a call.
fn call(function: &Function, arguments: &[&Argument], output: &TokenStream) -> TokenStream {
    let about_call = format!(
        "A call of `{}` with these arguments, for a client to enqueue. Where it runs they are decoded into the same types.",
        function.plain_name()
    );
    let count = arguments.len();
    let encoder = local("encoder");
    let names = arguments.iter().map(|argument| &argument.name);
    let types = arguments.iter().map(|argument| &argument.ty);
    let encode = arguments.iter().map(|Argument { name, keyword, ty, .. }| {
        let mut value = name.clone();
        // Found by the user's name, and told at the user's type when that does not fit.
        value.set_span(name.span().located_at(ty.span()));
        quote_spanned!(ty.span()=> <#ty as ::delayed::__private::EncodeArgument>::write(&#value, &mut #encoder, #keyword);)
    });
    let mutable = (count > 0).then(|| quote!(mut));
    quote! {
        #[doc = #about_call]
        pub fn call(#(#names: #types),*) -> ::delayed::Call<#output> {
            let #mutable #encoder = ::delayed::__private::Encoder::new(#count);
            #(#encode)*
            ::delayed::Call::new::<Self>(#encoder)
        }
    }
}

/// The function that makes a call of a task that runs in batches: of one item.
fn call_of_item(function: &Function, items: &Argument, item: &Type) -> TokenStream {
    let about = format!(
        "A call of `{}` with one item, for a client to enqueue. It runs together with others, as one batch.",
        function.plain_name()
    );
    let (encoder, value, keyword) = (local("encoder"), local("item"), &items.keyword);
    let encode = quote_spanned!(item.span()=> <#item as ::delayed::__private::EncodeArgument>::write(&#value, &mut #encoder, #keyword););
    quote! {
        #[doc = #about]
        pub fn call(#value: #item) -> ::delayed::Call {
            let mut #encoder = ::delayed::__private::Encoder::of_item();
            #encode
            ::delayed::Call::new::<Self>(#encoder)
        }
    }
}

/// The function that makes a step of a flow: its first argument is what the part before it returns. None without arguments.
fn step(function: &Function, arguments: &[&Argument], output: &TokenStream) -> Option<TokenStream> {
    let (first, rest) = arguments.split_first()?;
    if matches!(first.presence, Presence::Variadic(_)) {
        return None;
    }
    let (encoder, count) = (local("encoder"), arguments.len());
    let about = format!(
        "A step of a flow: a call of `{}` with the result of the part before it, and these arguments.",
        function.plain_name()
    );
    let names = rest.iter().map(|argument| &argument.name);
    let types = rest.iter().map(|argument| &argument.ty);
    let encode = rest.iter().map(|Argument { name, keyword, ty, .. }| {
        let mut value = name.clone();
        value.set_span(name.span().located_at(ty.span()));
        quote_spanned!(ty.span()=> <#ty as ::delayed::__private::EncodeArgument>::write(&#value, &mut #encoder, #keyword);)
    });
    let (first, keyword) = (&first.ty, &first.keyword);
    Some(quote! {
        #[doc = #about]
        pub fn step(#(#names: #types),*) -> ::delayed::Step<#first, #output> {
            let mut #encoder = ::delayed::__private::Encoder::new(#count);
            <() as ::delayed::__private::EncodeArgument>::write(&(), &mut #encoder, #keyword);
            #(#encode)*
            ::delayed::Step::new::<Self>(#encoder)
        }
    })
}

fn registration(function: &Function, options: &Options, task: &Task, arguments: &[&Argument]) -> TokenStream {
    let name = function.name();
    let conditions = function.conditions();
    let plain = function.plain_name();
    let path = match &options.name {
        Some(path) => quote!(#path),
        None => quote!(::core::concat!(::core::module_path!(), "::", #plain)),
    };
    let (doc, returns, is_batch) = (function.doc(), function.returns(), options.batch.is_given());
    let options = options.tokens();
    let context = task.params.iter().any(|param| matches!(param, Param::Context));
    let params = arguments.iter().map(|Argument { keyword, ty, presence, .. }| {
        let ty = types::text(ty);
        let presence = format_ident!(
            "{}",
            match presence {
                Presence::Required => "Required",
                Presence::Option | Presence::Default(_) => "Optional",
                Presence::Variadic(_) => "Variadic",
            }
        );
        quote!(::delayed::__private::Param {
            name: #keyword,
            ty: #ty,
            presence: ::delayed::__private::Presence::#presence,
        })
    });
    let states = task.params.iter().filter_map(|param| {
        let Param::State(ty) = param else { return None };
        let text = types::text(ty);
        Some(quote_spanned!(ty.span()=> ::delayed::__private::StateType {
            id: ::core::any::TypeId::of::<#ty>,
            name: #text,
        }))
    });
    let (check, run) = (check(arguments), run(function, task, is_batch));
    let kind = format_ident!("{}", if function.signature.asyncness.is_some() { "Async" } else { "Blocking" });
    quote! {
        #(#conditions)*
        #[allow(deprecated)]
        const _: () = {
            static __DELAYED_PARAMS: &[::delayed::__private::Param] = &[#(#params),*];

            static __DELAYED_REGISTRATION: ::delayed::__private::Registration =
                ::delayed::__private::Registration {
                    name: #path,
                    location: ::core::concat!(::core::file!(), ":", ::core::line!()),
                    doc: #doc,
                    params: __DELAYED_PARAMS,
                    returns: #returns,
                    options: #options,
                    states: &[#(#states),*],
                    context: #context,
                    check: __delayed_check,
                    handler: ::delayed::__private::Handler::#kind(__delayed_run),
                };

            #check

            #run

            impl ::delayed::Task for #name {
                fn registration() -> &'static ::delayed::__private::Registration {
                    &__DELAYED_REGISTRATION
                }
            }

            ::delayed::__private::inventory::submit! { &__DELAYED_REGISTRATION }
        };
    }
}

/// Its arguments alone: read as for a run, and dropped. What is left out is not made.
fn check(arguments: &[&Argument]) -> TokenStream {
    let (given, reader) = (local("arguments"), local("reader"));
    let read = arguments.iter().map(|Argument { ty, presence, .. }| match presence {
        Presence::Required => {
            quote_spanned!(ty.span()=> <#ty as ::delayed::__private::DecodeArgument>::required(&mut #reader))
        }
        Presence::Option | Presence::Default(_) => {
            quote_spanned!(ty.span()=> <#ty as ::delayed::__private::DecodeArgument>::optional(&mut #reader))
        }
        Presence::Variadic(element) => {
            quote_spanned!(element.span()=> <#element as ::delayed::__private::DecodeArgument>::variadic(&mut #reader))
        }
    });
    let mutable = (!arguments.is_empty()).then(|| quote!(mut));
    quote! {
        fn __delayed_check(
            #given: ::delayed::__private::Arguments<'_>,
        ) -> ::core::result::Result<(), ::delayed::__private::ArgumentError> {
            let #mutable #reader = #given.reader(__DELAYED_PARAMS)?;
            #(#read.map(::core::mem::drop)?;)*
            #reader.finish()
        }
    }
}

/// The value of one argument.
fn from_reader(Argument { ty, presence, .. }: &Argument, reader: &Ident) -> TokenStream {
    let optional =
        quote_spanned!(ty.span()=> <#ty as ::delayed::__private::DecodeArgument>::optional(&mut #reader)?);
    match presence {
        Presence::Required => {
            quote_spanned!(ty.span()=> <#ty as ::delayed::__private::DecodeArgument>::required(&mut #reader)?)
        }
        Presence::Option => quote!(::core::option::Option::flatten(#optional)),
        Presence::Default(default) => {
            let default = match default {
                Some(default) => quote!(#default),
                None => quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default()),
            };
            let (there, missing) = (local("there"), local("missing"));
            quote!(match #optional {
                ::core::option::Option::Some(#there) => #there,
                ::core::option::Option::None => {
                    let #missing: #ty = #default;
                    #missing
                }
            })
        }
        Presence::Variadic(element) => {
            quote_spanned!(element.span()=> <#element as ::delayed::__private::DecodeArgument>::variadic(&mut #reader)?)
        }
    }
}

/// The function with its types erased.
fn run(function: &Function, task: &Task, is_batch: bool) -> TokenStream {
    let (arguments, scope, reader) = (local("arguments"), local("scope"), local("reader"));
    let values: Vec<Ident> = (0..task.params.len()).map(|index| local(&format!("value_{index}"))).collect();
    let read = task.params.iter().zip(&values).map(|(param, value)| {
        let from = match param {
            Param::Context => quote!(#scope.context()),
            Param::State(ty) => quote_spanned!(ty.span()=> #scope.state::<#ty>()),
            Param::Argument(argument) => from_reader(argument, &reader),
        };
        let ty = argument(param).map(|argument| {
            let ty = &argument.ty;
            quote!(: #ty)
        });
        quote!(let #value #ty = #from;)
    });
    let name = function.name();
    let called = quote!(#name(#(#values),*));
    // The trait that fits what it returned is found by the number of references.
    let (keeps, count) = (local("keeps"), local("count"));
    let items = task.params.iter().zip(&values).find(|(param, _)| is_batch && argument(param).is_some());
    let counted = items.map(|(_, items)| quote!(let #count = ::std::vec::Vec::len(&#items);));
    let settled = |value: TokenStream| {
        if is_batch {
            return quote_spanned!(function.return_span()=> ::delayed::__private::settle_batch(#value, #count, #keeps));
        }
        let returned = local("returned");
        let settle = quote_spanned!(function.return_span()=> (&&&#returned).settle(#keeps));
        quote!({
            let #returned = ::delayed::__private::Returned(#value);
            #settle
        })
    };
    let (answer, ran) = if function.signature.asyncness.is_some() {
        let future = local("future");
        let settled = settled(quote!(#future.await));
        // Written at the function's name: that is where it is said that the future is not `Send`.
        let boxed = quote_spanned!(name.span()=> ::delayed::__private::boxed(#future));
        (
            quote!(::delayed::__private::RunFuture),
            quote!({
                let #future = #called;
                let #future = async move { #settled };
                #boxed
            }),
        )
    } else {
        (quote!(::delayed::__private::Answered), settled(called))
    };
    let mutable = task.params.iter().any(|param| argument(param).is_some()).then(|| quote!(mut));
    quote! {
        #[allow(unused_variables, clippy::let_unit_value, clippy::needless_borrow)]
        fn __delayed_run<'a>(
            #arguments: ::delayed::__private::Arguments<'a>,
            #scope: &::delayed::__private::Scope<'_>,
        ) -> ::core::result::Result<#answer, ::delayed::__private::ArgumentError> {
            #[allow(unused_imports)]
            use ::delayed::__private::{SettleError as _, SettleResult as _, SettleValue as _};
            let #mutable #reader = #arguments.reader(__DELAYED_PARAMS)?;
            #(#read)*
            #reader.finish()?;
            #counted
            let #keeps = #scope.keeps_result();
            ::core::result::Result::Ok(#ran)
        }
    }
}
