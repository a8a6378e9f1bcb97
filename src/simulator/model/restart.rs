//! A restart of the server: every thread that had a provider session hears of it, and what ran, waited or asked is over.

use super::Model;
use super::entities::{RequestStatus, Run, RunStatus};
use super::events::{Place, Source};
use super::stamp::Stamp;

impl Model {
    /// The server comes up again with the database that it had.
    pub(crate) fn handle_restart(&mut self, now: Stamp) {
        self.timers.clear();
        for ix in 0..self.threads.len() {
            self.drop_timers(ix);
            self.end_open_work(ix, now);
            self.stop_session(ix, now);
        }
    }

    fn end_open_work(&mut self, ix: usize, now: Stamp) {
        let Some(thread) = self.threads.get(ix) else {
            return;
        };
        let pending: Vec<String> = thread
            .requests
            .iter()
            .filter(|request| request.status == RequestStatus::Pending)
            .map(|request| request.id.clone())
            .collect();
        let open: Vec<Run> = thread
            .runs
            .iter()
            .filter(|run| run.status.is_active() || run.status == RunStatus::Queued)
            .cloned()
            .collect();
        let tools: Vec<String> = thread
            .work
            .as_ref()
            .map(|work| {
                work.tools
                    .iter()
                    .filter(|tool| !tool.done)
                    .map(|tool| tool.native.clone())
                    .collect()
            })
            .unwrap_or_default();
        for id in pending {
            self.close_request(ix, now, &id, RequestStatus::Expired, "cancelled", &Source::Server);
        }
        if let Some(run) = self.working_run(ix) {
            for native in tools {
                self.mark_tool(ix, now, &run, &native, "cancelled", false);
            }
            self.finish_provider_turn(ix, now, &run, "cancelled");
        }
        let had_active = open.iter().any(|run| run.status.is_active());
        for run in &open {
            if run.status == RunStatus::Queued && self.options.newer {
                self.hold_queue(ix, now, &Source::Server);
                continue;
            }
            self.end_run(ix, now, run, RunStatus::Cancelled, &Source::Server);
        }
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.work = None;
        }
        if had_active && self.threads.get(ix).is_some_and(|thread| thread.session.is_some()) {
            self.log_provider_thread(ix, now, &Source::Server, Place::default(), |it| it.status = "idle");
        }
    }

    fn stop_session(&mut self, ix: usize, now: Stamp) {
        let stopped = self
            .threads
            .get_mut(ix)
            .and_then(|thread| thread.session.as_mut())
            .filter(|session| session.status != "stopped")
            .map(|session| {
                session.status = "stopped";
                session.updated_at = now;
                session.clone()
            });
        if let Some(session) = stopped {
            self.log_session(ix, now, "provider-session.updated", &session);
        }
    }
}
