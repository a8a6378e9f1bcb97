//! `t3_events`: what happened, for callers that no hook reaches. A cursor goes on from where the last answer ended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

use crate::fleet::{Limits, Member};
use crate::gateway::compose::may_decide;
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::event::EventBody;
use crate::gateway::progress::{ProgressSink, Tick};
use crate::gateway::watches::is_unlimited;
use crate::gateway::{ANSWER_CHARS, Caller, Gateway, text};
use crate::protocol::ThreadId;
use crate::store::{Event, EventFilter, PAGE_EVENTS, Store, StoreError};

/// Which events, and how long to wait for the first.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsArgs {
    /// The `cursor` of the last answer: what came after it. Left out: the newest events.
    #[serde(default)]
    pub cursor: Option<String>,
    /// How many events at most, 1-100. Default 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<usize>,
    /// Only those of this thread.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// Seconds to wait for an event if there is none, 0-3600. Default 0. Without a progress token at most 50.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3600))]
    pub wait: Option<u64>,
}

/// The events, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct EventsAnswer {
    /// What happened, as a hook receives it.
    #[schemars(with = "Vec<EventBody>")]
    pub events: Vec<Value>,
    /// Pass it with the next call: it goes on behind the last of these events.
    pub cursor: String,
    /// Events between the given cursor and these are missing: they are not kept any more, the cursor is of another ledger, or their
    /// machine has not answered since the start, so that nobody can say whether you may see them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// What `limit` may be.
const LIMITS: std::ops::RangeInclusive<usize> = 1..=100;
const LIMIT: usize = 20;
/// What `wait` may be at most.
const LONGEST_WAIT: u64 = 3_600;
/// What an answer's own facts take.
const ENVELOPE_CHARS: usize = 400;
/// How far heartbeats are apart. Clients give up on a call that is silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What stands between a cursor's ledger and its number.
const OF: char = '.';

impl Gateway {
    /// The events behind the cursor; waits for the first if there is none. Dropping the future leaves nothing behind.
    pub async fn events(
        &self,
        caller: &Caller,
        args: EventsArgs,
        progress: Option<&dyn ProgressSink>,
    ) -> Result<EventsAnswer, ToolError> {
        let store = self.ledger()?.store.clone();
        let limit = args.limit.unwrap_or(LIMIT);
        if !LIMITS.contains(&limit) {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!("limit is {limit}; it must be {} to {}.", LIMITS.start(), LIMITS.end()),
            ));
        }
        let wait = self.events_wait(args.wait.unwrap_or(0), progress.is_some())?;
        let wait = wait.saturating_sub(caller.under_way);
        let query = Query {
            gateway: self,
            caller,
            store: &store,
            limit,
            filter: EventFilter {
                thread: args.thread_id.clone().map(ThreadId),
                machines: caller.limits.machines.clone(),
            },
        };
        let mut changes = store.changes();
        changes.mark_unchanged();
        let mut gathered = match &args.cursor {
            None => query.newest(false).await?,
            Some(cursor) => {
                let cursor = Position::read(cursor).ok_or_else(bad_cursor)?;
                match position(&store, &cursor).await.map_err(|error| not_read(&error))? {
                    None => query.newest(true).await?,
                    Some(after) => query.after(after).await?,
                }
            }
        };
        if gathered.events.is_empty() && !wait.is_zero() {
            let waited = async {
                loop {
                    if changes.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                    let next = query.after(gathered.cursor).await?;
                    let truncated = gathered.truncated | next.truncated;
                    gathered = Gathered { truncated, ..next };
                    if !gathered.events.is_empty() {
                        return Ok::<(), ToolError>(());
                    }
                }
            };
            self.wait_for(waited, wait, progress).await?;
        }
        Ok(EventsAnswer {
            events: gathered.events,
            cursor: format!("{}{OF}{}", store.identity(), gathered.cursor),
            truncated: gathered.truncated.then_some(true),
        })
    }

    fn events_wait(&self, seconds: u64, with_progress: bool) -> Result<Duration, ToolError> {
        if seconds > LONGEST_WAIT {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!("wait is {seconds}; it must be 0 to {LONGEST_WAIT} seconds."),
            ));
        }
        let wait = Duration::from_secs(seconds);
        Ok(if with_progress {
            wait
        } else {
            wait.min(self.settings.wait_without_progress)
        })
    }

    /// Until it is done, the time is over or the gateway stops; with heartbeats meanwhile.
    async fn wait_for(
        &self,
        work: impl Future<Output = Result<(), ToolError>>,
        wait: Duration,
        progress: Option<&dyn ProgressSink>,
    ) -> Result<(), ToolError> {
        let begun = Instant::now();
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut work = std::pin::pin!(work);
        let mut number = 0;
        let mut beat: Option<BoxFuture<'_, ()>> = None;
        loop {
            let idle = beat.is_none();
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.stop.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(begun + wait) => return Ok(()),
                Some(()) = OptionFuture::from(beat.as_mut()) => beat = None,
                _ = heartbeat.tick(), if idle && progress.is_some() => {
                    let elapsed = begun.elapsed();
                    let message = format!("no event yet, {} s", elapsed.as_secs());
                    beat = progress.map(|sink| sink.tick(Tick { number, elapsed, message }));
                    number += 1;
                }
            }
        }
    }
}

