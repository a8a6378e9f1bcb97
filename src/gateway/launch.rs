//! A dispatch that starts a thread.

use std::sync::Arc;

use crate::fleet::{Found, Member};
use crate::gateway::dispatch::{DispatchAnswer, DispatchArgs, Work};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::keeping::Step;
use crate::gateway::model::{self, Choice};
use crate::gateway::receipts::Outcome;
use crate::gateway::tracking::Fate;
use crate::gateway::{Caller, Gateway, modes, places, text};
use crate::machine::{InteractionMode, Launch, Launched, MachineError, Project, Provider};

/// How many attempts that T3 remembers as refused one call passes over: those of calls before the gateway was restarted.
const REFUSED_BEFORE: u32 = 8;

/// T3's words for a command id that it refused before.
const PREVIOUSLY_REFUSED: &str = "previously rejected";

impl Gateway {
    /// Starts a thread with its first run.
    pub(super) async fn launch(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        work: &mut Work<'_>,
    ) -> Result<DispatchAnswer, ToolError> {
        // A call that was made before is about the machine that it was sent to then.
        let before = work.progress.kept.as_ref().map(|kept| kept.receipt.machine.as_str());
        let member = self
            .fleet
            .member_or_only(&caller.limits, before.or(args.machine.as_deref()))
            .map_err(ToolError::from)?;
        self.fleet.ready(&member).await?;
        if let Some(found) = self.launched_before(&member, caller, work).await? {
            return self.existing(caller, args, &found, work).await;
        }
        let project = self.project_of(&member, caller, args).await?;
        let (launch, mut notes) = self.plan(&member, &project, caller, args).await?;
        let found = Found {
            id: work.receipt.intent(member.name()).thread(),
            member,
            project,
        };
        let launched = self.send_launch(caller, args, &found, work, launch).await?;
        if launched.resumed {
            return self.existing(caller, args, &found, work).await;
        }
        self.started(caller, args, &found, work, None, &mut notes).await
    }

    /// The thread, if an earlier call made it: one of this process, or one with the same request id from before a restart. T3 is asked
    /// before anything is checked: what has been started stays started, whatever has changed since.
    async fn launched_before(
        &self,
        member: &Arc<Member>,
        caller: &Caller,
        work: &mut Work<'_>,
    ) -> Result<Option<Found>, ToolError> {
        let intent = work.receipt.intent(member.name());
        let id = intent.thread();
        if let Outcome::Started { .. } = work.progress.outcome {
            let found = self.fleet.find_thread(&caller.limits, Some(member.name()), &id).await?;
            return Ok(Some(found));
        }
        if !work.may_be_there() {
            return Ok(None);
        }
        let thread = match member.machine.read_thread(&id).await {
            Ok(thread) => thread,
            Err(MachineError::ThreadNotFound) => return Ok(None),
            Err(error) => return Err(ToolError::from_machine(member.name(), &error)),
        };
        // A thread without its message was half made: T3 takes the rest under the same ids.
        let there = (0..=REFUSED_BEFORE.max(work.progress.attempt))
            .rev()
            .find(|attempt| thread.messages.iter().any(|m| m.id == intent.message(*attempt)));
        match there {
            Some(attempt) => work.progress.attempt = attempt,
            None if thread.partial => {}
            None => return Ok(None),
        }
        // Hidden is not there: T3 itself refuses to make it twice.
        let project = member.project(&caller.limits, &thread.head.project);
        Ok(project.map(|project| Found {
            member: Arc::clone(member),
            project,
            id,
        }))
    }

    /// Everything that is checked before anything is sent.
    async fn plan(
        &self,
        member: &Arc<Member>,
        project: &Project,
        caller: &Caller,
        args: &DispatchArgs,
    ) -> Result<(Launch, Vec<String>), ToolError> {
        let limits = &caller.limits;
        let workspace = places::workspace(args, |path| {
            let shown = member
                .machine
                .threads()
                .iter()
                .any(|row| row.project == project.id && row.worktree.as_deref() == Some(path));
            shown || member.shows_path(limits, path)
        })?;
        let mode = modes::for_launch(
            args.runtime_mode.map(Into::into),
            limits.runtime_mode(member.name()).or(member.rules.runtime_mode),
            member.ceiling(limits),
        )?;
        let choose = |providers: &[Provider]| {
            model::for_launch(&Choice {
                machine: member.name(),
                asked: args.model.as_deref(),
                options: args.options.as_ref(),
                preferred: member.rules.model.as_deref(),
                preferred_options: &member.rules.options,
                own: project.default_model.as_ref(),
                providers,
            })
        };
        let chosen = choose_model(member, choose).await?;
        let mut notes = chosen.notes;
        notes.extend(mode.note);
        let title = args.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
        // Ids follow from the receipt, which is opened only once all of this was found right.
        let launch = Launch {
            command: crate::gateway::ids::fresh_command(),
            thread: crate::protocol::ThreadId(String::new()),
            message: crate::protocol::MessageId(String::new()),
            project: project.id.clone(),
            title: title.map_or_else(|| text::title_of(&args.prompt), str::to_owned),
            generate_title: title.is_none(),
            text: args.prompt.clone(),
            model: chosen.selection,
            runtime_mode: mode.mode,
            interaction_mode: args.interaction_mode.map_or(InteractionMode::Default, Into::into),
            workspace,
        };
        Ok((launch, notes))
    }

