//! Cuts a view to the size that clients take. Pure.
//!
//! What says least goes first: old tool calls, old messages, files, plan, queue and background; then the texts of pending requests are
//! shortened; the final message is kept longest. `truncated` says what was cut.

use serde::Serialize;

use crate::gateway::text;
use crate::gateway::view::{PendingView, ThreadView, TruncatedView};

/// How many characters an answer may have, as JSON and as text.
pub const ANSWER_CHARS: usize = 24_000;

/// How many of them are left for views: an answer says a few things besides, its text in a sentence of its own.
pub(super) const VIEWS_CHARS: usize = ANSWER_CHARS - 400;

/// A text of several lines stands in lines of its own: what that takes besides its lines.
const BLOCK_CHARS: usize = 5;

/// What `truncated` itself takes at most.
const TRUNCATED_CHARS: usize = 240;

/// The share of the final message that stays until everything else was cut.
const FINAL_CHARS: usize = 16_000;

/// How long texts may be where there is too much: tool titles, plan steps, paths, descriptions.
const SHORT: usize = 200;

/// Ever smaller caps for texts that are needed, until all fits.
const CAPS: [usize; 5] = [2_000, 600, 200, 60, 16];

/// Cuts the view until it takes at most `budget` characters.
pub(super) fn fit(view: &mut ThreadView, budget: usize) {
    fit_at(view, budget, 0);
}

/// The same for a view that stands `depth` deep in its answer.
fn fit_at(view: &mut ThreadView, budget: usize, depth: usize) {
    if size_at(view, depth) <= budget {
        return;
    }
    let mut cutter = Cutter {
        view,
        // What was cut is said in the view itself; where there is little room, little of it can have been cut.
        budget: budget.saturating_sub(TRUNCATED_CHARS.min(budget / 4)),
        depth,
        cut: TruncatedView::default(),
    };
    cutter.tools();
    cutter.messages();
    cutter.lists();
    cutter.final_message(FINAL_CHARS);
    for cap in CAPS {
        cutter.needed(cap);
    }
    cutter.final_message(0);
    cutter.heads();
    cutter.last();
    let cut = cutter.cut;
    view.truncated = (cut != TruncatedView::default()).then_some(cut);
}

/// Cuts several views so that together they have at most `budget` characters. What the small ones leave goes to the large ones.
pub(super) fn share(views: &mut [ThreadView], budget: usize) {
    let mut order: Vec<(usize, usize)> = views
        .iter()
        .enumerate()
        .map(|(at, view)| (size_at(view, 1) + 1, at))
        .collect();
    order.sort_unstable();
    let mut left = budget;
    for (place, (_, at)) in order.iter().enumerate() {
        let each = left / (order.len() - place);
        if let Some(view) = views.get_mut(*at) {
            fit_at(view, each.saturating_sub(1), 1);
            left = left.saturating_sub(size_at(view, 1) + 1);
        }
    }
}

/// How many characters a value takes at most, be it as JSON or as text.
pub(super) fn size<T: Serialize>(value: &T) -> usize {
    size_at(value, 0)
}

/// The same for an entry of an answer's list, with what separates it from the next.
pub(super) fn size_in_list<T: Serialize>(value: &T) -> usize {
    size_at(value, 1) + 1
}

/// The same for a value that stands `depth` deep: as text each of its facts has a line, indented.
fn size_at<T: Serialize>(value: &T, depth: usize) -> usize {
    serde_json::to_string(value).map_or(0, |json| written_size(&json, depth))
}

/// For each sign of the JSON the larger of what it takes there and what stands for it in the text, so that sizes add up.
fn written_size(json: &str, depth: usize) -> usize {
    let (mut size, mut open, mut in_text, mut lines) = (0, 0usize, false, false);
    let mut chars = json.chars();
    while let Some(c) = chars.next() {
        size += match (in_text, c) {
            (true, '\\') => match chars.next() {
                Some('n') if lines => text::LINE_CHARS,
                Some('n') => {
                    lines = true;
                    text::LINE_CHARS + BLOCK_CHARS
                }
                Some(_) | None => 2,
            },
            (_, '"') => {
                (in_text, lines) = (!in_text, false);
                1
            }
            (false, ':') => indent(open.saturating_sub(1) + depth).max(1),
            (false, '{') => {
                open += 1;
                1
            }
            (false, '}') => {
                open = open.saturating_sub(1);
                1
            }
            (_, _) => 1,
        };
    }
    size
}

