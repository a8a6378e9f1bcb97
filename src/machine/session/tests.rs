//! The session's behaviour, frame by frame.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::machine::MachineError;

/// A session with its own time and everything that came out of it.
struct Bench {
    session: Session,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            session: Session::new(now),
            now,
        }
    }

    fn read(&mut self) -> CallId {
        self.session
            .request(self.now, "server.probe", empty_object(), Purpose::Read, READ_LIMIT)
            .unwrap()
    }

    fn command(&mut self) -> CallId {
        let tag = "orchestration.dispatchCommand";
        self.session
            .request(self.now, tag, empty_object(), Purpose::Command, READ_LIMIT)
            .unwrap()
    }

    fn stream(&mut self) -> CallId {
        let subscription = Subscription::new("orchestration.subscribeShell");
        self.session.subscribe(self.now, &subscription).unwrap()
    }

    fn sent(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.session.poll_transmit())
            .map(|text| serde_json::from_str(&text).unwrap())
            .collect()
    }

    fn frame(&mut self, frame: &Value) {
        self.session.handle_frame(self.now, &frame.to_string());
    }

    /// Lets time pass as a driver would: every timeout on the way is handled when it is due.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.session.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.session.handle_timeout(self.now);
        }
        self.now = until;
    }

    /// Everything that happened, in short words.
    fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_event())
            .map(|event| words(&event))
            .collect()
    }
}

fn words(event: &Event) -> String {
    match event {
        Event::Answered {
            call,
            answer: Ok(value),
        } => format!("{}: {value}", call.0),
        Event::Answered {
            call,
            answer: Err(error),
        } => format!("{}: {error:?}", call.0),
        Event::Chunk { call, values } => format!("{}: chunk of {}", call.0, values.len()),
        Event::Ended { call, error: None } => format!("{}: done", call.0),
        Event::Ended {
            call,
            error: Some(error),
        } => format!("{}: ended {error:?}", call.0),
        Event::Defect { defect } => format!("defect {defect}"),
        Event::Dead { reason } => format!("dead: {reason}"),
    }
}

fn chunk(id: CallId, values: &[u8]) -> Value {
    json!({"_tag": "Chunk", "requestId": id.0.to_string(), "values": values})
}

fn exit(id: CallId, value: &Value) -> Value {
    json!({"_tag": "Exit", "requestId": id.0.to_string(), "exit": {"_tag": "Success", "value": value}})
}

fn failure(id: CallId, causes: &Value) -> Value {
    json!({"_tag": "Exit", "requestId": id.0.to_string(), "exit": {"_tag": "Failure", "cause": causes}})
}

