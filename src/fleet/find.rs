//! Finding machines, projects and threads for a caller: the one place where the allowlist and a client's limits are applied.
//!
//! What is hidden takes the same way as what is not there, so that both answer alike.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::fleet::{Fleet, Limits, Member};
use crate::machine::{MachineError, Project, RuntimeMode};
use crate::protocol::{ProjectId, ThreadId};

/// How long after the start a call waits for machines that it needs and that have not shown their first snapshot. Later a machine that
/// has none is down, and nobody waits for it.
pub const FIRST_SNAPSHOT: Duration = Duration::from_secs(5);

/// How long a call that looks for an id asks the machines over HTTP, where no mirror has it.
const PROBE: Duration = Duration::from_secs(5);

/// Why something was not found.
#[derive(Clone, Debug)]
pub enum FleetError {
    /// No machine of that name exists for the caller.
    UnknownMachine {
        /// What was asked for.
        name: String,
        /// What there is.
        valid: Vec<String>,
    },
    /// A machine has to be named.
    MachineNeeded {
        /// What there is.
        valid: Vec<String>,
    },
    /// A machine did not answer, so what was asked for may be there.
    Unreachable {
        /// The machine.
        machine: String,
        /// Why it did not answer.
        error: MachineError,
    },
    /// No such project, or not for this caller.
    ProjectNotFound {
        /// What was asked for.
        name: String,
        /// Where.
        machine: String,
        /// What there is: titles.
        valid: Vec<String>,
    },
    /// Several projects have the title.
    ProjectAmbiguous {
        /// The title.
        title: String,
        /// Id and path of each.
        candidates: Vec<(String, String)>,
    },
    /// No such thread, or not for this caller.
    ThreadNotFound {
        /// What was asked for.
        id: ThreadId,
        /// The machines that were not asked, as they are not paired: nothing that the gateway has shown came from there.
        unpaired: Vec<String>,
    },
    /// Of the machines that answered none has the thread; one did not answer.
    ThreadNotSeen {
        /// What was asked for.
        id: ThreadId,
        /// The machine that did not answer.
        machine: String,
        /// Why it did not.
        error: MachineError,
    },
}

/// A thread that exists for the caller.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its machine.
    pub member: Arc<Member>,
    /// Its project.
    pub project: Arc<Project>,
    /// Its id.
    pub id: ThreadId,
}

/// What one machine has for the caller.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The machine.
    pub member: Arc<Member>,
    /// Its projects.
    pub projects: Vec<Arc<Project>>,
    /// Why it does not answer; what it last showed may still be there.
    pub error: Option<MachineError>,
}

impl Member {
    /// The name that the operator gave it.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// Whether the project exists for the caller.
    pub fn shows(&self, limits: &Limits, project: &Project) -> bool {
        let matches = |patterns: &crate::fleet::Patterns| {
            patterns.matches(&project.title) || patterns.matches(&project.workspace_root)
        };
        let scratch = self.is_scratch(project);
        (scratch || matches(&self.rules.projects)) && limits.pass(self.name(), scratch, matches)
    }

    /// The project is T3's own for what belongs to none, and the operator allows that.
    fn is_scratch(&self, project: &Project) -> bool {
        self.rules.scratch && self.machine.scratch().as_ref() == Some(&project.id)
    }

    /// The scratch project, if it exists for the caller.
    pub fn scratch(&self, limits: &Limits) -> Option<Arc<Project>> {
        let id = self.machine.scratch().filter(|_| self.rules.scratch)?;
        self.project(limits, &id)
    }

    /// Whether the path itself matches the machine's patterns and the caller's.
    pub fn shows_path(&self, limits: &Limits, path: &str) -> bool {
        self.rules.projects.matches(path) && limits.pass(self.name(), false, |patterns| patterns.matches(path))
    }

    /// The ceiling for the caller: the lower of the machine's and its own.
    pub fn ceiling(&self, limits: &Limits) -> RuntimeMode {
        let machine = self.rules.max_runtime_mode.unwrap_or(RuntimeMode::FullAccess);
        machine.min(limits.ceiling(self.name()))
    }

    /// The project of that id, if it exists for the caller.
    pub fn project(&self, limits: &Limits, id: &ProjectId) -> Option<Arc<Project>> {
        self.machine.project(id).filter(|project| self.shows(limits, project))
    }

