//! From a pairing code to a credential: who answers at the address, and then, only if the caller still wants to, the exchange.
//!
//! A code is good once, and T3 spends it even where it grants less than was asked for: so exactly what the gateway needs is asked for.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::form_urlencoded;

use super::descriptor::{Credential, Descriptor};
use super::http::HttpClient;
use super::{Access, MachineError, MachineSettings};

/// What the gateway needs on a machine: to see, and to start and stop work.
pub const NEEDED_SCOPES: [&str; 2] = ["orchestration:read", "orchestration:operate"];

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const SUBJECT_TYPE: &str = "urn:t3:params:oauth:token-type:environment-bootstrap";
const ACCESS_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";
/// What T3 lists the session as.
const CLIENT_LABEL: &str = env!("CARGO_PKG_NAME");

/// The first half of pairing: T3 answered and said who it is, and nothing was spent.
#[derive(Debug)]
pub struct Met {
    http: HttpClient,
    settings: MachineSettings,
    /// Who answers.
    pub descriptor: Descriptor,
}

/// What an exchange brought, as T3 said in its answer.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The bearer.
    pub token: SecretString,
    /// What it may do.
    pub scopes: Vec<String>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

/// Why there is no credential.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// T3 does not take the code; it does not say why.
    #[error("T3 does not take this code")]
    Code,
    /// The code grants less than is needed, and is spent now.
    #[error("the code grants less than {}", NEEDED_SCOPES.join(" and "))]
    Grants,
    /// Anything else that went wrong.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Asks who answers at the machine's url.
pub async fn meet(settings: &MachineSettings) -> Result<Met, MachineError> {
    let http = HttpClient::new(settings)?;
    let descriptor = http.descriptor().await?;
    descriptor.version(&settings.name)?;
    Ok(Met {
        http,
        settings: settings.clone(),
        descriptor,
    })
}

impl Met {
    /// Exchanges the code for a credential.
    pub async fn exchange(&self, code: &SecretString) -> Result<Issued, ExchangeError> {
        // The answer may lack what it must have; the session tells what was got, too.
        #[derive(Deserialize)]
        struct Answer {
            access_token: String,
            #[serde(default)]
            token_type: Option<String>,
            #[serde(default)]
            expires_in: Option<f64>,
            #[serde(default)]
            scope: Option<String>,
        }
        let asked_at = Timestamp::now();
        let body = self.http.exchange(form(code)).await?;
        let machine = &self.settings.name;
        // The parser's own words could repeat the token.
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| MachineError::NotT3 {
            reason: format!("{machine} answered, but not with a token: is its url that of a T3 server?"),
        })?;
        let bearer = answer
            .token_type
            .as_deref()
            .is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
        if !bearer || answer.access_token.is_empty() || !answer.access_token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ExchangeError::Machine(MachineError::NotT3 {
                reason: format!("{machine} answered with a token that cannot be used as a bearer: update t3code-mcp"),
            }));
        }
        let ends = answer
            .expires_in
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let ends = ends.and_then(|left| asked_at.checked_add(SignedDuration::try_from(left).ok()?).ok());
        let scopes = answer
            .scope
            .map(|scope| scope.split_whitespace().map(str::to_owned).collect());
        Ok(Issued {
            token: answer.access_token.into(),
            scopes: scopes.unwrap_or_default(),
            expires_at: ends,
        })
    }

    /// Looks at what was got. The token is good without that: none where it cannot be seen right now.
    pub async fn session(&self, token: &SecretString) -> Option<Credential> {
        let access = Access {
            token: Some(token.clone()),
            ..Access::of(&self.settings)
        };
        let looked = async { self.http.with(&access)?.credential().await };
        looked
            .await
            .inspect_err(|error| tracing::debug!(%error, "the new session could not be looked at"))
            .ok()
    }
}

fn form(code: &SecretString) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", GRANT_TYPE)
        .append_pair("subject_token", code.expose_secret())
        .append_pair("subject_token_type", SUBJECT_TYPE)
        .append_pair("requested_token_type", ACCESS_TYPE)
        .append_pair("scope", &NEEDED_SCOPES.join(" "))
        .append_pair("client_label", CLIENT_LABEL)
        .append_pair("client_device_type", "bot")
        .finish()
}
