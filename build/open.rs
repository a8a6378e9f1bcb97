//! Makes the enums and tagged unions, and puts the module together.
//!
//! Two forms of one contract. *Tolerant*, for what T3 sends: an enum keeps a word that it does not know, a union the tag of a
//! member that it does not know; a known tag with wrong content stays an error (serde's own catch-all variants would swallow
//! it). *Exact*, for what we send: neither has an `Unknown`, so that nothing can be sent that the contract does not have. A type
//! that is read and sent and in which the two forms differ exists twice: `X` and `sent::X`.

use std::collections::{BTreeMap, BTreeSet};

use heck::ToUpperCamelCase;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::visit_mut::VisitMut;
use syn::{Attribute, Ident, Item, Type, parse_quote};

use super::Error;
use super::normalise::{Model, Union};
use super::schema::{Contract, references};
use super::types;

/// The variant for what the contract does not have.
const UNKNOWN: &str = "Unknown";

/// Which form of a type is made.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Tolerant,
    Exact,
}

/// The whole module of a protocol.
pub fn module(contract: &Contract, read: &Model, sent: &Model) -> Result<syn::File, Error> {
    let shared = shared(read, sent);
    let tolerant = form(contract, read, &BTreeSet::new(), Form::Tolerant)?;
    let exact = form(contract, sent, &shared, Form::Exact)?;
    let read_names = names(&tolerant);
    let only_sent: Vec<Ident> = names(&exact)
        .into_iter()
        .filter(|name| !read_names.contains(name))
        .collect();
    let conversions = sent
        .words
        .iter()
        .filter(|(name, words)| read.words.get(*name).is_some_and(|known| contains(known, words)));
    let conversions = conversions.map(|(name, _)| loosen(name)).collect::<TokenStream>();
    let items = quote! {
        #(#tolerant)*
        #conversions
        pub use sent::{#(#only_sent),*};
        /// What we send, exact: no enum or union here has a form for what the contract does not have.
        pub mod sent {
            #(#exact)*
        }
    };
    syn::parse2(items).map_err(|error| Error::new(&contract.file, "$defs", error.to_string(), "see `build/open.rs`"))
}

/// Types that are the same in both forms: no enum, no union and no field with three states in them or below.
fn shared(read: &Model, sent: &Model) -> BTreeSet<String> {
    let mut shared: BTreeSet<String> = sent
        .plain
        .iter()
        .filter(|(name, schema)| read.plain.get(*name) == Some(schema))
        .map(|(name, _)| name.clone())
        .collect();
    for (name, _) in &sent.changes {
        shared.remove(name);
    }
    loop {
        let differs = shared.iter().find(|name| {
            let mut below = BTreeSet::new();
            references(&sent.plain[*name], &mut below);
            !below.is_subset(&shared)
        });
        let Some(name) = differs.cloned() else { return shared };
        shared.remove(&name);
    }
}

/// All items of one form.
fn form(contract: &Contract, model: &Model, elsewhere: &BTreeSet<String>, form: Form) -> Result<Vec<Item>, Error> {
    let mut file = types::plain(&contract.file, model, elsewhere)?;
    Trim.visit_file_mut(&mut file);
    let changes = if form == Form::Exact {
        model.changes.clone()
    } else {
        BTreeSet::new()
    };
    for (name, field) in changes {
        three_states(&mut file, &name, &field);
    }
    let structs = structs(&file);
    let mut items = file.items;
    for (name, words) in &model.words {
        items.extend(parse(contract, name, enumeration(contract, name, words, form)?)?);
    }
    for (name, union) in &model.unions {
        items.extend(parse(
            contract,
            name,
            tagged(
                contract,
                name,
                union,
                form,
                &Surroundings {
                    structs: &structs,
                    elsewhere,
                },
            )?,
        )?);
    }
    Ok(items)
}

/// A string enum.
fn enumeration(contract: &Contract, name: &str, words: &[String], form: Form) -> Result<TokenStream, Error> {
    let mut variants: Vec<(Ident, &String)> = Vec::new();
    for word in words {
        let variant = variant(contract, name, word)?;
        // A tolerant enum keeps the word `unknown` as it keeps every word without a variant.
        if form == Form::Exact || variant != UNKNOWN {
            variants.push((variant, word));
        }
    }
    let (idents, words): (Vec<_>, Vec<_>) = variants.into_iter().unzip();
    Ok(match form {
        Form::Tolerant => tolerant_words(name, &idents, &words),
        Form::Exact => exact_words(name, &idents, &words),
    })
}

/// A string enum that keeps a word that it does not know.
fn tolerant_words(name: &str, idents: &[Ident], words: &[&String]) -> TokenStream {
    let enumeration = format_ident!("{name}");
    let doc = format!(" `{name}` of T3's contract.");
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
        pub enum #enumeration {
            #(#[doc = #words] #idents,)*
            /// A word that the contract does not have.
            Unknown(::std::string::String),
        }
        impl #enumeration {
            /// Every word of the contract that has a variant.
            pub const WORDS: &'static [&'static str] = &[#(#words),*];
            /// T3's word.
            pub fn as_str(&self) -> &str {
                match self {
                    #(Self::#idents => #words,)*
                    Self::Unknown(word) => word,
                }
            }
        }
        impl ::std::convert::From<&str> for #enumeration {
            fn from(word: &str) -> Self {
                match word {
                    #(#words => Self::#idents,)*
                    _ => Self::Unknown(word.to_owned()),
                }
            }
        }
        impl ::std::fmt::Display for #enumeration {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl ::serde::Serialize for #enumeration {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
        impl<'de> ::serde::Deserialize<'de> for #enumeration {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                crate::protocol::words::word(deserializer, #name).map(|word| Self::from(&*word))
            }
        }
    }
}

