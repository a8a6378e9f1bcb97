//! MCP sessions that outlive a restart, each its client's own. What a session's state says is the MCP library's business.

use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::store::Store;
use crate::store::columns::{Columns, micros};
use crate::store::error::{Fault, StoreError};

/// A session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionRecord {
    /// Its id.
    pub id: String,
    /// The client that opened it.
    pub client: String,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used_at: Timestamp,
    /// What is needed to take it up again, as JSON.
    pub state: String,
}

impl Store {
    /// Keeps a session in place of what was kept under its id. It stays its first client's: false, and nothing is kept, for another.
    pub async fn put_session(&self, session: &SessionRecord) -> Result<bool, StoreError> {
        let session = session.clone();
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query(
                    "INSERT INTO sessions (id, client, created_at, last_used_at, state) VALUES (?, ?, ?, ?, ?) \
                     ON CONFLICT (id) DO UPDATE SET last_used_at = excluded.last_used_at, state = excluded.state \
                     WHERE client = excluded.client",
                )
                .bind(session.id)
                .bind(session.client)
                .bind(micros(session.created_at))
                .bind(micros(session.last_used_at))
                .bind(session.state)
                .execute(connection)
                .await?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// Notes when sessions were used last. One that is not there stays away.
    pub async fn touch_sessions(&self, used: Vec<(String, Timestamp)>) -> Result<(), StoreError> {
        self.write(move |connection| {
            Box::pin(async move {
                for (id, at) in used {
                    sqlx::query("UPDATE sessions SET last_used_at = max(last_used_at, ?) WHERE id = ?")
                        .bind(micros(at))
                        .bind(id)
                        .execute(&mut *connection)
                        .await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Takes away the sessions that were used last before `before`, and beyond `most` those that were not used for longest; none of
    /// `spared`. Gives how many there were.
    pub async fn forget_sessions(&self, before: Timestamp, most: u32, spared: Vec<String>) -> Result<u64, StoreError> {
        // A list of strings always prints.
        let spared = serde_json::to_string(&spared).unwrap_or_default();
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query(
                    "DELETE FROM sessions WHERE (last_used_at < ? OR id IN (SELECT id FROM sessions \
                     ORDER BY last_used_at DESC LIMIT -1 OFFSET ?)) AND id NOT IN (SELECT value FROM json_each(?))",
                )
                .bind(micros(before))
                .bind(most)
                .bind(spared)
                .execute(connection)
                .await?;
                Ok(done.rows_affected())
            })
        })
        .await
    }

    /// The session of that id.
    pub async fn session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        let mut reader = self.reader().await?;
        find(&mut reader, id).await.map_err(|fault| self.told(fault))
    }

    /// Every session, the one that was idle longest first.
    pub async fn sessions(&self) -> Result<Vec<SessionRecord>, StoreError> {
        let mut reader = self.reader().await?;
        list(&mut reader).await.map_err(|fault| self.told(fault))
    }

    /// Takes a session away; false where there is none.
    pub async fn delete_session(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("DELETE FROM sessions WHERE id = ?")
                    .bind(id)
                    .execute(connection)
                    .await?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }
}

async fn find(connection: &mut SqliteConnection, id: &str) -> Result<Option<SessionRecord>, Fault> {
    let row = sqlx::query("SELECT id, client, created_at, last_used_at, state FROM sessions WHERE id = ?")
        .bind(id)
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(session).transpose()
}

async fn list(connection: &mut SqliteConnection) -> Result<Vec<SessionRecord>, Fault> {
    let rows = sqlx::query("SELECT id, client, created_at, last_used_at, state FROM sessions ORDER BY last_used_at")
        .fetch_all(connection)
        .await?;
    rows.iter().map(session).collect()
}

fn session(row: &SqliteRow) -> Result<SessionRecord, Fault> {
    let mut columns = Columns::of(row);
    Ok(SessionRecord {
        id: columns.take()?,
        client: columns.take()?,
        created_at: columns.time()?,
        last_used_at: columns.time()?,
        state: columns.take()?,
    })
}
