//! What a newer T3 of protocol 1 says that this version does not know.

use std::sync::Arc;

use serde_json::json;

use super::{RECORDINGS, activity, decode, one, raw, reads, row_of, statuses};
use crate::machine::dialect::Dialect;
use crate::machine::dialect::v1::{Memory, Protocol1};
use crate::machine::mirror::ShellItem;

#[test]
fn words_of_a_newer_t3_are_named_with_what_they_are_words_for() {
    let mut body = one("pondering", "dreaming", Some("hello"));
    let thread = &mut body["thread"];
    thread["runtimeMode"] = json!("trusted");
    thread["messages"][1]["role"] = json!("oracle");
    let asked = [
        (
            "approval.requested",
            json!({"requestId": "1", "requestKind": "command"}),
        ),
        (
            "approval.requested",
            json!({"requestId": "2", "requestKind": "telepathy"}),
        ),
        ("approval.requested", json!({"requestId": "3"})),
        ("user-input.requested", json!({"requestId": "4", "questions": []})),
        ("secret.requested", json!({"requestId": "5"})),
        ("weather.updated", json!({})),
    ];
    let activities = asked.into_iter().enumerate();
    thread["activities"] = activities
        .map(|(at, (kind, payload))| activity(kind, "t1", payload, at.min(4)))
        .collect();
    let read = decode(&body, &Memory::default());
    assert_eq!(
        read.unknown_words,
        [
            "turn state `dreaming`",
            "session status `pondering`",
            "request kind `telepathy`",
            "activity `secret.requested`",
            "message role `oracle`",
            "runtime mode `trusted`"
        ]
    );
    assert_eq!(
        statuses(&read),
        ["running"],
        "what is not known of a turn counts as running"
    );

    let mut row = row_of(&body);
    row["backgroundLiveness"] = json!("humming");
    let item = raw(&json!({"kind": "thread-upserted", "sequence": 5, "thread": row}));
    let ShellItem::ThreadUpdated(row) = Protocol1::new(Arc::default()).read_shell_item(&item).unwrap() else {
        panic!("no row");
    };
    assert_eq!(
        row.unknown_words,
        [
            "turn state `dreaming`",
            "session status `pondering`",
            "runtime mode `trusted`",
            "background task `humming`"
        ]
    );
}

#[test]
fn the_recordings_use_no_word_that_is_not_known() {
    for name in RECORDINGS {
        for (place, body) in reads(name) {
            let read = decode(&body, &Memory::default());
            assert_eq!(read.unknown_words, Vec::<String>::new(), "{place}");
        }
    }
}
