//! What a receiver can tell from a request: that it came from here, and that it is a repeat.

use std::collections::BTreeSet;

use jiff::Timestamp;
use standardwebhooks::Webhook;
use t3code_mcp::delivery::{
    Clock as _, HookError, HookSettings, SIGNATURE_HEADER, TIMESTAMP_HEADER, send_sample, start,
};
use t3code_mcp::store::DeliveryState::Delivered;
use tokio_util::sync::CancellationToken;

use crate::support::{Heard, Hook, SECRET, TOKEN, Trial, at, nowhere, settings};

const OTHER: &str = "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xk";

fn verifies(secret: &str, heard: &Heard) -> bool {
    Webhook::new(secret)
        .unwrap()
        .verify(heard.body.as_bytes(), &heard.headers)
        .is_ok()
}

#[tokio::test]
async fn each_attempt_has_the_same_id_and_body_a_time_of_its_own_and_a_signature_that_verifies() {
    let hook = Hook::always(500, &[], "").await;
    // The verifier knows the real time only.
    let now = Timestamp::now();
    let trial = Trial::at(&settings(&hook.url), now).await;
    trial.events("one", &["a"]).await;
    let mut times = Vec::new();
    for failed in 1..=3 {
        times.push(trial.clock.now().as_second().to_string());
        trial.clock.set(trial.attempted("a", failed).await.due_at);
    }
    let heard = hook.heard(3).await;
    for (heard, time) in heard.iter().zip(&times) {
        assert_eq!((heard.id(), heard.body.as_str()), ("a", heard.body.as_str()));
        assert_eq!(heard.header(TIMESTAMP_HEADER), Some(time.as_str()));
        assert!(verifies(SECRET, heard));
        assert_eq!(heard.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        assert_eq!(heard.header("content-type"), Some("application/json"));
        let agent = concat!("t3code-mcp/", env!("CARGO_PKG_VERSION"));
        assert_eq!(heard.header("user-agent"), Some(agent));
    }
    let bodies: BTreeSet<&str> = heard.iter().map(|one| one.body.as_str()).collect();
    assert_eq!((bodies.len(), times.iter().collect::<BTreeSet<_>>().len()), (1, 3));
    let forged = Heard {
        body: heard[0].body.replace("completed", "failed"),
        ..heard[0].clone()
    };
    assert!(!verifies(SECRET, &forged) && !verifies(OTHER, &heard[0]));
}

#[tokio::test]
async fn while_a_secret_is_replaced_either_verifies() {
    let hook = Hook::always(200, &[], "").await;
    let both = HookSettings {
        secrets: vec![OTHER.into(), SECRET.into()],
        ..settings(&hook.url)
    };
    let trial = Trial::at(&both, Timestamp::now()).await;
    trial.events("one", &["a"]).await;
    trial.decided("a").await;
    let heard = &hook.so_far()[0];
    assert_eq!(heard.header(SIGNATURE_HEADER).unwrap().split(' ').count(), 2);
    assert!(verifies(SECRET, heard) && verifies(OTHER, heard));
}

#[tokio::test]
async fn without_token_and_secret_neither_header_is_sent() {
    let hook = Hook::always(200, &[], "").await;
    let bare = HookSettings {
        token: None,
        secrets: Vec::new(),
        ..settings(&hook.url)
    };
    let trial = Trial::new(&bare).await;
    trial.events("one", &["a"]).await;
    assert_eq!(trial.decided("a").await.state, Delivered);
    let heard = &hook.so_far()[0];
    assert_eq!(
        (heard.header("authorization"), heard.header(SIGNATURE_HEADER)),
        (None, None)
    );
    assert_eq!(heard.id(), "a");
}

#[tokio::test]
async fn a_sample_is_sent_as_events_are_and_says_what_came_back() {
    let hook = Hook::always(202, &[], "thanks").await;
    let outcome = send_sample(&settings(&hook.url)).await.unwrap();
    assert_eq!(
        (
            outcome.delivered,
            outcome.signed,
            outcome.status,
            outcome.answer.as_deref()
        ),
        (true, true, Some(202), Some("thanks"))
    );
    let heard = &hook.so_far()[0];
    assert!(verifies(SECRET, heard));
    assert_eq!(
        (heard.json()["event"].as_str(), heard.id()),
        (Some("test"), outcome.id.as_str())
    );
    assert_eq!(heard.json()["id"], outcome.id);

    let refused = send_sample(&settings(&Hook::always(401, &[], "").await.url))
        .await
        .unwrap();
    assert_eq!((refused.delivered, refused.status), (false, Some(401)));
    assert!(refused.error.unwrap().contains("hook.token_env"));
    let away = send_sample(&settings(&nowhere())).await.unwrap();
    assert_eq!((away.delivered, away.status), (false, None));
    assert_eq!(away.error.as_deref(), Some("no connection: nothing listens there"));
}

#[tokio::test]
async fn what_cannot_be_sent_at_all_is_said_at_the_start() {
    let trial = Trial::idle(at(0)).await;
    let good = settings(&"http://127.0.0.1:1/".parse().unwrap());
    let begin = |settings: HookSettings| start(trial.store.clone(), &settings, CancellationToken::new()).unwrap_err();
    for url in ["ftp://host/", "http://me@host/", "http://:pw@host/"] {
        let url = url.parse().unwrap();
        assert!(matches!(begin(HookSettings { url, ..good.clone() }), HookError::Url));
    }
    let secrets = vec![SECRET.into(), "whsec_no base64".into()];
    assert!(matches!(
        begin(HookSettings {
            secrets,
            ..good.clone()
        }),
        HookError::Secret
    ));
    let token = Some("line\nbreak".into());
    assert!(matches!(
        begin(HookSettings { token, ..good.clone() }),
        HookError::Token
    ));
    let lost = HookSettings {
        url: "https://127.0.0.1:1/".parse().unwrap(),
        ca_file: Some("missing.pem".into()),
        ..good
    };
    assert!(begin(lost).to_string().contains("missing.pem"));
}
