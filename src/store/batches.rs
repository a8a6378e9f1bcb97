//! Request ids of calls that dispatch several things at once: what each was used for first, so that it is never used for something else.
//!
//! Written by `gateway` before the first of the things has a receipt. Kept for ever, as receipts are.

use jiff::Timestamp;

use crate::store::Store;
use crate::store::columns::micros;
use crate::store::error::StoreError;

impl Store {
    /// Keeps what a client's request id is used for; false where it was used for something else before.
    pub async fn claim_batch(
        &self,
        client: &str,
        request: &str,
        payload_hash: [u8; 32],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (client, request) = (client.to_owned(), request.to_owned());
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "INSERT INTO batches (client, request, payload_hash, created_at) VALUES (?, ?, ?, ?) \
                     ON CONFLICT DO NOTHING",
                )
                .bind(&client)
                .bind(&request)
                .bind(&payload_hash[..])
                .bind(micros(now))
                .execute(&mut *connection)
                .await?;
                let kept: Vec<u8> =
                    sqlx::query_scalar("SELECT payload_hash FROM batches WHERE client = ? AND request = ?")
                        .bind(&client)
                        .bind(&request)
                        .fetch_one(connection)
                        .await?;
                Ok(kept == payload_hash)
            })
        })
        .await
    }

    /// Nothing was sent for it: the request id may be used for something else.
    pub async fn forget_batch(&self, client: &str, request: &str) -> Result<(), StoreError> {
        let (client, request) = (client.to_owned(), request.to_owned());
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("DELETE FROM batches WHERE client = ? AND request = ?")
                    .bind(client)
                    .bind(request)
                    .execute(connection)
                    .await?;
                Ok(())
            })
        })
        .await
    }
}
