//! Tagged unions, tolerant and exact, with getters for what all their members have.

use std::collections::{BTreeMap, BTreeSet};

use heck::ToUpperCamelCase;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Ident, Item, Type};

use super::super::Error;
use super::super::normalise::Union;
use super::super::schema::Contract;
use super::trim::option;
use super::{Form, UNKNOWN, variant};

/// What a union's members are made of.
pub(super) struct Surroundings<'a> {
    pub(super) structs: &'a Structs,
    /// Types that exist in the module around.
    pub(super) elsewhere: &'a BTreeSet<String>,
}

/// Fields of each struct by its name.
pub(super) type Structs = BTreeMap<String, Vec<(Ident, Type)>>;

/// A tagged union.
pub(super) fn tagged(
    contract: &Contract,
    name: &str,
    union: &Union,
    form: Form,
    around: &Surroundings,
) -> Result<TokenStream, Error> {
    let enumeration = format_ident!("{name}");
    let tag = &union.tag;
    let doc = format!(" `{name}` of T3's contract: a union by `{tag}`.");
    let (mut variants, mut arms, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for member in &union.members {
        let word = &member.word;
        let variant = variant(contract, name, word)?;
        if form == Form::Tolerant && variant == UNKNOWN {
            let mend = "call the variant for unknown members otherwise, in `build/open.rs`";
            return Err(Error::new(
                &contract.file,
                name,
                "has a member with the tag `unknown`",
                mend,
            ));
        }
        words.push(word);
        if let Some(content) = &member.content {
            let ident = format_ident!("{content}");
            let content = if around.elsewhere.contains(content) {
                quote! { super::#ident }
            } else {
                quote! { #ident }
            };
            variants.push(quote! { #[doc = #word] #[serde(rename = #word)] #variant(#content) });
            arms.push(quote! { #word => ::serde::Deserialize::deserialize(fields).map(Self::#variant) });
        } else {
            variants.push(quote! { #[doc = #word] #[serde(rename = #word)] #variant });
            arms.push(quote! { #word => crate::protocol::tagged::skip(fields).map(|()| Self::#variant) });
        }
    }
    let tag_doc = format!(" Its `{tag}`.");
    let (unknown, otherwise) = match form {
        Form::Tolerant => (
            quote! {
                /// A member that the contract does not have: only its tag is kept.
                #[serde(untagged)]
                Unknown { #[doc = #tag_doc] #[serde(rename = #tag)] tag: ::std::string::String }
            },
            quote! { crate::protocol::tagged::skip(fields).map(|()| Self::Unknown { tag: tag.to_owned() }) },
        ),
        Form::Exact => (
            quote! {},
            quote! { ::std::result::Result::Err(::serde::de::Error::unknown_variant(tag, Self::TAGS)) },
        ),
    };
    let common = common(union, form, around.structs);
    Ok(quote! {
        #[doc = #doc]
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        #[serde(tag = #tag)]
        pub enum #enumeration { #(#variants,)* #unknown }
        impl #enumeration {
            /// The tags of its members.
            pub const TAGS: &'static [&'static str] = &[#(#words),*];
            #common
        }
        impl<'de> crate::protocol::tagged::Tagged<'de> for #enumeration {
            const NAME: &'static str = #name;
            const TAG: &'static str = #tag;
            fn member<D: ::serde::Deserializer<'de>>(tag: &str, fields: D) -> ::std::result::Result<Self, D::Error> {
                match tag {
                    #(#arms,)*
                    _ => #otherwise,
                }
            }
        }
        impl<'de> ::serde::Deserialize<'de> for #enumeration {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                crate::protocol::tagged::deserialize(deserializer)
            }
        }
    })
}

/// Getters for the fields that all members of a union have.
fn common(union: &Union, form: Form, structs: &Structs) -> TokenStream {
    let contents: Option<Vec<&Vec<(Ident, Type)>>> = union
        .members
        .iter()
        .map(|member| structs.get(member.content.as_deref()?))
        .collect();
    let Some([first, others @ ..]) = contents.as_deref() else {
        return quote! {};
    };
    let mut getters = TokenStream::new();
    let same = |one: &(Ident, Type), other: &(Ident, Type)| {
        one.0 == other.0 && one.1.to_token_stream().to_string() == other.1.to_token_stream().to_string()
    };
    let everywhere = |field: &&(Ident, Type)| others.iter().all(|other| other.iter().any(|one| same(one, field)));
    for (field, kind) in first.iter().filter(everywhere) {
        let variants: Vec<Ident> = union
            .members
            .iter()
            .map(|member| format_ident!("{}", member.word.to_upper_camel_case()))
            .collect();
        let doc = format!(" The `{field}` that every member has.");
        let inner = option(kind);
        let (answer, one, none) = match (form, inner) {
            (Form::Tolerant, Some(inner)) => (
                quote! { ::std::option::Option<&#inner> },
                quote! { content.#field.as_ref() },
                quote! { Self::Unknown { .. } => ::std::option::Option::None, },
            ),
            (Form::Tolerant, None) => (
                quote! { ::std::option::Option<&#kind> },
                quote! { ::std::option::Option::Some(&content.#field) },
                quote! { Self::Unknown { .. } => ::std::option::Option::None, },
            ),
            (Form::Exact, _) => (quote! { &#kind }, quote! { &content.#field }, quote! {}),
        };
        getters.extend(quote! {
            #[doc = #doc]
            pub fn #field(&self) -> #answer {
                match self {
                    #(Self::#variants(content) => #one,)*
                    #none
                }
            }
        });
    }
    getters
}

pub(super) fn structs(file: &syn::File) -> Structs {
    let structs = file.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some(item),
        _ => None,
    });
    let fields = |item: &syn::ItemStruct| {
        item.fields
            .iter()
            .filter_map(|field| Some((field.ident.clone()?, field.ty.clone())))
            .collect()
    };
    structs.map(|item| (item.ident.to_string(), fields(item))).collect()
}
