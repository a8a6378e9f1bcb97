//! The remote procedures: what each is called, which schema and scope it wants, and what it answers.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::protocol::decode;
use crate::protocol::rpc::{Cause, Exit};
use crate::protocol::v2::{DispatchCommandResult, sent};

use super::auth::{OPERATE, READ, Session};
use super::host::Host;
use super::model::ProjectError;
use super::older;
use super::streams::{Ask, ConfigStream, ShellStream, Stream, ThreadStream};
use super::validate::{Shape, check};

/// What servers before the version gate do not have.
const SCRATCH: &str = "projects.ensureScratch";

/// What a search takes, and how much it tells at most.
const SEARCH_CHARS: std::ops::RangeInclusive<usize> = 2..=200;
const SEARCH_LIMIT: usize = 50;

/// What a call comes to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// An end.
    Done(Exit),
    /// The end of a command, whose answer a fault may lose.
    Command(Exit),
    /// A stream, which ends only by an interrupt.
    Stream(Stream),
}

/// A procedure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Procedure {
    Dispatch,
    Launch,
    Shell,
    ArchivedShell,
    Thread,
    Projection,
    ArchivedSnapshot,
    Search,
    TurnDiff,
    ThreadDiff,
    Scratch,
    Projects,
    Config,
    ConfigStream,
    Probe,
    Terminal,
}

/// Name, procedure, schema of the payload, scope.
const PROCEDURES: &[(&str, Procedure, Shape, Option<&str>)] = &[
    (
        "orchestration.dispatchCommand",
        Procedure::Dispatch,
        Shape::Tagged("Command"),
        Some(OPERATE),
    ),
    (
        "orchestration.launchThread",
        Procedure::Launch,
        Shape::Definition("ThreadLaunchInput"),
        Some(OPERATE),
    ),
    (
        "orchestration.subscribeShell",
        Procedure::Shell,
        Shape::Definition("SubscribeShellInput"),
        Some(READ),
    ),
    (
        "orchestration.subscribeArchivedShell",
        Procedure::ArchivedShell,
        Shape::Definition("SubscribeShellInput"),
        Some(READ),
    ),
    (
        "orchestration.subscribeThread",
        Procedure::Thread,
        Shape::Definition("SubscribeThreadInput"),
        Some(READ),
    ),
    (
        "orchestration.getThreadProjection",
        Procedure::Projection,
        Shape::Texts(&["threadId"]),
        Some(READ),
    ),
    (
        "orchestration.getArchivedShellSnapshot",
        Procedure::ArchivedSnapshot,
        Shape::Texts(&[]),
        Some(READ),
    ),
    (
        "orchestration.searchThreads",
        Procedure::Search,
        Shape::Texts(&["query"]),
        Some(READ),
    ),
    (
        "orchestration.getTurnDiff",
        Procedure::TurnDiff,
        Shape::Texts(&["threadId"]),
        Some(READ),
    ),
    (
        "orchestration.getFullThreadDiff",
        Procedure::ThreadDiff,
        Shape::Texts(&["threadId"]),
        Some(READ),
    ),
    (SCRATCH, Procedure::Scratch, Shape::Texts(&[]), Some(OPERATE)),
    (
        "projects.mutate",
        Procedure::Projects,
        Shape::Tagged("ProjectMutation"),
        Some(OPERATE),
    ),
    ("server.getConfig", Procedure::Config, Shape::Texts(&[]), None),
    (
        "subscribeServerConfig",
        Procedure::ConfigStream,
        Shape::Texts(&[]),
        Some(READ),
    ),
    ("server.probe", Procedure::Probe, Shape::Texts(&[]), None),
    (
        "terminal.open",
        Procedure::Terminal,
        Shape::Texts(&["threadId", "terminalId", "cwd"]),
        Some("terminal:operate"),
    ),
];

pub(super) fn success(value: &impl Serialize) -> Exit {
    Exit::success(value).unwrap_or_else(|error| die(&error.to_string()))
}

pub(super) fn fail(error: &impl Serialize) -> Exit {
    Exit::fail(error).unwrap_or_else(|error| die(&error.to_string()))
}

