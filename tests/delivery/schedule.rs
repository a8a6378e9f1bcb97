//! The schedule: the numbers that receivers were promised, and what holds for all of them.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use t3code_mcp::delivery::schedule::{GIVE_UP_AFTER, LONGEST_RETRY_AFTER, delay, jitter, next, varied};

use crate::support::at;

/// In the middle of what a delay may be.
const MIDDLE: u16 = u16::MAX / 2;

#[test]
fn the_delays_are_those_that_were_promised() {
    let seconds: Vec<i64> = (1..=9).map(|failed| delay(failed).as_secs()).collect();
    assert_eq!(seconds, [5, 30, 120, 600, 1800, 3600, 7200, 7200, 7200]);
    assert_eq!(delay(u32::MAX).as_secs(), 7200);
    assert_eq!(GIVE_UP_AFTER, SignedDuration::from_hours(3 * 24));
}

#[test]
fn a_delay_varies_by_a_fifth_to_either_side() {
    for (failed, shortest, longest) in [(1, 4_000, 6_000), (6, 2_880_000, 4_320_000), (7, 5_760_000, 8_640_000)] {
        let span = |jitter| varied(delay(failed), jitter).as_millis();
        assert_eq!((span(0), span(u16::MAX)), (shortest, longest));
        assert!((span(MIDDLE) - delay(failed).as_millis()).abs() <= 100);
    }
}

#[test]
fn different_events_and_attempts_vary_differently_and_always_alike() {
    let all: Vec<u16> = (0..1000).map(|n| jitter(&format!("evt_{n}"), 1)).collect();
    assert_eq!(jitter("evt_1", 1), all[1]);
    assert_ne!(jitter("evt_1", 2), all[1]);
    let low = all.iter().filter(|jitter| **jitter < MIDDLE).count();
    assert!((400..600).contains(&low), "{low}");
}

/// The times of all attempts of an event whose receiver never takes it.
fn life(first: Timestamp, jitters: &[u16], asked: &[Option<SignedDuration>]) -> Vec<Timestamp> {
    let mut times = vec![first];
    loop {
        let failed = times.len();
        let jitter = jitters[failed % jitters.len()];
        let asked = asked[failed % asked.len()];
        match next(u32::try_from(failed).unwrap(), first, times[failed - 1], asked, jitter) {
            Some(at) => times.push(at),
            None => return times,
        }
    }
}

#[test]
fn an_event_is_tried_for_three_days() {
    let times = life(at(0), &[MIDDLE], &[None]);
    // Six that become slower, then one every two hours of what is left.
    assert_eq!(times.len(), 42);
    assert!(times[41].duration_since(at(0)) > SignedDuration::from_hours(70));
}

fn wish() -> impl Strategy<Value = Option<SignedDuration>> {
    prop_oneof![
        Just(None),
        (0..200_000_i64).prop_map(|s| Some(SignedDuration::from_secs(s))),
        Just(Some(SignedDuration::MAX)),
    ]
}

proptest! {
    #[test]
    fn however_it_varies_and_whatever_is_asked_it_goes_forward_and_ends(
        jitters in prop::collection::vec(any::<u16>(), 1..50),
        asked in prop::collection::vec(wish(), 1..50),
    ) {
        let times = life(at(0), &jitters, &asked);
        let end = at(0) + GIVE_UP_AFTER;
        for (index, pair) in times.windows(2).enumerate() {
            let failed = u32::try_from(index + 1).unwrap();
            let waited = pair[1].duration_since(pair[0]);
            prop_assert!(waited >= delay(failed) * 4 / 5);
            let asked = asked[(index + 1) % asked.len()].unwrap_or(SignedDuration::ZERO).min(LONGEST_RETRY_AFTER);
            prop_assert!(waited <= (delay(failed) * 6 / 5).max(asked));
            prop_assert!(waited >= asked || pair[1] == end, "it came before it was asked to");
        }
        let last = *times.last().unwrap();
        prop_assert!(last <= end);
        let more = delay(u32::try_from(times.len()).unwrap()) * 6 / 5;
        prop_assert!(last + more > end, "it was given up early");
        prop_assert!(times.len() < 60);
    }

    #[test]
    fn the_ends_of_time_are_no_trouble(failed: u32, jitter: u16) {
        prop_assert_eq!(next(failed, Timestamp::MIN, Timestamp::MAX, Some(SignedDuration::MAX), jitter), None);
        prop_assert!(next(failed, Timestamp::MAX, Timestamp::MAX, None, jitter).is_some());
    }
}
