//! The generated machines: every state on every observation, sequences of any kind, and what people see of the table.

use std::fmt::Write as _;

use proptest::prelude::*;
use t3code_mcp::lifecycle::{
    Capability, Declared, Driver, HookEvent, PRECEDENCE, REQUEST_DIAGRAM, REQUEST_TABLE, RUN_DIAGRAM, RUN_TABLE,
    RequestClass, RequestDriver, RequestObservation, RequestState, RunDriver, RunObservation, RunState, TableRow,
    ThreadState,
};

/// Every cell of a table, against the transition function.
fn exhaustive<S: Declared + std::fmt::Debug>(
    states: &[S],
    observations: &[S::Observation],
    table: &[TableRow<S, S::Observation>],
    told: impl Fn(S) -> bool,
) where
    S::Observation: Eq + std::fmt::Debug,
{
    assert_eq!(table.len(), states.len() * observations.len());
    for &state in states {
        for &observation in observations {
            let rows: Vec<_> = table
                .iter()
                .filter(|row| row.from == state && row.on == observation)
                .collect();
            let [row] = rows.as_slice() else {
                panic!("{state:?} on {observation:?} has {} rows", rows.len())
            };
            let step = state.on(observation);
            assert_eq!((step.to, step.emit), (row.to, row.emit), "{state:?} on {observation:?}");
            if row.ignored.is_some() {
                assert_eq!((step.to, step.emit), (state, None), "{state:?} ignores {observation:?}");
            }
            let again = step.to.on(observation);
            assert_eq!(
                (again.to, again.emit),
                (step.to, None),
                "{state:?} on {observation:?} twice"
            );
            if told(state) {
                assert_eq!(
                    step.emit, None,
                    "{state:?} was told, and tells again on {observation:?}"
                );
            }
        }
    }
}

#[test]
fn every_run_state_answers_every_observation_as_the_table_says() {
    exhaustive(RunState::ALL, RunObservation::ALL, RUN_TABLE, |state| {
        state.is_ended() && !state.is_void()
    });
}

#[test]
fn every_request_state_answers_every_observation_as_the_table_says() {
    exhaustive(RequestState::ALL, RequestObservation::ALL, REQUEST_TABLE, |state| {
        state.is_ended() || state == RequestState::Pending
    });
}

#[test]
fn only_the_end_of_a_run_is_told_and_only_the_asking_of_a_request() {
    for row in RUN_TABLE.iter().filter(|row| row.emit.is_some()) {
        assert!(row.to.is_ended() && !row.to.is_void(), "{row:?}");
        assert!(
            !matches!(row.emit, Some(HookEvent::Question | HookEvent::Approval)),
            "{row:?}"
        );
    }
    for row in REQUEST_TABLE.iter().filter(|row| row.emit.is_some()) {
        assert_eq!(row.to, RequestState::Pending, "{row:?}");
        assert!(
            matches!(row.emit, Some(HookEvent::Question | HookEvent::Approval)),
            "{row:?}"
        );
    }
}

#[test]
fn a_state_is_found_again_by_the_name_it_was_stored_under() {
    for &state in RunState::ALL {
        assert_eq!(RunState::parse(state.name()), Some(state));
    }
    for &state in RequestState::ALL {
        assert_eq!(RequestState::parse(state.name()), Some(state));
    }
    for &event in HookEvent::ALL {
        assert_eq!(HookEvent::parse(event.as_str()), Some(event));
    }
    assert_eq!(RunState::parse("nothing of ours"), None);
}

/// What each observation tells, one after the other.
fn told<S: Declared>(observations: impl IntoIterator<Item = S::Observation>) -> Vec<HookEvent> {
    let mut driver = Driver::<S>::new();
    let mut told = Vec::new();
    for observation in observations {
        driver.handle(observation);
        told.extend(driver.poll_event());
    }
    told
}

#[test]
fn a_run_whose_facts_jump_states_still_tells_one_end() {
    use RunObservation as On;
    assert_eq!(told::<RunState>([On::Queued, On::Completed]), [HookEvent::Completed]);
    assert_eq!(told::<RunState>([On::Completed]), [HookEvent::Completed]);
    assert_eq!(
        told::<RunState>([On::Starting, On::Failed, On::Failed]),
        [HookEvent::Failed]
    );
}

