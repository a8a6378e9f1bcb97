//! The keepers of all machines: what the ledger has is loaded, each machine gets its keeper, and each wish goes to its machine's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::WatchSettings;
use super::keeper::{COMMIT_AGAIN, COMMIT_AGAIN_AT_MOST, Keeper, commit};
use super::roster::Roster;
use crate::fleet::{Fleet, Limits, Member};
use crate::gateway::tracking::Wish;
use crate::machine::RuntimeMode;
use crate::store::{Store, StoreError, Tracked};

/// How many wishes may wait at one machine.
const WAITING: usize = 1_024;

/// Loads what is tracked, starts a keeper a machine, and hands each wish to its machine's.
pub(super) async fn start(
    fleet: Arc<Fleet>,
    store: Store,
    settings: WatchSettings,
    wishes: mpsc::Receiver<Wish>,
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

/// The keepers of all machines.
struct Keepers {
    to: BTreeMap<String, mpsc::Sender<Wish>>,
    /// By machine, the end of whoever was its last: closed once all of it is kept.
    ends: BTreeMap<String, oneshot::Receiver<()>>,
    running: JoinSet<()>,
    store: Store,
    settings: WatchSettings,
    stop: CancellationToken,
}

impl Keepers {
    fn begin(&mut self, member: &Arc<Member>, roster: Option<Roster>) {
        let (to, wishes) = mpsc::channel(WAITING);
        self.to.insert(member.name().to_owned(), to);
        let roster = roster.unwrap_or_else(|| roster_of(member.name(), Some(member), self.settings));
        let keeper = Keeper::new(Arc::clone(member), self.store.clone(), roster, self.settings.final_word);
        let span = tracing::info_span!("watch", machine = %member.name());
        let work = keeper.run(wishes, self.stop.clone()).instrument(span);
        self.spawn(member.name().to_owned(), work);
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
    async fn admit(&mut self, member: &Arc<Member>) {
        let stop = self.stop.clone();
        let loading = async {
            // Whoever had it before keeps its last word first.
            if let Some(end) = self.ends.remove(member.name()) {
                let _ = end.await;
            }
            let mut again = COMMIT_AGAIN;
            loop {
                let only = Some(member.name());
                match load(std::slice::from_ref(member), only, &self.store, self.settings).await {
                    Ok(mut rosters) => return rosters.remove(member.name()),
                    Err(StoreError::Closed) => return None,
                    Err(error) => {
                        tracing::error!(machine = %member.name(), %error, "what the ledger has of the machine cannot be read; it is tried again");
                    }
                }
                tokio::time::sleep(again).await;
                again = (again * 2).min(COMMIT_AGAIN_AT_MOST);
            }
        };
        let roster = tokio::select! {
            () = stop.cancelled() => return,
            roster = loading => roster,
        };
        self.begin(member, roster);
    }

    async fn hand_out(&mut self, mut wishes: mpsc::Receiver<Wish>) {
        loop {
            let wish = tokio::select! {
                () = self.stop.cancelled() => return,
                wish = wishes.recv() => wish,
            };
            let Some(wish) = wish else { return };
            let machine = match &wish {
                Wish::TakeUp(receipt) => receipt.machine.clone(),
                Wish::Settle { machine, .. } | Wish::Switch { machine, .. } => machine.clone(),
                Wish::Sight(sight) => sight.machine.clone(),
                Wish::Admit(member) if !self.to.contains_key(member.name()) => {
                    self.admit(member).await;
                    continue;
                }
                Wish::Admit(member) => member.name().to_owned(),
                Wish::Dismiss { machine } => {
                    // Without a way to it, the keeper ends after this.
                    if let Some(keeper) = self.to.remove(machine) {
                        let _ = keeper.send(wish).await;
                    }
                    continue;
                }
                Wish::Rest { done } => {
                    for keeper in self.to.values() {
                        let _ = keeper.send(Wish::Rest { done: done.clone() }).await;
                    }
                    continue;
                }
                Wish::List { .. } => {
                    self.list(wish).await;
                    continue;
                }
            };
            if let Some(keeper) = self.to.get(&machine) {
                // A keeper ends only with the program, or with its machine.
                let _ = keeper.send(wish).await;
            }
        }
    }

    /// Asks all of them. Other wishes do not wait for the answers: one keeper that is stuck holds up who asked for all, and nobody else.
    async fn list(&self, wish: Wish) {
        let Wish::List { to } = wish else { return };
        let mut answers = Vec::new();
        for keeper in self.to.values() {
            let (to, answer) = oneshot::channel();
            if keeper.send(Wish::List { to }).await.is_ok() {
                answers.push(answer);
            }
        }
        tokio::spawn(async move {
            let all = join_all(answers).await.into_iter().flatten().flatten();
            // Who asked may be gone.
            let _ = to.send(all.collect());
        });
    }
}
