//! Receipts as rows: the queries behind `receipts`, each within its caller's transaction.

use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::store::columns::{Columns, integer, micros};
use crate::store::error::Fault;
use crate::store::receipts::{AnswerFate, NewReceipt, Outcome, Receipt, ReceiptKind, ReceiptUpdate};

/// The columns that [`receipt`] reads, in its order, with what follows.
macro_rules! select {
    ($rest:literal) => {
        sqlx::query(concat!(
            "SELECT client, request, explicit, payload_hash, machine, environment, thread, message, kind, watch_on, \
             watch_origin, watch_client, baseline_ordinal, baseline_requested_at, created_at, protocol, attempt, sent, \
             step, outcome, run, answer, lost_at, settled FROM receipts ",
            $rest
        ))
    };
}

pub(super) async fn insert(connection: &mut SqliteConnection, new: &NewReceipt) -> Result<bool, Fault> {
    let baseline = new.baseline.as_ref();
    let done = sqlx::query(
        "INSERT INTO receipts (client, request, explicit, payload_hash, machine, environment, thread, message, kind, \
         watch_on, watch_origin, watch_client, baseline_ordinal, baseline_requested_at, created_at, protocol) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (client, request) DO NOTHING",
    )
    .bind(&new.client)
    .bind(&new.request)
    .bind(new.explicit)
    .bind(new.payload_hash.as_slice())
    .bind(&new.machine)
    .bind(new.environment.as_deref())
    .bind(&*new.thread)
    .bind(&*new.message)
    .bind(match new.kind {
        ReceiptKind::Launch => "launch",
        ReceiptKind::Continue => "continue",
    })
    .bind(new.watch.on)
    .bind(new.watch.origin.as_deref())
    .bind(new.watch.client.as_deref())
    .bind(baseline.map(|baseline| integer(baseline.ordinal)))
    .bind(baseline.map(|baseline| micros(baseline.requested_at)))
    .bind(micros(new.created_at))
    .bind(new.protocol)
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

pub(super) async fn find(
    connection: &mut SqliteConnection,
    client: &str,
    request: &str,
) -> Result<Option<Receipt>, Fault> {
    let row = select!("WHERE client = ? AND request = ?")
        .bind(client)
        .bind(request)
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(receipt).transpose()
}

pub(super) async fn lost(
    connection: &mut SqliteConnection,
    client: &str,
    payload_hash: &[u8; 32],
    since: Timestamp,
) -> Result<Option<Receipt>, Fault> {
    let row = select!(
        "WHERE client = ? AND payload_hash = ? AND answer = 'lost' AND lost_at >= ? AND explicit = 0 \
         ORDER BY lost_at DESC LIMIT 1"
    )
    .bind(client)
    .bind(payload_hash.as_slice())
    .bind(micros(since))
    .fetch_optional(connection)
    .await?;
    row.as_ref().map(receipt).transpose()
}

pub(super) async fn open(connection: &mut SqliteConnection) -> Result<Vec<Receipt>, Fault> {
    let rows = select!("WHERE settled = 0 ORDER BY created_at")
        .fetch_all(connection)
        .await?;
    rows.iter().map(receipt).collect()
}

/// By their numbers, which come with the order of their making: nothing is sorted.
pub(super) async fn latest(
    connection: &mut SqliteConnection,
    since: Timestamp,
    most: u32,
) -> Result<Vec<Receipt>, Fault> {
    let rows = select!(
        "WHERE rowid IN (SELECT rowid FROM receipts ORDER BY rowid DESC LIMIT ?) AND created_at >= ? AND outcome <> 'nothing' \
         ORDER BY rowid"
    )
    .bind(most)
    .bind(micros(since))
    .fetch_all(connection)
    .await?;
    rows.iter().map(receipt).collect()
}

/// Keeps what is known of a receipt, within a transaction.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    client: &str,
    request: &str,
    update: &ReceiptUpdate,
) -> Result<bool, Fault> {
    let Some(found) = find(connection, client, request).await? else {
        return Ok(false);
    };
    keep(connection, found, update).await?;
    Ok(true)
}

