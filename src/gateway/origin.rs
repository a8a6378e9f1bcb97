//! What an origin is: the conversation that work came from, echoed verbatim in its events.

/// The longest origin, in bytes.
pub const ORIGIN_BYTES: usize = 1_024;

/// Visible ASCII, neither empty nor too long.
pub fn is_origin(text: &str) -> bool {
    (1..=ORIGIN_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
