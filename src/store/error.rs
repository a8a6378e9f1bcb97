//! What can go wrong with the ledger, in the words of the one who has to mend it.
//!
//! The engine's own errors are sorted here once, so that no caller ever looks at an engine's code. Everything that is not clearly a full
//! disk or a broken file is an I/O error: a file is never called corrupt on a guess.

use std::path::{Path, PathBuf};

/// Why the ledger did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// No room: nothing of this write was kept, everything before it was.
    #[error("The ledger {} cannot grow: the disk is full. What was accepted before is safe. Make room; writing works again by itself.", path.display())]
    Full {
        /// The ledger's file.
        path: PathBuf,
    },
    /// The file is no sound database.
    #[error("The ledger {} is damaged ({detail}). {}", path.display(), aside(set_aside.as_deref()))]
    Corrupt {
        /// The ledger's file.
        path: PathBuf,
        /// What was found.
        detail: String,
        /// Where the file lies now, if it was moved.
        set_aside: Option<PathBuf>,
    },
    /// A newer version of the program wrote the file.
    #[error("The ledger {} was written by a newer t3code-mcp (version {found} of its tables, this one knows {known}). Install that version again, or name another --state-dir.", path.display())]
    Newer {
        /// The ledger's file.
        path: PathBuf,
        /// The version of its tables.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The file is not ours to write.
    #[error("The ledger {} {problem}.", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A name that this version does not know.
    #[error(
        "The ledger's table {table} says `{word}` at {row}, which this version does not know. Start the version that wrote it."
    )]
    Word {
        /// The table.
        table: &'static str,
        /// Which of its rows.
        row: String,
        /// The unknown word.
        word: String,
    },
    /// The file system or the engine did not do it.
    #[error("The ledger {} cannot be used ({detail}). Look at the disk, the directory's permissions and its other users; the call can be repeated.", path.display())]
    Io {
        /// The ledger's file.
        path: PathBuf,
        /// What was said.
        detail: String,
    },
    /// The ledger was closed.
    #[error("The ledger is closed: the gateway is stopping. Ask again once it has started.")]
    Closed,
}

fn aside(place: Option<&Path>) -> String {
    match place {
        Some(place) => format!(
            "It was set aside as {} and nothing of it was changed; a new one was begun.",
            place.display()
        ),
        None => {
            "Stop the gateway, copy the file, and start again: what fails the check at the start is set aside, and a new ledger is begun.".to_owned()
        }
    }
}

/// What went wrong inside, before it is known whose file it was.
#[derive(Debug)]
pub(super) enum Fault {
    /// The engine's.
    Engine(sqlx::Error),
    /// A name that this version does not know.
    Word {
        table: &'static str,
        row: String,
        word: String,
    },
    /// A value that no version writes.
    Value(&'static str),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Engine(error)
    }
}

/// The engine's primary result codes that mean something of their own.
const FULL: u32 = 13;
const IO: u32 = 10;
const CORRUPT: u32 = 11;
const NOT_A_DATABASE: u32 = 26;
const PRIMARY: u32 = 0xff;

/// Less room than this, and an I/O error is for want of it: the engine tells only some of its failed writes apart.
const NO_ROOM_BYTES: u64 = 64 * 1024;

impl Fault {
    /// The error to tell, about the file at `path`.
    pub(super) fn told(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Word { table, row, word } => StoreError::Word { table, row, word },
            Self::Value(detail) => StoreError::Corrupt {
                path,
                detail: detail.to_owned(),
                set_aside: None,
            },
            Self::Engine(error) => match primary_code(&error) {
                Some(FULL) => StoreError::Full { path },
                Some(IO) if no_room(&path) => StoreError::Full { path },
                Some(CORRUPT | NOT_A_DATABASE) => StoreError::Corrupt {
                    path,
                    detail: error.to_string(),
                    set_aside: None,
                },
                Some(_) | None => match error {
                    sqlx::Error::PoolClosed => StoreError::Closed,
                    error => StoreError::Io {
                        path,
                        detail: error.to_string(),
                    },
                },
            },
        }
    }

    /// The file is no sound database.
    pub(super) fn is_corruption(&self) -> bool {
        match self {
            Self::Engine(error) => matches!(primary_code(error), Some(CORRUPT | NOT_A_DATABASE)),
            Self::Word { .. } | Self::Value(_) => false,
        }
    }
}

fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?.parse::<u32>().ok()?;
    Some(code & PRIMARY)
}

fn no_room(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder).is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) < NO_ROOM_BYTES)
}
