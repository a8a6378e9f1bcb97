//! The upgrade of a client that offers what this server does not have.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};

use crate::rules::start;

const EXTENSIONS: &str = "sec-websocket-extensions";
/// A final text frame of no bytes with the bit that says "compressed", masked with zeroes.
const COMPRESSED: [u8; 6] = [0xc1, 0x80, 0, 0, 0, 0];

#[tokio::test]
async fn a_client_that_offers_compression_is_declined_and_spoken_to_in_plain_frames() {
    let (simulator, http) = start().await;
    let url = format!("ws://{}/ws?wsTicket={}", simulator.addr(), http.ticket().await);
    let mut request = url.into_client_request().unwrap();
    let offer = HeaderValue::from_static("permessage-deflate; client_max_window_bits");
    request.headers_mut().insert(EXTENSIONS, offer);
    let stream = TcpStream::connect(simulator.addr()).await.unwrap();
    let (mut socket, answer) = client_async(request, stream).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(answer.headers().get(EXTENSIONS), None);

    // Large enough that a server which compresses would.
    let config = json!({"_tag": "Request", "id": "1", "tag": "server.getConfig", "payload": {}, "headers": []});
    socket.send(Message::text(config.to_string())).await.unwrap();
    let Some(Ok(Message::Text(text))) = socket.next().await else {
        panic!("no plain text came");
    };
    let frame: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(frame["exit"]["_tag"], "Success");

    // Who compresses all the same breaks the protocol.
    socket.get_mut().write_all(&COMPRESSED).await.unwrap();
    let end = socket.next().await;
    assert!(!matches!(end, Some(Ok(Message::Text(_)))), "{end:?}");
    assert!(socket.next().await.is_none_or(|end| end.is_err()));
}
