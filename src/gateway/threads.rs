//! `t3_threads`: the threads that may be seen, newest first, page by page.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use crate::fleet::{FleetError, Member, Shown};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::paging::{self, BadCursor, Behind, Cursor, Place};
use crate::gateway::projects::unreachable;
use crate::gateway::searching::{Match, Search, query_of};
use crate::gateway::sighting::{Sighting, UNKNOWN};
use crate::gateway::thread_list::{
    AskedRow, FoundBy, LastMessageView, ListedThread, MatchView, ThreadsAnswer, ThreadsArgs,
};
use crate::gateway::words::ThreadFilter;
use crate::gateway::{ANSWER_CHARS, Caller, Gateway, budget, text};
use crate::lifecycle::ThreadState;
use crate::machine::{Project, ThreadRow};
use crate::protocol::{ProjectId, ThreadId};

const LIMITS: std::ops::RangeInclusive<usize> = 1..=50;
const LIMIT: usize = 20;
/// How many threads are read at the same time, and for one answer at most.
const AT_ONCE: usize = 8;
const MOST_READS: usize = 200;
/// How long the reads of one answer may take together, and one of them.
const READS_WITHIN: Duration = Duration::from_secs(8);
const READ_WITHIN: Duration = Duration::from_secs(4);
/// What an answer's own facts take, `unreachable` and the cursor among them.
const ENVELOPE_CHARS: usize = 3_000;
/// How much of a thread's texts a list shows.
const TITLE_CHARS: usize = 160;
const MESSAGE_CHARS: usize = 200;
/// How many requests of one thread.
const MOST_PENDING: usize = 3;

/// A thread that may be listed.
struct Candidate<'a> {
    shown: &'a Shown,
    project: &'a Project,
    row: Arc<ThreadRow>,
    found: Option<Match>,
}

/// Where a candidate is to be looked at.
struct Sight {
    member: Arc<Member>,
    row: Arc<ThreadRow>,
    away: bool,
}

impl Candidate<'_> {
    fn sight(&self) -> Sight {
        Sight {
            member: Arc::clone(&self.shown.member),
            row: Arc::clone(&self.row),
            away: self.shown.error.is_some(),
        }
    }
}

/// What was seen of a candidate, and whether it was read for that.
struct Looked {
    sighting: Sighting,
    asked: bool,
    known: bool,
}

impl Gateway {
    /// The threads that the caller may see, of the machines that answer; of one that went away what it last showed.
    pub async fn threads(&self, caller: &Caller, args: ThreadsArgs) -> Result<ThreadsAnswer, ToolError> {
        let limit = args.limit.unwrap_or(LIMIT);
        if !LIMITS.contains(&limit) {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!("limit is {limit}; it must be {} to {}.", LIMITS.start(), LIMITS.end()),
            ));
        }
        let query = args.query.as_deref().map(query_of).transpose()?;
        let question = question(&args);
        let cursor = match &args.cursor {
            Some(cursor) => Some(Cursor::read(cursor, &question).map_err(bad_cursor)?),
            None => None,
        };
        let shown = self.fleet.shown(&caller.limits, args.machine.as_deref()).await?;
        let projects = match &args.project {
            Some(name) => Some(named_projects(&shown, caller, name, args.machine.as_deref())?),
            None => None,
        };
        let searches = match &query {
            Some(query) => join_all(shown.iter().map(|shown| Search::of(&shown.member, query))).await,
            None => Vec::new(),
        };
        let mut candidates = Vec::new();
        for (at, shown) in shown.iter().enumerate() {
            let wanted = projects.as_ref().and_then(|projects| projects.get(at));
            candidates.extend(of_machine(shown, wanted, searches.get(at), &args));
        }
        let behind = paging::behind(candidates, cursor.as_ref());
        let page = self.page(&behind, args.state, limit).await;
        Ok(ThreadsAnswer {
            threads: page.threads,
            next_cursor: behind.after(page.looked_at, &question).map(|cursor| cursor.write()),
            newer: Some(behind.newer).filter(|newer| *newer > 0),
            unread: Some(page.unread).filter(|unread| *unread > 0),
            searched: shown.iter().zip(&searches).map(found_by).collect(),
            unreachable: shown.iter().filter_map(unreachable).collect(),
        })
    }

    /// Looks at one candidate after the other until the page is full, or enough was read for one answer.
    async fn page(&self, behind: &Behind<Candidate<'_>>, filter: Option<ThreadFilter>, limit: usize) -> Page {
        let deadline = Instant::now() + READS_WITHIN;
        let mut page = Page::default();
        let mut reads = 0;
        let sights = behind.threads.iter().map(|(_, candidate)| candidate.sight());
        let looks = stream::iter(sights.collect::<Vec<_>>()).map(|sight| self.look(sight, deadline));
        let mut looks = std::pin::pin!(looks.buffered(AT_ONCE));
        for (_, candidate) in &behind.threads {
            // Each look is bounded by itself; what follows the deadline is not read any more.
            let Some(looked) = looks.next().await else { break };
            if !looked.known && filter_needs_state(filter) && Instant::now() >= deadline && page.looked_at > 0 {
                break;
            }
            reads += usize::from(looked.asked);
            match verdict(filter, &looked) {
                Some(true) => {
                    let listed = listed(candidate, &looked.sighting);
                    let takes = budget::size_in_list(&listed);
                    if takes > page.room && !page.threads.is_empty() {
                        break;
                    }
                    page.room = page.room.saturating_sub(takes);
                    page.threads.push(listed);
                }
                Some(false) => {}
                None => page.unread += 1,
            }
            page.looked_at += 1;
            if page.threads.len() == limit || reads >= MOST_READS {
                break;
            }
        }
        page
    }

    async fn look(&self, sight: Sight, deadline: Instant) -> Looked {
        let Sight { member, row, away } = sight;
        if let Some(sighting) = self.sighting(&member, &row) {
            return Looked {
                sighting,
                asked: false,
                known: true,
            };
        }
        let unread = |asked| Looked {
            sighting: Sighting::of_row(&row),
            asked,
            known: false,
        };
        if away || Instant::now() >= deadline {
            return unread(false);
        }
        let read = timeout(READ_WITHIN, self.look_at(&member, &row));
        match timeout_at(deadline, read).await {
            Ok(Ok((sighting, known))) => Looked {
                sighting,
                asked: true,
                known,
            },
            Ok(Err(_)) | Err(_) => unread(true),
        }
    }
}