/// Keeps that `watch` has taken a receipt up, within a transaction: the one that it was told of, not one that was opened again since.
pub(super) async fn take(
    connection: &mut SqliteConnection,
    client: &str,
    request: &str,
    update: &ReceiptUpdate,
) -> Result<(), Fault> {
    let Some(found) = find(connection, client, request).await? else {
        return Ok(());
    };
    let opened = update.opened.unwrap_or(found.intent.created_at);
    if micros(opened) != micros(found.intent.created_at) {
        return Ok(());
    }
    let update = ReceiptUpdate {
        opened: None,
        settled: true,
        ..update.clone()
    };
    keep(connection, found, &update).await
}

async fn keep(connection: &mut SqliteConnection, found: Receipt, update: &ReceiptUpdate) -> Result<(), Fault> {
    let new = found.updated(update);
    let (outcome, run) = match &new.outcome {
        Outcome::NotStarted => ("not_started", None),
        Outcome::Unknown => ("unknown", None),
        Outcome::Started { run } => ("started", run.as_deref()),
        Outcome::Nothing => ("nothing", None),
    };
    let (answer, lost_at) = match new.answer {
        AnswerFate::Pending => ("pending", None),
        AnswerFate::Answered => ("answered", None),
        AnswerFate::Lost(at) => ("lost", Some(micros(at))),
    };
    sqlx::query(
        "UPDATE receipts SET attempt = ?, sent = ?, step = ?, outcome = ?, run = ?, thread = ?, message = ?, answer = ?, \
         lost_at = ?, settled = ?, created_at = ? WHERE client = ? AND request = ?",
    )
    .bind(new.attempt)
    .bind(new.sent)
    .bind(&new.step)
    .bind(outcome)
    .bind(run)
    .bind(&*new.intent.thread)
    .bind(&*new.intent.message)
    .bind(answer)
    .bind(lost_at)
    .bind(new.settled)
    .bind(micros(new.intent.created_at))
    .bind(&new.intent.client)
    .bind(&new.intent.request)
    .execute(connection)
    .await?;
    Ok(())
}

fn receipt(row: &SqliteRow) -> Result<Receipt, Fault> {
    let mut columns = Columns::of(row);
    let client: String = columns.take()?;
    let request: String = columns.take()?;
    let unknown = |word: String| Fault::Word {
        table: "receipts",
        row: format!("`{client}` `{request}`"),
        word,
    };
    let intent = NewReceipt {
        client: client.clone(),
        request: request.clone(),
        explicit: columns.take()?,
        payload_hash: <[u8; 32]>::try_from(columns.take::<&[u8]>()?)
            .map_err(|_| Fault::Value("a hash of another length"))?,
        machine: columns.take()?,
        environment: columns.id_if()?,
        thread: columns.id()?,
        message: columns.id()?,
        kind: match columns.take::<String>()? {
            word if word == "launch" => ReceiptKind::Launch,
            word if word == "continue" => ReceiptKind::Continue,
            word => return Err(unknown(word)),
        },
        watch: columns.watch()?,
        baseline: columns.baseline()?,
        created_at: columns.time()?,
        protocol: columns.small()?,
    };
    let attempt = columns.small()?;
    let sent = columns.take()?;
    let step = columns.take()?;
    let (outcome, run) = (columns.take::<String>()?, columns.id_if()?);
    let outcome = match outcome.as_str() {
        "not_started" => Outcome::NotStarted,
        "unknown" => Outcome::Unknown,
        "started" => Outcome::Started { run },
        "nothing" => Outcome::Nothing,
        _ => return Err(unknown(outcome)),
    };
    let (answer, lost_at) = (columns.take::<String>()?, columns.time_if()?);
    let answer = match (answer.as_str(), lost_at) {
        ("pending", _) => AnswerFate::Pending,
        ("answered", _) => AnswerFate::Answered,
        ("lost", Some(at)) => AnswerFate::Lost(at),
        _ => return Err(unknown(answer)),
    };
    Ok(Receipt {
        intent,
        attempt,
        sent,
        step,
        outcome,
        answer,
        settled: columns.take()?,
    })
}
