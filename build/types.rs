//! Lets typify make the structs, lists and ids of a model.
//!
//! Enums and unions are `open`'s: typify is told that they exist under their names.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use typify::{TypeSpace, TypeSpaceSettings};

use super::Error;
use super::normalise::Model;

/// The items for the plain schemas of a model. Types of `elsewhere` exist in the module around and are referred to there.
pub fn plain(file: &str, model: &Model, elsewhere: &BTreeSet<String>) -> Result<syn::File, Error> {
    let mut settings = TypeSpaceSettings::default();
    settings
        .with_derive("PartialEq".into())
        .with_map_type("::std::collections::BTreeMap");
    // `f64` would print 5 as 5.0.
    settings.with_conversion(
        schema(file, json!({ "type": "number" }))?,
        "::serde_json::Number",
        [].into_iter(),
    );
    let mut definitions = Vec::new();
    for name in model.words.keys().chain(model.unions.keys()) {
        let path = if elsewhere.contains(name) {
            format!("super::{name}")
        } else {
            name.clone()
        };
        settings.with_replacement(name, path, [].into_iter());
        definitions.push((name.clone(), schema(file, json!({ "type": "string" }))?));
    }
    for (name, plain) in &model.plain {
        if elsewhere.contains(name) {
            settings.with_replacement(name, format!("super::{name}"), [].into_iter());
        }
        definitions.push((name.clone(), schema(file, plain.clone())?));
    }
    let mut space = TypeSpace::new(&settings);
    space.add_ref_types(definitions).map_err(|error| {
        Error::new(
            file,
            "$defs",
            format!("typify: {error}"),
            "see `build/normalise.rs`: a form came through that typify does not take",
        )
    })?;
    syn::parse2(space.to_stream()).map_err(|error| {
        Error::new(
            file,
            "$defs",
            format!("typify wrote what is no Rust: {error}"),
            "see `build/normalise.rs`",
        )
    })
}

fn schema<T: serde::de::DeserializeOwned>(file: &str, value: Value) -> Result<T, Error> {
    let text = value.to_string();
    serde_json::from_value(value).map_err(|error| {
        Error::new(
            file,
            &text,
            error.to_string(),
            "see `build/normalise.rs`: a form came through that typify does not take",
        )
    })
}
