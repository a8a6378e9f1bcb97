//! Makes the enums and tagged unions, and puts the module together.
//!
//! Two forms of one contract. *Tolerant*, for what T3 sends: an enum keeps a word that it does not know, a union the tag of a
//! member that it does not know; a known tag with wrong content stays an error (serde's own catch-all variants would swallow
//! it). *Exact*, for what we send: neither has an `Unknown`, so that nothing can be sent that the contract does not have. A type
//! that is read and sent and in which the two forms differ exists twice: `X` and `sent::X`.

mod tagged;
mod trim;
mod words;

use std::collections::BTreeSet;

use heck::ToUpperCamelCase;
use proc_macro2::TokenStream;
use quote::quote;
use syn::visit_mut::VisitMut;
use syn::{Ident, Item};

use super::Error;
use super::normalise::Model;
use super::schema::{Contract, references};
use super::types;
use tagged::{Surroundings, structs, tagged};
use trim::{Trim, three_states};
use words::{enumeration, loosen};

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
