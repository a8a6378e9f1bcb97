//! The dialog that answers a request: one question after the other, or one decision. Pure.

use ratatui::crossterm::event::KeyCode;
use serde_json::{Map, Value};

use crate::cli::{reply, view};
use crate::gateway::{AnswerArgs, PendingView};

/// More is not typed here.
const MOST_TYPED: usize = 2_000;

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Dialog {
    thread: String,
    request: PendingView,
    /// Which question is asked.
    at: usize,
    answers: Map<String, Value>,
    pub(super) typed: String,
    /// Why what was typed last is no answer.
    pub(super) wrong: Option<String>,
}

/// What a key came to.
#[derive(Debug, PartialEq)]
pub(super) enum Entered {
    Nothing,
    Closed,
    Answer(Box<AnswerArgs>),
}

impl Dialog {
    pub(super) fn new(thread: String, request: PendingView) -> Self {
        Self {
            thread,
            request,
            at: 0,
            answers: Map::new(),
            typed: String::new(),
            wrong: None,
        }
    }

    /// What is asked now, escaped.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        match (&self.request.approval, self.request.questions.get(self.at)) {
            (None, Some(question)) => {
                if self.request.questions.len() > 1 {
                    text = format!("  {} of {}\n", self.at + 1, self.request.questions.len());
                }
                view::question(&mut text, question);
            }
            (Some(_), _) | (None, None) => view::asked(&mut text, &self.request, ""),
        }
        text.trim_start_matches('\n').to_owned()
    }

    pub(super) fn key(&mut self, code: KeyCode) -> Entered {
        match code {
            KeyCode::Esc => return Entered::Closed,
            KeyCode::Enter => return self.enter(),
            KeyCode::Backspace => _ = self.typed.pop(),
            KeyCode::Char(c) if self.typed.chars().count() < MOST_TYPED => self.typed.push(c),
            _ => {}
        }
        self.wrong = None;
        Entered::Nothing
    }

    fn enter(&mut self) -> Entered {
        let typed = std::mem::take(&mut self.typed);
        if let Some(approval) = &self.request.approval {
            return match reply::to_approval(approval, &typed) {
                Ok(decision) => self.answer(AnswerArgs {
                    decision: Some(decision),
                    ..AnswerArgs::default()
                }),
                Err(wrong) => self.again(wrong),
            };
        }
        if let Some(question) = self.request.questions.get(self.at) {
            match reply::to_question(question, &typed) {
                Ok(answer) => {
                    self.answers.extend(answer.map(|answer| (question.id.clone(), answer)));
                }
                Err(wrong) => return self.again(wrong),
            }
            self.at += 1;
        }
        if self.at < self.request.questions.len() {
            return Entered::Nothing;
        }
        let answers = std::mem::take(&mut self.answers);
        self.answer(AnswerArgs {
            answers: Some(answers),
            ..AnswerArgs::default()
        })
    }

    fn again(&mut self, wrong: String) -> Entered {
        self.wrong = Some(wrong);
        Entered::Nothing
    }

    fn answer(&self, answer: AnswerArgs) -> Entered {
        Entered::Answer(Box::new(AnswerArgs {
            thread_id: self.thread.clone(),
            request_id: Some(self.request.request_id.clone()),
            ..answer
        }))
    }
}
