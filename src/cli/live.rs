//! Shows on stderr that something is waited for: on a terminal one line that is written over, elsewhere a line when there is news.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::words::spoken;
use crate::protocol::Untrusted;

/// How often the clock in the line is moved on.
const EVERY: Duration = Duration::from_secs(1);

/// Where nobody watches, the same news is repeated so seldom.
const REPEAT_AFTER: Duration = Duration::from_mins(5);

/// News that is older is told as such.
const FRESH: Duration = Duration::from_secs(2);

/// What is shown of a heartbeat, on a terminal of unknown width.
const WIDTH: usize = 80;

/// Takes the line away, and goes to its beginning.
const CLEAR: &str = "\r\u{1b}[K";

/// Waits for `work` and shows its heartbeats meanwhile.
pub(super) async fn shown<T>(mut heard: watch::Receiver<Option<String>>, work: impl Future<Output = T>) -> T {
    let mut line = Line::new(io::stderr().is_terminal());
    let mut clock = tokio::time::interval(EVERY);
    let begun = Instant::now();
    tokio::pin!(work);
    // What an earlier call told is no news of this one.
    heard.mark_unchanged();
    loop {
        let done = tokio::select! {
            biased;
            done = work.as_mut() => Some(done),
            Ok(()) = heard.changed() => {
                line.hear(heard.borrow_and_update().clone().unwrap_or_default(), begun.elapsed());
                None
            }
            _ = clock.tick() => None,
        };
        let width = ratatui::crossterm::terminal::size().map_or(WIDTH, |(columns, _)| usize::from(columns));
        let text = match &done {
            Some(_) => line.end(),
            None => line.at(begun.elapsed(), width),
        };
        let _ = io::stderr().write_all(text.as_bytes());
        if let Some(done) = done {
            return done;
        }
    }
}

/// What stands in the line.
#[derive(Debug)]
struct Line {
    /// It is written over.
    live: bool,
    news: String,
    heard_at: Duration,
    /// What was printed, and when, where it is not.
    told: Option<(String, Duration)>,
    drawn: bool,
}

impl Line {
    fn new(live: bool) -> Self {
        Self {
            live,
            news: String::new(),
            heard_at: Duration::ZERO,
            told: None,
            drawn: false,
        }
    }

    /// A heartbeat came. It ends with its own count of seconds, which ours replaces.
    fn hear(&mut self, heartbeat: String, elapsed: Duration) {
        let bare = heartbeat
            .rfind(" (")
            .filter(|_| heartbeat.ends_with(" s)"))
            .and_then(|end| heartbeat.get(..end));
        self.news = bare.map(str::to_owned).unwrap_or(heartbeat);
        self.heard_at = elapsed;
    }

    /// What is to be written now.
    fn at(&mut self, elapsed: Duration, width: usize) -> String {
        if self.news.is_empty() {
            return String::new();
        }
        let old = elapsed.saturating_sub(self.heard_at);
        let when = if old < FRESH {
            String::new()
        } else {
            format!("{} ago it was ", spoken(old))
        };
        if self.live {
            let text = format!("waiting for {}; {when}{}", spoken(elapsed), self.news);
            self.drawn = true;
            return format!("{CLEAR}{}", cut(&text, width.saturating_sub(1)));
        }
        // State and what else does not change by the clock.
        let state = self.news.split(',').next().unwrap_or_default();
        let text = match &self.told {
            Some((told, at)) if told == state => {
                if elapsed.saturating_sub(*at) < REPEAT_AFTER {
                    return String::new();
                }
                format!("still {} after {}", self.news, spoken(elapsed))
            }
            Some(_) | None => state.to_owned(),
        };
        self.told = Some((state.to_owned(), elapsed));
        format!("{}\n", Untrusted(&text))
    }

    /// What leaves the line as it was.
    fn end(&self) -> String {
        if self.drawn { CLEAR.to_owned() } else { String::new() }
    }
}

/// Escaped, and then cut: what stands for a character may be longer than it.
fn cut(text: &str, width: usize) -> String {
    Untrusted(text).to_string().chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn on_a_terminal_the_line_is_written_over_and_gone_at_the_end() {
        let mut line = Line::new(true);
        assert_eq!(line.at(after(0), 80), "");
        assert_eq!(line.end(), "", "nothing was drawn");
        line.hear("running, last activity 2 s ago (75 s)".to_owned(), after(75));
        assert_eq!(
            line.at(after(75), 80),
            "\r\u{1b}[Kwaiting for 1 min 15 s; running, last activity 2 s ago"
        );
        assert_eq!(
            line.at(after(80), 80),
            "\r\u{1b}[Kwaiting for 1 min 20 s; 5 s ago it was running, last activity 2 s ago"
        );
        assert_eq!(line.at(after(75), 12), "\r\u{1b}[Kwaiting for", "it never wraps");
        assert_eq!(line.end(), CLEAR);
    }

    #[test]
    fn elsewhere_only_news_is_a_line() {
        let mut line = Line::new(false);
        line.hear("running, last activity 2 s ago (0 s)".to_owned(), after(0));
        assert_eq!(line.at(after(0), 80), "running\n");
        line.hear("running, last activity 17 s ago (15 s)".to_owned(), after(15));
        assert_eq!(line.at(after(15), 80), "");
        line.hear("finishing, last activity 1 s ago (30 s)".to_owned(), after(30));
        assert_eq!(line.at(after(30), 80), "finishing\n");
        line.hear("finishing, last activity 301 s ago (330 s)".to_owned(), after(330));
        assert_eq!(
            line.at(after(330), 80),
            "still finishing, last activity 301 s ago after 5 min 30 s\n"
        );
        assert_eq!(line.end(), "");
    }

    #[test]
    fn a_heartbeat_can_do_nothing_to_the_terminal() {
        for live in [true, false] {
            let mut line = Line::new(live);
            line.hear("\u{1b}[2J\u{202e}\nforged\r".to_owned(), after(0));
            let text = line.at(after(0), 80);
            let text = text.strip_prefix(CLEAR).unwrap_or(&text).trim_end_matches('\n');
            let text = text.strip_prefix("waiting for 0 s; ").unwrap_or(text);
            assert_eq!(text, r"\u{1b}[2J\u{202e}\nforged\r");
        }
    }
}
