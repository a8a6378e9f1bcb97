//! Which sessions there are, whose they are, and what each is doing: the deciding part of `sessions`.
//!
//! It does no I/O and reads no clock: time is a parameter. It must never let one client see another's session, nor call a session idle while
//! a call or a stream of it is open. The manager in `sessions` and the HTTP layer ask it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionState;
use tokio::sync::Mutex;
use uuid::Uuid;

/// How many sessions are remembered, the sleeping ones included (some 300 bytes each).
pub(super) const MAX_KNOWN: usize = 10_000;

/// How many sessions are awake (some 50 KiB each); beyond it the longest idle one goes to sleep early.
pub(super) const MAX_AWAKE: usize = 1_000;

/// One session.
#[derive(Debug)]
struct Entry {
    owner: String,
    opened: Instant,
    seen: Instant,
    /// When its use was last written down.
    noted: Instant,
    /// It is on disk.
    kept: bool,
    /// Whose turn it is to wake it.
    waking: Arc<Mutex<()>>,
    /// Requests whose result is not there yet.
    open: HashSet<RequestId>,
    /// Streams that a client holds open besides.
    streams: usize,
    awake: Awake,
    /// What the client said when it opened the session; enough to wake it.
    opened_with: Option<SessionState>,
}

impl Entry {
    fn new(owner: String, now: Instant) -> Self {
        Self {
            owner,
            opened: now,
            seen: now,
            noted: now,
            kept: false,
            waking: Arc::default(),
            open: HashSet::new(),
            streams: 0,
            awake: Awake::Yes,
            opened_with: None,
        }
    }

    /// A call or a stream of it is open.
    fn is_busy(&self) -> bool {
        !self.open.is_empty() || self.streams > 0
    }
}

/// What is to be written down of a session.
#[derive(Debug)]
pub(super) struct Unkept {
    pub(super) id: Uuid,
    pub(super) owner: String,
    pub(super) opened: Instant,
    pub(super) seen: Instant,
    pub(super) state: SessionState,
}

/// Whether a session has a worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Awake {
    /// It has one.
    Yes,
    /// It has one that is told again what the client opened the session with: another request before the end of that would end it.
    Waking,
    /// Its worker was told to end and has not ended yet.
    Closing,
    /// It has none, and wakes with its next request.
    No,
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Registry {
    sessions: HashMap<Uuid, Entry>,
}

/// The id, if it is written as we write ids: hyphenated, lower case. Anything else never named a session of ours.
pub(super) fn canonical(id: &str) -> Option<Uuid> {
    let parsed = Uuid::try_parse(id).ok()?;
    let mut buffer = Uuid::encode_buffer();
    (&*parsed.hyphenated().encode_lower(&mut buffer) == id).then_some(parsed)
}

impl Registry {
    /// How many sessions are known.
    pub(super) fn known(&self) -> usize {
        self.sessions.len()
    }

    /// How many sessions have a worker.
    pub(super) fn awake(&self) -> usize {
        self.sessions.values().filter(|entry| entry.awake != Awake::No).count()
    }

    /// The session is known.
    pub(super) fn knows(&self, id: Uuid) -> bool {
        self.sessions.contains_key(&id)
    }

    /// Whose turn it is to wake the session.
    pub(super) fn waking(&self, id: Uuid) -> Arc<Mutex<()>> {
        let entry = self.sessions.get(&id);
        entry.map(|entry| Arc::clone(&entry.waking)).unwrap_or_default()
    }

    /// What is to be written down of one that is not on disk yet.
    pub(super) fn unkept(&self, id: Uuid) -> Option<Unkept> {
        let entry = self.sessions.get(&id).filter(|entry| !entry.kept)?;
        Some(Unkept {
            id,
            owner: entry.owner.clone(),
            opened: entry.opened,
            seen: entry.seen,
            state: entry.opened_with.clone()?,
        })
    }

    /// The sessions that are not on disk yet.
    pub(super) fn all_unkept(&self) -> Vec<Uuid> {
        let unkept = self
            .sessions
            .iter()
            .filter(|(_, entry)| !entry.kept && entry.opened_with.is_some());
        unkept.map(|(id, _)| *id).collect()
    }

