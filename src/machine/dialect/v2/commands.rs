//! Commands as T3 takes them: exact types, optional fields left out, always `createdBy: "user"`, `creationSource: "mcp"`.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{Call, read, selection};
use crate::machine::domain::{
    Answer, DispatchMode, InteractionMode, Launch, Launched, ModelSelection, NewProject, OptionValue, Project, Respond,
    RuntimeMode, SendMessage, Workspace,
};
use crate::machine::error::MachineError;
use crate::protocol::v2::{self, sent};
use crate::protocol::{Change, CommandId, MessageId, RunId, RuntimeRequestId, ThreadId};

const DISPATCH: &str = "orchestration.dispatchCommand";
const PROJECTS: &str = "projects.mutate";
const LAUNCH: &str = "orchestration.launchThread";

/// `orchestration.launchThread`. Without `creationSource` T3 would say that a browser made the thread.
pub(super) fn launch(launch: &Launch) -> Result<Call, MachineError> {
    let input = sent::ThreadLaunchInput {
        command_id: launch.command.clone(),
        creation_source: Some(sent::CreationSource::Mcp),
        generate_title: launch.generate_title.then_some(true),
        initial_message: Some(sent::ThreadLaunchMessage {
            attachments: Vec::new(),
            message_id: Some(launch.message.clone()),
            text: launch.text.clone(),
        }),
        interaction_mode: interaction_mode(launch.interaction_mode),
        model_selection: model(&launch.model),
        project_id: launch.project.clone(),
        runtime_mode: runtime_mode(launch.runtime_mode),
        thread_id: Some(launch.thread.clone()),
        title: launch.title.clone(),
        workspace_strategy: workspace(&launch.workspace),
    };
    call(LAUNCH, &input)
}

/// `thread.create` and `message.dispatch` for servers without `launchThread`. The command ids derive from the launch's, so that a
/// repetition of the launch repeats them.
pub(super) fn launch_in_steps(launch: &Launch) -> Result<[Call; 2], MachineError> {
    let worktree_path = match &launch.workspace {
        Workspace::Root => None,
        Workspace::ExistingWorktree { path } => Some(path.clone()),
        Workspace::Worktree { .. } => {
            return Err(MachineError::Unsafe(
                "this T3 is too old to make a worktree for a new thread: update it, or use the project's folder"
                    .to_owned(),
            ));
        }
    };
    let create = sent::Command::ThreadCreate(sent::CommandThreadCreate {
        branch: None,
        command_id: CommandId(format!("{}:create", launch.command)),
        created_by: sent::Actor::User,
        creation_source: sent::CreationSource::Mcp,
        interaction_mode: interaction_mode(launch.interaction_mode),
        model_selection: model(&launch.model),
        project_id: launch.project.clone(),
        runtime_mode: runtime_mode(launch.runtime_mode),
        thread_id: launch.thread.clone(),
        title: launch.title.clone(),
        worktree_path,
    });
    let message = SendMessage {
        command: CommandId(format!("{}:message", launch.command)),
        thread: launch.thread.clone(),
        message: launch.message.clone(),
        text: launch.text.clone(),
        model: None,
        mode: DispatchMode::Start,
    };
    // T3 makes a title of its own where the thread's is still the seed that came with the message.
    let title_seed = launch.generate_title.then(|| launch.title.clone());
    Ok([call(DISPATCH, &create)?, message_with(&message, title_seed)?])
}

pub(super) fn send_message(message: &SendMessage) -> Result<Call, MachineError> {
    message_with(message, None)
}

fn message_with(message: &SendMessage, title_seed: Option<String>) -> Result<Call, MachineError> {
    let dispatch_mode = match &message.mode {
        DispatchMode::Start => sent::DispatchMode::StartImmediately,
        DispatchMode::Queue => sent::DispatchMode::QueueAfterActive,
        DispatchMode::Steer(run) => sent::DispatchMode::SteerActive(sent::DispatchModeSteerActive {
            target_run_id: run.clone(),
        }),
        DispatchMode::Restart(run) => sent::DispatchMode::RestartActive(sent::DispatchModeSteerActive {
            target_run_id: run.clone(),
        }),
    };
    dispatch(&sent::Command::MessageDispatch(sent::CommandMessageDispatch {
        attachments: Vec::new(),
        command_id: message.command.clone(),
        created_by: sent::Actor::User,
        creation_source: sent::CreationSource::Mcp,
        dispatch_mode,
        message_id: message.message.clone(),
        model_selection: message.model.as_ref().map(model),
        text: message.text.clone(),
        thread_id: message.thread.clone(),
        title_seed,
    }))
}

