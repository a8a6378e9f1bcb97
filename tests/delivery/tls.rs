//! https, with an authority of the operator's own and without.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use t3code_mcp::delivery::HookSettings;
use t3code_mcp::store::DeliveryState::{Delivered, Waiting};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use url::Url;

use crate::support::{Hook, Trial, settings};

pub fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/session/tls")).join(name)
}

/// Puts TLS before a receiver, as a reverse proxy does.
pub async fn behind_tls(hook: &Hook) -> Url {
    let chain = CertificateDer::pem_file_iter(file("server.pem")).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/hook", listener.local_addr().unwrap().port());
    let backend = hook.url.socket_addrs(|| None).unwrap()[0];
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust us hangs up here.
                let Ok(mut outer) = acceptor.accept(stream).await else {
                    return;
                };
                let mut inner = TcpStream::connect(backend).await.unwrap();
                let _ = copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    url.parse().unwrap()
}

#[tokio::test]
async fn a_receiver_with_a_bad_certificate_gets_nothing_and_with_its_authority_known_the_event() {
    let hook = Hook::always(200, &[], "").await;
    let url = behind_tls(&hook).await;
    // Another authority, so that the platform's own store, which a container may lack, does not matter.
    for (authority, state) in [("other-ca.pem", Waiting), ("ca.pem", Delivered)] {
        let by = HookSettings {
            ca_file: Some(file(authority)),
            ..settings(&url)
        };
        let trial = Trial::new(&by).await;
        trial.events("one", &["a"]).await;
        let delivery = trial.attempted("a", 1).await;
        assert_eq!(delivery.state, state, "{delivery:?}");
        let error = delivery.last_error.unwrap_or_default();
        assert_eq!(
            error.contains("certificate is not trusted"),
            state == Waiting,
            "{error}"
        );
        assert_eq!(hook.so_far().len(), usize::from(state == Delivered));
    }
}
