//! Opening the file: that it is ours, sound, and of a version that we know.
//!
//! It never overwrites what it cannot read: a damaged file is moved aside with its log, a newer one and another program's are refused
//! untouched. Links are not followed, and others cannot read what is made here. Who owns the state directory sees to it that one process
//! opens it at a time; two that do so anyway lose nothing.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, SqlSafeStr as _};

use crate::store::error::{Fault, StoreError};

/// Every migration, oldest first.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "ledger", include_str!("migrations/0001_ledger.sql")),
    (2, "taken over", include_str!("migrations/0002_taken_over.sql")),
    (3, "batches", include_str!("migrations/0003_batches.sql")),
];

/// "T3CM" in a file's header: it is a ledger.
const APPLICATION: i64 = 1_412_645_709;

/// How long another connection's write is waited for.
const BUSY: Duration = Duration::from_secs(5);

/// How many readers there are at most. Each is a thread with a page cache of its own, and reads take milliseconds.
const READERS: u32 = 2;

/// Rows that a reader's thread prepares ahead: a start reads a hundred thousand.
const ROWS_AHEAD: usize = 4_096;

/// A file up to this size is checked whole at every start, a greater one but for its events: their check alone takes seconds, and a
/// damaged one is found when it is read.
const CHECKED_WHOLE_BYTES: u64 = 128 * 1024 * 1024;

/// How many files are set aside within a second.
const MOST_SET_ASIDE: u32 = 1_000;

/// What is checked at every start.
const CHECKS: &[&str] = &["PRAGMA quick_check(1)"];

/// The tables that are checked at every start.
const ESSENTIAL_CHECKS: &[&str] = &[
    "PRAGMA quick_check('ledger')",
    "PRAGMA quick_check('receipts')",
    "PRAGMA quick_check('tracked_threads')",
    "PRAGMA quick_check('tracked_runs')",
    "PRAGMA quick_check('tracked_requests')",
    "PRAGMA quick_check('tracked_messages')",
    "PRAGMA quick_check('deliveries')",
    "PRAGMA quick_check('sessions')",
    "PRAGMA quick_check('taken_over')",
    "PRAGMA quick_check('batches')",
];

/// An opened file.
pub(super) struct Opened {
    pub(super) writer: SqliteConnection,
    pub(super) readers: SqlitePool,
    /// What was said about a damaged file that lay there before.
    pub(super) set_aside: Option<StoreError>,
}

/// Opens the file; makes it where there is none, or where the one that was there had to be set aside.
pub(super) async fn open(path: &Path) -> Result<Opened, StoreError> {
    match attempt(path).await {
        Ok((writer, readers)) => Ok(Opened {
            writer,
            readers,
            set_aside: None,
        }),
        Err(Trouble::Told(error)) => Err(error),
        Err(Trouble::Damaged(detail)) => {
            let place = set_aside(path)?;
            let (writer, readers) = attempt(path).await.map_err(|trouble| match trouble {
                Trouble::Told(error) => error,
                Trouble::Damaged(detail) => StoreError::Corrupt {
                    path: path.to_owned(),
                    detail,
                    set_aside: None,
                },
            })?;
            Ok(Opened {
                writer,
                readers,
                set_aside: Some(StoreError::Corrupt {
                    path: path.to_owned(),
                    detail,
                    set_aside: Some(place),
                }),
            })
        }
    }
}

enum Trouble {
    /// The file is to be set aside, for this reason.
    Damaged(String),
    Told(StoreError),
}

impl Trouble {
    fn of(fault: Fault, path: &Path) -> Self {
        if fault.is_corruption() {
            return match fault {
                Fault::Engine(error) => Self::Damaged(error.to_string()),
                Fault::Word { .. } | Fault::Value(_) => Self::Damaged("unreadable".to_owned()),
            };
        }
        Self::Told(fault.told(path))
    }
}

async fn attempt(path: &Path) -> Result<(SqliteConnection, SqlitePool), Trouble> {
    let size = prepare(path).map_err(Trouble::Told)?;
    let log = beside(path, "-wal");
    if size == 0 && log.metadata().is_ok_and(|log| log.len() > 0) {
        // The engine would throw the log away.
        return Err(Trouble::Damaged("it is empty, and its log is not".to_owned()));
    }
    let trouble = |error: sqlx::Error| Trouble::of(error.into(), path);
    if size > 0 {
        // Read only, so that not even the log is worked in: it may be another program's, or what is left of ours.
        let mut looker = plain(path).read_only(true).connect().await.map_err(trouble)?;
        let verdict = look(&mut looker, path, size).await;
        let _ = looker.close().await;
        verdict?;
    }
    let mut writer = plain(path)
        // The room of pruned events goes back to the disk.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .connect()
        .await
        .map_err(trouble)?;
    migrate(&mut writer, path).await?;
    let readers = plain(path).pragma("query_only", "ON").row_buffer_size(ROWS_AHEAD);
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .connect_with(readers)
        .await
        .map_err(trouble)?;
    Ok((writer, readers))
}

fn plain(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY)
        // Statements are ours; their text and values are nobody's business.
        .disable_statement_logging()
}

