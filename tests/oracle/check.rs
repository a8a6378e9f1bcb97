//! Holds the events that the gateway kept against what the observer saw.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use t3code_mcp::lifecycle::Watch;
use t3code_mcp::store::{Event, EventFilter, PAGE_EVENTS};
use uuid::Uuid;

use super::observer::{Observer, Request, Run, Thread};
use super::world::World;

/// The namespace of event ids, which receivers know events by.
const NAMESPACE: Uuid = Uuid::from_u128(0x7433_636f_6465_4d43_5000_6576_656e_7473);
/// What T3 ends as it comes up again, it ends at once; what ended so close to that cannot be told apart from it afterwards.
const CLOSE_TO_A_RESTART: SignedDuration = SignedDuration::from_secs(5);
/// Who finishes for longer counts as completed.
pub const FINISH_TIMEOUT: SignedDuration = SignedDuration::from_mins(3);

/// What may and must be told of a run's end, or of a request.
#[derive(Debug)]
struct Wanted<'a> {
    /// The kinds, of which one may come.
    kinds: BTreeSet<&'static str>,
    /// One must.
    must: bool,
    thread: &'a Thread,
    run: &'a Run,
    request: Option<&'a Request>,
}

/// How much of what was seen, over all cases: a test that generates nothing finds nothing.
pub type Tally = BTreeMap<String, u64>;

/// Everything that is wrong, in words.
pub async fn check(world: &World<'_>, slow: bool, fails: bool, tally: &mut Tally) -> Vec<String> {
    let filter = EventFilter {
        machines: Some(vec![world.machine.clone()]),
        ..EventFilter::default()
    };
    let page = world.store().events_after(0, PAGE_EVENTS, &filter).await.unwrap();
    // A question is sure to be seen by who is connected for so long while it is pending: reads take 2 s at most, and one that failed is
    // made again after 5 s.
    let sure = SignedDuration::from_secs(if fails { 12 } else { 5 });
    let wanted = wanted(&world.observer, &world.online, sure);
    let mut wrong = Vec::new();
    let mut ids: BTreeMap<String, (usize, &'static str)> = BTreeMap::new();
    for (at, one) in wanted.iter().enumerate() {
        // Every kind that it could be told as, so that a wrong one is named.
        for kind in ["completed", "interrupted", "failed", "question", "approval"] {
            ids.insert(event_id(&world.environment.0, one, kind), (at, kind));
        }
    }
    let mut told: Vec<Vec<(&Event, &'static str)>> = wanted.iter().map(|_| Vec::new()).collect();
    for event in &page.events {
        match ids.get(&event.id) {
            Some((at, kind)) => told[*at].push((event, kind)),
            None => wrong.push(format!("nothing of that id happened: {event:?}")),
        }
    }
    for (one, told) in wanted.iter().zip(&told) {
        let kinds: Vec<&str> = told.iter().map(|(_, kind)| *kind).collect();
        let must = if one.must { "must" } else { "may" };
        let wanted = one
            .kinds
            .first()
            .map_or_else(|| "nothing".to_owned(), |kind| format!("{kind}, {must}"));
        *tally.entry(wanted).or_default() += 1;
        *tally.entry("events".to_owned()).or_default() += told.len() as u64;
        let fit =
            told.len() <= 1 && (!one.must || told.len() == 1) && kinds.iter().all(|kind| one.kinds.contains(kind));
        if !fit {
            wrong.push(format!("told as {kinds:?}, which does not fit {}", one.words()));
        }
        for (event, kind) in told {
            if let Err(problem) = content(one, event, kind, slow) {
                wrong.push(format!("{problem} in {} of {}", event.body, one.words()));
            }
        }
    }
    order(&wanted, &told, slow, &mut wrong);
    if world.open_receipts().await > 0 {
        wrong.push("a receipt is never taken up".to_owned());
    }
    wrong
}

impl Wanted<'_> {
    fn words(&self) -> String {
        let Self {
            kinds,
            must,
            run,
            request,
            thread,
        } = self;
        format!(
            "{kinds:?} (must: {must}) of {request:?} {run:?} of a thread deleted at {:?}",
            thread.deleted
        )
    }
}

fn wanted<'a>(observer: &'a Observer, online: &[(Timestamp, Timestamp)], sure: SignedDuration) -> Vec<Wanted<'a>> {
    let mut wanted = Vec::new();
    for thread in observer.threads.values() {
        for run in &thread.runs {
            let (kinds, must) = if run.watch().on {
                end(observer, thread, run)
            } else {
                let early = told_before_its_end(run).then_some("completed");
                (early.into_iter().collect(), false)
            };
            wanted.push(Wanted {
                kinds,
                must,
                thread,
                run,
                request: None,
            });
        }
        for request in &thread.requests {
            let Some(run) = thread.run(&request.run) else { continue };
            let (may, must) = asked(thread, run, request, online, sure);
            let kind = if request.question { "question" } else { "approval" };
            wanted.push(Wanted {
                kinds: may.then_some(kind).into_iter().collect(),
                must,
                thread,
                run,
                request: Some(request),
            });
        }
    }
    wanted
}

