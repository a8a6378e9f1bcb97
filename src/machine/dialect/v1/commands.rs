//! Commands as protocol 1 takes them. They go over the socket alone: over HTTP T3 hides why it refused.

use jiff::Timestamp;

use super::{Call, v2};
use crate::lifecycle::{RequestClass, RunObservation, classify_request, observe_run};
use crate::machine::domain::{
    Answer, DispatchMode, InteractionMode, Launch, ModelSelection, NewProject, OptionValue, Respond, RuntimeMode,
    SendMessage, Thread, Workspace,
};
use crate::machine::error::MachineError;
use crate::protocol::v1::{self, sent};
use crate::protocol::{CommandId, RunId, ThreadId};

const DISPATCH: &str = "orchestration.dispatchCommand";

/// Protocol 1 does not have it: which T3 does.
pub(super) fn lacks(what: &str) -> MachineError {
    MachineError::NeedsNewer(format!(
        "it speaks orchestration protocol 1, in which {what}; a T3 Code that speaks protocol 2 (its releases after 0.0.33) can"
    ))
}

/// `thread.create` and `thread.turn.start`. The command ids derive from the launch's, so that a repetition of the launch repeats them.
pub(super) fn launch_in_steps(launch: &Launch) -> Result<[Call; 2], MachineError> {
    let worktree_path = match &launch.workspace {
        Workspace::Root => None,
        Workspace::ExistingWorktree { path } => Some(path.clone()),
        Workspace::Worktree { .. } => {
            return Err(lacks("a new thread cannot be given a worktree of its own safely"));
        }
    };
    let create = sent::Command::ThreadCreate(sent::CommandThreadCreate {
        branch: None,
        command_id: command_id(&CommandId(format!("{}:create", launch.command))),
        created_at: now(),
        interaction_mode: Some(interaction_mode(launch.interaction_mode)),
        model_selection: model(&launch.model),
        project_id: v1::ProjectId(launch.project.0.clone()),
        runtime_mode: runtime_mode(launch.runtime_mode),
        thread_id: thread_id(&launch.thread),
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
    let title_seed = launch.generate_title.then(|| launch.title.clone());
    Ok([dispatch(&create)?, message_with(&message, title_seed)?])
}

pub(super) fn send_message(message: &SendMessage) -> Result<Call, MachineError> {
    message_with(message, None)
}

/// The modes are demanded and ignored: those of the thread apply.
fn message_with(message: &SendMessage, title_seed: Option<String>) -> Result<Call, MachineError> {
    match &message.mode {
        DispatchMode::Start => {}
        DispatchMode::Queue => {
            return Err(lacks(
                "a busy thread has no queue: it would take the message into its turn",
            ));
        }
        DispatchMode::Steer(_) | DispatchMode::Restart(_) => {
            return Err(lacks("a turn cannot be steered or restarted"));
        }
    }
    dispatch(&sent::Command::ThreadTurnStart(sent::CommandThreadTurnStart {
        bootstrap: None,
        command_id: command_id(&message.command),
        created_at: now(),
        interaction_mode: sent::ProviderInteractionMode::Default,
        message: sent::CommandThreadTurnStartMessage {
            attachments: Vec::new(),
            message_id: v1::MessageId(message.message.0.clone()),
            role: sent::CommandThreadTurnStartMessageRole::User,
            text: message.text.clone(),
        },
        model_selection: message.model.as_ref().map(model),
        runtime_mode: sent::RuntimeMode::ApprovalRequired,
        source_proposed_plan: None,
        thread_id: thread_id(&message.thread),
        title_seed,
    }))
}

pub(super) fn respond(respond: &Respond) -> Result<Call, MachineError> {
    let request_id = v1::ApprovalRequestId(respond.request.0.clone());
    dispatch(&match &respond.answer {
        Answer::Decision(word) => {
            let Some(decision) = sent::ProviderApprovalDecision::parse(word) else {
                return Err(MachineError::Unsafe(format!(
                    "`{word}` is no decision that T3 of orchestration protocol 1 knows; it takes {}",
                    sent::ProviderApprovalDecision::WORDS.join(", ")
                )));
            };
            sent::Command::ThreadApprovalRespond(sent::CommandThreadApprovalRespond {
                command_id: command_id(&respond.command),
                created_at: now(),
                decision,
                request_id,
                thread_id: thread_id(&respond.thread),
            })
        }
        Answer::Answers(answers) => sent::Command::ThreadUserInputRespond(sent::CommandThreadUserInputRespond {
            answers: v1::ProviderUserInputAnswers(answers.clone()),
            command_id: command_id(&respond.command),
            created_at: now(),
            request_id,
            thread_id: thread_id(&respond.thread),
        }),
        Answer::Dismiss => return Err(lacks("a question cannot be closed without an answer")),
    })
}

/// An interrupt of the turn that works. While a request is open it would block the whole server for good, and before the turn has begun it is
/// lost: then the session is stopped, which ends the turn for certain and costs the agent a start.
pub(super) fn interrupt(
    command: &CommandId,
    thread: &ThreadId,
    run: &RunId,
    hold_queue: bool,
    shown: Option<&Thread>,
) -> Result<Call, MachineError> {
    if hold_queue {
        return Err(lacks("there is no queue that could be held"));
    }
    let turn = shown.and_then(|shown| active_turn(shown, run));
    let asks = shown.is_none_or(asks);
    match turn {
        Some(turn) if !asks => dispatch(&sent::Command::ThreadTurnInterrupt(sent::CommandThreadTurnInterrupt {
            command_id: command_id(command),
            created_at: now(),
            thread_id: thread_id(thread),
            turn_id: Some(v1::TurnId(turn.to_owned())),
        })),
        Some(_) | None => stop_session(command, thread),
    }
}

/// The turn that works for the run.
fn active_turn<'a>(shown: &'a Thread, run: &RunId) -> Option<&'a str> {
    let works = |run: &RunId| {
        let mut runs = shown.facts.runs.iter();
        runs.any(|fact| fact.id == *run && observe_run(&fact.status) == RunObservation::Running)
    };
    let (of, turn) = shown.active_turn.as_ref()?;
    (of == run && works(run)).then_some(turn.as_str())
}

