//! Answers that would hang a run are not sent.

use jiff::Timestamp;
use serde_json::{Map, json};

use super::*;
use crate::protocol::RuntimeRequestId;

fn request(kind: &str) -> RequestFacts {
    RequestFacts {
        id: RuntimeRequestId("r".to_owned()),
        run: None,
        kind: kind.to_owned(),
        status: "pending".to_owned(),
        capability: "live".to_owned(),
        created_at: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn only_the_answer_of_the_requests_kind_is_sent() {
    let decision = || Answer::Decision("accept".to_owned());
    let answers = || Answer::Answers(Map::from_iter([("q".to_owned(), json!("yes"))]));
    for kind in ["command", "file-read", "file-change", "permission", "mcp-elicitation"] {
        assert!(check_answer(&request(kind), &decision()).is_ok(), "{kind}");
        assert!(check_answer(&request(kind), &answers()).is_err(), "{kind}");
        assert!(check_answer(&request(kind), &Answer::Dismiss).is_err(), "{kind}");
    }
    assert!(check_answer(&request("user_input"), &answers()).is_ok());
    assert!(check_answer(&request("user_input"), &Answer::Dismiss).is_ok());
    assert!(check_answer(&request("user_input"), &decision()).is_err());
    for kind in ["auth_refresh", "dynamic_tool_call", "a kind of a newer T3"] {
        for answer in [decision(), answers(), Answer::Dismiss] {
            let refused = check_answer(&request(kind), &answer);
            assert!(matches!(refused, Err(MachineError::Unsafe(_))), "{kind}");
        }
    }
}