#[test]
fn a_run_first_seen_as_rolled_back_is_told_as_completed_once() {
    use RunObservation as On;
    assert_eq!(told::<RunState>([On::RolledBack]), [HookEvent::Completed]);
    assert_eq!(
        told::<RunState>([On::Running, On::Completed, On::RolledBack]),
        [HookEvent::Completed]
    );
}

#[test]
fn a_cancelled_run_is_told_as_interrupted_only_if_it_had_started() {
    use RunObservation as On;
    assert_eq!(told::<RunState>([On::Running, On::Cancelled]), [HookEvent::Interrupted]);
    assert_eq!(told::<RunState>([On::Queued, On::NeverStarted]), []);
    // Seen starting, and T3 has no time of its start: it had left the queue all the same.
    assert_eq!(
        told::<RunState>([On::Starting, On::NeverStarted]),
        [HookEvent::Interrupted]
    );
    // Taken for unqueued at first, and then known to be a restart's doing.
    assert_eq!(
        told::<RunState>([On::Queued, On::NeverStarted, On::RestartCancelled]),
        [HookEvent::Interrupted]
    );
}

#[test]
fn a_promoted_or_continued_run_ends_without_an_event() {
    use RunObservation as On;
    assert_eq!(told::<RunState>([On::Queued, On::Promoted]), []);
    assert_eq!(told::<RunState>([On::Queued, On::NeverStarted, On::Promoted]), []);
    assert_eq!(told::<RunState>([On::Queued, On::Continued]), []);
}

#[test]
fn a_run_that_finishes_for_too_long_is_told_once_and_the_truth_shows_later() {
    use RunObservation as On;
    let mut driver = RunDriver::new();
    for observation in [On::Running, On::Finishing, On::FinishTimeout] {
        driver.handle(observation);
    }
    assert_eq!(driver.poll_event(), Some(HookEvent::Completed));
    assert_eq!(
        (driver.state(), driver.state().as_str()),
        (RunState::Unconfirmed, "completed")
    );
    driver.handle(On::Failed);
    assert_eq!((driver.state(), driver.poll_event()), (RunState::Failed, None));
}

#[test]
fn what_can_no_longer_end_is_told_as_interrupted_once() {
    use RunObservation as On;
    assert_eq!(
        told::<RunState>([On::Running, On::Gone, On::Gone, On::Running, On::Completed]),
        [HookEvent::Interrupted]
    );
    assert_eq!(
        told::<RunState>([On::Queued, On::NotVisible, On::Completed]),
        [HookEvent::Interrupted]
    );
    assert_eq!(told::<RunState>([On::Completed, On::Gone]), [HookEvent::Completed]);
}

#[test]
fn a_request_that_was_answered_while_nobody_looked_is_not_told() {
    use RequestObservation as On;
    assert_eq!(told::<RequestState>([On::Answered]), []);
    assert_eq!(told::<RequestState>([On::Withdrawn, On::Withdrawn]), []);
    assert_eq!(
        told::<RequestState>([On::QuestionAsked, On::Answered]),
        [HookEvent::Question]
    );
    assert_eq!(
        told::<RequestState>([On::Silent, On::ApprovalAsked, On::Silent, On::ApprovalAsked]),
        [HookEvent::Approval]
    );
}

fn any_of<T: Copy + std::fmt::Debug>(all: &'static [T]) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(prop::sample::select(all), 0..24)
}

/// What shows that a run waits or was taken out of the queue, and nothing else.
const UNSTARTED: &[RunObservation] = &[
    RunObservation::Queued,
    RunObservation::NeverStarted,
    RunObservation::Promoted,
    RunObservation::Continued,
    RunObservation::FinishTimeout,
];