    async fn send_launch(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        found: &Found,
        work: &mut Work<'_>,
        mut launch: Launch,
    ) -> Result<Launched, ToolError> {
        let member = &found.member;
        let intent = work.receipt.intent(member.name());
        launch.thread = found.id.clone();
        for _ in 0..=REFUSED_BEFORE {
            launch.message = intent.message(work.progress.attempt);
            launch.command = intent.command("launch", work.progress.attempt);
            self.keep(caller, args, found, work, &Step::launch()).await?;
            match member.machine.launch(&launch).await {
                Ok(launched) => {
                    self.settle(found, work, Fate::Taken).await;
                    work.progress.outcome = Outcome::Started {
                        run: launched.run.clone(),
                    };
                    return Ok(launched);
                }
                Err(MachineError::Rejected { message, .. }) if message.contains(PREVIOUSLY_REFUSED) => {
                    self.came_to_nothing(found, work).await;
                }
                Err(error) => return Err(self.failed(found, work, &error).await),
            }
        }
        Err(ToolError::new(
            ErrorCode::OperationRejected,
            format!(
                "T3 on {} refused this request_id's command several times before.",
                member.name()
            ),
        )
        .hint("Use another request_id."))
    }
}

impl Gateway {
    /// What a failed command means for its receipt, and for the caller.
    pub(super) async fn failed(&self, found: &Found, work: &mut Work<'_>, error: &MachineError) -> ToolError {
        let said = ToolError::from_machine(found.member.name(), error);
        match said.code {
            ErrorCode::OutcomeUnknown => {
                work.progress.outcome = Outcome::Unknown;
                self.settle(found, work, Fate::Unknown).await;
                said.with("thread_id", found.id.to_string())
            }
            ErrorCode::OperationRejected => {
                self.came_to_nothing(found, work).await;
                said
            }
            // Everything else is said before T3 has taken anything.
            _ => {
                self.not_sent(found, work).await;
                said
            }
        }
    }

    /// T3 refused the attempt, and remembers that: only another id is another try.
    pub(super) async fn came_to_nothing(&self, found: &Found, work: &mut Work<'_>) {
        self.settle(found, work, Fate::Nothing).await;
        work.progress.attempt += 1;
        work.progress.outcome = Outcome::NotStarted;
    }

    /// This try did not get to T3. An earlier one under the same ids may have.
    pub(super) async fn not_sent(&self, found: &Found, work: &Work<'_>) {
        let fate = match work.progress.outcome {
            Outcome::NotStarted => Fate::Nothing,
            Outcome::Unknown => Fate::Unknown,
            Outcome::Started { .. } => Fate::Taken,
        };
        self.settle(found, work, fate).await;
    }
}

/// Chooses a model among what T3 last said. What is refused for it is asked for anew: the provider may be ready by now.
pub(super) async fn choose_model<T>(
    member: &Member,
    choose: impl Fn(&[Provider]) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    let failed = |error| ToolError::from_machine(member.name(), &error);
    match choose(&member.machine.providers().await.map_err(failed)?) {
        Err(error) if matches!(error.code, ErrorCode::ModelUnavailable | ErrorCode::ProviderUnavailable) => {
            choose(&member.machine.providers_anew().await.map_err(failed)?)
        }
        settled => settled,
    }
}

impl Gateway {
    /// The project that is named, else the scratch project where the operator allows it, else the only one.
    async fn project_of(
        &self,
        member: &Arc<Member>,
        caller: &Caller,
        args: &DispatchArgs,
    ) -> Result<Arc<Project>, ToolError> {
        if let Some(name) = args.project.as_deref() {
            return Ok(member.find_project(&caller.limits, name)?);
        }
        let projects = member.projects(&caller.limits);
        let needed = |why: &str| {
            let titles: Vec<String> = projects.iter().map(|project| project.title.clone()).collect();
            ToolError::new(
                ErrorCode::InvalidRequest,
                format!("A new thread needs a project (id, path or title){why}."),
            )
            .listing("Projects", &titles)
            .with("machine", member.name())
        };
        if member.rules.scratch {
            let without = |why: &str| needed(&format!(": {why}"));
            return self.scratch_project(member, caller, without).await;
        }
        match projects.as_slice() {
            [only] => Ok(Arc::clone(only)),
            _ => Err(needed("")),
        }
    }
}
