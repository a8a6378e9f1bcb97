//! `t3_dispatch_many`.

use std::sync::Arc;

use crate::gateway::{DispatchManyAnswer, DispatchManyArgs, Gateway, ToolError};
use crate::mcp::tool::{Again, Call, Effect, Tool};

/// Starts several pieces of work.
#[derive(Debug)]
pub struct DispatchMany;

impl Tool for DispatchMany {
    const NAME: &'static str = "t3_dispatch_many";
    const TITLE: &'static str = "Start several pieces of work on T3 machines";
    const DESCRIPTION: &'static str = "Up to 20 calls of t3_dispatch in one: each item takes its arguments, and `results` has for each, in order, \
        `ok` (what t3_dispatch answers) or `error`. One that fails stops no other. Agents that work at the same time in one folder disturb each other: \
        give each a project or a worktree of its own.\n\
        After a lost answer repeat the call with the same request_id: what was started is found (`existing: true`), what is missing is started. \
        Items that failed and were put right go into a new call. Then wait for all of them with t3_wait (thread_ids), or end your turn where events \
        wake you.";
    const EFFECT: Effect = Effect::Changes;
    // Each item whose answer was lost is found by an equal one.
    const AGAIN: Again = Again::Freely;
    type Args = DispatchManyArgs;
    type Answer = DispatchManyAnswer;

    async fn call(
        gateway: &Arc<Gateway>,
        call: &Call,
        args: DispatchManyArgs,
    ) -> Result<DispatchManyAnswer, ToolError> {
        gateway.dispatch_many(&call.caller, args).await
    }

    fn summary(answer: &DispatchManyAnswer) -> String {
        let dispatched = answer.results.iter().filter_map(|result| result.ok.as_ref());
        let watched = dispatched.clone().all(|ok| ok.watch);
        let (good, all) = (dispatched.count(), answer.results.len());
        let next = match (good, watched) {
            (0, _) => "",
            (_, true) => {
                " Events report each end and question: end your turn if your host delivers T3 events; else call t3_wait with thread_ids."
            }
            (_, false) => " Call t3_wait with thread_ids.",
        };
        match all - good {
            0 => format!("{} dispatched.{next}", super::count(good, "item")),
            failed => format!(
                "{good} of {} dispatched, {failed} failed.{next}",
                super::count(all, "item")
            ),
        }
    }
}
