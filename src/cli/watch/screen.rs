//! The terminal while the table is on it, and the keys. However the command ends, the terminal is as it was.

use std::io::{self, stdout};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use tokio::sync::mpsc;

/// How often the thread that reads keys looks whether anybody wants them.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The terminal, taken. Dropped, it is given back; where the program panics, before that is told.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    _restored: Restored,
}

struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
        let _ = execute!(stdout(), Show);
    }
}

impl Screen {
    pub(super) fn take() -> io::Result<Self> {
        let restored = Restored;
        Ok(Self {
            terminal: ratatui::try_init()?,
            _restored: restored,
        })
    }

    pub(super) fn terminal(&mut self) -> &mut DefaultTerminal {
        &mut self.terminal
    }
}

/// What happens at the terminal: keys, and changes of its size. Its end is the end of the terminal.
pub(super) fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(64);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let read = match event::poll(LOOK_EVERY) {
                Ok(true) => event::read(),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            let Ok(event) = read else { return };
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
