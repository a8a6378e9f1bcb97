//! `t3_dispatch_many`: several dispatches in one call, each with a receipt and an outcome of its own.
//!
//! All receipts are claimed before any work begins, in one order for everybody: two such calls with the same things in them never wait for
//! each other. The whole goes on in its own task, each thing in one as well.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use futures_util::future::join_all;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::gateway::dispatch::{Claim, check, dispatch_hash};
use crate::gateway::keeping::not_kept;
use crate::gateway::reading::may_change;
use crate::gateway::receipts::PayloadHash;
use crate::gateway::{Caller, DispatchAnswer, DispatchArgs, ErrorCode, Gateway, ToolError, budget, text};
use crate::protocol::ThreadId;

/// What to run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchManyArgs {
    /// Up to 20 dispatches, each with the arguments of `t3_dispatch`.
    #[schemars(length(min = 1, max = 20))]
    pub items: Vec<DispatchArgs>,
    /// Any string of yours that makes the whole call safe to repeat: what was started is found, what is missing is started.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// What became of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DispatchManyAnswer {
    /// One entry for each item, in their order: either `ok` or `error`.
    pub results: Vec<ItemResult>,
}

/// What became of an item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ItemResult {
    /// It runs: as `t3_dispatch` answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<DispatchAnswer>,
    /// Why it does not: code, message, hint and further facts, as where `t3_dispatch` fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub error: Option<ToolError>,
}

/// How many items one call takes.
const MOST_ITEMS: usize = 20;

/// How many of them are worked on at once on one machine.
const AT_ONCE: usize = 6;

/// How much of an error's texts stays where the answer is too long.
const SHORT: usize = 300;

/// One of the things.
#[derive(Debug)]
struct Item {
    args: DispatchArgs,
    /// How many equal ones come before it in the same call: each of them is a thing of its own.
    twin: u32,
    hash: PayloadHash,
}

impl Gateway {
    /// Starts several things. All of them go on when the returned future is dropped.
    pub async fn dispatch_many(
        self: &Arc<Self>,
        caller: &Caller,
        args: DispatchManyArgs,
    ) -> Result<DispatchManyAnswer, ToolError> {
        may_change(caller, "the dispatch")?;
        check_many(&args)?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move { gateway.dispatch_all(&caller, args).await })
            .await
    }

    async fn dispatch_all(
        self: &Arc<Self>,
        caller: &Caller,
        args: DispatchManyArgs,
    ) -> Result<DispatchManyAnswer, ToolError> {
        if let Some(request) = &args.request_id {
            self.claim_batch(caller, request, batch_hash(&args.items)).await?;
        }
        let request = args.request_id.clone();
        let items: Vec<Arc<Item>> = items_of(args).into_iter().map(Arc::new).collect();
        let claims = self.claim_all(caller, &items).await;
        let work = items.iter().zip(claims).map(|(item, claim)| {
            let (gateway, caller, item) = (Arc::clone(self), caller.clone(), Arc::clone(item));
            self.in_own_task(async move {
                let (receipt, matched) = claim?;
                let lane = gateway.lane(&caller, &item.args);
                let _turn = lane.acquire_owned().await;
                gateway.dispatch_by(&caller, &item.args, &receipt, matched).await
            })
        });
        let results = join_all(work).await;
        if let Some(request) = request
            && results.iter().all(Result::is_err)
        {
            self.forget_unsent_batch(caller, &request, &items).await;
        }
        let mut answer = DispatchManyAnswer {
            results: results.into_iter().map(ItemResult::from).collect(),
        };
        fit(&mut answer);
        Ok(answer)
    }

    /// The receipt of each, in the order of the items.
    async fn claim_all(&self, caller: &Caller, items: &[Arc<Item>]) -> Vec<Result<Claim, ToolError>> {
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|at| items.get(*at).map(|item| item.hash));
        let mut claims: HashMap<usize, Result<Claim, ToolError>> = HashMap::new();
        // Held until all are claimed: whoever comes with some of the same things finds all of ours or none.
        let mut turns = Vec::new();
        for at in order {
            let Some(item) = items.get(at) else { continue };
            let claim = match check(&item.args) {
                Ok(()) => {
                    turns.extend(self.turn(caller, &item.args, item.twin).await);
                    self.claim_in_turn(caller, &item.args, item.twin).await
                }
                Err(error) => Err(error),
            };
            claims.insert(at, claim);
        }
        drop(turns);
        let unclaimed = || Err(ToolError::new(ErrorCode::Internal, "The item was not looked at."));
        (0..items.len())
            .map(|at| claims.remove(&at).unwrap_or_else(unclaimed))
            .collect()
    }

    /// What lets only so many things of a machine be worked on at once, whichever calls they are of.
    fn lane(&self, caller: &Caller, args: &DispatchArgs) -> Arc<Semaphore> {
        let machine = self.machine_of(caller, args).unwrap_or_default();
        // Nothing is half done under this lock.
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes
            .entry(machine)
            .or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
        Arc::clone(lane)
    }

    /// The machine that an item goes to, as far as can be said without asking anybody; only ones that are there, so that lanes stay few.
    fn machine_of(&self, caller: &Caller, args: &DispatchArgs) -> Option<String> {
        let named = match (&args.machine, &args.thread_id) {
            (Some(machine), _) => Some(machine.as_str()),
            (None, Some(thread)) => {
                let id = ThreadId(thread.clone());
                let mut members = self.fleet.visible(&caller.limits).into_iter();
                return members
                    .find(|member| member.machine.thread(&id).is_some())
                    .map(|member| member.name().to_owned());
            }
            (None, None) => None,
        };
        let member = self.fleet.member_or_only(&caller.limits, named).ok()?;
        Some(member.name().to_owned())
    }

    /// Keeps what the request id is used for, before anything is.
    async fn claim_batch(&self, caller: &Caller, request: &str, hash: PayloadHash) -> Result<(), ToolError> {
        let same = match &self.ledger {
            Some(ledger) => {
                let claimed = ledger
                    .store
                    .claim_batch(&caller.client, request, hash, Timestamp::now());
                claimed.await.map_err(|error| not_kept(&error))?
            }
            None => self.receipts().claim_batch(&caller.client, request, hash),
        };
        if same {
            return Ok(());
        }
        Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!(
                "The request_id `{}` was used before with other items; nothing was started.",
                text::quoted(request)
            ),
        )
        .hint(
            "Repeat the first call exactly, or send only the items that are new or put right, with another request_id.",
        ))
    }

    /// A call of which nothing was ever sent may be put right under the same request id.
    async fn forget_unsent_batch(&self, caller: &Caller, request: &str, items: &[Arc<Item>]) {
        for item in items {
            let Some(id) = &item.args.request_id else { continue };
            if self.receipts().has(&caller.client, id) {
                return;
            }
            if let Some(ledger) = &self.ledger
                && !matches!(ledger.store.receipt(&caller.client, id).await, Ok(None))
            {
                return;
            }
        }
        match &self.ledger {
            Some(ledger) => {
                if let Err(error) = ledger.store.forget_batch(&caller.client, request).await {
                    tracing::warn!(%error, "the request id of a call that sent nothing stays used");
                }
            }
            None => self.receipts().forget_batch(&caller.client, request),
        }
    }
}

