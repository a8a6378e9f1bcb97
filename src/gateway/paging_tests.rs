#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const MACHINES: [&str; 2] = ["mac", "pc"];
const QUESTION: &str = "q";

/// Threads by machine and id, each with the second of its last change.
type World = BTreeMap<(usize, u8), i64>;

fn places(world: &World) -> Vec<(Place, (usize, u8))> {
    let place = |((machine, id), at): (&(usize, u8), &i64)| {
        let at = Timestamp::from_second(*at).unwrap();
        let thread = ThreadId(format!("t{id}"));
        (Place::new(at, MACHINES[*machine], &thread), (*machine, *id))
    };
    world.iter().map(place).collect()
}

/// What happens between two pages.
#[derive(Clone, Debug)]
enum Step {
    /// A thread changes, or comes: it is the newest of its machine then.
    Touch(usize, u8),
    /// A thread goes.
    Remove(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || (0..MACHINES.len(), 0u8..12);
    let touch = key().prop_map(|(machine, id)| Step::Touch(machine, id));
    let remove = key().prop_map(|(machine, id)| Step::Remove(machine, id));
    prop::collection::vec(prop_oneof![4 => touch, 1 => remove], 0..4)
}

/// A world; few times, so that many are equal.
fn worlds() -> impl Strategy<Value = World> {
    prop::collection::btree_map((0..MACHINES.len(), 0u8..12), 0i64..6, 0..20)
}

proptest! {
    #[test]
    fn nothing_is_told_twice_and_what_stays_is_told_once(
        mut world in worlds(),
        // The machines' clocks differ by more than the whole paging takes.
        offsets in prop::array::uniform2(0i64..200),
        pages in prop::collection::vec((1usize..4, steps()), 0..30),
    ) {
        for ((machine, _), at) in &mut world {
            *at += offsets[*machine];
        }
        let mut clocks = offsets.map(|offset| offset + 6);
        let first = world.clone();
        let mut told = BTreeSet::new();
        let mut moved = BTreeSet::new();
        let mut gone = BTreeSet::new();
        let mut cursor: Option<Cursor> = None;
        let mut newer = 0;
        let mut ended = false;
        for (size, steps) in pages.into_iter().chain(std::iter::repeat_n((usize::MAX, Vec::new()), 1)) {
            let page = behind(places(&world), cursor.as_ref());
            newer = page.newer;
            let looked_at = size.min(page.threads.len());
            for (_, thread) in &page.threads[..looked_at] {
                prop_assert!(told.insert(*thread), "{thread:?} was told twice");
            }
            let Some(next) = page.after(looked_at, QUESTION) else {
                ended = true;
                break;
            };
            // It goes out to the caller and comes back.
            cursor = Some(Cursor::read(&next.write(), QUESTION).unwrap());
            for step in steps {
                match step {
                    Step::Touch(machine, id) => {
                        clocks[machine] += 1;
                        world.insert((machine, id), clocks[machine]);
                        moved.insert((machine, id));
                    }
                    Step::Remove(machine, id) => {
                        world.remove(&(machine, id));
                        gone.insert((machine, id));
                    }
                }
            }
        }
        prop_assert!(ended);
        for thread in first.keys() {
            if !moved.contains(thread) && !gone.contains(thread) {
                prop_assert!(told.contains(thread), "{thread:?} was skipped because others moved");
            }
        }
        // What is there and was not told is counted.
        let missed = world.keys().filter(|thread| !told.contains(thread)).count();
        prop_assert!(newer >= missed, "{missed} were missed and {newer} told of");
    }

    #[test]
    fn a_cursor_is_one_plain_word_whatever_the_ids_are(machine in "\\PC{0,8}", id in any::<String>(), at in 0i64..4_000_000_000) {
        let cursor = Cursor {
            last: Place::new(Timestamp::from_second(at).unwrap(), &machine, &ThreadId(id)),
            began: BTreeMap::from([(machine, Timestamp::UNIX_EPOCH)]),
            question: QUESTION.to_owned(),
        };
        let written = cursor.write();
        prop_assert!(written.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(Cursor::read(&written, QUESTION), Ok(cursor));
    }

    #[test]
    fn any_text_is_a_cursor_or_an_error(text in any::<String>()) {
        prop_assert!(Cursor::read(&text, "another").is_err());
    }
}

#[test]
fn a_cursor_goes_on_with_its_own_question_only() {
    let place = Place::new(Timestamp::UNIX_EPOCH, "mac", &ThreadId("t".to_owned()));
    let page = behind(vec![(place.clone(), ()), (place, ())], None);
    let cursor = page.after(1, "one").unwrap().write();
    assert!(Cursor::read(&cursor, "one").is_ok());
    assert_eq!(Cursor::read(&cursor, "other"), Err(BadCursor::OtherQuestion));
    assert_ne!(question(&[Some("ab"), None]), question(&[Some("a"), Some("b")]));
}
