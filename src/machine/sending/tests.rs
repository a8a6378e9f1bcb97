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

fn defect() -> CallError {
    CallError::Defect {
        defect: "Unknown request tag: x".to_owned(),
    }
}

fn declared(tag: &str) -> CallError {
    let error = json!({"_tag": tag, "message": "no", "requiredScope": "orchestration:operate"});
    CallError::Rejected {
        tag: tag.to_owned(),
        message: "no".to_owned(),
        error: serde_json::value::to_raw_value(&error).unwrap(),
    }
}

#[test]
fn after_a_lost_answer_only_a_refusal_of_the_command_is_the_end_of_it() {
    let lost = || CallError::Lost {
        sent: true,
        reason: "gone".to_owned(),
    };
    for after_loss in [false, true] {
        assert!(matches!(
            settle(declared("OrchestrationV2DispatchCommandError"), after_loss),
            Settled::Said(MachineError::Rejected { .. })
        ));
        assert!(matches!(
            settle(lost(), after_loss),
            Settled::Lost(MachineError::AnswerLost { .. })
        ));
    }
    // These speak of the second try: what the first one did, they do not know.
    for error in [defect, || declared("EnvironmentAuthorizationError")] {
        assert!(matches!(settle(error(), false), Settled::Said(_)));
        assert!(matches!(
            settle(error(), true),
            Settled::Lost(MachineError::AnswerLost { .. })
        ));
    }
}

#[test]
fn a_command_that_never_went_out_stays_so_when_another_environment_answers() {
    let not_sent = MachineError::Unreachable {
        reason: "down".to_owned(),
    };
    assert!(matches!(elsewhere(not_sent), MachineError::Unreachable { .. }));
    let lost = MachineError::AnswerLost {
        reason: "silence".to_owned(),
    };
    let said = elsewhere(lost);
    assert!(matches!(&said, MachineError::AnswerLost { reason } if reason.contains("another environment")));
}
