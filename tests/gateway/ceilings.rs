//! The ceiling on every way in: each mode against each, wherever the ceiling comes from.

use serde_json::json;
use t3code_mcp::fleet::{Limits, Rules};
use t3code_mcp::gateway::{
    AnswerArgs, Caller, DispatchAnswer, DispatchArgs, DispatchManyArgs, ErrorCode, GatewaySettings, Mode, ToolError,
    WhenBusy,
};
use t3code_mcp::machine::RuntimeMode;
use t3code_mcp::protocol::ThreadId;
use t3code_mcp::simulator::{Simulator, SimulatorOptions, Timing};

use crate::support::*;

const MODES: [Mode; 4] = [
    Mode::ApprovalRequired,
    Mode::AutoAcceptEdits,
    Mode::Auto,
    Mode::FullAccess,
];

/// Where a ceiling is set.
#[derive(Clone, Copy, Debug)]
enum Set {
    OnTheMachine,
    ForTheClient,
    /// Each sets one, and the lower one counts.
    OnBoth,
}

async fn quick(gate: bool) -> Simulator {
    let mut options = SimulatorOptions {
        gate,
        ..SimulatorOptions::default()
    };
    options.model.timing = Timing::fast();
    Simulator::start(options).await.unwrap()
}

/// A gateway with that ceiling and that default, and its caller.
async fn under(simulator: &Simulator, set: Set, ceiling: RuntimeMode, default: Option<RuntimeMode>) -> (House, Caller) {
    let (machine, client) = match set {
        Set::OnTheMachine => (Some(ceiling), None),
        Set::ForTheClient => (None, Some(ceiling)),
        Set::OnBoth => (Some(RuntimeMode::Auto), Some(ceiling)),
    };
    let rules = Rules {
        max_runtime_mode: machine,
        runtime_mode: default,
        ..rules(&["*"])
    };
    let limits = Limits {
        max_runtime_mode: client,
        ..Limits::default()
    };
    let house = house_of(
        vec![(settings("mac", &simulator.url()), rules)],
        GatewaySettings::default(),
    );
    house.online("mac").await;
    (house, limited(limits))
}

/// What counts of the ceilings.
fn effective(set: Set, ceiling: RuntimeMode) -> RuntimeMode {
    match set {
        Set::OnTheMachine | Set::ForTheClient => ceiling,
        Set::OnBoth => ceiling.min(RuntimeMode::Auto),
    }
}

async fn dispatch(house: &House, caller: &Caller, args: DispatchArgs) -> Result<DispatchAnswer, ToolError> {
    // Each is a call of its own.
    let caller = Caller {
        delivery: Caller::default().delivery,
        ..caller.clone()
    };
    let answer = house.gateway.dispatch(&caller, args).await;
    caller.delivery.answered();
    answer
}

async fn dispatch_many(house: &House, caller: &Caller, args: DispatchArgs) -> Result<DispatchAnswer, ToolError> {
    let many = DispatchManyArgs {
        items: vec![args],
        request_id: None,
    };
    let mut answer = house.gateway.dispatch_many(caller, many).await?;
    let item = answer.results.remove(0);
    item.ok.ok_or_else(|| item.error.unwrap())
}

/// An idle thread of that mode, made without any ceiling.
async fn idle(open: &House, mode: Mode) -> String {
    let asked = DispatchArgs {
        runtime_mode: Some(mode),
        ..prompt("say made")
    };
    let thread = open.dispatch(asked).await.unwrap().thread_id;
    open.ended(&thread).await;
    thread
}

/// It was done in that mode, or refused where that is above the ceiling.
fn holds(what: &str, answer: Result<DispatchAnswer, ToolError>, mode: RuntimeMode, ceiling: RuntimeMode) {
    match answer {
        Ok(answer) => {
            assert_eq!(answer.runtime_mode, mode.as_str(), "{what}");
            assert!(mode <= ceiling, "{what}");
        }
        Err(error) => {
            assert_eq!(error.code, ErrorCode::RuntimeModeEscalationDenied, "{what}: {error}");
            assert_eq!(error.extra["max_runtime_mode"], ceiling.as_str(), "{what}");
            assert!(mode > ceiling, "{what}: {error}");
        }
    }
}

