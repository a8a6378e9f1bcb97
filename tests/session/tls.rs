//! https and wss with an authority of the operator's own.

use t3code_mcp::machine::http::HttpClient;
use t3code_mcp::machine::session::empty_object;
use t3code_mcp::machine::socket::{SessionHandle, SocketOptions};
use t3code_mcp::machine::{MachineError, MachineSettings};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::outbound::{behind_tls, file};
use super::support::{Wire, scripted, settings};

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
