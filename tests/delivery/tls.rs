//! https, with an authority of the operator's own and without.

use t3code_mcp::delivery::HookSettings;
use t3code_mcp::store::DeliveryState::{Delivered, Waiting};

use crate::outbound::{behind_tls, file};
use crate::support::{Hook, Trial, settings};

#[tokio::test]
async fn a_receiver_with_a_bad_certificate_gets_nothing_and_with_its_authority_known_the_event() {
    let hook = Hook::always(200, &[], "").await;
    let url = behind_tls(&hook.url).await;
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
