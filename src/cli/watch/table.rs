//! What the table knows and what a key means. Pure: it is told everything, and says what is to be done.

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::dialog::{Dialog, Entered};
use super::listing::{Listed, Row};
use crate::cli::view;
use crate::gateway::{AnswerArgs, ThreadView, Unreachable};

/// How far a page of text is scrolled.
const PAGE: u16 = 10;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    listed: Option<Listed>,
    pub(super) shows: Shows,
    /// The thread that is selected.
    selected: Option<String>,
    pub(super) panel: Panel,
    /// What happened last.
    pub(super) note: Option<String>,
}

/// Which threads are shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Shows {
    #[default]
    All,
    Busy,
    /// Those that somebody has to do something about.
    Attention,
}

/// What stands below the table.
#[derive(Debug, Default)]
pub(super) enum Panel {
    #[default]
    Nothing,
    /// A thread is being read.
    Opening {
        thread: String,
        to_answer: bool,
    },
    Thread {
        thread: String,
        text: String,
        scroll: u16,
    },
    Answering(Box<Dialog>),
    /// Whether a run is really to be stopped.
    Interrupting {
        thread: String,
        title: String,
    },
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Todo {
    Nothing,
    Quit,
    List,
    Read(String),
    Answer(Box<AnswerArgs>),
    Interrupt(String),
}

impl Table {
    /// What there is now. The selected thread stays so, wherever it went.
    pub(super) fn show(&mut self, mut listed: Listed) {
        listed.threads.sort_by(|a, b| {
            let key = |row: &Row| (std::cmp::Reverse(urgency(row)), std::cmp::Reverse(row.changed));
            key(a).cmp(&key(b)).then_with(|| a.thread_id.cmp(&b.thread_id))
        });
        let before = self.position();
        self.listed = Some(listed);
        if self.position().is_none() {
            self.select(before.unwrap_or(0));
        }
    }

    /// A thread was read.
    pub(super) fn read(&mut self, view: &ThreadView) {
        match &self.panel {
            Panel::Opening { thread, to_answer } if *thread == view.thread_id => {
                if *to_answer {
                    self.panel = self.dialog(view);
                } else {
                    self.panel = Panel::Thread {
                        thread: view.thread_id.clone(),
                        text: view::thread(view),
                        scroll: 0,
                    };
                }
            }
            Panel::Thread { thread, scroll, .. } if *thread == view.thread_id => {
                self.panel = Panel::Thread {
                    thread: view.thread_id.clone(),
                    text: view::thread(view),
                    scroll: *scroll,
                };
            }
            // It was closed meanwhile.
            Panel::Nothing
            | Panel::Opening { .. }
            | Panel::Thread { .. }
            | Panel::Answering(_)
            | Panel::Interrupting { .. } => {}
        }
    }

    /// Something was done, or refused.
    pub(super) fn tell(&mut self, note: String) {
        if matches!(self.panel, Panel::Opening { .. }) {
            self.panel = Panel::Nothing;
        }
        self.note = Some(note);
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Todo {
        if key.kind == KeyEventKind::Release {
            return Todo::Nothing;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Todo::Quit;
        }
        if control {
            return Todo::Nothing;
        }
        match &mut self.panel {
            Panel::Answering(dialog) => match dialog.key(key.code) {
                Entered::Nothing => Todo::Nothing,
                Entered::Closed => self.close(),
                Entered::Answer(answer) => {
                    self.close();
                    self.note = Some("sending the answer".to_owned());
                    Todo::Answer(answer)
                }
            },
            Panel::Interrupting { thread, .. } => {
                let thread = thread.clone();
                self.close();
                if key.code != KeyCode::Char('y') {
                    return Todo::Nothing;
                }
                self.note = Some("interrupting".to_owned());
                Todo::Interrupt(thread)
            }
            Panel::Thread { scroll, text, .. } => {
                let most = most_scroll(text);
                match key.code {
                    KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
                    KeyCode::Down | KeyCode::Char('j') => *scroll = scroll.saturating_add(1).min(most),
                    KeyCode::PageUp => *scroll = scroll.saturating_sub(PAGE),
                    KeyCode::PageDown | KeyCode::Char(' ') => *scroll = scroll.saturating_add(PAGE).min(most),
                    KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => return self.close(),
                    other => return self.act(other),
                }
                Todo::Nothing
            }
            Panel::Opening { .. } if matches!(key.code, KeyCode::Esc | KeyCode::Char('q')) => self.close(),
            Panel::Nothing | Panel::Opening { .. } => self.list_key(key.code),
        }
    }

    fn list_key(&mut self, code: KeyCode) -> Todo {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Todo::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-isize::try_from(PAGE).unwrap_or(1)),
            KeyCode::PageDown => self.step(isize::try_from(PAGE).unwrap_or(1)),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            KeyCode::Enter => {
                if let Some(thread) = self.selected.clone() {
                    return self.open(thread, false);
                }
            }
            KeyCode::Char('f') => {
                self.shows = match self.shows {
                    Shows::All => Shows::Busy,
                    Shows::Busy => Shows::Attention,
                    Shows::Attention => Shows::All,
                };
                if self.position().is_none() {
                    self.select(0);
                }
            }
            other => return self.act(other),
        }
        Todo::Nothing
    }