/// Exactly one of `decision` and `answers`: with neither, or the wrong one, T3 says that it is done and the run hangs.
pub(super) fn respond(respond: &Respond) -> Result<Call, MachineError> {
    let (decision, answers) = match &respond.answer {
        Answer::Decision(word) => {
            let Some(decision) = sent::ProviderApprovalDecision::parse(word) else {
                return Err(MachineError::Unsafe(format!(
                    "`{word}` is no decision; T3 takes {}",
                    sent::ProviderApprovalDecision::WORDS.join(", ")
                )));
            };
            (Some(decision), None)
        }
        Answer::Answers(answers) => (None, Some(v2::ProviderUserInputAnswers(answers.clone()))),
        Answer::Dismiss => return dismiss(&respond.command, &respond.thread, &respond.request),
    };
    dispatch(&sent::Command::RuntimeRequestRespond(
        sent::CommandRuntimeRequestRespond {
            answers,
            command_id: respond.command.clone(),
            decision,
            request_id: respond.request.clone(),
            thread_id: respond.thread.clone(),
        },
    ))
}

fn dismiss(command: &CommandId, thread: &ThreadId, request: &RuntimeRequestId) -> Result<Call, MachineError> {
    dispatch(&sent::Command::ThreadUserInputDismiss(
        sent::CommandThreadUserInputDismiss {
            command_id: command.clone(),
            request_id: request.clone(),
            thread_id: thread.clone(),
        },
    ))
}

pub(super) fn interrupt(
    command: &CommandId,
    thread: &ThreadId,
    run: &RunId,
    hold_queue: bool,
) -> Result<Call, MachineError> {
    dispatch(&sent::Command::RunInterrupt(sent::CommandRunInterrupt {
        command_id: command.clone(),
        hold_queue: hold_queue.then_some(true),
        reason: None,
        run_id: run.clone(),
        thread_id: thread.clone(),
    }))
}

pub(super) fn cancel_queued(command: &CommandId, thread: &ThreadId, run: &RunId) -> Result<Call, MachineError> {
    dispatch(&sent::Command::QueuedRunCancel(sent::CommandQueuedRunCancel {
        command_id: command.clone(),
        run_id: run.clone(),
        thread_id: thread.clone(),
    }))
}

pub(super) fn promote_queued(
    command: &CommandId,
    thread: &ThreadId,
    queued: &RunId,
    target: &RunId,
) -> Result<Call, MachineError> {
    dispatch(&sent::Command::QueuedMessagePromoteToSteer(
        sent::CommandQueuedMessagePromoteToSteer {
            command_id: command.clone(),
            queued_run_id: queued.clone(),
            target_run_id: target.clone(),
            thread_id: thread.clone(),
        },
    ))
}

pub(super) fn resume_queue(command: &CommandId, thread: &ThreadId) -> Result<Call, MachineError> {
    dispatch(&sent::Command::QueueResume(sent::CommandQueueResume {
        command_id: command.clone(),
        thread_id: thread.clone(),
    }))
}

pub(super) fn set_runtime_mode(
    command: &CommandId,
    thread: &ThreadId,
    mode: RuntimeMode,
) -> Result<Call, MachineError> {
    dispatch(&sent::Command::ThreadRuntimeModeSet(
        sent::CommandThreadRuntimeModeSet {
            command_id: command.clone(),
            runtime_mode: runtime_mode(mode),
            thread_id: thread.clone(),
        },
    ))
}

pub(super) fn set_interaction_mode(
    command: &CommandId,
    thread: &ThreadId,
    mode: InteractionMode,
) -> Result<Call, MachineError> {
    dispatch(&sent::Command::ThreadInteractionModeSet(
        sent::CommandThreadInteractionModeSet {
            command_id: command.clone(),
            interaction_mode: interaction_mode(mode),
            thread_id: thread.clone(),
        },
    ))
}

pub(super) fn set_archived(command: &CommandId, thread: &ThreadId, archived: bool) -> Result<Call, MachineError> {
    let (command_id, thread_id) = (command.clone(), thread.clone());
    dispatch(&if archived {
        sent::Command::ThreadArchive(sent::CommandThreadArchive { command_id, thread_id })
    } else {
        sent::Command::ThreadUnarchive(sent::CommandThreadUnarchive { command_id, thread_id })
    })
}

