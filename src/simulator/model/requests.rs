//! Tools, approvals and questions: what the agent asks, what a client answers, and how an answer that fits not wedges the run.

use serde_json::{Value, json};

use super::agent::{OpenTool, Script, form, heard, option_of, outcome, questions};
use super::commands::Refusal;
use super::dispatch::{Beginning, NewMessage};
use super::entities::{NativeRef, Node, Request, RequestStatus, ResponseCapability, Run, RunStatus, Turn};
use super::events::Source;
use super::items::{ApprovalOption, ItemBody};
use super::names;
use super::stamp::Stamp;
use super::turns::{TurnEnd, agent_node, of_turn};
use super::{Model, Next, text};

/// So many questions outlive their run.
pub(crate) const LATER_QUESTIONS: usize = 1;

/// The decisions that newer servers name with every approval.
fn approval_options() -> Vec<ApprovalOption> {
    [
        ("accept", "Allow once"),
        ("acceptForSession", "Allow for this session"),
        ("acceptAlways", "Always allow"),
        ("decline", "Deny"),
        ("cancel", "Stop the run"),
    ]
    .map(|(decision, label)| ApprovalOption { decision, label })
    .to_vec()
}

impl Model {
    /// The agent asks before a tool.
    pub(crate) fn ask_approval(&mut self, ix: usize, now: Stamp, run: &Run, native: &str, kind: &'static str) {
        let unique = self.uuids.next();
        let Some(turn) = self.current_turn(ix) else {
            return;
        };
        let driver = self.driver(&run.provider_instance_id);
        let request_id = names::runtime_request(&driver, &turn.id, native, unique);
        let node_id = format!("node:runtime-request:{}", names::encode(&request_id));
        let item_id = format!("turn-item:runtime-request:{}", names::encode(&request_id));
        let prompt = self
            .work_mut(ix)
            .and_then(|work| work.tools.iter_mut().find(|tool| tool.native == native))
            .map(|tool| {
                tool.request = Some(request_id.clone());
                tool.subject.clone()
            })
            .unwrap_or_default();
        let body = ItemBody::ApprovalRequest {
            request_id: request_id.clone(),
            request_kind: kind,
            prompt: if kind == "file-change" {
                "Changed files".to_owned()
            } else {
                prompt
            },
            options: self.options.newer.then(approval_options),
        };
        let native_ref = NativeRef {
            driver,
            native_id: native.to_owned(),
            strength: "weak",
        };
        self.ask(
            ix,
            now,
            run,
            &turn,
            "approval_request",
            kind,
            [request_id, node_id, item_id],
            [native_ref.clone(), native_ref],
            Some(body),
            false,
        );
    }

    /// The agent asks its questions, and waits for the answers or, where they outlive its run, does not.
    pub(crate) fn ask_questions(&mut self, ix: usize, now: Stamp, run: &Run, asked: Vec<Value>, outlives: bool) {
        let unique = self.uuids.next();
        let Some(turn) = self.current_turn(ix) else {
            return;
        };
        let driver = self.driver(&run.provider_instance_id);
        let Some(thread) = self.threads.get_mut(ix) else {
            return;
        };
        thread.asks += 1;
        let native = format!("fake-ask-{}", thread.asks);
        let item_native = format!("{}:xai-question:{native}", thread.native);
        let request_id = names::runtime_request(&driver, &turn.id, &native, unique);
        if let Some(work) = thread.work.as_mut().filter(|_| !outlives) {
            work.question = Some(request_id.clone());
        }
        let weak = |native_id: String| NativeRef {
            driver: driver.clone(),
            native_id,
            strength: "weak",
        };
        let ids = [
            request_id.clone(),
            names::native_item("node", &driver, &item_native),
            names::native_item("turn-item", &driver, &item_native),
        ];
        let body = ItemBody::UserInputRequest {
            request_id,
            questions: Value::Array(asked),
        };
        let refs = [weak(native), weak(item_native)];
        let node_kind = "user_input_request";
        self.ask(
            ix,
            now,
            run,
            &turn,
            node_kind,
            "user_input",
            ids,
            refs,
            Some(body),
            outlives,
        );
    }

    /// The agent's own login has ended: there is no text to it, and the run waits until it is interrupted.
    pub(crate) fn ask_login(&mut self, ix: usize, now: Stamp, run: &Run) {
        let unique = self.uuids.next();
        let Some(turn) = self.current_turn(ix) else {
            return;
        };
        let driver = self.driver(&run.provider_instance_id);
        let native_ref = NativeRef {
            driver: driver.clone(),
            native_id: "fake-login".to_owned(),
            strength: "weak",
        };
        let request_id = names::runtime_request(&driver, &turn.id, &native_ref.native_id, unique);
        let node_id = format!("node:runtime-request:{}", names::encode(&request_id));
        let ids = [request_id, node_id, String::new()];
        let refs = [native_ref.clone(), native_ref];
        self.ask(
            ix,
            now,
            run,
            &turn,
            "approval_request",
            "auth_refresh",
            ids,
            refs,
            None,
            false,
        );
    }

