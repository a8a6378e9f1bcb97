//! Host and Origin, checked before anything else of a request is read: a web page must not reach the gateway through its visitor's browser.
//!
//! A name in `Host` passes if the operator listed it; the address that the client connected to passes by itself, since a page on another name
//! cannot forge it. An `Origin` passes only if it is listed; programs send none.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderValue, StatusCode};
use url::Url;

use super::reply::refusal;
use super::settings::HttpSettings;
use super::wire::{Connection, is_socket};
use crate::protocol::Untrusted;

/// How much of a refused header is shown.
const SHOWN_CHARS: usize = 100;

pub(super) async fn layer(State(settings): State<Arc<HttpSettings>>, request: Request, next: Next) -> Response {
    // No page reaches it.
    if is_socket(&request) {
        return next.run(request).await;
    }
    let local = request
        .extensions()
        .get::<ConnectInfo<Connection>>()
        .and_then(|ConnectInfo(connection)| match connection {
            Connection::Tcp { local, .. } => *local,
            Connection::Socket => None,
        })
        .map(|address| address.ip());
    if request.headers().get_all(HOST).iter().count() > 1 {
        return refusal(
            StatusCode::BAD_REQUEST,
            "bad_request",
            "The request has more than one Host.",
            None,
        );
    }
    let Some(Ok(host)) = request.headers().get(HOST).map(HeaderValue::to_str) else {
        return forbidden_host("(none)");
    };
    // A request target may name an authority of its own; then both count.
    let target = request.uri().authority().map(Authority::as_str);
    for host in [Some(host), target].into_iter().flatten() {
        if !host_passes(host, &settings.allowed_hosts, local) {
            return forbidden_host(host);
        }
    }
    for origin in request.headers().get_all(ORIGIN) {
        let origin = origin.to_str().unwrap_or("(unreadable)");
        if !settings
            .allowed_origins
            .iter()
            .any(|allowed| origin_matches(origin, allowed))
        {
            return forbidden_origin(origin);
        }
    }
    next.run(request).await
}

fn forbidden_host(host: &str) -> Response {
    refusal(
        StatusCode::FORBIDDEN,
        "forbidden_host",
        &format!("The Host `{}` is not allowed.", Untrusted(host).at_most(SHOWN_CHARS)),
        Some(
            "Add it to `server.allowed_hosts` in t3code.toml, or connect by the address that the gateway is bound to.",
        ),
    )
}

fn forbidden_origin(origin: &str) -> Response {
    refusal(
        StatusCode::FORBIDDEN,
        "forbidden_origin",
        &format!(
            "The Origin `{}` is not allowed.",
            Untrusted(origin).at_most(SHOWN_CHARS)
        ),
        Some("Add it to `server.allowed_origins` in t3code.toml."),
    )
}

fn host_passes(host: &str, allowed: &[String], local: Option<IpAddr>) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    // `user@host` is no Host.
    if host.contains('@') {
        return false;
    }
    let name = bare(authority.host());
    if let Some(local) = local.map(|address| address.to_canonical()) {
        let address = name.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let loopback = name.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback());
        if address == Some(local) || local.is_loopback() && loopback {
            return true;
        }
    }
    allowed
        .iter()
        .any(|allowed| host_matches(&name, authority.port_u16(), allowed))
}

/// `host` passes on any port, `host:port` on that one.
fn host_matches(name: &str, port: Option<u16>, allowed: &str) -> bool {
    // A bare IPv6 address has colons but no port.
    let (allowed_name, allowed_port) = match allowed.parse::<IpAddr>() {
        Ok(_) => (allowed.to_owned(), None),
        Err(_) => match allowed.parse::<Authority>() {
            Ok(authority) => (bare(authority.host()), authority.port_u16()),
            Err(_) => return false,
        },
    };
    name.eq_ignore_ascii_case(&allowed_name) && allowed_port.is_none_or(|allowed| port.unwrap_or(80) == allowed)
}

/// Without the brackets of an IPv6 address, without the dot of an absolute name.
fn bare(host: &str) -> String {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .trim_end_matches('.')
        .to_owned()
}

fn origin_matches(origin: &str, allowed: &str) -> bool {
    if allowed == "null" {
        return origin == "null";
    }
    let (allowed, any_port) = match allowed.strip_suffix(":*") {
        Some(allowed) => (allowed, true),
        None => (allowed, false),
    };
    let (Ok(origin), Ok(allowed)) = (Url::parse(origin), Url::parse(allowed)) else {
        return false;
    };
    origin.scheme() == allowed.scheme()
        && origin.host().is_some()
        && origin.host() == allowed.host()
        && (any_port || origin.port_or_known_default() == allowed.port_or_known_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(host: &str, allowed: &[&str], local: &str) -> bool {
        let allowed: Vec<String> = allowed.iter().map(|&host| host.to_owned()).collect();
        host_passes(host, &allowed, local.parse().ok())
    }

    #[test]
    fn the_bound_address_and_listed_names_pass() {
        assert!(passes("10.0.0.5:8000", &[], "10.0.0.5"));
        assert!(passes("localhost:8000", &[], "127.0.0.1"));
        assert!(passes("[::1]:8000", &[], "::1"));
        assert!(passes("127.0.0.1", &[], "::ffff:127.0.0.1"));
        assert!(passes("Gateway.example:9", &["gateway.example"], "10.0.0.5"));
        assert!(passes("gateway.example:9", &["gateway.example:9"], "10.0.0.5"));
        assert!(passes("[fd00::1]:9", &["fd00::1"], "10.0.0.5"));
    }

    #[test]
    fn what_a_rebound_name_or_a_trick_shows_does_not() {
        for host in [
            "evil.example",
            "localhost:8000",
            "127.0.0.1:8000",
            "10.0.0.6",
            "10.0.0.5@evil.example",
            "",
            "a b",
        ] {
            assert!(!passes(host, &["gateway.example:9"], "10.0.0.5"), "{host}");
        }
        assert!(!passes("gateway.example:10", &["gateway.example:9"], "10.0.0.5"));
    }

    #[test]
    fn an_origin_matches_by_scheme_host_and_port() {
        assert!(origin_matches("https://app.example", "https://app.example"));
        assert!(origin_matches("https://app.example:443", "https://app.example"));
        assert!(origin_matches("http://localhost:6274", "http://localhost:*"));
        assert!(origin_matches("null", "null"));
        for (origin, allowed) in [
            ("http://app.example", "https://app.example"),
            ("https://app.example:444", "https://app.example"),
            ("https://app.example.evil", "https://app.example"),
            ("null", "https://app.example"),
            ("https://null", "null"),
        ] {
            assert!(!origin_matches(origin, allowed), "{origin} {allowed}");
        }
    }
}