#[test]
fn a_request_goes_out_whole_and_its_exit_answers_it() {
    let mut bench = Bench::new();
    let call = bench.read();
    assert_eq!(
        bench.sent(),
        [json!({"_tag": "Request", "id": "1", "tag": "server.probe", "payload": {}, "headers": []})]
    );
    bench.frame(&exit(call, &json!({"a": 1})));
    assert_eq!(bench.events(), [r#"1: {"a":1}"#]);
    assert!(bench.session.calls.is_empty());
}

#[test]
fn an_id_that_comes_back_as_a_number_is_understood() {
    let mut bench = Bench::new();
    bench.read();
    bench.sent();
    bench.frame(&json!({"_tag": "Exit", "requestId": 1, "exit": {"_tag": "Success"}}));
    assert_eq!(bench.events(), ["1: null"]);
}

#[test]
fn an_array_of_frames_is_taken_frame_by_frame() {
    let mut bench = Bench::new();
    let (one, two) = (bench.read(), bench.read());
    bench.sent();
    bench.frame(&json!([exit(two, &json!(2)), {"_tag": "Pong"}, exit(one, &json!(1))]));
    assert_eq!(bench.events(), ["2: 2", "1: 1"]);
}

#[test]
fn a_chunk_is_acked_when_it_was_taken_and_only_once() {
    let mut bench = Bench::new();
    let stream = bench.stream();
    bench.sent();
    bench.frame(&chunk(stream, &[1, 2]));
    assert_eq!(bench.sent(), Vec::<Value>::new());
    bench.session.acknowledge(stream);
    bench.session.acknowledge(stream);
    assert_eq!(bench.sent(), [json!({"_tag": "Ack", "requestId": "1"})]);
    assert_eq!(bench.events(), ["1: chunk of 2"]);
}

#[test]
fn an_empty_chunk_is_acked_at_once_since_nobody_will_take_it() {
    let mut bench = Bench::new();
    let stream = bench.stream();
    bench.sent();
    bench.frame(&chunk(stream, &[]));
    assert_eq!(bench.sent(), [json!({"_tag": "Ack", "requestId": "1"})]);
    assert_eq!(bench.events(), Vec::<String>::new());
}

#[test]
fn a_flood_that_waits_for_no_ack_ends_the_stream() {
    let mut bench = Bench::new();
    let stream = bench.stream();
    bench.sent();
    for _ in 0..=MAX_UNACKED {
        bench.frame(&chunk(stream, &[1]));
    }
    assert_eq!(bench.sent(), [json!({"_tag": "Interrupt", "requestId": "1"})]);
    assert_eq!(bench.events().last().unwrap(), "1: ended Overrun");
}

#[test]
fn the_exit_of_a_stream_tells_whether_it_is_done_or_failed() {
    let mut bench = Bench::new();
    let (done, failed) = (bench.stream(), bench.stream());
    bench.sent();
    bench.frame(&exit(done, &Value::Null));
    bench.frame(&failure(failed, &json!([{"_tag": "Interrupt", "fiberId": 2858}])));
    assert_eq!(
        bench.events(),
        ["1: done", r#"2: ended BrokenOff { reason: "it was interrupted" }"#]
    );
}

#[test]
fn a_declared_error_keeps_its_tag_and_words() {
    let mut bench = Bench::new();
    let call = bench.command();
    bench.sent();
    let error =
        json!({"_tag": "OrchestrationV2DispatchCommandError", "message": "Run X is not interruptible.", "detail": "d"});
    bench.frame(&failure(
        call,
        &json!([{"_tag": "Die", "defect": "later"}, {"_tag": "Fail", "error": error}]),
    ));
    let Some(Event::Answered { answer: Err(error), .. }) = bench.session.poll_event() else {
        panic!("no error")
    };
    let MachineError::Rejected { tag, message } = error.for_command() else {
        panic!("no refusal")
    };
    assert_eq!(
        (tag.as_str(), message.as_str()),
        ("OrchestrationV2DispatchCommandError", "Run X is not interruptible.")
    );
}

#[test]
fn a_missing_scope_is_told_apart_and_the_permission_counts_before_the_scope() {
    let mut bench = Bench::new();
    let call = bench.command();
    bench.sent();
    let error = json!({"_tag": "EnvironmentAuthorizationError", "message": "no", "requiredScope": "a", "requiredPermission": "b"});
    bench.frame(&failure(call, &json!([{"_tag": "Fail", "error": error}])));
    let Some(Event::Answered { answer: Err(error), .. }) = bench.session.poll_event() else {
        panic!("no error")
    };
    assert!(matches!(error.for_command(), MachineError::InsufficientScope { scope } if scope == "b"));
}

#[test]
fn an_unknown_procedure_is_told_apart_from_a_bad_payload() {
    let die = |text: &str| {
        CallError::from_causes(&[crate::protocol::rpc::Cause::Die(
            serde_json::value::to_raw_value(text).unwrap(),
        )])
    };
    assert!(die("Unknown request tag: orchestration.launchThread").is_unknown_request());
    assert!(!die("Expected string\n  at [\"threadId\"]").is_unknown_request());
}

#[test]
fn a_ping_goes_out_every_20_seconds_and_pongs_keep_the_session_alive() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        bench.pass(PING_EVERY);
        assert_eq!(bench.sent(), [json!({"_tag": "Ping"})]);
        bench.frame(&json!({"_tag": "Pong"}));
    }
    assert!(!bench.session.is_dead());
}

#[test]
fn total_silence_for_a_minute_ends_the_session_and_every_call() {
    let mut bench = Bench::new();
    let stream = bench.stream();
    bench.sent();
    bench.frame(&chunk(stream, &[1]));
    bench.pass(SILENCE_LIMIT.saturating_sub(Duration::from_millis(1)));
    assert!(!bench.session.is_dead());
    bench.pass(Duration::from_millis(1));
    assert_eq!(
        bench.events(),
        [
            "1: chunk of 1",
            r#"1: ended Lost { sent: true, reason: "nothing came for 60 s" }"#,
            "dead: nothing came for 60 s",
        ]
    );
    assert_eq!(
        (bench.session.poll_timeout(), bench.session.poll_transmit()),
        (None, None)
    );
}

#[test]
fn bytes_of_a_message_that_is_still_arriving_are_no_silence() {
    let mut bench = Bench::new();
    bench.pass(SILENCE_LIMIT / 2);
    bench.session.handle_activity(bench.now);
    bench.pass(SILENCE_LIMIT.saturating_sub(Duration::from_millis(1)));
    assert!(!bench.session.is_dead());
}

#[test]
fn a_read_that_gets_no_answer_times_out_and_is_interrupted_but_a_command_is_not() {
    let mut bench = Bench::new();
    bench.read();
    bench.command();
    bench.sent();
    bench.pass(READ_LIMIT);
    assert_eq!(bench.sent(), [json!({"_tag": "Interrupt", "requestId": "1"})]);
    assert_eq!(
        bench.events(),
        [
            "1: TimedOut { sent: true, within: 15s }",
            "2: TimedOut { sent: true, within: 15s }"
        ]
    );
}

#[test]
fn an_answer_that_comes_after_the_end_is_passed_over() {
    let mut bench = Bench::new();
    let call = bench.read();
    bench.sent();
    bench.pass(READ_LIMIT);
    bench.events();
    bench.frame(&exit(call, &json!(1)));
    assert_eq!(bench.events(), Vec::<String>::new());
}

#[test]
fn a_stream_may_be_quiet_for_ever_once_its_first_chunk_came() {
    let mut bench = Bench::new();
    let (quiet, hung) = (bench.stream(), bench.stream());
    bench.sent();
    bench.frame(&chunk(quiet, &[1]));
    for _ in 0..4 {
        bench.pass(PING_EVERY);
        bench.frame(&json!({"_tag": "Pong"}));
    }
    assert_eq!(
        bench.events(),
        [
            "1: chunk of 1".to_owned(),
            format!("{}: ended TimedOut {{ sent: true, within: 60s }}", hung.0)
        ]
    );
}

#[test]
fn a_call_that_nobody_wants_ends_at_once_and_the_server_is_told() {
    let mut bench = Bench::new();
    let (read, command) = (bench.read(), bench.command());
    bench.sent();
    bench.session.interrupt(read);
    bench.session.interrupt(command);
    assert_eq!(bench.sent(), [json!({"_tag": "Interrupt", "requestId": "1"})]);
    assert_eq!(bench.events(), ["1: Cancelled", "2: Cancelled"]);
}

#[test]
fn a_request_that_was_taken_back_before_it_went_out_never_goes_out() {
    let mut bench = Bench::new();
    let call = bench.read();
    bench.session.interrupt(call);
    assert_eq!(bench.sent(), Vec::<Value>::new());
}

#[test]
fn a_loss_says_of_each_command_whether_it_may_have_happened() {
    let mut bench = Bench::new();
    bench.command();
    bench.sent();
    bench.command();
    bench.session.handle_closed("the server closed it (1006)");
    let ends: Vec<_> = std::iter::from_fn(|| bench.session.poll_event())
        .filter_map(|event| match event {
            Event::Answered { answer, .. } => Some(answer.unwrap_err().for_command()),
            Event::Chunk { .. } | Event::Ended { .. } | Event::Defect { .. } | Event::Dead { .. } => None,
        })
        .collect();
    assert!(matches!(
        ends.as_slice(),
        [MachineError::AnswerLost { .. }, MachineError::Unreachable { .. }]
    ));
    assert!(matches!(
        bench
            .session
            .request(bench.now, "x", empty_object(), Purpose::Read, READ_LIMIT),
        Err(CallError::Lost { sent: false, .. })
    ));
}

#[test]
fn a_defect_ends_what_was_sent_as_unknown_and_the_socket_goes_on() {
    let mut bench = Bench::new();
    bench.command();
    bench.stream();
    bench.sent();
    let unsent = bench.read();
    bench.frame(&json!({"_tag": "Defect", "defect": {"name": "Error", "message": "boom"}}));
    let reason = r#"BrokenOff { reason: "a defect of the server: Error: boom" }"#;
    assert_eq!(
        bench.events(),
        [
            format!("1: {reason}"),
            format!("2: ended {reason}"),
            "defect Error: boom".to_owned()
        ]
    );
    assert_eq!(bench.sent().len(), 2);
    bench.frame(&exit(unsent, &json!(1)));
    assert_eq!(bench.events(), ["3: 1"]);
}

#[test]
fn a_broken_frame_hurts_only_the_call_that_it_names() {
    let mut bench = Bench::new();
    let (hurt, whole) = (bench.stream(), bench.read());
    bench.sent();
    bench.frame(&json!({"_tag": "Chunk", "requestId": hurt.0.to_string(), "values": 5}));
    bench.frame(&exit(whole, &json!(1)));
    let events = bench.events();
    assert!(events[0].starts_with("1: ended Malformed"), "{events:?}");
    assert_eq!(events[1..], ["2: 1"]);
}

#[test]
fn text_that_is_no_frame_ends_the_session_but_a_newer_frame_does_not() {
    let mut bench = Bench::new();
    bench.frame(&json!({"_tag": "Progress", "requestId": "1"}));
    bench.frame(&json!("hello"));
    assert!(!bench.session.is_dead());
    bench.session.handle_frame(bench.now, "<html>");
    assert!(bench.session.is_dead());
}

#[test]
fn no_more_calls_are_in_flight_than_allowed() {
    let mut bench = Bench::new();
    for _ in 0..MAX_CALLS {
        bench.read();
    }
    assert!(matches!(
        bench
            .session
            .request(bench.now, "x", empty_object(), Purpose::Read, READ_LIMIT),
        Err(CallError::Busy { open: MAX_CALLS })
    ));
}

#[test]
fn every_session_subscribes_from_the_beginning() {
    for _ in 0..2 {
        let mut bench = Bench::new();
        let subscription = Subscription::new("orchestration.subscribeShell");
        bench.session.subscribe(bench.now, &subscription).unwrap();
        let payload = json!({"requestCompletionMarker": true});
        assert_eq!(
            bench.sent(),
            [
                json!({"_tag": "Request", "id": "1", "tag": "orchestration.subscribeShell", "payload": payload, "headers": []})
            ]
        );
    }
}

/// What may happen to a session, in any order.
#[derive(Clone, Debug)]
enum Step {
    Read,
    Command,
    Subscribe,
    Transmit,
    Acknowledge(u64),
    Interrupt(u64),
    Chunk(u64, usize),
    Exit(u64, usize),
    Defect,
    Text(String),
    Pass(u64),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = 0..12_u64;
    let garbage = prop_oneof![
        "[\\PC]{0,40}",
        "\\{\"_tag\":\"(Chunk|Exit|Pong|Defect|Nope)\",\"requestId\":(1|\"2\"|null|\\{\\}),\"(values|exit|defect)\":(5|\\[\\]|\\{\\}|null)\\}",
        "\\[(\\{\"_tag\":\"Pong\"\\},)*[0-9]\\]",
    ];
    let step = prop_oneof![
        4 => Just(Step::Read),
        4 => Just(Step::Command),
        4 => Just(Step::Subscribe),
        8 => Just(Step::Transmit),
        4 => id.clone().prop_map(Step::Acknowledge),
        2 => id.clone().prop_map(Step::Interrupt),
        8 => (id.clone(), 0..3_usize).prop_map(|(id, n)| Step::Chunk(id, n)),
        4 => (id, 0..4_usize).prop_map(|(id, n)| Step::Exit(id, n)),
        1 => Just(Step::Defect),
        2 => garbage.prop_map(Step::Text),
        3 => (0..30_u64).prop_map(Step::Pass),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn every_call_ends_once_and_acks_follow_chunks_whatever_comes(steps in steps()) {
        let mut bench = Bench::new();
        let mut started = Vec::new();
        let mut texts: Vec<Value> = Vec::new();
        let mut events = Vec::new();
        for step in steps {
            let (now, dead) = (bench.now, bench.session.is_dead());
            match step {
                Step::Read | Step::Command | Step::Subscribe if dead => {}
                Step::Read => started.push(bench.read()),
                Step::Command => started.push(bench.command()),
                Step::Subscribe => started.push(bench.stream()),
                Step::Transmit => texts.extend(bench.sent()),
                Step::Acknowledge(id) => bench.session.acknowledge(CallId(id)),
                Step::Interrupt(id) => bench.session.interrupt(CallId(id)),
                Step::Chunk(id, n) => bench.frame(&chunk(CallId(id), &vec![0; n])),
                Step::Exit(id, 0) => bench.frame(&exit(CallId(id), &json!(1))),
                Step::Exit(id, 1) => bench.frame(&failure(CallId(id), &json!([{"_tag": "Die", "defect": "x"}]))),
                Step::Exit(id, 2) => bench.frame(&failure(CallId(id), &json!([]))),
                Step::Exit(id, _) => bench.frame(&failure(CallId(id), &json!([{"_tag": "Interrupt"}]))),
                Step::Defect => bench.frame(&json!({"_tag": "Defect", "defect": "x"})),
                Step::Text(text) => bench.session.handle_frame(now, &text),
                Step::Pass(seconds) => bench.pass(Duration::from_secs(seconds)),
                Step::Close => bench.session.handle_closed("closed"),
            }
            events.extend(std::iter::from_fn(|| bench.session.poll_event()));
        }
        texts.extend(bench.sent());
        bench.session.handle_closed("the end");
        events.extend(std::iter::from_fn(|| bench.session.poll_event()));

        let mut ends = std::collections::BTreeMap::new();
        let mut chunks = std::collections::BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            match event {
                Event::Answered { call, .. } | Event::Ended { call, .. } => *ends.entry(*call).or_insert(0) += 1,
                Event::Chunk { call, .. } => {
                    prop_assert!(!ends.contains_key(call), "a chunk after the end");
                    *chunks.entry(call.0.to_string()).or_insert(0) += 1;
                }
                Event::Defect { .. } => {}
                Event::Dead { .. } => prop_assert_eq!(at, events.len() - 1, "something after death"),
            }
        }
        prop_assert!(started.iter().all(|call| ends.get(call) == Some(&1)), "{ends:?}");
        prop_assert_eq!(ends.len(), started.len());
        prop_assert!(bench.session.calls.is_empty());
        prop_assert!(bench.session.deadlines.is_empty());

        // Each request went out at most once and before its acks; no ack without a chunk (empty ones are acked unseen).
        let tagged = |tag: &str, field: &str, id: &str| {
            texts.iter().filter(|text| text["_tag"] == tag && text[field] == id).count()
        };
        for call in &started {
            let id = call.0.to_string();
            prop_assert!(tagged("Request", "id", &id) <= 1);
            prop_assert!(tagged("Interrupt", "requestId", &id) <= 1);
            if tagged("Request", "id", &id) == 0 {
                prop_assert_eq!(tagged("Interrupt", "requestId", &id), 0);
            }
        }
    }

    #[test]
    fn every_chunk_that_was_taken_is_acked(sizes in proptest::collection::vec(0..4_usize, 0..40)) {
        let mut bench = Bench::new();
        let stream = bench.stream();
        bench.sent();
        for size in &sizes {
            bench.frame(&chunk(stream, &vec![7; *size]));
            if *size > 0 {
                bench.session.acknowledge(stream);
            }
        }
        let acks = bench.sent();
        prop_assert_eq!(acks.len(), sizes.len());
        prop_assert!(acks.iter().all(|ack| ack["_tag"] == "Ack"));
    }
}
