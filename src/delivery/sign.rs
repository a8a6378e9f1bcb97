//! Signs what is sent, as Standard Webhooks has it: whoever knows the secret can tell that it came from here, unchanged and lately.
//!
//! While a secret is replaced there are two, and two signatures: a receiver that knows either is content. Secrets are in the standard's
//! own form, `whsec_` and base64: what the form leaves open, its libraries read in different ways.

use std::fmt;

use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use standardwebhooks::Webhook;

/// Signs with every secret that holds.
pub(super) struct Signer {
    keys: Vec<Webhook>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("keys", &self.keys.len()).finish()
    }
}

impl Signer {
    /// A signer with these secrets, the newest first; with none it signs nothing. None where one is no secret.
    pub(super) fn new(secrets: &[SecretString]) -> Option<Self> {
        let key = |secret: &SecretString| Webhook::new(secret.expose_secret()).ok();
        let keys = secrets.iter().map(key).collect::<Option<Vec<_>>>()?;
        Some(Self { keys })
    }

    /// Whether there is a secret.
    pub(super) fn signs(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The value of `webhook-signature`; none without a secret.
    pub(super) fn sign(&self, id: &str, at: Timestamp, body: &str) -> Option<String> {
        // Signing fails only for a body that is no text.
        let sign = |key: &Webhook| key.sign(id, at.as_second(), body.as_bytes()).ok();
        let signatures: Vec<String> = self.keys.iter().filter_map(sign).collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}
