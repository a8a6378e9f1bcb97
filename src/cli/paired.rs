//! What pairing leaves in the state directory, taken over while the process runs: a machine's new credential, a new machine, one that is gone.
//!
//! The files are looked at twice a second, whoever wrote them: a command, an agent, or the process before this one. A look costs a few system
//! calls, and a process that has died between two steps cannot leave the other one with half of the news.

use std::collections::BTreeMap;
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
            stop,
        }
    }

    /// Looks until it is told to stop. The config may be older than what lies there now, so the first look takes everything over.
    pub(super) async fn follow(self) {
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
            let stamp = self.credentials.stamp();
            if seen.as_ref() == Some(&stamp) {
                continue;
            }
            self.take_over(&self.credentials.all()).await;
            // What was written meanwhile shows in the next look.
            seen = Some(stamp);
        }
    }

    async fn take_over(&self, found: &BTreeMap<String, Result<Kept, StateError>>) {
        for machine in &self.machines {
            if let TokenSource::Pairing(_) = machine.token {
                match found.get(&machine.name) {
                    Some(Err(error)) => unusable(&machine.name, error),
                    Some(Ok(kept)) => self.admit(&with(machine, Some(kept))).await,
                    None => self.admit(&with(machine, None)).await,
                }
            }
        }
        let described = |name: &str| self.machines.iter().any(|machine| machine.name == name);
        for (name, kept) in found.iter().filter(|(name, _)| !described(name)) {
            match kept {
                Err(error) => unusable(name, error),
                Ok(kept) => {
                    if let Some(machine) = self.unnamed.machine(kept.clone()) {
                        self.admit(&machine).await;
                    }
                }
            }
        }
        for member in &*self.fleet.members() {
            let made = matches!(member.rules.token, Origin::Pairing { in_state: true, .. });
            if made && !found.contains_key(member.name()) && self.fleet.dismiss(member.name()) {
                tracing::info!(machine = %member.name(), "the machine was unpaired, and is gone");
                let machine = member.name().to_owned();
                self.tracking.wish(Wish::Dismiss { machine }).await;
            }
        }
    }

    async fn admit(&self, machine: &MachineConfig) {
        match self.fleet.admit(machine) {
            Ok(Admitted::Before) => {}
            Ok(Admitted::Now(member)) => {
                tracing::info!(machine = %machine.name, projects = ?machine.projects, "the machine was paired, and is there now");
                self.tell(&member);
                self.tracking.wish(Wish::Admit(member)).await;
            }
            Err(error) => tracing::error!(machine = %machine.name, %error, "the paired machine cannot be used"),
        }
    }

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

fn unusable(name: &str, error: &StateError) {
    tracing::warn!(machine = %name, "its credential cannot be used, and what was used before still is: {error}");
}

/// A machine of the config with what was paired for it.
fn with(machine: &MachineConfig, kept: Option<&Kept>) -> MachineConfig {
    MachineConfig {
        token: TokenSource::Pairing(kept.cloned().map(Box::new)),
        ..machine.clone()
    }
}
