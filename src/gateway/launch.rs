//! A dispatch that starts a thread.

use std::sync::Arc;
use std::time::Instant;

use crate::fleet::{Found, Member};
use crate::gateway::dispatch::{self, DispatchAnswer, DispatchArgs};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::faults::one_of;
use crate::gateway::model::{self, Choice};
use crate::gateway::receipts::{Matched, Outcome, Progress, Receipt};
use crate::gateway::{Caller, Gateway, modes, places, text};
use crate::machine::{InteractionMode, Launch, Launched, MachineError, Project};

/// How many attempts that T3 remembers as refused one call passes over: those of calls before the gateway was restarted.
const REFUSED_BEFORE: u32 = 8;

/// T3's words for a command id that it refused before.
const PREVIOUSLY_REFUSED: &str = "previously rejected";

impl Gateway {
    /// Starts a thread with its first run.
    pub(super) async fn launch(&self, caller: &Caller, args: &DispatchArgs) -> Result<DispatchAnswer, ToolError> {
        let member = self
            .fleet
            .member_or_only(&caller.limits, args.machine.as_deref())
            .map_err(ToolError::from)?;
        self.fleet.ready(&member).await?;
        let project = project_of(&member, caller, args)?;
        let (launch, mut notes) = self.plan(&member, &project, caller, args).await?;
        let call = dispatch::call_of(caller, args);
        let receipt = self
            .receipts()
            .open(&call, member.name(), None, dispatch::fresh_request)
            .map_err(|_| dispatch::other_arguments(args))?;
        let found = Found {
            member,
            project,
            id: receipt.thread.clone(),
        };
        let mut progress = receipt.progress.lock().await;
        // An equal call with the same id came first and has started it meanwhile.
        if let Outcome::Started { .. } = progress.outcome {
            drop(progress);
            return self.existing(caller, args, &found, &receipt, Matched::RequestId).await;
        }
        let launched = self.send_launch(&found.member, &receipt, &mut progress, launch).await?;
        drop(progress);
        if launched.resumed {
            return self.existing(caller, args, &found, &receipt, Matched::RequestId).await;
        }
        self.started(caller, args, &found, &receipt, &mut notes).await
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
            member.rules.runtime_mode,
            member.rules.ceiling(limits),
        )?;
        let providers = member
            .machine
            .providers()
            .await
            .map_err(|error| ToolError::from_machine(member.name(), &error))?;
        let chosen = model::for_launch(&Choice {
            machine: member.name(),
            asked: args.model.as_deref(),
            options: args.options.as_ref(),
            preferred: member.rules.model.as_deref(),
            preferred_options: &member.rules.options,
            own: project.default_model.as_ref(),
            providers: &providers,
        })?;
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
        member: &Member,
        receipt: &Receipt,
        progress: &mut Progress,
        mut launch: Launch,
    ) -> Result<Launched, ToolError> {
        launch.thread = receipt.thread.clone();
        launch.message = receipt.intent.message();
        for _ in 0..=REFUSED_BEFORE {
            launch.command = receipt.intent.command("launch", progress.attempt);
            match member.machine.launch(&launch).await {
                Ok(launched) => {
                    progress.outcome = Outcome::Started {
                        run: launched.run.clone(),
                    };
                    return Ok(launched);
                }
                Err(MachineError::Rejected { message, .. }) if message.contains(PREVIOUSLY_REFUSED) => {
                    progress.attempt += 1;
                }
                Err(error) => return Err(failed(member, receipt, progress, &error)),
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

/// What a failed command means for its receipt, and for the caller.
pub(super) fn failed(member: &Member, receipt: &Receipt, progress: &mut Progress, error: &MachineError) -> ToolError {
    let said = ToolError::from_machine(member.name(), error);
    match said.code {
        ErrorCode::OutcomeUnknown => {
            progress.outcome = Outcome::Unknown;
            receipt.mark_unknown(Instant::now());
            said.with("thread_id", receipt.thread.to_string())
        }
        // T3 remembers a refusal: only another id is another try.
        ErrorCode::OperationRejected => {
            progress.attempt += 1;
            progress.outcome = Outcome::NotStarted;
            said
        }
        ErrorCode::InvalidRequest
        | ErrorCode::UnknownMachine
        | ErrorCode::ProjectNotFound
        | ErrorCode::ThreadNotFound
        | ErrorCode::ThreadBusy
        | ErrorCode::ThreadNotInterruptible
        | ErrorCode::RequestNotFound
        | ErrorCode::RequestNotAnswerable
        | ErrorCode::ModelUnavailable
        | ErrorCode::ProviderUnavailable
        | ErrorCode::RuntimeModeEscalationDenied
        | ErrorCode::NeedsPairing
        | ErrorCode::InsufficientScope
        | ErrorCode::ProtocolUnsupported
        | ErrorCode::MachineUnreachable
        | ErrorCode::RateLimited
        | ErrorCode::Internal => said,
    }
}

fn project_of(member: &Arc<Member>, caller: &Caller, args: &DispatchArgs) -> Result<Arc<Project>, ToolError> {
    if let Some(name) = args.project.as_deref() {
        return Ok(member.find_project(&caller.limits, name)?);
    }
    let titles: Vec<String> = member
        .projects(&caller.limits)
        .iter()
        .map(|project| project.title.clone())
        .collect();
    Err(ToolError::new(
        ErrorCode::InvalidRequest,
        "A new thread needs a project (id, path or title).",
    )
    .hint(one_of("Projects", &titles))
    .with("machine", member.name())
    .with("valid", titles))
}
