use super::*;

/// The frames that a message is read as, printed back, bad ones as their error.
fn reread<T: Serialize>(frames: Vec<Result<T, FrameError>>) -> Vec<String> {
    frames
        .into_iter()
        .map(|frame| match frame {
            Ok(frame) => serde_json::to_string(&frame).unwrap(),
            Err(error) => format!("! {error}"),
        })
        .collect()
}

#[test]
fn frames_of_the_server_print_back_as_they_were_read() {
    for text in [
        r#"{"_tag":"Chunk","requestId":"1","values":[{"kind":"synchronized"},7]}"#,
        r#"{"_tag":"Exit","requestId":77,"exit":{"_tag":"Success","value":{}}}"#,
        r#"{"_tag":"Exit","requestId":"a-1","exit":{"_tag":"Failure","cause":[{"_tag":"Die","defect":"Unknown request tag: x"}]}}"#,
        r#"{"_tag":"Exit","requestId":"1","exit":{"_tag":"Failure","cause":[{"_tag":"Interrupt","fiberId":2858}]}}"#,
        r#"{"_tag":"Exit","requestId":"1","exit":{"_tag":"Failure","cause":[{"_tag":"Fail","error":{"_tag":"E","message":"no"}}]}}"#,
        r#"{"_tag":"Pong"}"#,
        r#"{"_tag":"Defect","defect":{"name":"SyntaxError","message":"no"}}"#,
    ] {
        assert_eq!(reread(ServerFrame::read(text)), [text]);
    }
}

#[test]
fn frames_of_the_client_print_back_as_they_were_read() {
    for text in [
        r#"{"_tag":"Request","id":"1","tag":"server.probe","payload":{},"headers":[]}"#,
        r#"{"_tag":"Request","id":77,"tag":"server.probe","payload":{"a":[1]},"headers":[["a","b"]]}"#,
        r#"{"_tag":"Ack","requestId":"1"}"#,
        r#"{"_tag":"Interrupt","requestId":"1"}"#,
        r#"{"_tag":"Ping"}"#,
        r#"{"_tag":"Eof"}"#,
    ] {
        assert_eq!(reread(ClientFrame::read(text)), [text]);
    }
}

#[test]
fn an_array_is_read_frame_by_frame_and_a_bad_one_spoils_no_other() {
    let text = r#" [{"_tag":"Pong"},{"_tag":"Exit","requestId":"4"},{"_tag":"Chunk","requestId":"1","values":[1]}]"#;
    assert_eq!(
        reread(ServerFrame::read(text)),
        [
            r#"{"_tag":"Pong"}"#,
            "! a Exit frame that cannot be read: no usable `exit`",
            r#"{"_tag":"Chunk","requestId":"1","values":[1]}"#,
        ]
    );
}

#[test]
fn a_frame_of_a_newer_server_is_kept_as_unknown_whatever_it_carries() {
    for text in [
        r#"{"_tag":"Trace","requestId":{"a":1},"values":"x","exit":5}"#,
        "{}",
        "5",
        r#""hello""#,
        "null",
    ] {
        assert!(
            matches!(ServerFrame::read(text).as_slice(), [Ok(ServerFrame::Unknown { .. })]),
            "{text}"
        );
    }
}

#[test]
fn a_broken_frame_names_its_call_and_text_that_is_no_json_says_so() {
    let read = ServerFrame::read(r#"{"_tag":"Chunk","requestId":"12","values":"none"}"#);
    let [Err(FrameError::Malformed { request_id, .. })] = read.as_slice() else {
        panic!("{read:?}")
    };
    assert_eq!(request_id.as_ref().and_then(RequestId::as_u64), Some(12));
    assert!(matches!(
        ServerFrame::read("<html>").as_slice(),
        [Err(FrameError::NotJson(_))]
    ));
    assert!(matches!(
        ServerFrame::read("[{").as_slice(),
        [Err(FrameError::NotJson(_))]
    ));
}

#[test]
fn a_request_without_headers_is_an_error_and_one_without_payload_has_null() {
    assert!(matches!(
        ClientFrame::read(r#"{"_tag":"Request","id":"1","tag":"server.probe","payload":{}}"#).as_slice(),
        [Err(FrameError::MissingHeaders)]
    ));
    assert_eq!(
        reread(ClientFrame::read(
            r#"{"_tag":"Request","id":"1","tag":"server.probe","headers":[]}"#
        )),
        [r#"{"_tag":"Request","id":"1","tag":"server.probe","payload":null,"headers":[]}"#]
    );
}

#[test]
fn a_lone_cause_and_a_cause_of_a_newer_server_are_understood() {
    let text = r#"{"_tag":"Exit","requestId":"1","exit":{"_tag":"Failure","cause":{"_tag":"Retry","x":1}}}"#;
    let read = ServerFrame::read(text);
    let [
        Ok(ServerFrame::Exit {
            exit: Exit::Failure(causes),
            ..
        }),
    ] = read.as_slice()
    else {
        panic!("{read:?}")
    };
    assert!(matches!(causes.as_slice(), [Cause::Unknown { tag: Some(tag) }] if tag == "Retry"));
}

#[test]
fn an_id_is_ours_only_in_the_form_that_we_write() {
    let id = |json: &str| serde_json::from_str::<RequestId>(json).unwrap().as_u64();
    assert_eq!(
        [id("\"12\""), id("12"), id("\"012\""), id("-1"), id("\"x\""), id("1.5")],
        [Some(12), Some(12), None, None, None, None]
    );
}

#[test]
fn a_defect_is_told_in_words_and_cut() {
    let text = |json: &str| defect_text(&RawValue::from_string(json.into()).unwrap());
    assert_eq!(
        text(r#""Expected string\n  at [\"threadId\"]""#),
        "Expected string\n  at [\"threadId\"]"
    );
    assert_eq!(text(r#"{"name":"SyntaxError","message":"no"}"#), "SyntaxError: no");
    assert_eq!(text("[1]"), "[1]");
    assert_eq!(
        text(&format!("\"{}\"", "é".repeat(9000))).chars().count(),
        EXCERPT_CHARS + 1
    );
}
