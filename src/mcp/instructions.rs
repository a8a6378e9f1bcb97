//! What every client is told about the server at its start.

/// The instructions: the flow, what a prompt must hold, and what wakes the caller. Key facts first, since some clients cut them.
pub const TEXT: &str = "\
Runs coding agents on T3 Code machines and reports what came of it.

Flow: t3_machines -> t3_projects -> t3_dispatch (returns at once; t3_dispatch_many for several) -> t3_wait for the result, or end your turn and be \
told. t3_models lists other models than the default.
- t3_wait returns when the run has ended, or when it asks something. `still_running: true` is no failure: the work goes on; call t3_wait again \
with the same thread_id. Never dispatch the same work again because a wait ran out.
- Where the answer of t3_dispatch says `watch: true` and your host delivers T3 events to you, end your turn: the event wakes you. Notifications of \
this server wake nobody, so without such events call t3_wait, or t3_events with `wait` for everything at once; do not poll t3_thread. t3_watch has \
events of other threads reported too.
- t3_threads finds threads of before (by state, project or text), t3_diff shows what one changed.
- `pending` in an answer: the run waits for you. Answer with t3_answer (answers for a question, decision for an approval). What is not \
`answerable` must be answered in T3 itself: tell the user.

Prompts run unattended and start without any memory of this conversation, so each must be complete: what to change and where, what to check (commands, tests), \
what not to touch, and that it ends with a report of what was done and what was not. To go on in a thread, pass its thread_id; a busy thread refuses unless \
when_busy says queue, steer or restart; t3_queue shows and changes what waits. `held`: nothing moves until t3_queue resumes it.

A call that you repeat after a lost answer should carry the same request_id: it then never starts the work twice. Errors are one JSON object with code, \
message and hint: do what the hint says. `outcome_unknown` means that it may have happened: look before you repeat.";

#[cfg(test)]
mod tests {
    #[test]
    fn the_instructions_fit_into_what_clients_keep() {
        assert!(super::TEXT.chars().count() < crate::mcp::schema::DESCRIPTION_CHARS);
    }
}