/// What the text indents a fact by.
fn indent(depth: usize) -> usize {
    2 * depth
}

struct Cutter<'a> {
    view: &'a mut ThreadView,
    budget: usize,
    depth: usize,
    cut: TruncatedView,
}

impl Cutter<'_> {
    /// How many characters are too many.
    fn excess(&self) -> usize {
        size_at(self.view, self.depth).saturating_sub(self.budget)
    }

    fn tools(&mut self) {
        if self.excess() == 0 {
            return;
        }
        let mut shortened = 0;
        for tool in &mut self.view.tools {
            shortened += shorten(&mut tool.title, SHORT);
        }
        add(&mut self.cut.other, shortened);
        let excess = self.excess();
        add(&mut self.cut.tools, drop_first(&mut self.view.tools, excess));
    }

    /// Earlier messages than the final one: first shortened, oldest first, then left out.
    fn messages(&mut self) {
        let last = final_message(self.view);
        for cap in [2_000, 400] {
            for at in 0..self.view.messages.len() {
                if self.excess() == 0 {
                    return;
                }
                if Some(at) != last
                    && let Some(message) = self.view.messages.get_mut(at)
                {
                    add(&mut self.cut.messages, shorten(&mut message.text, cap));
                }
            }
        }
        let excess = self.excess();
        if excess == 0 {
            return;
        }
        // What came before the report goes first, oldest first, then what came after it.
        let mut report = last.map_or_else(Vec::new, |at| self.view.messages.split_off(at));
        let after = report.split_off(report.len().min(1));
        let mut dropped = drop_first(&mut self.view.messages, excess);
        self.view.messages.extend(report);
        let kept_before = self.view.messages.len();
        self.view.messages.extend(after);
        let excess = self.excess();
        if excess > 0 {
            dropped += self.view.messages.len() - kept_before;
            self.view.messages.truncate(kept_before);
        }
        add(&mut self.cut.messages, dropped);
    }

    fn lists(&mut self) {
        let excess = self.excess();
        add(&mut self.cut.files, drop_last(&mut self.view.files, excess));
        let excess = self.excess();
        add(&mut self.cut.plan, drop_last(&mut self.view.plan, excess));
        let excess = self.excess();
        add(&mut self.cut.queue, drop_last(&mut self.view.queue, excess));
        let excess = self.excess();
        add(&mut self.cut.background, drop_last(&mut self.view.background, excess));
        if self.excess() > 0 && self.view.usage.take().is_some() {
            add(&mut self.cut.other, 1);
        }
    }

    /// The report keeps its beginning, and at least `keep` characters.
    fn final_message(&mut self, keep: usize) {
        let excess = self.excess();
        let Some(message) = final_message(self.view).and_then(|at| self.view.messages.get_mut(at)) else {
            return;
        };
        if excess == 0 {
            return;
        }
        let before = message.text.chars().count();
        let room = size(&message.text).saturating_sub(excess + 3 + BLOCK_CHARS).max(keep);
        let kept = text::written_head(&message.text, room);
        if kept.len() == message.text.len() {
            return;
        }
        let cut = before - kept.chars().count();
        message.text = format!("{kept}…");
        add(&mut self.cut.final_message_chars, cut);
    }

    /// Texts that a caller needs to act: what is asked, why it failed, what the thread is called.
    fn needed(&mut self, cap: usize) {
        if self.excess() == 0 {
            return;
        }
        let mut shortened = 0;
        for request in &mut self.view.pending {
            shortened += shorten_pending(request, cap);
        }
        add(&mut self.cut.pending, shortened);
        let mut other = shorten(&mut self.view.title, cap) + shorten(&mut self.view.project, cap);
        if let Some(error) = &mut self.view.error {
            other += shorten(&mut error.message, cap) + shorten(&mut error.class, cap);
        }
        for text in [&mut self.view.session, &mut self.view.branch, &mut self.view.worktree] {
            other += text.as_mut().map_or(0, |text| shorten(text, cap));
        }
        add(&mut self.cut.other, other);
    }

    /// The last resort, where several views share one answer: requests beyond the first, then everything that is not needed to go on.
    fn heads(&mut self) {
        let excess = self.excess();
        add(&mut self.cut.pending, drop_last_but_one(&mut self.view.pending, excess));
        if self.excess() == 0 {
            return;
        }
        let report = std::mem::take(&mut self.view.messages).len();
        add(&mut self.cut.messages, report);
        if self.excess() == 0 {
            return;
        }
        for text in [
            &mut self.view.session,
            &mut self.view.branch,
            &mut self.view.worktree,
            &mut self.view.resumes_at,
        ] {
            *text = None;
        }
        for request in &mut self.view.pending {
            let questions = std::mem::take(&mut request.questions).len();
            add(&mut self.cut.pending, questions);
        }
        add(&mut self.cut.other, 1);
    }

    /// Where even that is too much, a thread keeps what names it and its run, and how it stands.
    fn last(&mut self) {
        if self.excess() == 0 {
            return;
        }
        if let Some(run) = &mut self.view.run {
            run.requested_at.clear();
            (run.started_at, run.completed_at, run.seconds) = (None, None, None);
        }
        for text in [
            &mut self.view.model,
            &mut self.view.runtime_mode,
            &mut self.view.last_activity_at,
        ] {
            text.clear();
        }
        add(&mut self.cut.other, 1);
        if self.excess() == 0 {
            return;
        }
        let requests = std::mem::take(&mut self.view.pending).len();
        add(&mut self.cut.pending, requests);
        if self.excess() == 0 {
            return;
        }
        self.view.title.clear();
        self.view.project.clear();
    }
}

