//! The agent's tools: begun, run, ended. Nothing is really run.

use super::agent::{OpenTool, Script};
use super::entities::{ChangedFile, NativeRef, Node, Run, Turn};
use super::events::Source;
use super::items::ItemBody;
use super::stamp::Stamp;
use super::turns::{agent_node, of_turn};
use super::{Model, names};

impl Model {
    pub(crate) fn current_turn(&self, ix: usize) -> Option<Turn> {
        let thread = self.threads.get(ix)?;
        let id = thread.work.as_ref()?.turn.as_deref()?;
        thread.turns.iter().find(|turn| turn.id == id).cloned()
    }

    fn tool_ids(&self, ix: usize, driver: &str, native: &str) -> (String, String) {
        let thread = self
            .threads
            .get(ix)
            .map(|thread| thread.native.as_str())
            .unwrap_or_default();
        let name = format!("{thread}:tool:{native}");
        (
            names::native_item("node", driver, &name),
            names::native_item("turn-item", driver, &name),
        )
    }

    /// How many lines the tool adds, if it edits.
    fn edited_lines(&self, ix: usize) -> Option<u64> {
        let work = self.threads.get(ix)?.work.as_ref()?;
        match work.script {
            Script::Edit { lines, .. } => Some(lines),
            _ => None,
        }
    }

    fn is_edit(&self, ix: usize) -> bool {
        self.threads
            .get(ix)
            .and_then(|thread| thread.work.as_ref())
            .is_some_and(|work| matches!(work.script, Script::Edit { .. }))
    }

    /// The agent begins a tool call; tells the provider's name for it.
    pub(crate) fn open_tool(&mut self, ix: usize, now: Stamp, run: &Run, subject: &str) -> String {
        let Some(turn) = self.current_turn(ix) else {
            return String::new();
        };
        let driver = self.driver(&run.provider_instance_id);
        let edit = self.is_edit(ix);
        let Some(thread) = self.threads.get_mut(ix) else {
            return String::new();
        };
        thread.tools += 1;
        let native = format!("fake-tool-{}", thread.tools);
        if let Some(work) = thread.work.as_mut() {
            work.tools.push(OpenTool {
                native: native.clone(),
                subject: subject.to_owned(),
                request: None,
                heard: None,
                done: false,
            });
        }
        let native_ref = NativeRef {
            driver: driver.clone(),
            native_id: native.clone(),
            strength: "strong",
        };
        let (node_id, item_id) = self.tool_ids(ix, &driver, &native);
        let node = Node {
            native_item_ref: Some(native_ref.clone()),
            ..agent_node(run, &turn, node_id.clone(), "tool_call", "running", now, None)
        };
        self.log_node(ix, now, &Source::Session, true, node);
        let mut item = self.item(ix, now, run, item_id, "pending");
        of_turn(&mut item, &node_id, &turn, native_ref);
        item.title = Some(if edit { "Changed files" } else { "Ran command" }.to_owned());
        item.body = if edit {
            ItemBody::FileChange {
                file_name: subject.to_owned(),
            }
        } else {
            ItemBody::CommandExecution {
                input: subject.to_owned(),
                output: None,
                exit_code: None,
            }
        };
        self.log_item(ix, now, &Source::Session, true, item);
        native
    }

    /// Logs a new status of a tool; `told` with what came of it.
    pub(crate) fn mark_tool(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        native: &str,
        status: &'static str,
        told: bool,
    ) {
        let driver = self.driver(&run.provider_instance_id);
        let (node_id, item_id) = self.tool_ids(ix, &driver, native);
        let Some(thread) = self.threads.get(ix) else {
            return;
        };
        let node = thread.nodes.iter().find(|node| node.id == node_id).cloned();
        let item = thread.items.iter().find(|item| item.id == item_id).cloned();
        let (Some(mut node), Some(mut item)) = (node, item) else {
            return;
        };
        let ended = status != "running";
        node.status = status;
        node.completed_at = ended.then_some(now);
        item.status = status;
        item.completed_at = ended.then_some(now);
        item.updated_at = now;
        if told
            && let ItemBody::CommandExecution {
                input,
                output,
                exit_code,
            } = &mut item.body
        {
            item.title = Some(input.clone());
            *output = Some("tool output");
            *exit_code = Some(0);
        }
        self.log_node(ix, now, &Source::Session, true, node);
        self.log_item(ix, now, &Source::Session, true, item);
        if ended
            && let Some(tool) = self
                .work_mut(ix)
                .and_then(|work| work.tools.iter_mut().find(|tool| tool.native == native))
        {
            tool.done = true;
        }
    }

    /// A tool runs and ends, or is not run at all.
    pub(crate) fn finish_tool(&mut self, ix: usize, now: Stamp, run: &Run, native: &str, allowed: bool) {
        if !allowed {
            self.mark_tool(ix, now, run, native, "failed", false);
            return;
        }
        self.mark_tool(ix, now, run, native, "running", false);
        self.mark_tool(ix, now, run, native, "completed", true);
        if let Some(additions) = self.edited_lines(ix) {
            let Some(thread) = self.threads.get_mut(ix) else {
                return;
            };
            let Some(path) = thread
                .work
                .as_ref()
                .and_then(|work| work.tools.iter().find(|tool| tool.native == native))
                .map(|tool| tool.subject.clone())
            else {
                return;
            };
            thread.changed.push(ChangedFile {
                path,
                kind: "modified",
                additions,
                deletions: 0,
            });
        }
    }
}
