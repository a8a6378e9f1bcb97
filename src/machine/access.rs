//! How a machine is reached and by which token. It may change while the machine runs; the connection then moves over.

use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::MachineSettings;
use super::expiry::Mark;
use crate::protocol::EnvironmentId;

/// Where a machine is and what the gateway shows it.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where its T3 server listens; no userinfo, no path.
    pub url: Url,
    /// The bearer; none while it has none.
    pub token: Option<SecretString>,
    /// The database that the token is of, where that is known: no other is shown it.
    pub environment: Option<EnvironmentId>,
    /// When the token ends, where that was said when it was got.
    pub expires_at: Option<Timestamp>,
    /// Where the token came from, and so who can mend it.
    pub source: TokenFrom,
}

/// Where a token came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenFrom {
    /// An environment variable.
    Variable,
    /// Pairing.
    Pairing,
}

impl Access {
    /// That of a machine whose token stands in a variable.
    pub fn of(settings: &MachineSettings) -> Self {
        Self {
            url: settings.url.clone(),
            token: settings.token.clone(),
            environment: None,
            expires_at: None,
            source: TokenFrom::Variable,
        }
    }

    /// By what its token is told from another one; the token cannot be found from it.
    pub(super) fn mark(&self) -> Mark {
        let token = self.token.as_ref().map_or("", |token| token.expose_secret());
        let digest = Sha256::new_with_prefix(b"t3code-mcp credential\0")
            .chain_update(token)
            .finalize();
        let mut mark = [0; 16];
        mark.iter_mut().zip(digest).for_each(|(to, byte)| *to = byte);
        Mark(mark)
    }

    /// Nothing is different. When the token ends belongs to the token.
    pub(super) fn is(&self, other: &Self) -> bool {
        let exposed = |access: &Self| access.token.as_ref().map(|token| token.expose_secret().to_owned());
        self.url == other.url
            && self.environment == other.environment
            && self.source == other.source
            && exposed(self) == exposed(other)
    }
}

impl TokenFrom {
    /// What to do where there is no token.
    pub(super) fn missing(self, machine: &str) -> String {
        match self {
            Self::Variable => "set the variable that its token_env names in the config".to_owned(),
            Self::Pairing => format!("pair it: t3code-mcp pair {machine} '<link>'"),
        }
    }

    /// What to do where the token is not good.
    pub(super) fn refused(self, machine: &str) -> String {
        match self {
            Self::Variable => "put another one into the variable that its token_env names".to_owned(),
            Self::Pairing => format!("pair it again: t3code-mcp pair {machine} '<link>'"),
        }
    }
}
