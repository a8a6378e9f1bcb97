//! One TLS configuration for both ways to a machine, HTTP and WebSocket: rustls with ring, the platform's trust, and the operator's
//! own certificate authorities on top.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

/// Why no configuration could be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// The operator's file.
    #[error("the ca_file {path} cannot be used: {problem}")]
    CaFile {
        /// Which file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// rustls or the platform's trust store.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// The configuration for one machine. The platform's trust is loaded only for an `https` machine: a host without any certificate
/// store can still reach its machines over `http`.
pub(super) fn client_config(secure: bool, ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    if !secure {
        return Ok(builder
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth());
    }
    let extra = ca_file.map(certificates).transpose()?.unwrap_or_default();
    let verifier = if extra.is_empty() {
        Verifier::new(provider)?
    } else {
        Verifier::new_with_extra_roots(extra, provider)?
    };
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |problem: String| TlsError::CaFile {
        path: path.display().to_string(),
        problem,
    };
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(error.to_string()))?;
    if found.is_empty() {
        return Err(failed("it holds no certificate".into()));
    }
    Ok(found)
}
