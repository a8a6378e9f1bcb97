//! Who may do what: bearers with scopes, WebSocket tickets, pairing codes.
//!
//! Expiry or revocation never closes an open socket: a socket keeps the session that it was opened with.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::model::Stamp;

/// How long a ticket lives. It can be used any number of times until then.
const TICKET_LIFE: Duration = Duration::from_mins(5);
/// How long an issued bearer lives.
const TOKEN_LIFE: Duration = Duration::from_hours(30 * 24);
pub(crate) const READ: &str = "orchestration:read";
pub(crate) const OPERATE: &str = "orchestration:operate";
pub(crate) const ACCESS_READ: &str = "access:read";
pub(crate) const ACCESS_WRITE: &str = "access:write";

/// Every scope that a bearer can have.
const ALL_SCOPES: &[&str] = &[
    READ,
    OPERATE,
    "terminal:operate",
    "review:write",
    "relay:read",
    ACCESS_READ,
    ACCESS_WRITE,
    "relay:write",
];

/// What a pairing code grants.
const PAIRING_SCOPES: &[&str] = &[READ, OPERATE, "terminal:operate", "review:write", "relay:read"];

/// A bearer and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub id: String,
    pub subject: &'static str,
    pub scopes: Vec<String>,
    pub label: Option<String>,
    pub device: String,
    pub issued_at: Stamp,
    pub expires_at: Stamp,
    pub connected_at: Option<Stamp>,
    pub sockets: usize,
    revoked: bool,
}

impl Session {
    pub(crate) fn may(&self, scope: &str) -> bool {
        self.scopes.iter().any(|own| own == scope)
    }
}

/// Why a credential is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AuthError {
    Missing,
    Invalid,
}

impl AuthError {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing_credential",
            Self::Invalid => "invalid_credential",
        }
    }
}

/// Why a pairing code is not exchanged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExchangeError {
    /// Unknown, used or expired.
    Code,
    /// No such scope.
    UnknownScope,
    /// More than the code grants. The code is spent all the same.
    NotGranted,
}

#[derive(Clone, Debug)]
struct Code {
    scopes: Vec<String>,
    expires_at: Stamp,
}

/// Everything that the server knows of credentials.
#[derive(Debug)]
pub(crate) struct Auth {
    /// How long bearers live that are issued from now on.
    life: Duration,
    /// Any bearer is taken.
    open: bool,
    /// By bearer.
    sessions: HashMap<String, Session>,
    tickets: HashMap<String, (String, Stamp)>,
    codes: HashMap<String, Code>,
    order: Vec<String>,
}

impl Auth {
    /// With a token only that one is good; without, any is.
    pub(crate) fn new(token: Option<&str>, now: Stamp) -> Self {
        let mut auth = Self {
            life: TOKEN_LIFE,
            open: token.is_none(),
            sessions: HashMap::new(),
            tickets: HashMap::new(),
            codes: HashMap::new(),
            order: Vec::new(),
        };
        if let Some(token) = token {
            auth.admit(token, ALL_SCOPES, Some("simulated"), "cli-issued-session", now);
        }
        auth
    }

    fn admit(&mut self, token: &str, scopes: &[&str], label: Option<&str>, subject: &'static str, now: Stamp) {
        self.order.push(token.to_owned());
        self.sessions.insert(
            token.to_owned(),
            Session {
                id: Uuid::new_v4().to_string(),
                subject,
                scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
                label: label.map(str::to_owned),
                device: "bot".to_owned(),
                issued_at: now,
                expires_at: now.after(self.life),
                connected_at: None,
                sockets: 0,
                revoked: false,
            },
        );
    }

    /// Issues a bearer with these scopes; all where none is named.
    pub(crate) fn issue(&mut self, scopes: &[&str], label: Option<&str>, now: Stamp) -> String {
        let token = format!("simulated.{}", Uuid::new_v4().simple());
        let scopes = if scopes.is_empty() { ALL_SCOPES } else { scopes };
        self.admit(&token, scopes, label, "cli-issued-session", now);
        token
    }

    /// Bearers that are issued from now on live so long.
    pub(crate) fn set_life(&mut self, life: Duration) {
        self.life = life;
    }

    /// What an exchange says of the bearer's life: a second has passed.
    pub(crate) fn expires_in(&self) -> u64 {
        self.life.as_secs().saturating_sub(1)
    }

    /// Makes a pairing code that lives so long, and grants what T3's do.
    pub(crate) fn pairing_code(&mut self, life: Duration, now: Stamp) -> String {
        self.pairing_code_for(PAIRING_SCOPES, life, now)
    }

    /// Makes a pairing code that lives so long, and grants these scopes.
    pub(crate) fn pairing_code_for(&mut self, scopes: &[&str], life: Duration, now: Stamp) -> String {
        let code = Uuid::new_v4().simple().to_string().to_uppercase();
        let code: String = code.chars().take(12).collect();
        self.codes.insert(
            code.clone(),
            Code {
                scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
                expires_at: now.after(life),
            },
        );
        code
    }

    /// Whether a pairing code was not spent yet.
    pub(crate) fn has_code(&self, code: &str) -> bool {
        self.codes.contains_key(code)
    }

