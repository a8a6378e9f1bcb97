//! Which providers are refused, and which failures of a bounded read the whole would meet as well.

use super::*;
use crate::machine::dialect::Protocol2;

#[test]
fn providers_that_would_never_start_a_run_are_refused_with_what_to_do() {
    let config = serde_json::value::to_raw_value(&crate::machine::recordings::config()).unwrap();
    let mut providers = Protocol2.read_providers(&config).unwrap();
    let instance = |name: &str| ProviderInstanceId(name.to_owned());
    assert_eq!(refusal(&providers, &instance("grok")), None);
    assert!(refusal(&providers, &instance("codex")).unwrap().contains("is disabled"));
    assert!(
        refusal(&providers, &instance("gork")).unwrap().contains("grok"),
        "lists what there is"
    );

    for provider in &mut providers {
        provider.unavailable = Some("no licence".to_owned());
    }
    assert!(refusal(&providers, &instance("grok")).unwrap().contains("no licence"));
}

#[test]
fn a_bounded_read_that_fails_for_its_own_reasons_is_followed_by_a_whole_one() {
    let reason = || "it".to_owned();
    assert!(!whole_would_fail_too(&MachineError::Decode(reason())));
    assert!(!whole_would_fail_too(&MachineError::NotT3 { reason: reason() }));
    assert!(!whole_would_fail_too(&MachineError::Rejected {
        tag: reason(),
        message: reason()
    }));
    assert!(whole_would_fail_too(&MachineError::ThreadNotFound));
    assert!(whole_would_fail_too(&MachineError::Unreachable { reason: reason() }));
}
