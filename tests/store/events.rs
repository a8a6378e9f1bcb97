//! Events.
use crate::support::{again, event, ledger, of_events};
use t3code_mcp::store::{EventFilter, NewEvent};

#[tokio::test]
async fn an_event_is_kept_and_delivered_once_whatever_is_replayed() {
    let (folder, store) = ledger().await;
    let mut changes = store.changes();
    let first = store
        .commit(of_events(vec![event("a", "one"), event("b", "one")]))
        .await
        .unwrap();
    assert_eq!(
        (first.cursor, first.new.as_slice()),
        (2, &["a".to_owned(), "b".to_owned()][..])
    );
    assert!(changes.has_changed().unwrap());
    assert_eq!(*changes.borrow_and_update(), 2);
    let replay = store
        .commit(of_events(vec![event("b", "one"), event("c", "one"), event("c", "one")]))
        .await
        .unwrap();
    assert_eq!((replay.cursor, replay.new.as_slice()), (3, &["c".to_owned()][..]));
    changes.mark_unchanged();
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    assert!(!changes.has_changed().unwrap(), "nothing new");
    assert_eq!(store.delivery_counts().await.unwrap().waiting, 3);
    let store = again(&folder, store).await;
    assert_eq!(store.newest(), 3);
    let page = store.events_after(0, 10, &EventFilter::default()).await.unwrap();
    let ids: Vec<&str> = page.events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(
        (ids.as_slice(), page.cursor, page.truncated),
        (&["a", "b", "c"][..], 3, false)
    );
    let kept = store.event("b").await.unwrap().unwrap();
    let new = event("b", "one");
    assert_eq!(
        (
            kept.seq,
            kept.occurred_at,
            &kept.machine,
            &kept.thread,
            &kept.project_id,
            &kept.client,
            &kept.kind,
            &kept.body
        ),
        (
            2,
            new.occurred_at,
            &new.machine,
            &new.thread,
            &new.project_id,
            &new.client,
            &new.kind,
            &new.body
        )
    );
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended_also_behind_what_nobody_asked_for() {
    let (_folder, store) = ledger().await;
    let of = |id: &str, machine: &str, thread: &str| NewEvent {
        machine: machine.to_owned(),
        ..event(id, thread)
    };
    let events = vec![
        of("1", "mac", "one"),
        of("2", "linux", "two"),
        of("3", "mac", "one"),
        of("4", "mac", "three"),
        of("5", "linux", "two"),
    ];
    store.commit(of_events(events)).await.unwrap();
    let page = async |cursor, limit, thread: Option<&str>, machines: Option<&[&str]>| {
        let filter = EventFilter {
            thread: thread.map(|thread| thread.to_owned().into()),
            machines: machines.map(|machines| machines.iter().map(|&machine| machine.to_owned()).collect()),
        };
        let page = store.events_after(cursor, limit, &filter).await.unwrap();
        let ids: Vec<String> = page.events.into_iter().map(|event| event.id).collect();
        (ids.join(""), page.cursor, page.truncated)
    };
    assert_eq!(page(0, 2, None, None).await, ("12".to_owned(), 2, false));
    assert_eq!(page(2, 2, None, None).await, ("34".to_owned(), 4, false));
    assert_eq!(page(4, 2, None, None).await, ("5".to_owned(), 5, false));
    assert_eq!(page(5, 2, None, None).await, (String::new(), 5, false));
    assert_eq!(page(0, 2, Some("one"), None).await, ("13".to_owned(), 3, false));
    assert_eq!(page(3, 2, Some("one"), None).await, (String::new(), 5, false));
    assert_eq!(page(0, 9, None, Some(&["linux"])).await, ("25".to_owned(), 5, false));
    assert_eq!(
        page(0, 9, Some("one"), Some(&["linux"])).await,
        (String::new(), 5, false)
    );
    assert_eq!(page(0, 9, None, Some(&[])).await, (String::new(), 5, false));
    assert_eq!(
        page(9, 1, None, None).await,
        ("1".to_owned(), 1, true),
        "another ledger's cursor"
    );
}
