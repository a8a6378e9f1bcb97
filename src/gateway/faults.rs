//! From what went wrong below to what a client reads: one table for machines, one for the fleet. A refusal of T3, a machine that was not
//! reached and not knowing never turn into each other here.

use crate::fleet::FleetError;
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::text::quoted;
use crate::machine::MachineError;

impl ToolError {
    /// What a machine's error means to the caller.
    pub fn from_machine(machine: &str, error: &MachineError) -> Self {
        let (code, message, hint) = match error {
            MachineError::Rejected { message, .. } => (
                ErrorCode::OperationRejected,
                format!("T3 on {machine} refused it: {message}"),
                "Nothing was changed. Read the thread (t3_thread) before you try something else.",
            ),
            MachineError::Defect { defect } => (
                ErrorCode::OperationRejected,
                format!("T3 on {machine} could not read the request: {defect}"),
                "Nothing was changed. The gateway and T3 are of versions that do not fit together; tell the operator.",
            ),
            MachineError::ThreadNotFound => (
                ErrorCode::ThreadNotFound,
                format!("T3 on {machine} has no such thread."),
                "Check the thread_id.",
            ),
            MachineError::Unreachable { reason } => (
                ErrorCode::MachineUnreachable,
                format!("{machine} could not be reached, nothing was sent: {reason}"),
                "Try again later; t3_machines shows when it is back.",
            ),
            MachineError::Timeout(after) => (
                ErrorCode::MachineUnreachable,
                format!("{machine} did not answer within {} s.", after.as_secs_f64().ceil()),
                "Try again later; t3_machines shows how it is.",
            ),
            MachineError::AnswerLost { reason } => (
                ErrorCode::OutcomeUnknown,
                format!("The request was sent to {machine} and its answer got lost: {reason}"),
                "It may have happened. Repeat the same call: it finds what was started and starts nothing twice.",
            ),
            MachineError::NeedsPairing { reason } => (
                ErrorCode::NeedsPairing,
                format!("{machine} does not accept the gateway's credential: {reason}"),
                "The operator has to renew it; t3_status says how.",
            ),
            MachineError::InsufficientScope { scope } => (
                ErrorCode::InsufficientScope,
                format!("The gateway's credential on {machine} lacks the scope {scope}."),
                "The operator has to renew it with that scope; t3_status says how.",
            ),
            MachineError::ProtocolUnsupported { message } => {
                (ErrorCode::ProtocolUnsupported, message.clone(), "Tell the operator.")
            }
            MachineError::NotT3 { reason } => (
                ErrorCode::MachineUnreachable,
                format!("What answers at the address of {machine} is not T3: {reason}"),
                "The operator has to correct the machine's url.",
            ),
            MachineError::Decode(path) => (
                ErrorCode::ProtocolUnsupported,
                format!("{machine} sent something that this gateway cannot read: {path}"),
                "The gateway is older than that T3; tell the operator to update it.",
            ),
            MachineError::NeedsNewer(reason) => (
                ErrorCode::OperationRejected,
                format!("T3 on {machine} cannot do this: {reason}."),
                "Nothing was sent.",
            ),
            MachineError::Unsafe(reason) => (
                ErrorCode::OperationRejected,
                format!("It was not sent to {machine}, since T3 would accept it and hang: {reason}"),
                "Nothing was changed.",
            ),
        };
        Self::new(code, sentence(message)).hint(hint).with("machine", machine)
    }

    /// What it means that T3 refused an answer or an interrupt because the request or run was no longer open: its own code, else the
    /// general one.
    pub(super) fn refused_as(machine: &str, error: &MachineError, code: ErrorCode, marks: &[&str]) -> Self {
        let general = Self::from_machine(machine, error);
        match error {
            MachineError::Rejected { message, .. } if marks.iter().any(|mark| message.contains(mark)) => {
                Self { code, ..general }
            }
            _ => general,
        }
    }
}

