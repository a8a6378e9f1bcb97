//! MCP sessions.

use t3code_mcp::store::SessionRecord;

use crate::support::{again, at, ledger};

#[tokio::test]
async fn a_session_stays_its_clients_over_a_restart() {
    let (folder, store) = ledger().await;
    let session = SessionRecord {
        id: "s1".to_owned(),
        client: "dispatcher".to_owned(),
        created_at: at(0),
        last_used_at: at(1),
        state: "{}".to_owned(),
    };
    let newer = SessionRecord {
        id: "s2".to_owned(),
        last_used_at: at(2),
        ..session.clone()
    };
    assert!(store.put_session(&newer).await.unwrap() && store.put_session(&session).await.unwrap());
    let stranger = SessionRecord {
        client: "another".to_owned(),
        state: "taken".to_owned(),
        ..session.clone()
    };
    assert!(!store.put_session(&stranger).await.unwrap());
    let store = again(&folder, store).await;
    assert_eq!(store.session("s1").await.unwrap(), Some(session.clone()));
    assert_eq!(store.session("none").await.unwrap(), None);
    assert!(store.touch_session("s1", at(9)).await.unwrap() && store.touch_session("s1", at(5)).await.unwrap());
    let used = SessionRecord {
        last_used_at: at(9),
        ..session
    };
    assert_eq!(
        store.sessions().await.unwrap(),
        [newer, used],
        "the one that was idle longest first"
    );
    assert!(store.delete_session("s1").await.unwrap());
    assert!(!store.delete_session("s1").await.unwrap() && !store.touch_session("s1", at(9)).await.unwrap());
}
