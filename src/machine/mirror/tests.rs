//! What the mirror must hold for every stream that a server may send.

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::machine::domain::ModelSelection;
use crate::protocol::ProviderInstanceId;

fn thread(name: &str) -> ThreadId {
    ThreadId(name.to_owned())
}

pub(in crate::machine) fn row(name: &str, sequence: u64, title: &str) -> ThreadRow {
    ThreadRow {
        id: thread(name),
        project: ProjectId("p".to_owned()),
        title: title.to_owned(),
        model: ModelSelection {
            instance: ProviderInstanceId("codex".to_owned()),
            model: "m".to_owned(),
            options: Vec::new(),
        },
        runtime_mode: "full-access".to_owned(),
        interaction_mode: "default".to_owned(),
        branch: None,
        worktree: None,
        archived: false,
        deleted: false,
        subagent: false,
        status: "idle".to_owned(),
        active_run: None,
        activity: None,
        latest_run: None,
        latest_run_requested_at: None,
        latest_run_completed_at: None,
        pending: None,
        last_message: None,
        background: Vec::new(),
        updated_at: Timestamp::UNIX_EPOCH,
        sequence,
        unknown_words: Vec::new(),
    }
}

fn archived(name: &str, sequence: u64, title: &str) -> ThreadRow {
    ThreadRow {
        archived: true,
        ..row(name, sequence, title)
    }
}

fn project(name: &str, title: &str) -> Project {
    Project {
        id: ProjectId(name.to_owned()),
        title: title.to_owned(),
        workspace_root: format!("/{name}"),
        default_model: None,
    }
}

fn snapshot(sequence: u64, threads: Vec<ThreadRow>) -> ShellItem {
    ShellItem::Snapshot(ShellSnapshot {
        sequence,
        schema: Some(2),
        threads,
        projects: vec![project("p", "P")],
        unread: Vec::new(),
    })
}

fn archive(sequence: u64, threads: Vec<ThreadRow>) -> ArchiveItem {
    ArchiveItem::Snapshot {
        sequence,
        threads,
        unread: Vec::new(),
    }
}

fn updated(row: ThreadRow) -> ShellItem {
    ShellItem::ThreadUpdated(Box::new(row))
}

fn removed(name: &str, sequence: u64) -> ShellItem {
    ShellItem::ThreadRemoved {
        sequence,
        thread: thread(name),
    }
}

fn effects(mirror: &mut Mirror) -> Vec<Effect> {
    std::iter::from_fn(|| mirror.poll_effect()).collect()
}

/// A mirror that was fed, with the effects of it taken.
fn fed(items: impl IntoIterator<Item = ShellItem>) -> Mirror {
    let mut mirror = Mirror::default();
    items.into_iter().for_each(|item| mirror.handle_shell(item));
    effects(&mut mirror);
    mirror
}

fn titles(mirror: &Mirror) -> Vec<(String, String, bool, u64)> {
    let mut rows: Vec<_> = mirror
        .threads()
        .iter()
        .map(|row| (row.id.0.clone(), row.title.clone(), row.archived, row.sequence))
        .collect();
    rows.sort();
    rows
}

#[test]
fn a_snapshot_is_a_base_and_later_items_change_it() {
    let mut mirror = Mirror::default();
    mirror.handle_shell(snapshot(10, vec![row("a", 10, "one"), row("b", 10, "two")]));
    mirror.handle_shell(updated(row("a", 12, "ONE")));
    mirror.handle_shell(removed("b", 13));

    assert_eq!(titles(&mirror), [("a".to_owned(), "ONE".to_owned(), false, 12)]);
    assert_eq!(mirror.applied(), 13);
    assert_eq!(
        effects(&mut mirror),
        [
            Effect::ThreadChanged(thread("a")),
            Effect::ThreadChanged(thread("b")),
            Effect::ProjectsChanged,
            Effect::ThreadChanged(thread("a")),
            Effect::ThreadRemoved(thread("b")),
        ]
    );
}

#[test]
fn what_a_resume_replays_at_or_below_the_base_is_dropped_silently() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "now")])]);

    mirror.handle_shell(updated(row("a", 10, "then")));
    mirror.handle_shell(updated(row("gone", 7, "deleted since")));
    mirror.handle_shell(removed("a", 9));

    assert_eq!(titles(&mirror), [("a".to_owned(), "now".to_owned(), false, 10)]);
    assert_eq!(effects(&mut mirror), []);
}

