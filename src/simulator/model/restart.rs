//! A restart of the server: every thread that had a provider session hears of it, and what ran, waited or asked is over.

use serde_json::json;

use super::Model;
use super::dispatch::{Beginning, NewMessage};
use super::entities::{RequestStatus, Run, RunStatus};
use super::events::{Place, Source};
use super::names;
use super::stamp::Stamp;

impl Model {
    /// The server comes up again with the database that it had.
    pub(crate) fn handle_restart(&mut self, now: Stamp) {
        self.timers.clear();
        for ix in 0..self.threads.len() {
            self.drop_timers(ix);
            let cut = self.end_open_work(ix, now);
            self.stop_session(ix, now);
            self.keep_title(ix, now);
            if let Some(run) = cut.filter(|_| self.options.continues_after_restart) {
                self.go_on(ix, now, &run);
            }
        }
    }

    /// Ends what was open, and tells the run that was cut off at work.
    fn end_open_work(&mut self, ix: usize, now: Stamp) -> Option<Run> {
        let thread = self.threads.get(ix)?;
        let pending: Vec<String> = thread
            .requests
            .iter()
            .filter(|request| request.is_open_in_its_run())
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
        let cut = open.iter().find(|run| run.status == RunStatus::Running).cloned();
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
        self.end_all_background(ix, now);
        cut
    }

    /// No background command outlives its server.
    fn end_all_background(&mut self, ix: usize, now: Stamp) {
        let had = self
            .threads
            .get_mut(ix)
            .map(|thread| std::mem::take(&mut thread.background));
        if had.is_some_and(|had| !had.is_empty()) {
            self.log_provider_thread(ix, now, &Source::Server, Place::default(), |it| {
                it.pending_background_tasks.clear();
            });
        }
    }

    /// Newer servers may go on with a run that they cut off, in another.
    fn go_on(&mut self, ix: usize, now: Stamp, cut: &Run) {
        let message = NewMessage {
            id: format!("message:restart-continuation:{}", names::encode(&cut.id)),
            text: format!(
                "The server was restarted. Go on with this:\n{}",
                self.prompt_of(ix, cut)
            ),
            attachments: json!([]),
            creation_source: "server".to_owned(),
            continues: Some(cut.id.clone()),
        };
        self.add_run(ix, now, &message, Beginning::Start, &Source::Server);
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
