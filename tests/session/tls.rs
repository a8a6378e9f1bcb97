//! https and wss with an authority of the operator's own.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use t3code_mcp::machine::http::HttpClient;
use t3code_mcp::machine::session::empty_object;
use t3code_mcp::machine::socket::{SessionHandle, SocketOptions};
use t3code_mcp::machine::{MachineError, MachineSettings};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::support::{Wire, scripted, settings};

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/session/tls")).join(name)
}

/// Puts TLS before a plain server, as a reverse proxy does.
async fn behind_tls(plain: &Url) -> Url {
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
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let backend = plain.socket_addrs(|| None).unwrap()[0];
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

async fn probed() -> Url {
    let plain = scripted(|mut wire: Wire| async move {
        let id = wire.next().await.unwrap()["id"].clone();
        wire.success(&id, serde_json::json!("over tls")).await;
        wire.next().await;
    })
    .await;
    behind_tls(&plain).await
}

#[tokio::test]
async fn a_machine_behind_an_own_authority_is_reached_with_its_ca_file() {
    let settings = MachineSettings {
        ca_file: Some(file("ca.pem")),
        ..settings(probed().await)
    };
    let http = HttpClient::new(&settings).unwrap();
    let ticket = http.ticket().await.unwrap();
    let handle = SessionHandle::connect(&http, &ticket, &SocketOptions::default(), CancellationToken::new())
        .await
        .unwrap();
    let value = handle.call("server.probe", empty_object()).await.unwrap();
    assert_eq!(value.get(), "\"over tls\"");
}

#[tokio::test]
async fn a_machine_behind_an_unknown_authority_is_not_trusted_and_the_setting_named() {
    let url = probed().await;
    // Another authority, so that the platform's own store, which a container may lack, does not matter.
    let settings = MachineSettings {
        ca_file: Some(file("other-ca.pem")),
        ..settings(url)
    };
    let http = HttpClient::new(&settings).unwrap();
    let MachineError::Unreachable { reason } = http.ticket().await.unwrap_err() else {
        panic!("it was trusted")
    };
    assert!(
        reason.starts_with("mac could not be trusted at https://localhost:"),
        "{reason}"
    );
    assert!(reason.ends_with("set its ca_file, or mend its certificate"), "{reason}");
}

#[test]
fn a_ca_file_that_is_none_is_told_at_once() {
    for (name, why) in [
        ("missing.pem", "No such file"),
        ("server.key", "it holds no certificate"),
    ] {
        let settings = MachineSettings {
            ca_file: Some(file(name)),
            ..settings("https://localhost:1".parse().unwrap())
        };
        let error = HttpClient::new(&settings).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(why), "{error}");
    }
}
