//! What pairing leaves in the state directory, taken over while the process runs: a machine's new credential, a new machine, one that is gone.
//!
//! The files are looked at twice a second, whoever wrote them: a command, an agent, or the process before this one. A look costs a few system
//! calls, and a process that has died between two steps cannot leave the other one with half of the news.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::credentials::{Credentials, Kept};
use crate::config::state::StateError;
use crate::config::{Config, MachineConfig, TokenSource};
use crate::fleet::{Admitted, Fleet, Member, Origin};
use crate::gateway::tracking::{Tracking, Wish};
use crate::store::Store;
use crate::watch;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Who takes over what was paired.
pub(super) struct Follower {
    machines: Vec<MachineConfig>,
    unnamed: crate::config::Unnamed,
    credentials: Credentials,
    fleet: Arc<Fleet>,
    tracking: Tracking,
    /// Where the ends of credentials are told, and whether that goes to the hook; none: nowhere but in the log.
    told: Option<Store>,
    /// What was missed in the last look: only what is missed twice is gone.
    missed: BTreeSet<String>,
    /// What was said to be unusable, and why: it is said once. The folder itself has no name.
    said: BTreeMap<String, String>,
    stop: CancellationToken,
}

impl Follower {
    /// For the machines of this config.
    pub(super) fn new(
        config: &Config,
        credentials: Credentials,
        fleet: &Arc<Fleet>,
        (store, tracking): (Store, Tracking),
        stop: CancellationToken,
    ) -> Self {
        let described = config.machines.iter().filter(|machine| !machine.in_state);
        Self {
            machines: described.cloned().collect(),
            unnamed: config.unnamed.clone(),
            credentials,
            fleet: Arc::clone(fleet),
            tracking,
            told: config
                .hook
                .as_ref()
                .is_some_and(|hook| hook.credentials)
                .then_some(store),
            missed: BTreeSet::new(),
            said: BTreeMap::new(),
            stop,
        }
    }

    /// Looks until it is told to stop. The config may be older than what lies there now, so the first look takes everything over.
    pub(super) async fn follow(mut self) {
        for member in &*self.fleet.members() {
            self.tell(member);
        }
        let mut seen = None;
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = look.tick() => {}
            }
            let looked = self.credentials.stamp().and_then(|stamp| {
                if seen.as_ref() == Some(&stamp) {
                    return Ok(None);
                }
                Ok(Some((stamp, self.credentials.all()?)))
            });
            match looked {
                Ok(None) => {}
                Ok(Some((stamp, found))) => {
                    // What was written meanwhile shows in the next look; what is not settled yet is looked at again whatever it shows.
                    seen = self.take_over(&found).await.then_some(stamp);
                }
                Err(error) => {
                    seen = None;
                    if self.is_news("", &error) {
                        tracing::warn!(
                            "what was paired cannot be read, and what was known of it before still holds: {error}"
                        );
                    }
                }
            }
        }
    }

    /// Takes over what was found. True if that settles it: everything could be used, and nothing is missed for the first time.
    async fn take_over(&mut self, found: &BTreeMap<String, Result<Kept, StateError>>) -> bool {
        self.said.retain(|name, _| matches!(found.get(name), Some(Err(_))));
        for (name, kept) in found {
            if let Err(error) = kept
                && self.is_news(name, error)
            {
                tracing::warn!(machine = %name, "its credential cannot be used, and what was used before still is: {error}");
            }
        }
        let missed_before = std::mem::take(&mut self.missed);
        let mut missed = BTreeSet::new();
        // A file that is away for one look may only be on its way back.
        let mut is_gone = |name: &str| {
            missed.insert(name.to_owned());
            missed_before.contains(name)
        };
        for machine in &self.machines {
            if let TokenSource::Pairing(_) = machine.token {
                match found.get(&machine.name) {
                    Some(Ok(kept)) => self.admit(&with(machine, Some(kept))).await,
                    None if is_gone(&machine.name) => self.admit(&with(machine, None)).await,
                    Some(Err(_)) | None => {}
                }
            }
        }
        let described = |name: &str| self.machines.iter().any(|machine| machine.name == name);
        for (_, kept) in found.iter().filter(|(name, _)| !described(name)) {
            if let Ok(kept) = kept
                && let Some(machine) = self.unnamed.machine(kept.clone())
            {
                self.admit(&machine).await;
            }
        }
        for member in &*self.fleet.members() {
            let made = matches!(member.rules.token, Origin::Pairing { in_state: true, .. });
            let name = member.name();
            if made && !found.contains_key(name) && is_gone(name) && self.fleet.dismiss(name) {
                tracing::info!(machine = %member.name(), "the machine was unpaired, and is gone");
                let machine = member.name().to_owned();
                self.tracking.wish(Wish::Dismiss { machine }).await;
            }
        }
        let settled = missed.is_subset(&missed_before) && found.values().all(Result::is_ok);
        self.missed = missed;
        settled
    }

    /// Whether that was not said yet.
    fn is_news(&mut self, name: &str, error: &StateError) -> bool {
        let error = error.to_string();
        self.said.insert(name.to_owned(), error.clone()) != Some(error)
    }

    async fn admit(&self, machine: &MachineConfig) {
        match self.fleet.admit(machine) {
            Ok(Admitted::Before) => {}
            Ok(Admitted::Anew(member)) => {
                tracing::info!(machine = %machine.name, projects = ?machine.projects, "the machine was paired anew, and has other rules now");
                self.tracking.wish(Wish::Admit(member)).await;
            }
            Ok(Admitted::Now(member)) => {
                tracing::info!(machine = %machine.name, projects = ?machine.projects, "the machine was paired, and is there now");
                self.tell(&member);
                self.tracking.wish(Wish::Admit(member)).await;
            }
            Err(error) => tracing::error!(machine = %machine.name, %error, "the paired machine cannot be used"),
        }
    }

    /// Once a machine: whatever its rules become, its connection is the same, and says of its credential what there is to say.
    fn tell(&self, member: &Arc<Member>) {
        if let Some(store) = &self.told {
            tokio::spawn(watch::tell_credential(
                Arc::clone(member),
                store.clone(),
                self.stop.clone(),
            ));
        }
    }
}

/// A machine of the config with what was paired for it.
fn with(machine: &MachineConfig, kept: Option<&Kept>) -> MachineConfig {
    MachineConfig {
        token: TokenSource::Pairing(kept.cloned().map(Box::new)),
        ..machine.clone()
    }
}
