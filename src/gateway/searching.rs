//! Searches for threads: T3's own over titles and messages where the server has it, else over what the mirror holds of them.

use std::collections::HashMap;
use std::time::Duration;

use crate::fleet::Member;
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::text;
use crate::machine::{SEARCH_MATCHES, SearchMatch, ThreadRow};
use crate::protocol::{ThreadId, Untrusted};

/// How many characters a query has; T3 takes no others.
const QUERY_CHARS: std::ops::RangeInclusive<usize> = 2..=200;

/// How long T3's search may take; then the mirror answers.
const SEARCH_WITHIN: Duration = Duration::from_secs(5);

/// How much of T3's words a log line repeats.
const LOGGED_CHARS: usize = 200;

/// What a title or message that is in the mirror is called where it matched.
const TITLE: &str = "title";
const MESSAGE: &str = "message";

/// A query that T3 takes.
pub(super) fn query_of(text: &str) -> Result<String, ToolError> {
    let query = text::trimmed(text);
    let chars = query.chars().count();
    if QUERY_CHARS.contains(&chars) {
        return Ok(query.to_owned());
    }
    Err(ToolError::new(
        ErrorCode::InvalidRequest,
        format!(
            "query has {chars} characters; it must have {} to {}.",
            QUERY_CHARS.start(),
            QUERY_CHARS.end()
        ),
    ))
}

/// What a search of one machine found.
#[derive(Debug)]
pub(super) struct Search {
    query: String,
    /// What T3 found; none where it did not search.
    found: Option<HashMap<ThreadId, SearchMatch>>,
    /// T3 told as much as it tells at once: there may be more.
    pub(super) full: bool,
}

/// Why a thread was found.
#[derive(Debug, PartialEq)]
pub(super) struct Match {
    pub(super) source: Option<String>,
    pub(super) snippet: Option<String>,
}

impl Search {
    /// Searches a machine. One that is away, or whose T3 cannot search, is searched in the mirror.
    pub(super) async fn of(member: &Member, query: &str) -> Self {
        let answer = if member.away().is_none() {
            tokio::time::timeout(SEARCH_WITHIN, member.machine.search(query)).await
        } else {
            Ok(Ok(None))
        };
        let found = match answer {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let error = error.to_string();
                tracing::debug!(machine = member.name(), error = %Untrusted(&error).at_most(LOGGED_CHARS), "T3's search failed");
                None
            }
            Err(_) => {
                tracing::debug!(machine = member.name(), "T3's search took too long");
                None
            }
        };
        let most = usize::try_from(SEARCH_MATCHES).unwrap_or(usize::MAX);
        Self {
            query: query.to_lowercase(),
            full: found.as_ref().is_some_and(|found| found.len() >= most),
            found: found.map(|found| found.into_iter().map(|one| (one.thread.clone(), one)).collect()),
        }
    }

    /// T3 itself searched.
    pub(super) fn by_t3(&self) -> bool {
        self.found.is_some()
    }

    /// Why the thread matches; none where it does not. Titles are looked at here too: T3 tells only so many, those of hidden projects among
    /// them.
    pub(super) fn matches(&self, row: &ThreadRow) -> Option<Match> {
        if let Some(found) = self.found.as_ref().and_then(|found| found.get(&row.id)) {
            return Some(Match {
                source: found.source.clone(),
                snippet: found.snippet.clone(),
            });
        }
        let holds = |text: &str| text.to_lowercase().contains(&self.query);
        let at = |source: &str, snippet: Option<String>| {
            Some(Match {
                source: Some(source.to_owned()),
                snippet,
            })
        };
        if holds(&row.title) || row.id.0.to_lowercase() == self.query {
            return at(TITLE, None);
        }
        match &row.last_message {
            Some(message) if holds(&message.text) => at(MESSAGE, Some(message.text.clone())),
            Some(_) | None => None,
        }
    }
}
