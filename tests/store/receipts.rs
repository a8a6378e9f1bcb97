//! Receipts.

use crate::support::{again, at, ledger, receipt};
use t3code_mcp::lifecycle::Baseline;
use t3code_mcp::store::{AnswerFate, Batch, Claimed, NewReceipt, Outcome, Receipt, ReceiptKind, ReceiptUpdate, Store};

fn outcome(outcome: Outcome) -> ReceiptUpdate {
    ReceiptUpdate {
        outcome: Some(outcome),
        ..ReceiptUpdate::default()
    }
}

async fn kept(store: &Store, request: &str) -> Receipt {
    store.receipt("dispatcher", request).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_request_id_is_claimed_once_and_for_ever() {
    let (folder, store) = ledger().await;
    let new = NewReceipt {
        kind: ReceiptKind::Continue,
        baseline: Some(Baseline {
            ordinal: 9,
            requested_at: at(-5),
        }),
        ..receipt("r1")
    };
    assert_eq!(store.claim_receipt(&new).await.unwrap(), Claimed::New);
    let store = again(&folder, store).await;
    let other = NewReceipt {
        payload_hash: [8; 32],
        ..receipt("r1")
    };
    let Claimed::Existing(found) = store.claim_receipt(&other).await.unwrap() else {
        panic!("claimed twice")
    };
    assert_eq!(found.intent, new, "as it was first claimed");
    assert_eq!(
        (found.attempt, found.sent, found.outcome),
        (0, false, Outcome::NotStarted)
    );
    let elsewhere = NewReceipt {
        client: "another".to_owned(),
        ..receipt("r1")
    };
    assert_eq!(store.claim_receipt(&elsewhere).await.unwrap(), Claimed::New);
}

#[tokio::test]
async fn of_many_calls_at_once_one_gets_the_receipt() {
    let (_folder, store) = ledger().await;
    let calls = (0..50).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.claim_receipt(&receipt("r1")).await.unwrap() == Claimed::New })
    });
    let mut new = 0;
    for call in calls {
        new += usize::from(call.await.unwrap());
    }
    assert_eq!(new, 1);
}

