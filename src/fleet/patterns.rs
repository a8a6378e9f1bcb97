//! The allowlist's patterns, with the meaning of fnmatch: `*` crosses `/`, `?` is one character, `[ab]` and `[!ab]` are sets, case counts,
//! and everything else stands for itself.

// Not globset: it matches bytes, so that `?` would be half of an `ä`, and reads more than fnmatch does (`{a,b}`, `**`, `\\`).
use regex::Regex;

/// A list of patterns; the empty list matches nothing.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    words: Vec<String>,
    matchers: Vec<Regex>,
}

/// A pattern that cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the pattern `{pattern}` cannot be read: {reason}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Patterns {
    /// Reads patterns.
    pub fn new<I: IntoIterator<Item = S>, S: Into<String>>(patterns: I) -> Result<Self, PatternError> {
        let words: Vec<String> = patterns.into_iter().map(Into::into).collect();
        let matchers = words.iter().map(|word| compile(word)).collect::<Result<_, _>>()?;
        Ok(Self { words, matchers })
    }

    /// The patterns as they were written.
    pub fn as_written(&self) -> &[String] {
        &self.words
    }

    /// Whether one of them matches the whole text.
    pub fn matches(&self, text: &str) -> bool {
        self.matchers.iter().any(|matcher| matcher.is_match(text))
    }
}

fn compile(pattern: &str) -> Result<Regex, PatternError> {
    Regex::new(&to_regex(pattern)).map_err(|error| PatternError {
        pattern: pattern.to_owned(),
        reason: error.to_string(),
    })
}

fn to_regex(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    // A new line is a character like any other.
    let mut regex = String::from("(?s)^");
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => match set_end(&chars, at) {
                Some(end) => {
                    push_set(&mut regex, chars.get(at..end).unwrap_or_default());
                    at = end + 1;
                }
                // Without its end it is no set.
                None => regex.push_str(r"\["),
            },
            other => push_literal(&mut regex, other),
        }
    }
    regex.push('$');
    regex
}

/// The place of the `]` that ends the set that begins at `start`; a `]` in first place belongs to the set.
fn set_end(chars: &[char], start: usize) -> Option<usize> {
    let first = if chars.get(start) == Some(&'!') {
        start + 1
    } else {
        start
    };
    let from = first + 1;
    chars
        .get(from..)?
        .iter()
        .position(|&c| c == ']')
        .map(|found| from + found)
}

fn push_set(regex: &mut String, inside: &[char]) {
    let (open, body) = match inside.split_first() {
        Some((&'!', rest)) => ("[^", rest),
        _ => ("[", inside),
    };
    regex.push_str(open);
    for (at, &c) in body.iter().enumerate() {
        // Between two characters a hyphen makes a range; everything else stands for itself.
        if c == '-' && at > 0 && at + 1 < body.len() {
            regex.push('-');
        } else {
            push_literal(regex, c);
        }
    }
    regex.push(']');
}

fn push_literal(regex: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Patterns::new([pattern]).is_ok_and(|patterns| patterns.matches(text))
    }

    /// fnmatch, written as its definition reads, for comparison.
    fn fnmatch(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|skip| fnmatch(rest, &text[skip..])),
            Some(('?', rest)) => text.split_first().is_some_and(|(_, more)| fnmatch(rest, more)),
            Some((c, rest)) => text
                .split_first()
                .is_some_and(|(t, more)| t == c && fnmatch(rest, more)),
        }
    }

    #[test]
    fn a_star_crosses_slashes() {
        assert!(matches("/home/*/app", "/home/a/b/app"));
        assert!(matches("*", "/anything/at/all"));
        assert!(!matches("/home/*/app", "/home/app"));
    }

    #[test]
    fn two_stars_mean_what_one_means() {
        assert!(!matches("/a/**/b", "/a/b"));
        assert!(matches("/a/**/b", "/a/x/y/b"));
        assert!(!matches("**/b", "b"));
    }

    #[test]
    fn sets_and_their_negation() {
        assert!(matches("app-[abc]", "app-b"));
        assert!(!matches("app-[!abc]", "app-b"));
        assert!(matches("app-[!abc]", "app-x"));
        assert!(matches("app-[^b]", "app-b"), "a caret is no negation");
        assert!(matches("app-[^b]", "app-^"));
        assert!(matches("[^]", "^"));
        assert!(matches("a[]]b", "a]b"));
        assert!(matches("v[0-9]", "v7"));
    }

    #[test]
    fn case_counts_and_the_whole_text_must_match() {
        assert!(!matches("App", "app"));
        assert!(!matches("app", "app2"));
        assert!(!matches("app", "my/app"));
    }

    #[test]
    fn a_question_mark_is_one_character_of_any_script() {
        assert!(matches("m?hle", "mühle"));
        assert!(!matches("m?hle", "mhle"));
        assert!(matches("[äö]", "ö"));
        assert!(!matches("[!ä]", "ä"));
    }

    #[test]
    fn braces_backslashes_and_a_lone_bracket_stand_for_themselves() {
        assert!(matches("{a,b}", "{a,b}"));
        assert!(!matches("{a,b}", "a"));
        assert!(matches(r"C:\work\*", r"C:\work\app"));
        assert!(matches("a[b", "a[b"));
    }

    #[test]
    fn the_empty_list_matches_nothing() {
        assert!(!Patterns::default().matches(""));
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_definition(pattern in "[ab/*?{}.,\\\\^!-]{0,7}", text in "[ab/{}.,\\\\^!-]{0,7}") {
            let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
            prop_assert_eq!(matches(&pattern, &text), fnmatch(&p, &t));
        }
    }
}
