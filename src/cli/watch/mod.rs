//! `watch`: a live table of the threads of all machines. Pressing a key answers what one asks.
//!
//! `table` is what it knows and what a key means, `dialog` how something is answered, `draw` what it looks like; this file asks the gateway
//! and carries between them. `screen` takes the terminal and gives it back.

mod dialog;
mod draw;
mod listing;
mod screen;
mod table;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use ratatui::crossterm::event::Event;
use serde_json::json;

use super::asking::Asking;
use super::flags::SettingFlags;
use super::{Failure, asking, output, runtime, view, words};
use crate::gateway::{
    AnswerAnswer, AnswerArgs, EventsAnswer, EventsArgs, InterruptAnswer, InterruptArgs, ThreadArgs, ThreadView,
};
use crate::mcp::tools::{Answer, Events, Interrupt, Thread};
use crate::protocol::escape_json;
use listing::{Listed, Lister};
use screen::Screen;
use table::{Table, Todo};

/// How often the threads are listed where nothing wakes earlier.
const LIST_EVERY: Duration = Duration::from_secs(3);

/// How often the clocks in the table are moved on.
const CLOCK: Duration = Duration::from_secs(1);

/// How long one call waits for an event, in seconds.
const EVENT_WITHIN: u64 = 600;

/// After how long events are asked for again where that failed.
const EVENTS_AGAIN: Duration = Duration::from_secs(5);

/// Show the threads of all machines in a live table, and answer what they ask.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print the table once, and end
    #[arg(long)]
    once: bool,
    /// Print a JSON object whenever something has changed; with --once, one
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp watch
  t3code-mcp watch --once
  t3code-mcp watch --json | jq -c '.threads[] | [.state, .title]'

Keys: ↑ ↓ select, Enter reads the thread, a answers its question or approval, i interrupts its run,
f shows all, busy ones, or those that ask, r asks anew, q ends.";

/// Shows the table until it is closed.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !(args.once || args.json || is_terminal) {
        return Err(Failure::said(
            "the live table needs a terminal. Use --once or --json without one",
        ));
    }
    let config = asking::config(&args.settings)?;
    runtime::run_alone(asking::keeping(&config, async |asking| match (args.once, args.json) {
        (true, json) => once(asking, json).await,
        (false, true) => stream(asking).await,
        (false, false) => live(asking).await,
    }))?
}

async fn once(asking: &Asking, json: bool) -> Result<(), Failure> {
    let mut table = Table::default();
    let listed = Lister::default().list(asking).await?;
    if json {
        return output::json(&listed);
    }
    table.show(listed);
    let now = Timestamp::now();
    let rows: Vec<_> = table
        .rows()
        .into_iter()
        .map(|row| {
            [
                view::fact(&row.state),
                view::fact(&row.machine),
                view::fact(&row.project),
                view::fact(&row.title),
                table::age(row, now).map(words::spoken).unwrap_or_default(),
                draw::asks(row),
                view::fact(&row.thread_id),
            ]
        })
        .collect();
    output::table(["state", "machine", "project", "title", "for", "asks", "thread"], &rows);
    for away in table.unreachable() {
        output::complain(format_args!(
            "{}: {}",
            view::fact(&away.machine),
            view::fact(&away.error)
        ));
    }
    if table.has_more() {
        output::complain(format_args!("there are older threads: t3code-mcp threads lists them"));
    }
    Ok(())
}

/// A line of JSON for each change, for as long as somebody reads them.
async fn stream(asking: &Asking) -> Result<(), Failure> {
    tokio::select! {
        ended = changes(asking) => ended,
        () = output::unread() => Ok(()),
    }
}

async fn changes(asking: &Asking) -> Result<(), Failure> {
    let mut before = None;
    let mut lister = Lister::default();
    let mut again = tokio::time::interval(LIST_EVERY);
    loop {
        again.tick().await;
        let now = lister.list(asking).await?;
        if before.as_ref() != Some(&now) {
            output::answer(format_args!("{}", escape_json(&json!(now).to_string())))?;
            before = Some(now);
        }
    }
}

/// What came of something that was asked.
enum Came {
    Listed(Lister, Result<Listed, Failure>),
    Read(Box<Result<ThreadView, Failure>>),
    Answered(Result<AnswerAnswer, Failure>),
    Interrupted(Result<InterruptAnswer, Failure>),
    Events(Result<EventsAnswer, Failure>),
}

