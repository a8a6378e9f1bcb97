//! What cannot be read is told until it can be read again.

use super::*;
use crate::machine::mirror::ShellSnapshot;

fn thread(name: &str) -> ThreadId {
    ThreadId(name.to_owned())
}

fn row(name: Option<&str>) -> UnreadRow {
    UnreadRow {
        thread: name.map(thread),
        problem: format!("at `{}`", name.unwrap_or("nobody")),
    }
}

fn snapshot(unread: Vec<UnreadRow>) -> StreamItem {
    StreamItem::Shell(ShellItem::Snapshot(ShellSnapshot {
        sequence: 1,
        schema: Some(2),
        threads: Vec::new(),
        projects: Vec::new(),
        unread,
    }))
}

fn unreadable(name: &str) -> StreamItem {
    StreamItem::Shell(ShellItem::ThreadUnreadable {
        sequence: 2,
        thread: thread(name),
        problem: format!("at `{name}`"),
    })
}

fn removed(name: &str) -> StreamItem {
    StreamItem::Shell(ShellItem::ThreadRemoved {
        sequence: 3,
        thread: thread(name),
    })
}

fn error(unread: &Unread) -> Option<String> {
    unread.error().map(|error| error.to_string())
}

#[test]
fn rows_of_a_snapshot_are_counted_and_the_first_is_named() {
    let mut unread = Unread::default();
    assert_eq!(error(&unread), None);
    let told = unread.handle_item(&snapshot(vec![row(Some("a")), row(None)])).unwrap();
    assert!(told.contains("2 of its rows") && told.contains("at `a`"), "{told}");
    let shown = error(&unread).unwrap();
    assert!(
        shown.starts_with("2 threads or projects") && shown.contains("at `a`"),
        "{shown}"
    );

    assert_eq!(unread.handle_item(&snapshot(Vec::new())), None);
    assert_eq!(error(&unread), None, "a snapshot that can be read is the new truth");
}

#[test]
fn an_unreadable_thread_is_told_once_and_until_something_readable_comes_of_it() {
    let mut unread = Unread::default();
    assert!(unread.handle_item(&unreadable("a")).is_some());
    assert_eq!(unread.handle_item(&unreadable("a")), None, "the log is told once");
    unread.handle_item(&removed("b"));
    assert!(error(&unread).unwrap().contains("at `a`"));
    unread.handle_item(&removed("a"));
    assert_eq!(error(&unread), None);
}

#[test]
fn an_item_of_nobody_is_told_until_the_next_that_can_be_read() {
    let mut unread = Unread::default();
    assert!(unread.handle_unreadable(true, "at `kind`"));
    assert!(!unread.handle_unreadable(true, "at `kind`"));
    unread.handle_item(&removed("a"));
    assert!(error(&unread).is_some(), "the other stream says nothing of it");
    unread.handle_item(&StreamItem::Archive(ArchiveItem::Removed {
        sequence: 4,
        thread: thread("a"),
    }));
    assert_eq!(error(&unread), None);
}