    /// The projects that exist for the caller, by title.
    pub fn projects(&self, limits: &Limits) -> Vec<Arc<Project>> {
        let mut projects = self.machine.projects();
        projects.retain(|project| self.shows(limits, project));
        projects.sort_by(|a, b| (&a.title, &a.workspace_root).cmp(&(&b.title, &b.workspace_root)));
        projects
    }

    /// Why the machine does not answer now; none while it is online.
    pub fn away(&self) -> Option<MachineError> {
        let status = self.machine.status();
        if status.online {
            return None;
        }
        Some(status.error.unwrap_or_else(|| MachineError::Unreachable {
            reason: "it is not connected yet".to_owned(),
        }))
    }

    /// Finds a project by id, path or title, among those that exist for the caller.
    pub fn find_project(&self, limits: &Limits, name: &str) -> Result<Arc<Project>, FleetError> {
        let projects = self.projects(limits);
        let path = name.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(name);
        if let Some(found) = projects
            .iter()
            .find(|project| project.id.as_str() == name)
            .or_else(|| projects.iter().find(|project| project.workspace_root == path))
        {
            return Ok(Arc::clone(found));
        }
        let titled: Vec<_> = projects.iter().filter(|project| project.title == name).collect();
        match titled.as_slice() {
            [only] => Ok(Arc::clone(only)),
            [] => match self.away() {
                Some(error) => Err(unreachable(self, error)),
                None => Err(FleetError::ProjectNotFound {
                    name: name.to_owned(),
                    machine: self.name().to_owned(),
                    valid: projects.iter().map(|project| project.title.clone()).collect(),
                }),
            },
            several => Err(FleetError::ProjectAmbiguous {
                title: name.to_owned(),
                candidates: several
                    .iter()
                    .map(|project| (project.id.to_string(), project.workspace_root.clone()))
                    .collect(),
            }),
        }
    }
}

impl Fleet {
    /// The machines that exist for the caller.
    pub fn visible(&self, limits: &Limits) -> Vec<Arc<Member>> {
        let members = self.members();
        let visible = members.iter().filter(|member| limits.machine(member.name()));
        visible.cloned().collect()
    }

    /// The machine of that name.
    pub fn member(&self, limits: &Limits, name: &str) -> Result<Arc<Member>, FleetError> {
        self.visible(limits)
            .into_iter()
            .find(|member| member.name() == name)
            .ok_or_else(|| FleetError::UnknownMachine {
                name: name.to_owned(),
                valid: self.names(limits),
            })
    }

    /// The machine of that name, or the only one.
    pub fn member_or_only(&self, limits: &Limits, name: Option<&str>) -> Result<Arc<Member>, FleetError> {
        if let Some(name) = name {
            return self.member(limits, name);
        }
        let mut visible = self.visible(limits).into_iter();
        match (visible.next(), visible.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(FleetError::MachineNeeded {
                valid: self.names(limits),
            }),
        }
    }

    /// The names of the machines that exist for the caller.
    pub fn names(&self, limits: &Limits) -> Vec<String> {
        let visible = self.visible(limits);
        visible.iter().map(|member| member.name().to_owned()).collect()
    }

    /// Waits until the machine has shown its first snapshot, at most until [`FIRST_SNAPSHOT`] after the start.
    pub async fn ready(&self, member: &Member) -> Result<(), FleetError> {
        self.first_snapshot(member)
            .await
            .map_err(|error| unreachable(member, error))
    }

    async fn first_snapshot(&self, member: &Member) -> Result<(), MachineError> {
        let within = FIRST_SNAPSHOT.saturating_sub(self.started.elapsed());
        match member.machine.ready(within).await {
            // Nobody was waited for: what is known of the machine says more than that no time was left.
            Err(MachineError::Timeout(_)) => Err(member.away().unwrap_or(MachineError::Timeout(FIRST_SNAPSHOT))),
            shown => shown,
        }
    }

    /// What every machine, or the named one, has for the caller. A machine that does not answer delays this until [`FIRST_SNAPSHOT`]
    /// after the start at most.
    pub async fn shown(&self, limits: &Limits, machine: Option<&str>) -> Result<Vec<Shown>, FleetError> {
        let members: Vec<Arc<Member>> = match machine {
            Some(name) => vec![self.member(limits, name)?],
            None => self.visible(limits),
        };
        let shown = members.into_iter().map(|member| async move {
            let error = self.first_snapshot(&member).await.err().or_else(|| member.away());
            // Whoever lists what there is right after a change of his own finds it there.
            member.machine.caught_up().await;
            Shown {
                projects: member.projects(limits),
                member,
                error,
            }
        });
        Ok(join_all(shown).await)
    }