/// Makes the file with its permissions, or looks whether the one that is there may be used; gives its size.
fn prepare(path: &Path) -> Result<u64, StoreError> {
    let refused = |path: &Path, problem: String| StoreError::Refused {
        path: path.to_owned(),
        problem,
    };
    for ending in ["-wal", "-shm"] {
        let beside = beside(path, ending);
        if beside.is_symlink() {
            return Err(refused(
                &beside,
                "is a symbolic link, which is not followed. Remove it".to_owned(),
            ));
        }
    }
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(_) if path.is_symlink() => {
            return Err(refused(
                path,
                "is a symbolic link, which is not followed. Remove it, or name the directory that it points into with --state-dir"
                    .to_owned(),
            ));
        }
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            return Err(StoreError::Full { path: path.to_owned() });
        }
        Err(error) => {
            return Err(refused(
                path,
                format!("cannot be opened ({error}). Mend its permissions, or name another --state-dir"),
            ));
        }
    };
    own_and_closed(&file).map_err(|problem| refused(path, problem))
}

fn own_and_closed(file: &File) -> Result<u64, String> {
    let metadata = file.metadata().map_err(|error| format!("cannot be read ({error})"))?;
    if !metadata.is_file() {
        return Err("is no file. Remove it, or name another --state-dir".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err("belongs to another user. Name a state directory of your own with --state-dir".to_owned());
    }
    if metadata.mode() & 0o077 != 0 {
        // It holds no secret that would have to be changed now.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))
            .map_err(|error| format!("cannot be closed to others ({error})"))?;
    }
    Ok(metadata.len())
}

/// Whose file it is, whether a newer program wrote it, and whether it is sound.
async fn look(connection: &mut SqliteConnection, path: &Path, size: u64) -> Result<(), Trouble> {
    let trouble = |error: sqlx::Error| Trouble::of(error.into(), path);
    let application: i64 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await
        .map_err(trouble)?;
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '\\_sqlx\\_%' ESCAPE '\\'")
            .fetch_one(&mut *connection)
            .await
            .map_err(trouble)?;
    // Without any table it was never finished.
    if application != APPLICATION && tables > 0 {
        return Err(Trouble::Told(StoreError::Refused {
            path: path.to_owned(),
            problem: "is another program's database. Move it away, or name another --state-dir".to_owned(),
        }));
    }
    let known = MIGRATIONS
        .iter()
        .map(|(version, ..)| *version)
        .max()
        .unwrap_or_default();
    let found = version(connection).await.map_err(trouble)?;
    if found > known {
        return Err(Trouble::Told(StoreError::Newer {
            path: path.to_owned(),
            found,
            known,
        }));
    }
    let checks = if size <= CHECKED_WHOLE_BYTES {
        CHECKS
    } else {
        ESSENTIAL_CHECKS
    };
    for check in checks {
        let said: Vec<String> = sqlx::query_scalar(*check)
            .fetch_all(&mut *connection)
            .await
            .map_err(trouble)?;
        if let Some(problem) = said.into_iter().find(|said| said != "ok") {
            return Err(Trouble::Damaged(problem.lines().collect::<Vec<_>>().join("; ")));
        }
    }
    Ok(())
}

/// The version of the tables; 0 where there are none.
async fn version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'")
        .fetch_one(&mut *connection)
        .await?;
    if there == 0 {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
}

async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), Trouble> {
    let migrations = MIGRATIONS
        .iter()
        .map(|&(version, name, sql)| {
            Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
        })
        .collect();
    let migrated = Migrator::with_migrations(migrations)
        .run_direct(None, connection, false)
        .await;
    migrated.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => Trouble::of(error.into(), path),
        error => Trouble::Told(StoreError::Refused {
            path: path.to_owned(),
            problem: format!(
                "has tables that this version cannot bring up to date ({error}). Install the version that wrote it"
            ),
        }),
    })?;
    sqlx::query("INSERT INTO ledger (one, id) VALUES (1, ?) ON CONFLICT DO NOTHING")
        .bind(uuid::Uuid::new_v4().to_string())
        .execute(connection)
        .await
        .map_err(|error| Trouble::of(error.into(), path))?;
    Ok(())
}

/// Moves the file and what lies beside it out of the way, over nothing; gives its new name.
fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let io = |error: std::io::Error| StoreError::Io {
        path: path.to_owned(),
        detail: format!("it is damaged and cannot be set aside: {error}"),
    };
    let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let place = (0..MOST_SET_ASIDE)
        .map(|again| match again {
            0 => beside(path, &format!(".corrupt-{stamp}")),
            again => beside(path, &format!(".corrupt-{stamp}-{again}")),
        })
        .find(|place| {
            ["", "-wal", "-shm"]
                .iter()
                .all(|ending| !beside(place, ending).exists())
        })
        .ok_or_else(|| io(ErrorKind::AlreadyExists.into()))?;
    // The log first: alone it is found and set aside again, a file without it would be taken for whole.
    for ending in ["-wal", "-shm", ""] {
        match std::fs::rename(beside(path, ending), beside(&place, ending)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
    }
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
    Ok(place)
}

/// The path with an ending more.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