/// The report: the last message of an agent, else the last one.
fn final_message(view: &ThreadView) -> Option<usize> {
    view.messages
        .iter()
        .rposition(|message| message.role == "assistant")
        .or_else(|| view.messages.len().checked_sub(1))
}

fn shorten_pending(request: &mut PendingView, cap: usize) -> usize {
    let mut shortened = 0;
    for question in &mut request.questions {
        shortened += shorten(&mut question.header, cap) + shorten(&mut question.question, cap);
        for option in &mut question.options {
            // Labels are what has to be answered: they stay whole while anything else can give way.
            shortened += shorten(&mut option.description, cap);
        }
    }
    if let Some(approval) = &mut request.approval {
        for text in [&mut approval.title, &mut approval.detail] {
            shortened += text.as_mut().map_or(0, |text| shorten(text, cap));
        }
    }
    shortened
}

fn shorten(text: &mut String, cap: usize) -> usize {
    if text.chars().nth(cap).is_none() {
        return 0;
    }
    *text = text::cut(text, cap);
    1
}

fn add(counter: &mut Option<usize>, more: usize) {
    if more > 0 {
        *counter = Some(counter.unwrap_or(0) + more);
    }
}

/// Drops from the front until `excess` characters are gone.
fn drop_first<T: Serialize>(list: &mut Vec<T>, excess: usize) -> usize {
    let count = how_many(list.iter(), excess);
    list.drain(..count);
    count
}

/// Drops from the end until `excess` characters are gone.
fn drop_last<T: Serialize>(list: &mut Vec<T>, excess: usize) -> usize {
    let count = how_many(list.iter().rev(), excess);
    list.truncate(list.len() - count);
    count
}

fn drop_last_but_one<T: Serialize>(list: &mut Vec<T>, excess: usize) -> usize {
    let count = how_many(list.iter().skip(1).rev(), excess);
    list.truncate(list.len() - count);
    count
}

fn how_many<'a, T: Serialize + 'a>(entries: impl Iterator<Item = &'a T>, excess: usize) -> usize {
    let mut gone = 0;
    let mut count = 0;
    for entry in entries {
        if gone >= excess {
            break;
        }
        gone += size(entry) + 1;
        count += 1;
    }
    count
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
