//! Steering: a message into the active run. A provider that steers inside its turn only gets the message; any other begins
//! another attempt of the same run.

use serde_json::Value;

use super::agent::{Script, Work};
use super::commands::Refusal;
use super::dispatch::NewMessage;
use super::entities::{Run, RunStatus};
use super::events::Source;
use super::names;
use super::stamp::Stamp;
use super::{Model, Next, text};

impl Model {
    /// The run that a steer names, if it can take one.
    pub(crate) fn steerable(&self, ix: usize, id: &str, command: &Value) -> Result<Run, Refusal> {
        match self.threads.get(ix).and_then(|thread| thread.run(id)) {
            None => Err(Refusal::dispatch(command, format!("Target run {id} was not found."))),
            Some(run) if !run.status.is_interruptible() => {
                let words = format!("Target run {id} is {} and cannot be steered.", run.status.as_str());
                Err(Refusal::dispatch(command, words))
            }
            Some(run) => Ok(run.clone()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a steer is told with all its circumstances")]
    pub(crate) fn steer(
        &mut self,
        ix: usize,
        now: Stamp,
        target: &Run,
        message: &NewMessage,
        intent: &'static str,
        restart: bool,
        source: &Source,
    ) -> u64 {
        let inside = self
            .options
            .provider(&target.provider_instance_id)
            .is_some_and(|provider| provider.steers_inside);
        if inside && !restart && target.status == RunStatus::Running {
            self.add_message(ix, now, target, message, source);
            return self.add_user_item(ix, now, target, message, intent, source);
        }
        self.change_attempt(ix, now, target, source, |attempt| {
            attempt.status = "superseded";
            attempt.completed_at = Some(now);
        });
        self.change_root(ix, now, target, source, |node, _| {
            node.status = "interrupted";
            node.completed_at = Some(now);
        });
        self.change_run(ix, now, target.ordinal, source, |run| {
            run.attempt += 1;
            run.status = RunStatus::Starting;
            run.root_node_id = names::root_node(&run.id, run.attempt);
            run.active_attempt_id = names::attempt(&run.id, run.attempt);
            run.user_message_id.clone_from(&message.id);
        });
        let Some(run) = self
            .threads
            .get(ix)
            .and_then(|thread| thread.by_ordinal(target.ordinal))
            .cloned()
        else {
            return self.head();
        };
        self.add_attempt(ix, now, &run, "steering_restart", true, source);
        self.add_message(ix, now, &run, message, source);
        let last = self.add_user_item(ix, now, &run, message, intent, source);
        self.drop_timers(ix);
        if let Some(thread) = self.threads.get_mut(ix) {
            let cut = thread.work.take().filter(|work| work.turn.is_some());
            let mut work = Work::new(run.ordinal, Script::of(&message.text));
            work.cut = cut.map(Box::new);
            thread.work = Some(work);
        }
        if self.options.is_ready(&run.provider_instance_id) {
            let at = now.after(self.options.timing.interrupt);
            self.set_timer(ix, at, Next::Attach);
        }
        last
    }

    /// Closes what an earlier attempt left open: what was said is kept.
    pub(crate) fn close_cut_turn(&mut self, ix: usize, now: Stamp) {
        let Some(run) = self.working_run(ix) else {
            return;
        };
        let Some(mut cut) = self.work_mut(ix).and_then(|work| work.cut.take()) else {
            return;
        };
        // The turn is closed as if it were the current one, then the new work goes on.
        if let Some(work) = self.work_mut(ix) {
            std::mem::swap(work, &mut cut);
        }
        self.flush_partial(ix, now, &run);
        self.withdraw_requests(ix, now, &run);
        let open: Vec<String> = self
            .work_mut(ix)
            .map(|work| {
                work.tools
                    .iter()
                    .filter(|tool| !tool.done)
                    .map(|tool| tool.native.clone())
                    .collect()
            })
            .unwrap_or_default();
        for native in open {
            self.mark_tool(ix, now, &run, &native, "interrupted", false);
        }
        self.finish_provider_turn(ix, now, &run, "interrupted");
        if let Some(work) = self.work_mut(ix) {
            std::mem::swap(work, &mut cut);
        }
    }

    /// A queued message into the active run: its own run is cancelled, and the message moves.
    pub(crate) fn promote(&mut self, ix: usize, now: Stamp, command: &Value, source: &Source) -> Result<u64, Refusal> {
        let queued = self.promotable(ix, command)?;
        let target = self.steerable(ix, text(command, "targetRunId"), command)?;
        let Some(message) = self.threads.get(ix).and_then(|thread| {
            thread
                .messages
                .iter()
                .find(|message| message.id == queued.user_message_id)
                .map(|message| NewMessage {
                    id: message.id.clone(),
                    text: message.text.clone(),
                    attachments: message.attachments.clone(),
                    creation_source: message.creation_source.clone(),
                    continues: None,
                })
        }) else {
            return Ok(self.head());
        };
        self.cancel_run(ix, now, &queued, source);
        Ok(self.steer(ix, now, &target, &message, "promoted_queued_to_steer", false, source))
    }
}
