//! What every way out of the gateway shares, to a machine (HTTP and WebSocket) and to the hook: one TLS configuration (rustls with ring, the
//! platform's trust, the operator's own certificate authorities on top), the cause of a refused certificate, and how a URL is shown.
//! It opens no connection itself.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use url::Url;

/// Why no configuration could be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
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

/// The configuration for one target. The platform's trust is loaded only for an `https` one: a host without any certificate store can
/// still reach others over `http`.
pub fn client_config(secure: bool, ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
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

/// A URL without what may be secret: userinfo, query, fragment.
pub fn bare(url: &Url) -> String {
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!(
        "{}://{}{port}{}",
        url.scheme(),
        url.host_str().unwrap_or_default(),
        url.path()
    )
}

/// The error of rustls within one of I/O, which does not name what it wraps as its source; hyper wraps it twice.
pub fn tls_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref::<rustls::Error>().or_else(|| {
        let io = error.downcast_ref::<std::io::Error>()?;
        tls_cause(io.get_ref()?)
    })
}
