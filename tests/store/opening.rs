//! Opening: damaged, newer, foreign and linked files, permissions, and two that open one file.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use t3code_mcp::lifecycle::RunState;
use t3code_mcp::store::{AnswerFate, Batch, LEDGER_FILE, Outcome, Store, StoreError};
use tempfile::TempDir;

use crate::support::{at, event, event_ids, ledger, of_events, raw, receipt, tracked};

/// A closed ledger with something in it.
async fn closed() -> (TempDir, PathBuf) {
    let (folder, store) = ledger().await;
    store.claim_receipt(&receipt("r1")).await.unwrap();
    let events = (0..200).map(|n| event(&format!("e{n}"), "one")).collect();
    let batch = Batch {
        upsert: (0..200).map(|n| tracked(&format!("t{n}"))).collect(),
        ..of_events(events)
    };
    store.commit(batch).await.unwrap();
    store.close().await;
    let path = folder.path().join(LEDGER_FILE);
    (folder, path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Opens a damaged file: it lies elsewhere afterwards, byte for byte, and a new ledger works.
async fn is_set_aside(path: &Path) -> PathBuf {
    let damaged = fs::read(path).unwrap();
    let store = Store::open(path).await.unwrap();
    let said = store.set_aside().expect("it is damaged");
    let StoreError::Corrupt {
        set_aside: Some(place), ..
    } = said
    else {
        panic!("{said}")
    };
    assert!(said.to_string().contains(&place.display().to_string()), "{said}");
    assert!(
        place
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("t3code-mcp.db.corrupt-2")
    );
    assert!(fs::read(place).unwrap() == damaged, "nothing of it was changed");
    assert!(store.tracked().await.unwrap().is_empty());
    store.commit(of_events(vec![event("new", "one")])).await.unwrap();
    store.close().await;
    let place = place.clone();
    let store = Store::open(path).await.unwrap();
    assert!(store.set_aside().is_none(), "said once");
    store.close().await;
    place
}

#[tokio::test]
async fn a_file_with_a_garbled_header_is_set_aside() {
    let (_folder, path) = closed().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    is_set_aside(&path).await;
}

#[tokio::test]
async fn a_file_that_was_cut_is_set_aside() {
    let (_folder, path) = closed().await;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    is_set_aside(&path).await;
}

#[tokio::test]
async fn a_file_with_one_garbled_page_is_set_aside_whichever_page_it_is() {
    let (_folder, path) = closed().await;
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 4_096;
    assert!(pages > 30);
    let mut places = BTreeSet::new();
    for page in [1, pages / 2, pages - 1] {
        let mut bytes = whole.clone();
        for byte in &mut bytes[page * 4_096..(page + 1) * 4_096] {
            *byte = !*byte;
        }
        fs::write(&path, bytes).unwrap();
        places.insert(is_set_aside(&path).await);
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(places.len(), 3, "none takes another's place");
    assert!(places.iter().all(|place| place.exists()));
}

#[tokio::test]
async fn a_damaged_file_goes_with_its_log_and_neither_is_written_to_before() {
    let (_folder, source) = closed().await;
    let root: i64 = {
        let mut looker = raw(&source).await;
        let root = sqlx::query_scalar("SELECT rootpage FROM sqlite_schema WHERE name = 'tracked_runs'");
        let root = root.fetch_one(&mut looker).await.unwrap();
        looker.close().await.unwrap();
        root
    };
    // The log has an event; the damaged page is of a table that the event leaves alone.
    let store = Store::open(&source).await.unwrap();
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    // As a crash would leave them.
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join(LEDGER_FILE);
    let mut bytes = fs::read(&source).unwrap();
    let page = usize::try_from(root).unwrap();
    bytes[(page - 1) * 4_096..page * 4_096].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let words = fs::read(beside(&source, "-wal")).unwrap();
    assert!(!words.is_empty());
    fs::write(beside(&path, "-wal"), &words).unwrap();
    let place = is_set_aside(&path).await;
    assert!(fs::read(beside(&place, "-wal")).unwrap() == words);
}

#[tokio::test]
async fn an_emptied_file_is_set_aside_with_the_log_that_still_holds_its_last_words() {
    let (folder, store) = ledger().await;
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    let log = folder.path().join(format!("{LEDGER_FILE}-wal"));
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join(LEDGER_FILE);
    fs::copy(&log, other.path().join(format!("{LEDGER_FILE}-wal"))).unwrap();
    let words = fs::read(&log).unwrap();
    assert!(!words.is_empty());
    fs::write(&path, "").unwrap();
    let place = is_set_aside(&path).await;
    assert!(fs::read(beside(&place, "-wal")).unwrap() == words);
}

#[tokio::test]
async fn a_newer_programs_file_is_refused_and_left_as_it_is() {
    let (_folder, path) = closed().await;
    let mut newer = raw(&path).await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (7, 'x', 1, x'00', 1)",
    )
    .execute(&mut newer)
    .await
    .unwrap();
    newer.close().await.unwrap();
    let before = fs::read(&path).unwrap();
    let error = Store::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 7, known: 3, .. }), "{error}");
    assert!(error.to_string().contains("Install that version again"));
    assert!(fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn another_programs_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LEDGER_FILE);
    let mut other = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .connect()
        .await
        .unwrap();
    sqlx::query("CREATE TABLE songs (title TEXT)")
        .execute(&mut other)
        .await
        .unwrap();
    other.close().await.unwrap();
    let before = fs::read(&path).unwrap();
    let error = Store::open(&path).await.unwrap_err();
    assert!(error.to_string().contains("another program's"), "{error}");
    assert!(fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn no_link_is_followed() {
    let (_folder, real) = closed().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LEDGER_FILE);
    symlink(&real, &path).unwrap();
    let error = Store::open(&path).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Refused { .. }) && error.to_string().contains("symbolic link"),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    let nowhere = folder.path().join("nowhere");
    symlink(&nowhere, &path).unwrap();
    assert!(Store::open(&path).await.is_err() && !nowhere.exists());
    fs::remove_file(&path).unwrap();
    symlink(&nowhere, folder.path().join(format!("{LEDGER_FILE}-wal"))).unwrap();
    assert!(Store::open(&path).await.is_err() && !nowhere.exists());
}

