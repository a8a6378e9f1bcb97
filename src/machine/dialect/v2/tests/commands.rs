//! Commands, word by word as T3 takes them.

use serde_json::{Value, json};

use super::raw;
use crate::machine::dialect::{Call, Dialect, Protocol2};
use crate::machine::domain::{
    Answer, DispatchMode, InteractionMode, Launch, ModelSelection, OptionValue, Respond, RuntimeMode, SendMessage,
    Workspace,
};
use crate::machine::error::MachineError;
use crate::protocol::{CommandId, MessageId, ProjectId, ProviderInstanceId, RunId, RuntimeRequestId, ThreadId};

fn command() -> CommandId {
    CommandId("c".to_owned())
}

fn a_launch() -> Launch {
    Launch {
        command: command(),
        thread: ThreadId("t".to_owned()),
        message: MessageId("m".to_owned()),
        project: ProjectId("p".to_owned()),
        title: "Title".to_owned(),
        generate_title: false,
        text: "do it".to_owned(),
        model: ModelSelection {
            instance: ProviderInstanceId("codex".to_owned()),
            model: "gpt".to_owned(),
            options: vec![
                ("effort".to_owned(), OptionValue::Text("high".to_owned())),
                ("fast".to_owned(), OptionValue::Bool(true)),
            ],
        },
        runtime_mode: RuntimeMode::FullAccess,
        interaction_mode: InteractionMode::Default,
        workspace: Workspace::Worktree {
            base_ref: "main".to_owned(),
            branch: None,
        },
    }
}

fn sent(call: &Call) -> (&str, Value) {
    (call.tag, serde_json::from_str(call.payload.get()).unwrap())
}

#[test]
fn a_launch_says_that_it_comes_from_mcp_and_leaves_absent_things_out() {
    let call = Protocol2.launch(&a_launch()).unwrap();
    let expected = json!({
        "commandId": "c", "threadId": "t", "projectId": "p", "title": "Title", "creationSource": "mcp",
        "modelSelection": {"instanceId": "codex", "model": "gpt", "options": [{"id": "effort", "value": "high"}, {"id": "fast", "value": true}]},
        "runtimeMode": "full-access", "interactionMode": "default",
        "workspaceStrategy": {"type": "worktree", "baseRef": "main"},
        "initialMessage": {"messageId": "m", "text": "do it", "attachments": []},
    });
    assert_eq!(sent(&call), ("orchestration.launchThread", expected));
}

#[test]
fn a_launch_in_steps_has_command_ids_of_its_own_that_a_repetition_repeats() {
    let launch = Launch {
        workspace: Workspace::Root,
        ..a_launch()
    };
    let [create, message] = Protocol2.launch_in_steps(&launch).unwrap();
    let model = json!({"instanceId": "codex", "model": "gpt", "options": [{"id": "effort", "value": "high"}, {"id": "fast", "value": true}]});
    let expected = json!({
        "type": "thread.create", "commandId": "c:create", "threadId": "t", "projectId": "p", "title": "Title",
        "modelSelection": model, "runtimeMode": "full-access", "interactionMode": "default",
        "branch": null, "worktreePath": null, "createdBy": "user", "creationSource": "mcp",
    });
    assert_eq!(sent(&create), ("orchestration.dispatchCommand", expected));
    let expected = json!({
        "type": "message.dispatch", "commandId": "c:message", "threadId": "t", "messageId": "m", "text": "do it",
        "attachments": [], "createdBy": "user", "creationSource": "mcp", "dispatchMode": {"type": "start_immediately"},
    });
    assert_eq!(sent(&message), ("orchestration.dispatchCommand", expected));

    // Without launchThread nobody makes the worktree, and a deferred run would wait for ever.
    assert!(matches!(
        Protocol2.launch_in_steps(&a_launch()),
        Err(MachineError::Unsafe(_))
    ));
}

#[test]
fn an_answer_carries_the_one_field_of_its_kind() {
    let respond = |answer| Respond {
        command: command(),
        thread: ThreadId("t".to_owned()),
        request: RuntimeRequestId("r".to_owned()),
        answer,
    };
    let base = |kind: &str| json!({"type": kind, "commandId": "c", "threadId": "t", "requestId": "r"});
    let with = |field: &str, value: Value| {
        let mut command = base("runtime-request.respond");
        command[field] = value;
        command
    };
    let payload = |answer| sent(&Protocol2.respond(&respond(answer)).unwrap()).1;

    assert_eq!(
        payload(Answer::Decision("acceptForSession".to_owned())),
        with("decision", json!("acceptForSession"))
    );
    let answers = json!({"q1": "yes", "q2": ["a", "b"]});
    let Value::Object(map) = answers.clone() else { panic!() };
    assert_eq!(payload(Answer::Answers(map)), with("answers", answers));
    assert_eq!(payload(Answer::Dismiss), base("thread.user-input.dismiss"));

    let unknown = Protocol2.respond(&respond(Answer::Decision("perhaps".to_owned())));
    assert!(matches!(unknown, Err(MachineError::Unsafe(message)) if message.contains("acceptForSession")));
}