/// A request is open that its agent waits for.
fn asks(shown: &Thread) -> bool {
    shown.facts.requests.iter().any(|request| {
        let holds = !matches!(classify_request(&request.kind), RequestClass::None);
        holds && request.status == "pending"
    })
}

pub(super) fn stop_session(command: &CommandId, thread: &ThreadId) -> Result<Call, MachineError> {
    dispatch(&sent::Command::ThreadSessionStop(sent::CommandThreadSessionStop {
        command_id: command_id(command),
        created_at: now(),
        thread_id: thread_id(thread),
    }))
}

pub(super) fn set_runtime_mode(
    command: &CommandId,
    thread: &ThreadId,
    mode: RuntimeMode,
) -> Result<Call, MachineError> {
    dispatch(&sent::Command::ThreadRuntimeModeSet(
        sent::CommandThreadRuntimeModeSet {
            command_id: command_id(command),
            created_at: now(),
            runtime_mode: runtime_mode(mode),
            thread_id: thread_id(thread),
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
            command_id: command_id(command),
            created_at: now(),
            interaction_mode: interaction_mode(mode),
            thread_id: thread_id(thread),
        },
    ))
}

pub(super) fn set_archived(command: &CommandId, thread: &ThreadId, archived: bool) -> Result<Call, MachineError> {
    let (command_id, thread_id) = (command_id(command), thread_id(thread));
    dispatch(&if archived {
        sent::Command::ThreadArchive(sent::CommandThreadArchive { command_id, thread_id })
    } else {
        sent::Command::ThreadUnarchive(sent::CommandThreadUnarchive { command_id, thread_id })
    })
}

/// Never with `createWorkspaceRootIfMissing`: a path with a slip of the pen in it would become a folder.
pub(super) fn create_project(project: &NewProject) -> Result<Call, MachineError> {
    dispatch(&sent::Command::ProjectCreate(sent::ProjectCreateCommand {
        command_id: command_id(&project.command),
        create_workspace_root_if_missing: None,
        created_at: now(),
        default_model_selection: crate::protocol::Change::Keep,
        project_id: v1::ProjectId(project.id.0.clone()),
        title: project.title.clone(),
        workspace_root: project.path.clone(),
    }))
}

fn dispatch(command: &sent::Command) -> Result<Call, MachineError> {
    v2::call(DISPATCH, command)
}

/// What every command has to name, and T3 overwrites with its own clock's time.
fn now() -> String {
    Timestamp::now().to_string()
}

fn command_id(id: &CommandId) -> v1::CommandId {
    v1::CommandId(id.0.clone())
}

fn thread_id(id: &ThreadId) -> v1::ThreadId {
    v1::ThreadId(id.0.clone())
}

fn model(selection: &ModelSelection) -> v1::ModelSelection {
    let options = selection
        .options
        .iter()
        .map(|(id, value)| v1::ModelSelectionOptionsItem {
            id: id.clone(),
            value: match value {
                OptionValue::Bool(on) => v1::ModelSelectionOptionsItemValue::Boolean(*on),
                OptionValue::Text(text) => v1::ModelSelectionOptionsItemValue::String(text.clone()),
            },
        });
    v1::ModelSelection {
        instance_id: v1::ProviderInstanceId(selection.instance.0.clone()),
        model: selection.model.clone(),
        options: (!selection.options.is_empty()).then(|| options.collect()),
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