/// Whether a run that finished for too long was watched when it counted as completed; who switched it off later was told.
fn told_before_its_end(run: &Run) -> bool {
    let end = run.end.as_ref().map_or(Timestamp::MAX, |(at, _)| *at);
    let counted = run.finishing.map(|since| since + FINISH_TIMEOUT);
    counted.is_some_and(|counted| counted <= end && run.watched(counted, end).0)
}

/// What is told of a watched run's end, and whether anything must be.
fn end(observer: &Observer, thread: &Thread, run: &Run) -> (BTreeSet<&'static str>, bool) {
    let Some((at, status)) = &run.end else {
        // Nothing, unless its thread is gone.
        let gone = run.deleted.is_some();
        return (gone.then_some("interrupted").into_iter().collect(), gone);
    };
    let close = |restart: &&Timestamp| at.duration_since(**restart).abs() <= CLOSE_TO_A_RESTART;
    let killed = |when: Timestamp| {
        let ended_then = |other: &&Run| {
            other
                .end
                .as_ref()
                .is_some_and(|(end, word)| *end == when && word == "cancelled")
        };
        thread.runs.iter().filter(ended_then).any(|other| other.worked)
    };
    let (kind, must) = match status.as_str() {
        "completed" => (Some("completed"), true),
        "interrupted" => (Some("interrupted"), true),
        "failed" => (Some("failed"), true),
        "cancelled" if run.worked => (Some("interrupted"), true),
        // Out of the queue, and its message goes on in another run.
        "cancelled" if thread.moved(run) => (None, false),
        // By a restart: that is known of what it cut off beside it.
        "cancelled" if observer.restarts.contains(at) => (Some("interrupted"), killed(*at)),
        // By somebody, just before or after T3 cut off something: only who looked at that time can tell.
        "cancelled" if observer.restarts.iter().filter(close).any(|restart| killed(*restart)) => {
            (Some("interrupted"), false)
        }
        "cancelled" => (None, false),
        other => panic!("the simulator ended a run as {other}"),
    };
    let mut kinds: BTreeSet<&'static str> = kind.into_iter().collect();
    if run.finishing.is_some_and(|since| since + FINISH_TIMEOUT <= *at) {
        kinds.insert("completed");
    }
    if let Some(queued) = run.deleted {
        // It went on although its thread was deleted: whoever looked in between said that it is gone.
        kinds.insert("interrupted");
        return (kinds, must && !queued);
    }
    // What begins in a thread that is gone is for nobody.
    let is_late = thread.deleted.is_some_and(|deleted| deleted <= run.requested_at);
    (kinds, must && !is_late)
}

/// Whether a request may be told, and whether it must.
fn asked(
    thread: &Thread,
    run: &Run,
    request: &Request,
    online: &[(Timestamp, Timestamp)],
    sure: SignedDuration,
) -> (bool, bool) {
    let closed = request.until.unwrap_or(Timestamp::MAX);
    let deleted = thread.deleted.unwrap_or(Timestamp::MAX);
    let may = online.iter().any(|(from, to)| {
        let (from, to) = ((*from).max(request.from), (*to).min(closed));
        from <= to && run.watched(from, to).0
    });
    let ended = run.end.as_ref().map_or(Timestamp::MAX, |(at, _)| *at);
    let must = online.iter().any(|(from, to)| {
        let (from, to) = ((*from).max(request.from), (*to).min(closed).min(deleted).min(ended));
        // Also where it was switched on only later, as long as somebody could still see it.
        let since = run.watches.iter().rev().take_while(|(_, watch)| watch.on).last();
        let from = since.map_or(to, |(since, _)| from.max(*since));
        to.duration_since(from) > sure
    });
    // One that outlives its run is told with the run's end, whenever that is seen.
    let outlives = request.outlives
        && run.watch().on
        && run.end.is_some()
        && first_look_after(online, ended, sure) < closed.min(deleted);
    (may, may && (must || outlives))
}

