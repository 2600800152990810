//! Which function is it? Its signature is read and checked; its body is left as it is.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, ExprLit, GenericArgument, Lit, Meta, MetaNameValue, PathArguments, ReturnType, Safety,
    Signature, Token, Type, Visibility,
};

use crate::mistakes::Mistakes;
use crate::params::{self, Param};
use crate::types::{self, Borrowed};

/// The function under the attribute.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    body: TokenStream,
}

/// A function that can be a task.
pub(crate) struct Task {
    pub(crate) params: Vec<Param>,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let is_function = input.peek(Token![fn])
            || (input.peek2(Token![fn]) || input.peek2(Token![unsafe]) || input.peek2(Token![extern]))
            || (input.peek(Token![extern]) && input.peek2(syn::LitStr))
            || (input.peek(Token![const]) && input.peek2(Token![async]))
            || (input.peek(Token![async]) && input.peek2(Token![unsafe]));
        if !is_function {
            return Err(input.error("`#[delayed::task]` marks a function: put it on a `fn` or an `async fn`"));
        }
        let signature = input.parse()?;
        if input.peek(Token![;]) {
            return Err(
                input.error("a task needs a body: mark a free function, and call what you need in it")
            );
        }
        Ok(Self { attributes, visibility, signature, body: input.parse()? })
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attributes, visibility, signature, body } = self;
        tokens.extend(quote!(#(#attributes)* #visibility #signature #body));
    }
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> syn::Result<Self> {
        <Self as Parse>::parse.parse2(item)
    }

    pub(crate) fn name(&self) -> &Ident {
        &self.signature.ident
    }

    /// Takes the `#[task(…)]` attributes off the parameters. None when the function cannot be a task.
    pub(crate) fn check(&mut self, mistakes: &mut Mistakes) -> Option<Task> {
        let before = mistakes.count();
        self.check_attributes(mistakes);
        self.check_qualifiers(mistakes);
        let params = params::check(&mut self.signature, mistakes);
        self.check_return(mistakes);
        (mistakes.count() == before).then_some(Task { params })
    }

    /// A second `#[delayed::task]` goes, or it would tell all mistakes again.
    fn check_attributes(&mut self, mistakes: &mut Mistakes) {
        let again = |attribute: &mut Attribute| {
            attribute.path().segments.iter().map(|segment| &segment.ident).eq(&["delayed", "task"])
        };
        for attribute in self.attributes.extract_if(.., again) {
            mistakes.push(attribute, "a function is one task: keep one `#[delayed::task]`");
        }
    }

    fn check_qualifiers(&mut self, mistakes: &mut Mistakes) {
        // The compiler has its own errors about this one.
        if let Some(variadic) = self.signature.variadic.take() {
            mistakes.push(
                variadic,
                "a task cannot have C-variadic arguments: declare the last parameter as `#[task(variadic)] rest: \
                Vec<T>`",
            );
        }
        let Signature { constness, safety, abi, generics, .. } = &self.signature;
        if let Some(constness) = constness {
            mistakes.push(constness, "a task cannot be `const`: remove `const`");
        }
        if let Safety::Unsafe(unsafety) = safety {
            mistakes.push(
                unsafety,
                "a task is called with arguments from outside, so it cannot be `unsafe`: remove `unsafe`, and check \
                its preconditions inside",
            );
        }
        if let Some(abi) = abi {
            mistakes.push(abi, "a task is a Rust function: remove `extern`");
        }
        if !generics.params.is_empty() {
            let lifetimes_alone = generics.lifetimes().count() == generics.params.len();
            let fix = if lifetimes_alone {
                "a task owns its arguments, so it cannot have lifetimes: use owned types"
            } else {
                "a task is one function with one name, so it cannot be generic: write one function for each type, which calls the generic one"
            };
            mistakes.push(&generics.params, fix);
        } else if let Some(clause) = &generics.where_clause {
            mistakes.push(clause, "a task is not generic: remove the `where` clause");
        }
    }

    fn check_return(&self, mistakes: &mut Mistakes) {
        let ReturnType::Type(_, ty) = &self.signature.output else { return };
        let (found, owned) = Borrowed::find(ty);
        if matches!(types::peel(ty), Type::Never(_)) {
            mistakes.push(ty, "a task that never returns is never done: return `()`, or a `Result`");
        } else if found.impl_trait {
            mistakes.push(ty, "a task must return a named type: write the type instead of `impl Trait`");
        } else if found.lifetime {
            mistakes.push(ty, "a task cannot return borrowed data: return an owned type");
        } else if found.reference && !is_static(ty) {
            mistakes.push(ty, format!("a task cannot return borrowed data: return `{}`", types::text(owned)));
        } else if found.self_type {
            mistakes.push(ty, params::METHOD);
        }
    }

    /// What decides whether the function is there; holds for what stands beside it too.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"))
    }

    /// The attributes that the struct of the function's name shares with it.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|attribute| {
            attribute.path().is_ident("deprecated")
                || (attribute.path().is_ident("doc") && matches!(attribute.meta, Meta::List(_)))
        })
    }

    /// The doc comment, without the space that begins its lines.
    pub(crate) fn doc(&self) -> String {
        let lines = self.attributes.iter().filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(MetaNameValue {
                path,
                value: Expr::Lit(ExprLit { lit: Lit::Str(line), .. }),
                ..
            }) if path.is_ident("doc") => Some(line.value()),
            _ => None,
        });
        let lines: Vec<String> = lines
            .map(|line| line.lines().map(|l| l.strip_prefix(' ').unwrap_or(l)).collect::<Vec<_>>().join("\n"))
            .collect();
        lines.join("\n").trim().to_owned()
    }

    /// The function's name without `r#`.
    pub(crate) fn plain_name(&self) -> String {
        self.name().unraw().to_string()
    }

    /// What it returns, as written.
    pub(crate) fn returns(&self) -> String {
        match &self.signature.output {
            ReturnType::Default => "()".into(),
            ReturnType::Type(_, ty) => types::text(ty),
        }
    }

    /// The type of its results: the first argument of what is named `Result`, or all that it returns.
    pub(crate) fn output(&self) -> TokenStream {
        let ReturnType::Type(_, ty) = &self.signature.output else { return quote!(()) };
        let Type::Path(path) = &**ty else { return quote!(#ty) };
        let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else {
            return quote!(#ty);
        };
        let PathArguments::AngleBracketed(arguments) = &last.arguments else { return quote!(()) };
        let first = arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        });
        first.map_or_else(|| quote!(()), |ty| quote!(#ty))
    }

    /// Where an error about what it returns belongs.
    pub(crate) fn return_span(&self) -> proc_macro2::Span {
        match &self.signature.output {
            ReturnType::Default => self.name().span(),
            ReturnType::Type(_, ty) => ty.span(),
        }
    }
}

/// Whether every reference in `ty` is `'static`.
fn is_static(ty: &Type) -> bool {
    struct Find(bool);
    impl syn::visit_mut::VisitMut for Find {
        fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
            self.0 &= reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static");
            syn::visit_mut::visit_type_reference_mut(self, reference);
        }
    }
    let mut find = Find(true);
    syn::visit_mut::VisitMut::visit_type_mut(&mut find, &mut ty.clone());
    find.0
}