impl From<FleetError> for ToolError {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::UnknownMachine { name, valid } => Self::new(
                ErrorCode::UnknownMachine,
                format!("There is no machine `{}`.", quoted(&name)),
            )
            .listing("Machines", &valid),
            FleetError::MachineNeeded { valid } if valid.is_empty() => Self::new(
                ErrorCode::UnknownMachine,
                "There is no machine that this client may use.",
            )
            .hint("The operator has to add one to the config."),
            FleetError::MachineNeeded { valid } => Self::new(
                ErrorCode::InvalidRequest,
                "There are several machines: name one as `machine`.",
            )
            .listing("Machines", &valid),
            FleetError::Unreachable { machine, error } => did_not_answer(&machine, &error),
            FleetError::ThreadNotSeen { id, machine, error } => {
                let cause = did_not_answer(&machine, &error);
                Self {
                    message: format!(
                        "The thread `{}` is on no machine that answers; it may be on {machine}. {}",
                        quoted(&id.0),
                        cause.message
                    ),
                    ..cause
                }
            }
            FleetError::ProjectNotFound { name, machine, valid } => Self::new(
                ErrorCode::ProjectNotFound,
                format!("There is no project `{}` on {machine}.", quoted(&name)),
            )
            .listing("Projects", &valid)
            .with("machine", machine),
            FleetError::ProjectAmbiguous { title, candidates } => {
                let listed: Vec<String> = candidates.iter().map(|(id, path)| format!("{id} ({path})")).collect();
                Self::new(
                    ErrorCode::InvalidRequest,
                    format!(
                        "Several projects have the title `{}`: name one by its id or path.",
                        quoted(&title)
                    ),
                )
                .hint(one_of("They are", &listed))
                .with(
                    "valid",
                    candidates
                        .into_iter()
                        .map(|(id, _)| id)
                        .take(LISTED)
                        .collect::<Vec<String>>(),
                )
            }
            FleetError::ThreadNotFound { id, unpaired } => {
                let error = Self::new(
                    ErrorCode::ThreadNotFound,
                    format!("There is no thread `{}`.", quoted(&id.0)),
                );
                if unpaired.is_empty() {
                    return error.hint("Check the thread_id.");
                }
                let names: Vec<&str> = unpaired.iter().take(LISTED).map(String::as_str).collect();
                error.hint(format!(
                    "Check the thread_id. Nobody looked on {}, for want of a credential; t3_status says how the operator gives one.",
                    names.join(", ")
                ))
            }
        }
    }
}

/// A machine was needed and did not answer.
fn did_not_answer(machine: &str, error: &MachineError) -> ToolError {
    let cause = ToolError::from_machine(machine, error);
    let code = match cause.code {
        // The machine could have said no such thread of its own; here it did not answer at all.
        ErrorCode::ThreadNotFound | ErrorCode::OperationRejected | ErrorCode::OutcomeUnknown => {
            ErrorCode::MachineUnreachable
        }
        other => other,
    };
    ToolError { code, ..cause }
}

impl ToolError {
    /// With the names that would have been right, in words and for programs; not more than can be read.
    #[must_use]
    pub(super) fn listing(self, what: &str, names: &[String]) -> Self {
        let shown: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
        self.hint(one_of(what, names)).with("valid", shown)
    }
}

/// Reasons come from below as parts of sentences, and from T3 as whole ones.
fn sentence(mut text: String) -> String {
    if !text.ends_with(['.', '!', '?', '…']) {
        text.push('.');
    }
    text
}

/// How many names an error lists.
const LISTED: usize = 40;

/// A hint that lists names.
pub(super) fn one_of(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        return format!("{what}: none.");
    }
    let shown: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    match names.len().saturating_sub(LISTED) {
        0 => format!("{what}: {}.", shown.join(", ")),
        more => format!("{what}: {} and {more} more.", shown.join(", ")),
    }
}
