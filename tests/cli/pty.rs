//! A terminal of its own for a command: what is typed, what is shown, and the state in which it is left.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

/// How long something may take until it is shown.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// A command on a terminal. Dropping it kills it.
pub struct OnTerminal {
    pub child: Child,
    keys: File,
    /// Kept open, so that the terminal outlives the command.
    terminal: File,
    shown: Arc<Mutex<Vec<u8>>>,
    before: Termios,
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OnTerminal {
    pub fn start(mut command: Command) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || {
            let mut options = File::options();
            std::os::unix::fs::OpenOptionsExt::custom_flags(
                &mut options,
                rustix::fs::OFlags::NOCTTY.bits().cast_signed(),
            );
            options.read(true).write(true).open(name.to_str().unwrap()).unwrap()
        };
        let terminal = open();
        let size = Winsize {
            ws_row: 24,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        command.env("TERM", "xterm-256color");
        let child = command
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        let keys = File::from(master);
        let (mut screen, shown) = (keys.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let to = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut some = [0; 4_096];
            while let Ok(bytes @ 1..) = screen.read(&mut some) {
                to.lock().unwrap().extend_from_slice(&some[..bytes]);
            }
        });
        Self {
            child,
            keys,
            terminal,
            shown,
            before,
        }
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Everything that was written to the terminal.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until what is written fulfils the condition.
    pub fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let shown = self.shown();
            if wanted(&shown) {
                return shown;
            }
            assert!(begun.elapsed() < SHOWN_WITHIN, "it was not shown: {shown:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for a text.
    pub fn until_shown(&self, text: &str) -> String {
        self.until(|shown| shown.contains(text))
    }

    /// Waits for the command's end: its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < SHOWN_WITHIN {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end: {:?}", self.shown());
    }

    /// Keys are read and shown as they were before the command.
    pub fn is_as_before(&self) -> bool {
        let modes =
            |termios: &Termios| termios.local_modes & (LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        modes(&tcgetattr(&self.terminal).unwrap()) == modes(&self.before)
    }
}
