//! When an event is sent again. Pure: the attempts so far, the time and the receiver's own wish come in, the next time comes out.
//!
//! Every number of the promise to receivers stands here, with its reason.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// The delays after the first attempts: quick enough for a receiver that restarts, then ever more patient with one that is broken.
pub const BACKOFF: [SignedDuration; 6] = [
    SignedDuration::from_secs(5),
    SignedDuration::from_secs(30),
    SignedDuration::from_mins(2),
    SignedDuration::from_mins(10),
    SignedDuration::from_mins(30),
    SignedDuration::from_hours(1),
];
/// The delay after all later ones: a receiver that comes back is told within about two hours.
pub const STEADY: SignedDuration = SignedDuration::from_hours(2);
/// How far a delay varies to either side, so that what failed together does not come again together.
pub const SPREAD_PERCENT: i64 = 20;
/// How long after its first attempt an event is still sent: over a long weekend.
pub const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(72);
/// The longest that a receiver may ask to be left alone: a day's quota is a reason, a typing error is none.
pub const LONGEST_RETRY_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// The delay after so many failed attempts, before it is varied.
pub fn delay(failed: u32) -> SignedDuration {
    let index = usize::try_from(failed.saturating_sub(1)).unwrap_or(usize::MAX);
    BACKOFF.get(index).copied().unwrap_or(STEADY)
}

/// The delay, varied: `jitter` 0 is the shortest, `u16::MAX` the longest.
pub fn varied(delay: SignedDuration, jitter: u16) -> SignedDuration {
    let whole = i64::from(u16::MAX);
    let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    let widest = millis.saturating_mul(SPREAD_PERCENT) / 100;
    let part = 2 * i64::from(jitter) - whole;
    SignedDuration::from_millis(millis.saturating_add(widest.saturating_mul(part) / whole))
}

/// When the next attempt is, after `failed` of them (the one that ended now included); none: it is given up.
///
/// A receiver's `Retry-After` puts it off, within its bound, and never brings it forward: one that asks for a second at each attempt is not
/// hammered for three days. Where it would put it off beyond the end, the last attempt is at the end.
pub fn next(
    failed: u32,
    first_attempt_at: Timestamp,
    now: Timestamp,
    retry_after: Option<SignedDuration>,
    jitter: u16,
) -> Option<Timestamp> {
    let end = later(first_attempt_at, GIVE_UP_AFTER);
    let own = later(now, varied(delay(failed), jitter));
    if own > end {
        return None;
    }
    let asked = retry_after.map_or(own, |asked| later(now, asked.min(LONGEST_RETRY_AFTER)));
    Some(own.max(asked.min(end)))
}

/// The jitter of an event's attempt. No generator: the events' own ids spread as well, and the same attempt is always due at the same time.
pub fn jitter(id: &str, failed: u32) -> u16 {
    let (high, _) = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{failed}:{id}").as_bytes()).as_u64_pair();
    u16::try_from(high >> 48).unwrap_or(u16::MAX)
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
