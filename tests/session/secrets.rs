//! Neither ticket nor token may come out anywhere: not in errors, not in `Debug`, not in what is logged at the finest level, by our own
//! code or by the libraries below it.

use axum::routing::get;
use t3code_mcp::machine::session::{Subscription, empty_object};
use tracing::level_filters::LevelFilter;

use super::outbound::Captured;
use super::support::{TICKET, TOKEN, Wire, answer, client, connect, scripted, serve, tickets};

/// Takes what libraries report through the `log` crate. Ours does not pass it on today; whoever makes it do so must stay safe.
impl log::Log for Captured {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}\n", record.target(), record.args());
        self.0.lock().unwrap().extend_from_slice(line.as_bytes());
    }

    fn flush(&self) {}
}

#[tokio::test]
async fn ticket_and_token_come_out_nowhere() {
    let captured = Captured::default();
    // For the whole process: other tests' lines are welcome.
    log::set_logger(Box::leak(Box::new(captured.clone()))).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(captured.clone())
        .init();

    let url = scripted(|mut wire: Wire| async move {
        let id = wire.next().await.unwrap()["id"].clone();
        wire.chunk(&id, &[1]).await;
        wire.next().await;
        wire.0.send(axum::extract::ws::Message::Close(None)).await.unwrap();
    })
    .await;
    let http = client(url.clone());
    let ticket = http.ticket().await.unwrap();
    let handle = connect(url).await.unwrap();
    let mut stream = handle
        .subscribe(Subscription::new("orchestration.subscribeShell"))
        .await
        .unwrap();
    stream.next_chunk().await.unwrap();
    let mut shown = vec![format!("{http:?} {ticket:?} {handle:?} {stream:?}")];
    shown.push(format!("{:?}", stream.next_chunk().await));
    shown.push(format!("{:?}", handle.closed().await));
    shown.push(format!("{:?}", handle.call("server.probe", empty_object()).await));

    for (status, body) in [
        (401, "{}"),
        (403, "{}"),
        (426, "{}"),
        (404, ""),
        (200, "<html>"),
        (500, ""),
        (302, ""),
    ] {
        let refuse = answer(status, "application/json", body);
        let url = serve(tickets().route("/ws", get(move || async move { refuse() }))).await;
        let error = connect(url).await.unwrap_err();
        shown.push(format!("{error} {error:?}"));
    }

    let logged = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(
        logged.contains("Client handshake done."),
        "records of tungstenite are not captured"
    );
    assert!(logged.contains("the session ended"), "our own records are not captured");
    let shown = shown.join("\n");
    for (what, text) in [("shown", &shown), ("logged", &logged)] {
        for secret in [TICKET, TOKEN] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{what}");
        }
    }
}
