//! One machine as Rust: its enums, its total transition function, its table and its diagram.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use toml::Spanned;

use super::diagram;
use super::generate::{enumeration, option, variant};
use super::model::{Machine, Row, State, ThreadRow, When};

/// A machine: states, observations, transitions, table, diagram.
pub(super) fn machine(
    prefix: &str,
    name: &str,
    machine: &Machine,
    threads: Option<&[Spanned<ThreadRow>]>,
) -> TokenStream {
    let state_ident = format_ident!("{prefix}State");
    let observation_ident = format_ident!("{prefix}Observation");
    let states: Vec<&State> = machine.state.iter().map(Spanned::get_ref).collect();
    let state_enum = enumeration(
        &state_ident,
        &format!("The state of a {name}."),
        states.iter().map(|state| (state.name.as_str(), state.doc.as_str())),
    );
    let observation_enum = enumeration(
        &observation_ident,
        &format!("What can be observed of a {name}."),
        machine
            .observation
            .iter()
            .map(|one| (one.get_ref().name.as_str(), one.get_ref().doc.as_str())),
    );
    let initial = variant(machine.initial.get_ref());
    let variants: Vec<_> = states.iter().map(|state| variant(&state.name)).collect();
    let words = states.iter().map(|state| state.word());
    let busy = states.iter().map(|state| state.busy);
    let ended = states.iter().map(|state| state.ended);
    let void = states.iter().map(|state| state.void);
    let thread = threads.map(|threads| thread_of_state(&states, threads));
    let arms = machine
        .row
        .iter()
        .map(|row| arm(&state_ident, &observation_ident, row.get_ref()));
    let table_ident = format_ident!("{}_TABLE", prefix.to_uppercase());
    let cells = machine
        .row
        .iter()
        .flat_map(|row| cells(&state_ident, &observation_ident, row.get_ref()));
    let diagram_ident = format_ident!("{}_DIAGRAM", prefix.to_uppercase());
    let diagram = diagram::mermaid(machine);
    let table_doc = format!("Every state and observation of a {name}, for tests and docs.");
    let diagram_doc = format!("The states of a {name} as a Mermaid diagram.");
    quote! {
        #state_enum

        impl #state_ident {
            /// Where each begins.
            pub const INITIAL: Self = Self::#initial;

            /// The word that views and events use.
            pub const fn as_str(self) -> &'static str {
                match self { #(Self::#variants => #words),* }
            }

            /// Something is still to come.
            pub const fn is_busy(self) -> bool {
                match self { #(Self::#variants => #busy),* }
            }

            /// Nothing is to come.
            pub const fn is_ended(self) -> bool {
                match self { #(Self::#variants => #ended),* }
            }

            /// It ended without ever having worked.
            pub const fn is_void(self) -> bool {
                match self { #(Self::#variants => #void),* }
            }

            #thread

            /// What an observation makes of it. Total: the table has an answer to everything.
            pub const fn on(self, observation: #observation_ident) -> Transition<Self> {
                match (self, observation) { #(#arms),* }
            }
        }

        #observation_enum

        #[doc = #table_doc]
        pub const #table_ident: &[TableRow<#state_ident, #observation_ident>] = &[#(#cells),*];

        #[doc = #diagram_doc]
        pub const #diagram_ident: &str = #diagram;
    }
}

/// The thread's state that a run's state stands for in the fold.
fn thread_of_state(states: &[&State], threads: &[Spanned<ThreadRow>]) -> TokenStream {
    let arms = states.iter().map(|state| {
        let ident = variant(&state.name);
        let when = if state.busy { When::Run } else { When::LastEnded };
        let row = threads
            .iter()
            .map(Spanned::get_ref)
            .find(|row| !state.void && row.when == when && row.state == state.word());
        if let Some(row) = row {
            let thread = variant(&row.state);
            quote!(Self::#ident => Some(ThreadState::#thread))
        } else {
            quote!(Self::#ident => None)
        }
    });
    quote! {
        /// The thread's state while this run decides it; none for a run that never decides.
        pub const fn thread(self) -> Option<ThreadState> {
            match self { #(#arms),* }
        }
    }
}

/// One row as an arm of the transition function.
fn arm(state: &proc_macro2::Ident, observation: &proc_macro2::Ident, row: &Row) -> TokenStream {
    let from = row.from.iter().map(|name| variant(name));
    let on = row.on.iter().map(|name| variant(name));
    let to = row.to.as_ref().map_or_else(
        || quote!(self),
        |to| {
            let to = variant(to);
            quote!(Self::#to)
        },
    );
    let emit = emit(row);
    quote!((#(#state::#from)|*, #(#observation::#on)|*) => Transition { to: #to, emit: #emit })
}

/// One row as cells of the table.
fn cells<'a>(
    state: &'a proc_macro2::Ident,
    observation: &'a proc_macro2::Ident,
    row: &'a Row,
) -> impl Iterator<Item = TokenStream> + 'a {
    let emit = emit(row);
    let ignored = option(row.ignore.as_deref());
    row.from.iter().flat_map(move |from_name| {
        let emit = emit.clone();
        let ignored = ignored.clone();
        row.on.iter().map(move |on| {
            let from = variant(from_name);
            let on = variant(on);
            let to = variant(row.to.as_ref().unwrap_or(from_name));
            quote! {
                TableRow::new(#state::#from, #observation::#on, #state::#to, #emit, #ignored)
            }
        })
    })
}

/// What a row tells.
fn emit(row: &Row) -> TokenStream {
    row.emit.as_ref().map_or_else(
        || quote!(None),
        |event| {
            let event = variant(event);
            quote!(Some(HookEvent::#event))
        },
    )
}