    /// What can be done about the selected thread.
    fn act(&mut self, code: KeyCode) -> Todo {
        let Some(row) = self
            .position()
            .and_then(|at| self.rows().get(at).map(|row| (*row).clone()))
        else {
            return if code == KeyCode::Char('r') {
                Todo::List
            } else {
                Todo::Nothing
            };
        };
        match code {
            KeyCode::Char('a') => self.open(row.thread_id, true),
            KeyCode::Char('i') => {
                self.panel = Panel::Interrupting {
                    thread: row.thread_id,
                    title: row.title,
                };
                Todo::Nothing
            }
            KeyCode::Char('r') => Todo::List,
            _ => Todo::Nothing,
        }
    }

    fn open(&mut self, thread: String, to_answer: bool) -> Todo {
        self.note = None;
        self.panel = Panel::Opening {
            thread: thread.clone(),
            to_answer,
        };
        Todo::Read(thread)
    }

    fn close(&mut self) -> Todo {
        self.panel = Panel::Nothing;
        self.note = None;
        Todo::Nothing
    }

    /// Asks what the thread asks first, if it can be answered from here.
    fn dialog(&mut self, view: &ThreadView) -> Panel {
        let answerable = view.pending.iter().find(|request| request.answerable);
        if let Some(request) = answerable {
            return Panel::Answering(Box::new(Dialog::new(view.thread_id.clone(), request.clone())));
        }
        self.note = Some(if view.pending.is_empty() {
            "it asks nothing".to_owned()
        } else {
            format!("this can only be answered in T3 itself, on {}", view.machine)
        });
        Panel::Nothing
    }

    /// The thread that is open below, to be read again.
    pub(super) fn open_thread(&self) -> Option<&str> {
        match &self.panel {
            Panel::Thread { thread, .. } => Some(thread),
            Panel::Nothing | Panel::Opening { .. } | Panel::Answering(_) | Panel::Interrupting { .. } => None,
        }
    }

    /// The rows that are shown.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let all = self.listed.iter().flat_map(|listed| &listed.threads);
        all.filter(|row| match self.shows {
            Shows::All => true,
            Shows::Busy => urgency(row) > 0,
            Shows::Attention => urgency(row) > 1,
        })
        .collect()
    }

    /// The place of the selected thread among them.
    pub(super) fn position(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.rows().iter().position(|row| row.thread_id == selected)
    }

    /// Whether anything was listed yet.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// Whether there are older threads than those that were listed.
    pub(super) fn has_more(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.more)
    }

    /// Machines that did not answer.
    pub(super) fn unreachable(&self) -> &[Unreachable] {
        self.listed.as_ref().map_or(&[], |listed| &listed.unreachable)
    }

    /// How many there are, how many of them are busy, and how many want something.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let all = self.listed.as_ref().map_or(&[][..], |listed| &listed.threads);
        let above = |least| all.iter().filter(|row| urgency(row) > least).count();
        (all.len(), above(0), above(1))
    }

    fn step(&mut self, by: isize) {
        let at = self.position().unwrap_or(0);
        self.select(at.saturating_add_signed(by));
    }

    fn select(&mut self, at: usize) {
        let rows = self.rows();
        let row = rows.get(at).or_else(|| rows.last());
        self.selected = row.map(|row| row.thread_id.clone());
    }
}

/// Beyond its last line a text is not scrolled, on a narrow terminal.
fn most_scroll(text: &str) -> u16 {
    let lines: usize = text.lines().map(|line| line.chars().count() / 40 + 1).sum();
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// 2: somebody has to do something; 1: it works; 0: it rests.
pub(super) fn urgency(row: &Row) -> u8 {
    match row.state.as_str() {
        "question" | "approval" => 2,
        _ if row.held || !row.pending.is_empty() => 2,
        "running" | "starting" | "finishing" | "queued" => 1,
        _ => 0,
    }
}

/// Since when a thread works, or how long it has rested.
pub(super) fn age(row: &Row, now: Timestamp) -> Option<std::time::Duration> {
    let from = if urgency(row) > 0 {
        row.since.or(row.changed)
    } else {
        row.changed
    };
    std::time::Duration::try_from(now.duration_since(from?)).ok()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
