//! The checkpoint after a turn: what the workspace is like, and the end of a run that went well.

use std::fmt::Write as _;

use super::entities::{ChangedFile, Checkpoint, Run, RunStatus};
use super::events::{Place, Source};
use super::items::ItemBody;
use super::stamp::Stamp;
use super::{Model, names};

impl Model {
    /// The workspace as it is after the run.
    pub(crate) fn capture(&mut self, ix: usize, now: Stamp) {
        let Some(run) = self.working_run(ix) else {
            return;
        };
        let source = Source::checkpoint(&run.id);
        // What was there before the first run, and before this one, if no run that ended well has told it.
        let mut before = vec![0, run.ordinal.saturating_sub(1)];
        before.dedup();
        for ordinal in before {
            let known = self.threads.get(ix).is_some_and(|thread| {
                let same = |checkpoint: &Checkpoint| checkpoint.ordinal_within_scope == ordinal;
                thread.checkpoints.iter().any(same)
            });
            if !known {
                self.add_checkpoint(ix, now, &run, ordinal, false, Vec::new(), &source);
            }
        }
        let files = self
            .threads
            .get(ix)
            .map(|thread| thread.changed.clone())
            .unwrap_or_default();
        let checkpoint = self.add_checkpoint(ix, now, &run, run.ordinal, true, files.clone(), &source);
        let driver = self.driver(&run.provider_instance_id);
        let id = names::native_item("turn-item", &driver, &format!("checkpoint:{checkpoint}"));
        let mut item = self.item(ix, now, &run, id, "completed");
        item.completed_at = Some(now);
        item.body = ItemBody::Checkpoint {
            checkpoint_id: checkpoint.clone(),
            scope_id: names::scope(&run.thread_id),
            files,
        };
        self.log_item(ix, now, &source, true, item);
        self.change_run(ix, now, run.ordinal, &source, |run| {
            run.status = RunStatus::Completed;
            run.completed_at = Some(now);
            run.checkpoint_id = Some(checkpoint);
        });
        self.change_root(ix, now, &run, &source, |node, _| {
            node.status = "completed";
            node.completed_at = Some(now);
        });
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.work = None;
        }
        self.next_in_queue(ix, now);
    }

    /// The diff between two turns' ends, as far as both were captured: of each changed file, lines without a meaning, as many as its numbers
    /// say.
    pub(crate) fn diff(&self, ix: usize, from: u64, to: u64) -> Option<String> {
        let thread = self.threads.get(ix)?;
        let completed = |checkpoint: &&Checkpoint| {
            let id = checkpoint.run_id.as_deref();
            let run = id.and_then(|id| thread.run(id));
            checkpoint.status == "ready" && run.is_some_and(|run| run.status == RunStatus::Completed)
        };
        let has = |turn: u64| {
            let mut all = thread.checkpoints.iter().filter(completed);
            turn == 0 || all.any(|checkpoint| checkpoint.app_run_ordinal == Some(turn))
        };
        if from > to || to == 0 || !has(from) || !has(to) {
            return None;
        }
        let mut diff = String::new();
        for checkpoint in thread.checkpoints.iter().filter(completed) {
            let Some(turn) = checkpoint.app_run_ordinal.filter(|turn| (from + 1..=to).contains(turn)) else {
                continue;
            };
            for file in &checkpoint.files {
                let path = &file.path;
                let _ = writeln!(diff, "diff --git a/{path} b/{path}\nindex 1111111..2222222 100644");
                let (deletions, additions) = (file.deletions, file.additions);
                let _ = writeln!(diff, "--- a/{path}\n+++ b/{path}\n@@ -1,{deletions} +1,{additions} @@");
                for line in 1..=deletions {
                    let _ = writeln!(diff, "-before turn {turn}, line {line}");
                }
                for line in 1..=additions {
                    let _ = writeln!(diff, "+by turn {turn}, line {line}");
                }
            }
        }
        Some(diff)
    }

    /// A worktree is part of a repository always.
    fn is_repository(&self, ix: usize) -> bool {
        let in_worktree = self
            .threads
            .get(ix)
            .is_some_and(|thread| thread.app.worktree_path.is_some());
        in_worktree || self.options.repositories.contains(&self.folder_of(ix))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a checkpoint is told with all its circumstances"
    )]
    fn add_checkpoint(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        ordinal: u64,
        of_run: bool,
        files: Vec<ChangedFile>,
        source: &Source,
    ) -> String {
        let scope = names::scope(&run.thread_id);
        let parent = of_run.then(|| names::checkpoint(&scope, ordinal.saturating_sub(1)));
        // What was there before is filed under the newest scope, which may be that of a queued run.
        let scoped = self
            .threads
            .get(ix)
            .and_then(|thread| thread.scope.as_ref())
            .filter(|_| !of_run)
            .map(|scope| (scope.node_id.clone(), scope.created_at));
        let (node_id, captured_at) = scoped.unwrap_or_else(|| (run.root_node_id.clone(), now));
        let checkpoint = Checkpoint {
            id: names::checkpoint(&scope, ordinal),
            thread_id: run.thread_id.clone(),
            run_id: of_run.then(|| run.id.clone()),
            node_id: node_id.clone(),
            parent_checkpoint_id: parent,
            ordinal_within_scope: ordinal,
            app_run_ordinal: of_run.then_some(ordinal),
            git_ref: format!(
                "refs/t3/orchestration-v2/checkpoints/{}/ordinal/{ordinal}",
                names::encode(&scope)
            ),
            scope_id: scope,
            status: if self.is_repository(ix) { "ready" } else { "missing" },
            files,
            captured_at,
        };
        let place = Place {
            run: of_run.then_some(run.id.as_str()),
            node: Some(&node_id),
            driver: true,
        };
        self.log_event(ix, now, source, "checkpoint.captured", place, &checkpoint);
        let id = checkpoint.id.clone();
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.checkpoints.push(checkpoint);
        }
        id
    }
}