proptest! {
    #[test]
    fn any_sequence_of_observations_ends_a_run_at_most_once(sequence in any_of(RunObservation::ALL), replay in 0_usize..24) {
        let again = sequence.iter().skip(replay).copied();
        let told = told::<RunState>(sequence.iter().copied().chain(again));
        prop_assert!(told.len() <= 1, "{told:?}");
    }

    #[test]
    fn a_run_that_never_started_tells_nothing(sequence in any_of(UNSTARTED)) {
        prop_assert_eq!(told::<RunState>(sequence), []);
    }

    #[test]
    fn a_repeated_observation_changes_nothing(sequence in any_of(RunObservation::ALL), repeat in 1_usize..4) {
        let (mut once, mut often) = (RunDriver::new(), RunDriver::new());
        for observation in sequence {
            once.handle(observation);
            for _ in 0..repeat {
                often.handle(observation);
            }
            prop_assert_eq!(&once, &often);
        }
    }

    #[test]
    fn any_sequence_of_observations_tells_of_a_request_at_most_once(
        sequence in any_of(RequestObservation::ALL), replay in 0_usize..24,
    ) {
        let again = sequence.iter().skip(replay).copied();
        let told = told::<RequestState>(sequence.iter().copied().chain(again));
        prop_assert!(told.len() <= 1, "{told:?}");
    }

    #[test]
    fn a_driver_taken_up_from_its_stored_state_goes_on_as_if_it_had_never_stopped(
        before in any_of(RunObservation::ALL), after in any_of(RunObservation::ALL),
    ) {
        let mut driver = RunDriver::new();
        for observation in before {
            driver.handle(observation);
        }
        let _told = driver.poll_event();
        let mut restored = RunDriver::at(RunState::parse(driver.state().name()).expect("stored by its name"));
        for observation in after {
            driver.handle(observation);
            restored.handle(observation);
            prop_assert_eq!(&driver, &restored);
        }
    }

    #[test]
    fn a_request_once_closed_stays_closed(sequence in any_of(RequestObservation::ALL)) {
        let mut driver = RequestDriver::new();
        let mut closed = false;
        for observation in sequence {
            driver.handle(observation);
            prop_assert!(!closed || driver.state().is_ended());
            closed = driver.state().is_ended();
        }
    }
}

/// The table as people read it.
fn table_text() -> String {
    let mut text = String::new();
    for row in RUN_TABLE {
        line(
            &mut text,
            "run",
            row.from.name(),
            row.on.name(),
            row.to.name(),
            row.emit,
            row.ignored,
        );
    }
    for row in REQUEST_TABLE {
        line(
            &mut text,
            "request",
            row.from.name(),
            row.on.name(),
            row.to.name(),
            row.emit,
            row.ignored,
        );
    }
    for (step, state) in PRECEDENCE {
        writeln!(text, "thread {step:?}: {} (busy: {})", state.as_str(), state.is_busy()).expect("into a string");
    }
    for class in RequestClass::ALL {
        let state = class.thread().map_or("-", ThreadState::as_str);
        let (holds, answerable) = (class.holds(), class.answerable());
        writeln!(
            text,
            "class {}: holds {holds}, answerable {answerable}, thread {state}",
            class.name()
        )
        .expect("into a string");
    }
    for one in Capability::ALL {
        let (holds, answerable, asks, mode) = (one.holds(), one.answerable(), one.asks(), one.mode().unwrap_or("-"));
        writeln!(
            text,
            "capability {}: holds {holds}, answerable {answerable}, asks {asks}, mode {mode}",
            one.name()
        )
        .expect("into a string");
    }
    text
}

fn line(
    text: &mut String,
    machine: &str,
    from: &str,
    on: &str,
    to: &str,
    emit: Option<HookEvent>,
    ignored: Option<&str>,
) {
    let told = emit.map_or(String::new(), |event| format!(" / {}", event.as_str()));
    let what = ignored.map_or_else(|| format!("{to}{told}"), |why| format!("- ({why})"));
    writeln!(text, "{machine} {from} + {on} = {what}").expect("into a string");
}

#[test]
fn the_table_and_the_diagrams_are_those_that_were_reviewed() {
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"),
        prepend_module_to_snapshot => true,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("table", table_text());
        insta::assert_snapshot!("diagrams", format!("{RUN_DIAGRAM}\n{REQUEST_DIAGRAM}"));
    });
}
