//! Interrupts: a run ends as soon as its agent has stopped, and the queue goes on.

use serde_json::Value;

use super::commands::Refusal;
use super::entities::{Run, RunStatus};
use super::events::Source;
use super::items::ItemBody;
use super::stamp::Stamp;
use super::{Model, Next, names, text};

impl Model {
    pub(crate) fn interrupt(
        &mut self,
        ix: usize,
        now: Stamp,
        command: &Value,
        source: &Source,
    ) -> Result<u64, Refusal> {
        let can_be = |run: &Run| run.status.is_interruptible();
        let run = self.named_run(ix, command, "runId", can_be, "is not interruptible.")?;
        let hold = command.get("holdQueue").and_then(Value::as_bool).unwrap_or(false);
        let mut item = self.item(
            ix,
            now,
            &run,
            names::signal_item(&run.id, "interrupt-request"),
            "completed",
        );
        let words = match text(command, "reason") {
            "" => "Interrupt requested",
            reason => reason,
        };
        item.provider_turn_id = self
            .threads
            .get(ix)
            .and_then(|thread| thread.work.as_ref())
            .and_then(|work| work.turn.clone());
        item.title = Some("Interrupt requested".to_owned());
        item.completed_at = Some(now);
        item.body = ItemBody::RunInterruptRequest {
            message: words.to_owned(),
        };
        let mut last = self.log_item(ix, now, source, false, item);
        if hold && self.options.newer {
            last = self.hold_queue(ix, now, source).unwrap_or(last);
        }
        self.drop_timers(ix);
        let waits_for_a_person = self.threads.get(ix).is_some_and(|thread| {
            thread
                .work
                .as_ref()
                .is_some_and(|work| work.question.is_some() || work.tools.iter().any(|tool| tool.request.is_some()))
        });
        let wait = if waits_for_a_person {
            self.options.timing.interrupt_pending
        } else {
            self.options.timing.interrupt
        };
        self.set_timer(ix, now.after(wait), Next::Stopped);
        Ok(last)
    }

    /// The agent has stopped.
    pub(crate) fn stopped(&mut self, ix: usize, now: Stamp) {
        let run = match self.working_run(ix) {
            Some(run) => Some(run),
            None => self.threads.get(ix).and_then(|thread| thread.active()).cloned(),
        };
        let Some(run) = run else {
            return;
        };
        self.close_turn(ix, now, "interrupted");
        self.end_run(ix, now, &run, RunStatus::Interrupted, &Source::Server);
        self.settle_provider_thread(ix, now);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.work = None;
        }
        self.next_in_queue(ix, now);
    }

    pub(crate) fn add_interrupt_result(&mut self, ix: usize, now: Stamp, run: &Run, source: &Source) {
        let mut item = self.item(
            ix,
            now,
            run,
            names::signal_item(&run.id, "interrupt-result"),
            "interrupted",
        );
        item.title = Some("Interrupted".to_owned());
        item.parent_item_id = Some(names::signal_item(&run.id, "interrupt-request"));
        item.completed_at = Some(now);
        item.body = ItemBody::RunInterruptResult {
            message: "Run interrupted by user",
        };
        self.log_item(ix, now, source, false, item);
    }
}
