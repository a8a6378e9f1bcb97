//! Texts made to measure, counted in characters, never inside one.

/// How long a title made of a prompt may be.
pub(super) const TITLE_CHARS: usize = 80;

/// What a new line takes in an answer's text: itself and the mark of the next line.
pub(super) const LINE_CHARS: usize = 3;

const ELLIPSIS: char = '…';

/// The title of a thread whose caller gave none: the prompt's first line with words, cut at a word.
pub(super) fn title_of(prompt: &str) -> String {
    let line = prompt
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    cut_at_word(&words, TITLE_CHARS)
}

/// At most `max` characters, cut after a word and marked with `…`; inside a word only where the first one is longer than that.
pub(super) fn cut_at_word(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let kept = head(text, max.saturating_sub(1));
    let next_is_space = text[kept.len()..].starts_with(char::is_whitespace);
    let at_word = if next_is_space {
        kept
    } else {
        kept.rfind(char::is_whitespace).map_or(kept, |end| &kept[..end])
    };
    let mut cut = at_word.trim_end().to_owned();
    cut.push(ELLIPSIS);
    cut
}

/// At most `max` characters, marked with `…` where it was cut.
pub(super) fn cut(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let mut cut = head(text, max.saturating_sub(1)).to_owned();
    cut.push(ELLIPSIS);
    cut
}

/// How much of a name that a caller gave an error repeats.
const QUOTED_CHARS: usize = 200;

/// A name that a caller gave, for an error that repeats it: it may be as long as a whole prompt.
pub(super) fn quoted(name: &str) -> String {
    cut(name, QUOTED_CHARS)
}

/// The text without what T3 cuts off at both ends.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(is_space_to_t3)
}

/// What JavaScript's `trim` takes for white space.
pub(super) fn is_space_to_t3(c: char) -> bool {
    // U+0085 is white space to Unicode and not to JavaScript, U+FEFF the other way round.
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// The longest beginning of `text` that takes at most `max` characters, as JSON and as marked lines.
pub(super) fn written_head(text: &str, max: usize) -> &str {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += written_chars(c);
        if taken > max {
            return &text[..at];
        }
    }
    text
}

/// How many characters a text takes at most, be it as JSON or as marked lines.
pub(super) fn written(text: &str) -> usize {
    text.chars().map(written_chars).sum()
}

/// How many characters a character takes at most: in JSON, or in a text whose every line is marked.
fn written_chars(c: char) -> usize {
    match c {
        '\n' => LINE_CHARS,
        '"' | '\\' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if u32::from(c) < 0x20 => 6,
        _ => 1,
    }
}

fn head(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_first_line_is_the_title() {
        assert_eq!(title_of("\n  Fix   the build \nand more"), "Fix the build");
    }

    #[test]
    fn a_long_first_line_is_cut_at_a_word() {
        let title = title_of(&"word ".repeat(40));
        assert!(title.ends_with("word…"));
        assert!(title.chars().count() <= TITLE_CHARS);
    }

    #[test]
    fn a_word_that_ends_exactly_at_the_limit_stays_whole() {
        let prompt = format!("{} next", "a".repeat(TITLE_CHARS - 1));
        assert_eq!(title_of(&prompt), format!("{}…", "a".repeat(TITLE_CHARS - 1)));
    }

    #[test]
    fn a_single_endless_word_is_cut_inside() {
        assert_eq!(title_of(&"x".repeat(500)).chars().count(), TITLE_CHARS);
    }

    proptest! {
        #[test]
        fn no_cut_is_longer_than_asked(text in "\\PC{0,200}", max in 1usize..120) {
            prop_assert!(cut(&text, max).chars().count() <= max);
            prop_assert!(cut_at_word(&text, max).chars().count() <= max);
        }

        #[test]
        fn a_head_takes_what_it_was_given_at_most(text in any::<String>(), max in 0usize..60) {
            let written = serde_json::to_string(written_head(&text, max)).unwrap_or_default();
            prop_assert!(written.chars().count() <= max + 2);
        }
    }
}
