//! One machine's transport over real sockets: HTTP reads, the WebSocket session, TLS, and what each kind of wrong server is taken for.

// In a test a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

#[path = "session/http.rs"]
mod http;
#[path = "outbound/mod.rs"]
mod outbound;
#[path = "session/recorded.rs"]
mod recorded;
#[path = "recordings/mod.rs"]
mod recordings;
#[path = "session/secrets.rs"]
mod secrets;
#[path = "session/socket.rs"]
mod socket;
#[path = "session/support.rs"]
mod support;
#[path = "session/tls.rs"]
mod tls;
