//! The one way by which text that came from T3 reaches a terminal or a log.
//!
//! A thread's title, a message or an error of a machine may hold anything that an agent, a repository or a stranger wrote: escape
//! sequences that rewrite the screen, line breaks that forge a log line, bidirectional controls that turn a command around, characters
//! that nobody sees. [`Untrusted`] prints such characters as visible escapes (`\u{202e}`) and all others as they are. It must never be
//! used on what a machine reads: answers to MCP clients carry the text itself. Called by `cli` and by everything that logs.

use std::fmt::{self, Write as _};

/// Text from T3, printed on one line.
///
/// ```
/// use t3code_mcp::protocol::Untrusted;
/// assert_eq!(Untrusted("all\ngreen\u{1b}[2J").to_string(), r"all\ngreen\u{1b}[2J");
/// ```
#[derive(Clone, Copy)]
pub struct Untrusted<'a>(pub &'a str);

impl<'a> Untrusted<'a> {
    /// The same with line breaks and tabs kept, for messages that are read as a whole.
    pub fn lines(self) -> Escaped<'a> {
        Escaped::new(self.0).lines()
    }

    /// The same, cut to so many of the text's characters, with `…` where something was cut.
    pub fn at_most(self, characters: usize) -> Escaped<'a> {
        Escaped::new(self.0).at_most(characters)
    }
}

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped::new(self.0).fmt(f)
    }
}

impl fmt::Debug for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What [`Untrusted::lines`] and [`Untrusted::at_most`] make; they can be combined.
#[derive(Clone, Copy)]
pub struct Escaped<'a> {
    text: &'a str,
    keep_lines: bool,
    limit: Option<usize>,
}

impl<'a> Escaped<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            keep_lines: false,
            limit: None,
        }
    }

    /// Keeps line breaks and tabs.
    #[must_use]
    pub fn lines(self) -> Self {
        Self {
            keep_lines: true,
            ..self
        }
    }

    /// Cuts the text to so many characters.
    #[must_use]
    pub fn at_most(self, characters: usize) -> Self {
        Self {
            limit: Some(characters),
            ..self
        }
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.text.chars().peekable();
        let mut left = self.limit.unwrap_or(usize::MAX);
        while let Some(c) = characters.next() {
            if left == 0 {
                return f.write_char('…');
            }
            left -= 1;
            match c {
                '\n' | '\t' if self.keep_lines => f.write_char(c)?,
                // A line break as Windows writes it is one line break.
                '\r' if self.keep_lines && characters.peek() == Some(&'\n') => {}
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if is_hidden(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Makes printed JSON safe for a terminal without changing its meaning: what `serde_json` leaves as it is (C1, bidirectional and
/// invisible characters, which stand only inside strings) becomes JSON's own `\uXXXX`.
pub fn escape_json(printed: &str) -> String {
    let mut safe = String::with_capacity(printed.len());
    let mut units = [0_u16; 2];
    for c in printed.chars() {
        if c == '\n' || !is_hidden(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(safe, "\\u{unit:04x}");
        }
    }
    safe
}

/// A character that a person does not see as itself: control characters (C0, DEL, C1), line and paragraph separators, and what Unicode
/// calls default-ignorable (zero-width, bidirectional controls, variation selectors, tags), with the interlinear marks.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164
            | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
            | 0x1_BCA0..=0x1_BCA3 | 0x1_D173..=0x1_D17A | 0xE_0000..=0xE_0FFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_escape_sequence_in_a_title_is_shown_and_not_obeyed() {
        assert_eq!(
            Untrusted("ok\u{1b}]0;owned\u{7}\u{9b}2J\u{7f}").to_string(),
            r"ok\u{1b}]0;owned\u{7}\u{9b}2J\u{7f}"
        );
    }

    #[test]
    fn a_title_cannot_forge_a_second_log_line() {
        assert_eq!(
            Untrusted("done\r\n2026-11-30 ERROR all lost\u{2028}x").to_string(),
            r"done\r\n2026-11-30 ERROR all lost\u{2028}x"
        );
    }

    #[test]
    fn bidirectional_and_invisible_characters_become_visible() {
        assert_eq!(
            Untrusted("rm \u{202e}txt.\u{2066}a\u{200b}b\u{feff}\u{ad}\u{e0041}\u{fe0f}").to_string(),
            r"rm \u{202e}txt.\u{2066}a\u{200b}b\u{feff}\u{ad}\u{e0041}\u{fe0f}"
        );
    }

    #[test]
    fn a_message_keeps_its_lines_and_tabs_but_no_bare_carriage_return() {
        assert_eq!(Untrusted("a\tb\r\nc\rd\u{8}").lines().to_string(), "a\tb\nc\\rd\\u{8}");
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark_and_a_fitting_one_is_not() {
        assert_eq!(Untrusted("äöüß").at_most(3).to_string(), "äöü…");
        assert_eq!(Untrusted("äöü").at_most(3).to_string(), "äöü");
        assert_eq!(Untrusted("a\nb\nc").at_most(2).lines().to_string(), "a\n…");
    }

    #[test]
    fn ordinary_text_of_any_script_is_left_alone() {
        let text = "Prüfe 检查 проверь اختبر C:\\path 'quoted' 🚀";
        assert_eq!(Untrusted(text).to_string(), text);
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"t": "a\u{202e}b\u{9b}c\u{e0041}\n\u{7f}", "n": [1, null]});
        let printed = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(printed.chars().all(|c| c == '\n' || !is_hidden(c)));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }

    /// Written apart from `is_hidden`, so that a hole there shows.
    fn is_dangerous(c: char) -> bool {
        ('\0'..='\u{1f}').contains(&c)
            || ('\u{7f}'..='\u{9f}').contains(&c)
            || "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}"
                .contains(c)
            || "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{2028}\u{2029}".contains(c)
    }

    /// Any text, with the characters that matter far more often than chance brings them.
    fn hostile() -> impl Strategy<Value = String> {
        let one = prop_oneof![
            any::<char>(),
            (0_u32..0xA0).prop_map(|c| char::from_u32(c).unwrap_or(' ')),
            (0x2000_u32..0x2070).prop_map(|c| char::from_u32(c).unwrap_or(' ')),
        ];
        proptest::collection::vec(one, 0..60).prop_map(|all| all.into_iter().collect())
    }

    proptest! {
        #[test]
        fn no_dangerous_character_ever_gets_through(text in hostile(), limit in 0_usize..80) {
            prop_assert!(!Untrusted(&text).to_string().chars().any(is_dangerous));
            prop_assert!(!Untrusted(&text).at_most(limit).to_string().chars().any(is_dangerous));
            let kept = Untrusted(&text).lines().to_string();
            prop_assert!(!kept.chars().any(|c| c != '\n' && c != '\t' && is_dangerous(c)));
        }

        #[test]
        fn text_without_such_characters_is_unchanged(text in "[ -~äöüßéπ中🚀]{0,60}") {
            prop_assert_eq!(Untrusted(&text).to_string(), text);
        }
    }
}
