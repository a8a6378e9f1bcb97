//! What is changed of typify's structs: documentation that is the whole schema goes, fields with three states get them.

use syn::visit_mut::VisitMut;
use syn::{Attribute, Item, Type, parse_quote};

/// Takes out what typify writes beyond need: the schema of each type as its documentation.
pub(super) struct Trim;

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

/// Makes a `Change` of an optional field where absent and null differ.
pub(super) fn three_states(file: &mut syn::File, name: &str, field: &str) {
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
pub(super) fn option(kind: &Type) -> Option<&Type> {
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