async fn live(asking: &Asking) -> Result<(), Failure> {
    let mut screen =
        Screen::take().map_err(|error| Failure::said(format_args!("the terminal cannot be used ({error})")))?;
    let mut events = screen::events();
    let mut table = Table::default();
    let mut open: FuturesUnordered<BoxFuture<'_, Came>> = FuturesUnordered::new();
    open.push(next_event(asking, None).boxed());
    let mut reads = 0_usize;
    // Away while it lists.
    let mut lister = Some(Lister::default());
    let mut again = tokio::time::interval(LIST_EVERY);
    let mut clock = tokio::time::interval(CLOCK);
    loop {
        let drawn = screen
            .terminal()
            .draw(|frame| draw::draw(&table, Timestamp::now(), frame));
        drawn.map_err(|error| Failure::said(format_args!("the terminal cannot be written to ({error})")))?;
        let mut wants_list = false;
        tokio::select! {
            event = events.recv() => {
                let todo = match event {
                    Some(Event::Key(key)) => table.key(key),
                    Some(_) => Todo::Nothing,
                    None => return Ok(()),
                };
                match todo {
                    Todo::Nothing => {}
                    Todo::Quit => return Ok(()),
                    Todo::List => wants_list = true,
                    Todo::Read(thread) => {
                        reads += 1;
                        open.push(read(asking, thread).boxed());
                    }
                    Todo::Answer(answer) => open.push(answered(asking, answer).boxed()),
                    Todo::Interrupt(thread) => open.push(interrupted(asking, thread).boxed()),
                }
            }
            Some(came) = open.next(), if !open.is_empty() => match came {
                Came::Listed(back, came) => {
                    lister = Some(back);
                    match came {
                        Ok(threads) => table.show(threads),
                        Err(failure) => table.tell(failure.to_string()),
                    }
                }
                Came::Read(read) => {
                    reads -= 1;
                    match *read {
                        Ok(view) => table.read(&view),
                        Err(failure) => table.tell(failure.to_string()),
                    }
                }
                Came::Answered(Ok(answer)) => {
                    table.tell(format!("answered; the thread is {}", answer.state));
                    wants_list = true;
                }
                Came::Interrupted(Ok(answer)) => {
                    table.tell(format!("the run is {}", answer.state));
                    wants_list = true;
                }
                Came::Answered(Err(failure)) | Came::Interrupted(Err(failure)) => {
                    table.tell(failure.to_string());
                }
                Came::Events(answer) => {
                    wants_list = answer.as_ref().is_ok_and(|answer| !answer.events.is_empty());
                    open.push(next_event(asking, Some(answer)).boxed());
                }
            },
            _ = again.tick() => {
                wants_list = true;
                // One that hangs is not joined by another every few seconds.
                if reads == 0
                    && let Some(thread) = table.open_thread()
                {
                    reads += 1;
                    open.push(read(asking, thread.to_owned()).boxed());
                }
            }
            _ = clock.tick() => {}
        }
        if wants_list && let Some(lister) = lister.take() {
            open.push(list(asking, lister).boxed());
        }
    }
}

async fn list(asking: &Asking, mut lister: Lister) -> Came {
    let came = lister.list(asking).await;
    Came::Listed(lister, came)
}

async fn read(asking: &Asking, thread_id: String) -> Came {
    let asked = ThreadArgs { thread_id, turns: None };
    Came::Read(Box::new(asking.ask::<Thread>(&asked).await))
}

async fn answered(asking: &Asking, answer: Box<AnswerArgs>) -> Came {
    Came::Answered(asking.ask::<Answer>(&answer).await)
}

async fn interrupted(asking: &Asking, thread_id: String) -> Came {
    let asked = InterruptArgs {
        thread_id,
        ..InterruptArgs::default()
    };
    Came::Interrupted(asking.ask::<Interrupt>(&asked).await)
}

/// Waits for an event after those that came last.
async fn next_event(asking: &Asking, last: Option<Result<EventsAnswer, Failure>>) -> Came {
    let cursor = match last {
        // Where the events begin.
        None => None,
        Some(Ok(answer)) => Some(answer.cursor),
        Some(Err(_)) => {
            tokio::time::sleep(EVENTS_AGAIN).await;
            None
        }
    };
    let asked = EventsArgs {
        wait: cursor.is_some().then_some(EVENT_WITHIN),
        limit: Some(if cursor.is_some() { 100 } else { 1 }),
        cursor,
        thread_id: None,
    };
    Came::Events(asking.ask::<Events>(&asked).await)
}
