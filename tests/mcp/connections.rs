//! Connections that say nothing, or only half of what they have to say, and too many of them.

use std::time::Duration;

use t3code_mcp::http::Connections;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{PATIENCE, Running, settings, start};

async fn limited(connections: Connections) -> Running {
    let mut settings = settings();
    settings.connections = connections;
    start(settings).await
}

/// Short for heads; what is kept for the next request is kept for long.
fn short_heads() -> Connections {
    Connections {
        head_within: Duration::from_millis(600),
        idle_within: Duration::from_mins(10),
        ..Connections::default()
    }
}

async fn connect(endpoint: &Running, first: &str) -> TcpStream {
    let mut stream = TcpStream::connect(endpoint.url.strip_prefix("http://").unwrap())
        .await
        .unwrap();
    stream.write_all(first.as_bytes()).await.unwrap();
    stream
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// What comes until the server closes, or until a whole answer of `/healthz` is there.
async fn heard(stream: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    let reading = async {
        let mut bytes = [0; 1024];
        loop {
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(n) => heard.extend_from_slice(&bytes[..n]),
            }
            if heard.ends_with(br#""status":"ok"}"#) {
                return;
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    assert!(
        ended.is_ok(),
        "the server says nothing and does not close: {}",
        String::from_utf8_lossy(&heard)
    );
    String::from_utf8(heard).unwrap()
}

#[tokio::test]
async fn half_a_head_is_not_waited_for_and_a_connection_kept_for_later_is() {
    let endpoint = limited(short_heads()).await;
    let mut kept = connect(&endpoint, HEALTH).await;
    assert!(heard(&mut kept).await.starts_with("HTTP/1.1 200"));
    for first in ["", "POST /mcp HTTP/1.1\r\nHost: local", "\r\n"] {
        let mut half = connect(&endpoint, first).await;
        let answer = heard(&mut half).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{first:?}: {answer}");
    }
    // It was silent for longer than a head may take.
    kept.write_all(HEALTH.as_bytes()).await.unwrap();
    assert!(heard(&mut kept).await.starts_with("HTTP/1.1 200"));
    // Half a head on it is not waited for either.
    kept.write_all(b"GET /healthz HT").await.unwrap();
    assert_eq!(heard(&mut kept).await, "");
}

#[tokio::test]
async fn a_connection_without_a_next_request_is_closed_after_a_while() {
    let endpoint = limited(Connections {
        idle_within: Duration::from_millis(200),
        ..Connections::default()
    })
    .await;
    let mut kept = connect(&endpoint, HEALTH).await;
    assert!(heard(&mut kept).await.starts_with("HTTP/1.1 200"));
    assert_eq!(heard(&mut kept).await, "");
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_and_the_place_of_one_that_ended_is_free() {
    let endpoint = limited(Connections {
        most: 2,
        ..Connections::default()
    })
    .await;
    let mut first = connect(&endpoint, HEALTH).await;
    let mut second = connect(&endpoint, HEALTH).await;
    for kept in [&mut first, &mut second] {
        assert!(heard(kept).await.starts_with("HTTP/1.1 200"));
    }
    let refused = heard(&mut connect(&endpoint, HEALTH).await).await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("too_many_connections"),
        "{refused}"
    );
    drop(first);
    let free = async {
        while !heard(&mut connect(&endpoint, HEALTH).await)
            .await
            .starts_with("HTTP/1.1 200")
        {}
    };
    tokio::time::timeout(PATIENCE, free).await.unwrap();
    second.write_all(HEALTH.as_bytes()).await.unwrap();
    assert!(heard(&mut second).await.starts_with("HTTP/1.1 200"));
}