#[tokio::test]
async fn what_has_started_stays_so_whoever_writes_later() {
    let (_folder, store) = ledger().await;
    store.claim_receipt(&receipt("r1")).await.unwrap();
    let run = Some("run".to_owned().into());
    for (said, expected) in [
        (Outcome::Unknown, Outcome::Unknown),
        (
            Outcome::Started { run: run.clone() },
            Outcome::Started { run: run.clone() },
        ),
        (Outcome::Unknown, Outcome::Started { run: run.clone() }),
        (Outcome::Started { run: None }, Outcome::Started { run: run.clone() }),
        (Outcome::Nothing, Outcome::Started { run: run.clone() }),
    ] {
        assert!(store.update_receipt("dispatcher", "r1", &outcome(said)).await.unwrap());
        assert_eq!(kept(&store, "r1").await.outcome, expected);
    }
    assert!(
        !store
            .update_receipt("dispatcher", "r2", &outcome(Outcome::Unknown))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn a_later_attempt_opens_a_settled_receipt_again() {
    let (folder, store) = ledger().await;
    for request in ["r1", "r2"] {
        store.claim_receipt(&receipt(request)).await.unwrap();
    }
    let settled = ("dispatcher".to_owned(), "r1".to_owned(), outcome(Outcome::Nothing));
    store
        .commit(Batch {
            settled: vec![settled],
            ..Batch::default()
        })
        .await
        .unwrap();
    let open =
        |receipts: Vec<Receipt>| -> Vec<String> { receipts.into_iter().map(|open| open.intent.request).collect() };
    assert_eq!(open(store.open_receipts().await.unwrap()), ["r2"]);
    assert_eq!(kept(&store, "r1").await.outcome, Outcome::Nothing);
    let next = ReceiptUpdate {
        opened: None,
        attempt: Some(1),
        sent: true,
        step: Some("message".to_owned()),
        outcome: Some(Outcome::Unknown),
        thread: Some("other thread".to_owned().into()),
        message: Some("other message".to_owned().into()),
        answer: Some(AnswerFate::Lost(at(3))),
        settled: false,
    };
    store.update_receipt("dispatcher", "r1", &next).await.unwrap();
    let store = again(&folder, store).await;
    assert_eq!(open(store.open_receipts().await.unwrap()), ["r1", "r2"]);
    let found = kept(&store, "r1").await;
    assert_eq!((found.attempt, found.sent, found.step.as_str()), (1, true, "message"));
    assert_eq!(
        (found.outcome, found.answer),
        (Outcome::Unknown, AnswerFate::Lost(at(3)))
    );
    assert_eq!(
        (&*found.intent.thread, &*found.intent.message),
        (&"other thread".to_owned(), &"other message".to_owned())
    );
}

#[tokio::test]
async fn only_an_equal_call_without_a_request_id_whose_answer_was_lost_is_found_by_its_arguments() {
    let (_folder, store) = ledger().await;
    let lost = |at| ReceiptUpdate {
        answer: Some(at),
        ..ReceiptUpdate::default()
    };
    for (request, explicit, hash, answer) in [
        ("early", false, 7, AnswerFate::Lost(at(10))),
        ("late", false, 7, AnswerFate::Lost(at(20))),
        ("answered", false, 7, AnswerFate::Answered),
        ("named", true, 7, AnswerFate::Lost(at(30))),
        ("other", false, 8, AnswerFate::Lost(at(30))),
        ("pending", false, 7, AnswerFate::Pending),
    ] {
        let new = NewReceipt {
            explicit,
            payload_hash: [hash; 32],
            ..receipt(request)
        };
        store.claim_receipt(&new).await.unwrap();
        store
            .update_receipt("dispatcher", request, &lost(answer))
            .await
            .unwrap();
    }
    let find = async |client: &str, since| {
        let found = store.lost_receipt(client, &[7; 32], at(since)).await.unwrap();
        found.map(|found| found.intent.request)
    };
    assert_eq!(find("dispatcher", 0).await.as_deref(), Some("late"));
    assert_eq!(find("dispatcher", 20).await.as_deref(), Some("late"));
    assert_eq!(find("dispatcher", 21).await, None);
    assert_eq!(find("another", 0).await, None);
    // The process ends and another begins: what was pending is lost.
    assert_eq!(store.lose_pending_answers(at(40)).await.unwrap(), 1);
    assert_eq!(find("dispatcher", 21).await.as_deref(), Some("pending"));
}

#[tokio::test]
async fn a_receipt_is_forgotten_only_while_nothing_was_sent() {
    let (_folder, store) = ledger().await;
    for request in ["unsent", "sent"] {
        store.claim_receipt(&receipt(request)).await.unwrap();
    }
    let sent = ReceiptUpdate {
        sent: true,
        ..ReceiptUpdate::default()
    };
    store.update_receipt("dispatcher", "sent", &sent).await.unwrap();
    assert!(store.forget_receipt("dispatcher", "unsent").await.unwrap());
    assert!(!store.forget_receipt("dispatcher", "sent").await.unwrap());
    assert!(store.receipt("dispatcher", "unsent").await.unwrap().is_none());
    assert!(kept(&store, "sent").await.sent);
}

#[tokio::test]
async fn a_receipt_that_was_opened_again_is_not_taken_for_the_one_before() {
    let (_folder, store) = ledger().await;
    store.claim_receipt(&receipt("r1")).await.unwrap();
    let opened = |seconds| ReceiptUpdate {
        opened: Some(at(seconds)),
        ..ReceiptUpdate::default()
    };
    store.update_receipt("dispatcher", "r1", &opened(5)).await.unwrap();
    let take = |seconds| Batch {
        settled: vec![("dispatcher".to_owned(), "r1".to_owned(), opened(seconds))],
        ..Batch::default()
    };
    store.commit(take(0)).await.unwrap();
    assert_eq!(store.open_receipts().await.unwrap().len(), 1);
    store.commit(take(5)).await.unwrap();
    assert!(store.open_receipts().await.unwrap().is_empty());
    assert_eq!(kept(&store, "r1").await.intent.created_at, at(5));
    // And once more.
    store.update_receipt("dispatcher", "r1", &opened(9)).await.unwrap();
    assert_eq!(store.open_receipts().await.unwrap().len(), 1);
}
