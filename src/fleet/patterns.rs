//! The allowlist's patterns, with the meaning of fnmatch: `*` crosses `/`, `?` is one character, `[ab]` and `[!ab]` are sets, case counts,
//! and everything else stands for itself.

use globset::{GlobBuilder, GlobMatcher};

/// A list of patterns; the empty list matches nothing.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    words: Vec<String>,
    matchers: Vec<GlobMatcher>,
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

fn compile(pattern: &str) -> Result<GlobMatcher, PatternError> {
    GlobBuilder::new(&to_glob(pattern))
        .literal_separator(false)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| PatternError {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        })
}

/// Takes away what globset reads beyond fnmatch: `{a,b}`, `**`, the backslash, `[^a]` as a negation, an error for a lone `[`.
fn to_glob(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut glob = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '*' => {
                if !glob.ends_with('*') || glob.ends_with("\\*") {
                    glob.push('*');
                }
            }
            '?' => glob.push('?'),
            '[' => match class_end(&chars, at) {
                Some(end) => {
                    push_class(&mut glob, chars.get(at..end).unwrap_or_default());
                    at = end + 1;
                }
                None => glob.push_str("\\["),
            },
            '{' | '}' | '\\' | ']' => {
                glob.push('\\');
                glob.push(c);
            }
            other => glob.push(other),
        }
    }
    glob
}

/// The place of the `]` that ends the set that begins at `start`; a `]` in first place belongs to the set.
fn class_end(chars: &[char], start: usize) -> Option<usize> {
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

fn push_class(glob: &mut String, inside: &[char]) {
    glob.push('[');
    let body = match inside.split_first() {
        Some((&'!', rest)) => {
            glob.push('!');
            rest
        }
        _ => inside,
    };
    match body.split_first() {
        // A caret in first place would negate; in last place it stands for itself.
        Some((&'^', rest)) if rest.is_empty() && !glob.ends_with('!') => {
            glob.pop();
            glob.push_str("\\^");
            return;
        }
        Some((&'^', rest)) if !rest.is_empty() && rest.first() != Some(&'-') => {
            glob.extend(rest);
            glob.push('^');
        }
        _ => glob.extend(body),
    }
    glob.push(']');
}
