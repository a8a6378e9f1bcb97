//! What each kind of answer does to a delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use jiff::SignedDuration;
use t3code_mcp::delivery::schedule::{LONGEST_RETRY_AFTER, delay};
use t3code_mcp::delivery::{HookSettings, MOST_SENT};
use t3code_mcp::store::DeliveryState::{Dead, Delivered, Waiting};
use t3code_mcp::store::NewEvent;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use url::Url;

use crate::support::{Hook, Trial, answer, at, event, impatient, settings};

#[tokio::test]
async fn a_success_delivers_gone_ends_and_everything_else_is_tried_again() {
    let hook = Hook::new(|heard| async move {
        let status = heard.id().rsplit('-').next().unwrap().parse().unwrap();
        answer(status, &[("location", "/elsewhere")], "no")
    })
    .await;
    let trial = Trial::new(&settings(&hook.url)).await;
    let cases = [
        (200, Delivered),
        (201, Delivered),
        (204, Delivered),
        (301, Waiting),
        (302, Waiting),
        (307, Waiting),
        (308, Waiting),
        (400, Waiting),
        (401, Waiting),
        (404, Waiting),
        (410, Dead),
        (422, Waiting),
        (429, Waiting),
        (500, Waiting),
        (503, Waiting),
    ];
    for (status, state) in cases {
        let id = format!("evt-{status}");
        trial.events(&id, &[&id]).await;
        let delivery = trial.attempted(&id, 1).await;
        assert_eq!(
            (delivery.state, delivery.last_status),
            (state, Some(status)),
            "{delivery:?}"
        );
        assert_eq!(delivery.last_error.is_some(), state != Delivered);
    }
    assert_eq!(hook.so_far().len(), cases.len(), "a redirect was followed");
}

#[tokio::test]
async fn what_a_receiver_says_is_kept_on_one_line_and_short() {
    let hook = Hook::always(422, &[], "no\u{1b}[2J\nsuch origin").await;
    let trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a"]).await;
    let error = trial.attempted("a", 1).await.last_error.unwrap();
    assert_eq!(error, "the receiver answered 422: no\\u{1b}[2J\\nsuch origin");
}

/// When the next attempt is after one that was answered with 429 and this header.
async fn put_off(header: &str) -> SignedDuration {
    let header = header.to_owned();
    let hook = Hook::new(move |_| {
        let header = header.clone();
        async move { answer(429, &[("retry-after", &header)], "") }
    })
    .await;
    let trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a"]).await;
    trial.attempted("a", 1).await.due_at.duration_since(at(0))
}

#[tokio::test]
async fn a_receiver_that_asks_for_time_gets_it_in_both_forms() {
    assert_eq!(put_off("3600").await, SignedDuration::from_hours(1));
    assert_eq!(
        put_off("Mon, 30 Nov 2026 12:00:00 GMT").await,
        SignedDuration::from_hours(2)
    );
}

#[tokio::test]
async fn a_receiver_that_asks_for_too_much_or_too_little_is_not_obeyed() {
    assert_eq!(put_off("99999999999999999999").await, LONGEST_RETRY_AFTER);
    assert_eq!(put_off("Sat, 30 Nov 2126 12:00:00 GMT").await, LONGEST_RETRY_AFTER);
    for header in ["0", "Mon, 30 Nov 2020 12:00:00 GMT", "soon"] {
        assert!(put_off(header).await >= delay(1) * 4 / 5, "{header}");
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_in_time_is_left_and_tried_again() {
    let hook = Hook::new(|_| std::future::pending()).await;
    let trial = Trial::new(&impatient(&hook.url)).await;
    trial.events("one", &["a"]).await;
    let delivery = trial.attempted("a", 1).await;
    assert_eq!(
        (delivery.state, delivery.last_error.as_deref()),
        (Waiting, Some("no answer within 0.2 s"))
    );
}

/// A receiver that reads a request, says this, and hangs up.
async fn says(words: &'static str) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = Vec::new();
            while !read.ends_with(b"\"completed\"}") {
                stream.read_buf(&mut read).await.unwrap();
            }
            stream.write_all(words.as_bytes()).await.unwrap();
        }
    });
    url.parse().unwrap()
}

#[tokio::test]
async fn a_receiver_that_hangs_up_before_its_status_has_nothing_and_after_it_has_the_event() {
    for (words, state) in [
        ("", Waiting),
        ("HTTP/1.1 200 OK\r\nContent-Le", Waiting),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", Delivered),
    ] {
        let trial = Trial::new(&settings(&says(words).await)).await;
        trial.events("one", &["a"]).await;
        let delivery = trial.attempted("a", 1).await;
        assert_eq!(delivery.state, state, "{delivery:?}");
        let broken = delivery.last_error.unwrap_or_default();
        assert_eq!(
            broken.starts_with("the connection broke off"),
            state == Waiting,
            "{broken}"
        );
    }
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let hook = Hook::new(move |heard| {
        let count = Arc::clone(&count);
        async move {
            let chunk = Bytes::from_static(&[b'x'; 1024]);
            let endless = futures_util::stream::repeat_with(move || {
                count.fetch_add(chunk.len(), Ordering::Relaxed);
                Ok::<_, std::convert::Infallible>(chunk.clone())
            });
            let status = if heard.id() == "good" { 200 } else { 500 };
            Response::builder()
                .status(status)
                .body(Body::from_stream(endless))
                .unwrap()
        }
    })
    .await;
    // So long that only the bound on what is read can end it.
    let patient = HookSettings {
        attempt_within: Duration::from_hours(1),
        ..settings(&hook.url)
    };
    let trial = Trial::new(&patient).await;
    trial.events("one", &["good"]).await;
    trial.events("two", &["bad"]).await;
    assert_eq!(trial.attempted("good", 1).await.state, Delivered);
    let bad = trial.attempted("bad", 1).await;
    assert_eq!(bad.state, Waiting);
    assert!(bad.last_error.unwrap().len() < 300);
    // What lies in the buffers of two sockets besides.
    assert!(sent.load(Ordering::Relaxed) < 64 * 1024 * 1024);
}

#[tokio::test]
async fn an_event_that_is_too_large_is_given_up_and_one_that_just_fits_is_sent() {
    let hook = Hook::always(200, &[], "").await;
    let trial = Trial::new(&settings(&hook.url)).await;
    let sized = |id: &str, size: usize| NewEvent {
        body: format!("{{{}}}", " ".repeat(size - 2)),
        ..event(id, id, at(0))
    };
    trial
        .commit(vec![sized("fits", MOST_SENT), sized("large", MOST_SENT + 1)])
        .await;
    let large = trial.decided("large").await;
    assert_eq!(
        (large.state, large.last_error.as_deref()),
        (Dead, Some("the event has 262145 bytes, and at most 262144 are sent"))
    );
    assert_eq!(trial.decided("fits").await.state, Delivered);
    assert_eq!(hook.so_far().len(), 1);
}
