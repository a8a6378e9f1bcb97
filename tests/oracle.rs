//! Any history of T3, gateway, network and receiver gives exactly the events of an observer who was never away.
//!
//! A case is a list of steps on one clock that nobody waits for: messages, answers, interrupts and the like on up to three threads,
//! T3 restarted, the network cut, the gateway killed, the receiver down. T3 is the simulator's model, the gateway is the real roster
//! with the real trackers and the real ledger; only sockets and tasks are left out. Afterwards everything comes to rest, and what the
//! ledger holds and the receiver got is compared with what the model itself logged.
//!
//! `CASES` says how many (default 256), `SEED` which; both are printed, and so is the smallest case that fails. Ten thousand:
//!
//! ```text
//! CASES=10000 cargo test --test oracle -- --nocapture
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

#[path = "oracle/case.rs"]
mod case;
#[path = "oracle/check.rs"]
mod check;
#[path = "oracle/gateway.rs"]
mod gateway;
#[path = "oracle/hook.rs"]
mod hook;
#[path = "oracle/observer.rs"]
mod observer;
#[path = "oracle/world.rs"]
mod world;

use std::cell::{Cell, RefCell};

use case::Case;
use check::Tally;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Runtime;
use world::{Ledger, World};

const CASES: u32 = 256;
/// So many cases share a ledger: opening one costs more than a case.
const SHARE_A_LEDGER: u64 = 200;

#[test]
fn whatever_happens_the_events_are_those_of_who_was_never_away() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("CASES").map_or(CASES, |cases| u32::try_from(cases).unwrap());
    let seed = number("SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CASES={cases} SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ledger = RefCell::new(None);
    let played = Cell::new(0_u64);
    let tally = RefCell::new(Tally::new());
    let outcome = runner.run(&case::case(), |case| {
        played.set(played.get() + 1);
        // After a panic nobody knows what is in it.
        let mine = ledger.take().filter(|_| !played.get().is_multiple_of(SHARE_A_LEDGER));
        let (mine, wrong) = play(&runtime, mine, &case, played.get(), &mut tally.borrow_mut());
        // Nor after a case that failed.
        ledger.replace(wrong.is_empty().then_some(mine));
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(TestCaseError::fail(wrong.join("\n")))
        }
    });
    eprintln!("{:#?}", tally.borrow());
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("{why}\nin the case {case:#?}\nCASES={cases} SEED={seed}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Plays a case; gives the ledger back, and everything that is wrong.
fn play(
    runtime: &Runtime,
    ledger: Option<Ledger>,
    case: &Case,
    number: u64,
    tally: &mut Tally,
) -> (Ledger, Vec<String>) {
    runtime.block_on(async {
        let mut ledger = match ledger {
            Some(ledger) => ledger,
            None => Ledger::new().await,
        };
        let mut world = World::new(case, &mut ledger, number);
        world.play().await;
        let fails = case.reads.iter().any(|way| way.fails);
        let mut wrong = check::check(&world, case.server.slow_checkpoints, fails, tally).await;
        world.hook.count(tally);
        wrong.append(&mut world.hook.wrong);
        world.clean().await;
        drop(world);
        (ledger, wrong)
    })
}
