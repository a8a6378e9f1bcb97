//! The queue behind a running run: edit, cancel, reorder, hold, resume.

use serde_json::Value;

use super::commands::Refusal;
use super::entities::{Run, RunStatus};
use super::events::Source;
use super::stamp::Stamp;
use super::{Model, text};

impl Model {
    fn queued(&self, ix: usize, field: &str, command: &Value) -> Result<Run, Refusal> {
        let is_queued = |run: &Run| run.status == RunStatus::Queued;
        self.named_run(ix, command, field, is_queued, "is not queued.")
    }

    /// The queued run that a promotion names.
    pub(crate) fn promotable(&self, ix: usize, command: &Value) -> Result<Run, Refusal> {
        self.queued(ix, "queuedRunId", command)
    }

    pub(crate) fn edit_queued(
        &mut self,
        ix: usize,
        now: Stamp,
        command: &Value,
        source: &Source,
    ) -> Result<u64, Refusal> {
        let run = self.queued(ix, "runId", command)?;
        let Some(mut message) = self.message_of(ix, &run).cloned() else {
            return Ok(self.head());
        };
        text(command, "text").clone_into(&mut message.text);
        message.updated_at = now;
        Ok(self.log_message(ix, now, source, false, message))
    }

    pub(crate) fn cancel_queued(
        &mut self,
        ix: usize,
        now: Stamp,
        command: &Value,
        source: &Source,
    ) -> Result<u64, Refusal> {
        let run = self.queued(ix, "runId", command)?;
        Ok(self.cancel_run(ix, now, &run, source))
    }

    /// Ends a run that never started: run, attempt, node, in this order.
    pub(crate) fn cancel_run(&mut self, ix: usize, now: Stamp, run: &Run, source: &Source) -> u64 {
        self.change_run(ix, now, run.ordinal, source, |run| {
            run.status = RunStatus::Cancelled;
            run.queue_position = None;
            run.queue_held = None;
            run.completed_at = Some(now);
        });
        self.change_attempt(ix, now, run, source, |attempt| {
            attempt.status = "cancelled";
            attempt.completed_at = Some(now);
        });
        self.change_root(ix, now, run, source, |node, _| {
            node.status = "cancelled";
            node.completed_at = Some(now);
        })
    }

    pub(crate) fn reorder_queued(
        &mut self,
        ix: usize,
        now: Stamp,
        command: &Value,
        source: &Source,
    ) -> Result<u64, Refusal> {
        let run = self.queued(ix, "runId", command)?;
        let before = match command.get("beforeRunId").and_then(Value::as_str) {
            Some(_) => Some(self.queued(ix, "beforeRunId", command)?.ordinal),
            None => None,
        };
        let Some(thread) = self.threads.get(ix) else {
            return Ok(self.head());
        };
        let mut order: Vec<u64> = thread
            .queue()
            .into_iter()
            .filter(|ordinal| *ordinal != run.ordinal)
            .collect();
        let place = before
            .and_then(|before| order.iter().position(|ordinal| *ordinal == before))
            .unwrap_or(order.len());
        order.insert(place, run.ordinal);
        let mut last = self.head();
        for (position, ordinal) in (1..).zip(order) {
            last = self.change_run(ix, now, ordinal, source, |run| run.queue_position = Some(position));
        }
        Ok(last)
    }

    /// The queue moves no more by itself; tells the last sequence, if a run waits.
    pub(crate) fn hold_queue(&mut self, ix: usize, now: Stamp, source: &Source) -> Option<u64> {
        let thread = self.threads.get_mut(ix)?;
        let queue = thread.queue();
        thread.held = !queue.is_empty();
        let mut last = None;
        for ordinal in queue {
            last = Some(self.change_run(ix, now, ordinal, source, |run| run.queue_held = Some(true)));
        }
        last
    }

    pub(crate) fn resume_queue(
        &mut self,
        ix: usize,
        now: Stamp,
        command: &Value,
        source: &Source,
    ) -> Result<u64, Refusal> {
        let Some(thread) = self.threads.get_mut(ix) else {
            return Ok(self.head());
        };
        if !thread.held {
            let words = format!("Thread {} has no held queue.", thread.app.id);
            return Err(Refusal::dispatch(command, words));
        }
        thread.held = false;
        let queue = thread.queue();
        let mut last = self.head();
        for ordinal in queue {
            last = self.change_run(ix, now, ordinal, source, |run| run.queue_held = None);
        }
        self.next_in_queue(ix, now);
        Ok(last)
    }
}