/// A string enum of the contract's words alone.
fn exact_words(name: &str, idents: &[Ident], words: &[&String]) -> TokenStream {
    let enumeration = format_ident!("{name}");
    let doc = format!(" `{name}` of T3's contract.");
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
        pub enum #enumeration {
            #(#[doc = #words] #idents,)*
        }
        impl #enumeration {
            /// Every word of the contract.
            pub const WORDS: &'static [&'static str] = &[#(#words),*];
            /// T3's word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    #(Self::#idents => #words,)*
                }
            }
            /// The variant of a word; none for a word that the contract does not have.
            pub fn parse(word: &str) -> ::std::option::Option<Self> {
                match word {
                    #(#words => ::std::option::Option::Some(Self::#idents),)*
                    _ => ::std::option::Option::None,
                }
            }
        }
        impl ::std::fmt::Display for #enumeration {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl ::serde::Serialize for #enumeration {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
        impl<'de> ::serde::Deserialize<'de> for #enumeration {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                let word = crate::protocol::words::word(deserializer, #name)?;
                Self::parse(&word).ok_or_else(|| ::serde::de::Error::unknown_variant(&word, Self::WORDS))
            }
        }
    }
}

/// The tolerant form of an exact enum's value.
fn loosen(name: &str) -> TokenStream {
    let name = format_ident!("{name}");
    quote! {
        impl ::std::convert::From<sent::#name> for #name {
            fn from(exact: sent::#name) -> Self {
                Self::from(exact.as_str())
            }
        }
    }
}

/// A tagged union.
fn tagged(
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

/// The variant of a word.
fn variant(contract: &Contract, name: &str, word: &str) -> Result<Ident, Error> {
    syn::parse_str(&word.to_upper_camel_case()).map_err(|_| {
        let mend = "give the word a variant's name in `build/open.rs`";
        Error::new(
            &contract.file,
            name,
            format!("has the word `{word}`, which makes no Rust name"),
            mend,
        )
    })
}

fn parse(contract: &Contract, name: &str, tokens: TokenStream) -> Result<Vec<Item>, Error> {
    let file: syn::File = syn::parse2(tokens)
        .map_err(|error| Error::new(&contract.file, name, error.to_string(), "see `build/open.rs`"))?;
    Ok(file.items)
}

/// Makes a `Change` of an optional field where absent and null differ.
fn three_states(file: &mut syn::File, name: &str, field: &str) {
    let fields = file.items.iter_mut().filter_map(|item| match item {
        Item::Struct(item) if item.ident == name => Some(item.fields.iter_mut()),
        _ => None,
    });
    for part in fields.flatten() {
        let named = part.ident.as_ref().is_some_and(|ident| ident == field)
            || part.attrs.iter().any(|attribute| renames(attribute, field));
        if let (true, Some(inner)) = (named, option(&part.ty)) {
            part.ty = parse_quote! { crate::protocol::Change<#inner> };
            part.attrs = vec![
                parse_quote! { #[serde(rename = #field, default, skip_serializing_if = "crate::protocol::Change::is_keep")] },
            ];
        }
    }
}

fn renames(attribute: &Attribute, field: &str) -> bool {
    let mut found = false;
    let _ = attribute.parse_nested_meta(|meta| {
        if let Ok(value) = meta.value()
            && let Ok(text) = value.parse::<syn::LitStr>()
        {
            found |= meta.path.is_ident("rename") && text.value() == field;
        }
        Ok(())
    });
    found
}

/// What is in an `Option`.
fn option(kind: &Type) -> Option<&Type> {
    let Type::Path(path) = kind else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        syn::GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// What a union's members are made of.
struct Surroundings<'a> {
    structs: &'a Structs,
    /// Types that exist in the module around.
    elsewhere: &'a BTreeSet<String>,
}

/// Fields of each struct by its name.
type Structs = BTreeMap<String, Vec<(Ident, Type)>>;

fn structs(file: &syn::File) -> Structs {
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

fn names(items: &[Item]) -> BTreeSet<Ident> {
    let names = items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some(item.ident.clone()),
        Item::Enum(item) => Some(item.ident.clone()),
        _ => None,
    });
    names.collect()
}

fn contains(known: &[String], words: &[String]) -> bool {
    words.iter().all(|word| known.contains(word))
}

/// Takes out what typify writes beyond need: the schema of each type as its documentation.
struct Trim;

impl VisitMut for Trim {
    fn visit_item_struct_mut(&mut self, item: &mut syn::ItemStruct) {
        let doc = format!(" `{}` of T3's contract.", item.ident);
        item.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
        item.attrs.insert(0, parse_quote! { #[doc = #doc] });
        syn::visit_mut::visit_item_struct_mut(self, item);
    }

    fn visit_item_enum_mut(&mut self, item: &mut syn::ItemEnum) {
        let doc = format!(" `{}` of T3's contract.", item.ident);
        item.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
        item.attrs.insert(0, parse_quote! { #[doc = #doc] });
        syn::visit_mut::visit_item_enum_mut(self, item);
    }

    fn visit_field_mut(&mut self, field: &mut syn::Field) {
        field.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
    }
}