    /// Logs a request: its node, itself, its text. `ids` are those of request, node and item, `refs` the provider's names of request and item.
    #[expect(clippy::too_many_arguments, reason = "a request is told with all its circumstances")]
    fn ask(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        turn: &Turn,
        node_kind: &'static str,
        kind: &'static str,
        ids: [String; 3],
        refs: [NativeRef; 2],
        body: Option<ItemBody>,
        outlives: bool,
    ) {
        let [request_id, node_id, item_id] = ids;
        let [request_ref, item_ref] = refs;
        let session = self
            .threads
            .get(ix)
            .and_then(|thread| thread.session_id.clone())
            .unwrap_or_default();
        let node = Node {
            native_item_ref: Some(item_ref.clone()),
            runtime_request_id: Some(request_id.clone()),
            ..agent_node(run, turn, node_id.clone(), node_kind, "waiting", now, None)
        };
        self.log_node(ix, now, &Source::Session, true, node);
        let request = Request {
            id: request_id,
            node_id: node_id.clone(),
            provider_turn_id: turn.id.clone(),
            native_request_ref: request_ref,
            kind,
            status: RequestStatus::Pending,
            response_capability: if outlives {
                ResponseCapability::Message
            } else {
                ResponseCapability::Live {
                    provider_session_id: session,
                }
            },
            created_at: now,
            resolved_at: None,
            run: run.ordinal,
        };
        self.log_request(ix, now, &Source::Session, &run.id, request);
        if let Some(body) = body {
            let mut item = self.item(ix, now, run, item_id, "waiting");
            of_turn(&mut item, &node_id, turn, item_ref);
            item.body = body;
            self.log_item(ix, now, &Source::Session, true, item);
        }
    }

    /// Closes a request with its node and item.
    pub(crate) fn close_request(
        &mut self,
        ix: usize,
        now: Stamp,
        id: &str,
        status: RequestStatus,
        item_status: &'static str,
        source: &Source,
    ) -> u64 {
        let Some(thread) = self.threads.get(ix) else {
            return self.head();
        };
        let Some(mut request) = thread.requests.iter().find(|request| request.id == id).cloned() else {
            return self.head();
        };
        let node = thread.nodes.iter().find(|node| node.id == request.node_id).cloned();
        let item = thread
            .items
            .iter()
            .find(|item| item.node_id == request.node_id)
            .cloned();
        let run = thread
            .by_ordinal(request.run)
            .map(|run| run.id.clone())
            .unwrap_or_default();
        request.status = status;
        request.resolved_at = Some(now);
        if status == RequestStatus::Expired {
            request.response_capability = ResponseCapability::NotResumable {
                reason: "The server restarted before this runtime request was resolved.",
            };
        }
        let mut last = self.log_request(ix, now, source, &run, request);
        if let Some(mut node) = node {
            node.status = item_status;
            node.completed_at = Some(now);
            last = self.log_node(ix, now, source, true, node);
        }
        if let Some(mut item) = item {
            item.status = item_status;
            item.completed_at = Some(now);
            item.updated_at = now;
            last = self.log_item(ix, now, source, true, item);
        }
        last
    }

    /// Whatever the run still asks, or was never told the answer of, is withdrawn.
    pub(crate) fn withdraw_requests(&mut self, ix: usize, now: Stamp, run: &Run) {
        let Some(thread) = self.threads.get(ix) else {
            return;
        };
        let unheard = |id: &str| {
            thread.work.as_ref().is_some_and(|work| {
                work.question.as_deref() == Some(id)
                    || work
                        .tools
                        .iter()
                        .any(|tool| tool.request.as_deref() == Some(id) && tool.heard.is_none())
            })
        };
        let open: Vec<String> = thread
            .requests
            .iter()
            .filter(|request| request.run == run.ordinal)
            .filter(|request| request.is_open_in_its_run() || unheard(&request.id))
            .map(|request| request.id.clone())
            .collect();
        for id in open {
            self.close_request(ix, now, &id, RequestStatus::Cancelled, "cancelled", &Source::Session);
        }
    }

    pub(crate) fn respond(&mut self, ix: usize, now: Stamp, command: &Value, source: &Source) -> Result<u64, Refusal> {
        let id = text(command, "requestId");
        let decision = command.get("decision").and_then(Value::as_str);
        let answers = command.get("answers").filter(|answers| answers.is_object());
        let request = self.pending_request(ix, id, command)?;
        let question = request.kind == "user_input";
        // The words of the item follow the decision alone, whatever it was sent for.
        let item_status = match decision {
            Some("decline" | "cancel") => "cancelled",
            Some(_) | None => "completed",
        };
        let last = self.close_request(ix, now, id, RequestStatus::Resolved, item_status, source);
        if matches!(request.response_capability, ResponseCapability::Message) {
            let Some(answers) = answers else {
                return Ok(last);
            };
            let text = heard(&questions(LATER_QUESTIONS), answers);
            return Ok(self.answer_by_message(ix, now, id, text, source));
        }
        let inside = self
            .threads
            .get(ix)
            .and_then(|thread| self.options.provider(&thread.app.provider_instance_id))
            .is_some_and(|provider| provider.steers_inside);
        let mut told = false;
        if let Some(work) = self.work_mut(ix) {
            if question {
                // Any decision cancels a question, but only with an agent that listens for it.
                let said = match (decision, answers) {
                    (Some(_), _) if !inside => Some("question cancelled".to_owned()),
                    (_, Some(answers)) => Some(match &work.script {
                        Script::Ask(count) => heard(&questions(*count), answers),
                        Script::AskForm => heard(&form(), answers),
                        _ => String::new(),
                    }),
                    (_, None) => None,
                };
                if let Some(said) = said {
                    work.question = None;
                    work.partial = Some((said, now));
                    told = true;
                }
            } else if let Some(decision) = decision
                && let Some(tool) = work.tools.iter_mut().find(|tool| tool.request.as_deref() == Some(id))
            {
                tool.heard = Some(option_of(decision).unwrap_or("cancelled"));
                told = true;
            }
        }
        // Without the right field the agent is never told: the run hangs until it is interrupted.
        if told {
            self.set_timer(ix, now.after(self.options.timing.act), Next::Hear);
        }
        Ok(last)
    }

