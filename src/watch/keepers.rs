//! The keepers of all machines: what the ledger has is loaded, each machine gets its keeper, and each wish goes to its machine's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::WatchSettings;
use super::keeper::{COMMIT_AGAIN, COMMIT_AGAIN_AT_MOST, Keeper, commit};
use super::roster::Roster;
use crate::fleet::{Fleet, Limits, Member};
use crate::gateway::tracking::{Said, Wish};
use crate::machine::RuntimeMode;
use crate::store::{Store, StoreError, Tracked};

/// How many of those who ask all keepers may wait for the answer of one.
const ASKING: usize = 64;

/// Loads what is tracked, starts a keeper a machine, and hands each wish to its machine's.
pub(super) async fn start(
    fleet: Arc<Fleet>,
    store: Store,
    settings: WatchSettings,
    wishes: mpsc::Receiver<Said>,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, StoreError> {
    let mut rosters = load(&fleet.members(), None, &store, settings).await?;
    let mut keepers = Keepers {
        to: BTreeMap::new(),
        ends: BTreeMap::new(),
        running: JoinSet::new(),
        store: store.clone(),
        settings,
        stop: stop.clone(),
    };
    for member in &*fleet.members() {
        let roster = rosters.remove(member.name());
        keepers.begin(member, roster);
    }
    // What is left is of machines that the configuration has no more.
    for (machine, roster) in rosters {
        if settings.final_word && !fleet.may_return(&machine) {
            let work = part(machine.clone(), roster, store.clone(), stop.clone());
            keepers.spawn(machine, work);
        } else {
            tracing::warn!(
                %machine,
                threads = roster.ids().len(),
                "the ledger has threads of a machine that this process is not told of: they wait for one that is"
            );
        }
    }
    Ok(tokio::spawn(async move {
        keepers.hand_out(wishes).await;
        keepers.to.clear();
        while keepers.running.join_next().await.is_some() {}
    }))
}

fn roster_of(machine: &str, member: Option<&Arc<Member>>, settings: WatchSettings) -> Roster {
    let ceiling = member.map_or(RuntimeMode::FullAccess, |member| member.ceiling(&Limits::default()));
    let clients = member.map(|member| Arc::clone(&member.rules.client_ceilings));
    Roster::new(machine, ceiling, settings, Timestamp::now()).with_client_ceilings(clients.unwrap_or_default())
}

/// The rosters of all machines of which the ledger has something, or of that one `only`.
async fn load(
    members: &[Arc<Member>],
    only: Option<&str>,
    store: &Store,
    settings: WatchSettings,
) -> Result<HashMap<String, Roster>, StoreError> {
    let now = Timestamp::now();
    let mut rosters: HashMap<String, Roster> = HashMap::new();
    let member = |name: &str| members.iter().find(|member| member.name() == name);
    let meant = |name: &str| only.is_none_or(|only| only == name);
    let load = |tracked: Tracked| {
        if !meant(&tracked.machine) {
            return;
        }
        if let Some(roster) = rosters.get_mut(&tracked.machine) {
            roster.load(tracked, now);
            return;
        }
        let name = tracked.machine.clone();
        let mut roster = roster_of(&name, member(&name), settings);
        roster.load(tracked, now);
        rosters.insert(name, roster);
    };
    store.for_each_tracked(load).await?;
    for taken in store.waiting_to_be_read().await? {
        let name = taken.machine.clone();
        // Of a machine that is not configured now: it waits until it is again.
        if let Some(machine) = member(&name) {
            let fresh = || roster_of(&name, Some(machine), settings);
            rosters.entry(name.clone()).or_insert_with(fresh).take_over(taken, now);
        }
    }
    for receipt in store.open_receipts().await? {
        let name = receipt.intent.machine.clone();
        if !meant(&name) {
            continue;
        }
        let fresh = || roster_of(&name, member(&name), settings);
        rosters
            .entry(name.clone())
            .or_insert_with(fresh)
            .take_up(&receipt.intent, true, now);
    }
    Ok(rosters)
}

/// Tells what can no longer be seen of a machine that is not configured any more.
async fn part(machine: String, mut roster: Roster, store: Store, stop: CancellationToken) {
    let now = Timestamp::now();
    let ids = roster.ids();
    tracing::info!(%machine, threads = ids.len(), "the machine is not configured any more: its threads are followed no more");
    for id in &ids {
        roster.handle_not_visible(id, now);
    }
    commit(&mut roster, &store, &stop).await;
}

/// The way to one keeper. What waits there is bounded by the room that each wish has taken before it came here: so nobody who hands out wishes
/// waits for a keeper.
#[derive(Clone)]
struct Line {
    to: mpsc::UnboundedSender<Said>,
    asking: Arc<Semaphore>,
}

impl Line {
    fn new() -> (Self, mpsc::UnboundedReceiver<Said>) {
        let (to, wishes) = mpsc::unbounded_channel();
        let asking = Arc::new(Semaphore::new(ASKING));
        (Self { to, asking }, wishes)
    }

    fn say(&self, said: Said) {
        // A keeper ends only with the program, or with its machine.
        let _ = self.to.send(said);
    }

    /// Says a wish that goes to all keepers, once there is room for it; it keeps no keeper from ending.
    fn ask(&self, wish: Wish) -> impl Future<Output = ()> + Send + use<> {
        let (to, asking) = (self.to.downgrade(), Arc::clone(&self.asking));
        async move {
            let room = asking.acquire_owned().await.ok();
            if let Some(to) = to.upgrade() {
                let _ = to.send(Said { wish, room });
            }
        }
    }
}

/// The keepers of all machines.
struct Keepers {
    to: BTreeMap<String, Line>,
    /// By machine, the end of whoever was its last: closed once all of it is kept.
    ends: BTreeMap<String, oneshot::Receiver<()>>,
    running: JoinSet<()>,
    store: Store,
    settings: WatchSettings,
    stop: CancellationToken,
}

impl Keepers {
    fn begin(&mut self, member: &Arc<Member>, roster: Option<Roster>) {
        self.begin_with(member, std::future::ready(Some(roster)));
    }

    /// Begins with what is loaded; wishes wait for that. Nothing begins where there is nothing more to come.
    fn begin_with(
        &mut self,
        member: &Arc<Member>,
        loading: impl Future<Output = Option<Option<Roster>>> + Send + 'static,
    ) {
        let (line, wishes) = Line::new();
        self.to.insert(member.name().to_owned(), line);
        let (settings, store, stop) = (self.settings, self.store.clone(), self.stop.clone());
        let span = tracing::info_span!("watch", machine = %member.name());
        let machine = Arc::clone(member);
        let work = async move {
            let Some(roster) = loading.await else { return };
            let roster = roster.unwrap_or_else(|| roster_of(machine.name(), Some(&machine), settings));
            let keeper = Keeper::new(machine, store, roster, settings.final_word);
            keeper.run(wishes, stop).await;
        };
        self.spawn(member.name().to_owned(), work.instrument(span));
    }

    fn spawn(&mut self, machine: String, work: impl Future<Output = ()> + Send + 'static) {
        let (ended, end) = oneshot::channel::<()>();
        self.ends.insert(machine, end);
        self.running.spawn(async move {
            work.await;
            drop(ended);
        });
    }

    /// Begins with a machine that was not there, and with what the ledger has of it: it may have been there before.
    fn admit(&mut self, member: &Arc<Member>) {
        let before = self.ends.remove(member.name());
        let (machine, store, settings) = (Arc::clone(member), self.store.clone(), self.settings);
        let loading = async move {
            // Whoever had it before keeps its last word first.
            if let Some(end) = before {
                let _ = end.await;
            }
            let mut again = COMMIT_AGAIN;
            loop {
                let only = Some(machine.name());
                match load(std::slice::from_ref(&machine), only, &store, settings).await {
                    Ok(mut rosters) => return rosters.remove(machine.name()),
                    Err(StoreError::Closed) => return None,
                    Err(error) => {
                        tracing::error!(machine = %machine.name(), %error, "what the ledger has of the machine cannot be read; it is tried again");
                    }
                }
                tokio::time::sleep(again).await;
                again = (again * 2).min(COMMIT_AGAIN_AT_MOST);
            }
        };
        let stop = self.stop.clone();
        self.begin_with(member, async move {
            tokio::select! {
                () = stop.cancelled() => None,
                roster = loading => Some(roster),
            }
        });
    }

    async fn hand_out(&mut self, mut wishes: mpsc::Receiver<Said>) {
        loop {
            let said = tokio::select! {
                () = self.stop.cancelled() => return,
                said = wishes.recv() => said,
            };
            let Some(said) = said else { return };
            self.hand_on(said);
        }
    }

    /// Gives a wish to whom it is for. One keeper that is stuck holds up who wants something of it, and nobody else.
    fn hand_on(&mut self, said: Said) {
        let machine = match &said.wish {
            Wish::TakeUp(receipt) => &receipt.machine,
            Wish::Settle { machine, .. } | Wish::Switch { machine, .. } => machine,
            Wish::Sight(sight) => &sight.machine,
            Wish::Admit(member) if !self.to.contains_key(member.name()) => {
                let member = Arc::clone(member);
                return self.admit(&member);
            }
            Wish::Admit(member) => member.name(),
            Wish::Dismiss { machine } => {
                // Without a way to it, the keeper ends after this.
                if let Some(keeper) = self.to.remove(machine) {
                    keeper.say(said);
                }
                return;
            }
            Wish::Rest { .. } | Wish::List { .. } => return self.ask_all(said.wish),
        };
        if let Some(keeper) = self.to.get(machine) {
            keeper.say(said);
        }
    }

    /// Asks all of them, for as long as somebody wants to know.
    fn ask_all(&self, wish: Wish) {
        match wish {
            Wish::Rest { done } => {
                let asked = self
                    .to
                    .values()
                    .map(|keeper| keeper.ask(Wish::Rest { done: done.clone() }));
                let asked = join_all(asked.collect::<Vec<_>>());
                tokio::spawn(async move {
                    tokio::select! {
                        () = done.closed() => {}
                        _ = asked => {}
                    }
                });
            }
            Wish::List { mut to } => {
                let answers = self.to.values().map(|keeper| {
                    let (to, answer) = oneshot::channel();
                    let asked = keeper.ask(Wish::List { to });
                    async move {
                        asked.await;
                        answer.await
                    }
                });
                let answers = join_all(answers.collect::<Vec<_>>());
                tokio::spawn(async move {
                    let all = tokio::select! {
                        () = to.closed() => return,
                        answers = answers => answers,
                    };
                    // Who asked may be gone.
                    let _ = to.send(all.into_iter().flatten().flatten().collect());
                });
            }
            Wish::TakeUp(_)
            | Wish::Settle { .. }
            | Wish::Switch { .. }
            | Wish::Sight(_)
            | Wish::Admit(_)
            | Wish::Dismiss { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