/// What was found, and where to go on.
struct Gathered {
    events: Vec<Value>,
    cursor: u64,
    truncated: bool,
}

/// What is asked for.
struct Query<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    store: &'a Store,
    limit: usize,
    filter: EventFilter,
}

impl Query<'_> {
    /// What came behind the number, as much as fits.
    async fn after(&self, after: u64) -> Result<Gathered, ToolError> {
        let mut gathered = Gathered {
            events: Vec::new(),
            cursor: after,
            truncated: false,
        };
        let mut room = ANSWER_CHARS.saturating_sub(ENVELOPE_CHARS);
        loop {
            let page = self
                .store
                .events_after(gathered.cursor, PAGE_EVENTS, &self.filter)
                .await;
            let page = page.map_err(|error| not_read(&error))?;
            gathered.truncated |= page.truncated;
            let full = page.events.len() >= usize::try_from(PAGE_EVENTS).unwrap_or(usize::MAX);
            for event in &page.events {
                if let Some(body) = self.body(event, &mut gathered.truncated) {
                    let Some(body) = taken(body, &mut room, gathered.events.is_empty()) else {
                        return Ok(gathered);
                    };
                    gathered.events.push(body);
                }
                gathered.cursor = event.seq;
                if gathered.events.len() == self.limit {
                    return Ok(gathered);
                }
            }
            gathered.cursor = page.cursor;
            if !full {
                return Ok(gathered);
            }
        }
    }

    /// The newest ones, as many as fit.
    async fn newest(&self, mut truncated: bool) -> Result<Gathered, ToolError> {
        let newest = self.store.newest();
        let mut room = ANSWER_CHARS.saturating_sub(ENVELOPE_CHARS);
        let mut events = Vec::new();
        let mut before = newest.saturating_add(1);
        'all: loop {
            let page = self.store.events_before(before, PAGE_EVENTS, &self.filter).await;
            let page = page.map_err(|error| not_read(&error))?;
            let full = page.len() >= usize::try_from(PAGE_EVENTS).unwrap_or(usize::MAX);
            for event in &page {
                before = event.seq;
                if let Some(body) = self.body(event, &mut truncated) {
                    let Some(body) = taken(body, &mut room, events.is_empty()) else {
                        break 'all;
                    };
                    events.push(body);
                }
                if events.len() == self.limit {
                    break 'all;
                }
            }
            if !full {
                break;
            }
        }
        events.reverse();
        Ok(Gathered {
            events,
            cursor: newest,
            truncated,
        })
    }

    /// What the event tells, if it exists for the caller; says in `truncated` that one was left out for want of knowing.
    fn body(&self, event: &Event, truncated: &mut bool) -> Option<Value> {
        let Ok(mut body) = serde_json::from_str::<Value>(&event.body) else {
            tracing::error!(event = %event.id, "an event's body is no JSON");
            return None;
        };
        match self.sight(event, &body) {
            Sight::Shown => {
                self.leave_out_what_it_may_not_decide(event, &mut body);
                Some(body)
            }
            Sight::Hidden => None,
            Sight::Unknown => {
                *truncated = true;
                None
            }
        }
    }

    /// An event is written once for all: of the decisions that it offers a caller sees those that its own ceiling lets it take.
    fn leave_out_what_it_may_not_decide(&self, event: &Event, body: &mut Value) {
        let limits = &self.caller.limits;
        let member = self.gateway.fleet.member(limits, &event.machine);
        let ceiling = member.map_or_else(|_| limits.ceiling(&event.machine), |member| member.ceiling(limits));
        let decisions = body.pointer_mut("/approval/decisions").and_then(Value::as_array_mut);
        if let Some(decisions) = decisions {
            decisions.retain(|decision| decision.as_str().is_none_or(|word| may_decide(word, ceiling)));
        }
    }

    /// Whether the event's project exists for the caller, as things are now.
    fn sight(&self, event: &Event, body: &Value) -> Sight {
        let limits = &self.caller.limits;
        if !limits.machine(&event.machine) {
            return Sight::Hidden;
        }
        // What nobody can see any more is told, without its content, to who waits for it.
        let bare = body.get("project").is_none() && body.get("text").is_none();
        if bare && (event.client.as_ref() == Some(&self.caller.client) || is_unlimited(limits)) {
            return Sight::Shown;
        }
        let Ok(member) = self.gateway.fleet.member(limits, &event.machine) else {
            return Sight::Hidden;
        };
        let project = event.project_id.as_ref().and_then(|id| member.machine.project(id));
        let title = body.get("project").and_then(Value::as_str);
        match (project, title) {
            (Some(project), _) if member.shows(limits, &project) => Sight::Shown,
            // The machine has not shown it yet, or does not any more: of its project only the title is known.
            (None, Some(title)) if shows_title(&member, limits, title) => Sight::Shown,
            (None, Some(_)) if member.machine.projects().is_empty() => Sight::Unknown,
            (Some(_), _) | (None, Some(_) | None) => Sight::Hidden,
        }
    }
}