    /// The answer to a question that outlived its run is a message: it starts a run, or queues one.
    fn answer_by_message(&mut self, ix: usize, now: Stamp, id: &str, text: String, source: &Source) -> u64 {
        let message = NewMessage {
            id: format!("message:{}:answer", names::encode(id)),
            text,
            attachments: json!([]),
            creation_source: "web".to_owned(),
            continues: None,
        };
        let busy = self
            .threads
            .get(ix)
            .is_some_and(|thread| thread.active().is_some() || !thread.queue().is_empty());
        let beginning = if busy { Beginning::Queue } else { Beginning::Start };
        self.add_run(ix, now, &message, beginning, source)
    }

    /// Newer servers close a question without an answer.
    pub(crate) fn dismiss(&mut self, ix: usize, now: Stamp, command: &Value, source: &Source) -> Result<u64, Refusal> {
        let id = text(command, "requestId");
        self.pending_request(ix, id, command)?;
        let last = self.close_request(ix, now, id, RequestStatus::Cancelled, "cancelled", source);
        if let Some(work) = self.work_mut(ix).filter(|work| work.question.as_deref() == Some(id)) {
            work.question = None;
            work.partial = Some(("question cancelled".to_owned(), now));
            self.set_timer(ix, now.after(self.options.timing.act), Next::Hear);
        }
        Ok(last)
    }

    fn pending_request(&self, ix: usize, id: &str, command: &Value) -> Result<Request, Refusal> {
        let request = self
            .threads
            .get(ix)
            .and_then(|thread| thread.requests.iter().find(|request| request.id == id));
        match request {
            None => Err(Refusal::dispatch(
                command,
                format!("Runtime request {id} was not found."),
            )),
            Some(request) if request.status != RequestStatus::Pending => {
                let words = format!("Runtime request {id} is {}.", request.status.as_str());
                Err(Refusal::dispatch(command, words))
            }
            Some(request) => Ok(request.clone()),
        }
    }

    /// The agent hears what was decided, and goes on when it has heard everything that it asked.
    pub(crate) fn hear(&mut self, ix: usize, now: Stamp) {
        // An answer may come to a turn that an earlier answer has ended.
        let Some(run) = self.working_run(ix).filter(|run| run.status == RunStatus::Running) else {
            return;
        };
        let Some(work) = self.work_mut(ix) else {
            return;
        };
        if work.partial.is_some() {
            self.flush_partial(ix, now, &run);
            self.end_turn(ix, now, &run, TurnEnd::Completed);
            return;
        }
        let several = work.tools.len() > 1;
        let asked: Vec<OpenTool> = work.tools.clone();
        for tool in asked.iter().filter(|tool| !tool.done) {
            match tool.heard {
                // With several at once the recorded agent only closes them, it shows no output.
                Some(option) if several && option != "cancelled" => {
                    self.close_one_of_several(ix, now, &run, tool, option);
                }
                Some(option) => self.finish_tool(ix, now, &run, &tool.native, option.starts_with("allow")),
                None => {}
            }
        }
        if asked.iter().any(|tool| tool.heard == Some("cancelled")) {
            self.end_turn(ix, now, &run, TurnEnd::Cancelled);
            return;
        }
        if asked.iter().any(|tool| tool.heard.is_none()) {
            return;
        }
        let said = if several {
            let parts: Vec<String> = asked
                .iter()
                .map(|tool| format!("{} -> {}", tool.subject, outcome(tool.heard.unwrap_or_default())))
                .collect();
            parts.join("; ")
        } else {
            let option = asked.first().and_then(|tool| tool.heard).unwrap_or_default();
            format!("permission: {}", outcome(option))
        };
        self.say_and_end(ix, now, &run, said, TurnEnd::Completed);
    }

    fn close_one_of_several(&mut self, ix: usize, now: Stamp, run: &Run, tool: &OpenTool, option: &str) {
        let status = if option.starts_with("allow") {
            "completed"
        } else {
            "failed"
        };
        self.mark_tool(ix, now, run, &tool.native, status, false);
    }
}
