//! Draws the table. Whatever came from T3 is escaped before it comes here, or here.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row as Line_, Table as Grid, TableState, Wrap};

use super::dialog::Dialog;
use super::listing::Row;
use super::table::{Panel, Shows, Table, age, urgency};
use crate::cli::view::fact;
use crate::cli::words::spoken;
use crate::protocol::Untrusted;

const HEADS: [&str; 6] = ["state", "machine", "project", "title", "for", "asks"];

const WIDTHS: [Constraint; 6] = [
    Constraint::Length(11),
    Constraint::Max(12),
    Constraint::Max(18),
    Constraint::Min(16),
    Constraint::Length(12),
    Constraint::Max(20),
];

/// So wide is the longest line of keys.
const ALL_KEYS: u16 = 74;

/// Draws it as it is now.
pub(super) fn draw(table: &Table, now: Timestamp, frame: &mut Frame<'_>) {
    let below = match table.panel {
        Panel::Nothing => Constraint::Length(0),
        Panel::Interrupting { .. } | Panel::Opening { .. } => Constraint::Length(3),
        Panel::Thread { .. } | Panel::Answering(_) => Constraint::Percentage(65),
    };
    let [head, grid, panel, note, help] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        below,
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(table), head);
    rows(table, now, grid, frame);
    below_it(&table.panel, panel, frame);
    frame.render_widget(said(table), note);
    frame.render_widget(keys(&table.panel, frame.area().width).dim(), help);
}

fn heading(table: &Table) -> Line<'static> {
    if !table.is_listed() {
        return Line::from("asking the machines …");
    }
    let (all, busy, ask) = table.counts();
    let shows = match table.shows {
        Shows::All => "all",
        Shows::Busy => "busy ones",
        Shows::Attention => "those that ask",
    };
    let newest = if table.has_more() { "the newest " } else { "" };
    let asking = Span::from(format!("asking: {ask}")).style(if ask > 0 { attention() } else { Style::new() });
    Line::from(vec![
        Span::from(format!("threads: {newest}{all}, busy: {busy}, ")),
        asking,
        Span::from(format!("; shown: {shows}")),
    ])
}

fn rows(table: &Table, now: Timestamp, area: Rect, frame: &mut Frame<'_>) {
    let rows = table.rows();
    let columns = columns(area.width);
    let lines = rows.iter().map(|row| line(row, now, columns));
    let widths = columns
        .iter()
        .map(|column| WIDTHS.get(*column).copied().unwrap_or_default());
    let heads = columns.iter().filter_map(|column| HEADS.get(*column).copied());
    let grid = Grid::new(lines, widths)
        .header(Line_::new(heads).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol("▶ ");
    let mut state = TableState::new().with_selected(table.position());
    frame.render_stateful_widget(grid, area, &mut state);
}

/// Which columns there is room for: where it is narrow, what tells threads apart goes before where they are.
fn columns(width: u16) -> &'static [usize] {
    match width {
        0..40 => &[0, 3],
        40..64 => &[0, 3, 4],
        64..90 => &[0, 3, 4, 5],
        90.. => &[0, 1, 2, 3, 4, 5],
    }
}

fn line(row: &Row, now: Timestamp, columns: &[usize]) -> Line_<'static> {
    let style = match (urgency(row), row.state.as_str()) {
        (2, _) => attention(),
        (1, _) => Style::new().fg(Color::Green),
        (_, "failed" | "gone") => Style::new().fg(Color::Red),
        _ => Style::new(),
    };
    let age = age(row, now).map(spoken).unwrap_or_default();
    let asks = asks(row);
    let cells = [
        Cell::from(fact(&row.state)).style(style),
        Cell::from(fact(&row.machine)),
        Cell::from(fact(&row.project)),
        Cell::from(fact(&row.title)),
        Cell::from(age),
        Cell::from(asks),
    ];
    let shown = columns.iter().filter_map(|column| cells.get(*column).cloned());
    Line_::new(shown)
}

/// What somebody has to do about it.
pub(super) fn asks(row: &Row) -> String {
    match (row.held, row.pending.is_empty()) {
        (true, true) => "its queue is held".to_owned(),
        (_, _) => fact(&row.pending.join(", ")),
    }
}

fn below_it(panel: &Panel, area: Rect, frame: &mut Frame<'_>) {
    match panel {
        Panel::Nothing => {}
        Panel::Opening { .. } => frame.render_widget(boxed("reading …", ""), area),
        Panel::Thread { text, scroll, .. } => {
            let text = boxed(text, "").wrap(Wrap { trim: false }).scroll((*scroll, 0));
            frame.render_widget(text, area);
        }
        Panel::Interrupting { title, .. } => {
            let asked = format!("Stop the run of \"{}\"? What it did so far stays. y or n", fact(title));
            frame.render_widget(boxed(&asked, "interrupt"), area);
        }
        Panel::Answering(dialog) => frame.render_widget(asking(dialog), area),
    }
}

fn asking(dialog: &Dialog) -> Paragraph<'static> {
    let mut lines: Vec<Line<'static>> = dialog.text().lines().map(|line| Line::from(line.to_owned())).collect();
    lines.push(Line::default());
    lines.push(Line::from(format!("> {}▏", Untrusted(&dialog.typed))).bold());
    if let Some(wrong) = &dialog.wrong {
        lines.push(Line::from(wrong.clone()).style(Style::new().fg(Color::Red)));
    }
    Paragraph::new(lines)
        .block(Block::new().borders(Borders::ALL).title("answer"))
        .wrap(Wrap { trim: false })
}

fn boxed(text: &str, title: &'static str) -> Paragraph<'static> {
    // Tabs are not drawn.
    Paragraph::new(text.replace('\t', "    ")).block(Block::new().borders(Borders::ALL).title(title))
}

fn said(table: &Table) -> Line<'static> {
    if let Some(note) = &table.note {
        return Line::from(fact(note)).bold();
    }
    let away: Vec<String> = table
        .unreachable()
        .iter()
        .map(|away| format!("{}: {}", fact(&away.machine), fact(&away.error)))
        .collect();
    Line::from(away.join("; ")).style(Style::new().fg(Color::Red))
}

fn keys(panel: &Panel, width: u16) -> Line<'static> {
    Line::from(match panel {
        Panel::Nothing | Panel::Opening { .. } if width < ALL_KEYS => "Enter read  a answer  i stop  f filter  q quit",
        Panel::Nothing | Panel::Opening { .. } => {
            "↑↓ select  Enter read  a answer  i interrupt  f filter  r refresh  q quit"
        }
        Panel::Thread { .. } => "↑↓ scroll  a answer  i interrupt  Esc close",
        Panel::Interrupting { .. } => "y stop it  any other key: do not",
        Panel::Answering(_) => "a number, a label or your own words, then Enter; Esc close",
    })
}

fn attention() -> Style {
    Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD)
}
