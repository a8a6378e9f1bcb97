//! What a machine's HTTP refusal means: one place for plain requests and for the WebSocket upgrade.
//!
//! Nothing of a body reaches an error but T3's own codes and short excerpts; a redirect's target is named without its query, since
//! it may repeat what we sent.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use url::Url;

use super::descriptor;
use super::{MachineError, TokenFrom};
use crate::outbound::{bare, tls_cause};

/// T3's error body; every field is optional since other servers answer with other bodies.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody {
    #[serde(rename = "_tag")]
    tag: Option<String>,
    code: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    required_scope: Option<String>,
    required_permission: Option<String>,
    orchestration_protocol_version: Option<i64>,
}

/// How a T3 without its web app begins its answer (503) for a path that it does not have.
const NO_WEB_APP: &[u8] = b"No static directory configured";

/// What came instead of the answer.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The server does not have this route: an older or newer T3, or none at all.
    RouteAbsent,
    /// HTTP 503 in words that are not T3's: a proxy before it says so while T3 is down.
    Unavailable,
    /// Anything else.
    Error(MachineError),
}

impl Refusal {
    /// For routes that every T3 of ours has.
    pub(super) fn into_error(self, machine: &str, path: &str) -> MachineError {
        match self {
            Self::RouteAbsent => MachineError::NotT3 {
                reason: format!("{machine} answers, but has no {path}: is its url that of a T3 server?"),
            },
            Self::Unavailable => no_server(machine, StatusCode::SERVICE_UNAVAILABLE),
            Self::Error(error) => error,
        }
    }
}

/// Reads a refusal: any status but 2xx. `asked` is what was asked for, to resolve a redirect against.
pub(super) fn read(
    (machine, source): (&str, TokenFrom),
    asked: &Url,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Refusal {
    if status.is_redirection() {
        return Refusal::Error(redirected(machine, asked, headers));
    }
    let no_web_app = body.starts_with(NO_WEB_APP);
    let t3: Option<ErrorBody> = serde_json::from_slice(body).ok();
    let body = t3.unwrap_or_default();
    let code = body.code.as_deref().unwrap_or_default();
    let reason = body.reason.as_deref();
    Refusal::Error(match (status, code) {
        (StatusCode::UPGRADE_REQUIRED, _) => descriptor::unsupported(machine, body.orchestration_protocol_version),
        (StatusCode::UNAUTHORIZED, _) => MachineError::NeedsPairing {
            reason: match reason {
                Some("missing_credential") | None => {
                    format!("{machine} asks for a credential: {}", source.missing(machine))
                }
                Some(reason) => {
                    format!(
                        "{machine} does not accept the token ({reason}): {}",
                        source.refused(machine)
                    )
                }
            },
        },
        (StatusCode::FORBIDDEN, "insufficient_scope") => MachineError::InsufficientScope {
            scope: body
                .required_permission
                .or(body.required_scope)
                .unwrap_or_else(|| "that it did not name".into()),
        },
        (StatusCode::NOT_FOUND, "not_found") if reason == Some("thread_not_found") => MachineError::ThreadNotFound,
        (_, code) if body.tag.is_some() && !code.is_empty() => MachineError::Rejected {
            message: body.message.unwrap_or_else(|| {
                let detail = reason.unwrap_or(code);
                format!("{machine} refused: {detail} (HTTP {})", status.as_u16())
            }),
            tag: body.tag.unwrap_or_default(),
        },
        (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, _) => return Refusal::RouteAbsent,
        (StatusCode::SERVICE_UNAVAILABLE, _) if no_web_app => return Refusal::RouteAbsent,
        (StatusCode::SERVICE_UNAVAILABLE, _) => return Refusal::Unavailable,
        (StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT, _) => no_server(machine, status),
        _ => MachineError::NotT3 {
            reason: format!(
                "{machine} answered HTTP {} in a way that T3 does not: is its url that of a T3 server?",
                status.as_u16()
            ),
        },
    })
}

fn no_server(machine: &str, status: StatusCode) -> MachineError {
    MachineError::Unreachable {
        reason: format!(
            "{machine}'s proxy answers HTTP {}, but the T3 server behind it does not: is it running?",
            status.as_u16()
        ),
    }
}

fn redirected(machine: &str, asked: &Url, headers: &HeaderMap) -> MachineError {
    let target = headers
        .get(header::LOCATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| asked.join(value).ok());
    let target = target.map_or_else(|| "somewhere else".to_owned(), |url| bare(&url));
    MachineError::NotT3 {
        reason: format!(
            "{machine} redirects to {target}, and redirects are not followed: set its url to where T3 itself listens"
        ),
    }
}

/// Why a machine took no connection in time.
pub(super) fn no_connection(machine: &str, place: &str, within: Duration) -> String {
    format!(
        "{machine} took no connection at {place} within {} s: is it on, and can this host reach it (VPN, firewall)?",
        within.as_secs()
    )
}

/// Why there is no connection, by the cause at the root; the errors above it could repeat the URL.
pub(super) fn connection_failed(machine: &str, place: &str, error: &(dyn Error + 'static)) -> String {
    let chain: Vec<_> = std::iter::successors(Some(error), |&error| error.source()).collect();
    let tls = chain.iter().find_map(|error| tls_cause(*error));
    if let Some(tls) = tls {
        return format!("{machine} could not be trusted at {place} ({tls}): set its ca_file, or mend its certificate");
    }
    let io = chain.iter().find_map(|error| error.downcast_ref::<std::io::Error>());
    match io.map(std::io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => {
            format!("nothing listens at {place}: is T3 Code running on {machine}, and is the port right?")
        }
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::TimedOut) => {
            format!("{machine} is not reachable at {place}: is it on, and can this host reach it (VPN, firewall)?")
        }
        Some(
            ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionAborted,
        ) => {
            format!("{machine} broke the connection at {place} off: is T3 Code still running there?")
        }
        Some(_) | None => {
            let root = chain.last().map_or_else(String::new, ToString::to_string);
            format!("{machine} could not be reached at {place}: {root}")
        }
    }
}
