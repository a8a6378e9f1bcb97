//! String enums, tolerant and exact.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use super::super::Error;
use super::super::schema::Contract;
use super::{Form, UNKNOWN, variant};

/// A string enum.
pub(super) fn enumeration(contract: &Contract, name: &str, words: &[String], form: Form) -> Result<TokenStream, Error> {
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
pub(super) fn loosen(name: &str) -> TokenStream {
    let name = format_ident!("{name}");
    quote! {
        impl ::std::convert::From<sent::#name> for #name {
            fn from(exact: sent::#name) -> Self {
                Self::from(exact.as_str())
            }
        }
    }
}
