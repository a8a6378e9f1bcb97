//! The checked table as Rust: enums, total transition functions, the fold's precedence, the words of each protocol, and the
//! table itself for tests and docs.

use heck::{ToSnakeCase, ToUpperCamelCase};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use toml::Spanned;

use super::model::{Capability, Class, Machine, Mapping, Model, Named, OPEN, Row, State, ThreadRow, When, Words};
use super::{Refused, TABLE, diagram};

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
fn variant(name: &str) -> proc_macro2::Ident {
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
fn enumeration<'a>(
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

/// A machine: states, observations, transitions, table, diagram.
fn machine(prefix: &str, name: &str, machine: &Machine, threads: Option<&[Spanned<ThreadRow>]>) -> TokenStream {
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

/// A text or none.
fn option(text: Option<&str>) -> TokenStream {
    text.map_or_else(|| quote!(None), |text| quote!(Some(#text)))
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

/// One protocol's words.
fn protocol(name: &str, mapping: &Mapping) -> TokenStream {
    let module = format_ident!("{}", name.to_snake_case());
    let doc = format!("The words of {name}.");
    let run = lookup(&mapping.run_status, |name| {
        let name = variant(name);
        quote!(RunObservation::#name)
    });
    let class = lookup(&mapping.request_kind, |name| {
        let name = variant(name);
        quote!(RequestClass::#name)
    });
    let status = lookup(&mapping.request_status, |name| {
        if name == OPEN {
            return quote!(None);
        }
        let name = variant(name);
        quote!(Some(RequestObservation::#name))
    });
    let capability = lookup(&mapping.capability, |name| {
        let name = variant(name);
        quote!(Capability::#name)
    });
    quote! {
        #[doc = #doc]
        pub mod #module {
            use super::{Capability, RequestClass, RequestObservation, RunObservation};

            /// What a run's status says; a word of a newer T3 never says an end.
            pub fn observe_run(word: &str) -> RunObservation {
                #run
            }

            /// The class of a request's kind.
            pub fn classify_request(word: &str) -> RequestClass {
                #class
            }

            /// What a request's status says; none while it is open: then its class and capability say it.
            pub fn request_status(word: &str) -> Option<RequestObservation> {
                #status
            }

            /// The way that an answer can go.
            pub fn capability(word: &str) -> Capability {
                #capability
            }
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
