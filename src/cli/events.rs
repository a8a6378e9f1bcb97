//! `events`: what happened, what became of its delivery, and whether the hook takes a sample.

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::flags::SettingFlags;
use super::{Failure, logging, output, runtime};
use crate::config::state::StateDir;
use crate::config::{Config, WorkingDirectory};
use crate::delivery::{HookSettings, send_sample};
use crate::protocol::Untrusted;
use crate::store::{DeliveryState, LEDGER_FILE, ListFilter, Listed, Resend, Store};

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
    settings: SettingFlags<false>,
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
    let store = ledger(config).await?;
    let done = match action {
        Action::List { state, limit, json } => list(&store, *state, *limit, *json).await,
        Action::Show { id, json } => show(&store, id, *json).await,
        Action::Retry { id, json } => retry(&store, id, *json).await,
        Action::Test { .. } => Ok(()),
    };
    store.close().await;
    done
}

/// The ledger that `serve` keeps; it is not made here.
async fn ledger(config: &Config) -> Result<Store, Failure> {
    let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
    let path = state.path().join(LEDGER_FILE);
    if !path.exists() {
        return Err(Failure::said(format_args!(
            "there is no ledger at {}. `t3code-mcp serve` makes it; name its state directory with --state-dir",
            path.display()
        )));
    }
    Store::open_beside(&path).await.map_err(Failure::said)
}

async fn list(store: &Store, state: Option<State>, limit: u32, json: bool) -> Result<(), Failure> {
    let filter = ListFilter {
        state: state.map(DeliveryState::from),
        before: None,
    };
    let listed = store.deliveries(filter, limit).await.map_err(Failure::said)?;
    if json {
        let events: Vec<Value> = listed.iter().map(in_json).collect();
        return output::json(&json!({ "events": events }));
    }
    let rows: Vec<_> = listed.iter().map(row).collect();
    output::table(
        ["happened", "event", "machine", "thread", "delivery", "tries", "id"],
        &rows,
    );
    Ok(())
}

async fn show(store: &Store, id: &str, json: bool) -> Result<(), Failure> {
    let Some(listed) = store.delivery(id).await.map_err(Failure::said)? else {
        return Err(unknown(id));
    };
    if json {
        return output::json(&in_json(&listed));
    }
    let [happened, event, machine, thread, delivery, tries, id] = row(&listed);
    output::answer(format_args!("{id}: {event} on {machine}, thread {thread}, {happened}"))?;
    output::answer(format_args!("delivery: {delivery}, attempts: {tries}"))?;
    if let Some(delivery) = &listed.delivery {
        if delivery.state == DeliveryState::Waiting {
            output::answer(format_args!("next attempt: {}", delivery.due_at))?;
        }
        if let Some(error) = &delivery.last_error {
            output::answer(format_args!("last error: {}", Untrusted(error)))?;
        }
    }
    output::json(&body(&listed))
}

async fn retry(store: &Store, id: &str, json: bool) -> Result<(), Failure> {
    let resend = store.retry_event(id, Timestamp::now()).await.map_err(Failure::said)?;
    let said = match resend {
        Resend::Queued => ("queued", "It is due now: the serving process sends it within a minute."),
        Resend::Behind => ("behind", "It is due, and waits for an earlier event of its thread."),
        Resend::InFlight => ("in_flight", "It is being sent just now."),
        Resend::Delivered => return Err(Failure::said(format_args!("{id} was delivered: it is not sent twice"))),
        Resend::NotForDelivery => {
            return Err(Failure::said(format_args!(
                "{id} was made before a hook was configured: it is not to be delivered. `events show` shows it"
            )));
        }
        Resend::Unknown => return Err(unknown(id)),
    };
    if json {
        output::json(&json!({ "id": id, "outcome": said.0 }))
    } else {
        output::answer(format_args!("{id}: {}", said.1))
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

fn row(listed: &Listed) -> [String; 7] {
    let cell = |text: &str| Untrusted(text).at_most(output::CELL).to_string();
    let event = &listed.event;
    let (state, tries) = match &listed.delivery {
        Some(delivery) => (delivery.state.as_str(), delivery.attempts.to_string()),
        None => ("none", "-".to_owned()),
    };
    [
        event.occurred_at.to_string(),
        cell(&event.kind),
        cell(&event.machine),
        cell(&event.thread.0),
        state.to_owned(),
        tries,
        event.id.clone(),
    ]
}

fn body(listed: &Listed) -> Value {
    serde_json::from_str(&listed.event.body).unwrap_or(Value::Null)
}

fn in_json(listed: &Listed) -> Value {
    let delivery = listed.delivery.as_ref().map(|delivery| {
        json!({
            "state": delivery.state.as_str(),
            "attempts": delivery.attempts,
            "out_of_order": delivery.out_of_order,
            "due_at": (delivery.state == DeliveryState::Waiting).then(|| delivery.due_at.to_string()),
            "last_attempt_at": delivery.last_attempt_at.map(|at| at.to_string()),
            "last_status": delivery.last_status,
            "last_error": delivery.last_error,
        })
    });
    json!({ "event": body(listed), "delivery": delivery })
}
