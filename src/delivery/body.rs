//! What is sent: an event's body as it was frozen, with the marks that only its first attempt knows.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::store::Due;

/// The mark of an event that was first sent while earlier ones of its thread were undelivered.
const OUT_OF_ORDER: &str = "\"out_of_order\":true";

/// What is sent, byte for byte the same at each attempt. Owned where it is not the event's own body: then it is to be kept.
pub(super) fn of(due: &Due) -> Cow<'_, str> {
    if due.frozen || !due.out_of_order {
        return Cow::Borrowed(&due.body);
    }
    marked(&due.body).map_or(Cow::Borrowed(&due.body), Cow::Owned)
}

/// The object with the mark as its last member. As text, so that all else stays as it was written; none where it is no object.
fn marked(body: &str) -> Option<String> {
    let open = body.trim_end().strip_suffix('}')?.trim_end();
    let comma = if open.ends_with('{') { "" } else { "," };
    Some(format!("{open}{comma}{OUT_OF_ORDER}}}"))
}

/// An event that nothing happened for.
pub(super) fn sample(id: &str, now: Timestamp) -> String {
    serde_json::json!({
        "id": id,
        "event": "test",
        "occurred_at": now.to_string(),
        "text": "A sample of t3code-mcp: nothing happened, and hook events arrive.",
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leaves_the_rest_as_it_was_written() {
        assert_eq!(
            marked("{\"z\": 1, \"a\":{}}\n").unwrap(),
            "{\"z\": 1, \"a\":{},\"out_of_order\":true}"
        );
        assert_eq!(marked("{ }").unwrap(), "{\"out_of_order\":true}");
        assert_eq!(marked("[]"), None);
    }
}