#[tokio::test]
async fn only_its_owner_can_read_it_and_its_log() {
    let (folder, store) = ledger().await;
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(
            mode(&folder.path().join(format!("{LEDGER_FILE}{ending}"))),
            0o600,
            "{ending}"
        );
    }
    store.close().await;
    let path = folder.path().join(LEDGER_FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = Store::open(&path).await.unwrap();
    store.close().await;
    assert_eq!(mode(&path), 0o600, "one that was open to others is closed to them");
}

#[tokio::test]
async fn two_that_open_one_file_lose_nothing_and_share_the_claims() {
    let (_folder, first) = ledger().await;
    let second = Store::open(first.path()).await.unwrap();
    assert_eq!(first.identity(), second.identity());
    let writers = [("a", &first), ("b", &second)].map(|(name, store)| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..40 {
                let id = format!("{name}{n}");
                store.commit(of_events(vec![event(&id, &id)])).await.unwrap();
            }
        })
    });
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(event_ids(&first).await.len(), 80);
    let (one, two) = tokio::join!(
        first.claim_due(at(20), at(80), 60),
        second.claim_due(at(20), at(80), 60)
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    let all: BTreeSet<&str> = one.iter().chain(&two).map(|due| due.id.as_str()).collect();
    assert_eq!((one.len() + two.len(), all.len()), (80, 80));
}

#[tokio::test]
async fn what_comes_after_the_end_is_told_so_and_what_came_before_is_written() {
    let (folder, store) = ledger().await;
    let late = store.clone();
    let before = tokio::spawn({
        let store = store.clone();
        async move { store.commit(of_events(vec![event("a", "one")])).await }
    });
    let committed = before.await.unwrap();
    store.close().await;
    committed.unwrap();
    let closed = late.commit(of_events(vec![event("b", "one")])).await;
    assert!(matches!(closed, Err(StoreError::Closed)));
    assert!(matches!(late.tracked().await, Err(StoreError::Closed)));
    let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
    assert_eq!(event_ids(&store).await, ["a"]);
}

/// `tests/fixtures/store/version-1.sql` is what `sqlite3 <file> .dump` says of a file that the first version wrote, with its application id
/// in front.
#[tokio::test]
async fn a_file_of_the_first_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LEDGER_FILE);
    let mut old = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(include_str!("../fixtures/store/version-1.sql"))
        .execute(&mut old)
        .await
        .unwrap();
    old.close().await.unwrap();
    let store = Store::open(&path).await.unwrap();
    assert!(store.set_aside().is_none());
    let threads = store.tracked().await.unwrap();
    assert_eq!(threads, [tracked("t1")]);
    assert_eq!(threads[0].thread.runs[0].state, RunState::Finishing);
    let kept = store.receipt("dispatcher", "r1").await.unwrap().unwrap();
    assert_eq!(
        (kept.intent, kept.outcome, kept.answer),
        (
            receipt("r1"),
            Outcome::Started {
                run: Some("run".to_owned().into())
            },
            AnswerFate::Lost(at(3))
        )
    );
    assert_eq!(event_ids(&store).await, ["e1"]);
    let due = store.claim_due(at(99), at(100), 9).await.unwrap().remove(0);
    assert_eq!((due.body.as_str(), due.attempts), ("frozen", 1));
    assert_eq!(store.sessions().await.unwrap().len(), 1);
}