async fn every_mode_under(set: Set) {
    let simulator = quick(false).await;
    let open = house(&simulator).await;
    let mut own = Vec::new();
    for mode in MODES {
        own.push(idle(&open, mode).await);
    }
    for ceiling in MODES.map(RuntimeMode::from) {
        let (house, caller) = under(&simulator, set, ceiling, None).await;
        let most = effective(set, ceiling);
        for (asked, thread) in MODES.into_iter().zip(&own) {
            let mode = RuntimeMode::from(asked);
            let what = |way: &str| format!("{way}: {mode} under {ceiling} {set:?}");
            let new = DispatchArgs {
                runtime_mode: Some(asked),
                ..prompt("say new")
            };
            holds(&what("new"), dispatch(&house, &caller, new.clone()).await, mode, most);
            holds(
                &what("one of many"),
                dispatch_many(&house, &caller, new).await,
                mode,
                most,
            );

            // A thread goes on in its own mode, however it is sent on.
            for when_busy in [WhenBusy::Reject, WhenBusy::Queue, WhenBusy::Steer, WhenBusy::Restart] {
                let going_on = dispatch(&house, &caller, more(thread, "say on", when_busy)).await;
                let done = going_on.is_ok();
                holds(&what("going on"), going_on, mode, most);
                if done {
                    // By the eyes that sent it: others may see it later.
                    house.ended(thread).await;
                }
            }
            // Or in the one that is asked for, whatever its own is.
            let other = idle(&open, Mode::FullAccess).await;
            let changed = DispatchArgs {
                runtime_mode: Some(asked),
                ..more(&other, "say changed", WhenBusy::Reject)
            };
            let changed = dispatch(&house, &caller, changed).await;
            let (done, refused) = (changed.is_ok(), changed.is_err());
            holds(&what("changed"), changed, mode, most);
            let view = house.ended(&other).await;
            if done {
                assert_eq!(view.runtime_mode, mode.as_str());
            }
            if refused {
                assert_eq!(view.runtime_mode, "full-access", "a refused mode is not set");
            }

            // The operator's default gives way to the ceiling, and it is said.
            let (house, caller) = under(&simulator, set, ceiling, Some(mode)).await;
            let by_default = dispatch(&house, &caller, prompt("say default")).await.unwrap();
            assert_eq!(by_default.runtime_mode, mode.min(most).as_str(), "{}", what("default"));
            let said = by_default
                .notes
                .iter()
                .any(|note| note.contains("runtime_mode was lowered"));
            assert_eq!(said, mode > most, "{}", what("default"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machines_ceiling_holds_for_every_mode_on_every_way() {
    every_mode_under(Set::OnTheMachine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_ceiling_holds_for_every_mode_on_every_way() {
    every_mode_under(Set::ForTheClient).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_ceilings_the_lower_one_holds_for_every_mode_on_every_way() {
    every_mode_under(Set::OnBoth).await;
}

fn to(thread: &str) -> AnswerArgs {
    AnswerArgs {
        thread_id: thread.to_owned(),
        ..AnswerArgs::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_allows_for_ever_is_allowed_only_where_t3_offers_it_and_nothing_bounds_the_caller() {
    for (offers, ceiling, allowed) in [
        (true, RuntimeMode::FullAccess, true),
        (true, RuntimeMode::Auto, false),
        (true, RuntimeMode::ApprovalRequired, false),
        (false, RuntimeMode::FullAccess, false),
    ] {
        let simulator = quick(offers).await;
        let open = house(&simulator).await;
        let asks = DispatchArgs {
            runtime_mode: Some(Mode::ApprovalRequired),
            ..prompt("approve make")
        };
        let thread = open.dispatch(asks).await.unwrap().thread_id;
        open.ended(&thread).await;
        for set in [Set::OnTheMachine, Set::ForTheClient] {
            if allowed && matches!(set, Set::ForTheClient) {
                continue;
            }
            let (house, caller) = under(&simulator, set, ceiling, None).await;
            let always = AnswerArgs {
                decision: Some("acceptAlways".to_owned()),
                ..to(&thread)
            };
            let before = simulator.received().len();
            let answered = house.gateway.answer(&caller, always).await;
            if allowed {
                answered.unwrap();
                // By the eyes that answered: others may see it later.
                assert_eq!(house.ended(&thread).await.state, "completed");
            } else {
                let error = answered.unwrap_err();
                assert_eq!(error.code, ErrorCode::InvalidRequest);
                let valid = error.extra["valid"].as_array().unwrap();
                assert!(
                    valid.contains(&json!("accept")) && !valid.contains(&json!("acceptAlways")),
                    "{error}"
                );
                assert_eq!(simulator.received().len(), before);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_outlived_its_run_does_not_start_one_above_the_ceiling_or_in_the_archive() {
    let simulator = quick(true).await;
    let open = house(&simulator).await;
    let thread = open.start("ask message").await.thread_id;
    open.until(&thread, |view| !view.pending.is_empty() && view.state == "completed")
        .await;
    let answers = || AnswerArgs {
        answers: Some(map(&json!({"color": "Red"}))),
        ..to(&thread)
    };
    let (house, caller) = under(&simulator, Set::ForTheClient, RuntimeMode::Auto, None).await;
    let refused = house.gateway.answer(&caller, answers()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::RuntimeModeEscalationDenied, "{refused}");

    let archive = |archived: bool| {
        let kind = if archived { "thread.archive" } else { "thread.unarchive" };
        simulator
            .command(&json!({"type": kind, "commandId": kind, "threadId": thread}))
            .unwrap();
    };
    let shows = |archived: bool| {
        let id = ThreadId(thread.clone());
        let members = open.gateway.fleet().members();
        move || {
            members[0]
                .machine
                .thread(&id)
                .is_some_and(|row| row.archived == archived)
        }
    };
    archive(true);
    eventually("the thread is archived", shows(true)).await;
    let refused = open.answer(answers()).await.unwrap_err();
    assert!(refused.to_string().contains("t3_archive"), "{refused}");
    assert_eq!(simulator.runs().len(), 1);
    archive(false);
    eventually("the thread is back", shows(false)).await;
    let answered = open.answer(answers()).await.unwrap();
    assert!(answered.run_id.is_some());
    assert_eq!(simulator.runs().len(), 2);
}