/// A failure that the procedure does not declare.
pub(super) fn die(words: &str) -> Exit {
    Exit::die(words).unwrap_or(Exit::Failure(Vec::new()))
}

/// The end of a call that its client interrupted.
pub(crate) fn interrupted(fiber: u64) -> Exit {
    Exit::Failure(vec![Cause::Interrupt { fiber_id: Some(fiber) }])
}

/// Reads a payload as the type that is generated from its schema.
fn read<T: DeserializeOwned>(payload: &Value) -> Result<T, String> {
    decode(payload.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Calls a procedure. The payload is judged before the scope.
pub(crate) fn call(host: &Arc<Host>, session: &Session, tag: &str, payload: &Value) -> Outcome {
    if host.read().older.is_some() {
        return older::call(host, session, tag, payload);
    }
    let known = PROCEDURES
        .iter()
        .find(|(name, ..)| *name == tag && host.has(name) && (host.gate || *name != SCRATCH));
    let Some((_, procedure, shape, scope)) = known else {
        return Outcome::Done(die(&format!("Unknown request tag: {tag}")));
    };
    if let Err(words) = check(*shape, payload, host.gate) {
        return Outcome::Done(die(&words));
    }
    if let Some(scope) = scope.filter(|scope| !session.may(scope)) {
        return Outcome::Done(fail(&json!({
            "_tag": "EnvironmentAuthorizationError",
            "message": format!("The authenticated token is missing required scope: {scope}."),
            "requiredScope": scope,
        })));
    }
    answer(host, *procedure, payload).unwrap_or_else(|words| Outcome::Done(die(&words)))
}

/// What a procedure answers to a payload that fits its schema; or why the generated type does not take it.
fn answer(host: &Arc<Host>, procedure: Procedure, payload: &Value) -> Result<Outcome, String> {
    let text = |field: &str| payload.get(field).and_then(Value::as_str).unwrap_or_default();
    Ok(match procedure {
        Procedure::Dispatch => {
            let _: sent::Command = read(payload)?;
            Outcome::Command(dispatch(host, payload))
        }
        Procedure::Launch => {
            let _: sent::ThreadLaunchInput = read(payload)?;
            Outcome::Command(launch(host, payload))
        }
        Procedure::Shell | Procedure::ArchivedShell => {
            let input: sent::SubscribeShellInput = read(payload)?;
            let archive = procedure == Procedure::ArchivedShell;
            Outcome::Stream(Stream::Shell(ShellStream::open(host, archive, Ask::from(&input))))
        }
        Procedure::Thread => {
            let input: sent::SubscribeThreadInput = read(payload)?;
            match ThreadStream::open(host, &input.thread_id.0, Ask::from(&input)) {
                Some(stream) => Outcome::Stream(Stream::Thread(stream)),
                None => Outcome::Done(fail(&no_projection(&input.thread_id.0))),
            }
        }
        Procedure::Projection => Outcome::Done(projection(host, text("threadId"))),
        Procedure::ArchivedSnapshot => Outcome::Done(success(&host.read().model.archived_shell())),
        Procedure::Search => {
            let query = text("query");
            if !SEARCH_CHARS.contains(&query.trim().chars().count()) {
                return Err("Expected a value with a length between 2 and 200\n  at [\"query\"]".to_owned());
            }
            let limit = payload.get("limit").and_then(Value::as_u64);
            let limit = limit
                .and_then(|limit| usize::try_from(limit).ok())
                .unwrap_or(SEARCH_LIMIT);
            Outcome::Done(success(&host.read().model.search(query, limit.min(SEARCH_LIMIT))))
        }
        Procedure::TurnDiff | Procedure::ThreadDiff => {
            let number = |field: &str| payload.get(field).and_then(Value::as_u64);
            let to = number("toTurnCount").ok_or("Missing key\n  at [\"toTurnCount\"]")?;
            let from = match procedure {
                Procedure::TurnDiff => number("fromTurnCount").ok_or("Missing key\n  at [\"fromTurnCount\"]")?,
                _ => 0,
            };
            Outcome::Done(diff(host, text("threadId"), from, to))
        }
        Procedure::Scratch => Outcome::Done(scratch(host)),
        Procedure::Projects => {
            let _: sent::ProjectMutation = read(payload)?;
            Outcome::Command(mutate(host, payload))
        }
        Procedure::Config => Outcome::Done(config(host)),
        Procedure::ConfigStream => Outcome::Stream(Stream::Config(ConfigStream::open(host))),
        Procedure::Probe => Outcome::Done(success(&json!({}))),
        Procedure::Terminal => Outcome::Done(die("Terminals are not simulated.")),
    })
}

fn dispatch(host: &Host, command: &Value) -> Exit {
    let outcome = host.change(|state, now| {
        state.received.push(command.clone());
        state.model.handle_command(now, command)
    });
    match outcome {
        Ok(sequence) => success(&DispatchCommandResult { sequence }),
        Err(refusal) => fail(&refusal.to_json()),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Launched<'a> {
    thread_id: &'a str,
    projection: &'a serde_json::value::RawValue,
    resumed: bool,
}

fn launch(host: &Host, input: &Value) -> Exit {
    let outcome = host.change(|state, now| {
        state.received.push(input.clone());
        let (ix, resumed) = state.model.handle_launch(now, input)?;
        let id = state.model.thread_id(ix).unwrap_or_default().to_owned();
        Ok::<_, Value>((id, state.model.projection(ix), resumed))
    });
    match outcome {
        Ok((thread_id, Some((_, projection)), resumed)) => success(&Launched {
            thread_id: &thread_id,
            projection: &projection,
            resumed,
        }),
        Ok((thread_id, None, _)) => fail(&no_projection(&thread_id)),
        Err(error) => fail(&error),
    }
}

fn no_projection(thread: &str) -> Value {
    json!({
        "_tag": "OrchestrationV2GetThreadProjectionError",
        "threadId": thread,
        "message": format!("Failed to load orchestration V2 thread {thread}"),
        "cause": {
            "name": "OrchestratorProjectionError",
            "message": format!("Failed to load orchestration projection for thread {thread}."),
            "cause": {
                "name": "ProjectionStoreThreadNotFoundError",
                "message": format!("No orchestration projection exists for thread {thread}."),
            },
        },
    })
}

fn projection(host: &Host, thread: &str) -> Exit {
    let state = host.read();
    let found = state.model.find(thread).and_then(|ix| state.model.projection(ix));
    match found {
        Some((_, projection)) => success(&projection),
        None => fail(&no_projection(thread)),
    }
}

fn diff(host: &Host, thread: &str, from: u64, to: u64) -> Exit {
    let state = host.read();
    let found = state.model.find(thread).and_then(|ix| state.model.diff(ix, from, to));
    match found {
        Some(diff) => success(&json!({
            "threadId": thread,
            "fromTurnCount": from,
            "toTurnCount": to,
            "diff": diff,
        })),
        None => fail(&json!({
            "_tag": "OrchestrationV2GetTurnDiffError",
            "message": "Failed to load the turn diff.",
        })),
    }
}

fn scratch(host: &Host) -> Exit {
    match host.change(|state, now| state.model.handle_scratch(now)) {
        Ok(project) => success(&json!({ "projectId": project })),
        Err(error) => fail(&json!({
            "_tag": "ProjectMutationError",
            "message": project_words(error, &Value::Null),
        })),
    }
}

fn mutate(host: &Host, mutation: &Value) -> Exit {
    match host.change(|state, now| state.model.handle_project(now, mutation, true)) {
        Ok(project) => success(&project),
        Err(error) => fail(&json!({
            "_tag": "ProjectMutationError",
            "message": project_words(error, mutation),
        })),
    }
}

fn project_words(error: ProjectError, mutation: &Value) -> String {
    let text = |field: &str| mutation.get(field).and_then(Value::as_str).unwrap_or_default();
    match error {
        ProjectError::RootTaken => format!("Another project uses {}.", text("workspaceRoot")),
        ProjectError::NoFolder => format!("There is no folder {}.", text("workspaceRoot")),
        ProjectError::NotFound => "Project not found.".to_owned(),
        ProjectError::NotEmpty => format!("Project {} is not empty.", text("projectId")),
    }
}

fn config(host: &Host) -> Exit {
    success(&host.config())
}
