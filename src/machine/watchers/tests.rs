//! Everyone is woken, and nobody leaves anything behind.

use super::*;

fn thread(number: usize) -> ThreadId {
    ThreadId(number.to_string())
}

#[tokio::test]
async fn a_thousand_receivers_leave_nothing_behind() {
    let watchers = Arc::new(Watchers::new(Handle::current()));
    let before = Handle::current().metrics().num_alive_tasks();
    let mut receivers: Vec<_> = (0..1000).map(|number| watchers.thread(&thread(number % 250))).collect();
    assert_eq!(watchers.watched(), 250);

    // Dropped in any order, and some watched anew while the others go.
    receivers.truncate(400);
    receivers.extend((0..100).map(|number| watchers.thread(&thread(number))));
    drop(receivers);
    while watchers.watched() > 0 || Handle::current().metrics().num_alive_tasks() > before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_thread_that_is_watched_again_keeps_its_counter() {
    let watchers = Arc::new(Watchers::new(Handle::current()));
    drop(watchers.thread(&thread(1)));
    let mut receiver = watchers.thread(&thread(1));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    watchers.wake_threads([&thread(1)], false);
    receiver.changed().await.unwrap();
}

#[tokio::test]
async fn a_change_wakes_who_watches_the_thread_and_no_other() {
    let watchers = Arc::new(Watchers::new(Handle::current()));
    let (mine, other) = (watchers.thread(&thread(1)), watchers.thread(&thread(2)));
    watchers.wake_threads([&thread(1), &thread(3)], false);
    assert!(mine.has_changed().unwrap());
    assert!(!other.has_changed().unwrap());
    watchers.wake_all();
    assert!(other.has_changed().unwrap());
}

#[tokio::test]
async fn a_sequence_is_reached_when_the_shell_shows_it_and_not_before() {
    let watchers = Arc::new(Watchers::new(Handle::current()));
    watchers.set_applied(4);
    assert!(watchers.reached(4, Duration::ZERO, || false).await);
    assert!(!watchers.reached(5, Duration::from_millis(1), || false).await);
    assert!(watchers.reached(5, Duration::ZERO, || true).await);

    let waiting = tokio::spawn({
        let watchers = watchers.clone();
        async move { watchers.reached(5, Duration::from_mins(1), || false).await }
    });
    tokio::task::yield_now().await;
    watchers.set_applied(6);
    watchers.wake_shell();
    assert!(waiting.await.unwrap());
}