    /// The sessions that are not to be forgotten, whatever the disk says of their use.
    pub(super) fn in_use(&self, now: Instant, within: Duration) -> Vec<Uuid> {
        let used = self
            .sessions
            .iter()
            .filter(|(_, entry)| entry.is_busy() || now.duration_since(entry.seen) < within);
        used.map(|(id, _)| *id).collect()
    }

    /// The session has a worker that takes requests.
    pub(super) fn is_awake(&self, id: Uuid) -> bool {
        self.sessions.get(&id).is_some_and(|entry| entry.awake == Awake::Yes)
    }

    /// The session's worker is about to end.
    pub(super) fn is_closing(&self, id: Uuid) -> bool {
        self.sessions
            .get(&id)
            .is_some_and(|entry| entry.awake == Awake::Closing)
    }

    /// What a sleeping session was opened with.
    pub(super) fn opened_with(&self, id: Uuid) -> Option<SessionState> {
        self.sessions.get(&id)?.opened_with.clone()
    }

    /// A request names the session: true if it is the client's own, which also counts as a sign of life.
    pub(super) fn handle_request(&mut self, id: Uuid, client: &str, now: Instant) -> bool {
        match self.sessions.get_mut(&id) {
            Some(entry) if entry.owner == client => {
                entry.seen = now;
                true
            }
            Some(_) | None => false,
        }
    }