/// A page as it grows.
struct Page {
    threads: Vec<ListedThread>,
    /// How many candidates it settled.
    looked_at: usize,
    unread: usize,
    room: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            threads: Vec::new(),
            looked_at: 0,
            unread: 0,
            room: ANSWER_CHARS.saturating_sub(ENVELOPE_CHARS),
        }
    }
}

/// Whether the thread belongs into the list; none where nobody knows.
fn verdict(filter: Option<ThreadFilter>, looked: &Looked) -> Option<bool> {
    let sighting = &looked.sighting;
    // Deleted since its row was seen.
    if sighting.state == Some(ThreadState::Gone) {
        return Some(false);
    }
    let is = |state: ThreadState| sighting.state.map(|seen| seen == state);
    // What the row shows of a thread that was not read can only be too little.
    let at_least = |so: bool| if so || looked.known { Some(so) } else { None };
    match filter {
        None | Some(ThreadFilter::Archived) => Some(true),
        Some(ThreadFilter::Busy) => at_least(sighting.busy),
        Some(ThreadFilter::Attention) => at_least(sighting.wants_attention()),
        Some(ThreadFilter::Idle) => is(ThreadState::Idle),
        Some(ThreadFilter::Queued) => is(ThreadState::Queued),
        Some(ThreadFilter::Starting) => is(ThreadState::Starting),
        Some(ThreadFilter::Running) => is(ThreadState::Running),
        Some(ThreadFilter::Finishing) => is(ThreadState::Finishing),
        Some(ThreadFilter::Approval) => is(ThreadState::Approval),
        Some(ThreadFilter::Question) => is(ThreadState::Question),
        Some(ThreadFilter::Completed) => is(ThreadState::Completed),
        Some(ThreadFilter::Interrupted) => is(ThreadState::Interrupted),
        Some(ThreadFilter::Failed) => is(ThreadState::Failed),
        Some(ThreadFilter::Cancelled) => is(ThreadState::Cancelled),
        Some(ThreadFilter::RolledBack) => is(ThreadState::RolledBack),
    }
}

/// Whether a thread can be listed only once its state is known.
fn filter_needs_state(filter: Option<ThreadFilter>) -> bool {
    !matches!(filter, None | Some(ThreadFilter::Archived))
}

/// The threads of one machine that the arguments do not leave out, each with its place.
fn of_machine<'a>(
    shown: &'a Shown,
    wanted: Option<&Option<ProjectId>>,
    search: Option<&'a Search>,
    args: &ThreadsArgs,
) -> Vec<(Place, Candidate<'a>)> {
    let mut projects: HashMap<&ProjectId, &Project> = HashMap::new();
    for project in &shown.projects {
        if wanted.is_none_or(|wanted| wanted.as_ref() == Some(&project.id)) {
            projects.insert(&project.id, project);
        }
    }
    if projects.is_empty() {
        return Vec::new();
    }
    let archived = args.state == Some(ThreadFilter::Archived);
    let subagents = args.subagents.unwrap_or_default();
    let candidate = |row: Arc<ThreadRow>| {
        let project = projects.get(&row.project)?;
        if row.deleted || row.archived != archived || (row.subagent && !subagents) {
            return None;
        }
        let found = match search {
            Some(search) => Some(search.matches(&row)?),
            None => None,
        };
        let place = Place::new(row.updated_at, shown.member.name(), &row.id);
        Some((
            place,
            Candidate {
                shown,
                project,
                row,
                found,
            },
        ))
    };
    shown
        .member
        .machine
        .threads()
        .into_iter()
        .filter_map(candidate)
        .collect()
}

