//! The checked table as Rust: what the machines share, events, classes, capabilities, the fold's precedence.

use heck::ToUpperCamelCase;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use toml::Spanned;

use super::machines::machine;
use super::model::{Capability, Class, Model, Named, ThreadRow, When};
use super::spoken::protocol;
use super::{Refused, TABLE};

/// The generated file. Only for a table that `check` passed.
pub(super) fn generate(model: &Model) -> Result<String, Refused> {
    let tokens = [
        shared(),
        hook_events(&model.event),
        machine("Run", "run", &model.run, Some(&model.thread)),
        machine("Request", "request", &model.request, None),
        classes(&model.class),
        capabilities(&model.capability),
        threads(&model.thread),
        model
            .mapping
            .iter()
            .map(|(name, mapping)| protocol(name.get_ref(), mapping))
            .collect(),
    ];
    let file = syn::parse2(tokens.into_iter().collect())
        .map_err(|error| Refused(vec![format!("{TABLE}: what is generated of it is no Rust: {error}")]))?;
    Ok(format!(
        "// Generated from schemas/lifecycle.toml. Change that, not this.\n\n{}",
        prettyplease::unparse(&file)
    ))
}

/// The variant of a name of the table.
pub(super) fn variant(name: &str) -> proc_macro2::Ident {
    format_ident!("{}", name.to_upper_camel_case())
}

/// What the machines share.
fn shared() -> TokenStream {
    quote! {
        /// What an observation makes of a state.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub struct Transition<S> {
            /// The next state; the same where nothing happens.
            pub to: S,
            /// What is to be told.
            pub emit: Option<HookEvent>,
        }

        /// One cell of a machine's table.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub struct TableRow<S, O> {
            /// In this state
            pub from: S,
            /// on this observation
            pub on: O,
            /// the next state is this,
            pub to: S,
            /// this is told,
            pub emit: Option<HookEvent>,
            /// or nothing happens, for this reason.
            pub ignored: Option<&'static str>,
        }

        impl<S: Copy, O: Copy> TableRow<S, O> {
            const fn new(from: S, on: O, to: S, emit: Option<HookEvent>, ignored: Option<&'static str>) -> Self {
                Self { from, on, to, emit, ignored }
            }
        }
    }
}

/// An enum of the table's names: all of them, the name, and the way back.
pub(super) fn enumeration<'a>(
    ident: &proc_macro2::Ident,
    doc: &str,
    entries: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> TokenStream {
    let variants: Vec<_> = entries.clone().map(|(name, _)| variant(name)).collect();
    let names: Vec<_> = entries.clone().map(|(name, _)| name).collect();
    let docs = entries.map(|(_, doc)| doc);
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
        pub enum #ident { #(#[doc = #docs] #variants),* }

        impl #ident {
            /// All of them, in the table's order.
            pub const ALL: &'static [Self] = &[#(Self::#variants),*];

            /// Its own name: what is stored.
            pub const fn name(self) -> &'static str {
                match self { #(Self::#variants => #names),* }
            }

            /// The one of that name.
            pub fn parse(name: &str) -> Option<Self> {
                match name { #(#names => Some(Self::#variants),)* _ => None }
            }
        }
    }
}

/// The events that hooks are told.
fn hook_events(events: &[Spanned<Named>]) -> TokenStream {
    let named = events
        .iter()
        .map(|event| (event.get_ref().name.as_str(), event.get_ref().doc.as_str()));
    let enumeration = enumeration(&format_ident!("HookEvent"), "What a hook is told of.", named);
    quote! {
        #enumeration

        impl HookEvent {
            /// The word that events carry.
            pub const fn as_str(self) -> &'static str {
                self.name()
            }
        }
    }
}