#[test]
fn messages_name_what_to_do_with_an_active_run() {
    let run = || RunId("r".to_owned());
    let modes = [
        (DispatchMode::Start, json!({"type": "start_immediately"})),
        (DispatchMode::Queue, json!({"type": "queue_after_active"})),
        (
            DispatchMode::Steer(run()),
            json!({"type": "steer_active", "targetRunId": "r"}),
        ),
        (
            DispatchMode::Restart(run()),
            json!({"type": "restart_active", "targetRunId": "r"}),
        ),
    ];
    for (mode, expected) in modes {
        let message = SendMessage {
            command: command(),
            thread: ThreadId("t".to_owned()),
            message: MessageId("m".to_owned()),
            text: "and then".to_owned(),
            model: None,
            mode,
        };
        let (_, payload) = sent(&Protocol2.send_message(&message).unwrap()).clone();
        assert_eq!(payload["dispatchMode"], expected);
        assert!(payload.get("modelSelection").is_none() && payload.get("titleSeed").is_none());
    }
}

#[test]
fn small_commands_are_as_t3_takes_them() {
    let (thread, run) = (ThreadId("t".to_owned()), RunId("r".to_owned()));
    let payload = |call: Result<Call, MachineError>| sent(&call.unwrap()).1;
    assert_eq!(
        payload(Protocol2.interrupt(&command(), &thread, &run, false, None)),
        json!({"type": "run.interrupt", "commandId": "c", "threadId": "t", "runId": "r"})
    );
    assert_eq!(
        payload(Protocol2.interrupt(&command(), &thread, &run, true, None)),
        json!({"type": "run.interrupt", "commandId": "c", "threadId": "t", "runId": "r", "holdQueue": true})
    );
    assert_eq!(
        payload(Protocol2.cancel_queued(&command(), &thread, &run)),
        json!({"type": "queued-run.cancel", "commandId": "c", "threadId": "t", "runId": "r"})
    );
    assert_eq!(
        payload(Protocol2.promote_queued(&command(), &thread, &run, &RunId("a".to_owned()))),
        json!({"type": "queued-message.promote-to-steer", "commandId": "c", "threadId": "t", "queuedRunId": "r", "targetRunId": "a"})
    );
    assert_eq!(
        payload(Protocol2.resume_queue(&command(), &thread)),
        json!({"type": "queue.resume", "commandId": "c", "threadId": "t"})
    );
    assert_eq!(
        payload(Protocol2.set_runtime_mode(&command(), &thread, RuntimeMode::Auto)),
        json!({"type": "thread.runtime-mode.set", "commandId": "c", "threadId": "t", "runtimeMode": "auto"})
    );
    assert_eq!(
        payload(Protocol2.set_interaction_mode(&command(), &thread, InteractionMode::Plan)),
        json!({"type": "thread.interaction-mode.set", "commandId": "c", "threadId": "t", "interactionMode": "plan"})
    );
}

#[test]
fn a_launch_answers_with_the_run_of_its_message() {
    let answer = raw(&json!({
        "threadId": "t", "resumed": true,
        "projection": {"messages": [{"id": "m", "runId": "run:1", "role": "user"}, {"id": "x", "runId": null}], "nodes": []},
    }));
    let launched = Protocol2.read_launched(&answer, &MessageId("m".to_owned())).unwrap();
    assert_eq!(
        (launched.run, launched.resumed),
        (Some(RunId("run:1".to_owned())), true)
    );
}

/// The queue's commands as a client of T3's sent them, and T3 took them.
#[test]
fn the_recorded_commands_of_a_queue_are_written_alike() {
    let mut seen = Vec::new();
    for line in crate::machine::recordings::lines("04-queue-steer-interrupt") {
        let payload = &line["body"]["payload"];
        let id = |field: &str| payload[field].as_str().unwrap_or_default().to_owned();
        let (command, thread) = (CommandId(id("commandId")), ThreadId(id("threadId")));
        let call = match payload["type"].as_str() {
            Some("queued-run.cancel") => Protocol2.cancel_queued(&command, &thread, &RunId(id("runId"))),
            Some("queued-message.promote-to-steer") => {
                let (queued, target) = (RunId(id("queuedRunId")), RunId(id("targetRunId")));
                Protocol2.promote_queued(&command, &thread, &queued, &target)
            }
            Some("run.interrupt") if payload.get("reason").is_none() => {
                Protocol2.interrupt(&command, &thread, &RunId(id("runId")), false, None)
            }
            _ => continue,
        };
        assert_eq!(sent(&call.unwrap()).1, *payload);
        seen.push(id("type"));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(
        seen,
        ["queued-message.promote-to-steer", "queued-run.cancel", "run.interrupt"]
    );
}
