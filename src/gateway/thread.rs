//! `t3_thread`: the view of a thread, without waiting for its run.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::compose::Scene;
use crate::gateway::view::ThreadView;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, budget, compose};

/// Which thread, and how much of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadArgs {
    /// The thread.
    pub thread_id: String,
    /// How many of the newest runs to show messages, tools and files of: 1-20, default 2.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    pub turns: Option<u32>,
}

/// How many of the newest runs are shown where the caller does not say.
pub(super) const TURNS: u32 = 2;

/// The most that may be asked for.
const MOST_TURNS: u32 = 20;

impl Gateway {
    /// What the thread is doing and what came of it, now.
    pub async fn thread(&self, caller: &Caller, args: ThreadArgs) -> Result<ThreadView, ToolError> {
        let turns = args.turns.unwrap_or(TURNS);
        if !(1..=MOST_TURNS).contains(&turns) {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!("turns is {turns}; it must be 1 to {MOST_TURNS}."),
            ));
        }
        let found = self.find_thread(caller, &args.thread_id).await?;
        let read = self.read_and_show(&found.member, &found.id).await;
        let away_since = found.member.machine.status().unreachable_since;
        let scene = Scene {
            machine: found.member.name(),
            project: &found.project.title,
            turns: usize::try_from(turns).unwrap_or(usize::MAX),
            now: Timestamp::now(),
            ceiling: found.member.ceiling(&caller.limits),
            unreachable_since: away_since,
            run: None,
        };
        let mut view = match read {
            Ok(thread) => compose::view(&scene, &self.standing(&found.member, &thread)),
            // The machine went away: what it last showed is more than nothing, and says so.
            Err(error) => match (found.member.machine.thread(&found.id), away_since) {
                (Some(row), Some(_)) => compose::view_of_row(&scene, &row),
                (Some(_) | None, _) => return Err(ToolError::from_machine(found.member.name(), &error)),
            },
        };
        budget::fit(&mut view, budget::VIEWS_CHARS);
        Ok(view)
    }
}