impl From<Result<DispatchAnswer, ToolError>> for ItemResult {
    fn from(result: Result<DispatchAnswer, ToolError>) -> Self {
        Self {
            error: result.as_ref().err().cloned(),
            ok: result.ok(),
        }
    }
}

fn check_many(args: &DispatchManyArgs) -> Result<(), ToolError> {
    let invalid = |message: String| Err(ToolError::new(ErrorCode::InvalidRequest, message));
    if args.items.is_empty() {
        return invalid("items is empty.".to_owned());
    }
    if args.items.len() > MOST_ITEMS {
        return invalid(format!(
            "items has {} entries; one call takes at most {MOST_ITEMS}. Nothing was started.",
            args.items.len()
        ));
    }
    if args.request_id.as_deref().is_some_and(str::is_empty) {
        return invalid("request_id is empty: leave it out, or pass a string of your own.".to_owned());
    }
    Ok(())
}

/// The hash of everything that a call says besides its request id.
fn batch_hash(items: &[DispatchArgs]) -> PayloadHash {
    // Arguments that were read from JSON can be written as JSON.
    let written = serde_json::to_vec(items).unwrap_or_default();
    Sha256::digest(written).into()
}

/// The items, each with a request id of its own where the call has one. Equal ones without any are told apart by their number: with an id, what
/// is the same call is the same in a batch and alone.
fn items_of(args: DispatchManyArgs) -> Vec<Item> {
    let mut seen: HashMap<PayloadHash, u32> = HashMap::new();
    let request = args.request_id;
    let items = args.items.into_iter().enumerate();
    items
        .map(|(at, mut args)| {
            if let (None, Some(request)) = (&args.request_id, &request) {
                args.request_id = Some(format!("{request}[{at}]"));
            }
            let twin = if args.request_id.is_some() {
                0
            } else {
                let twins = seen.entry(dispatch_hash(&args, 0)).or_default();
                let twin = *twins;
                *twins += 1;
                twin
            };
            Item {
                hash: dispatch_hash(&args, twin),
                twin,
                args,
            }
        })
        .collect()
}

/// Shortens errors where many long ones make the answer longer than clients take; what runs is told whole.
fn fit(answer: &mut DispatchManyAnswer) {
    if budget::size(answer) <= budget::VIEWS_CHARS {
        return;
    }
    for error in answer.results.iter_mut().filter_map(|result| result.error.as_mut()) {
        error.extra.clear();
        error.message = text::cut(&error.message, SHORT);
        error.hint = error.hint.as_ref().map(|hint| text::cut(hint, SHORT));
    }
    if budget::size(answer) <= budget::VIEWS_CHARS {
        return;
    }
    for ok in answer.results.iter_mut().filter_map(|result| result.ok.as_mut()) {
        ok.notes.iter_mut().for_each(|note| *note = text::cut(note, SHORT));
        for text in [&mut ok.title, &mut ok.path, &mut ok.project] {
            *text = text::cut(text, text::TITLE_CHARS);
        }
    }
}
