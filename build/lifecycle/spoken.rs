//! One protocol's words as Rust: a lookup for each place that has some.

use heck::ToSnakeCase;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::generate::variant;
use super::model::{Mapping, OPEN, Words};

/// One protocol's words.
pub(super) fn protocol(name: &str, mapping: &Mapping) -> TokenStream {
    let module = format_ident!("{}", name.to_snake_case());
    let doc = format!("The words of {name}.");
    let run = lookup(&mapping.run_status, |name| {
        let name = variant(name);
        quote!(RunObservation::#name)
    });
    let class = mapping.request_kind.as_ref().map(|words| {
        let class = lookup(words, |name| {
            let name = variant(name);
            quote!(RequestClass::#name)
        });
        quote! {
            /// The class of a request's kind.
            pub fn classify_request(word: &str) -> super::RequestClass {
                use super::RequestClass;
                #class
            }
        }
    });
    let status = mapping.request_status.as_ref().map(|words| {
        let status = lookup(words, |name| {
            if name == OPEN {
                return quote!(None);
            }
            let name = variant(name);
            quote!(Some(RequestObservation::#name))
        });
        quote! {
            /// What a request's status says; none while it is open: then its class and capability say it.
            pub fn request_status(word: &str) -> Option<super::RequestObservation> {
                use super::RequestObservation;
                #status
            }
        }
    });
    let capability = mapping.capability.as_ref().map(|words| {
        let capability = lookup(words, |name| {
            let name = variant(name);
            quote!(Capability::#name)
        });
        quote! {
            /// The way that an answer can go.
            pub fn capability(word: &str) -> super::Capability {
                use super::Capability;
                #capability
            }
        }
    });
    quote! {
        #[doc = #doc]
        pub mod #module {
            use super::RunObservation;

            /// What a run's status says; a word of a newer T3 never says an end.
            pub fn observe_run(word: &str) -> RunObservation {
                #run
            }

            #class
            #status
            #capability
        }
    }
}

/// A match over the words of a place, one arm a meaning, so that two words of one meaning share it.
fn lookup(words: &Words, target: impl Fn(&str) -> TokenStream) -> TokenStream {
    let unknown = words.unknown.get_ref();
    let mut meanings: Vec<(&str, Vec<&str>)> = Vec::new();
    for (word, meaning) in &words.meanings {
        let meaning = meaning.get_ref().as_str();
        if meaning == unknown {
            continue;
        }
        match meanings.iter_mut().find(|(known, _)| *known == meaning) {
            Some((_, words)) => words.push(word.get_ref()),
            None => meanings.push((meaning, vec![word.get_ref()])),
        }
    }
    let arms = meanings.iter().map(|(meaning, words)| {
        let target = target(meaning);
        quote!(#(#words)|* => #target)
    });
    let otherwise = target(unknown);
    quote!(match word { #(#arms,)* _ => #otherwise })
}
