//! Answers that come within milliseconds: what a thread asked is told all the same, once, before it is over.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use t3code_mcp::fleet::Fleet;
use t3code_mcp::gateway::tracking::{Said, Sight, Tracking, Wish};
use t3code_mcp::gateway::{AnswerArgs, DispatchArgs, ErrorCode, Gateway, GatewaySettings, Ledger, Mode, WhenBusy};
use t3code_mcp::simulator::{RunStatus, Simulator};
use t3code_mcp::store::{LEDGER_FILE, Store};
use tempfile::tempdir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::*;

const THREADS: usize = 30;
/// As many at a time as a hasty client has.
const AT_ONCE: usize = 5;

fn color(thread: &str) -> AnswerArgs {
    AnswerArgs {
        thread_id: thread.to_owned(),
        answers: Some(map(&json!({"color": "Red"}))),
        ..AnswerArgs::default()
    }
}

fn accept(thread: &str) -> AnswerArgs {
    AnswerArgs {
        thread_id: thread.to_owned(),
        decision: Some("accept".to_owned()),
        ..AnswerArgs::default()
    }
}

impl KeptHouse {
    /// Answers as soon as there is something to answer, without a look at the thread.
    async fn answer_at_once(&self, args: AnswerArgs) {
        let answer = async {
            loop {
                match self.answer(args.clone()).await {
                    Ok(_) => return,
                    Err(error) if error.code == ErrorCode::RequestNotFound => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.expect("it is answered");
    }

    /// What was told of the thread.
    async fn told(&self, thread: &str) -> Vec<String> {
        let events = self.events().await.into_iter();
        let of_thread = events.filter(|event| event.thread.0 == thread);
        of_thread.map(|event| event.kind).collect()
    }
}

/// Shows the shell again once this is so: what was over by then, no row shows as open.
async fn show_once(simulator: &Simulator, so: impl Fn(&Simulator) -> bool) {
    eventually("it is over", || so(simulator)).await;
    simulator.faults().hold_shell(false);
}

/// How many answers T3 has.
fn answers(simulator: &Simulator) -> usize {
    let commands = simulator.received();
    let answers = commands
        .iter()
        .filter(|command| command["type"] == "runtime-request.respond");
    answers.count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_at_the_first_sight_is_told_once() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let ask = async |number: usize| {
        let (text, kind) = match number % 2 {
            0 => ("ask1", "question"),
            _ => ("approve make clean", "approval"),
        };
        let args = DispatchArgs {
            runtime_mode: Some(Mode::ApprovalRequired),
            ..prompt(text)
        };
        let thread = house.dispatch(args).await.unwrap().thread_id;
        let answer = if number.is_multiple_of(2) { color } else { accept };
        house.answer_at_once(answer(&thread)).await;
        assert_eq!(
            house.told(&thread).await.first().map(String::as_str),
            Some(kind),
            "told when it is answered"
        );
        (thread, kind)
    };
    let mut asked = Vec::new();
    for first in (0..THREADS).step_by(AT_ONCE) {
        let last = first + AT_ONCE;
        // Of every other time the row comes when all is answered.
        simulator.faults().hold_shell(first % 2 == 0);
        let answered = join_all((first..last).map(&ask));
        let shown = show_once(&simulator, |simulator| answers(simulator) >= last);
        asked.extend(tokio::join!(answered, shown).0);
    }
    house.until_events(2 * THREADS).await;
    for (thread, kind) in asked {
        assert_eq!(house.told(&thread).await, [kind, "completed"]);
    }
    house.end().await;
}

#[tokio::test]
async fn what_is_stopped_at_the_first_sight_of_a_question_was_asked_before() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    simulator.faults().hold_shell(true);
    let thread = house.start("ask1").await.thread_id;
    house.until(&thread, |view| !view.pending.is_empty()).await;
    let stopped = house.interrupt(&thread, None);
    let is_over = |simulator: &Simulator| simulator.runs().iter().all(|run| run.status == RunStatus::Interrupted);
    let shown = show_once(&simulator, is_over);
    tokio::join!(stopped, shown).0.unwrap();
    house.until_events(2).await;
    assert_eq!(house.told(&thread).await, ["question", "interrupted"]);
    house.end().await;
}

#[tokio::test]
async fn a_question_of_a_thread_that_was_not_followed_before_is_told_before_it_is_answered() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    // Another gateway stands for a person: this one knows nothing of its threads.
    let person = house(&simulator).await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    for _ in 0..5 {
        let thread = person.start("say before").await.thread_id;
        person.ended(&thread).await;
        house.dispatch(more(&thread, "ask1", WhenBusy::Reject)).await.unwrap();
        house.answer_at_once(color(&thread)).await;
        assert_eq!(house.told(&thread).await[0], "question");
    }
    house.end().await;
}

/// A gateway whose wishes come out here, and which has dispatched a question.
async fn asked(folder: &Path, simulator: &Simulator) -> (House, mpsc::Receiver<Said>, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stop = CancellationToken::new();
    let fleet = Fleet::start(vec![(settings("mac", &simulator.url()), rules(&["*"]))], &stop);
    let store = Store::open(&folder.join(LEDGER_FILE)).await.unwrap();
    let (tracking, wishes) = Tracking::new();
    let ledger = Ledger { store, tracking };
    let gateway = Gateway::new(fleet, GatewaySettings::default(), Some(ledger), stop.clone());
    let house = House { gateway, stop };
    house.online("mac").await;
    let thread = house.start("ask1").await.thread_id;
    house.until(&thread, |view| !view.pending.is_empty()).await;
    (house, wishes, thread)
}

/// The next sight that somebody waits for.
async fn awaited(wishes: &mut mpsc::Receiver<Said>) -> Sight {
    let next = async {
        loop {
            if let Wish::Sight(sight) = wishes.recv().await.unwrap().wish
                && sight.kept.is_some()
            {
                return sight;
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("it is shown")
}

#[tokio::test]
async fn an_answer_is_sent_when_the_question_is_on_disk() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let (house, mut wishes, thread) = asked(folder.path(), &simulator).await;
    let kept = async {
        let sight = awaited(&mut wishes).await;
        assert_eq!((sight.machine.as_str(), &sight.id.0), ("mac", &thread));
        assert_eq!(answers(&simulator), 0);
        drop(sight);
    };
    tokio::join!(house.answer(color(&thread)), kept).0.unwrap();
    assert_eq!(answers(&simulator), 1);
}

#[tokio::test]
async fn an_answer_does_not_wait_for_ever_for_who_keeps_an_eye_on_the_thread() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let (house, mut wishes, thread) = asked(folder.path(), &simulator).await;
    let (answered, _sight) = tokio::join!(house.answer(color(&thread)), awaited(&mut wishes));
    answered.unwrap();
    assert_eq!(answers(&simulator), 1);
}