/// The classes of requests.
fn classes(classes: &[Spanned<Class>]) -> TokenStream {
    let classes: Vec<&Class> = classes.iter().map(Spanned::get_ref).collect();
    let enumeration = enumeration(
        &format_ident!("RequestClass"),
        "What a request's kind makes of it.",
        classes.iter().map(|class| (class.name.as_str(), class.doc.as_str())),
    );
    let variants: Vec<_> = classes.iter().map(|class| variant(&class.name)).collect();
    let holds = classes.iter().map(|class| class.holds);
    let answerable = classes.iter().map(|class| class.answerable);
    let asks = classes.iter().map(|class| variant(&class.asks));
    let threads = classes.iter().map(|class| {
        class.thread.as_ref().map_or_else(
            || quote!(None),
            |state| {
                let state = variant(state);
                quote!(Some(ThreadState::#state))
            },
        )
    });
    quote! {
        #enumeration

        impl RequestClass {
            /// Its run waits for it.
            pub const fn holds(self) -> bool {
                match self { #(Self::#variants => #holds),* }
            }

            /// It can be answered from here.
            pub const fn answerable(self) -> bool {
                match self { #(Self::#variants => #answerable),* }
            }

            /// What it is observed as while it is open.
            pub const fn asks(self) -> RequestObservation {
                match self { #(Self::#variants => RequestObservation::#asks),* }
            }

            /// The thread's state while it holds a run.
            pub const fn thread(self) -> Option<ThreadState> {
                match self { #(Self::#variants => #threads),* }
            }
        }
    }
}

/// The ways that an answer can go.
fn capabilities(capabilities: &[Spanned<Capability>]) -> TokenStream {
    let capabilities: Vec<&Capability> = capabilities.iter().map(Spanned::get_ref).collect();
    let enumeration = enumeration(
        &format_ident!("Capability"),
        "The way that an answer to a request can go.",
        capabilities.iter().map(|one| (one.name.as_str(), one.doc.as_str())),
    );
    let variants: Vec<_> = capabilities.iter().map(|one| variant(&one.name)).collect();
    let holds = capabilities.iter().map(|one| one.holds);
    let answerable = capabilities.iter().map(|one| one.answerable);
    let asks = capabilities.iter().map(|one| one.asks);
    let modes = capabilities.iter().map(|one| option(one.mode.as_deref()));
    quote! {
        #enumeration

        impl Capability {
            /// A run can wait for the answer.
            pub const fn holds(self) -> bool {
                match self { #(Self::#variants => #holds),* }
            }

            /// An answer reaches somebody.
            pub const fn answerable(self) -> bool {
                match self { #(Self::#variants => #answerable),* }
            }

            /// Somebody is to be told of it.
            pub const fn asks(self) -> bool {
                match self { #(Self::#variants => #asks),* }
            }

            /// What views show where it is not the usual way.
            pub const fn mode(self) -> Option<&'static str> {
                match self { #(Self::#variants => #modes),* }
            }
        }
    }
}

/// A thread's states and the fold's precedence.
fn threads(rows: &[Spanned<ThreadRow>]) -> TokenStream {
    let rows: Vec<&ThreadRow> = rows.iter().map(Spanned::get_ref).collect();
    let enumeration = enumeration(
        &format_ident!("ThreadState"),
        "The state of a thread: folded from its runs and requests.",
        rows.iter().map(|row| (row.state.as_str(), row.doc.as_str())),
    );
    let variants: Vec<_> = rows.iter().map(|row| variant(&row.state)).collect();
    let busy = rows.iter().map(|row| matches!(row.when, When::Request | When::Run));
    let steps = rows.iter().map(|row| match row.when {
        When::Deleted => format_ident!("Deleted"),
        When::Request => format_ident!("Request"),
        When::Run => format_ident!("Run"),
        When::LastEnded => format_ident!("LastEnded"),
        When::Otherwise => format_ident!("Otherwise"),
    });
    quote! {
        #enumeration

        impl ThreadState {
            /// The word that views use.
            pub const fn as_str(self) -> &'static str {
                self.name()
            }

            /// Something is still to come.
            pub const fn is_busy(self) -> bool {
                match self { #(Self::#variants => #busy),* }
            }
        }

        /// When a step of the fold holds.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum FoldStep {
            /// The thread is deleted, or was never there.
            Deleted,
            /// A request that holds a run is of a class with that state.
            Request,
            /// A run is in that state.
            Run,
            /// The run that ended last is shown so.
            LastEnded,
            /// Nothing of the above.
            Otherwise,
        }

        /// The fold: the first step that holds gives the state.
        pub const PRECEDENCE: &[(FoldStep, ThreadState)] = &[#((FoldStep::#steps, ThreadState::#variants)),*];
    }
}

/// A text or none.
pub(super) fn option(text: Option<&str>) -> TokenStream {
    text.map_or_else(|| quote!(None), |text| quote!(Some(#text)))
}
