//! What is measured of the gateway, machine by machine: from memory and by the ledger's indexes, so that it can be read every few seconds. It asks
//! no machine anything.
//!
//! Words of T3 appear as their kind alone; what is theirs is never a name here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::fleet::{Limits, Member};
use crate::gateway::machines::days_left;
use crate::gateway::projects::is_busy;
use crate::gateway::{DeliveryHealth, ErrorCode, Gateway, ToolError};
use crate::protocol::ProjectId;
use crate::store::{Counts, DeliveryCounts};

/// How long whoever keeps an eye on the threads may take to tell of them.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// What is measured.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// The machines.
    pub machines: Vec<MachineReading>,
    /// What the ledger took in; none where this gateway keeps none.
    pub counts: Option<Counts>,
    /// The deliveries that are not done; none where they could not be counted.
    pub deliveries: Option<DeliveryCounts>,
}

/// What is measured of one machine.
#[derive(Clone, Debug, Default)]
pub struct MachineReading {
    /// Its name.
    pub name: String,
    /// Connected and current.
    pub online: bool,
    /// Why it is not online.
    pub problem: Option<ErrorCode>,
    /// How long ago the last bytes came from it, while a connection stands.
    pub silent_for: Option<Duration>,
    /// Connections that stood.
    pub connections: u64,
    /// Threads that may be used, without archived ones.
    pub threads: usize,
    /// Those of them that work, wait or ask, as far as a row shows it.
    pub busy: usize,
    /// Words of a newer T3, by kind, and how often they were met.
    pub unknown_words: BTreeMap<String, u64>,
    /// Whole days until its credential ends, where that is known.
    pub days_left: Option<i64>,
    /// Watched runs that are open; none where nobody could tell.
    pub watched_runs: Option<usize>,
    /// Its deliveries; none where they could not be counted.
    pub deliveries: Option<DeliveryHealth>,
}

/// Whether the readings are for a client with these limits: they speak of all machines and projects at once.
pub fn may_read(limits: &Limits) -> Result<(), ToolError> {
    if limits.machines.is_none() && limits.projects.is_none() && limits.within.is_none() {
        return Ok(());
    }
    Err(ToolError::new(
        ErrorCode::InsufficientScope,
        "The metrics speak of all machines and projects, and this client may see some of them only.",
    )
    .hint("Use the default bearer, or a client without `machines` and `projects`; it may be `read_only`."))
}

impl Gateway {
    /// What is measured now.
    pub async fn readings(&self) -> Readings {
        let watched = self.watched_runs().await;
        let deliveries = self.deliveries_by_machine().await;
        let now = Timestamp::now();
        let members = self.fleet.members();
        let machines = members.iter().map(|member| MachineReading {
            watched_runs: watched
                .as_ref()
                .map(|all| all.get(member.name()).copied().unwrap_or_default()),
            deliveries: deliveries
                .as_ref()
                .map(|all| all.get(member.name()).copied().unwrap_or_default()),
            ..reading(member, now)
        });
        let machines = machines.collect();
        let mut readings = Readings {
            machines,
            ..Readings::default()
        };
        if let Some(ledger) = &self.ledger {
            readings.counts = Some(ledger.store.counts());
            readings.deliveries = ledger.store.delivery_counts().await.ok();
        }
        readings
    }

    /// How many watched runs are open, by machine.
    async fn watched_runs(&self) -> Option<HashMap<String, usize>> {
        let ledger = self.ledger.as_ref()?;
        let watched = tokio::time::timeout(TOLD_WITHIN, ledger.watched()).await.ok()?.ok()?;
        let mut open: HashMap<String, usize> = HashMap::new();
        for thread in watched {
            *open.entry(thread.machine).or_default() += thread.open;
        }
        Some(open)
    }
}

fn reading(member: &Member, now: Timestamp) -> MachineReading {
    let status = member.machine.status();
    let pulse = member.machine.pulse();
    let error = status.error.as_ref().filter(|_| !status.online);
    let (threads, busy) = threads(member);
    let mut unknown_words: BTreeMap<String, u64> = BTreeMap::new();
    for (word, met) in &status.unknown_words {
        *unknown_words.entry(kind(word).to_owned()).or_default() += met;
    }
    MachineReading {
        name: member.name().to_owned(),
        online: status.online,
        problem: error.map(|error| ToolError::from_machine(member.name(), error).code),
        silent_for: pulse.silent_for,
        connections: pulse.connections,
        threads,
        busy,
        unknown_words,
        days_left: status.expires_at.map(|ends| days_left(ends, now)),
        watched_runs: None,
        deliveries: None,
    }
}

/// Our own words before T3's, as in "run status `paused`".
fn kind(word: &str) -> &str {
    word.split('`').next().unwrap_or_default().trim()
}

fn threads(member: &Member) -> (usize, usize) {
    let limits = Limits::default();
    let projects = member.projects(&limits);
    let usable: HashSet<&ProjectId> = projects.iter().map(|project| &project.id).collect();
    let rows = member.machine.threads();
    let rows = rows
        .iter()
        .filter(|row| !row.archived && !row.deleted && usable.contains(&row.project));
    rows.fold((0, 0), |(all, busy), row| (all + 1, busy + usize::from(is_busy(row))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_unknown_word_the_kind_alone_is_told() {
        assert_eq!(kind("run status `pau`sed`"), "run status");
        assert_eq!(kind("capabilities `a`, `b`"), "capabilities");
        assert_eq!(kind(""), "");
    }
}