    /// A client opened the session, or it begins to wake.
    pub(super) fn handle_opened(&mut self, id: Uuid, owner: String, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.awake = Awake::Waking;
            entry.seen = now;
            return;
        }
        self.insert(id, Entry::new(owner, now));
    }

    /// The session's worker was told everything that its client opened it with.
    pub(super) fn handle_initialized(&mut self, id: Uuid) {
        if let Some(entry) = self.sessions.get_mut(&id)
            && entry.awake == Awake::Waking
        {
            entry.awake = Awake::Yes;
        }
    }

    /// The disk has the session: it sleeps there. One that is known already is left as it is.
    pub(super) fn handle_found(&mut self, id: Uuid, owner: String, state: SessionState, now: Instant) {
        if self.knows(id) {
            return;
        }
        let entry = Entry {
            kept: true,
            awake: Awake::No,
            opened_with: Some(state),
            ..Entry::new(owner, now)
        };
        self.insert(id, entry);
    }

    /// The session is on disk.
    pub(super) fn handle_kept(&mut self, id: Uuid) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.kept = true;
        }
    }

    /// The disk is another one: nothing is known to be on it.
    pub(super) fn handle_other_disk(&mut self) {
        for entry in self.sessions.values_mut() {
            entry.kept = false;
        }
    }

    /// The session can be woken from this.
    pub(super) fn handle_stored(&mut self, id: Uuid, state: SessionState) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.opened_with = Some(state);
        }
    }

    /// The session's worker has ended: it sleeps. Without anything to wake it from, it is forgotten.
    pub(super) fn handle_ended(&mut self, id: Uuid) {
        let Some(entry) = self.sessions.get_mut(&id) else {
            return;
        };
        entry.awake = Awake::No;
        entry.open.clear();
        if entry.opened_with.is_none() {
            self.sessions.remove(&id);
        }
    }

    /// A request begins; false if one of the same id is still open.
    pub(super) fn handle_begun(&mut self, id: Uuid, request: &RequestId, now: Instant) -> bool {
        let Some(entry) = self.sessions.get_mut(&id) else {
            return true;
        };
        entry.seen = now;
        entry.open.insert(request.clone())
    }

    /// A request's result is there, or it was cancelled.
    pub(super) fn handle_done(&mut self, id: Uuid, request: &RequestId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.open.remove(request);
            entry.seen = now;
        }
    }

    /// A client opened a stream besides its requests.
    pub(super) fn handle_stream(&mut self, id: Uuid) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.streams += 1;
        }
    }

    /// Such a stream ended.
    pub(super) fn handle_stream_end(&mut self, id: Uuid, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.streams = entry.streams.saturating_sub(1);
            entry.seen = now;
        }
    }

    /// The client ended the session.
    pub(super) fn forget(&mut self, id: Uuid) {
        self.sessions.remove(&id);
    }

    /// Marks the sessions whose workers shall end now: those idle for `idle`, and the longest idle ones beyond [`MAX_AWAKE`].
    pub(super) fn poll_idle(&mut self, now: Instant, idle: Duration) -> Vec<Uuid> {
        let mut quiet: Vec<(Instant, Uuid)> = self
            .sessions
            .iter()
            .filter(|(_, entry)| entry.awake == Awake::Yes && !entry.is_busy())
            .map(|(id, entry)| (entry.seen, *id))
            .collect();
        quiet.sort_unstable();
        let beyond = self.awake().saturating_sub(MAX_AWAKE);
        let due: Vec<Uuid> = quiet
            .into_iter()
            .enumerate()
            .filter(|(position, (seen, _))| *position < beyond || now.duration_since(*seen) >= idle)
            .map(|(_, (_, id))| id)
            .collect();
        for id in &due {
            if let Some(entry) = self.sessions.get_mut(id) {
                entry.awake = Awake::Closing;
            }
        }
        due
    }

    /// The sessions on disk whose use is to be written down, each with when it was used last: those that were used since that was done, at
    /// most once in `every`.
    pub(super) fn poll_used(&mut self, now: Instant, every: Duration) -> Vec<(Uuid, Instant)> {
        let mut used = Vec::new();
        for (id, entry) in &mut self.sessions {
            let last = if entry.is_busy() { now } else { entry.seen };
            if entry.kept && last > entry.noted && now.duration_since(entry.noted) >= every {
                entry.noted = now;
                used.push((*id, last));
            }
        }
        used
    }

    /// Forgets the sleeping sessions that nobody used for so long.
    pub(super) fn forget_unused(&mut self, now: Instant, after: Duration) {
        self.sessions
            .retain(|_, entry| entry.awake != Awake::No || now.duration_since(entry.seen) < after);
    }

    fn insert(&mut self, id: Uuid, entry: Entry) {
        if self.sessions.len() >= MAX_KNOWN {
            self.forget_oldest();
        }
        self.sessions.insert(id, entry);
    }

    /// Makes room: the sleeping session that was seen longest ago goes.
    fn forget_oldest(&mut self) {
        let oldest = self
            .sessions
            .iter()
            .filter(|(_, entry)| entry.awake == Awake::No)
            .min_by_key(|(_, entry)| entry.seen)
            .map(|(id, _)| *id);
        if let Some(id) = oldest {
            self.sessions.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_mins(10);

    fn opened(now: Instant) -> (Registry, Uuid) {
        let mut registry = Registry::default();
        let id = Uuid::from_u128(7);
        registry.handle_opened(id, "alice".into(), now);
        (registry, id)
    }

    #[test]
    fn only_the_canonical_spelling_names_a_session() {
        let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        assert!(canonical(id).is_some());
        for other in [
            "67E55044-10B1-426F-9247-BB680E5FE0C8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
            "../../../etc/passwd",
            "",
        ] {
            assert!(canonical(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_session_is_its_owners_alone() {
        let now = Instant::now();
        let (mut registry, id) = opened(now);
        assert!(registry.handle_request(id, "alice", now));
        assert!(!registry.handle_request(id, "bob", now));
    }

    #[test]
    fn a_session_with_an_open_call_or_stream_never_goes_to_sleep() {
        let now = Instant::now();
        let later = now + IDLE * 10;
        let (mut registry, id) = opened(now);
        let request = RequestId::Number(1);
        assert!(registry.handle_begun(id, &request, now));
        assert!(registry.poll_idle(later, IDLE).is_empty());
        registry.handle_done(id, &request, now);
        registry.handle_stream(id);
        assert!(registry.poll_idle(later, IDLE).is_empty());
        registry.handle_stream_end(id, now);
        assert!(registry.poll_idle(now + IDLE / 2, IDLE).is_empty());
        assert_eq!(registry.poll_idle(later, IDLE), [id]);
    }

    fn state() -> SessionState {
        SessionState::new(rmcp::model::InitializeRequestParams::default())
    }

    #[test]
    fn a_session_that_the_disk_has_sleeps_and_stays_its_owners() {
        let now = Instant::now();
        let (mut registry, id) = opened(now);
        // Who opened it here knows better than the disk.
        registry.handle_found(id, "bob".into(), state(), now);
        assert!(registry.is_awake(id) && registry.handle_request(id, "alice", now));
        let other = Uuid::from_u128(8);
        registry.handle_found(other, "bob".into(), state(), now);
        assert!(!registry.is_awake(other) && !registry.handle_request(other, "alice", now));
        assert!(registry.opened_with(other).is_some() && registry.unkept(other).is_none());
    }

    #[test]
    fn a_session_that_wakes_takes_no_other_request_before_it_was_told_everything() {
        let now = Instant::now();
        let (mut registry, id) = opened(now);
        registry.handle_stored(id, state());
        registry.handle_ended(id);
        registry.handle_opened(id, "alice".into(), now);
        assert!(!registry.is_awake(id));
        assert_eq!(registry.awake(), 1, "it has a worker");
        registry.handle_initialized(id);
        assert!(registry.is_awake(id));
    }

    #[test]
    fn its_use_is_written_down_now_and_then_and_while_a_call_is_open() {
        let every = Duration::from_mins(5);
        let now = Instant::now();
        let (mut registry, id) = opened(now);
        registry.handle_stored(id, state());
        assert!(registry.handle_request(id, "alice", now + every));
        assert!(registry.poll_used(now + every, every).is_empty(), "it is not on disk");
        registry.handle_kept(id);
        assert_eq!(registry.poll_used(now + every, every), [(id, now + every)]);
        assert!(registry.handle_request(id, "alice", now + every * 3 / 2));
        assert!(
            registry.poll_used(now + every * 3 / 2, every).is_empty(),
            "not so soon again"
        );
        assert_eq!(registry.poll_used(now + every * 2, every), [(id, now + every * 3 / 2)]);
        assert!(registry.poll_used(now + every * 9, every).is_empty(), "nobody used it");
        assert!(registry.handle_begun(id, &RequestId::Number(1), now + every * 2));
        assert_eq!(registry.poll_used(now + every * 9, every), [(id, now + every * 9)]);
        assert_eq!(registry.in_use(now + every * 99, every), [id]);
    }

    #[test]
    fn only_sleeping_sessions_are_forgotten() {
        let now = Instant::now();
        let later = now + IDLE;
        let (mut registry, id) = opened(now);
        registry.handle_stored(id, state());
        registry.forget_unused(later, IDLE);
        assert!(registry.knows(id));
        assert_eq!(registry.poll_idle(later, IDLE), [id]);
        registry.handle_ended(id);
        registry.forget_unused(later, IDLE * 2);
        assert!(registry.knows(id));
        registry.forget_unused(later, IDLE / 2);
        assert!(!registry.knows(id));
    }

    #[test]
    fn a_request_id_is_free_again_once_its_result_is_there() {
        let now = Instant::now();
        let (mut registry, id) = opened(now);
        let request = RequestId::Number(1);
        assert!(registry.handle_begun(id, &request, now));
        assert!(!registry.handle_begun(id, &request, now));
        registry.handle_done(id, &request, now);
        assert!(registry.handle_begun(id, &request, now));
    }

    #[test]
    fn beyond_the_limit_the_longest_idle_session_sleeps_first() {
        let now = Instant::now();
        let mut registry = Registry::default();
        let mut opened = now;
        for n in 0..=MAX_AWAKE {
            registry.handle_opened(Uuid::from_u64_pair(0, n as u64), "alice".into(), opened);
            opened += Duration::from_millis(1);
        }
        assert_eq!(
            registry.poll_idle(now + Duration::from_secs(2), IDLE),
            [Uuid::from_u128(0)]
        );
    }
}
