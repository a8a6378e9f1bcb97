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
    for used in [at(9), at(5)] {
        let used = vec![("s1".to_owned(), used), ("none".to_owned(), used)];
        store.touch_sessions(used).await.unwrap();
    }
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
    assert!(!store.delete_session("s1").await.unwrap());
    store.touch_sessions(vec![("s1".to_owned(), at(9))]).await.unwrap();
    assert_eq!(
        store.session("s1").await.unwrap(),
        None,
        "what was taken away stays away"
    );
}

#[tokio::test]
async fn sessions_that_nobody_used_for_long_are_forgotten_but_for_those_that_are_spared() {
    let (_folder, store) = ledger().await;
    for (n, id) in (0..).zip(["a", "b", "c", "d", "e"]) {
        let session = SessionRecord {
            id: id.to_owned(),
            client: "dispatcher".to_owned(),
            created_at: at(0),
            last_used_at: at(n),
            state: "{}".to_owned(),
        };
        assert!(store.put_session(&session).await.unwrap());
    }
    let kept = async || -> Vec<String> {
        let kept = store.sessions().await.unwrap();
        kept.into_iter().map(|session| session.id).collect()
    };
    let spared = || vec!["a".to_owned()];
    assert_eq!(store.forget_sessions(at(2), 9, spared()).await.unwrap(), 1);
    assert_eq!(kept().await, ["a", "c", "d", "e"]);
    assert_eq!(store.forget_sessions(at(2), 2, spared()).await.unwrap(), 1);
    assert_eq!(kept().await, ["a", "d", "e"], "the newest two, and who was spared");
    assert_eq!(store.forget_sessions(at(0), 2, Vec::new()).await.unwrap(), 1);
    assert_eq!(kept().await, ["d", "e"]);
}