#[test]
fn a_removed_thread_does_not_come_back_by_an_older_item() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")]), removed("a", 12)]);
    mirror.handle_shell(updated(row("a", 11, "late")));
    mirror.handle_archive(ArchiveItem::Updated(Box::new(archived("a", 11, "late"))));
    assert_eq!(titles(&mirror), []);
}

#[test]
fn a_snapshot_of_metadata_is_no_state() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")])]);
    mirror.handle_shell(ShellItem::Metadata);
    assert_eq!(titles(&mirror).len(), 1);
    assert_eq!(effects(&mut mirror), []);
}

#[test]
fn a_later_snapshot_removes_what_it_lacks_and_wakes_only_what_differs() {
    let mut mirror = fed([snapshot(
        10,
        vec![row("a", 10, "same"), row("b", 10, "old"), row("c", 10, "gone")],
    )]);
    mirror.handle_shell(snapshot(20, vec![row("a", 20, "same"), row("b", 20, "new")]));
    assert_eq!(
        effects(&mut mirror),
        [Effect::ThreadChanged(thread("b")), Effect::ThreadRemoved(thread("c")),]
    );
}

#[test]
fn a_full_snapshot_below_what_was_applied_is_another_database() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")]), updated(row("a", 15, "two"))]);
    mirror.handle_shell(snapshot(12, vec![row("z", 12, "restored")]));

    assert_eq!(titles(&mirror), [("z".to_owned(), "restored".to_owned(), false, 12)]);
    assert_eq!(mirror.applied(), 12);
    assert_eq!(
        effects(&mut mirror),
        [
            Effect::Reset,
            Effect::ThreadChanged(thread("z")),
            Effect::ProjectsChanged
        ]
    );
}

#[test]
fn the_same_snapshot_again_is_the_same_database() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")])]);
    mirror.handle_shell(snapshot(10, vec![row("a", 10, "one")]));
    assert_eq!(effects(&mut mirror), []);
}

#[test]
fn a_changed_environment_forgets_everything_and_the_first_one_nothing() {
    let mut mirror = Mirror::default();
    mirror.handle_new_environment();
    assert_eq!(effects(&mut mirror), []);

    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")])]);
    mirror.handle_new_environment();
    assert_eq!(effects(&mut mirror), [Effect::Reset]);
    assert_eq!(
        (titles(&mirror).len(), mirror.applied(), mirror.has_base()),
        (0, 0, false)
    );
}

#[test]
fn archived_threads_of_a_stream_of_their_own_survive_the_shells_snapshot() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")])]);
    mirror.handle_archive(archive(11, vec![archived("old", 11, "archived")]));
    mirror.handle_shell(snapshot(20, vec![row("a", 20, "one")]));
    assert_eq!(
        titles(&mirror),
        [
            ("a".to_owned(), "one".to_owned(), false, 20),
            ("old".to_owned(), "archived".to_owned(), true, 11)
        ]
    );

    // Without such a stream the shell's snapshot is the whole truth.
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one"), archived("old", 10, "archived")])]);
    mirror.handle_shell(snapshot(20, vec![row("a", 20, "one")]));
    assert_eq!(titles(&mirror).len(), 1);
}

#[test]
fn both_streams_tell_of_an_archive_move_in_any_order_with_one_result() {
    type Step = fn(&mut Mirror);
    let into: [Step; 2] = [
        |mirror| mirror.handle_shell(removed("a", 12)),
        |mirror| mirror.handle_archive(ArchiveItem::Updated(Box::new(row("a", 12, "one")))),
    ];
    let back: [Step; 2] = [
        |mirror| mirror.handle_shell(updated(row("a", 14, "one"))),
        |mirror| {
            mirror.handle_archive(ArchiveItem::Removed {
                sequence: 14,
                thread: thread("a"),
            });
        },
    ];
    for (first, second) in [(0, 1), (1, 0)] {
        let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")])]);
        mirror.handle_archive(archive(10, Vec::new()));
        into[first](&mut mirror);
        into[second](&mut mirror);
        assert_eq!(titles(&mirror), [("a".to_owned(), "one".to_owned(), true, 12)]);
        back[first](&mut mirror);
        back[second](&mut mirror);
        assert_eq!(titles(&mirror), [("a".to_owned(), "one".to_owned(), false, 14)]);
    }
}

