//! What this process allows itself, which it sends beside each call: its config, and what was paired since it started.

use std::sync::{Arc, Mutex, PoisonError};

use super::passport::{Grant, Grants};
use crate::config::Config;
use crate::config::credentials::{Credentials, Stamp};

/// What this process allows itself.
#[derive(Debug)]
pub(super) struct Allowed {
    credentials: Credentials,
    known: Mutex<Known>,
}

/// What was known at the last look.
#[derive(Debug)]
struct Known {
    config: Config,
    /// What the look saw; none: something of it could not be used, and is looked at again.
    seen: Option<Stamp>,
    grants: Arc<Grants>,
}

impl Allowed {
    /// Of a process with this config.
    pub(super) fn new(config: &Config, credentials: Credentials) -> Self {
        Self {
            credentials,
            known: Mutex::new(Known {
                grants: Arc::new(grants(config)),
                config: config.clone(),
                seen: None,
            }),
        }
    }

    /// As it is now. The files are looked at with each call: that costs a few system calls, and what was paired is there at once.
    pub(super) fn now(&self) -> Arc<Grants> {
        // What a panic leaves is what was known before.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.look(&self.credentials);
        Arc::clone(&known.grants)
    }
}

impl Known {
    fn look(&mut self, credentials: &Credentials) {
        let stamp = credentials.stamp().ok();
        if stamp.is_some() && stamp == self.seen {
            return;
        }
        let kept = credentials.all();
        let settled = kept.as_ref().is_ok_and(|kept| kept.values().all(Result::is_ok));
        self.config = self.config.with_kept(&kept);
        self.grants = Arc::new(grants(&self.config));
        self.seen = stamp.filter(|_| settled);
    }
}

fn grants(config: &Config) -> Grants {
    let machines = config.machines.iter();
    machines
        .map(|machine| (machine.name.clone(), Grant::of(machine)))
        .collect()
}
