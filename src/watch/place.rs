//! Where threads live: said once for all threads of a project, since a hundred thousand of them may be followed.

use std::collections::HashSet;
use std::sync::Arc;

use crate::protocol::{EnvironmentId, ProjectId};

/// Where a thread lives, as far as it is known.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Place {
    pub(super) environment: Option<EnvironmentId>,
    pub(super) project: Option<ProjectId>,
    pub(super) project_title: Option<String>,
}

impl Place {
    /// Somewhere on that machine.
    pub(super) fn on(environment: Option<EnvironmentId>) -> Self {
        Self {
            environment,
            ..Self::default()
        }
    }
}

/// The places that the threads of one machine share.
#[derive(Debug, Default)]
pub(super) struct Places(HashSet<Arc<Place>>);

impl Places {
    /// The place, the same for all who ask for it.
    pub(super) fn shared(&mut self, place: Place) -> Arc<Place> {
        if let Some(shared) = self.0.get(&place) {
            return shared.clone();
        }
        // A new one is rare: the time to let go of those where nobody lives any more.
        self.0.retain(|shared| Arc::strong_count(shared) > 1);
        let place = Arc::new(place);
        self.0.insert(place.clone());
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titled(title: &str) -> Place {
        Place {
            project_title: Some(title.to_owned()),
            ..Place::default()
        }
    }

    #[test]
    fn a_place_is_kept_once_and_as_long_as_somebody_lives_there() {
        let mut places = Places::default();
        let first = places.shared(titled("one"));
        assert!(Arc::ptr_eq(&first, &places.shared(titled("one"))));
        drop(first);
        let second = places.shared(titled("two"));
        assert_eq!(places.0.len(), 1);
        assert!(Arc::ptr_eq(&second, &places.shared(titled("two"))));
    }
}