#[test]
fn the_archives_own_snapshot_drops_what_left_it_while_nobody_looked() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "active")])]);
    mirror.handle_archive(archive(10, vec![archived("x", 10, "kept"), archived("y", 10, "left")]));
    mirror.handle_archive(archive(
        20,
        vec![archived("x", 20, "kept"), archived("a", 9, "an older truth")],
    ));
    let names: Vec<_> = titles(&mirror)
        .into_iter()
        .map(|(id, _, archived, _)| (id, archived))
        .collect();
    assert_eq!(names, [("a".to_owned(), false), ("x".to_owned(), true)]);
}

#[test]
fn once_the_archives_stream_is_gone_the_shells_snapshot_is_the_whole_truth() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "one")])]);
    mirror.handle_archive(archive(11, vec![archived("old", 11, "archived")]));
    mirror.handle_archive_ended();
    assert_eq!(titles(&mirror).len(), 2, "nothing new is known yet");
    mirror.handle_shell(snapshot(20, vec![row("a", 20, "one")]));
    assert_eq!(titles(&mirror), [("a".to_owned(), "one".to_owned(), false, 20)]);
}

#[test]
fn a_later_live_item_wakes_although_its_row_is_equal() {
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "same")])]);
    mirror.handle_shell(updated(row("a", 12, "same")));
    assert_eq!(effects(&mut mirror), [Effect::ThreadChanged(thread("a"))]);
    mirror.handle_shell(updated(row("a", 12, "same")));
    assert_eq!(effects(&mut mirror), [], "the same item again");
    mirror.handle_shell(snapshot(20, vec![row("a", 20, "same")]));
    assert_eq!(effects(&mut mirror), [], "a snapshot repeats");
}

#[test]
fn a_thread_whose_change_cannot_be_read_is_not_trusted_and_wakes_who_waits() {
    let unreadable = |sequence| ShellItem::ThreadUnreadable {
        sequence,
        thread: thread("a"),
        problem: "at `status`".to_owned(),
    };
    let mut mirror = fed([snapshot(10, vec![row("a", 10, "busy")])]);
    mirror.handle_shell(unreadable(9));
    assert_eq!(effects(&mut mirror), [], "a replay");
    mirror.handle_shell(unreadable(12));
    assert_eq!(effects(&mut mirror), [Effect::ThreadChanged(thread("a"))]);
    assert_eq!((mirror.applied(), titles(&mirror).len()), (12, 0));
    mirror.handle_shell(unreadable(13));
    assert_eq!(effects(&mut mirror), [Effect::ThreadChanged(thread("a"))], "again");
    mirror.handle_shell(updated(row("a", 11, "late")));
    assert_eq!(titles(&mirror).len(), 0);
    mirror.handle_shell(updated(row("a", 14, "readable")));
    assert_eq!(titles(&mirror), [("a".to_owned(), "readable".to_owned(), false, 14)]);
}

#[test]
fn projects_follow_the_stream() {
    let mut mirror = fed([snapshot(10, Vec::new())]);
    mirror.handle_shell(ShellItem::ProjectUpdated {
        sequence: 11,
        project: project("q", "Q"),
    });
    mirror.handle_shell(ShellItem::ProjectRemoved {
        sequence: 12,
        project: ProjectId("p".to_owned()),
    });
    mirror.handle_shell(ShellItem::ProjectUpdated {
        sequence: 11,
        project: project("p", "late"),
    });
    let titles: Vec<_> = mirror.projects().iter().map(|project| project.title.clone()).collect();
    assert_eq!(titles, ["Q"]);
    assert_eq!(effects(&mut mirror), [Effect::ProjectsChanged, Effect::ProjectsChanged]);
}

/// One change on a server's log: thread, and what becomes of it.
#[derive(Clone, Copy, Debug)]
enum Change {
    Update,
    Archive,
    Remove,
}

fn change() -> impl Strategy<Value = (u8, Change)> {
    (
        0..6_u8,
        prop_oneof![4 => Just(Change::Update), 1 => Just(Change::Archive), 1 => Just(Change::Remove)],
    )
}

/// The item that the shell stream carries for the change at this place of the log.
fn item(index: usize, (name, change): (u8, Change)) -> ShellItem {
    let sequence = index as u64 + 11;
    let name = name.to_string();
    match change {
        Change::Update => updated(row(&name, sequence, &sequence.to_string())),
        Change::Archive => updated(archived(&name, sequence, &sequence.to_string())),
        Change::Remove => removed(&name, sequence),
    }
}

