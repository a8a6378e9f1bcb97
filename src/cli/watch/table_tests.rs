//! What the table shows and what keys do, drawn to a buffer.
#![allow(clippy::unwrap_used)]

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;
use crate::cli::watch::draw::draw;

const NOW: &str = "2026-01-01T00:10:00Z";

fn row(id: &str, state: &str, title: &str) -> Row {
    Row {
        thread_id: id.to_owned(),
        machine: "mac".to_owned(),
        project: "shop".to_owned(),
        title: title.to_owned(),
        state: state.to_owned(),
        pending: match state {
            "question" | "approval" => vec![state.to_owned()],
            _ => Vec::new(),
        },
        held: false,
        since: Some("2026-01-01T00:08:30Z".parse().unwrap()),
        changed: Some("2026-01-01T00:09:48Z".parse().unwrap()),
    }
}

fn table() -> Table {
    let mut table = Table::default();
    table.show(Listed {
        threads: vec![
            row("done", "completed", "Update the README"),
            row("runs", "running", "Fix the login"),
            row("asks", "question", "Choose a color"),
            row("lost", "failed", "Break it"),
            Row {
                held: true,
                ..row("held", "queued", "Wait for it")
            },
        ],
        more: true,
        unreachable: vec![Unreachable {
            machine: "linux".to_owned(),
            error: "it does not answer".to_owned(),
        }],
    });
    table
}

fn view(pending: &serde_json::Value) -> ThreadView {
    serde_json::from_value(
        json!({"thread_id": "asks", "machine": "mac", "title": "Choose a color", "state": "question",
        "pending": pending, "messages": [{"role": "user", "text": "ask", "at": "2026-01-01T00:08:30Z"}]}),
    )
    .unwrap()
}

fn question() -> serde_json::Value {
    json!([{"kind": "question", "request_id": "q", "answerable": true, "questions": [
        {"id": "color", "header": "", "question": "Which color?", "options": [{"label": "Red"}, {"label": "Blue"}]},
        {"id": "why", "header": "", "question": "Why?", "required": false}]}])
}

fn drawn(table: &Table) -> String {
    let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
    terminal.draw(|frame| draw(table, NOW.parse().unwrap(), frame)).unwrap();
    terminal.backend().to_string()
}

fn press(table: &mut Table, keys: &str) -> Vec<Todo> {
    keys.chars()
        .map(|c| {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\u{8}' => KeyCode::Backspace,
                c => KeyCode::Char(c),
            };
            table.key(KeyEvent::from(code))
        })
        .filter(|todo| *todo != Todo::Nothing)
        .collect()
}

fn selected(table: &Table) -> &str {
    table.selected.as_deref().unwrap()
}

#[test]
fn what_asks_stands_first_then_what_works() {
    view::snapshot("watch", &drawn(&table()));
    view::snapshot("watch_before", &drawn(&Table::default()));
}

#[test]
fn the_selected_thread_stays_so_when_the_rows_change() {
    let mut table = table();
    assert_eq!(selected(&table), "asks");
    press(&mut table, "jj");
    assert_eq!(selected(&table), "runs");
    table.show(Listed {
        threads: vec![row("runs", "completed", "Fix the login"), row("new", "running", "x")],
        ..Listed::default()
    });
    assert_eq!((selected(&table), table.position()), ("runs", Some(1)));
    table.show(Listed {
        threads: vec![row("new", "running", "x")],
        ..Listed::default()
    });
    assert_eq!(selected(&table), "new");
    table.show(Listed::default());
    assert_eq!(table.position(), None);
    assert_eq!(press(&mut table, "jkaiG\n"), [], "nothing is there to act on");
    assert_eq!(press(&mut table, "r"), [Todo::List]);
}

#[test]
fn a_filter_shows_what_is_busy_or_asks() {
    let mut table = table();
    let shown = |table: &Table| table.rows().iter().map(|row| row.thread_id.clone()).collect::<Vec<_>>();
    press(&mut table, "f");
    assert_eq!(shown(&table), ["asks", "held", "runs"]);
    press(&mut table, "f");
    assert_eq!(shown(&table), ["asks", "held"]);
    press(&mut table, "f");
    assert_eq!(shown(&table).len(), 5);
}

#[test]
fn a_key_answers_a_question_step_by_step() {
    let mut table = table();
    assert_eq!(press(&mut table, "a"), [Todo::Read("asks".to_owned())]);
    table.read(&view(&question()));
    view::snapshot("watch_question", &drawn(&table));
    assert_eq!(press(&mut table, "\n"), []);
    assert!(drawn(&table).contains("it must be answered"));
    assert_eq!(press(&mut table, "7\u{8}2\n"), []);
    assert!(drawn(&table).contains("2 of 2"), "{}", drawn(&table));
    let done = press(&mut table, "q, so\n");
    let [Todo::Answer(answer)] = done.as_slice() else {
        panic!("{done:?}");
    };
    assert_eq!(
        (answer.thread_id.as_str(), answer.request_id.as_deref()),
        ("asks", Some("q"))
    );
    assert_eq!(json!(answer.answers), json!({"color": "Blue", "why": "q, so"}));
    assert!(matches!(table.panel, Panel::Nothing));
}

