//! What changed of a machine since somebody last asked: for the one who keeps an eye on all of its threads at once.
//!
//! It collects ids only, each once, and nothing while nobody asks. What the change was is read from the mirror. Called by the watchers;
//! `watch` takes what was collected.

use std::collections::HashSet;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::protocol::ThreadId;

/// What changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// The machine went away, came back, or is another one: everything is to be looked at.
    pub everything: bool,
    /// Projects came, went or were renamed.
    pub projects: bool,
    /// These threads' rows changed, or were removed.
    pub threads: HashSet<ThreadId>,
}

impl Changed {
    fn is_nothing(&self) -> bool {
        !self.everything && !self.projects && self.threads.is_empty()
    }
}

/// Where changes are collected.
#[derive(Debug, Default)]
pub(super) struct Feed {
    wanted: AtomicBool,
    changed: Mutex<Changed>,
    news: Notify,
}

impl Feed {
    pub(super) fn note<'a>(&self, threads: impl IntoIterator<Item = &'a ThreadId>, projects: bool) {
        self.change(|changed| {
            changed.projects |= projects;
            changed.threads.extend(threads.into_iter().cloned());
        });
    }

    pub(super) fn note_everything(&self) {
        self.change(|changed| changed.everything = true);
    }

    fn change(&self, change: impl FnOnce(&mut Changed)) {
        if self.wanted.load(Ordering::Acquire) {
            let news = {
                let mut changed = self.changed();
                change(&mut changed);
                !changed.is_nothing()
            };
            if news {
                self.news.notify_one();
            }
        }
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        // Nothing is half done under this lock.
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one who is told what changed. Dropping it ends the collecting.
#[derive(Debug)]
pub struct Changes(Arc<Feed>);

impl Changes {
    /// Begins to collect; everything counts as changed. There is one at a time: a second takes the first one's changes away.
    pub(super) fn of(feed: Arc<Feed>) -> Self {
        feed.wanted.store(true, Ordering::Release);
        feed.note_everything();
        Self(feed)
    }

    /// Waits until something changed, and takes it. May be dropped at any time: nothing is lost.
    pub async fn next(&mut self) -> Changed {
        loop {
            let changed = mem::take(&mut *self.0.changed());
            if !changed.is_nothing() {
                return changed;
            }
            self.0.news.notified().await;
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.0.wanted.store(false, Ordering::Release);
        mem::take(&mut *self.0.changed());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn id(name: &str) -> ThreadId {
        ThreadId(name.to_owned())
    }

    #[test]
    fn what_changed_is_taken_once_however_often_it_changed() {
        let feed = Arc::new(Feed::default());
        feed.note([&id("before anybody asked")], false);
        let mut changes = Changes::of(Arc::clone(&feed));
        assert!(changes.next().now_or_never().is_some_and(|changed| changed.everything));
        assert_eq!(changes.next().now_or_never(), None);
        feed.note([&id("a"), &id("b")], false);
        feed.note([&id("a")], true);
        let news = changes.next().now_or_never();
        let expected = Changed {
            everything: false,
            projects: true,
            threads: HashSet::from([id("a"), id("b")]),
        };
        assert_eq!(news, Some(expected));
        assert_eq!(changes.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn a_change_wakes_who_waits() {
        let feed = Arc::new(Feed::default());
        let mut changes = Changes::of(Arc::clone(&feed));
        changes.next().await;
        let waiting = tokio::spawn(async move { changes.next().await });
        tokio::task::yield_now().await;
        feed.note([], true);
        assert!(waiting.await.is_ok_and(|changed| changed.projects));
    }
}
