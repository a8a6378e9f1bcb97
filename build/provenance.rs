//! Which T3 a contract is of, as the exporter wrote beside it: what a machine's version is compared with.

use std::path::Path;

use quote::quote;
use serde::Deserialize;

use super::shared::Error;

/// What is known of it.
#[derive(Deserialize)]
struct Provenance {
    version: Option<String>,
    date: Option<String>,
}

/// The constant `CONTRACT` of a protocol's module.
pub(super) fn constant(root: &Path, file: &str) -> Result<String, Error> {
    let error = |what: String| {
        Error::new(
            file,
            "the file",
            what,
            "export the contract again: node schemas/export.mjs <T3 checkout>",
        )
    };
    let text = std::fs::read_to_string(root.join(file)).map_err(|cause| error(cause.to_string()))?;
    let Provenance { version, date } = toml::from_str(&text).map_err(|cause| error(cause.message().to_owned()))?;
    let said = |text: Option<String>| text.map_or_else(|| quote!(None), |text| quote!(Some(#text)));
    let (version, date) = (said(version), said(date));
    let constant = quote! {
        /// The T3 whose contract this is.
        pub const CONTRACT: super::Contract = super::Contract { version: #version, date: #date };
    };
    Ok(constant.to_string())
}