/// Until when who was away must have looked, after that moment.
fn first_look_after(online: &[(Timestamp, Timestamp)], moment: Timestamp, sure: SignedDuration) -> Timestamp {
    let looks = online.iter().filter_map(|(from, to)| {
        let from = (*from).max(moment);
        (to.duration_since(from) > sure).then(|| from + sure)
    });
    looks.min().unwrap_or(Timestamp::MAX)
}

/// Whether the event says what it is of, and to whom.
fn content(wanted: &Wanted<'_>, event: &Event, kind: &str, slow: bool) -> Result<(), String> {
    let body: Value = serde_json::from_str(&event.body).map_err(|error| error.to_string())?;
    let (thread, run) = (wanted.thread, wanted.run);
    let says = |at: &str, wanted: Option<&str>| match (body.pointer(at).and_then(Value::as_str), wanted) {
        (said, wanted) if said == wanted => Ok(()),
        (said, wanted) => Err(format!("{at} is {said:?}, not {wanted:?}")),
    };
    says("/id", Some(&event.id))?;
    says("/event", Some(kind))?;
    says("/thread_id", Some(&event.thread.0))?;
    says("/run/id", Some(&run.id))?;
    if event.kind != kind {
        return Err(format!("it is kept as {}", event.kind));
    }
    let is_for = |watch: &Watch| {
        says("/origin", watch.origin.as_deref())?;
        says("/client", watch.client.as_deref())?;
        if event.client == watch.client {
            Ok(())
        } else {
            Err(format!("it is kept for {:?}", event.client))
        }
    };
    if let Some(request) = wanted.request {
        let at = if request.question {
            "/question/request_id"
        } else {
            "/approval/request_id"
        };
        says(at, Some(&request.id))?;
        // Whoever the run was reported to while it was pending.
        let closed = request.until.unwrap_or(Timestamp::MAX);
        let fit = run.watches.iter().filter(|(since, watch)| *since <= closed && watch.on);
        return match fit.map(|(_, watch)| is_for(watch)).find(Result::is_ok) {
            Some(fit) => fit,
            None => is_for(run.watch()),
        };
    }
    if told_before_its_end(run) {
        // To whoever watched it when it was told.
        let fit = run.watches.iter().filter(|(_, watch)| watch.on);
        fit.map(|(_, watch)| is_for(watch))
            .find(Result::is_ok)
            .unwrap_or_else(|| is_for(run.watch()))?;
    } else {
        is_for(run.watch())?;
    }
    let Some((at, _)) = run.end.as_ref().filter(|_| thread.deleted.is_none()) else {
        return Ok(());
    };
    says("/reason", None)?;
    if !slow {
        says("/occurred_at", Some(&at.to_string()))?;
        let next = thread
            .runs
            .iter()
            .find(|other| other.continues.as_ref() == Some(&run.id));
        says("/run/continues_in", next.map(|next| next.id.as_str()))?;
    }
    Ok(())
}

/// Whether the events of each thread come in the order in which it happened.
fn order(wanted: &[Wanted<'_>], told: &[Vec<(&Event, &'static str)>], slow: bool, wrong: &mut Vec<String>) {
    let mut all: Vec<(&Event, &Wanted<'_>)> = wanted
        .iter()
        .zip(told)
        .flat_map(|(one, told)| told.iter().map(move |(event, _)| (*event, one)))
        .collect();
    all.sort_by_key(|(event, _)| event.seq);
    for (index, (event, one)) in all.iter().enumerate() {
        for (later, other) in &all[index + 1..] {
            if later.thread != event.thread || one.thread.deleted.is_some() {
                continue;
            }
            let ended = |one: &Wanted<'_>| {
                one.run
                    .end
                    .as_ref()
                    .map(|(at, _)| *at)
                    .filter(|_| one.request.is_none())
            };
            let swapped = match (ended(one), ended(other)) {
                (Some(first), Some(second)) => first > second && !slow,
                // A question comes before the end of its run.
                (Some(_), None) => one.run.id == other.run.id && other.request.is_some(),
                (None, _) => false,
            };
            if swapped {
                wrong.push(format!("{} comes before {}", event.body, later.body));
            }
        }
    }
}

/// An event's name: the same for ever, and derived from what it tells alone.
fn event_id(environment: &str, wanted: &Wanted<'_>, kind: &str) -> String {
    let requested_at = wanted.run.requested_at.to_string();
    let about = wanted.request.map_or("", |request| &request.id);
    let thread = wanted.run.thread.as_str();
    let mut name = Vec::new();
    for part in [environment, thread, &wanted.run.id, &requested_at, kind, about] {
        name.extend_from_slice(&(part.len() as u64).to_be_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    format!("evt_{}", Uuid::new_v5(&NAMESPACE, &name).simple())
}