/// Whether an event exists for a caller.
enum Sight {
    Shown,
    Hidden,
    /// The machine has shown nothing yet by which that could be told.
    Unknown,
}

fn shows_title(member: &Arc<Member>, limits: &Limits, title: &str) -> bool {
    member.rules.projects.matches(title) && limits.pass(member.name(), false, |patterns| patterns.matches(title))
}

/// What a cursor says.
#[derive(Debug, Eq, PartialEq)]
struct Position<'a> {
    ledger: &'a str,
    number: u64,
}

impl<'a> Position<'a> {
    /// None where it is no cursor at all.
    fn read(cursor: &'a str) -> Option<Self> {
        let (ledger, number) = cursor.rsplit_once(OF)?;
        Uuid::try_parse(ledger).ok()?;
        let number = number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)?;
        Some(Self {
            ledger,
            number: number.parse().ok()?,
        })
    }
}

fn bad_cursor() -> ToolError {
    ToolError::new(ErrorCode::InvalidRequest, "cursor is none that t3_events gave.")
        .hint("Pass cursor as the last answer gave it; or leave it out for the newest events.")
}

/// The number in this ledger that the cursor stands for; none where it is of another one.
async fn position(store: &Store, cursor: &Position<'_>) -> Result<Option<u64>, StoreError> {
    let number = cursor.number;
    if cursor.ledger != store.identity() {
        return Ok(None);
    }
    // A page may have shown what the writer has only just committed.
    let is_ours = number <= store.newest() || number <= store.newest_to_read().await?;
    Ok(is_ours.then_some(number))
}

/// The event, if there is room for it. The first one is always given, shortened if it must be.
fn taken(mut body: Value, room: &mut usize, is_first: bool) -> Option<Value> {
    if is_first {
        shorten(&mut body, *room);
    }
    let chars = written(&body);
    let left = room.checked_sub(chars);
    if left.is_none() && !is_first {
        return None;
    }
    *room = left.unwrap_or(0);
    Some(body)
}

/// How often a text is halved, before it is given up.
const MOST_CUTS: usize = 64;
/// A text is not cut below this.
const LEAST_CHARS: usize = 80;

/// Halves the longest text until the event fits. Its lists are bounded where it is made.
fn shorten(body: &mut Value, room: usize) {
    for _ in 0..MOST_CUTS {
        if written(body) <= room {
            return;
        }
        let Some(longest) = longest_text(body) else { return };
        let chars = longest.chars().count();
        if chars < LEAST_CHARS {
            break;
        }
        *longest = text::cut(longest, chars / 2);
    }
    if let Some(object) = body.as_object_mut().filter(|object| object.contains_key("files")) {
        object.remove("files");
    }
}

fn longest_text(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items.iter_mut().filter_map(longest_text).max_by_key(|text| text.len()),
        Value::Object(entries) => entries
            .values_mut()
            .filter_map(longest_text)
            .max_by_key(|text| text.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// What the event takes in an answer.
fn written(body: &Value) -> usize {
    body.to_string().chars().count() + 1
}

pub(super) fn not_read(error: &StoreError) -> ToolError {
    ToolError::new(ErrorCode::Internal, format!("The events could not be read. {error}")).hint("Tell the operator.")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_larger_than_an_answer_is_given_shortened() {
        let files: Vec<Value> = (0..100)
            .map(|n| json!({"path": format!("{n}/{}", "p".repeat(900))}))
            .collect();
        for body in [
            json!({"id": "evt_1", "text": "\u{1}".repeat(8_000), "files": []}),
            json!({"id": "evt_1", "text": "short", "files": files}),
        ] {
            let mut room = 23_600;
            let given = taken(body, &mut room, true).unwrap();
            assert!(written(&given) <= 23_600, "{}", written(&given));
            assert_eq!(given["id"], "evt_1");
        }
    }

    #[test]
    fn what_is_no_cursor_is_none() {
        let ledger = "6f3c1f0e-2f0a-4f5e-9a51-0d6d7a4f1c22";
        let cursor = format!("{ledger}.7");
        assert_eq!(Position::read(&cursor), Some(Position { ledger, number: 7 }));
        for garbage in ["", "?", "7", ".7", "garbage", "garbage.7"] {
            assert_eq!(Position::read(garbage), None, "{garbage}");
        }
        for number in ["", "x", "+7", "-1", "7.7", "99999999999999999999"] {
            let garbage = format!("{ledger}.{number}");
            assert_eq!(Position::read(&garbage), None, "{garbage}");
        }
    }

    #[test]
    fn an_event_without_room_waits_for_the_next_answer() {
        let mut room = 10;
        assert_eq!(taken(json!({"text": "longer than that"}), &mut room, false), None);
    }
}