/// The project of that name on each machine that has one.
fn named_projects(
    shown: &[Shown],
    caller: &Caller,
    name: &str,
    machine: Option<&str>,
) -> Result<Vec<Option<ProjectId>>, ToolError> {
    let mut found = Vec::new();
    let (mut valid, mut missing) = (Vec::new(), None);
    for shown in shown {
        match shown.member.find_project(&caller.limits, name) {
            Ok(project) => found.push(Some(project.id.clone())),
            Err(FleetError::ProjectNotFound { valid: titles, .. }) => {
                found.push(None);
                valid.extend(titles);
            }
            Err(error @ FleetError::Unreachable { .. }) => {
                found.push(None);
                missing = missing.or(Some(error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if found.iter().any(Option::is_some) {
        return Ok(found);
    }
    if let Some(error) = missing {
        return Err(error.into());
    }
    valid.sort();
    valid.dedup();
    let place = machine.map_or_else(|| "any machine".to_owned(), str::to_owned);
    Err(ToolError::new(
        ErrorCode::ProjectNotFound,
        format!("There is no project `{}` on {place}.", text::quoted(name)),
    )
    .listing("Projects", &valid))
}

fn listed(candidate: &Candidate<'_>, sighting: &Sighting) -> ListedThread {
    let row = &candidate.row;
    let pending = sighting.pending.iter().rev().take(MOST_PENDING);
    ListedThread {
        thread_id: row.id.to_string(),
        machine: candidate.shown.member.name().to_owned(),
        project: text::cut(&candidate.project.title, TITLE_CHARS),
        title: text::cut(&row.title, TITLE_CHARS),
        state: sighting.state.map_or(UNKNOWN, ThreadState::as_str).to_owned(),
        held: sighting.held.then_some(true),
        model: text::cut(&row.model.to_string(), TITLE_CHARS),
        updated_at: row.updated_at.to_string(),
        last_message: row.last_message.as_ref().map(|message| LastMessageView {
            role: message.role.clone(),
            text: text::cut(&message.text, MESSAGE_CHARS),
            at: message.at.to_string(),
        }),
        pending: pending
            .map(|asked| AskedRow {
                kind: if asked.question { "question" } else { "approval" }.to_owned(),
                request_id: asked.id.clone(),
                answerable: asked.answerable,
            })
            .collect(),
        archived: row.archived.then_some(true),
        subagent: row.subagent.then_some(true),
        found: candidate.found.as_ref().map(|found| MatchView {
            source: found.source.clone().map(|source| text::cut(&source, TITLE_CHARS)),
            snippet: found
                .snippet
                .as_deref()
                .map(|snippet| text::cut(snippet, MESSAGE_CHARS)),
        }),
    }
}

fn found_by((shown, search): (&Shown, &Search)) -> FoundBy {
    let is_visible = |id: &ThreadId| {
        let row = shown.member.machine.thread(id);
        row.is_some_and(|row| shown.projects.iter().any(|project| project.id == row.project))
    };
    FoundBy {
        machine: shown.member.name().to_owned(),
        by: if search.by_t3() { "t3" } else { "gateway" }.to_owned(),
        // Where some are hidden, their number would tell of them.
        more: search.may_have_more(is_visible).then_some(true),
    }
}

/// What a cursor belongs to: everything but how much of it is told at once.
fn question(args: &ThreadsArgs) -> String {
    let state = args.state.map(|state| format!("{state:?}"));
    paging::question(&[
        args.machine.as_deref(),
        args.project.as_deref(),
        state.as_deref(),
        args.query.as_deref(),
        args.subagents.unwrap_or_default().then_some("subagents"),
    ])
}

fn bad_cursor(bad: BadCursor) -> ToolError {
    let message = match bad {
        BadCursor::Unreadable => "cursor is none that t3_threads gave.",
        BadCursor::OtherQuestion => "cursor belongs to a call with other arguments.",
    };
    ToolError::new(ErrorCode::InvalidRequest, message)
        .hint("Pass next_cursor as it was given, with the same other arguments; or leave cursor out to begin anew.")
}