#[test]
fn a_key_decides_an_approval_and_escape_decides_nothing() {
    let approval = json!([{"kind": "approval", "request_id": "p", "answerable": true, "approval": {
        "kind": "command", "title": "Run it", "detail": "rm -rf x", "decisions": ["accept", "decline"]}}]);
    let mut table = table();
    press(&mut table, "a");
    table.read(&view(&approval));
    view::snapshot("watch_approval", &drawn(&table));
    assert_eq!(press(&mut table, "1\u{1b}"), []);
    assert!(matches!(table.panel, Panel::Nothing));
    press(&mut table, "a");
    table.read(&view(&approval));
    let done = press(&mut table, "2\n");
    let [Todo::Answer(answer)] = done.as_slice() else {
        panic!("{done:?}");
    };
    assert_eq!(answer.decision.as_deref(), Some("decline"));
}

#[test]
fn what_cannot_be_answered_here_is_said() {
    let mut table = table();
    press(&mut table, "a");
    table.read(&view(&json!([])));
    assert!(drawn(&table).contains("it asks nothing"));
    press(&mut table, "a");
    table.read(&view(
        &json!([{"kind": "approval", "request_id": "p", "answerable": false}]),
    ));
    assert!(drawn(&table).contains("only be answered in T3 itself, on mac"));
}

#[test]
fn a_run_is_stopped_only_after_a_yes() {
    let mut table = table();
    press(&mut table, "jji");
    view::snapshot("watch_interrupt", &drawn(&table));
    assert_eq!(press(&mut table, "n"), []);
    assert_eq!(press(&mut table, "iy"), [Todo::Interrupt("runs".to_owned())]);
}

#[test]
fn a_thread_is_read_below_and_closed_again() {
    let mut table = table();
    assert_eq!(press(&mut table, "\n"), [Todo::Read("asks".to_owned())]);
    table.read(&view(&question()));
    view::snapshot("watch_thread", &drawn(&table));
    assert_eq!(table.open_thread(), Some("asks"));
    press(&mut table, "jj");
    table.read(&view(&question()));
    assert!(
        matches!(table.panel, Panel::Thread { scroll: 2, .. }),
        "it stays where it was"
    );
    assert_eq!(press(&mut table, "q"), []);
    assert_eq!(press(&mut table, "q"), [Todo::Quit]);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut table, "a");
    assert_eq!(table.key(control_c), Todo::Quit);
}

#[test]
fn a_thread_that_comes_too_late_opens_nothing() {
    let mut table = table();
    press(&mut table, "\n\u{1b}");
    table.read(&view(&question()));
    assert!(matches!(table.panel, Panel::Nothing));
}

#[test]
fn where_it_is_narrow_what_tells_threads_apart_has_the_room() {
    let lines = |width: u16| {
        let mut terminal = Terminal::new(TestBackend::new(width, 12)).unwrap();
        terminal
            .draw(|frame| draw(&table(), NOW.parse().unwrap(), frame))
            .unwrap();
        terminal.backend().to_string()
    };
    assert!(lines(100).contains("machine") && lines(100).contains("r refresh"));
    assert!(lines(80).contains("asks") && !lines(80).contains("project"));
    let narrow = lines(50);
    assert!(narrow.contains("title") && !narrow.contains("machine"), "{narrow}");
    assert!(narrow.contains("q quit"), "{narrow}");
    assert!(!lines(30).contains("asks "), "{}", lines(30));
}

#[test]
fn hostile_text_stays_in_its_cell() {
    let evil = format!("\u{1b}[2J\u{9b}1A\u{202e}\u{200b}\r\n\t{}", "long ".repeat(2_000));
    let mut table = Table::default();
    let mut rows = vec![row(&evil, &evil, &evil)];
    rows[0].machine.clone_from(&evil);
    rows[0].project.clone_from(&evil);
    rows[0].pending = vec![evil.clone()];
    table.show(Listed {
        threads: rows,
        unreachable: vec![Unreachable {
            machine: evil.clone(),
            error: evil.clone(),
        }],
        ..Listed::default()
    });
    let check = |table: &Table| {
        let text = drawn(table);
        let hidden =
            |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'));
        assert!(!text.contains(hidden), "{text:?}");
        assert_eq!(text.lines().count(), 24);
    };
    check(&table);
    press(&mut table, "\n");
    let mut view: ThreadView = view(
        &json!([{"kind": "question", "request_id": evil, "answerable": true, "questions": [
        {"id": evil, "header": evil, "question": evil, "options": [{"label": evil, "description": evil}]}]}]),
    );
    view.thread_id.clone_from(&evil);
    view.title.clone_from(&evil);
    view.messages[0].text.clone_from(&evil);
    table.read(&view);
    check(&table);
    press(&mut table, "\u{1b}a");
    table.read(&view);
    check(&table);
    press(&mut table, "x\u{9b}y");
    check(&table);
    table.tell(evil);
    check(&table);
}
