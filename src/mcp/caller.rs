//! Who calls: read from what the HTTP layer put beside the request, or fixed at start for stdio.
//!
//! It makes the gateway's [`Caller`]. It trusts no header with a name: who a client is comes from its bearer alone.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use rmcp::model::RequestMetaObject;

use crate::config::DEFAULT_CLIENT;
use crate::fleet::Limits;
use crate::gateway::{Caller, Delivery, ErrorCode, ORIGIN_BYTES, ToolError, is_origin};
use crate::mcp::owner::{META_KEY, Passport, unreadable};
use crate::mcp::tool::Request;

/// The header with the conversation that a call came from.
pub const ORIGIN_HEADER: &str = "x-conversation-origin";

/// A client of the endpoint: the HTTP layer puts it into the request's extensions as `Arc<Client>`.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its configured name.
    pub name: String,
    /// What it may see and do.
    pub limits: Limits,
}

/// Beside a request of a process that may call for others: the HTTP layer puts it there for those that came over the socket in the state
/// directory.
#[derive(Clone, Copy, Debug)]
pub struct Trusted;

impl Default for Client {
    fn default() -> Self {
        Self {
            name: DEFAULT_CLIENT.to_owned(),
            limits: Limits::default(),
        }
    }
}

/// The caller of a request over HTTP; over stdio, where there are no parts, the default client with the origin that the process was given.
pub(super) fn caller(
    parts: Option<&Parts>,
    stdio_origin: Option<&str>,
    delivery: Delivery,
) -> Result<Caller, ToolError> {
    let client = parts.and_then(|parts| parts.extensions.get::<Arc<Client>>());
    let origin = match parts {
        Some(parts) => header_origin(parts)?,
        None => stdio_origin.map(str::to_owned),
    };
    let (name, limits) = match client {
        Some(client) => (client.name.clone(), client.limits.clone()),
        None => (DEFAULT_CLIENT.to_owned(), Limits::default()),
    };
    Ok(Caller {
        client: name,
        origin,
        limits,
        delivery,
        under_way: Duration::ZERO,
    })
}

/// Whom another process of the gateway calls for. It is asked for only where the call came over the socket in the state directory.
pub(super) fn passport(parts: Option<&Parts>, meta: &RequestMetaObject) -> Result<Option<Passport>, ToolError> {
    if parts.and_then(|parts| parts.extensions.get::<Trusted>()).is_none() {
        return Ok(None);
    }
    let Some(passport) = meta.get(META_KEY) else {
        return Ok(None);
    };
    let passport = serde_json::from_value(passport.clone()).map_err(|error| unreadable(&error))?;
    Ok(Some(passport))
}

/// Whether a call that this process cannot see to its end is to be answered so that who passed it on does so again.
pub(super) fn can_move_on(request: &Request<'_>) -> bool {
    let parts = request.context.extensions.get::<Parts>();
    matches!(passport(parts, &request.context.meta), Ok(Some(passport)) if !passport.is_in_haste())
}

fn header_origin(parts: &Parts) -> Result<Option<String>, ToolError> {
    let Some(value) = parts.headers.get(ORIGIN_HEADER) else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(origin) if is_origin(origin) => Ok(Some(origin.to_owned())),
        // Left out instead, events of this call would go to nobody: better to say so while the caller can mend it.
        Ok(_) | Err(_) => Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!("The header X-Conversation-Origin is not 1 to {ORIGIN_BYTES} visible ASCII characters."),
        )
        .hint("Send it without spaces and control characters, or leave it out.")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parts(origin: &[u8]) -> Parts {
        let request = http::Request::builder()
            .header(ORIGIN_HEADER, http::HeaderValue::from_bytes(origin).unwrap())
            .body(())
            .unwrap();
        request.into_parts().0
    }

    #[test]
    fn the_origin_is_taken_verbatim_and_what_is_no_origin_is_refused() {
        let origin = |text: &[u8]| caller(Some(&parts(text)), None, Delivery::default()).map(|caller| caller.origin);
        assert_eq!(origin(b"chat:42/~x").unwrap().as_deref(), Some("chat:42/~x"));
        assert_eq!(origin(&[b'a'; 1_024]).unwrap().unwrap().len(), 1_024);
        for wrong in [&b""[..], b"a b", &[b'a'; 1_025], "ä".as_bytes(), b"a\tb"] {
            assert_eq!(origin(wrong).unwrap_err().code, ErrorCode::InvalidRequest);
        }
    }

    #[test]
    fn over_stdio_the_origin_is_the_processes_own() {
        let caller = caller(None, Some("cron"), Delivery::default()).unwrap();
        assert_eq!(
            (caller.client.as_str(), caller.origin.as_deref()),
            (DEFAULT_CLIENT, Some("cron"))
        );
    }
}
