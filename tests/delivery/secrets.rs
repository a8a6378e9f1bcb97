//! Neither bearer, nor secret, nor the URL's query may come out anywhere: not in what is logged at the finest level, by our own code or by
//! the libraries below, not in the ledger, not in `Debug`, not in what `events test` says.

use axum::response::IntoResponse as _;
use t3code_mcp::delivery::{HookSettings, send_sample};
use tracing::level_filters::LevelFilter;
use url::Url;

use crate::outbound::{Captured, behind_tls, file};
use crate::support::{Hook, SECRET, TOKEN, Trial, answer, nowhere, settings};

const QUERY: &str = "query-that-nobody-may-see";

fn with_query(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_query(Some(QUERY));
    url
}

#[tokio::test]
async fn bearer_secret_and_query_come_out_nowhere() {
    let captured = Captured::default();
    // For the whole process: other tests' lines are welcome.
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(captured.clone())
        .init();

    let echo = Hook::new(|heard| async move {
        let mut response =
            format!("{:?}", heard.headers.get("authorization").unwrap().to_str().unwrap()).into_response();
        *response.status_mut() = 422.try_into().unwrap();
        response
    })
    .await;
    let redirect = Hook::new(|_| async { answer(302, &[("location", "/?query-that-nobody-may-see")], "") }).await;
    let good = Hook::always(200, &[], "token-that-nobody-may-see").await;
    let refusing = Hook::always(410, &[], "no").await;
    let tls = behind_tls(&good.url).await;
    let mut shown = Vec::new();
    for url in [&echo.url, &redirect.url, &good.url, &refusing.url, &tls, &nowhere()] {
        let settings = HookSettings {
            ca_file: Some(file("other-ca.pem")),
            ..settings(&with_query(url))
        };
        let mut trial = Trial::new(&settings).await;
        trial.events("one", &["a"]).await;
        shown.push(format!("{:?}", trial.attempted("a", 1).await));
        trial.stopped().await;
        let outcome = send_sample(&settings).await.unwrap();
        shown.push(format!("{settings:?} {outcome:?}"));
        shown.push(serde_json::to_string(&outcome).unwrap());
    }
    let wrong = HookSettings {
        token: Some(format!("{TOKEN}\n").into()),
        ..settings(&with_query(&good.url))
    };
    shown.push(format!("{:?}", send_sample(&wrong).await.unwrap_err()));
    let wrong = HookSettings {
        secrets: vec![format!("{SECRET}!").into()],
        ..settings(&with_query(&good.url))
    };
    shown.push(format!("{:?}", send_sample(&wrong).await.unwrap_err()));

    let logged = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    for ours in [
        "an event was not delivered",
        "an event was given up",
        "an event was delivered",
    ] {
        assert!(logged.contains(ours), "our own records are not captured");
    }
    assert!(logged.contains("hyper"), "records of the libraries are not captured");
    let shown = shown.join("\n");
    assert!(shown.contains("the receiver answered 422"), "{shown}");
    for (what, text) in [("shown", &shown), ("logged", &logged)] {
        for secret in [TOKEN, SECRET, "C2FVsBQIhrscChlQIMV", QUERY] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{what}");
        }
    }
}