    /// Finds a thread by id: in the mirrors, else among machines that show their first snapshot within [`FIRST_SNAPSHOT`], else by
    /// asking T3 itself (a deleted thread, or one that the stream has not shown yet). The first machine that has it answers for all.
    /// Where the caller named a machine, only that one is asked: what is wrong with the others is not its concern. One that was never paired
    /// keeps nobody from learning that there is no such thread.
    pub async fn find_thread(
        &self,
        limits: &Limits,
        machine: Option<&str>,
        id: &ThreadId,
    ) -> Result<Found, FleetError> {
        let visible = self.visible(limits);
        if let Some(found) = visible.iter().find_map(|member| in_mirror(member, limits, id)) {
            return Ok(found);
        }
        let named = match machine {
            Some(name) => Some(self.member(limits, name)?),
            None => None,
        };
        let (asked, unpaired): (Vec<_>, Vec<_>) = match named {
            Some(only) => (vec![only], Vec::new()),
            None => visible.into_iter().partition(|member| !member.machine.is_unpaired()),
        };
        let mut searches: FuturesUnordered<_> = asked.iter().map(|member| self.search(member, limits, id)).collect();
        let mut missing: Option<FleetError> = None;
        while let Some(searched) = searches.next().await {
            match searched {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) => missing = missing.or(Some(error)),
            }
        }
        Err(match (missing, unpaired.as_slice()) {
            (Some(FleetError::Unreachable { machine: silent, error }), _) if machine.is_none() => {
                FleetError::ThreadNotSeen {
                    id: id.clone(),
                    machine: silent,
                    error,
                }
            }
            (Some(error), _) => error,
            // Nobody was asked at all.
            (None, [first, ..]) if asked.is_empty() => self.may_be_on(first, id).await,
            (None, unpaired) => FleetError::ThreadNotFound {
                id: id.clone(),
                unpaired: unpaired.iter().map(|member| member.name().to_owned()).collect(),
            },
        })
    }

    /// The error for a thread that may be on this machine, which cannot be asked.
    pub async fn may_be_on(&self, member: &Member, id: &ThreadId) -> FleetError {
        let error = self.first_snapshot(member).await.err().or_else(|| member.away());
        FleetError::ThreadNotSeen {
            id: id.clone(),
            machine: member.name().to_owned(),
            error: error.unwrap_or(MachineError::Timeout(FIRST_SNAPSHOT)),
        }
    }

    async fn search(&self, member: &Arc<Member>, limits: &Limits, id: &ThreadId) -> Result<Option<Found>, FleetError> {
        self.ready(member).await?;
        if let Some(found) = in_mirror(member, limits, id) {
            return Ok(Some(found));
        }
        if let Some(error) = member.away() {
            return Err(unreachable(member, error));
        }
        // The mirror has it and the caller may not see it: to ask T3 for it could answer otherwise than for what is not there.
        if member.machine.thread(id).is_some() {
            return Ok(None);
        }
        match tokio::time::timeout(PROBE, member.machine.read_thread(id)).await {
            Err(_) => Err(unreachable(member, MachineError::Timeout(PROBE))),
            // What T3 does not show of its archive may be hidden, too.
            Ok(Err(MachineError::ThreadNotFound | MachineError::NeedsNewer(_))) => Ok(None),
            Ok(Err(error)) => Err(unreachable(member, error)),
            Ok(Ok(thread)) => Ok(member.project(limits, &thread.head.project).map(|project| Found {
                member: Arc::clone(member),
                project,
                id: id.clone(),
            })),
        }
    }
}

fn in_mirror(member: &Arc<Member>, limits: &Limits, id: &ThreadId) -> Option<Found> {
    let row = member.machine.thread(id)?;
    let project = member.project(limits, &row.project)?;
    Some(Found {
        member: Arc::clone(member),
        project,
        id: id.clone(),
    })
}

fn unreachable(member: &Member, error: MachineError) -> FleetError {
    FleetError::Unreachable {
        machine: member.name().to_owned(),
        error,
    }
}