/// Never with `createWorkspaceRootIfMissing`: a path with a slip of the pen in it would become a folder.
pub(super) fn create_project(project: &NewProject) -> Result<Call, MachineError> {
    let create = sent::ProjectMutation::ProjectCreate(sent::ProjectMutationProjectCreate {
        command_id: project.command.clone(),
        create_workspace_root_if_missing: None,
        default_model_selection: Change::Keep,
        project_id: project.id.clone(),
        title: project.title.clone(),
        workspace_root: project.path.clone(),
    });
    call(PROJECTS, &create)
}

/// Reads the answer of `projects.mutate`.
pub(super) fn read_project(value: &RawValue) -> Result<Project, MachineError> {
    let project: v2::Project = read("the answer to a new project", value.get().as_bytes())?;
    Ok(Project {
        id: project.id,
        title: project.title,
        workspace_root: project.workspace_root,
        default_model: project.default_model_selection.map(selection),
    })
}

/// Reads the answer of `launchThread`; the run is that of the message.
pub(super) fn read_launched(value: &RawValue, message: &MessageId) -> Result<Launched, MachineError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Result {
        thread_id: ThreadId,
        projection: Projection,
        resumed: bool,
    }
    #[derive(Deserialize)]
    struct Projection {
        messages: Vec<Message>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Message {
        id: MessageId,
        run_id: Option<RunId>,
    }
    let result: Result = read("the answer to a launch", value.get().as_bytes())?;
    let run = result
        .projection
        .messages
        .into_iter()
        .find(|known| known.id == *message);
    Ok(Launched {
        thread: result.thread_id,
        run: run.and_then(|message| message.run_id),
        resumed: result.resumed,
    })
}

fn dispatch(command: &sent::Command) -> Result<Call, MachineError> {
    call(DISPATCH, command)
}

pub(in crate::machine::dialect) fn call<T: Serialize>(tag: &'static str, payload: &T) -> Result<Call, MachineError> {
    let payload = to_raw_value(payload)
        .map_err(|error| MachineError::Unsafe(format!("the request {tag} cannot be written: {error}")))?;
    Ok(Call { tag, payload })
}

fn model(selection: &ModelSelection) -> v2::ModelSelection {
    let options = selection.options.iter().map(|(id, value)| v2::ModelOption {
        id: id.clone(),
        value: match value {
            OptionValue::Bool(on) => v2::ModelOptionValue::Boolean(*on),
            OptionValue::Text(text) => v2::ModelOptionValue::String(text.clone()),
        },
    });
    v2::ModelSelection {
        instance_id: selection.instance.clone(),
        model: selection.model.clone(),
        options: (!selection.options.is_empty()).then(|| options.collect()),
    }
}

fn workspace(workspace: &Workspace) -> sent::ThreadLaunchWorkspaceStrategy {
    match workspace {
        Workspace::Root => {
            sent::ThreadLaunchWorkspaceStrategy::Root(v2::ThreadLaunchWorkspaceStrategyRoot { branch: None })
        }
        Workspace::Worktree { base_ref, branch } => {
            sent::ThreadLaunchWorkspaceStrategy::Worktree(v2::ThreadLaunchWorkspaceStrategyWorktree {
                base_ref: base_ref.clone(),
                branch: branch.clone(),
                start_from_origin: None,
            })
        }
        Workspace::ExistingWorktree { path } => {
            sent::ThreadLaunchWorkspaceStrategy::ExistingWorktree(v2::ThreadLaunchWorkspaceStrategyExistingWorktree {
                branch: None,
                worktree_path: path.clone(),
            })
        }
    }
}

fn runtime_mode(mode: RuntimeMode) -> sent::RuntimeMode {
    match mode {
        RuntimeMode::ApprovalRequired => sent::RuntimeMode::ApprovalRequired,
        RuntimeMode::AutoAcceptEdits => sent::RuntimeMode::AutoAcceptEdits,
        RuntimeMode::Auto => sent::RuntimeMode::Auto,
        RuntimeMode::FullAccess => sent::RuntimeMode::FullAccess,
    }
}

fn interaction_mode(mode: InteractionMode) -> sent::ProviderInteractionMode {
    match mode {
        InteractionMode::Default => sent::ProviderInteractionMode::Default,
        InteractionMode::Plan => sent::ProviderInteractionMode::Plan,
    }
}
