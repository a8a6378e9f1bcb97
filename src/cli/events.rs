//! `events`: what happened, what became of its delivery, and whether the hook takes a sample.

use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use http::Method;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::flags::GlobalFlags;
use super::role::{self, Found, Rank};
use super::{Failure, logging, output, runtime};
use crate::config::state::StateDir;
use crate::config::{Config, WorkingDirectory};
use crate::delivery::{HookSettings, send_sample};
use crate::gateway::{EventEntry, EventList, event_entry, list_events};
use crate::mcp::{Owner, Unanswered};
use crate::protocol::Untrusted;
use crate::store::{DeliveryState, LEDGER_FILE, Ownership, Resend, Store};

/// After how long another process has taken the place of one that ended.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How many events a list shows where nothing is said.
const LISTED: u32 = 20;

/// List the events of the ledger, look at one, send one again, or try the hook.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t3code-mcp events list\n  t3code-mcp events list --state dead --json\n  t3code-mcp events show evt_…\n  \
                  t3code-mcp events retry evt_…\n  t3code-mcp events test"
)]
pub(super) struct Args {
    #[command(flatten)]
    settings: GlobalFlags,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The newest events and where their deliveries stand
    List {
        /// Only those whose delivery stands so
        #[arg(long)]
        state: Option<State>,
        /// How many
        #[arg(long, default_value_t = LISTED, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// One event in full
    Show {
        /// Its id
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send an event again that is dead, or at once that waits for its next attempt
    Retry {
        /// Its id
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send a signed sample to the hook and say what came back
    Test {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum State {
    Waiting,
    Delivered,
    Dead,
}

impl From<State> for DeliveryState {
    fn from(state: State) -> Self {
        match state {
            State::Waiting => Self::Waiting,
            State::Delivered => Self::Delivered,
            State::Dead => Self::Dead,
        }
    }
}

/// Does what is asked and prints it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = args.settings.load(WorkingDirectory::Config)?;
    logging::start_if_asked(&args.settings, &config.log)?;
    runtime::run_alone(act(&config, &args.action))?
}

async fn act(config: &Config, action: &Action) -> Result<(), Failure> {
    if let Action::Test { json } = action {
        return test(config, *json).await;
    }
    let outbox = Outbox::open(config).await?;
    let done = match action {
        Action::List { state, limit, json } => list(&outbox, *state, *limit, *json).await,
        Action::Show { id, json } => show(&outbox, id, *json).await,
        Action::Retry { id, json } => retry(&outbox, id, *json).await,
        Action::Test { .. } => Ok(()),
    };
    outbox.close().await;
    done
}

/// The events: of the process that keeps the ledger, or, where there is none, of the ledger itself.
enum Outbox {
    Owner(Arc<Owner>),
    Ledger {
        store: Store,
        /// Nobody else opens it meanwhile.
        _ownership: Ownership,
    },
}

impl Outbox {
    async fn open(config: &Config) -> Result<Self, Failure> {
        let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
        let path = state.ledger(LEDGER_FILE);
        if !path.exists() {
            return Err(Failure::said(format_args!(
                "there is no ledger at {}. `t3code-mcp serve` makes it; name its state directory with --state-dir",
                path.display()
            )));
        }
        let ownership = match role::find(config, &state, Rank::Speaks, &CancellationToken::new()).await? {
            Found::Free(ownership) => ownership,
            Found::Taken(owner, _) => return Ok(Self::Owner(owner)),
        };
        let store = Store::open(&path).await.map_err(Failure::said)?;
        if let Some(damaged) = store.set_aside() {
            output::complain(format_args!("{}", Untrusted(&damaged.to_string())));
        }
        Ok(Self::Ledger {
            store,
            _ownership: ownership,
        })
    }

    async fn list(&self, state: Option<DeliveryState>, limit: u32) -> Result<EventList, Failure> {
        match self {
            Self::Owner(owner) => {
                let state = state
                    .map(|state| format!("&state={}", state.as_str()))
                    .unwrap_or_default();
                ask(owner, Method::GET, &format!("/events?limit={limit}{state}")).await
            }
            Self::Ledger { store, .. } => list_events(store, state, limit).await.map_err(Failure::said),
        }
    }

    async fn entry(&self, id: &str) -> Result<Option<EventEntry>, Failure> {
        match self {
            Self::Owner(owner) => ask(owner, Method::GET, &format!("/events/{}", segment(id)?)).await,
            Self::Ledger { store, .. } => event_entry(store, id).await.map_err(Failure::said),
        }
    }

    async fn retry(&self, id: &str) -> Result<Resend, Failure> {
        match self {
            Self::Owner(owner) => ask(owner, Method::POST, &format!("/events/{}/retry", segment(id)?)).await,
            Self::Ledger { store, .. } => store.retry_event(id, Timestamp::now()).await.map_err(Failure::said),
        }
    }

    async fn close(self) {
        match self {
            Self::Owner(_) => {}
            Self::Ledger { store, .. } => store.close().await,
        }
    }
}

async fn ask<T: DeserializeOwned>(owner: &Owner, method: Method, path: &str) -> Result<T, Failure> {
    let mut asked = owner.ask(method.clone(), path).await;
    if let Err(Unanswered::Broken(_) | Unanswered::Nobody(_)) = asked {
        // The owner ends just now: the next one is there in a moment, and to ask it again does no harm.
        tokio::time::sleep(AGAIN_AFTER).await;
        asked = owner.ask(method, path).await;
    }
    asked.map_err(|error| role::did_not_answer(&error))
}

/// An id as it stands in a path: what none is made of is in none.
fn segment(id: &str) -> Result<&str, Failure> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !id.is_empty() && id.bytes().all(fits) {
        return Ok(id);
    }
    Err(unknown(id))
}

async fn list(outbox: &Outbox, state: Option<State>, limit: u32, json: bool) -> Result<(), Failure> {
    let listed = outbox.list(state.map(DeliveryState::from), limit).await?;
    if json {
        return output::json(&listed);
    }
    let rows: Vec<_> = listed.events.iter().map(row).collect();
    output::table(
        ["happened", "event", "machine", "thread", "delivery", "tries", "id"],
        &rows,
    );
    Ok(())
}

async fn show(outbox: &Outbox, id: &str, json: bool) -> Result<(), Failure> {
    let Some(entry) = outbox.entry(id).await? else {
        return Err(unknown(id));
    };
    if json {
        return output::json(&entry);
    }
    let [happened, event, machine, thread, delivery, tries, id] = row(&entry);
    output::answer(format_args!("{id}: {event} on {machine}, thread {thread}, {happened}"))?;
    output::answer(format_args!("delivery: {delivery}, attempts: {tries}"))?;
    if let Some(delivery) = &entry.delivery {
        if let Some(due_at) = &delivery.due_at {
            output::answer(format_args!("next attempt: {due_at}"))?;
        }
        if let Some(error) = &delivery.last_error {
            output::answer(format_args!("last error: {}", Untrusted(error)))?;
        }
    }
    output::json(&entry.event)
}

async fn retry(outbox: &Outbox, id: &str, json: bool) -> Result<(), Failure> {
    let outcome = outbox.retry(id).await?;
    let said = match outcome {
        Resend::Queued => match outbox {
            Outbox::Owner(_) => "It is due now, and sent at once.",
            Outbox::Ledger { .. } => "It is due now: it is sent when `t3code-mcp serve` runs again.",
        },
        Resend::Behind => "It is due, and waits for an earlier event of its thread.",
        Resend::InFlight => "It is being sent just now.",
        Resend::Delivered => {
            return Err(Failure::said(format_args!("{id} was delivered: it is not sent twice")));
        }
        Resend::NotForDelivery => {
            return Err(Failure::said(format_args!(
                "{id} was made before a hook was configured: it is not to be delivered. `events show` shows it"
            )));
        }
        Resend::Unknown => return Err(unknown(id)),
    };
    if json {
        output::json(&json!({ "id": id, "outcome": outcome }))
    } else {
        output::answer(format_args!("{id}: {said}"))
    }
}

async fn test(config: &Config, json: bool) -> Result<(), Failure> {
    let Some(hook) = &config.hook else {
        return Err(Failure::said(
            "no hook is configured. Set hook.url in t3code.toml, or T3CODE_MCP_HOOK_URL",
        ));
    };
    let outcome = send_sample(&HookSettings::from_config(hook))
        .await
        .map_err(Failure::said)?;
    if json {
        output::json(&outcome)?;
    } else {
        let signed = if outcome.signed { "signed" } else { "unsigned" };
        output::answer(format_args!("sent {} ({signed}) to {}", outcome.id, outcome.url))?;
        let status = outcome
            .status
            .map_or_else(|| "no answer".to_owned(), |status| format!("HTTP {status}"));
        output::answer(format_args!("{status} after {} ms", outcome.milliseconds))?;
        if let Some(answer) = &outcome.answer {
            output::answer(format_args!("it said: {}", Untrusted(answer).at_most(400)))?;
        }
        if let Some(error) = &outcome.error {
            output::complain(format_args!("{}", Untrusted(error)));
        }
    }
    if outcome.delivered { Ok(()) } else { Err(Failure::Shown) }
}

fn unknown(id: &str) -> Failure {
    Failure::said(format_args!(
        "there is no event `{}`. `t3code-mcp events list` shows what there is",
        Untrusted(id).at_most(100)
    ))
}

fn row(entry: &EventEntry) -> [String; 7] {
    let fact = |name: &str| entry.event.get(name).and_then(Value::as_str).unwrap_or("-");
    let cell = |name: &str| Untrusted(fact(name)).at_most(output::CELL).to_string();
    let (state, tries) = match &entry.delivery {
        Some(delivery) => (delivery.state.clone(), delivery.attempts.to_string()),
        None => ("none".to_owned(), "-".to_owned()),
    };
    [
        cell("occurred_at"),
        cell("event"),
        cell("machine"),
        cell("thread_id"),
        state,
        tries,
        cell("id"),
    ]
}