/// The server's whole state after so many changes, as a snapshot.
fn state_after(log: &[(u8, Change)]) -> ShellItem {
    let straight = fed(log.iter().enumerate().map(|(index, change)| item(index, *change)));
    let sequence = log.len() as u64 + 10;
    let threads = straight
        .threads()
        .iter()
        .map(|row| ThreadRow {
            sequence,
            ..(**row).clone()
        })
        .collect();
    snapshot(sequence, threads)
}

/// Rows without the sequence that they came with, which a snapshot raises.
fn facts(mirror: &Mirror) -> Vec<(String, String, bool)> {
    titles(mirror)
        .into_iter()
        .map(|(id, title, archived, _)| (id, title, archived))
        .collect()
}

proptest! {
    /// However often the line breaks and whatever is sent twice, the rows are those of the straight run.
    #[test]
    fn resumes_and_repetitions_change_nothing(
        log in prop::collection::vec(change(), 1..40),
        breaks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
        repeated in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let straight = fed(log.iter().enumerate().map(|(index, change)| item(index, *change)));

        let mut mirror = fed([state_after(&[])]);
        let mut breaks: Vec<(usize, usize)> = breaks
            .iter()
            .map(|(at, back)| { let at = at.index(log.len()); (at, back.index(at + 1)) })
            .collect();
        breaks.sort_unstable();
        let repeated: HashSet<usize> = repeated.iter().map(|index| index.index(log.len())).collect();
        for (index, change) in log.iter().enumerate() {
            for (_, back) in breaks.iter().filter(|(at, _)| *at == index) {
                // A resume: a whole snapshot, then the replay of items that it covers.
                mirror.handle_shell(state_after(&log[..index]));
                for (old, change) in log[..index].iter().enumerate().skip(*back) {
                    mirror.handle_shell(item(old, *change));
                }
                mirror.handle_shell(ShellItem::Synchronized);
            }
            mirror.handle_shell(item(index, *change));
            if repeated.contains(&index) {
                for (old, change) in log[..=index].iter().enumerate() {
                    mirror.handle_shell(item(old, *change));
                }
            }
        }

        prop_assert_eq!(facts(&mirror), facts(&straight));
        prop_assert_eq!(mirror.applied(), straight.applied());
        prop_assert!(!effects(&mut mirror).contains(&Effect::Reset));
    }

    /// Both streams interleaved in any way end in the same rows: each tells its part in its own order.
    #[test]
    fn two_streams_interleave_in_any_way(
        log in prop::collection::vec(change(), 1..30),
        choices in prop::collection::vec(any::<bool>(), 60),
    ) {
        // A newer server: the shell tells of an archived thread only that it left, the archive tells the rest.
        let mut archive_holds = HashSet::new();
        let mut shell = VecDeque::new();
        let mut of_archive = VecDeque::new();
        for (index, (name, change)) in log.iter().enumerate() {
            let sequence = index as u64 + 11;
            let id = thread(&name.to_string());
            match change {
                Change::Update | Change::Remove => {
                    if archive_holds.remove(&id) {
                        of_archive.push_back(ArchiveItem::Removed { sequence, thread: id });
                    }
                    shell.push_back(item(index, (*name, *change)));
                }
                Change::Archive => {
                    archive_holds.insert(id);
                    shell.push_back(removed(&name.to_string(), sequence));
                    of_archive.push_back(ArchiveItem::Updated(Box::new(row(&name.to_string(), sequence, &sequence.to_string()))));
                }
            }
        }
        let straight = fed(log.iter().enumerate().map(|(index, change)| item(index, *change)));

        let mut mirror = fed([state_after(&[])]);
        mirror.handle_archive(archive(10, Vec::new()));
        for from_shell in choices {
            let item = if from_shell { shell.pop_front() } else { None };
            if let Some(item) = item {
                mirror.handle_shell(item);
            } else if let Some(item) = of_archive.pop_front() {
                mirror.handle_archive(item);
            }
        }
        for item in shell { mirror.handle_shell(item); }
        for item in of_archive { mirror.handle_archive(item); }

        prop_assert_eq!(titles(&mirror), titles(&straight));
    }
}

#[test]
fn the_removal_of_a_thread_that_was_never_shown_is_told_once() {
    let mut mirror = fed([snapshot(10, vec![])]);
    while mirror.poll_effect().is_some() {}
    mirror.handle_shell(removed("a", 12));
    mirror.handle_shell(removed("a", 12));
    assert_eq!(mirror.poll_effect(), Some(Effect::ThreadRemoved(thread("a"))));
    assert_eq!(mirror.poll_effect(), None);
}
