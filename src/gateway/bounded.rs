//! A map that forgets its oldest entry when it is full: what is remembered in memory must not grow with use.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct Bounded<K, V> {
    entries: HashMap<K, V>,
    // Oldest first; an entry that was replaced keeps its place.
    order: VecDeque<K>,
    capacity: usize,
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            capacity,
        }
    }

    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    pub(super) fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: &K) {
        if self.entries.remove(key).is_some() {
            self.order.retain(|known| known != key);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }

    /// Remembers; what is older and may go makes room.
    pub(super) fn insert(&mut self, key: K, value: V, may_go: impl Fn(&V) -> bool) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        // Entries that may not go yet are passed over once a round, so that the loop ends.
        for _ in 0..self.order.len() {
            if self.order.len() <= self.capacity {
                return;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            if self.entries.get(&oldest).is_none_or(&may_go) {
                self.entries.remove(&oldest);
            } else {
                self.order.push_back(oldest);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_it_is_full_and_what_may_not_go_stays() {
        let mut map = Bounded::new(2);
        for key in 0..5 {
            map.insert(key, key, |value| *value != 0);
        }
        assert_eq!((map.len(), map.get(&0), map.get(&4)), (2, Some(&0), Some(&4)));
    }
}