    /// Spends a pairing code for a bearer with the scopes that were asked for, or all that it grants.
    pub(crate) fn exchange(
        &mut self,
        code: &str,
        wanted: Option<&str>,
        label: Option<&str>,
        now: Stamp,
    ) -> Result<(String, Vec<String>), ExchangeError> {
        let wanted: Option<Vec<&str>> = wanted.map(|wanted| wanted.split_whitespace().collect());
        if wanted.iter().flatten().any(|scope| !ALL_SCOPES.contains(scope)) {
            return Err(ExchangeError::UnknownScope);
        }
        let code = self
            .codes
            .remove(code)
            .filter(|code| code.expires_at > now)
            .ok_or(ExchangeError::Code)?;
        let granted: Vec<&str> = code.scopes.iter().map(String::as_str).collect();
        let scopes = wanted.unwrap_or_else(|| granted.clone());
        if scopes.iter().any(|scope| !granted.contains(scope)) {
            return Err(ExchangeError::NotGranted);
        }
        let token = format!("simulated.{}", Uuid::new_v4().simple());
        self.admit(&token, &scopes, label, "one-time-token", now);
        Ok((token, scopes.into_iter().map(str::to_owned).collect()))
    }

    /// The session of a bearer.
    pub(crate) fn session(&mut self, bearer: Option<&str>, now: Stamp) -> Result<&mut Session, AuthError> {
        let bearer = bearer.ok_or(AuthError::Missing)?;
        if self.open && !self.sessions.contains_key(bearer) {
            self.admit(bearer, ALL_SCOPES, None, "cli-issued-session", now);
        }
        self.sessions
            .get_mut(bearer)
            .filter(|session| !session.revoked && session.expires_at > now)
            .ok_or(AuthError::Invalid)
    }

    /// Makes a ticket for a bearer that was found good.
    pub(crate) fn ticket(&mut self, bearer: &str, now: Stamp) -> (String, Stamp) {
        let ticket = Uuid::new_v4().simple().to_string();
        let expires_at = now.after(TICKET_LIFE);
        self.tickets.insert(ticket.clone(), (bearer.to_owned(), expires_at));
        (ticket, expires_at)
    }

    /// The bearer of a ticket.
    pub(crate) fn redeem(&mut self, ticket: &str, now: Stamp) -> Result<String, AuthError> {
        match self.tickets.get(ticket) {
            Some((bearer, expires_at)) if *expires_at > now => Ok(bearer.clone()),
            Some(_) | None => Err(AuthError::Invalid),
        }
    }

    /// A bearer is no longer good.
    pub(crate) fn revoke(&mut self, bearer: &str, now: Stamp) {
        // One that was never seen must not become good later.
        if !self.sessions.contains_key(bearer) {
            self.admit(bearer, &[], None, "cli-issued-session", now);
        }
        if let Some(session) = self.sessions.get_mut(bearer) {
            session.revoked = true;
        }
    }

    /// The session of that id is no longer good.
    pub(crate) fn revoke_session(&mut self, id: &str) -> bool {
        let found = self.sessions.values_mut().find(|session| session.id == id);
        found.is_some_and(|session| {
            session.revoked = true;
            true
        })
    }

    /// The sessions, newest first, as their list shows them.
    pub(crate) fn clients(&self, current: &str) -> Value {
        let sessions = self.order.iter().rev().filter_map(|token| self.sessions.get(token));
        Value::Array(
            sessions
                .filter(|session| !session.revoked)
                .map(|session| {
                    let mut client = json!({"deviceType": session.device});
                    if let Some(label) = &session.label {
                        client["label"] = Value::from(label.clone());
                    }
                    json!({
                        "sessionId": session.id,
                        "subject": session.subject,
                        "scopes": session.scopes,
                        "method": "bearer-access-token",
                        "client": client,
                        "issuedAt": session.issued_at.to_string(),
                        "expiresAt": session.expires_at.to_string(),
                        "lastConnectedAt": session.connected_at.map(|at| at.to_string()),
                        "connected": session.sockets > 0,
                        "current": session.id == current,
                    })
                })
                .collect(),
        )
    }

    /// A socket of the session was opened or closed.
    pub(crate) fn count_socket(&mut self, id: &str, opened: bool, now: Stamp) {
        if let Some(session) = self.sessions.values_mut().find(|session| session.id == id) {
            if opened {
                session.connected_at = Some(now);
                session.sockets += 1;
            } else {
                session.sockets = session.sockets.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Stamp {
        Stamp::new("2026-11-30T05:45:59Z".parse().unwrap())
    }

    #[test]
    fn a_ticket_opens_many_sockets_until_it_is_too_old() {
        let mut auth = Auth::new(Some("good"), now());
        let (ticket, _) = auth.ticket("good", now());
        assert_eq!(auth.redeem(&ticket, now()), Ok("good".to_owned()));
        assert_eq!(
            auth.redeem(&ticket, now().after(Duration::from_secs(290))),
            Ok("good".to_owned())
        );
        assert_eq!(
            auth.redeem(&ticket, now().after(Duration::from_secs(305))),
            Err(AuthError::Invalid)
        );
    }

    #[test]
    fn a_scope_beyond_the_grant_spends_the_code() {
        let mut auth = Auth::new(None, now());
        let code = auth.pairing_code(Duration::from_mins(1), now());
        assert_eq!(
            auth.exchange(&code, Some(ACCESS_WRITE), None, now()),
            Err(ExchangeError::NotGranted)
        );
        assert_eq!(auth.exchange(&code, None, None, now()), Err(ExchangeError::Code));
    }

    #[test]
    fn an_unknown_scope_leaves_the_code_good() {
        let mut auth = Auth::new(None, now());
        let code = auth.pairing_code(Duration::from_mins(1), now());
        assert_eq!(
            auth.exchange(&code, Some("nope"), None, now()),
            Err(ExchangeError::UnknownScope)
        );
        assert!(auth.exchange(&code, Some(READ), None, now()).is_ok());
    }

    #[test]
    fn a_revoked_bearer_stays_revoked_where_any_is_taken() {
        let mut auth = Auth::new(None, now());
        auth.revoke("lost", now());
        assert_eq!(auth.session(Some("lost"), now()).err(), Some(AuthError::Invalid));
        assert!(auth.session(Some("other"), now()).is_ok());
    }
}
